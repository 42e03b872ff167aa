//! The target's side of a directory: where its entries are made, and what it is given when the last of them is there.
//!
//! A new directory is made under another name. While that is so, and all who put files there are known (its *parts*), files get
//! their own names at once: nobody sees them before the directory has its name, which it gets when the last part is done. In
//! any other directory each file is made under a temporary name first.
//!
//! A mirror lives as long as something is left to do in its directory: it is attached to the source's directory, which tasks
//! hold, as do files that wait for their names. When it is dropped, nothing more will be made there by this process, and the
//! directory gets its owner, attributes, mode and times.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::copy::commit::stores::Noted;
use crate::jobs::names::Namer;
use crate::metadata::give::Attributes;
use crate::tree::directory::Directory;
use crate::tree::parts::Parts;
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
    /// Who puts files there, of those that were counted beforehand.
    pub(crate) parts: Parts,
    /// Something to be done there has become bytes: this process does not know when the last of it is done.
    has_left: AtomicBool,
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
    complete: Mutex<Vec<Complete>>,
    late: Mutex<Vec<Complete>>,
    /// Source directories whose copies are to get their names, now that their last part has left.
    nameless: Mutex<Vec<Arc<Directory>>>,
}

/// A directory that has all its entries.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) target: Arc<Directory>,
    /// None: it keeps those that it has.
    pub(crate) attributes: Option<Attributes>,
    /// Its names and attributes are durable only when it is synced by itself.
    pub(crate) is_synced: bool,
    /// This job made it, and nobody has put another one in its place: how many syncs had failed before.
    pub(crate) since: Option<u64>,
}

impl Mirror {
    /// Of a directory that keeps its name.
    pub(crate) fn new(target: Arc<Directory>, shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            target,
            since: OnceLock::new(),
            is_foreign: AtomicBool::new(false),
            parts: Parts::default(),
            has_left: AtomicBool::new(false),
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
    pub(crate) fn will_have(&self, attributes: Attributes) {
        let _ = self.attributes.set(attributes);
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

    /// Whether files get their own names there at once, by whoever is one of its parts.
    pub(crate) fn is_direct(&self) -> bool {
        self.parts.are_left() && self.target.alias().is_some()
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

    /// Notes that something to be done there has become bytes.
    pub(crate) fn set_left(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let attributes = self.attributes.take();
        let is_synced = self.durability() == Some(Durability::Each) && !self.is_foreign();
        if attributes.is_none() && !is_synced {
            return;
        }
        // Without these rights nobody but root could do anything below it, nor could whoever still has something to do here.
        let is_restrictive =
            attributes.as_ref().is_some_and(|attributes| attributes.metadata.mode & 0o700 != 0o700);
        let since = self.since.get().copied().filter(|_| !self.is_foreign());
        let complete = Complete { target: Arc::clone(&self.target), attributes, is_synced, since };
        if is_restrictive || *self.has_left.get_mut() {
            lock(&self.shared.late).push(complete);
        } else {
            lock(&self.shared.complete).push(complete);
        }
    }
}

impl Shared {
    pub(crate) fn new(namer: Namer) -> Arc<Self> {
        Arc::new(Self {
            namer,
            complete: Mutex::default(),
            late: Mutex::default(),
            nameless: Mutex::default(),
        })
    }

    /// Takes the directories that are complete.
    pub(crate) fn take_complete(&self) -> Vec<Complete> {
        let mut complete = lock(&self.complete);
        if complete.is_empty() { Vec::new() } else { std::mem::take(&mut *complete) }
    }

    /// Notes that the last part of a directory has left this process.
    pub(crate) fn add_nameless(&self, source: &Arc<Directory>) {
        lock(&self.nameless).push(Arc::clone(source));
    }

    /// Takes the directories of which that was noted.
    pub(crate) fn take_nameless(&self) -> Vec<Arc<Directory>> {
        let mut nameless = lock(&self.nameless);
        if nameless.is_empty() { Vec::new() } else { std::mem::take(&mut *nameless) }
    }

    /// Of those that are complete only when all is done, how deep the deepest is.
    pub(crate) fn deepest_late(&self) -> Option<u32> {
        lock(&self.late).iter().map(|complete| complete.target.depth()).max()
    }

    /// Those of them that this job made, and how many syncs had failed before.
    pub(crate) fn late(&self) -> Vec<(Arc<Directory>, Option<u64>)> {
        lock(&self.late).iter().map(|complete| (Arc::clone(&complete.target), complete.since)).collect()
    }

    /// Takes those that are so deep or deeper. One without rights bars what is below it: so the deepest are to come first.
    pub(crate) fn take_late(&self, depth: u32) -> Vec<Complete> {
        let mut late = lock(&self.late);
        late.extract_if(.., |complete| complete.target.depth() >= depth).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn open() -> Attributes {
        let metadata = atta_entry::Metadata { mode: 0o40755, ..Default::default() };
        Attributes { metadata, ..Attributes::default() }
    }

    #[test]
    fn a_directory_is_complete_when_nobody_holds_it_or_its_mirror_and_children_come_first() {
        let shared = Shared::new(Namer::new(1));
        let source = root(c"/from");
        source.attach(Mirror::new(root(c"/to"), &shared));
        let below = chain_to(&source, &[c"a", c"b"]);
        let mirror = Mirror::of(&below).unwrap();
        let mut path = Vec::new();
        mirror.target.path_into(&mut path);
        assert_eq!(path, b"/to/a/b");
        assert!(Arc::ptr_eq(&mirror, &Mirror::of(&below).unwrap()));
        mirror.will_have(open());
        let parent = Mirror::of(below.parent().unwrap()).unwrap();
        parent.will_have(Attributes::default());
        drop(parent);
        // A task is left below it, then a file that waits.
        let task = chain_to(&below, &[c"c"]);
        drop(below);
        assert!(shared.take_complete().is_empty());
        drop(task);
        assert!(shared.take_complete().is_empty(), "a has no rights, b is held by the file");
        drop(mirror);
        assert_eq!(
            (shared.take_complete().len(), shared.deepest_late(), shared.take_late(1).len()),
            (1, Some(1), 1)
        );
        assert!(Mirror::of(&root(c"/other")).is_none());
    }

    #[test]
    fn files_have_their_names_at_once_while_all_who_make_them_are_known_and_the_directory_has_not_its_own() {
        let top = Mirror::new(root(c"/to"), &Shared::new(Namer::new(1)));
        let mirror = top.below(c"new");
        assert!(!mirror.is_direct() && !top.is_direct());
        mirror.parts.set(2);
        mirror.parts.add();
        assert!(mirror.is_direct());
        assert_eq!([(); 4].map(|()| mirror.parts.end()), [false, false, true, false]);
        assert!(!mirror.is_direct());
        mirror.parts.add();
        assert!(!mirror.is_direct(), "nobody comes after the last one");
        mirror.parts.set(1);
        mirror.target.end_alias();
        assert!(!mirror.is_direct());
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_levels_is_mirrored_and_dropped_without_recursion() {
        let shared = Shared::new(Namer::new(1));
        let source = root(c"/from");
        source.attach(Mirror::new(root(c"/to"), &shared));
        let deep = chain_to(&source, &vec![c"level"; 100_000]);
        let mirror = Mirror::of(&deep).unwrap();
        mirror.will_have(open());
        drop((source, deep, mirror));
        assert_eq!(shared.take_complete().len(), 1);
    }
}
