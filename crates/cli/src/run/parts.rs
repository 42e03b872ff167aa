//! The parts of a catalog whose run has a log. Rows get into a part when their slice has ended and may be noted as done; the log says that only when the
//! part is on storage. So a later run keeps the parts that the log names, and does what they lack. Files and names of parts are those of `catalog.rs`.
//!
//! ```text
//!   entry ──▶ rows of the thread ──▶ the slice ends: it is whole ──▶ part ──▶ full, or old ──▶ Keeper: sync ──▶ log: part, its slices
//!                   │                     └─ something failed, or no slice has it ──▶ aside: no log names it
//!                   └─ other threads have names of the slice, too ──▶ Gathered ──▶ the thread that ends it
//! ```

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atta_catalog::{Columns, RowGroup, Shard, ShardRecord, failure_row};
use atta_entry::{Code, Entry, Failure, Operation};
use atta_ops::walk::{Held, Journal, SliceResults, Waiting};
use atta_runtime::{Counter, Results, Stop};

use super::catalog::CatalogSink;
use super::fatal::Fatal;
use super::signals::commits;

/// A part ends with this many bytes.
const PART_BYTES: u64 = 64 << 20;
/// A part ends with this many slices: what the log gets of them waits in memory.
const PART_SLICES: u64 = 1 << 18;
/// A part ends after this time, or a share of the time that the walk has taken, if that is longer: else thousands of threads would make millions of parts.
const PART_TIME: Duration = Duration::from_secs(30);
const PART_SHARE: u32 = 20;
/// A part ends with this many rows: what the log gets of files with several names takes 36 bytes each, and waits in memory.
const PART_ROWS: u64 = 1 << 20;
/// Most parts that wait to be synced, before threads wait.
const WAITING_MOST: usize = 8;
/// How often the keeper looks whether it is to commit.
const COMMIT_LOOKED_AT: Duration = Duration::from_millis(500);
/// How often a thread that waits looks whether the run is to stop.
const STOP_LOOKED_AT: Duration = Duration::from_millis(50);
/// How long the end of a run waits for parts that are to be synced.
const LAST_TIME: Duration = Duration::from_secs(2);

/// What a slice comes to beside its sums: rows, until they are in a part of a catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gathered {
    /// Rows of failed entries that have vanished: no later run sees them again.
    pub(crate) vanished: Vec<u8>,
    /// Rows of a slice that several threads work on. They are not in the log: a part gets them first. Shared, as they are added up by reference.
    rows: Vec<Arc<RowGroup>>,
}

impl Results for Gathered {
    fn add(&mut self, other: &Self) {
        self.vanished.extend_from_slice(&other.vanished);
        self.rows.extend(other.rows.iter().cloned());
    }

    fn is_empty(&self) -> bool {
        self.vanished.is_empty() && self.rows.is_empty()
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

impl Code for Gathered {
    fn encode(&self, out: &mut Vec<u8>) {
        self.vanished.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { vanished: Code::decode(bytes)?, rows: Vec::new() })
    }
}

impl Gathered {
    /// Adds the row of an entry that failed, if no later run sees it again.
    pub(crate) fn fail(&mut self, failure: &Failure<'_>) {
        if failure.errno.is_of_vanished() {
            failure_row(failure, &mut self.vanished);
        }
    }
}

/// Why a run with a log cannot go on after a failure: names were lost, which another run finds again.
pub(crate) fn lost_names(failure: &Failure<'_>) -> Option<Fatal> {
    let is_lost = failure.operation == Operation::Custom("read back");
    let hint = "what is done is kept: give the same command again, with more --memory";
    is_lost.then(|| Fatal::Failed { what: failure.to_string(), hint: Some(hint.to_owned()) })
}

/// What all threads of a rank share.
#[derive(Debug)]
pub(crate) struct Parts<R> {
    queue: Mutex<Queue<R>>,
    /// The queue has changed.
    changed: Condvar,
    /// Grows when the parts that are being written have become old.
    age: AtomicU64,
    /// A part ends with this many rows, too.
    rows_most: u64,
    stop: Stop,
}

/// Parts that wait for the keeper.
#[derive(Debug)]
struct Queue<R> {
    ended: Vec<Ended<R>>,
    /// The run is over: no part follows.
    is_over: bool,
}

/// A part that a thread has ended.
#[derive(Debug)]
struct Ended<R> {
    /// None: its slices have no rows.
    part: Option<(usize, ShardRecord)>,
    held: Held<R>,
}

/// What one thread has.
pub(crate) struct ThreadRows {
    /// Rows of slices that are noted as done, and from `settled` on those of the current names.
    rows: RowGroup,
    settled: usize,
    part: Option<(usize, Shard<File>)>,
    /// Slices and rows of the part, also those that are not written yet.
    slices: u64,
    part_rows: u64,
    /// When it was begun.
    age: u64,
    /// Rows that count only if this run completes the catalog.
    aside: RowGroup,
    aside_part: Option<(usize, Shard<File>)>,
    /// Rows were lost: no part that this thread ends may be kept.
    has_failed: bool,
}

impl ThreadRows {
    pub(crate) fn new(columns: Columns) -> Self {
        let (rows, aside) = (RowGroup::new(columns), RowGroup::new(columns));
        let (part, aside_part) = (None, None);
        Self { rows, settled: 0, part, slices: 0, part_rows: 0, age: 0, aside, aside_part, has_failed: false }
    }

