//! Totals that the ranks of a copy add up at its end. `summary.rs` prints them.

use std::time::Duration;

use atta_ops::copy::{Outcome, RankReport, Report, Totals};
use atta_ops::digest::Signature;

use super::summary::Whole;
use crate::run::fatal::Fatal;

/// Most bytes of a path that a rank sends: paths have no limit of their own.
const PATH_BYTES_MAX: usize = 1024;

/// Totals of one or more ranks. One of several ranks sends at most 16 KiB.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    totals: Totals,
    report: Report,
    /// Work and time of each rank.
    by_rank: Vec<RankReport>,
    /// `None` if not requested, or if not all was copied.
    signature: Option<Signature>,
    elapsed: Duration,
    threads: usize,
    /// Exit code of a caught signal; 0 if none.
    pub(super) interrupted: u8,
    parked: bool,
    /// A rank was stopped before its end.
    stopped: bool,
    /// Why a rank could not write the log of the job.
    failed: Option<String>,
}

atta_entry::record!(Part {
    totals,
    report,
    by_rank,
    signature,
    elapsed,
    threads,
    interrupted,
    parked,
    stopped,
    failed
});

impl Part {
    pub(super) fn new(outcome: Outcome, interrupted: Option<u8>) -> Self {
        let Outcome { totals, report, rank, signature, threads, elapsed, parked, stopped, .. } = outcome;
        let (by_rank, threads, interrupted) = (vec![rank], threads.len(), interrupted.unwrap_or(0));
        let failed = None;
        Self { totals, report, by_rank, signature, elapsed, threads, interrupted, parked, stopped, failed }
    }

    /// With the reason why this rank could not write the log of the job.
    pub(super) fn with_failure(self, failed: Option<String>) -> Self {
        Self { failed, ..self }
    }

    /// Why a copy with a log of its job was stopped before its end, beside signals and a full TARGET.
    pub(super) fn take_failure(&mut self) -> Option<Fatal> {
        let is_explained = self.interrupted > 0 || self.parked;
        let stopped = || "a rank has ended the copy before its end".to_owned();
        let what = self.failed.take().or_else(|| (self.stopped && !is_explained).then(stopped));
        what.map(|what| Fatal::Failed { what, hint: None })
    }

    /// Whether a rank was stopped before its end.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// The same, with paths short enough to be sent.
    pub(super) fn shortened(mut self) -> Self {
        self.report.slowest.iter_mut().for_each(|file| file.path.truncate(PATH_BYTES_MAX));
        self.failed.iter_mut().for_each(|failed| {
            *failed = failed.chars().take(PATH_BYTES_MAX / 4).collect();
        });
        self
    }

    /// The same with ranks numbered as in the session of all. `members`: the ranks that have done it.
    pub(super) fn of_ranks(mut self, members: &[u32]) -> Self {
        self.by_rank.iter_mut().for_each(|report| {
            report.rank = members.get(report.rank as usize).copied().unwrap_or(report.rank);
        });
        self
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
        self.stopped |= more.stopped;
        self.failed = self.failed.take().or(more.failed);
    }

    pub(super) fn whole(self) -> Whole {
        let Self { totals, report, signature, elapsed, threads, by_rank: ranks, parked, .. } = self;
        Whole { totals, report, signature, elapsed, threads, ranks, parked, ..Whole::default() }
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::{Code as _, Errno};
    use atta_ops::copy::SlowFile;

    use super::*;

    #[test]
    fn share_of_one_rank_is_bounded() {
        let (count, time) = (u64::MAX, Duration::MAX);
        let slow = SlowFile { elapsed: time, bytes: count, path: vec![b'x'; 1 << 20] };
        let mut report = Report { slowest: vec![slow; 10], ..Report::default() };
        report.sizes.iter_mut().for_each(|class| (class.files, class.bytes) = (count, count));
        let rank = RankReport {
            rank: u32::MAX,
            files: count,
            bytes: count,
            phases: [time; 7],
            busy: time,
            finding: time,
            waiting: time,
            syncs: count,
            syncing: time,
        };
        let failures = (1..=133).map(|number| (Errno(number), count)).collect();
        let totals = Totals { failures, files: count, bytes: count, ..Totals::default() };
        let part = Part {
            totals,
            report,
            by_rank: vec![rank],
            signature: Some(Signature::default()),
            elapsed: time,
            threads: usize::MAX,
            interrupted: 143,
            parked: true,
            stopped: true,
            failed: Some("x".repeat(1 << 20)),
        };
        let bytes = part.shortened().encoded().len();
        assert!(bytes <= 16 << 10, "{bytes}");
    }
}
