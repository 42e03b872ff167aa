//! Totals that the ranks of a walk add up at its end, and their evaluation on the first rank. Counting entries and printing are elsewhere.

use std::time::Duration;

use atta_catalog::ShardRecord;
use atta_ops::walk::{Outcome, Profile, Totals};
use atta_runtime::{Seat, SpillReport, processor_time};

use super::report::Whole;
use super::sink::SinkWorker;
use super::threads::{RankReport, grouped, rows_of};
use crate::run::fatal::Fatal;
use crate::run::share::Share;

/// Most bytes of a text that a rank sends.
const TEXT_BYTES_MAX: usize = 1024;

/// Truncates a text, which may contain a path.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

/// Totals that ranks add up at the end of a walk. On more than 64 ranks, the share of one rank is at most 8 KiB, plus 64 bytes for each
/// shard of a catalog.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankTotals {
    profile: Profile,
    pub(super) totals: Totals,
    elapsed: Duration,
    /// Spilled tasks and bytes.
    spilled: [u64; 2],
    /// A rank that could not spill, and the reason.
    spill_error: Option<(u32, String)>,
    /// Exit code of a caught signal; 0 if none.
    pub(super) interrupted: u8,
    /// A rank that cannot continue, and the reason.
    fatal: Option<(u32, String)>,
    pub(super) shards: Vec<ShardRecord>,
    ranks: Vec<RankReport>,
}

atta_entry::record!(RankTotals {
    profile,
    totals,
    elapsed,
    spilled,
    spill_error,
    interrupted,
    fatal,
    shards,
    ranks
});

/// Facts about this rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) seat: Seat,
    /// Processor time of this process when the ranks had met: the time of launching them does not count as the walk's.
    pub(super) met: Duration,
    /// Whether to report the traffic between ranks.
    pub(super) traffic: bool,
}

impl RankTotals {
    /// The totals of this rank after its walk.
    pub(super) fn new(own: Own, outcome: &Outcome<SinkWorker, Share>, interrupted: Option<u8>) -> Self {
        let Own { seat, met, traffic } = own;
        let exchanged = &outcome.exchanged;
        let counts = exchanged.counts;
        let report = RankReport {
            rank: seat.rank,
            entries: outcome.profile.entries,
            communication_seconds: exchanged.communication.as_secs_f64(),
            cpu_seconds: processor_time().saturating_sub(met).as_secs_f64(),
            requests: counts.requests,
            refused: counts.refused,
            parcels_given: counts.parcels_given,
            tasks_given: counts.tasks_given,
            parcels_accepted: counts.parcels_accepted,
            tasks_accepted: counts.tasks_accepted,
            rests: counts.rests,
            traffic: if traffic { grouped(exchanged.traffic.clone(), seat.ranks) } else { Vec::new() },
            thread_count: u32::try_from(outcome.threads.len()).unwrap_or(u32::MAX),
            threads: rows_of(&outcome.threads, seat.ranks),
        };
        Self {
            profile: outcome.profile,
            totals: outcome.results.totals.clone(),
            elapsed: outcome.elapsed,
            spilled: [outcome.spill.tasks, outcome.spill.bytes],
            spill_error: outcome.spill.error.clone().map(|what| (seat.rank, cut(what))),
            interrupted: interrupted.unwrap_or(0),
            ranks: vec![report],
            ..Self::default()
        }
    }

