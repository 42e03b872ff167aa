//! A directory that is being walked: its place in the tree, its path, and its descriptor while one is held.
//!
//! Directories are linked to their parents, so a chain of 10^5 levels holds each name once. A path is built when it is needed, once per
//! directory. The memory is freed with the last reference; `life.rs` tracks when a directory is done and closed.
//!
//! ```text
//!   task ──▶ Directory "c" ──▶ Directory "b" ──▶ Directory "a" (root, once it is open its descriptor is pinned)
//!            descriptor?        descriptor?        descriptor!
//! ```
//!
//! A descriptor is held while tasks may need it, up to a limit: the oldest are closed (see [`DescriptorCache`], and `descriptors.rs` for the limit). A
//! closed directory is opened again name by name from the nearest directory above that has a descriptor. No link is followed on the way,
//! and device and inode must be unchanged. The same is done if the server no longer knows a descriptor (ESTALE).

use std::ffi::{CStr, CString};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atta_entry::Errno;
use atta_ledger::{Id, Seen};
use atta_runtime::Results;
use rustix::fd::OwnedFd;

use crate::tree::listing::descriptor_cache::{Close, DescriptorCache};
use crate::tree::listing::link;
use crate::tree::start::root::Root;
use crate::tree::units::Life;
use atta_sys::{self as sys, Features, Place};

/// How often a directory that is stale is opened again from its root.
pub(crate) const STALE_MOST: u32 = 3;

/// What an operation may keep beside a directory, and what it gathers in a slice.
pub(crate) trait State: Debug + Send + Sync + 'static {
    /// What the names of a slice come to.
    type Results: SliceResults;

    /// Whether something of these results failed, so that a later run of the job does it again.
    fn has_failed(_results: &Self::Results) -> bool {
        false
    }

    /// Takes from results what only the log of the job needs: it has it, or does not get it.
    fn forget_logged(_results: &mut Self::Results) {}

    /// Whether nothing is left to do for the directory when it is closed, so that no later run of the job closes it.
    fn is_final(&self) -> bool {
        true
    }

    /// What the log of the job says of the directory, so that a later run notices another one in its place.
    fn seen(&self) -> Option<Seen> {
        None
    }
}

/// What the names of a slice come to: a value that can be added and sent.
pub trait SliceResults: Results + Debug + PartialEq + Send + 'static {}

impl<R: Results + Debug + PartialEq + Send + 'static> SliceResults for R {}

impl State for () {
    type Results = ();
}

/// Nothing is kept beside a directory. `R`: the results of a slice.
#[derive(Debug)]
pub(crate) struct Stateless<R>(PhantomData<fn() -> R>);

impl<R: SliceResults> State for Stateless<R> {
    type Results = R;
}

/// A directory on the way from a root to the tasks below it.
#[derive(Debug)]
pub(crate) struct Directory<S = ()> {
    parent: Option<Arc<Self>>,
    /// Its name in the parent; for a root, the path as given.
    name: CString,
    /// Index of its root among the roots of the walk.
    root: u32,
    depth: u32,
    /// Length of its path.
    path_bytes: usize,
    /// Its real place as names below the root, if a followed link led to it.
    target: Option<Vec<u8>>,
    /// What opens it, if it is a root that was not opened when this object was made.
    unopened: Option<Arc<Root>>,
    descriptor: Mutex<Option<Arc<OwnedFd>>>,
    /// Which directory it is, once that was needed.
    place: OnceLock<Place>,
    /// The inode that another rank found, which is the same on all hosts; 0 if unknown.
    inode: u64,
    /// Its temporary name until it gets its own.
    alias: Option<Alias>,
    /// What an operation keeps beside it. Dropped with the directory, when no work below it is left here.
    state: OnceLock<S>,
    life: Life,
    /// Its identity in the logs of its job, if an earlier run has found it.
    again: OnceLock<Box<Id>>,
}

/// Another name for a directory that is being made.
#[derive(Debug)]
struct Alias {
    name: CString,
    /// It has its own name by now.
    is_over: AtomicBool,
}

impl<S: State> Directory<S> {
    /// A root. Its descriptor stays open as long as it lives.
    pub(crate) fn root(path: CString, root: u32, descriptor: Arc<OwnedFd>, place: Place) -> Arc<Self> {
        Arc::new(Self::root_of(path, root, descriptor, place))
    }

