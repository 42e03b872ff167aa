//! The target's counterpart of a source directory, and a summary of its names. It is attached to the source's directory, which tasks hold.
//!
//! Sums find the names that exist in the target only. Each name on both sides adds to a tally (`tally.rs`). Another rank that gets some of the
//! names has a tally of its own, which it reports to the rank that found the directory. When all names of the source are done on all ranks,
//! the names of the target are counted there in the same way. If the sums differ, each name of the target is looked up in the source: see
//! `extra.rs`.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atta_entry::Code as _;

use super::findings::Findings;
use super::tally::{Key, SharedTally, Tally};
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
    type Results = Findings;

    fn has_failed(results: &Findings) -> bool {
        results.is_left()
    }

    fn forget_logged(results: &mut Findings) {
        results.keep_totals();
    }
}

/// A directory of the target, and the sums of its names.
#[derive(Debug)]
pub(crate) struct Counterpart {
    /// The target's directory, opened on demand.
    pub(crate) target: Arc<Directory>,
    /// The directory cannot be opened, and this was reported.
    is_lost: AtomicBool,
    /// Names on both sides that this rank has seen, and those that other ranks have reported.
    tally: SharedTally,
    key: Key,
}

impl Counterpart {
    pub(crate) fn new(target: Arc<Directory>, key: Key) -> Arc<Self> {
        Arc::new(Self { target, is_lost: AtomicBool::new(false), tally: SharedTally::default(), key })
    }

    /// Returns the counterpart of a source directory. None: its root has none.
    pub(crate) fn of(directory: &Arc<SourceDirectory>) -> Option<Arc<Self>> {
        directory
            .state_or_made(|above, name| {
                Self::new(Arc::new(Directory::below(&above.target, name, None)), above.key)
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
        self.tally.add(name, self.key);
    }

    /// The sums of the names on both sides.
    pub(crate) fn tally(&self) -> Tally {
        self.tally.get()
    }

    /// Adds a name of the target to a tally.
    pub(crate) fn add_to(&self, tally: &mut Tally, name: &CStr) {
        tally.add(name, self.key);
    }

    /// Takes the sums, as bytes for the rank that found the directory. Empty: no name was counted.
    pub(crate) fn report(&self) -> Vec<u8> {
        let tally = self.tally.take();
        if tally == Tally::default() { Vec::new() } else { tally.encoded() }
    }

    /// Adds the sums that another rank has reported. False: the bytes are not valid.
    pub(crate) fn add_report(&self, report: &[u8]) -> bool {
        Tally::decode_all(report).map(|tally| self.tally.add_all(tally)).is_some()
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
        source.set_state(Counterpart::new(root(c"/to"), Key::random()));
        let below = chain_to(&source, &[c"a", c"b"]);
        let mut path = Vec::new();
        Counterpart::of(&below).unwrap().target.path_into(&mut path);
        assert_eq!(path, b"/to/a/b");
    }

    #[test]
    fn report_of_names_is_added_once() {
        let [here, there] = [Key::random(); 2].map(|key| Counterpart::new(root(c"/to"), key));
        assert!(there.report().is_empty());
        [c"one", c"two"].iter().for_each(|name| there.add(name));
        let expected = there.tally();
        let report = there.report();
        assert!(here.add_report(&report) && there.report().is_empty());
        assert_eq!(here.tally(), expected);
        assert!(!here.add_report(&[]) && !here.add_report(&report[1..]));
        assert_eq!(here.tally(), expected, "a damaged report adds nothing");
    }
}
