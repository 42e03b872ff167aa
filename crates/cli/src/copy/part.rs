//! What ranks of a copy add up when it is done. What is printed of it is in `summary.rs`.

use std::time::Duration;

use atta_ops::copy::{Outcome, RankReport, Report, Totals};
use atta_ops::digest::Signature;

use super::summary::Whole;

/// What ranks have done in the end.
#[derive(Debug)]
pub(super) struct Part {
    totals: Totals,
    report: Report,
    /// What each rank did, and where its time went.
    by_rank: Vec<RankReport>,
    /// None: not wanted, or not all was copied.
    signature: Option<Signature>,
    elapsed: Duration,
    threads: usize,
    /// The exit code of a signal, if one was caught.
    pub(super) interrupted: u8,
    parked: bool,
}

atta_entry::record!(Part { totals, report, by_rank, signature, elapsed, threads, interrupted, parked });

impl Part {
    pub(super) fn new(outcome: Outcome, interrupted: Option<u8>) -> Self {
        let Outcome { totals, report, rank, signature, threads, elapsed, parked, .. } = outcome;
        let (by_rank, threads, interrupted) = (vec![rank], threads.len(), interrupted.unwrap_or(0));
        Self { totals, report, by_rank, signature, elapsed, threads, interrupted, parked }
    }

    pub(super) fn merge(&mut self, more: Self) {
        self.totals += &more.totals;
        self.report += &more.report;
        self.by_rank.extend(more.by_rank);
        self.by_rank.sort_unstable_by_key(|report| report.rank);
        self.signature = self.signature.take().zip(more.signature).map(|(mut sum, more)| {
            sum.merge(&more);
            sum
        });
        self.elapsed = self.elapsed.max(more.elapsed);
        self.threads = self.threads.saturating_add(more.threads);
        self.interrupted = self.interrupted.max(more.interrupted);
        self.parked |= more.parked;
    }

    pub(super) fn whole(self) -> Whole {
        let Self { totals, report, signature, elapsed, threads, by_rank: ranks, parked, .. } = self;
        let (target_is_name, leftovers, extra) = (false, None, None);
        Whole { totals, report, signature, elapsed, threads, ranks, parked, target_is_name, leftovers, extra }
    }
}
