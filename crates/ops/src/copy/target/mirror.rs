//! The target side of a directory: where its entries are made, and which attributes it gets when all of them exist.
//!
//! A new directory is made under a temporary name. If a slice is the whole directory, its files get their final names at once: they are
//! not visible until the directory gets its own final name, after all names have been looked at. In any other directory each file is made
//! under a temporary name first.
//!
//! A directory with work left for the end (attributes to set, or a sync of its own) is *open* (`open.rs`) until its source directory is
//! closed (`tree/life.rs`). Then it gets its owner, attributes, mode and times. Directories that are still open when no task is left come
//! last: see `ending.rs`.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use atta_ledger::Seen;

use crate::copy::results::Results;
use crate::jobs::names::Namer;
use crate::metadata::give::Attributes;
use crate::tree::directory::{Directory, State};
use crate::tree::open::Open;
use crate::tree::{location, operation, slice};
use atta_sys::file_systems::Durability;

/// A directory of SOURCE, and what the tree hands out with it.
pub(crate) type SourceDirectory = Directory<Arc<Mirror>>;
pub(crate) type Here<'a> = operation::Here<'a, Arc<Mirror>>;
pub(crate) type CurrentSlice<'a> = slice::CurrentSlice<'a, Arc<Mirror>>;
pub(crate) type Part = slice::Part<Arc<Mirror>>;
pub(crate) type Location = location::Location<Arc<Mirror>>;

impl State for Arc<Mirror> {
    type Results = Results;

    fn has_failed(results: &Results) -> bool {
        results.totals.failed() > 0
    }

    fn is_final(&self) -> bool {
        self.resume.is_final.load(Ordering::Relaxed)
    }

    fn seen(&self) -> Option<Seen> {
        self.resume.seen.get().copied()
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// The directory in the target, opened on demand.
    pub(crate) target: Arc<Directory>,
    /// Set if this job made the directory: number of failed syncs before that.
    since: OnceLock<u64>,
    /// Another process has replaced the directory. The copy must not touch it.
    is_foreign: AtomicBool,
    /// Names are made in it that become durable only by a sync of the directory itself.
    is_expected: AtomicBool,
    /// Entries made in it inherit nothing.
    is_sealed: AtomicBool,
    /// Its file system. Unknown until the directory is entered or an entry is put there.
    pub(crate) store: OnceLock<StoreFacts>,
    /// Whether it treats names that differ only in case as one name.
    pub(crate) folds_case: OnceLock<bool>,
    /// Whether its source may have names that differ only in case.
    pub(crate) has_names_alike: OnceLock<bool>,
    /// The attributes it gets at the end. None: it is left unchanged.
    attributes: OnceLock<Attributes>,
    resume: Resume,
    shared: Arc<Shared>,
}

/// What a directory is to the runs of a job.
#[derive(Debug, Default)]
struct Resume {
    /// An earlier run of the job has begun it.
    is_redone: AtomicBool,
    /// It has its attributes, and nothing is left to do in it.
    is_final: AtomicBool,
    /// What the log says of it.
    seen: OnceLock<Seen>,
    /// Directories that this process has made in it, in a run that an earlier one has begun, until they are entered.
    made: OnceLock<Box<Mutex<HashSet<CString>>>>,
}

/// Facts about a directory's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreFacts {
    /// It is not TARGET's file system.
    pub(crate) is_mounted: bool,
    pub(crate) durability: Durability,
}

/// State that all mirrors of a job share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) namer: Namer,
    /// Directories with work left for the end.
    pub(crate) open: Open<Mirror>,
    /// Held while directories are made again that are gone.
    pub(crate) making_lost: Mutex<()>,
}

