//! The target's side of a directory: where its entries are made, and what it is given when the last of them is there.
//!
//! A new directory is made under another name. Whoever looks at names of a slice that is the whole directory gives files their own
//! names at once: nobody sees them before the directory has its name, which it gets when all names have been looked at. In any
//! other directory each file is made under a temporary name first.
//!
//! A directory to which something is left to do in the end, attributes to give or a sync of its own, is *open* (`open.rs`) until its
//! source's directory is closed (`tree/life.rs`): then it gets its owner, attributes, mode and times. What is still open when no task
//! is left comes last: see `ending.rs`.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::copy::commit::stores::Noted;
use crate::copy::target::open::Open;
use crate::jobs::names::Namer;
use crate::metadata::give::Attributes;
use crate::tree::directory::Directory;
use atta_sys::file_systems::Durability;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// The directory on the target's side, opened as it is needed.
    pub(crate) target: Arc<Directory>,
    /// It was made by this job: how many syncs had failed before.
    since: OnceLock<u64>,
    /// Somebody has put another one in its place: nothing is to be done there.
    is_foreign: AtomicBool,
    /// Names are made in it that are durable when it is synced by itself.
    is_expected: AtomicBool,
    waits_for_end: AtomicBool,
    /// What is made in it inherits nothing.
    is_sealed: AtomicBool,
    /// The file system that it is on; not known before it is entered or something is put there.
    pub(crate) store: OnceLock<Noted>,
    /// Whether it takes names that differ in case alone for one.
    pub(crate) folds_case: OnceLock<bool>,
    /// What it is to have; none: it is left as it is.
    attributes: OnceLock<Attributes>,
    shared: Arc<Shared>,
}

/// What all mirrors of a job share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) namer: Namer,
    /// Directories to which something is left to do in the end.
    pub(crate) open: Open<Mirror>,
}

impl Mirror {
    /// Of a directory that keeps its name.
    pub(crate) fn new(target: Arc<Directory>, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            target,
            since: OnceLock::new(),
            is_foreign: AtomicBool::new(false),
            is_expected: AtomicBool::new(false),
            waits_for_end: AtomicBool::new(false),
            is_sealed: AtomicBool::new(false),
            store: OnceLock::new(),
            folds_case: OnceLock::new(),
            attributes: OnceLock::new(),
            shared: Arc::clone(shared),
        })
    }

    /// Of a directory below, which may have another name as yet.
    pub(crate) fn below(&self, name: &std::ffi::CStr) -> Arc<Self> {
        let alias = self.shared.namer.of_directory(name);
        let target = Directory::below(&self.target, name, None).with_alias(alias);
        Self::new(Arc::new(target), &self.shared)
    }

    /// The mirror of a source's directory. None: its root has none.
    pub(crate) fn of(directory: &Arc<Directory>) -> Option<Arc<Self>> {
        directory.attached_or_made(|above: &Arc<Self>, name| above.below(name))
    }

    /// The path of a name in it.
    pub(crate) fn path_of(&self, name: &std::ffi::CStr) -> Vec<u8> {
        let mut path = Vec::new();
        self.target.path_into(&mut path);
        if name != c"." {
            crate::tree::listing::look::join(&mut path, name.to_bytes());
        }
        path
    }

    /// The name that it has until it gets its own.
    pub(crate) fn alias(&self, name: &std::ffi::CStr) -> CString {
        self.shared.namer.of_directory(name)
    }

    /// Says what the directory is to have in the end; the first word counts.
    pub(crate) fn will_have(self: &Arc<Self>, attributes: Attributes) {
        let _ = self.attributes.set(attributes);
        self.shared.open.add(self);
    }

    /// What it is to have; none: it keeps what it has.
    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        self.attributes.get()
    }

    /// Says that names are made in it. Where directories are synced one by one, something is left to do in the end then.
    pub(crate) fn expect_names(self: &Arc<Self>) {
        if self.is_synced_by_itself()
            && self.attributes.get().is_none()
            && !self.is_expected.swap(true, Ordering::Relaxed)
        {
            self.shared.open.add(self);
        }
    }

    /// Says that it waits for the end of all: a list may name it again.
    pub(crate) fn wait_for_end(&self) {
        self.waits_for_end.store(true, Ordering::Relaxed);
    }

    /// Whether it waits for the end of all, or is to have a mode with which nobody but root could make what a list may yet name.
    pub(crate) fn waits_for_end(&self) -> bool {
        let mode = self.attributes.get().map_or(0o700, |attributes| attributes.metadata.mode);
        self.waits_for_end.load(Ordering::Relaxed) || mode & 0o700 != 0o700
    }

    /// Its names and attributes are durable only when it is synced by itself.
    pub(crate) fn is_synced_by_itself(&self) -> bool {
        self.durability() == Some(Durability::Each) && !self.is_foreign()
    }

    /// This job made it, and nobody has put another one in its place: how many syncs had failed before.
    pub(crate) fn own_since(&self) -> Option<u64> {
        self.since.get().copied().filter(|_| !self.is_foreign())
    }

    /// Whether it is known what it is to have.
    pub(crate) fn is_expecting(&self) -> bool {
        self.attributes.get().is_some()
    }

    /// Says that this job made it, so that nothing is there but what the job put there, when so many syncs had failed.
    pub(crate) fn set_new(&self, failures: u64) {
        let _ = self.since.set(failures);
    }

    pub(crate) fn is_new(&self) -> bool {
        self.since.get().is_some()
    }

    /// How many syncs had failed when it was made.
    pub(crate) fn since(&self) -> u64 {
        self.since.get().copied().unwrap_or_default()
    }

    /// Says that it is not the directory that this job made.
    pub(crate) fn set_foreign(&self) {
        self.is_foreign.store(true, Ordering::Release);
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Acquire)
    }

    /// Says that this process owns it and has removed its default ACL: until it gets its owner, when nothing more is made in it,
    /// nobody else can set one.
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

    /// How what is put there is made durable, if that is known.
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.store.get().map(|store| store.durability)
    }
}

