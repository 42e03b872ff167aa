//! What one reduction gathers of a path over all ranks: where its data is, and the classes of its names. It is bounded whatever the number of
//! ranks, unless all classes are wanted. It draws no conclusions; `verdict.rs` does.

use atta_code::record;
use atta_mounts::{MountTable, Uri};
use atta_sys::file_systems::Reach;

use crate::class::{Run, Wanted};
use crate::known::Known;

/// A path as some ranks see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The lowest rank on which the path is below no mount.
    pub(crate) missing: Option<u32>,
    pub(crate) reaches: Reaches,
    /// Some names may mean the same as others, for all that is known.
    pub(crate) has_indefinite: bool,
    pub(crate) run: Run,
}

record!(Look { missing, reaches, has_indefinite, run });

/// Where ranks have the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaches {
    pub(crate) local: u32,
    pub(crate) remote: u32,
    pub(crate) unknown: u32,
}

record!(Reaches { local, remote, unknown });

/// A path on this rank, with the name that all ranks understand. None: it is below no mount.
pub(crate) fn named(table: &MountTable, known: &Known, path: &[u8]) -> Option<(Uri, Reach)> {
    Some((known.completed(&table.uri_of(path)?), table.reach_of(path)?))
}

impl Look {
    /// What one rank sees.
    pub(crate) fn of(named: Option<(Uri, Reach)>, rank: u32) -> Self {
        let Some((uri, reach)) = named else {
            return Self { missing: Some(rank), ..Self::default() };
        };
        let reaches = Reaches {
            local: u32::from(reach == Reach::Local),
            remote: u32::from(reach == Reach::Remote),
            unknown: u32::from(matches!(reach, Reach::Unknown | Reach::Layers)),
        };
        let has_indefinite = !uri.identity().is_definite();
        Self { missing: None, reaches, has_indefinite, run: Run::of(uri, rank) }
    }

    pub(crate) fn merge(&mut self, other: Self, wanted: Wanted) {
        self.missing = self.missing.into_iter().chain(other.missing).min();
        let Reaches { local, remote, unknown } = other.reaches;
        self.reaches.local = self.reaches.local.saturating_add(local);
        self.reaches.remote = self.reaches.remote.saturating_add(remote);
        self.reaches.unknown = self.reaches.unknown.saturating_add(unknown);
        self.has_indefinite |= other.has_indefinite;
        self.run.merge(other.run, wanted);
    }
}
