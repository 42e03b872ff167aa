//! Scores of mount points and the requirements that they do not meet, as the first rank concludes them. Pure.

use super::needs::Needs;
use super::place::{Place, PlaceSpeed, Unmet};
use super::requirements::{DistributionRequirement, Requirements, ScalabilityRequirement, SpeedRequirement};
use super::room::Looked;
use crate::distribution::{Answer, Distribution};

/// From here on a speed is high: bytes a second, and in the table of types.
const HIGH: (u64, u32) = (200_000_000, 2);

impl Needs {
    /// The speed of one process there.
    pub(crate) const fn speed(&self) -> PlaceSpeed {
        PlaceSpeed { measured: self.measured, rating: self.rating.0 }
    }
}

/// A mount point before it is compared with others.
pub(crate) struct Found<'a> {
    pub(crate) needs: &'a Needs,
    pub(crate) looked: &'a Looked,
    pub(crate) distribution: &'a Distribution,
}

impl Found<'_> {
    /// What does not suit.
    pub(crate) fn unmet(&self, wanted: &Requirements) -> Vec<Unmet> {
        let read_only = self.needs.read_only.filter(|_| wanted.writable).map(|rank| Unmet::ReadOnly { rank });
        let mut unmet: Vec<_> = read_only.into_iter().collect();
        unmet.extend(self.looked.silent.map(|rank| Unmet::NoAnswer { rank }));
        unmet.extend(self.looked.unreadable.map(|(rank, errno)| Unmet::Unreadable { rank, errno }));
        unmet.extend(self.looked.not_writable.map(|(rank, errno)| Unmet::NotWritable { rank, errno }));
        let is_short = self.looked.tightest.is_some_and(|tightest| !tightest.fits());
        unmet.extend(is_short.then_some(Unmet::Space));
        unmet.extend(self.unmet_speed(wanted).then_some(Unmet::Speed));
        unmet.extend(self.unmet_distribution(wanted));
        let is_single = wanted.scalability == Some(ScalabilityRequirement::Multi) && self.needs.rating.1 <= 1;
        unmet.extend(is_single.then_some(Unmet::Scalability));
        unmet
    }

    fn unmet_speed(&self, wanted: &Requirements) -> bool {
        let PlaceSpeed { measured, rating } = self.needs.speed();
        let is_high = measured.map_or(rating >= HIGH.1, |bytes| bytes >= HIGH.0);
        wanted.speed == Some(SpeedRequirement::High) && !is_high
    }

    fn unmet_distribution(&self, wanted: &Requirements) -> Option<Unmet> {
        let found = self.distribution;
        let answer = match wanted.distribution? {
            DistributionRequirement::Unique => found.is_unique(),
            // One directory is on few servers, also if it is on the only host.
            DistributionRequirement::Low if found.is_unique() == Answer::Yes => Answer::Yes,
            DistributionRequirement::Low => found.is_poorly_distributed(),
            DistributionRequirement::High => found.is_well_distributed(),
            DistributionRequirement::Full => found.is_fully_distributed(),
        };
        match answer {
            Answer::Yes => None,
            Answer::No => Some(Unmet::Distribution),
            Answer::Unknown => Some(Unmet::DistributionUnknown),
        }
    }
}

/// Scores places and sorts them: those with the fewest unmet requirements first, so suitable ones at the front, then by score.
pub(crate) fn rank(places: &mut [Place], ranks: u32) {
    let unit = unit_of(places);
    let speed = |place: &Place| {
        let PlaceSpeed { measured, rating } = place.speed;
        measured.map_or(f64::from(rating) * unit, |bytes| bytes as f64)
    };
    let fastest = places.iter().map(speed).fold(0.0, f64::max);
    for place in &mut *places {
        let relative = if fastest > 0.0 { speed(place) / fastest } else { 0.0 };
        place.score = score(place.scalability, place.ranks_per_source(ranks), relative);
    }
    places.sort_by(|one, other| {
        let unmet = one.unmet.len().cmp(&other.unmet.len());
        unmet.then(other.score.total_cmp(&one.score)).then_with(|| one.point.cmp(&other.point))
    });
}

/// Ahn et al. 2013, section III.F: full speed up to as many processes as the file system serves at once, then in inverse proportion to their
/// number. `speed`: of the fastest one.
fn score(scalability: u32, processes: f64, speed: f64) -> f64 {
    let scalability = f64::from(scalability.max(1));
    scalability / scalability.max(processes) * speed
}

/// How many bytes a second 1 in the table stands for: the geometric mean over all places of which both are known, so that those of which
/// only one is known can be compared.
fn unit_of(places: &[Place]) -> f64 {
    let unit = |place: &Place| {
        let bytes = place.speed.measured.filter(|bytes| *bytes > 0)?;
        Some((bytes as f64 / f64::from(place.speed.rating.max(1))).ln())
    };
    let units: Vec<f64> = places.iter().filter_map(unit).collect();
    if units.is_empty() { 1.0 } else { (units.iter().sum::<f64>() / units.len() as f64).exp() }
}