impl Shared {
    pub(crate) fn new(namer: Namer) -> Arc<Self> {
        Arc::new(Self { namer, open: Open::default() })
    }

    /// How deep the deepest directory is to which something is left to do.
    pub(crate) fn deepest_open(&self) -> Option<u32> {
        self.open.all().iter().map(|mirror| mirror.target.depth()).max()
    }

    /// Takes those that are so deep or deeper. One without rights bars what is below it: so the deepest are to come first.
    pub(crate) fn take_open(&self, depth: u32) -> Vec<Arc<Mirror>> {
        self.open.take_if(|mirror| mirror.target.depth() >= depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::task::chain_to;
    use atta_sys::Place;

    fn root(path: &std::ffi::CStr) -> Arc<Directory> {
        let descriptor: rustix::fd::OwnedFd = std::fs::File::open("/").unwrap().into();
        Directory::root(path.into(), 0, Arc::new(descriptor), Place { device: 1, inode: 1, mount: 1 })
    }

    #[test]
    fn below_a_mirrored_directory_each_level_has_one_mirror() {
        let shared = Shared::new(Namer::new(1));
        let source = root(c"/from");
        source.attach(Mirror::new(root(c"/to"), &shared));
        let below = chain_to(&source, &[c"a", c"b"]);
        let mirror = Mirror::of(&below).unwrap();
        let mut path = Vec::new();
        mirror.target.path_into(&mut path);
        assert_eq!(path, b"/to/a/b");
        assert!(Arc::ptr_eq(&mirror, &Mirror::of(&below).unwrap()));
        assert!(Mirror::of(&root(c"/other")).is_none());
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_levels_is_mirrored_and_dropped_without_recursion() {
        let shared = Shared::new(Namer::new(1));
        let source = root(c"/from");
        source.attach(Mirror::new(root(c"/to"), &shared));
        let deep = chain_to(&source, &vec![c"level"; 100_000]);
        let mirror = Mirror::of(&deep).unwrap();
        mirror.will_have(Attributes::default());
        assert_eq!(shared.deepest_open(), Some(100_000));
        shared.open.take(&mirror);
        drop((source, deep, mirror));
        assert_eq!(shared.deepest_open(), None);
    }
}