impl Mirror {
    /// A mirror of a directory that keeps its name.
    pub(crate) fn new(target: Arc<Directory>, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            target,
            since: OnceLock::new(),
            is_foreign: AtomicBool::new(false),
            is_expected: AtomicBool::new(false),
            is_sealed: AtomicBool::new(false),
            store: OnceLock::new(),
            folds_case: OnceLock::new(),
            has_names_alike: OnceLock::new(),
            attributes: OnceLock::new(),
            resume: Resume::default(),
            shared: Arc::clone(shared),
        })
    }

    /// A mirror of a subdirectory, which may still have a temporary name.
    pub(crate) fn below(&self, name: &CStr) -> Arc<Self> {
        let alias = self.shared.namer.of_directory(name);
        let target = Directory::below(&self.target, name, None).with_alias(alias);
        Self::new(Arc::new(target), &self.shared)
    }

    /// The mirror of a source directory. None: its root has none.
    pub(crate) fn of(directory: &Arc<SourceDirectory>) -> Option<Arc<Self>> {
        directory.state_or_made(|above, name| above.below(name)).cloned()
    }

    /// The path of a name in it.
    pub(crate) fn path_of(&self, name: &CStr) -> Vec<u8> {
        let mut path = Vec::new();
        self.target.path_into(&mut path);
        if name != c"." {
            crate::tree::listing::path::join(&mut path, name.to_bytes());
        }
        path
    }

    /// The temporary name of a subdirectory.
    pub(crate) fn alias(&self, name: &CStr) -> CString {
        self.shared.namer.of_directory(name)
    }

    /// Sets the attributes that the directory gets at the end. Only the first call counts.
    pub(crate) fn will_have(self: &Arc<Self>, attributes: Attributes) {
        let _ = self.attributes.set(attributes);
        self.shared.open.add(self);
    }

    /// The attributes it gets at the end. None: it keeps what it has.
    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        self.attributes.get()
    }

    /// Notes that names are made in it. If directories are synced one by one, this leaves work for the end.
    pub(crate) fn expect_names(self: &Arc<Self>) {
        if self.is_synced_by_itself()
            && self.attributes.get().is_none()
            && !self.is_expected.swap(true, Ordering::Relaxed)
        {
            self.shared.open.add(self);
        }
    }

    /// Whether it gets a mode that denies its owner access, which a list may still need.
    pub(crate) fn denies_owner(&self) -> bool {
        let mode = self.attributes.get().map_or(0o700, |attributes| attributes.metadata.mode);
        mode & 0o700 != 0o700
    }

    /// Notes that an earlier run of the job has begun it. Other tasks may do parts of it again, so it is closed at the end of the copy, and no
    /// file in it gets its final name before it is complete.
    pub(crate) fn set_redone(&self) {
        self.resume.is_redone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_redone(&self) -> bool {
        self.resume.is_redone.load(Ordering::Relaxed)
    }

    /// Notes that it has its attributes, and nothing is left to do in it.
    pub(crate) fn set_final(&self) {
        self.resume.is_final.store(true, Ordering::Relaxed);
    }

    /// Notes that this process has made a directory in it, so that has nothing of an earlier run.
    pub(crate) fn note_made(&self, name: &CStr) {
        let made = self.resume.made.get_or_init(Box::default);
        made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    /// Whether this process has made that directory; once.
    pub(crate) fn take_made(&self, name: &CStr) -> bool {
        let made = self.resume.made.get();
        made.is_some_and(|made| made.lock().unwrap_or_else(PoisonError::into_inner).remove(name))
    }

    /// Sets what the log of the job says of it.
    pub(crate) fn set_seen(&self, seen: Seen) {
        let _ = self.resume.seen.set(seen);
    }

    /// Whether its names and attributes become durable only by a sync of the directory itself.
    pub(crate) fn is_synced_by_itself(&self) -> bool {
        self.durability() == Some(Durability::Each) && !self.is_foreign()
    }

    /// Number of failed syncs before this job made it. None: not made by this job, or replaced by another process.
    pub(crate) fn own_since(&self) -> Option<u64> {
        self.since.get().copied().filter(|_| !self.is_foreign())
    }

    /// Whether its final attributes are known.
    pub(crate) fn is_expecting(&self) -> bool {
        self.attributes.get().is_some()
    }

    /// Notes that this job made it, so it contains only entries of this job. `failures`: number of failed syncs before.
    pub(crate) fn set_new(&self, failures: u64) {
        let _ = self.since.set(failures);
    }

    pub(crate) fn is_new(&self) -> bool {
        self.since.get().is_some()
    }

    /// Number of failed syncs before it was made.
    pub(crate) fn since(&self) -> u64 {
        self.since.get().copied().unwrap_or_default()
    }

    /// Notes that it is not the directory that this job made.
    pub(crate) fn set_foreign(&self) {
        self.is_foreign.store(true, Ordering::Release);
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Acquire)
    }

    /// Notes that this process owns it and has removed its default ACL.
    ///
    /// No other process can set one until the directory gets its final owner, and after that nothing more is made in it.
    pub(crate) fn seal(&self) {
        self.is_sealed.store(true, Ordering::Release);
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Acquire)
    }

    /// Whether it is known to be on another file system than TARGET.
    pub(crate) fn is_mounted(&self) -> bool {
        self.store.get().is_some_and(|store| store.is_mounted)
    }

    /// How entries in it are made durable, if known.
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.store.get().map(|store| store.durability)
    }
}

impl Shared {
    pub(crate) fn new(namer: Namer) -> Arc<Self> {
        Arc::new(Self { namer, open: Open::default(), making_lost: Mutex::default() })
    }

    /// Depth of the deepest directory with work left.
    pub(crate) fn deepest_open(&self) -> Option<u32> {
        self.open.all().iter().map(|mirror| mirror.target.depth()).max()
    }

    /// Takes the directories at this depth or deeper. The deepest must come first: a directory without rights blocks access below it.
    pub(crate) fn take_open(&self, depth: u32) -> Vec<Arc<Mirror>> {
        self.open.take_if(|mirror| mirror.target.depth() >= depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::directory::State;
    use crate::tree::directory::chain_to;
    use atta_sys::Place;

    fn root<S: State>(path: &std::ffi::CStr) -> Arc<Directory<S>> {
        let descriptor: rustix::fd::OwnedFd = std::fs::File::open("/").unwrap().into();
        Directory::root(path.into(), 0, Arc::new(descriptor), Place { device: 1, inode: 1, mount: 1 })
    }

    #[test]
    fn each_level_below_a_mirror_has_one_mirror() {
        let shared = Shared::new(Namer::new(1));
        let source = root(c"/from");
        source.set_state(Mirror::new(root(c"/to"), &shared));
        let below = chain_to(&source, &[c"a", c"b"]);
        let mirror = Mirror::of(&below).unwrap();
        let mut path = Vec::new();
        mirror.target.path_into(&mut path);
        assert_eq!(path, b"/to/a/b");
        assert!(Arc::ptr_eq(&mirror, &Mirror::of(&below).unwrap()));
        assert!(Mirror::of(&root(c"/other")).is_none());
    }

    #[test]
    fn deep_mirrored_chain_is_dropped_without_recursion() {
        let shared = Shared::new(Namer::new(1));
        let source = root(c"/from");
        source.set_state(Mirror::new(root(c"/to"), &shared));
        let deep = chain_to(&source, &vec![c"level"; 100_000]);
        let mirror = Mirror::of(&deep).unwrap();
        mirror.will_have(Attributes::default());
        assert_eq!(shared.deepest_open(), Some(100_000));
        shared.open.take(&mirror);
        drop((source, deep, mirror));
        assert_eq!(shared.deepest_open(), None);
    }
}
