//! Directories that earlier runs of a walk, sum or comparison have finished, or of which they have done some names, looked at again: whether they are as
//! they were when their names were read. Entries in them are not looked at: a file that was rewritten in place is not noticed. It changes nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use atta_entry::{Errno, Metadata};
use atta_ledger::{At, Stage};
use atta_runtime::{Rate, Stop};
use rustix::fd::OwnedFd;

use crate::resume::looks::{Look, Looks};
use crate::resume::way::{How, Names, OPEN_MOST, Way};
use crate::tree::{Options, mark};
use atta_sys as sys;

/// The most changed directories that are kept by path; more are only counted.
const KNOWN_MOST: usize = 1 << 16;

/// Looks at directories of which earlier runs of the job have done something, on threads of its own.
#[derive(Debug)]
pub struct Recheck {
    looks: Looks<Trees>,
    /// Marks of directories that are not done.
    begun: HashMap<Place, u32>,
    /// Directories that are not done and of which some names are.
    half: HashSet<Place>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rechecked {
    /// Directories that have changed since, are gone, or are others.
    pub changed: u64,
    /// One of them.
    pub one: Option<Vec<u8>>,
    /// Directories that could not be looked at.
    pub failed: u64,
    /// One of them, and why.
    pub failed_one: Option<(Vec<u8>, Errno)>,
}

atta_entry::record!(Rechecked { changed, one, failed, failed_one });

/// The roots, and the tree beside them, if the operation has two.
#[derive(Debug)]
struct Trees {
    /// The path of each root, and its directory. An error: it cannot be opened.
    roots: Vec<(Vec<u8>, Result<OwnedFd, Errno>)>,
    beside: Option<Result<OwnedFd, Errno>>,
    stop: Stop,
    rate: Option<Rate>,
}

/// A root, and the path of a directory below it.
type Place = (u32, Vec<u8>);

fn place_of(at: At<'_>) -> Place {
    (at.root, at.path.to_vec())
}

/// What has become of directories.
#[derive(Debug, Default)]
struct Changed {
    known: BTreeSet<Place>,
    /// Changed ones that are not among these.
    more: u64,
    failed: u64,
    failed_one: Option<(Place, Errno)>,
}

fn open(path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    sys::open_directory_path(path, follow || path.ends_with(b"/"))
}

impl Recheck {
    /// Of a walk or sum of these roots with these options. It obeys their stop flag and their limit of operations.
    #[must_use]
    pub fn of_roots(roots: &[Vec<u8>], options: &Options<'_>) -> Self {
        Self::new(roots, options.follow, None, options)
    }

    /// Of a comparison of two directories.
    pub(crate) fn of_two(source: &[u8], target: &[u8], options: &Options<'_>) -> Self {
        Self::new(&[source.to_vec()], true, Some(open(target, true)), options)
    }

    fn new(
        roots: &[Vec<u8>],
        follow: bool,
        beside: Option<Result<OwnedFd, Errno>>,
        options: &Options<'_>,
    ) -> Self {
        let roots = roots.iter().map(|root| (root.clone(), open(root, follow))).collect();
        let ways = if beside.is_some() { 2 } else { 1 };
        let (stop, rate) = (options.stop.clone(), options.rate.map(Rate::unused));
        let looks = Looks::new(Trees { roots, beside, stop, rate }, ways * (OPEN_MOST + 2));
        Self { looks, begun: HashMap::new(), half: HashSet::new() }
    }

    /// Adds a directory, its mark, as the log has it, and how far it is. If it comes several times, the last one counts.
    pub fn add(&mut self, at: At<'_>, mark: u32, stage: Stage) {
        match stage {
            Stage::Begun => drop(self.begun.insert(place_of(at), mark)),
            Stage::Done | Stage::Complete => self.looks.ask((at.root, at.path.to_vec(), mark), 1),
        }
    }

    /// Adds a directory that is not done and of which some names are.
    pub fn add_half(&mut self, at: At<'_>) {
        self.half.insert(place_of(at));
    }

