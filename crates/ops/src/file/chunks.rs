//! How large files are cut into chunks, the files in progress, and the chunks of each with their values. It does not know how a chunk is
//! processed; see `large.rs`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::FileError;
use crate::digest::{Hash, PieceValue, merge};
use crate::tree;

/// The smallest chunk: some milliseconds of work.
const CHUNK_LEAST: u64 = 8 << 20;
const CHUNK_MOST: u64 = 1 << 30;
/// Least and most time for a chunk at the measured rate. Here and below: for a single rank, and for several.
const TIME_LEAST: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(5)];
const TIME_MOST: Duration = Duration::from_secs(4);
// There are never more than 2^20 chunks.
/// Approximate chunks of a file per thread, so that all threads end at about the same time: the average wait is half a chunk. Handing one
/// to a thread takes microseconds; handing one to a rank takes two opens and a sync.
const CHUNKS_PER_THREAD: [u64; 2] = [32, 4];

/// How files are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    chunk: Option<u64>,
    threads: u64,
    has_ranks: bool,
    /// Measured bytes per second of one thread; none: not known.
    rate: Option<u64>,
    /// Bytes of chunks that all threads may have begun; none: any number.
    under_way: Option<u64>,
}

impl Cut {
    /// Cuts into chunks of `chunk` bytes, a power of two. None: by the size of the file and the threads of all ranks.
    pub(crate) fn new(chunk: Option<u64>, walk: &tree::Options<'_>, ranks: u32) -> Self {
        let threads = walk.threads.max(walk.cores).max(1) as u64 * u64::from(ranks);
        Self { chunk, threads, has_ranks: ranks > 1, rate: None, under_way: None }
    }

    /// Sets how many bytes of chunks all threads may have begun: a kill loses them.
    pub(crate) fn with_under_way(self, under_way: Option<u64>) -> Self {
        Self { under_way, ..self }
    }

    /// Sets the measured bytes per second of one thread.
    pub(crate) fn at_rate(self, rate: Option<u64>) -> Self {
        Self { rate, ..self }
    }

    /// Whether a file of this size is worth cutting.
    pub(crate) fn is_large(&self, bytes: u64) -> bool {
        bytes >= self.chunk.unwrap_or(CHUNK_LEAST).saturating_mul(2)
    }

    /// Bytes in a chunk of a file: a power of two.
    pub(crate) fn chunk_of(&self, bytes: u64) -> u64 {
        let which = usize::from(self.has_ranks);
        let auto = (bytes / (CHUNKS_PER_THREAD[which] * self.threads)).next_power_of_two();
        // On fast storage chunks must be worth handing over; on slow storage they must be small enough that all threads end together.
        let worth = |rate: u64, time: Duration| {
            let bytes = u128::from(rate) * time.as_millis() / 1000;
            u64::try_from(bytes).unwrap_or(CHUNK_MOST).clamp(CHUNK_LEAST, CHUNK_MOST).next_power_of_two()
        };
        let least = self.rate.map_or(CHUNK_LEAST, |rate| worth(rate, TIME_LEAST[which]));
        let most = self.rate.map_or(CHUNK_MOST, |rate| worth(rate, TIME_MOST));
        let lost_most = self.under_way.map_or(CHUNK_MOST, |bytes| power_below(bytes / self.threads));
        let automatic = auto.clamp(least, most).min(lost_most.max(CHUNK_LEAST));
        let chunk = self.chunk.unwrap_or(automatic);
        chunk.max((bytes >> 20).next_power_of_two())
    }

    /// As `chunk_of`, for a file with so many holes that they are not hashed: `data` of its bytes are to be moved. It gets no more chunks
    /// than a file of that size would, as each costs a task and there may be very many such files.
    pub(crate) fn chunk_of_sparse(&self, bytes: u64, data: u64) -> u64 {
        let chunks = data / self.chunk_of(data);
        bytes.div_ceil(chunks.max(1)).next_power_of_two().max(self.chunk_of(bytes))
    }
}

/// The largest power of two that is not more.
fn power_below(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(1, |power| 1 << power)
}

/// Files in progress, by number.
#[derive(Debug)]
pub(crate) struct UnderWay<L> {
    known: Mutex<HashMap<u64, Arc<L>>>,
    next: AtomicU64,
    /// Approximate limit of files open at a time.
    most: usize,
}

impl<L> UnderWay<L> {
    pub(crate) fn new(most: usize) -> Self {
        Self { known: Mutex::default(), next: AtomicU64::new(0), most }
    }

    /// Whether one more file may be cut. If not, one thread does it as a whole. Threads that ask at the same time may all get true, since
    /// each holds its own file open only until its next task.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().len() < self.most
    }

    /// Adds a file. Returns its number.
    pub(crate) fn insert(&self, large: L) -> u64 {
        let file = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(file, Arc::new(large));
        file
    }

    pub(crate) fn find(&self, file: u64) -> Option<Arc<L>> {
        self.lock().get(&file).cloned()
    }

    /// Forgets a file that is done.
    pub(crate) fn remove(&self, file: u64) {
        self.lock().remove(&file);
    }

    /// Takes all that are not done.
    pub(crate) fn take_all(&self) -> Vec<Arc<L>> {
        std::mem::take(&mut *self.lock()).into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<L>>> {
        lock(&self.known)
    }
}

/// The chunks of one file, their results, and the first error.
#[derive(Debug)]
pub(crate) struct Chunks<T = FileError> {
    bytes: u64,
    chunk: u64,
    /// Chunks that are not done.
    left: AtomicU64,
    error: Mutex<Option<T>>,
    /// Empty until there is one.
    values: Mutex<Vec<Option<PieceValue>>>,
}