    /// A root for names listed below it or for tasks from the spill file. Its creator keeps its units, so it never ends.
    pub(crate) fn root_for_tasks(
        path: CString,
        root: u32,
        descriptor: Arc<OwnedFd>,
        place: Place,
    ) -> Arc<Self> {
        Arc::new(Self::root_of(path, root, descriptor, place).with_life(Life::of_sent()))
    }

    /// A root for tasks that another rank has sent. It is opened when a task needs it. None: its path holds a NUL.
    pub(crate) fn unopened_root(index: u32, root: Arc<Root>) -> Option<Self> {
        let mut unopened = Self::closed(CString::new(root.path.clone()).ok()?, index);
        unopened.unopened = Some(root);
        Some(unopened)
    }

    fn root_of(path: CString, root: u32, descriptor: Arc<OwnedFd>, place: Place) -> Self {
        Self::closed(path, root).with_descriptor(descriptor).with_place(Some(place))
    }

    /// A root that cannot be opened: every lookup below it fails with ESTALE.
    pub(crate) fn closed_root(path: &[u8], root: u32) -> Option<Arc<Self>> {
        let name = CString::new(path).ok()?;
        Some(Arc::new(Self::closed(name, root)))
    }

    fn closed(name: CString, root: u32) -> Self {
        Self {
            path_bytes: name.as_bytes().len(),
            parent: None,
            name,
            root,
            depth: 0,
            target: None,
            unopened: None,
            descriptor: Mutex::new(None),
            place: OnceLock::new(),
            inode: 0,
            alias: None,
            state: OnceLock::new(),
            life: Life::of_found(),
            again: OnceLock::new(),
        }
    }

    /// A directory below `parent`, without a descriptor.
    pub(crate) fn below(parent: &Arc<Self>, name: &CStr, target: Option<Vec<u8>>) -> Self {
        let slash = usize::from(!parent.needs_no_slash());
        let mut directory = Self::closed(name.to_owned(), parent.root);
        directory.path_bytes += parent.path_bytes + slash;
        directory.depth = parent.depth + 1;
        directory.parent = Some(Arc::clone(parent));
        directory.target = target;
        directory
    }

    pub(crate) fn with_descriptor(mut self, descriptor: Arc<OwnedFd>) -> Self {
        self.descriptor = Mutex::new(Some(descriptor));
        self
    }

    pub(crate) fn with_place(self, place: Option<Place>) -> Self {
        if let Some(place) = place {
            let _ = self.place.set(place);
        }
        self
    }

    pub(crate) fn with_inode(mut self, inode: Option<u64>) -> Self {
        self.inode = inode.unwrap_or(0);
        self
    }

    pub(crate) fn with_life(mut self, life: Life) -> Self {
        self.life = life;
        self
    }

    /// Notes that an earlier run of the job has found it.
    pub(crate) fn set_again(&self, id: Id) {
        let _ = self.again.set(Box::new(id));
    }

