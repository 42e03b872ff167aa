//! What ranks add up at the end of `atta sum`. Nothing is hashed or printed here.

use std::time::Duration;

use atta_catalog::ShardRecord;
use atta_ops::digest::Signature;
use atta_ops::sum::{Outcome, Totals};
use atta_runtime::Seat;

use super::sink::{Sink, SinkWorker};
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;

/// Most bytes of a text that a rank sends.
const TEXT_BYTES_MAX: usize = 1024;

/// The results of one rank or of several. One rank sends at most 5 KiB, and 64 bytes more for each shard of a catalog.
#[derive(Debug, Default)]
pub(crate) struct Summed {
    pub(super) totals: Totals,
    /// The signature of all entries; none if one failed.
    pub(super) signature: Option<Signature>,
    /// The longest time of a rank.
    pub(super) elapsed: Duration,
    /// Threads of all ranks.
    pub(super) threads: usize,
    /// Entries that failed, but for listed paths that do not exist.
    pub(super) failed: u64,
    /// Exit code of a caught signal; 0 if none.
    interrupted: u8,
    /// A rank other than the first that cannot continue, and the reason.
    fatal: Option<(u32, String)>,
    pub(super) shards: Vec<ShardRecord>,
    /// What earlier runs of the job have done. Only on the first rank.
    pub(super) earlier: Option<Earlier>,
}

atta_entry::record!(Summed {
    totals,
    signature,
    elapsed,
    threads,
    failed,
    interrupted,
    fatal,
    shards,
    earlier
});

impl Summed {
    /// The results of this rank.
    pub(super) fn new(outcome: Outcome<SinkWorker>, sink: &Sink, interrupted: Option<u8>) -> Self {
        Self {
            totals: outcome.totals,
            signature: outcome.signature,
            elapsed: outcome.elapsed,
            threads: outcome.threads.len(),
            failed: sink.failed(),
            interrupted: interrupted.unwrap_or(0),
            fatal: None,
            shards: Vec::new(),
            earlier: None,
        }
    }

    /// Adds the shards of a catalog that this rank hands over, or the reason why it cannot continue.
    pub(super) fn with_shards(self, shards: Result<Vec<ShardRecord>, Fatal>, seat: Seat) -> Self {
        match shards {
            Ok(shards) => Self { shards, ..self },
            Err(fatal) => {
                let mut what = fatal.what();
                what.truncate(what.floor_char_boundary(TEXT_BYTES_MAX));
                Self { fatal: Some((seat.rank, what)), ..self }
            }
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.totals += &other.totals;
        self.signature = match (self.signature.take(), other.signature) {
            (Some(mut one), Some(other)) => {
                one.merge(&other);
                Some(one)
            }
            _ => None,
        };
        self.elapsed = self.elapsed.max(other.elapsed);
        self.threads += other.threads;
        self.failed += other.failed;
        self.interrupted = self.interrupted.max(other.interrupted);
        self.fatal = self.fatal.take().or(other.fatal);
        self.shards.extend(other.shards);
    }

    /// The exit code of the signal that another rank caught, if one did.
    pub(super) fn interrupted(&self) -> Option<u8> {
        (self.interrupted > 0).then_some(self.interrupted)
    }

    /// Why another rank cannot continue.
    pub(super) fn fatal(&self) -> Option<Fatal> {
        let (rank, what) = self.fatal.as_ref()?;
        Some(Fatal::Failed { what: format!("rank {rank}: {what}"), hint: None })
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::{Code as _, Errno};

    use super::*;

    #[test]
    fn share_of_a_rank_of_sum_is_bounded() {
        let count = u64::MAX;
        let totals = Totals {
            files: count,
            directories: count,
            symlinks: count,
            specials: count,
            bytes: count,
            known: count,
            left_out: count,
            changed: count,
            failures: (1..=133).map(|number| (Errno(number), count)).collect(),
        };
        let whole = Summed {
            totals,
            signature: Some(Signature::default()),
            elapsed: Duration::MAX,
            threads: usize::MAX,
            failed: count,
            interrupted: 143,
            ..Summed::default()
        };
        let seat = Seat { rank: u32::MAX, ..Seat::alone() };
        let fatal = Fatal::Failed { what: "\u{e9}".repeat(4096), hint: None };
        let share = whole.with_shards(Err(fatal), seat);
        let bytes = share.encoded().len();
        assert!(bytes <= 5 << 10, "{bytes}");
        let shard = ShardRecord { file: "part-4294967295.parquet".to_owned(), rows: count, bytes: count };
        let with_shard = Summed { shards: vec![shard; 100], ..share }.encoded().len();
        assert!(with_shard <= bytes + 100 * 64, "{with_shard}");
    }
}