    /// Adds a row of the current names.
    pub(crate) fn push(
        &mut self,
        catalog: &CatalogSink,
        entry: &Entry<'_>,
        digest: Option<&[u8; 32]>,
    ) -> Result<(), Fatal> {
        let pushed = self.rows.push(entry, digest).map_err(|error| catalog.failed(&error));
        pushed.inspect_err(|_| self.has_failed = true)
    }

    /// Moves the rows of the current names to what their slice comes to.
    pub(crate) fn share(&mut self, gathered: &mut Gathered) {
        if self.rows.rows() > self.settled {
            gathered.rows.push(Arc::new(self.rows.split_off(self.settled)));
        }
    }

    /// Moves the rows of a slice that has ended to a part, or aside: those of the current names, and those that were gathered. When another slice
    /// than that of the current names ends, these were [shared](Self::share) before.
    pub(crate) fn slice_ended(
        &mut self,
        catalog: &CatalogSink,
        gathered: &mut Gathered,
        is_whole: bool,
    ) -> Result<(), Fatal> {
        for rows in std::mem::take(&mut gathered.rows) {
            self.rows.append(&mut Arc::unwrap_or_clone(rows));
        }
        if is_whole || self.rows.rows() > self.settled { self.settle(catalog, is_whole) } else { Ok(()) }
    }

    /// Moves all rows from `settled` on to a part, or aside.
    fn settle(&mut self, catalog: &CatalogSink, is_whole: bool) -> Result<(), Fatal> {
        self.try_settle(catalog, is_whole).inspect_err(|_| self.has_failed = true)
    }

    fn try_settle(&mut self, catalog: &CatalogSink, is_whole: bool) -> Result<(), Fatal> {
        if is_whole {
            self.slices += 1;
            self.part_rows += (self.rows.rows() - self.settled) as u64;
            self.settled = self.rows.rows();
            if self.rows.bytes() >= catalog.row_group_bytes() {
                self.settled = 0;
                catalog.write_rows(&mut self.part, &mut self.rows)?;
            }
            return Ok(());
        }
        self.aside.append(&mut self.rows.split_off(self.settled));
        if self.aside.bytes() >= catalog.row_group_bytes() {
            catalog.write_rows(&mut self.aside_part, &mut self.aside)?;
        }
        Ok(())
    }

    /// Whether the part is to end now. A part without slices has the current age.
    fn is_due(&mut self, age: u64, rows_most: u64) -> bool {
        let has_grown_old = std::mem::replace(&mut self.age, age) != age;
        let is_full = self.slices >= PART_SLICES
            || self.part_rows >= rows_most
            || self.part.as_ref().is_some_and(|(_, shard)| shard.bytes() >= PART_BYTES);
        self.slices > 0 && (is_full || has_grown_old)
    }

    /// Ends the part. None: it has no rows.
    fn end_part(&mut self, catalog: &CatalogSink) -> Result<Option<(usize, ShardRecord)>, Fatal> {
        let mut current = self.rows.split_off(self.settled);
        (self.slices, self.part_rows, self.settled) = (0, 0, 0);
        let ended = catalog.end_part(&mut self.part, &mut self.rows);
        self.rows.append(&mut current);
        ended.inspect_err(|_| self.has_failed = true)
    }
}

impl<R: SliceResults> Parts<R> {
    /// `rows_most`: a part ends with this many rows, for tests.
    pub(crate) fn new(rows_most: Option<u64>, stop: Stop) -> Self {
        let queue = Mutex::new(Queue { ended: Vec::new(), is_over: false });
        let rows_most = rows_most.unwrap_or(PART_ROWS).min(PART_ROWS);
        Self { queue, changed: Condvar::new(), age: AtomicU64::new(0), rows_most, stop }
    }

    /// Ends the part of a thread if it is due, between two slices.
    pub(crate) fn keep(
        &self,
        catalog: &CatalogSink,
        own: &mut ThreadRows,
        waiting: Waiting<'_, R>,
    ) -> Result<(), Fatal> {
        if !own.is_due(self.age.load(Ordering::Relaxed), self.rows_most) {
            return Ok(());
        }
        self.wait_for_room();
        self.end(catalog, own, waiting)
    }

