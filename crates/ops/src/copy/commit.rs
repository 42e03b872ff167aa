//! Everything between an entry that is complete and one that is durable, has its final name and is verified: [`Commit`] is the state that
//! all threads share, [`Committer`] commits on one thread. It does not decide what is copied.

pub(crate) mod again;
pub(crate) mod batch;
pub(crate) mod checks;
pub(crate) mod close;
pub(crate) mod durable;
pub(crate) mod pending;
pub(crate) mod publish;
pub(crate) mod reread;
pub(crate) mod stores;
pub(crate) mod syncing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atta_entry::Timestamp;

use crate::copy::results::times::Syncs;
use crate::copy::resume::noting::Noting;
use crate::copy::target::Maker;
use crate::copy::target::mirror::{Location, Part};
use crate::copy::target::place::{Made, Place};
use crate::copy::thread::Ended;
use crate::descriptors::Budget;
use crate::file::source::clock_of_files;
use crate::tree::progress::Live;
use batch::{Batch, Ready};
use checks::{Check, Checks};
use pending::{Pending, PendingFile};
use stores::Stores;
use syncing::Syncing;

/// Complete entries that wait, and the number of those that had to be given up.
pub(crate) struct Commit<'a> {
    batch: Batch,
    pub(crate) checks: Checks,
    /// Files and directories that are being synced individually.
    syncing: Syncing<Pending>,
    /// Most copies that are open at once to be read back by one thread.
    group: usize,
    /// Start time, by the clock of the file system.
    began: Timestamp,
    /// Number of entries that keep their temporary names or cannot be removed.
    left_over: AtomicU64,
    /// What is done and not noted in the log of the job, if there is one.
    pub(crate) noting: Option<Noting<'a>>,
}

/// Makes entries durable, gives them their final names and reads them back, on one thread.
pub(crate) struct Committer<'w> {
    pub(crate) commit: &'w Commit<'w>,
    pub(crate) maker: Maker<'w>,
    pub(crate) live: &'w Live,
    pub(crate) ended: &'w mut Ended,
}

impl Commit<'_> {
    pub(crate) fn new(budget: &Budget, syncs: &Arc<Syncs>) -> Self {
        let (batch, checks) = (Batch::default(), Checks::default());
        let syncing = Syncing::new(budget.syncing, Arc::clone(syncs));
        let (began, left_over) = (clock_of_files(), AtomicU64::new(0));
        Self { batch, checks, syncing, group: budget.group, began, left_over, noting: None }
    }

    /// Whether anything waits for a sync, or to be read back.
    pub(crate) fn waits(&self) -> bool {
        self.batch.waits()
            || self.syncing.has_any()
            || self.has_checks()
            || self.noting.as_ref().is_some_and(Noting::must_sync)
    }

    /// Whether copies wait to be read back.
    pub(crate) fn has_checks(&self) -> bool {
        self.checks.count.load(Ordering::Relaxed) > 0
    }

    /// Counts an entry that keeps its temporary name, or cannot be removed.
    pub(crate) fn leave(&self) {
        self.left_over.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of entries that [`leave`](Self::leave) was called for.
    pub(crate) fn left_over(&self) -> u64 {
        self.left_over.load(Ordering::Relaxed)
    }
}

impl<'w> Committer<'w> {
    /// The file systems that entries are written to.
    pub(crate) fn stores(&self) -> &'w Stores {
        &self.maker.target.stores
    }

    /// Does something that ends this part. What it comes to belongs to the slice of the part, not to the one that the thread works on.
    pub(crate) fn apart(&mut self, part: Option<Part>, act: impl FnOnce(&mut Self)) {
        let current = std::mem::take(self.maker.results);
        act(self);
        let own = std::mem::replace(self.maker.results, current);
        self.ended.add(part, own);
    }

    /// Counts a new entry, and gives it its final name when that is allowed.
    pub(crate) fn complete(&mut self, at: &Location, to: &Place<'_>, mut made: Made) {
        let checks = Check::of(at, to, &made).into_iter().collect();
        if made.is_file {
            self.live.bytes.fetch_add(made.bytes, Ordering::Relaxed);
            if self.maker.target.options.digest && made.digest.is_none() {
                self.count_not_hashed();
            }
        }
        if let Some((file, version)) = made.unsynced.take() {
            let (at, mirror, name) = (at.clone(), Arc::clone(to.mirror), to.name.to_owned());
            let Made { temporary, bytes, elapsed, identity, .. } = made;
            // A new directory gets its final name only after its files are durable.
            let part = if temporary.is_some() { to.part() } else { to.part_of_names() };
            let pending = PendingFile {
                at,
                mirror,
                name,
                temporary,
                bytes,
                has_noted_chunks: false,
                elapsed,
                checks,
                identity,
                version,
                part,
            };
            return self.sync_file(file, pending);
        }
        self.maker.target.failures.space.find();
        if made.is_file {
            self.count_file(at, made.bytes, made.elapsed);
        }
        let written = if made.is_link { 0 } else { made.bytes };
        match made.temporary {
            None => self.add_bytes(to.mirror, written, checks),
            Some(temporary) => {
                let (origin, mirror) = (at.clone(), Arc::clone(to.mirror));
                let names = Some((temporary, to.name.to_owned()));
                let Made { since, identity, .. } = made;
                // What gets its name at once holds nothing open.
                let part = if self.stores().waits_in(to.mirror) { to.part() } else { None };
                let (bytes, has_noted_chunks, results) = (written, false, None);
                let ready =
                    Ready { origin, mirror, names, bytes, has_noted_chunks, since, identity, part, results };
                self.publish(ready, checks);
            }
        }
    }

    /// Counts a file that was copied without a digest because it has too many holes.
    pub(crate) fn count_not_hashed(&mut self) {
        self.maker.results.totals.not_hashed += 1;
        // Without a digest there is nothing to compare the copy with.
        self.maker.results.totals.not_verified += u64::from(self.maker.target.options.verify);
    }

    /// Counts a complete file.
    pub(crate) fn count_file(&mut self, at: &Location, bytes: u64, elapsed: Duration) {
        let totals = &mut self.maker.results.totals;
        totals.files += 1;
        totals.bytes = totals.bytes.saturating_add(bytes);
        self.maker.results.report.note(bytes, elapsed, || at.root_and_path().1);
        self.live.files.fetch_add(1, Ordering::Relaxed);
    }
}
