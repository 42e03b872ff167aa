//! The experiments of LaFon, Misra and Bringhurst, "On Distributed File Tree Walk of Parallel File Systems" (2012), each named by the
//! number of its figure: the runs of each. `figures.rs` draws them.

use atta_engine::{ScheduleKind, Split};
use clap::ValueEnum;

/// An experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Bytes between ranks, centralized: 30 ranks, 6.5M files
    #[value(name = "1")]
    Centralized,
    /// Running times of all schedules, and where the time of hybrid goes: 5 to 40 workers, 6.5M files
    #[value(name = "3")]
    RunningTime,
    /// Messages and bytes: 40 workers, 6.5M and 110M files (takes minutes)
    #[value(name = "4")]
    Volume,
    /// Bytes between ranks, by schedule: 30 workers, 6.5M files
    #[value(name = "5")]
    Pairs,
    /// Work distribution: 20 workers, 110M files (takes minutes)
    #[value(name = "6")]
    Work,
}

impl Experiment {
    /// Numbers of files, and of workers. The paper does not state the number of ranks of figure 5; it is taken from figure 1. It does not
    /// state the two file systems of figure 4; they are the smallest and the largest.
    pub(crate) fn sizes(self) -> (&'static [u64], &'static [u32]) {
        const SMALL: u64 = 6_500_000;
        const LARGE: u64 = 110_000_000;
        match self {
            Self::Centralized | Self::Pairs => (&[SMALL], &[30]),
            Self::RunningTime => (&[SMALL], &[5, 10, 15, 20, 25, 30, 35, 40]),
            Self::Volume => (&[SMALL, LARGE], &[40]),
            Self::Work => (&[LARGE], &[20]),
        }
    }

    /// Schedules and splits.
    pub(crate) fn series(self) -> &'static [(ScheduleKind, Split)] {
        const CP: (ScheduleKind, Split) = (ScheduleKind::Centralized, Split::Random);
        const DRQS: (ScheduleKind, Split) = (ScheduleKind::Random, Split::Random);
        const DEQS: (ScheduleKind, Split) = (ScheduleKind::Random, Split::Equal);
        const PROXIMITY: (ScheduleKind, Split) = (ScheduleKind::Proximity, Split::Random);
        const HYBRID: (ScheduleKind, Split) = (ScheduleKind::Hybrid, Split::Random);
        match self {
            Self::Centralized => &[CP],
            Self::RunningTime => &[CP, DRQS, DEQS, PROXIMITY, HYBRID],
            Self::Volume => &[CP, PROXIMITY, HYBRID],
            Self::Pairs => &[CP, DRQS, PROXIMITY, HYBRID],
            Self::Work => &[DRQS, DEQS, PROXIMITY, HYBRID],
        }
    }
}