    /// Ends what a thread has. If the run was stopped, a later one keeps its part; else the part is the catalog's alone, with all other rows.
    pub(crate) fn keep_last(
        &self,
        catalog: &CatalogSink,
        own: &mut ThreadRows,
        waiting: Waiting<'_, R>,
    ) -> Result<(), Fatal> {
        if self.stop.is_set() {
            self.end(catalog, own, waiting)?;
        } else {
            own.rows.append(&mut own.aside);
            own.settled = own.rows.rows();
            own.end_part(catalog)?;
        }
        catalog.end_part(&mut own.aside_part, &mut own.aside).map(drop)
    }

    /// Waits while the keeper has too much to do, unless the run is to stop.
    fn wait_for_room(&self) {
        let mut queue = self.lock();
        while queue.ended.len() >= WAITING_MOST && !self.stop.is_set() {
            let waited = self.changed.wait_timeout(queue, STOP_LOOKED_AT);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn end(&self, catalog: &CatalogSink, own: &mut ThreadRows, waiting: Waiting<'_, R>) -> Result<(), Fatal> {
        let part = own.end_part(catalog)?;
        if own.has_failed {
            // What it has noted is done again.
            return Ok(());
        }
        let ended = Ended { part, held: waiting.take() };
        self.lock().ended.push(ended);
        self.changed.notify_all();
        Ok(())
    }

    /// Syncs the parts that threads end while `act` runs, and lets the log have them. `fail` gets what cannot be synced.
    pub(crate) fn while_kept<T>(
        &self,
        (catalog, journal): (&CatalogSink, &Journal<R>),
        fail: &(dyn Fn(Fatal) + Sync),
        act: impl FnOnce() -> T,
    ) -> T {
        std::thread::scope(|scope| {
            scope.spawn(|| self.keep_all((catalog, journal), fail));
            let _over = Over(self);
            act()
        })
    }

    fn keep_all(&self, (catalog, journal): (&CatalogSink, &Journal<R>), fail: &(dyn Fn(Fatal) + Sync)) {
        let (began, _served) = (Instant::now(), Served(&self.stop));
        let mut old = began + PART_TIME;
        let (mut until, mut seen) = (None, commits());
        loop {
            let (ended, is_over) = self.take(old.min(Instant::now() + COMMIT_LOOKED_AT));
            // The end of a run waits for storage only so long: what is not synced is done again.
            let until = is_over.then(|| *until.get_or_insert_with(|| Instant::now() + LAST_TIME));
            if ended.is_empty() && is_over {
                return;
            }
            if let Err(fatal) = keep_each((catalog, journal), ended, until) {
                fail(fatal);
            }
            let asked = commits();
            if Instant::now() >= old || asked != seen {
                seen = asked;
                self.age.fetch_add(1, Ordering::Relaxed);
                old = Instant::now() + PART_TIME.max(began.elapsed() / PART_SHARE);
            }
        }
    }

    /// Takes the parts that wait, when there are some, or at this time, or when the run is over.
    fn take(&self, at: Instant) -> (Vec<Ended<R>>, bool) {
        let wait = at.saturating_duration_since(Instant::now());
        let is_idle = |queue: &mut Queue<R>| queue.ended.is_empty() && !queue.is_over;
        let waited = self.changed.wait_timeout_while(self.lock(), wait, is_idle);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        let taken = (std::mem::take(&mut queue.ended), queue.is_over);
        drop(queue);
        self.changed.notify_all();
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Queue<R>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Syncs these parts, and lets the log have them. Not after `until`.
fn keep_each<R: SliceResults>(
    (catalog, journal): (&CatalogSink, &Journal<R>),
    ended: Vec<Ended<R>>,
    until: Option<Instant>,
) -> Result<(), Fatal> {
    let mut ended = ended.into_iter();
    loop {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(());
        }
        let some: Vec<_> = ended.by_ref().take(WAITING_MOST).collect();
        if some.is_empty() {
            return Ok(());
        }
        catalog.sync_parts(some.iter().filter_map(|ended| ended.part.as_ref().map(|(index, _)| *index)))?;
        for Ended { part, held } in some {
            journal.confirm(match part {
                Some((_, record)) => held.with_part(&record.encoded()),
                None => held,
            });
        }
    }
}

/// Stops the run if the keeper panics: threads would wait for it.
struct Served<'s>(&'s Stop);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set();
        }
    }
}

/// Ends the keeper when it is dropped, also by a panic.
struct Over<'p, R: SliceResults>(&'p Parts<R>);

impl<R: SliceResults> Drop for Over<'_, R> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_that_has_grown_old_ends_once() {
        let mut own = ThreadRows::new(Columns::Digests);
        assert!(!own.is_due(3, PART_ROWS), "it has no slice");
        own.slices = 1;
        assert!(!own.is_due(3, PART_ROWS));
        assert!(own.is_due(4, PART_ROWS));
        own.slices = 0;
        for _ in 0..3 {
            own.slices += 1;
            assert!(!own.is_due(4, PART_ROWS), "the next part is new");
        }
        (own.slices, own.part_rows) = (1, 7);
        assert!(own.is_due(4, 7));
        (own.slices, own.part_rows) = (PART_SLICES, 0);
        assert!(own.is_due(4, 7));
    }
}
