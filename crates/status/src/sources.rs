//! Which ranks read a file for which others. One rank of each group that sees the same file opens it, and all ranks learn what it found. It reads no
//! contents: `spread.rs` does.

use std::collections::{BTreeMap, BTreeSet};

use atta_entry::Errno;
use atta_runtime::Stop;

use crate::collective::{Collective, concluded};
use crate::distribution::{Answer, Distribution};
use crate::error::StatusError;
use crate::ranks::Ranks;
use crate::source_file::{Facts, Files, SourceFile};
use crate::status::Status;
use crate::verdict::Group;

/// What the representatives of groups have found, by their ranks.
type Looks = BTreeMap<u32, Result<Facts, Errno>>;

/// The files that ranks see under a path. All ranks have the same, but for what they have opened.
pub struct Sources<'t> {
    pub(crate) path: Vec<u8>,
    pub(crate) rank: u32,
    pub(crate) files: &'t dyn Files,
    /// On a representative.
    pub(crate) file: Option<Box<dyn SourceFile>>,
    pub(crate) stop: Stop,
    found: Distribution,
    looks: Looks,
    /// The lowest rank that has it.
    lender: Option<u32>,
    lends: bool,
    is_once: bool,
}

impl std::fmt::Debug for Sources<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Sources").field("looks", &self.looks).finish_non_exhaustive()
    }
}

impl<'t> Sources<'t> {
    /// Finds the groups of ranks that see one file. The lowest rank of each opens it. All ranks call this together. Each passes its own path.
    ///
    /// # Errors
    /// As [`Status::distribution`]. That a rank cannot open the file is none: see [`looks`](Self::looks).
    pub fn find<C: Collective>(
        collective: &mut C,
        status: &Status<'t>,
        path: &[u8],
    ) -> Result<Self, StatusError<C::Error>> {
        let (found, rank, files) = (status.groups(collective, path)?, collective.rank(), status.files);
        let is_first = found.own_group().and_then(|group| group.members.first()) == Some(rank);
        let opened = is_first.then(|| files.open(path));
        let own = opened.as_ref().map(|opened| match opened {
            Ok(file) => Ok(file.facts()),
            Err(errno) => Err(*errno),
        });
        let own: Looks = own.map(|look| (rank, look)).into_iter().collect();
        let looks = concluded(collective, own, Looks::extend, |all| all)?;
        let file = opened.and_then(Result::ok);
        let lender = looks.iter().find(|(_, look)| look.is_ok()).map(|(rank, _)| *rank);
        let (path, stop, lends, is_once) = (path.to_vec(), Stop::new(), false, false);
        Ok(Self { path, rank, files, file, stop, found, looks, lender, lends, is_once })
    }

    /// Ranks whose representative does not have the file get that of the lowest one that has it. All ranks choose alike.
    #[must_use]
    pub fn lending(self) -> Self {
        Self { lends: true, ..self }
    }

    /// One rank of each group reads even if the file is well distributed. All ranks choose alike.
    #[must_use]
    pub fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// A request to end: who reads fails with EINTR.
    #[must_use]
    pub fn with_stop(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// How the path is distributed, with all members of all groups.
    #[must_use]
    pub fn distribution(&self) -> &Distribution {
        &self.found
    }

    /// What the lowest rank of each group has found, by its number.
    #[must_use]
    pub fn looks(&self) -> &BTreeMap<u32, Result<Facts, Errno>> {
        &self.looks
    }

    /// The rank that reads for this one, and what it found.
    #[must_use]
    pub fn own(&self) -> Option<(u32, Result<Facts, Errno>)> {
        let reader = self.reader_for(self.found.own_group()?.members.first()?);
        self.looks.get(&reader).map(|look| (reader, *look))
    }

    /// Whether each rank reads for itself.
    pub(crate) fn is_direct(&self) -> bool {
        let borrows = || {
            self.found
                .list()
                .iter()
                .filter_map(|group| group.members.first())
                .any(|first| self.reader_for(first) != first)
        };
        !self.is_once && self.found.is_well_distributed() == Answer::Yes && !borrows()
    }

    /// The rank that reads for a group with this representative.
    fn reader_for(&self, representative: u32) -> u32 {
        match self.looks.get(&representative) {
            Some(Err(Errno::NOENT)) if self.lends => self.lender.unwrap_or(representative),
            _ => representative,
        }
    }

    /// The ranks that the file goes to from this reader, in the order of a chain: the reader first, then those after it.
    pub(crate) fn audience(&self, reader: u32, among: &Ranks) -> Vec<u32> {
        let among: BTreeSet<u32> = among.iter().collect();
        let is_served =
            |group: &&Group| group.members.first().is_some_and(|first| self.reader_for(first) == reader);
        let served = self.found.list().iter().filter(is_served).flat_map(|group| group.members.iter());
        let mut all: Vec<u32> = served.filter(|rank| *rank == reader || among.contains(rank)).collect();
        all.sort_unstable();
        let at = all.binary_search(&reader).unwrap_or(0);
        all.rotate_left(at);
        all
    }
}