    /// Its identity, if an earlier run of the job has found it.
    pub(crate) fn again(&self) -> Option<Id> {
        self.again.get().map(|id| **id)
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// Sets another name that it may still have, which is tried first.
    pub(crate) fn with_alias(mut self, name: CString) -> Self {
        self.alias = Some(Alias { name, is_over: AtomicBool::new(false) });
        self
    }

    /// The other name, unless the directory is known to have its own by now.
    pub(crate) fn alias(&self) -> Option<&CStr> {
        let alias = self.alias.as_ref()?;
        (!alias.is_over.load(Ordering::Acquire)).then_some(alias.name.as_c_str())
    }

    /// Notes that it has its own name now.
    pub(crate) fn end_alias(&self) {
        if let Some(alias) = &self.alias {
            alias.is_over.store(true, Ordering::Release);
        }
    }

    pub(crate) fn root_index(&self) -> u32 {
        self.root
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Length of its path.
    pub(crate) fn path_bytes(&self) -> usize {
        self.path_bytes
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    pub(crate) fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Where a followed link led, as names below the root.
    pub(crate) fn link_target(&self) -> Option<&[u8]> {
        self.target.as_deref()
    }

    /// What an operation keeps beside it.
    pub(crate) fn state(&self) -> Option<&S> {
        self.state.get()
    }

    /// Sets what an operation keeps beside it, unless that is set already.
    pub(crate) fn set_state(&self, state: S) {
        let _ = self.state.set(state);
    }

    /// What an operation keeps beside it. If that is not set, it is derived level by level from the nearest directory above that has
    /// some. None: no directory up to its root has any.
    pub(crate) fn state_or_made(self: &Arc<Self>, below: impl Fn(&S, &CStr) -> S) -> Option<&S> {
        if let Some(known) = self.state() {
            return Some(known);
        }
        // Without recursion: the chain may be 10^5 levels long.
        let mut without = vec![self];
        let mut made = loop {
            let parent = without.last()?.parent()?;
            match parent.state() {
                Some(known) => break known,
                None => without.push(parent),
            }
        };
        for directory in without.into_iter().rev() {
            // Another thread may be quicker.
            made = directory.state.get_or_init(|| below(made, directory.name()));
        }
        Some(made)
    }

    pub(crate) fn known_place(&self) -> Option<Place> {
        self.place.get().copied()
    }

    /// This directory and those above it, up to the root.
    pub(crate) fn lineage(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |directory| directory.parent.as_deref())
    }

    /// Replaces `out` by the whole path, which begins with the root as given. Returns the root's length in it.
    pub(crate) fn path_into(&self, out: &mut Vec<u8>) -> usize {
        out.clear();
        out.resize(self.path_bytes, b'/');
        let mut end = self.path_bytes;
        let mut root_bytes = 0;
        for directory in self.lineage() {
            let name = directory.name.as_bytes();
            out[end - name.len()..end].copy_from_slice(name);
            end = directory.parent.as_ref().map_or(0, |parent| parent.path_bytes);
            root_bytes = name.len();
        }
        root_bytes
    }

    /// Its real place as names below the root: with followed links resolved, unlike the path that is shown.
    pub(crate) fn names_below_root(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for directory in self.lineage().filter(|directory| directory.parent.is_some()) {
            if let Some(target) = &directory.target {
                names.extend(link::names(target).rev().map(<[u8]>::to_vec));
                break;
            }
            names.push(directory.name.as_bytes().to_vec());
        }
        names.reverse();
        names
    }

    /// Its descriptor, opened again if it was closed. Directories opened on the way are held too, as the next task is likely to need them.
    pub(crate) fn descriptor(
        self: &Arc<Self>,
        held: &mut DescriptorCache,
        features: Features,
    ) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(descriptor) = &*self.slot() {
            return Ok(Arc::clone(descriptor));
        }
        self.open_again(held, features)
    }

    /// Calls `act` with its descriptor. If the server no longer knows the descriptor (ESTALE), the directory is opened again from its root,
    /// provided that it was identified.
    pub(crate) fn try_anew<T>(
        self: &Arc<Self>,
        held: &mut DescriptorCache,
        features: Features,
        mut act: impl FnMut(&Arc<OwnedFd>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut tries = 0;
        loop {
            // If the directory cannot be opened, trying again does not help.
            let descriptor = self.descriptor(held, features)?;
            match act(&descriptor) {
                Err(Errno::STALE) if tries < STALE_MOST => tries += 1,
                outcome => return outcome,
            }
            self.close_lineage(features);
        }
    }

    /// Closes its descriptor and those above it, so that the next use looks each name up again.
    pub(crate) fn close_lineage(self: &Arc<Self>, features: Features) {
        self.lineage().for_each(|directory| directory.close(features));
    }

    fn open_again(
        self: &Arc<Self>,
        held: &mut DescriptorCache,
        features: Features,
    ) -> Result<Arc<OwnedFd>, Errno> {
        // Climb without recursion: the chain may be 10^5 levels long.
        let mut closed = vec![Arc::clone(self)];
        let mut above = loop {
            let Some(directory) = closed.last() else { return Err(Errno::STALE) };
            let Some(parent) = directory.parent.clone() else {
                let descriptor = directory.open_as_root(features)?;
                closed.pop();
                break descriptor;
            };
            let open = parent.slot().clone();
            match open {
                Some(descriptor) => break descriptor,
                None => closed.push(parent),
            }
        };
        while let Some(directory) = closed.pop() {
            above = directory.reopen(&above, features)?;
            directory.slot().replace(Arc::clone(&above));
            held.keep(&directory, features);
        }
        Ok(above)
    }

    /// Opens a root by its path, unless another object of it is open.
    fn open_as_root(&self, features: Features) -> Result<Arc<OwnedFd>, Errno> {
        let root = self.unopened.as_ref().ok_or(Errno::STALE)?;
        let (descriptor, found) = root.descriptor(features)?;
        self.recognise(found)?;
        self.slot().replace(Arc::clone(&descriptor));
        Ok(descriptor)
    }

    fn reopen(self: &Arc<Self>, parent: &Arc<OwnedFd>, features: Features) -> Result<Arc<OwnedFd>, Errno> {
        let opened = match &self.target {
            None => self.open_by_name(parent)?,
            Some(target) => {
                let root = self.lineage().last().and_then(|root| root.slot().clone()).ok_or(Errno::STALE)?;
                link::reopen(&root, target)?
            }
        };
        self.recognise(sys::place_of(&opened, features)?)?;
        Ok(Arc::new(opened))
    }

    /// Whether a directory that was found under its name is the one that was there before, here or on the rank that sent it.
    fn recognise(&self, found: Place) -> Result<(), Errno> {
        if self.inode != 0 && self.inode != found.inode {
            return Err(Errno::STALE);
        }
        let known = self.place.get_or_init(|| found);
        if (found.device, found.inode) != (known.device, known.inode) {
            return Err(Errno::STALE);
        }
        Ok(())
    }

    fn open_by_name(&self, parent: &OwnedFd) -> Result<OwnedFd, Errno> {
        if let Some(alias) = self.alias() {
            match sys::open_directory_at(parent, alias) {
                Err(Errno::NOENT) => {}
                opened => return opened,
            }
        }
        let opened = sys::open_directory_at(parent, &self.name)?;
        self.end_alias();
        Ok(opened)
    }

    /// Identifies the directory while it is open, so that it can be recognised later.
    pub(crate) fn identify(&self, features: Features) -> Option<Place> {
        if self.place.get().is_none()
            && let Some(descriptor) = &*self.slot()
            && let Ok(place) = sys::place_of(descriptor, features)
        {
            let _ = self.place.set(place);
        }
        self.known_place()
    }

    fn needs_no_slash(&self) -> bool {
        // Only a root's path can end in a slash or be empty: names hold no slash.
        self.name.as_bytes().ends_with(b"/") || self.path_bytes == 0
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        lock(&self.descriptor)
    }
}

impl<S: State> Close for Directory<S> {
    /// Drops the descriptor until it is needed again. It stays open as long as a task uses it. A root and a directory that cannot be
    /// identified keep theirs.
    fn close(&self, features: Features) {
        if self.parent.is_some() && self.identify(features).is_some() {
            self.slot().take();
        }
    }
}

/// Drops the parents one by one: dropping a chain of 10^5 levels by recursion would overflow the stack.
impl<S> Drop for Directory<S> {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(directory) = parent {
            parent = Arc::into_inner(directory).and_then(|mut directory| directory.parent.take());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The chain of directories from `root` down to the one with the last name.
#[cfg(test)]
pub(crate) fn chain_to<S: State>(root: &Arc<Directory<S>>, names: &[&CStr]) -> Arc<Directory<S>> {
    names.iter().fold(Arc::clone(root), |parent, name| Arc::new(Directory::below(&parent, name, None)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn stale_directory_is_reopened_at_most_three_times() {
        let scratch = atta_testkit::scratch::Scratch::new("stale").unwrap();
        rustix::fs::mkdirat(rustix::fs::CWD, scratch.join("a"), rustix::fs::Mode::RWXU).unwrap();
        let descriptor =
            Arc::new(sys::open_directory_path(scratch.path().as_os_str().as_bytes(), false).unwrap());
        let place = sys::place_of(&descriptor, Features::default()).unwrap();
        let root = Directory::<()>::root(c"root".into(), 0, descriptor, place);
        let directory = Arc::new(Directory::below(&root, c"a", None));
        for (stale, expected) in [(0, Ok(())), (3, Ok(())), (4, Err(Errno::STALE))] {
            let (mut held, mut seen) = (DescriptorCache::new(4), Vec::new());
            let outcome = directory.try_anew(&mut held, Features::default(), |descriptor| {
                seen.push(Arc::clone(descriptor));
                if seen.len() > stale { Ok(()) } else { Err(Errno::STALE) }
            });
            assert_eq!((outcome, seen.len()), (expected, (stale + 1).min(4)));
            assert!(seen.windows(2).all(|pair| !Arc::ptr_eq(&pair[0], &pair[1])), "each is another one");
        }
        // Another directory now has its name.
        rustix::fs::renameat(rustix::fs::CWD, scratch.join("a"), rustix::fs::CWD, scratch.join("b")).unwrap();
        rustix::fs::mkdirat(rustix::fs::CWD, scratch.join("a"), rustix::fs::Mode::RWXU).unwrap();
        let (mut held, mut calls) = (DescriptorCache::new(4), 0);
        let outcome: Result<(), _> = directory.try_anew(&mut held, Features::default(), |_| {
            calls += 1;
            Err(Errno::STALE)
        });
        assert_eq!((outcome, calls), (Err(Errno::STALE), 1));
    }
}
