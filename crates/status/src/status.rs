//! Synchronous queries: all ranks ask the same question at the same time. Each costs one reduction and one broadcast; consistency, and an
//! estimate of the number of servers, cost more. It remembers nothing of earlier questions.

use atta_mounts::{MountTable, Uri};
use atta_sys::file_systems::Reach;

use crate::class::{Key, Wanted};
use crate::collective::{Collective, concluded};
use crate::consistency;
use crate::contents::{Contents, SystemContents};
use crate::distribution::{Answer, Distribution};
use crate::error::StatusError;
use crate::filter::Filter;
use crate::known::Known;
use crate::look::{Look, named};
use crate::options::Options;
use crate::source_file::{Files, SystemFiles};
use crate::verdict::Verdict;

/// Members that are named of each class, unless all are asked for: so many ranks may share the work for a file.
pub(crate) const MEMBERS_MAX: u32 = 64;

/// The mount table of this rank, and what all ranks know of servers.
pub struct Status<'t> {
    table: &'t MountTable,
    known: Known,
    pub(crate) options: Options,
    pub(crate) contents: &'t dyn Contents,
    pub(crate) files: &'t dyn Files,
}

impl std::fmt::Debug for Status<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Status").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A path as this rank has it: its name and where its data is.
pub(crate) type Named = Option<(Uri, Reach)>;

impl<'t> Status<'t> {
    /// Gathers what all ranks know of servers. All ranks call this, before any query. The options of the first rank count on all.
    ///
    /// # Errors
    /// The ranks cannot communicate.
    pub fn join<C: Collective>(
        collective: &mut C,
        table: &'t MountTable,
        options: Options,
    ) -> Result<Self, StatusError<C::Error>> {
        let (known, options) =
            concluded(collective, Known::of(table), Known::merge, |known| (known, options))?;
        Ok(Self { table, known, options, contents: &SystemContents, files: &SystemFiles })
    }

    /// Reads files by other means.
    #[must_use]
    pub fn with_contents(self, contents: &'t dyn Contents) -> Self {
        Self { contents, ..self }
    }

    /// Opens files to read them for others by other means.
    #[must_use]
    pub fn with_files(self, files: &'t dyn Files) -> Self {
        Self { files, ..self }
    }

    /// How a path is distributed, with the number of its servers. `path` is made normal; symbolic links are not followed
    /// ([`resolved`](atta_mounts::resolved) does).
    ///
    /// # Errors
    /// The ranks cannot communicate, or the path is below no mount on one of them.
    pub fn distribution<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Distribution, StatusError<C::Error>> {
        let mut found = self.look(collective, path, self.wanted())?;
        self.estimate(collective, &mut found)?;
        Ok(found)
    }

    /// The same with all groups and all of their members, however many there are.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution).
    pub fn groups<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Distribution, StatusError<C::Error>> {
        self.look(collective, path, Wanted::ALL)
    }

    /// Whether all ranks have a path on their own hosts.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution).
    pub fn is_fully_distributed<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Answer, StatusError<C::Error>> {
        Ok(self.look(collective, path, self.wanted())?.is_fully_distributed())
    }

    /// Whether a path is on many servers, or on all hosts.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution).
    pub fn is_well_distributed<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Answer, StatusError<C::Error>> {
        Ok(self.distribution(collective, path)?.is_well_distributed())
    }

    /// Whether many ranks share a server of a path.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution).
    pub fn is_poorly_distributed<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Answer, StatusError<C::Error>> {
        Ok(self.distribution(collective, path)?.is_poorly_distributed())
    }

    /// Whether all ranks see one file under a path.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution).
    pub fn is_unique<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Answer, StatusError<C::Error>> {
        Ok(self.look(collective, path, self.wanted())?.is_unique())
    }

    /// Whether the files that ranks see under a path are equal. A unique file is, and no rank opens it. Of other files the representatives of the
    /// groups compare sizes first, then digests, to which other ranks of their groups contribute if a file is large. Where there are more
    /// groups than the options tell apart, all ranks do. A path that exists on some ranks only is not consistent.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution); or a rank that must read the file cannot.
    pub fn is_consistent<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Answer, StatusError<C::Error>> {
        let found = self.look(collective, path, self.wanted())?;
        consistency::is_consistent(self, collective, path, &found)
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { classes_max: self.options.classes_max.max(1), members_max: MEMBERS_MAX }
    }

    pub(crate) fn named(&self, path: &[u8]) -> Named {
        named(self.table, &self.known, path)
    }

    pub(crate) fn table(&self) -> &'t MountTable {
        self.table
    }

    fn look<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
        wanted: Wanted,
    ) -> Result<Distribution, StatusError<C::Error>> {
        let (rank, ranks) = (collective.rank(), collective.size());
        let named = self.named(path);
        let key = named.as_ref().map(|(uri, _)| uri.hash());
        let merge = |all: &mut Look, more| all.merge(more, wanted);
        let verdict: Verdict =
            concluded(collective, Look::of(named, rank), merge, |look| Verdict::of(look, ranks))?;
        match verdict.missing {
            Some(rank) => Err(StatusError::NoMount { rank }),
            None => Ok(Distribution::new(verdict, (key, rank), &self.options, ranks)),
        }
    }

    /// Estimates the number of groups, if that may decide. All ranks decide alike.
    pub(crate) fn estimate<C: Collective>(
        &self,
        collective: &mut C,
        found: &mut Distribution,
    ) -> Result<(), StatusError<C::Error>> {
        let groups = found.groups();
        let is_local = found.is_fully_distributed() == Answer::Yes;
        if is_local
            || groups.low > found.poor_max
            || groups.high <= found.poor_max
            || !found.list().is_empty()
        {
            return Ok(());
        }
        let own = filter(found.own.0, collective.size().min(self.options.servers_max));
        let estimate = concluded(collective, own, Filter::merge, |all| all.estimate())?;
        found.verdict.estimate(estimate.ok_or(StatusError::Protocol)?);
        Ok(())
    }
}

/// A filter with the name of this rank.
fn filter(key: Option<Key>, names_max: u32) -> Filter {
    let mut filter = Filter::new(names_max);
    key.into_iter().for_each(|key| filter.insert(&key));
    filter
}