    /// Adds the shards of a catalog that this rank hands over, or the reason why it cannot continue.
    pub(super) fn with_shards(self, shards: Result<Vec<ShardRecord>, Fatal>, seat: Seat) -> Self {
        match shards {
            Ok(shards) => Self { shards, ..self },
            Err(fatal) => Self { fatal: Some((seat.rank, cut(fatal.what()))), ..self },
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.profile += other.profile;
        self.spilled.iter_mut().zip(other.spilled).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.totals += &other.totals;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.interrupted = self.interrupted.max(other.interrupted);
        self.fatal = self.fatal.take().or(other.fatal);
        self.spill_error = self.spill_error.take().or(other.spill_error);
        self.shards.extend(other.shards);
        self.ranks.extend(other.ranks);
        self.ranks.sort_by_key(|rank| rank.rank);
    }

    /// Why another rank could not continue.
    pub(super) fn fatal(&self) -> Option<Fatal> {
        let (rank, what) = self.fatal.as_ref()?;
        Some(Fatal::Failed { what: format!("rank {rank}: {what}"), hint: None })
    }

    /// Totals of all threads of all ranks. `is_alone`: there are no ranks to report.
    pub(super) fn whole(self, is_alone: bool) -> Whole {
        let error =
            self.spill_error.map(|(rank, what)| if is_alone { what } else { format!("rank {rank}: {what}") });
        Whole {
            elapsed: self.elapsed,
            profile: self.profile,
            thread_count: self.ranks.iter().map(|rank| u64::from(rank.thread_count)).sum(),
            threads: self.ranks.iter().flat_map(|rank| rank.threads.iter().copied()).collect(),
            spill: SpillReport { tasks: self.spilled[0], bytes: self.spilled[1], error },
            ranks: if is_alone { Vec::new() } else { self.ranks },
            earlier: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::{Code, Errno};

    use super::*;

    #[test]
    fn share_of_one_of_many_ranks_is_bounded() {
        let (count, time) = (u64::MAX, Duration::MAX);
        let profile = Profile {
            entries: count,
            directories: count,
            failures: count,
            excluded: count,
            bytes: count,
            known: count,
            looked: count,
            readdir: time,
            stat: time,
            callback: time,
        };
        let worker = atta_runtime::WorkerReport { tasks: count, steals: count, waiting: time };
        let thread = atta_ops::walk::ThreadReport { profile, worker };
        let ranks = 100_000;
        let traffic = grouped((0..ranks).map(|to| (to, count, count)).collect(), ranks);
        let report = RankReport {
            rank: u32::MAX,
            entries: count,
            traffic,
            threads: rows_of(&[thread; 512], ranks),
            ..RankReport::default()
        };
        let mut totals = Totals::default();
        (totals.apparent_bytes, totals.allocated_bytes, totals.extra_links) = (count, count, count);
        totals.by_kind.fill(count);
        totals.failures = (1..=133).map(|number| (Errno(number), count)).collect();
        let text = Some((u32::MAX, cut("\u{e9}".repeat(4096))));
        let share = RankTotals {
            profile,
            totals,
            elapsed: time,
            spilled: [count; 2],
            spill_error: text.clone(),
            fatal: text,
            ranks: vec![report],
            ..RankTotals::default()
        };
        let bytes = share.encoded().len();
        assert!(bytes <= 8 << 10, "{bytes}");
        let shard = ShardRecord { file: "part-4294967295.parquet".to_owned(), rows: count, bytes: count };
        assert!(shard.encoded().len() <= 64);
    }

    #[test]
    fn totals_survive_being_bytes() {
        let mut totals = Totals::default();
        (totals.apparent_bytes, totals.depth_max) = (u64::MAX, atta_runtime::Maximum(3));
        let (nine, five) = (Duration::from_secs(9), Duration::from_secs(5));
        let mut sum = RankTotals { totals: totals.clone(), elapsed: five, ..RankTotals::default() };
        let other =
            RankTotals { totals: totals.clone(), elapsed: nine, interrupted: 130, ..RankTotals::default() };
        sum.merge(other);
        let bytes = sum.encoded();
        let back = RankTotals::decode_all(&bytes).unwrap();
        assert_eq!((back.elapsed, back.interrupted, back.totals), (nine, 130, totals));
        for length in 0..bytes.len() {
            assert!(RankTotals::decode_all(&bytes[..length]).is_none(), "{length}");
        }
    }
}