    /// Waits until all are looked at, or the run is asked to end.
    ///
    /// # Panics
    /// A thread has panicked.
    #[must_use]
    pub fn end(self) -> Rechecked {
        let Self { mut looks, begun, half } = self;
        for (place, mark) in begun.into_iter().filter(|(place, _)| half.contains(place)) {
            looks.ask((place.0, place.1, mark), 1);
        }
        let looker = looks.looker();
        let Changed { known, more, failed, failed_one } = looks.end();
        let path = |(root, below): &Place| {
            let root = looker.roots.get(*root as usize).map(|(path, _)| path.clone()).unwrap_or_default();
            if below.is_empty() { root } else { [root, below.clone()].join(&b'/') }
        };
        Rechecked {
            changed: known.len() as u64 + more,
            one: known.first().map(path),
            failed,
            failed_one: failed_one.map(|(place, errno)| (path(&place), errno)),
        }
    }
}

/// The ways to the last directory, in both trees.
#[derive(Debug, Default)]
struct Ways {
    tree: Way,
    beside: Way,
}

impl Trees {
    /// The mark that a directory has now.
    fn mark(&self, place: (u32, &[u8]), ways: &mut Ways, how: How) -> Result<u32, Errno> {
        let look = |top: &Result<OwnedFd, Errno>, way: &mut Way| -> Result<Metadata, Errno> {
            let top = top.as_ref().map_err(|errno| *errno)?;
            way.look(top, place, (Names::default(), how))
        };
        let Some((_, root)) = self.roots.get(place.0 as usize) else { return Err(Errno::NOENT) };
        let own = mark::of(&look(root, &mut ways.tree)?);
        match &self.beside {
            None => Ok(own),
            Some(beside) => Ok(mark::both(own, mark::of(&look(beside, &mut ways.beside)?))),
        }
    }

    /// Whether a directory has another mark. An error: it cannot be looked at.
    fn has_changed(&self, place: (u32, &[u8]), mark: u32, ways: &mut Ways) -> Result<bool, Errno> {
        if let Some(rate) = &self.rate {
            rate.acquire(1, &self.stop);
        }
        if self.mark(place, ways, How::ByName) == Ok(mark) {
            return Ok(false);
        }
        // A directory on which a file system is to be mounted when it is used is not what it was when it was open.
        match self.mark(place, ways, How::Opened) {
            Ok(now) => Ok(now != mark),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCES) => Ok(true),
            Err(errno) => Err(errno),
        }
    }
}

impl Look for Trees {
    type Asked = (u32, Vec<u8>, u32);
    type Answer = (Place, Result<bool, Errno>);
    type Ways = Ways;
    type Sum = Changed;

    fn look_at(&self, mut asked: Vec<Self::Asked>, ways: &mut Ways) -> Vec<Self::Answer> {
        // Neighbours share the directories above. What is asked of one directory stays in its order.
        asked.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let goes_on = |_: &Self::Asked| !self.stop.is_set();
        let answer = |(root, path, mark): Self::Asked| {
            let has_changed = self.has_changed((root, &path), mark, ways);
            ((root, path), has_changed)
        };
        asked.into_iter().take_while(goes_on).map(answer).collect()
    }

