//! Synchronous queries: all ranks ask the same question at the same time. Each costs one reduction and one broadcast; consistency, and an
//! estimate of the number of servers, cost more. It remembers nothing of earlier questions.

use atta_mounts::{Aliases, MountTable};

use crate::class::{Key, Wanted};
use crate::collective::{Collective, concluded};
use crate::consistency;
use crate::contents::{Contents, SystemContents};
use crate::distribution::{Answer, Distribution};
use crate::error::StatusError;
use crate::filter::{Estimate, Filter};
use crate::options::Options;
use crate::seen::{Named, Seen, named};
use crate::source_file::{Files, SystemFiles};
use crate::verdict::Verdict;

/// Members that are named of each class, unless all are asked for: so many ranks may share the work for a file.
pub(crate) const MEMBERS_MAX: u32 = 64;
/// The most bytes of classes in a message, unless all are asked for: 64 names of 16 KiB.
const CLASSES_BYTES_MAX: u64 = 1 << 20;
/// The most bytes of filters in a message.
const FILTERS_BYTES_MAX: usize = 16 << 20;

/// The mount table of this rank, and what all ranks know of servers.
pub struct Status<'t> {
    table: &'t MountTable,
    aliases: Aliases,
    pub(crate) options: Options,
    pub(crate) contents: &'t dyn Contents,
    pub(crate) files: &'t dyn Files,
}

impl std::fmt::Debug for Status<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Status").field("options", &self.options).finish_non_exhaustive()
    }
}

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
        let (aliases, options) =
            concluded(collective, Aliases::of(table), Aliases::merge, |aliases| (aliases, options))?;
        Ok(Self { table, aliases, options, contents: &SystemContents, files: &SystemFiles })
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
        let mut found = self.ask(collective, path, self.wanted())?;
        self.estimate(collective, std::slice::from_mut(&mut found))?;
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
        self.ask(collective, path, Wanted::ALL)
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
        Ok(self.ask(collective, path, self.wanted())?.is_fully_distributed())
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
        Ok(self.ask(collective, path, self.wanted())?.is_unique())
    }

    /// Whether the files that ranks see under a path are equal. A unique file is, and no rank opens it. Of other files the representatives of the
    /// groups compare sizes first, then digests, to which other ranks of their groups contribute if a file is large. Where there are more
    /// groups than the options allow, all ranks do. A path that exists on some ranks only is not consistent.
    ///
    /// # Errors
    /// As [`distribution`](Self::distribution); or a rank that must read the file cannot.
    pub fn is_consistent<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
    ) -> Result<Answer, StatusError<C::Error>> {
        let found = self.ask(collective, path, self.wanted())?;
        consistency::is_consistent(self, collective, path, &found)
    }

    pub(crate) fn wanted(&self) -> Wanted {
        let classes_max = self.options.classes_max.max(1);
        Wanted { bytes_max: CLASSES_BYTES_MAX, classes_max, members_max: MEMBERS_MAX }
    }

    pub(crate) fn named(&self, path: &[u8]) -> Named {
        named(self.table, &self.aliases, path)
    }

    pub(crate) const fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    pub(crate) fn table(&self) -> &'t MountTable {
        self.table
    }

    fn ask<C: Collective>(
        &self,
        collective: &mut C,
        path: &[u8],
        wanted: Wanted,
    ) -> Result<Distribution, StatusError<C::Error>> {
        let (rank, ranks) = (collective.rank(), collective.size());
        let named = self.named(path);
        let key = named.as_ref().map(|(uri, _)| uri.hash());
        let merge = |all: &mut Seen, more| all.merge(more, wanted);
        let conclude = |seen| Verdict::of(seen, ranks, self.options.assume_servers_differ);
        let verdict = concluded(collective, Seen::of(named, rank, wanted), merge, conclude)?;
        match verdict.missing {
            Some(rank) => Err(StatusError::NoMount { rank }),
            None => Ok(Distribution::new(verdict, (key, rank), &self.options, ranks)),
        }
    }

    /// Estimates the number of groups where that may decide, in one reduction. All ranks have the same numbers, so that all decide alike. Beyond
    /// the bytes of a message the numbers stay as they are.
    pub(crate) fn estimate<C: Collective>(
        &self,
        collective: &mut C,
        found: &mut [Distribution],
    ) -> Result<(), StatusError<C::Error>> {
        let names_max = collective.size().min(self.options.servers_max);
        let filters_max = (FILTERS_BYTES_MAX / Filter::new(names_max).bytes_max()).max(1);
        let open = found.iter_mut().filter(|found| found.needs_estimate());
        let open: Vec<_> = open.take(filters_max).collect();
        if open.is_empty() {
            return Ok(());
        }
        let own: Vec<_> = open.iter().map(|found| filter(found.own.0, names_max)).collect();
        let conclude = |all: Vec<Filter>| all.iter().map(Filter::estimate).collect::<Vec<Option<Estimate>>>();
        let estimates = concluded(collective, own, merge_filters, conclude)?;
        if estimates.len() != open.len() {
            return Err(StatusError::Protocol);
        }
        for (found, estimate) in open.into_iter().zip(estimates) {
            found.verdict.estimate(estimate.ok_or(StatusError::Protocol)?);
        }
        Ok(())
    }
}

/// Of ranks with other filters nothing is left.
fn merge_filters(all: &mut Vec<Filter>, more: Vec<Filter>) {
    all.truncate(more.len());
    all.iter_mut().zip(more).for_each(|(all, more)| all.merge(more));
}

/// A filter with the name of this rank.
fn filter(key: Option<Key>, names_max: u32) -> Filter {
    let mut filter = Filter::new(names_max);
    key.into_iter().for_each(|key| filter.insert(&key));
    filter
}
