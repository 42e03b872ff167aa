//! What one reduction gathers of a path over all ranks: where its data is, and the classes of its names. It is bounded whatever the number of
//! ranks, unless all classes are wanted. It draws no conclusions; `verdict.rs` does.

use atta_code::record;
use atta_mounts::{Aliases, Holder, Identity, MountTable, Server, Uri};
use atta_sys::file_systems::{Reach, UriRule};

use crate::class::{Run, Wanted};

/// A path as some ranks see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The lowest rank on which the path is below no mount.
    pub(crate) missing: Option<u32>,
    pub(crate) reaches: Reaches,
    pub(crate) kinds: Kinds,
    pub(crate) run: Run,
}

record!(Seen { missing, reaches, kinds, run });

/// Where ranks have the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaches {
    pub(crate) local: u32,
    pub(crate) remote: u32,
    pub(crate) unknown: u32,
}

record!(Reaches { local, remote, unknown });

/// Which kinds of names there are, by what is known of their relations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Names that are the same or different among themselves.
    pub(crate) has_definite: bool,
    /// NFS servers, which the options can take for different ones.
    pub(crate) has_nfs: bool,
    pub(crate) has_others: bool,
}

record!(Kinds { has_definite, has_nfs, has_others });

impl Kinds {
    fn of(identity: &Identity) -> Self {
        let (has_definite, has_nfs) = (identity.is_definite(), is_nfs(identity));
        Self { has_definite, has_nfs, has_others: !has_definite && !has_nfs }
    }

    /// Whether any two names with different keys are different files.
    pub(crate) const fn all_differ(self, do_servers_differ: bool) -> bool {
        !self.has_others && (!self.has_nfs || (do_servers_differ && !self.has_definite))
    }
}

/// Whether it is on an NFS server that other hosts reach by the same address.
pub(crate) fn is_nfs(identity: &Identity) -> bool {
    let is_export = identity.known().is_some_and(|known| known.mounts.rule == UriRule::Export);
    match &identity.holder {
        Holder::Servers(servers) => is_export && !servers.known().iter().any(Server::is_of_one_host),
        _ => false,
    }
}

/// A path on this rank: the name that all ranks understand, and where its data is. None: it is below no mount.
pub(crate) type Named = Option<(Uri, Reach)>;

pub(crate) fn named(table: &MountTable, aliases: &Aliases, path: &[u8]) -> Named {
    Some((aliases.completed(&table.uri_of(path)?), table.reach_of(path)?))
}

impl Seen {
    /// What one rank sees.
    pub(crate) fn of(named: Named, rank: u32, wanted: Wanted) -> Self {
        let Some((uri, reach)) = named else {
            return Self { missing: Some(rank), ..Self::default() };
        };
        let reaches = Reaches {
            local: u32::from(reach == Reach::Local),
            remote: u32::from(reach == Reach::Remote),
            unknown: u32::from(matches!(reach, Reach::Unknown | Reach::Layers)),
        };
        let kinds = Kinds::of(uri.identity());
        Self { missing: None, reaches, kinds, run: Run::of(uri, rank, wanted) }
    }

    pub(crate) fn merge(&mut self, other: Self, wanted: Wanted) {
        self.missing = self.missing.into_iter().chain(other.missing).min();
        let Reaches { local, remote, unknown } = other.reaches;
        self.reaches.local = self.reaches.local.saturating_add(local);
        self.reaches.remote = self.reaches.remote.saturating_add(remote);
        self.reaches.unknown = self.reaches.unknown.saturating_add(unknown);
        self.kinds.has_definite |= other.kinds.has_definite;
        self.kinds.has_nfs |= other.kinds.has_nfs;
        self.kinds.has_others |= other.kinds.has_others;
        self.run.merge(other.run, wanted);
    }
}
