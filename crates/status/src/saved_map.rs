//! A map of mount points in a file, for programs without ranks: they ask the same questions, of a job as it was. It does not know what has
//! changed since; its age says how much that may be.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use atta_code::{Code, record};
use atta_mounts::MountTable;

use crate::collective::{Collective, concluded};
use crate::distribution::Distribution;
use crate::error::StatusError;
use crate::known::Known;
use crate::mount_map::MountMap;
use crate::sealed::{Kind, SealedError, read, sealed, unsealed, write};
use crate::speeds::seconds;
use crate::status::Status;
use crate::verdict::Verdict;

/// What the file begins with, and the most bytes that are read: 16,384 mount points with 64 groups each.
const KIND: Kind = Kind { magic: *b"atta map", bytes_max: 256 << 20 };

/// A map of mount points with what is needed to ask it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMap {
    /// When it was made, in seconds since 1970.
    saved_at: u64,
    ranks: u32,
    poor_max: u32,
    /// What all ranks know of servers.
    known: Known,
    points: BTreeMap<Vec<u8>, Verdict>,
    /// Names of the hosts of representatives.
    hosts: BTreeMap<u32, Vec<u8>>,
}

record!(SavedMap { saved_at, ranks, poor_max, known, points, hosts } if is_valid);

impl SavedMap {
    fn is_valid(&self) -> bool {
        self.ranks > 0
    }

    /// Adds to a map what a program without ranks needs. All ranks call this together, with the map that they built together; one of them then
    /// saves it.
    ///
    /// # Errors
    /// The ranks cannot communicate.
    pub fn gather<C: Collective>(
        status: &Status<'_>,
        collective: &mut C,
        map: &MountMap,
        now: SystemTime,
    ) -> Result<Self, StatusError<C::Error>> {
        let (rank, ranks) = (collective.rank(), collective.size());
        let mut groups = map.points().flat_map(|(_, found)| found.list());
        let is_representative = groups.any(|group| group.members.first() == Some(rank));
        let own: BTreeMap<_, _> =
            is_representative.then(|| (rank, host_of(status.table()))).into_iter().collect();
        let merge = |all: &mut BTreeMap<_, _>, more| all.extend::<BTreeMap<_, _>>(more);
        let (hosts, saved_at) = concluded(collective, own, merge, |hosts| (hosts, seconds(now)))?;
        Ok(Self {
            saved_at,
            ranks,
            poor_max: status.options.poor_max(ranks),
            known: status.known().clone(),
            points: map.points().map(|(point, found)| (point.to_vec(), found.verdict.clone())).collect(),
            hosts,
        })
    }

    /// The map as this process can ask it. The path of a question is found by the mount points of the ranks. [`MountMap::descriptor`] has the
    /// group of ranks that see what this process sees; none: this process sees something else, or there are too many groups. It has no rank in
    /// the group.
    #[must_use]
    pub fn map(&self, table: &MountTable) -> MountMap {
        let of = |verdict: &Verdict, key| Distribution {
            verdict: verdict.clone(),
            own: (key, u32::MAX),
            poor_max: self.poor_max,
        };
        let key = |point: &[u8]| Some(self.known.completed(&table.uri_of(point)?).hash());
        let own = |(point, verdict): (&Vec<u8>, &_)| (point.clone(), of(verdict, key(point)));
        let ranks_points = MountMap::of(self.points.iter().map(own).collect());
        // Below a mount that only this process has, it sees something else.
        let only_here = table.iter().filter_map(|(mount, _)| {
            let found = ranks_points.distribution(&mount.point)?;
            let is_visible = table.mount_of(&mount.point).is_some_and(|visible| std::ptr::eq(visible, mount));
            let is_new = is_visible && !self.points.contains_key(&mount.point);
            is_new.then(|| (mount.point.clone(), of(&found.verdict, None)))
        });
        MountMap::of(
            ranks_points
                .points()
                .map(|(point, found)| (point.to_vec(), found.clone()))
                .chain(only_here)
                .collect(),
        )
    }

    /// How old it is; zero if the clock was set back.
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Duration {
        Duration::from_secs(seconds(now).saturating_sub(self.saved_at))
    }

    /// The number of ranks of the job.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The name of the host of a group's representative.
    #[must_use]
    pub fn host(&self, representative: u32) -> Option<&[u8]> {
        self.hosts.get(&representative).map(Vec::as_slice)
    }

    /// Replaces a file in one step.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written, or the map is too large for a file.
    pub fn save(&self, path: &Path) -> Result<(), SealedError> {
        let bytes = self.to_bytes();
        if bytes.len() > KIND.bytes_max {
            return Err(SealedError::TooLarge(KIND.bytes_max));
        }
        write(path, &bytes)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not what this version of the program wrote.
    pub fn load(path: &Path) -> Result<Self, SealedError> {
        Self::from_bytes(&read(path, &KIND)?)
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        sealed(&self.encoded(), &KIND)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) returns.
    ///
    /// # Errors
    /// They are something else, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealedError> {
        Self::decode_all(unsealed(bytes, &KIND)?).ok_or(SealedError::Damaged)
    }
}

/// The name of the host, as its mounts have it.
fn host_of(table: &MountTable) -> Vec<u8> {
    let root = table.iter().next();
    root.map(|(_, uri)| uri.identity().device.host.name.clone()).unwrap_or_default()
}
