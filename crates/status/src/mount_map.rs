//! Queries without a message: all ranks build a map of all mount points together, and then each answers alone, from memory. The map has the mount
//! points of all ranks: below one of them, and above the next, every rank sees the names of the same mounts. It does not notice mounts that
//! change later; then build another one. It knows nothing of contents.

use std::collections::BTreeMap;

use atta_mounts::normal;

use crate::collective::{Collective, concluded};
use crate::distribution::{Answer, Descriptor, Distribution};
use crate::error::StatusError;
use crate::look::Look;
use crate::status::Status;
use crate::verdict::{Groups, Verdict};

/// The most mount points of all ranks together. With more there is no answer.
const POINTS_MAX: usize = 1 << 14;

/// Mount points of ranks. None: too many.
type Points = Option<BTreeMap<Vec<u8>, ()>>;

/// How all mount points are distributed.
#[derive(Clone, Debug)]
pub struct MountMap {
    points: BTreeMap<Vec<u8>, Distribution>,
}

impl MountMap {
    pub(crate) const fn of(points: BTreeMap<Vec<u8>, Distribution>) -> Self {
        Self { points }
    }

    /// The mount points of all ranks, and how each is distributed.
    pub fn points(&self) -> impl Iterator<Item = (&[u8], &Distribution)> {
        self.points.iter().map(|(point, found)| (&point[..], found))
    }

    /// Builds the map. All ranks call this.
    ///
    /// # Errors
    /// The ranks cannot communicate, or do not take the same steps.
    pub fn build<C: Collective>(
        status: &Status<'_>,
        collective: &mut C,
    ) -> Result<Self, StatusError<C::Error>> {
        let own = bounded(status.table().iter().map(|(mount, _)| (mount.point.clone(), ())).collect());
        let points = concluded(collective, own, merge_points, |points| points)?.unwrap_or_default();
        let (rank, ranks) = (collective.rank(), collective.size());
        let named: Vec<_> = points.keys().map(|point| status.named(point)).collect();
        let keys: Vec<_> = named.iter().map(|named| named.as_ref().map(|(uri, _)| uri.hash())).collect();
        let looks = named.into_iter().map(|named| Look::of(named, rank)).collect();
        let count = points.len();
        let merge = |all: &mut Vec<Look>, more: Vec<Look>| {
            // Ranks with other points have no map.
            all.truncate(more.len());
            all.iter_mut().zip(more).for_each(|(all, more)| all.merge(more, status.wanted()));
        };
        let conclude =
            |looks: Vec<Look>| looks.into_iter().map(|look| Verdict::of(look, ranks)).collect::<Vec<_>>();
        let verdicts = concluded(collective, looks, merge, conclude)?;
        if verdicts.len() != count {
            return Err(StatusError::Protocol);
        }
        let mut map = BTreeMap::new();
        for ((point, key), verdict) in points.into_keys().zip(keys).zip(verdicts) {
            let mut found = Distribution::new(verdict, (key, rank), &status.options, ranks);
            status.estimate(collective, &mut found)?;
            map.insert(point, found);
        }
        Ok(Self { points: map })
    }

    /// How a path is distributed. None: no mount is above it. Symbolic links are not followed. Only the lowest members of groups are known.
    #[must_use]
    pub fn distribution(&self, path: &[u8]) -> Option<&Distribution> {
        let path = normal(path)?;
        let mut point = &path[..];
        loop {
            if let Some(found) = self.points.get(point) {
                return Some(found);
            }
            let end = point.iter().rposition(|byte| *byte == b'/')?;
            match end {
                0 if point == b"/" => return None,
                0 => point = b"/",
                end => point = &point[..end],
            }
        }
    }

    /// Whether all ranks have a path on their own hosts.
    #[must_use]
    pub fn is_fully_distributed(&self, path: &[u8]) -> Answer {
        self.answer(path, Distribution::is_fully_distributed)
    }

    /// Whether a path is on many servers, or on all hosts.
    #[must_use]
    pub fn is_well_distributed(&self, path: &[u8]) -> Answer {
        self.answer(path, Distribution::is_well_distributed)
    }

    /// Whether many ranks share a server of a path.
    #[must_use]
    pub fn is_poorly_distributed(&self, path: &[u8]) -> Answer {
        self.answer(path, Distribution::is_poorly_distributed)
    }

    /// Whether all ranks see one file under a path.
    #[must_use]
    pub fn is_unique(&self, path: &[u8]) -> Answer {
        self.answer(path, Distribution::is_unique)
    }

    /// Whether the files under a path are equal: one file is, and of others only their contents tell.
    #[must_use]
    pub fn is_consistent(&self, path: &[u8]) -> Answer {
        match self.is_unique(path) {
            Answer::Yes => Answer::Yes,
            Answer::No | Answer::Unknown => Answer::Unknown,
        }
    }

    /// The number of different files that ranks see under a path. None: no mount is above it.
    #[must_use]
    pub fn groups(&self, path: &[u8]) -> Option<Groups> {
        self.distribution(path).map(Distribution::groups)
    }

    /// This rank among those that see the same file under a path. None: there are too many groups, or no mount is above the path.
    #[must_use]
    pub fn descriptor(&self, path: &[u8]) -> Option<Descriptor> {
        self.distribution(path)?.descriptor()
    }

    fn answer(&self, path: &[u8], of: impl Fn(&Distribution) -> Answer) -> Answer {
        self.distribution(path).map_or(Answer::Unknown, of)
    }
}

fn merge_points(all: &mut Points, more: Points) {
    *all = match (all.take(), more) {
        (Some(mut all), Some(more)) => {
            all.extend(more);
            bounded(all)
        }
        _ => None,
    };
}

fn bounded(points: BTreeMap<Vec<u8>, ()>) -> Points {
    (points.len() <= POINTS_MAX).then_some(points)
}
