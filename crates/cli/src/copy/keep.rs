//! The arguments of `atta copy` that choose what is kept besides the bytes, and their meaning for the library. No I/O, except for names of
//! users and groups and for files of rules.

use atta_ops::copy::{ExtendedNames, Keep, Owners};
use clap::{Args, ValueEnum};

use super::owners;
use crate::run::refused::Refused;

/// Something that a copy can have of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kept {
    /// Permission bits; set-user-ID and set-group-ID bits only together with owner
    Mode,
    /// Owner and group
    #[value(alias = "ownership")]
    Owner,
    /// Access and modification times
    #[value(alias = "timestamps")]
    Times,
    /// Extended attributes; --xattrs selects which
    #[value(alias = "xattr")]
    Xattrs,
    /// Access control lists
    Acl,
    /// Hard links; otherwise each name becomes a separate file
    Links,
    /// Everything
    All,
    /// Nothing
    None,
}

/// What is kept.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Metadata to preserve")]
pub(crate) struct KeepArguments {
    /// Metadata to preserve, separated by commas
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    pub(crate) preserve: Vec<Kept>,

    /// Extended attributes to preserve: all, none, or patterns of names, such as 'user.*,security.capability' [default: all
    /// except 'lustre.*', and except 'trusted.*' unless run by root]. ACLs are controlled by --preserve
    #[arg(long, value_name = "all|none|PATTERN", value_delimiter = ',')]
    pub(crate) xattrs: Vec<String>,

    /// Change owners: USER:GROUP, USER or :GROUP for all entries; or rules, such as
    /// 'uid:alice=bob,uid:1000-1999=101000-101999,gid:*=users', of which the first match applies; or @FILE with one rule
    /// per line [may be repeated]
    #[arg(long, value_name = "MAP")]
    pub(crate) chown: Vec<String>,
}

impl KeepArguments {
    /// The attributes to keep.
    pub(crate) fn keep(&self) -> Result<Keep, Refused> {
        Ok(Keep { owners: self.owners()?, ..self.without_owners()? })
    }

    /// The same with the owners that another rank has looked up; that rank reports errors in the other options.
    pub(crate) fn with_owners(&self, owners: Owners) -> Keep {
        Keep { owners, ..self.without_owners().unwrap_or_default() }
    }

    /// Whether modes are preserved.
    pub(crate) fn keeps_modes(&self) -> bool {
        self.preserve.iter().any(|kept| matches!(kept, Kept::Mode | Kept::All))
    }

    fn without_owners(&self) -> Result<Keep, Refused> {
        let keeps = |kept| self.preserve.iter().any(|each| *each == kept || *each == Kept::All);
        let hint = "all or none stands alone; else name what to keep, as in mode,times";
        if self.preserve.len() > 1 && self.preserve.iter().any(|kept| matches!(kept, Kept::All | Kept::None))
        {
            return Err(Refused::usage("--preserve with all or none, and with others".to_owned(), hint));
        }
        if !self.xattrs.is_empty() && !keeps(Kept::Xattrs) {
            let what =
                "--xattrs says which extended attributes to keep, and --preserve keeps none".to_owned();
            return Err(Refused::usage(what, "add xattrs to --preserve"));
        }
        let extended = if keeps(Kept::Xattrs) { self.extended()? } else { ExtendedNames::None };
        Ok(Keep {
            mode: keeps(Kept::Mode),
            owner: keeps(Kept::Owner),
            times: keeps(Kept::Times),
            links: keeps(Kept::Links),
            lists: keeps(Kept::Acl),
            extended,
            owners: Owners::default(),
        })
    }

    fn extended(&self) -> Result<ExtendedNames, Refused> {
        let words: Vec<&str> = self.xattrs.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Ok(ExtendedNames::Usual),
            ["all"] => Ok(ExtendedNames::All),
            ["none"] => Ok(ExtendedNames::None),
            words if words.iter().any(|word| matches!(*word, "" | "all" | "none")) => {
                let what = "--xattrs with all, none or nothing among patterns".to_owned();
                Err(Refused::usage(what, "all or none stands alone; patterns are as in 'user.*'"))
            }
            words => Ok(ExtendedNames::Matching(words.iter().map(|word| word.as_bytes().to_vec()).collect())),
        }
    }

    fn owners(&self) -> Result<Owners, Refused> {
        let hint = "as in alice:users, :users, 'uid:alice=bob,gid:100-199=1100-1199' or @FILE";
        let mut owners = Owners::default();
        for map in &self.chown {
            owners::add(map, &mut owners)
                .map_err(|why| Refused::usage(format!("--chown {map}: {why}"), hint))?;
        }
        Ok(owners)
    }
}
