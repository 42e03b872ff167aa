//! Live counts of an operation, for display and to measure its speed, on one rank and over all ranks. Results are counted elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use atta_engine::Reduce;

use crate::tree::profile::Profile;

/// Counts of an operation beside the entries that it visits. Each operation defines its numbers.
pub(crate) type Counted = [u64; 4];

/// Counts that ranks add up while they run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SoFar {
    pub(crate) profile: Profile,
    pub(crate) own: Counted,
}

atta_entry::record!(SoFar { profile, own });

impl Reduce for SoFar {
    fn merge(&mut self, other: &Self) {
        self.profile += other.profile;
        self.own.iter_mut().zip(other.own).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// Live counts, for display and to measure the speed.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Bytes of large files that are to be copied, and of those that are copied or failed.
    pub(crate) large_found: AtomicU64,
    pub(crate) large_done: AtomicU64,
    began: Instant,
    threads: u64,
}

/// Bytes below which no rate is computed.
const LEARNT_FROM: u64 = 64 << 20;

impl Live {
    /// For a copy that begins now on `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (large_found, large_done) = (AtomicU64::new(0), AtomicU64::new(0));
        let threads = threads.max(1) as u64;
        Self { files, bytes, large_found, large_done, began: Instant::now(), threads }
    }

    /// Approximate bytes per second of one thread so far. None: not enough was copied.
    pub(crate) fn rate(&self) -> Option<u64> {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let nanoseconds = self.began.elapsed().as_nanos().max(1);
        let rate = u128::from(bytes) * 1_000_000_000 / nanoseconds / u128::from(self.threads);
        (bytes >= LEARNT_FROM).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}