impl<T: Copy> Chunks<T> {
    /// For a file of `bytes` bytes, which is more than a chunk.
    pub(crate) fn new(bytes: u64, chunk: u64) -> Self {
        let left = AtomicU64::new(bytes.div_ceil(chunk).max(1));
        Self { bytes, chunk, left, error: Mutex::new(None), values: Mutex::default() }
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of each but the last.
    pub(crate) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.bytes.div_ceil(self.chunk).max(1)
    }

    /// The bytes of one.
    pub(crate) fn range(&self, index: u64) -> Range<u64> {
        let start = index * self.chunk;
        start..start.saturating_add(self.chunk).min(self.bytes)
    }

    /// The length of one chunk; 0 beyond the last.
    pub(crate) fn bytes_of(&self, index: u64) -> u64 {
        self.bytes.saturating_sub(index.saturating_mul(self.chunk)).min(self.chunk)
    }

    /// Records the end of a chunk, and its error if it failed. Returns whether it was the last.
    pub(crate) fn end(&self, ended: Result<(), T>) -> bool {
        if let Err(error) = ended {
            lock(&self.error).get_or_insert(error);
        }
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The first error.
    pub(crate) fn error(&self) -> Option<T> {
        *lock(&self.error)
    }

    pub(crate) fn set_value(&self, index: u64, value: Option<PieceValue>) {
        let mut values = lock(&self.values);
        values.resize(usize::try_from(self.count()).unwrap_or(usize::MAX), None);
        if let Some(place) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
            *place = value;
        }
    }

    /// The value of each chunk that has one.
    pub(crate) fn values(&self) -> Vec<Option<PieceValue>> {
        lock(&self.values).clone()
    }

    /// The digest of all bytes. None: some chunk has no value, or there is only one.
    pub(crate) fn digest(&self) -> Option<Hash> {
        let values: Option<Vec<PieceValue>> = lock(&self.values).iter().copied().collect();
        values.filter(|values| values.len() > 1).map(|values| merge(&values))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_has_some_chunks_and_not_too_many() {
        let cut = Cut { chunk: None, threads: 8, has_ranks: false, rate: None, under_way: None };
        assert!(!cut.is_large(16 << 20 >> 1) && cut.is_large(16 << 20));
        for bytes in [16 << 20, (1 << 40) + 1, 8 << 40, i64::MAX as u64] {
            let chunk = cut.chunk_of(bytes);
            let chunks: Chunks = Chunks::new(bytes.min(1 << 30), chunk);
            assert!(chunk.is_power_of_two() && bytes.div_ceil(chunk) <= 1 << 20, "{bytes}");
            assert_eq!(chunks.range(chunks.count() - 1).end, bytes.min(1 << 30));
        }
        let asked = Cut { chunk: Some(1 << 20), threads: 1, has_ranks: false, rate: None, under_way: None };
        assert_eq!(asked.at_rate(Some(u64::MAX)).chunk_of(5 << 20), 1 << 20);
        // A chunk that no file is larger than.
        let whole = Cut { chunk: Some(1 << 63), ..asked };
        assert!(!whole.is_large(i64::MAX as u64));
        assert_eq!(whole.chunk_of(i64::MAX as u64), 1 << 63);
    }

    #[test]
    fn chunks_that_a_kill_loses_are_small_together() {
        let cut =
            |threads| Cut { chunk: None, threads, has_ranks: true, rate: None, under_way: Some(512 << 20) };
        // Eight GiB on three ranks of two threads: 512 MiB without a log.
        assert_eq!([1, 6, 64, 4096].map(|threads| cut(threads).chunk_of(8 << 30) >> 20), [512, 64, 8, 8]);
        assert_eq!(cut(6).with_under_way(None).chunk_of(8 << 30), 512 << 20);
    }

    #[test]
    fn a_file_of_holes_is_cut_by_its_data() {
        let cut = Cut { chunk: None, threads: 8, has_ranks: false, rate: None, under_way: None };
        let size = i64::MAX as u64;
        assert_eq!(cut.chunk_of_sparse(size, 0), 1 << 63);
        assert_eq!(cut.chunk_of_sparse(size, 4 << 30), 1 << 55);
        for data in [0, 1 << 20, 1 << 34, 1 << 50, size] {
            let (chunk, like) = (cut.chunk_of_sparse(size, data), data.div_ceil(cut.chunk_of(data)));
            assert!(chunk.is_power_of_two() && size.div_ceil(chunk) <= like.max(1), "{data}");
        }
    }

    #[test]
    fn chunks_are_larger_on_fast_storage() {
        let cut = Cut { chunk: None, threads: 8, has_ranks: false, rate: None, under_way: None };
        let chunk = |bytes, rate| cut.at_rate(rate).chunk_of(bytes);
        // Unknown: by the size and the threads alone.
        assert_eq!([100 << 20, 1 << 40].map(|bytes| chunk(bytes, None)), [8 << 20, 1 << 30]);
        // 4 GiB/s: not less than 2 ms of it, which are more than 8 MiB.
        assert_eq!(chunk(100 << 20, Some(4 << 30)), 16 << 20);
        // Other ranks get larger chunks.
        let shared = Cut { has_ranks: true, ..cut };
        assert_eq!([cut, shared].map(|cut| cut.chunk_of(1 << 30)), [8 << 20, 32 << 20]);
        // 50 MiB/s: not more than 4 s.
        assert_eq!(chunk(1 << 40, Some(50 << 20)), 256 << 20);
        // Whatever was measured, it is a chunk.
        assert_eq!([Some(0), Some(u64::MAX)].map(|rate| chunk(1 << 34, rate)), [8 << 20, 1 << 30]);
    }
}
