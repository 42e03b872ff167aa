//! The target's counterpart of a source directory, and a summary of its names. It is attached to the source's directory, which tasks hold.
//!
//! Sums find the names that exist in the target only. Each name on both sides adds to a count and to a sum of hashes. When all names of the
//! source are done, the names of the target are counted in the same way. Equal sums mean equal sets, since the hash has a random key. Where
//! sums cannot decide (they differ, there are many names, or names left this process), each name of the target is looked up in the source:
//! see `extra.rs`.

use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::totals::Totals;
use crate::tree::directory::{Directory, State};
use crate::tree::listing::path;
use crate::tree::{location, operation};

/// A directory of SOURCE, and what the tree hands out with it.
pub(crate) type SourceDirectory = Directory<Arc<Counterpart>>;
pub(crate) type Here<'a> = operation::Here<'a, Arc<Counterpart>>;
pub(crate) type Tasks = operation::Tasks<Arc<Counterpart>>;
pub(crate) type CurrentPath = path::CurrentPath<Arc<Counterpart>>;
pub(crate) type Location = location::Location<Arc<Counterpart>>;

impl State for Arc<Counterpart> {
    type Results = Totals;
}

/// A directory of the target, and the sums of its names.
#[derive(Debug)]
pub(crate) struct Counterpart {
    /// The target's directory, opened on demand.
    pub(crate) target: Arc<Directory>,
    /// The directory cannot be opened, and this was reported.
    is_lost: AtomicBool,
    /// Names on both sides.
    names: AtomicU64,
    hashes: AtomicU64,
    key: Arc<RandomState>,
}

/// Count of some names of one directory, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) names: u64,
    hashes: u64,
}

impl Counterpart {
    pub(crate) fn new(target: Arc<Directory>, key: &Arc<RandomState>) -> Arc<Self> {
        Arc::new(Self {
            target,
            is_lost: AtomicBool::new(false),
            names: AtomicU64::new(0),
            hashes: AtomicU64::new(0),
            key: Arc::clone(key),
        })
    }

    /// Returns the counterpart of a source directory. None: its root has none.
    pub(crate) fn of(directory: &Arc<SourceDirectory>) -> Option<Arc<Self>> {
        directory
            .state_or_made(|above, name| {
                Self::new(Arc::new(Directory::below(&above.target, name, None)), &above.key)
            })
            .cloned()
    }

    /// Marks the directory as lost. Returns whether this is the first call.
    pub(crate) fn set_lost(&self) -> bool {
        !self.is_lost.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Counts a name that exists on both sides.
    pub(crate) fn add(&self, name: &CStr) {
        self.names.fetch_add(1, Ordering::Relaxed);
        self.hashes.fetch_add(self.key.hash_one(name), Ordering::Relaxed);
    }

    /// The sums of the names on both sides.
    pub(crate) fn tally(&self) -> Tally {
        Tally { names: self.names.load(Ordering::Acquire), hashes: self.hashes.load(Ordering::Acquire) }
    }

    /// Adds a name of the target to a tally.
    pub(crate) fn add_to(&self, tally: &mut Tally, name: &CStr) {
        tally.names += 1;
        tally.hashes = tally.hashes.wrapping_add(self.key.hash_one(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::directory::State;
    use crate::tree::directory::chain_to;
    use atta_sys::Place;

    fn root<S: State>(path: &CStr) -> Arc<Directory<S>> {
        let descriptor: rustix::fd::OwnedFd = std::fs::File::open("/").unwrap().into();
        Directory::root(path.into(), 0, Arc::new(descriptor), Place { device: 1, inode: 1, mount: 1 })
    }

    #[test]
    fn a_directory_below_has_the_one_of_the_same_names() {
        let source = root(c"/from");
        assert!(Counterpart::of(&source).is_none());
        source.set_state(Counterpart::new(root(c"/to"), &Arc::default()));
        let below = chain_to(&source, &[c"a", c"b"]);
        let mut path = Vec::new();
        Counterpart::of(&below).unwrap().target.path_into(&mut path);
        assert_eq!(path, b"/to/a/b");
    }

    #[test]
    fn name_sums_do_not_depend_on_the_order() {
        let counterpart = Counterpart::new(root(c"/to"), &Arc::default());
        [c"one", c"two", c"three"].iter().for_each(|name| counterpart.add(name));
        let tally = |names: &[&CStr]| {
            let mut tally = Tally::default();
            names.iter().for_each(|name| counterpart.add_to(&mut tally, name));
            tally
        };
        assert_eq!(counterpart.tally(), tally(&[c"three", c"one", c"two"]));
        for other in [&[c"one", c"two"][..], &[c"one", c"two", c"four"], &[c"one", c"two", c"two"], &[]] {
            assert_ne!(counterpart.tally(), tally(other));
        }
    }
}