    fn add(changed: &mut Changed, (place, has_changed): Self::Answer) {
        match has_changed {
            Ok(false) if changed.known.is_empty() => {}
            Ok(false) => drop(changed.known.remove(&place)),
            Ok(true) if changed.known.len() < KNOWN_MOST => drop(changed.known.insert(place)),
            Ok(true) => changed.more += u64::from(!changed.known.contains(&place)),
            Err(errno) => {
                changed.failed += 1;
                changed.failed_one.get_or_insert((place, errno));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use atta_testkit::scratch::Scratch;

    use super::*;

    fn bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }

    fn mark_of(path: &Path) -> u32 {
        mark::of(&sys::stat_path(bytes(path), false).unwrap())
    }

    #[test]
    fn changed_directories_are_counted_once() {
        let scratch = Scratch::new("recheck").unwrap();
        let tree = scratch.join("tree");
        for name in ["same", "added", "replaced", "gone", "read again"] {
            fs::create_dir_all(tree.join(name)).unwrap();
        }
        let names = ["", "same", "added", "replaced", "gone", "read again"];
        let marks = names.map(|name| mark_of(&tree.join(name)));
        fs::write(tree.join("added/file"), "").unwrap();
        fs::write(tree.join("read again/file"), "").unwrap();
        fs::rename(tree.join("replaced"), scratch.join("old")).unwrap();
        fs::create_dir(tree.join("replaced")).unwrap();
        fs::remove_dir(tree.join("gone")).unwrap();
        let mut recheck = Recheck::of_roots(&[bytes(&tree).to_vec()], &Options::default());
        let mut add =
            |name: &str, mark| recheck.add(At { root: 0, path: name.as_bytes() }, mark, Stage::Complete);
        for (name, mark) in names.into_iter().zip(marks) {
            add(name, mark);
            add(name, mark);
        }
        add("read again", mark_of(&tree.join("read again")));
        // The tree itself has lost a name.
        assert_eq!(
            recheck.end(),
            Rechecked { changed: 4, one: Some(bytes(&tree).to_vec()), ..Rechecked::default() }
        );
    }

    #[test]
    fn both_trees_are_looked_at() {
        let scratch = Scratch::new("recheck-both").unwrap();
        let (one, other) = (scratch.join("one"), scratch.join("other"));
        for tree in [&one, &other] {
            fs::create_dir_all(tree.join("a/b")).unwrap();
        }
        let both = |name: &str| mark::both(mark_of(&one.join(name)), mark_of(&other.join(name)));
        let marks = [both("a"), both("a/b")];
        let rate = Rate::new(1000);
        let changed = || {
            let mut recheck = Recheck::of_two(
                bytes(&one),
                bytes(&other),
                &Options { rate: Some(&rate), ..Options::default() },
            );
            recheck.add(At { root: 0, path: b"a" }, marks[0], Stage::Done);
            recheck.add(At { root: 0, path: b"a/b" }, marks[1], Stage::Complete);
            recheck.end()
        };
        assert_eq!(changed(), Rechecked::default());
        fs::write(other.join("a/b/file"), "").unwrap();
        assert_eq!(
            changed(),
            Rechecked { changed: 1, one: Some([bytes(&one), b"/a/b"].concat()), ..Rechecked::default() }
        );
    }

    #[test]
    fn directories_that_are_not_done_count_if_names_are() {
        let scratch = Scratch::new("recheck-half").unwrap();
        for name in ["half", "not begun", "as it was"] {
            fs::create_dir_all(scratch.join(name)).unwrap();
        }
        let mut recheck = Recheck::of_roots(&[bytes(scratch.path()).to_vec()], &Options::default());
        let at = |path: &'static [u8]| At { root: 0, path };
        recheck.add_half(at(b"half"));
        for (name, mark) in
            [(&b"half"[..], 7), (b"not begun", 7), (b"as it was", mark_of(&scratch.join("as it was")))]
        {
            recheck.add(at(name), mark, Stage::Begun);
        }
        recheck.add_half(at(b"as it was"));
        let found = recheck.end();
        assert_eq!((found.changed, found.one), (1, Some([bytes(scratch.path()), b"/half"].concat())));
    }

    #[test]
    fn what_cannot_be_looked_at_has_not_changed() {
        let root = [b"/".repeat(2), b"x".repeat(5000)].concat();
        let mut recheck = Recheck::of_roots(std::slice::from_ref(&root), &Options::default());
        recheck.add(At { root: 0, path: b"a" }, 7, Stage::Complete);
        let found = recheck.end();
        let failed_one = Some(([&root[..], b"/a"].concat(), Errno(36)));
        assert_eq!(found, Rechecked { failed: 1, failed_one, ..Rechecked::default() });
        let stop = Stop::new();
        stop.set();
        let mut recheck = Recheck::of_roots(&[root], &Options { stop, ..Options::default() });
        recheck.add(At { root: 0, path: b"a" }, 7, Stage::Complete);
        assert_eq!(recheck.end(), Rechecked::default(), "nothing is looked at after a stop");
    }
}
