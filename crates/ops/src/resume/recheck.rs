//! Directories that earlier runs of a walk, sum or comparison have finished, looked at again: whether they are as they were when their names were read.
//! Entries in them are not looked at: a file that was rewritten in place is not noticed. It changes nothing.

use std::collections::BTreeSet;

use atta_entry::{Errno, Metadata};
use atta_ledger::At;
use rustix::fd::OwnedFd;

use crate::resume::looks::{Look, Looks};
use crate::resume::way::{How, Names, Way};
use crate::tree::mark;
use atta_sys as sys;

/// The most directories of which it is known which they are.
const KNOWN_MOST: usize = 1 << 16;

/// Looks at directories that earlier runs of the job have finished, on threads of its own.
#[derive(Debug)]
pub struct Recheck(Looks<Trees>);

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rechecked {
    /// Directories that have changed since, are gone, or are others.
    pub changed: u64,
    /// One of them.
    pub one: Option<Vec<u8>>,
}

atta_entry::record!(Rechecked { changed, one });

/// The roots, and the tree beside them, if the operation has two.
#[derive(Debug)]
struct Trees {
    /// The path of each root, and its directory. An error: it cannot be opened.
    roots: Vec<(Vec<u8>, Result<OwnedFd, Errno>)>,
    beside: Option<Result<OwnedFd, Errno>>,
}

/// A root, and the path of a directory below it.
type Place = (u32, Vec<u8>);

/// Directories that have changed.
#[derive(Debug, Default)]
struct Changed {
    known: BTreeSet<Place>,
    /// Those that are not among these.
    more: u64,
}

fn open(path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    sys::open_directory_path(path, follow || path.ends_with(b"/"))
}

impl Recheck {
    /// Of a walk or sum of these roots. `follow`: also if they are links.
    #[must_use]
    pub fn of_roots(roots: &[Vec<u8>], follow: bool) -> Self {
        Self::new(roots, follow, None)
    }

    /// Of a comparison of two directories.
    #[must_use]
    pub fn of_two(source: &[u8], target: &[u8]) -> Self {
        Self::new(&[source.to_vec()], true, Some(open(target, true)))
    }

    fn new(roots: &[Vec<u8>], follow: bool, beside: Option<Result<OwnedFd, Errno>>) -> Self {
        let roots = roots.iter().map(|root| (root.clone(), open(root, follow))).collect();
        Self(Looks::new(Trees { roots, beside }))
    }

    /// Adds a directory and its mark, as the log has it. If it comes several times, the last one counts.
    pub fn add(&mut self, at: At<'_>, mark: u32) {
        self.0.ask((at.root, at.path.to_vec(), mark), 1);
    }

    /// Waits until all are looked at.
    ///
    /// # Panics
    /// A thread has panicked.
    #[must_use]
    pub fn end(self) -> Rechecked {
        let looker = self.0.looker();
        let Changed { known, more } = self.0.end();
        let path = |(root, below): &Place| {
            let root = looker.roots.get(*root as usize).map(|(path, _)| path.clone()).unwrap_or_default();
            if below.is_empty() { root } else { [root, below.clone()].join(&b'/') }
        };
        Rechecked { changed: known.len() as u64 + more, one: known.first().map(path) }
    }
}

/// The ways to the last directory, in both trees.
#[derive(Debug, Default)]
struct Ways {
    tree: Way,
    beside: Way,
}

impl Trees {
    /// The mark that a directory has now. None: it cannot be looked at.
    fn mark(&self, place: (u32, &[u8]), ways: &mut Ways, how: How) -> Option<u32> {
        let look = |top: &Result<OwnedFd, Errno>, way: &mut Way| -> Option<Metadata> {
            way.look(top.as_ref().ok()?, place, (Names::default(), how)).ok()
        };
        let (_, root) = self.roots.get(place.0 as usize)?;
        let own = mark::of(&look(root, &mut ways.tree)?);
        match &self.beside {
            None => Some(own),
            Some(beside) => Some(mark::both(own, mark::of(&look(beside, &mut ways.beside)?))),
        }
    }
}

impl Look for Trees {
    type Asked = (u32, Vec<u8>, u32);
    type Answer = (Place, bool);
    type Ways = Ways;
    type Sum = Changed;

    fn look_at(&self, mut asked: Vec<Self::Asked>, ways: &mut Ways) -> Vec<Self::Answer> {
        // Neighbours share the directories above. What is asked of one directory stays in its order.
        asked.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let answer = |(root, path, mark): Self::Asked| {
            let place = (root, path.as_slice());
            // A directory on which a file system is to be mounted when it is used is not what it was when it was open.
            let is_same =
                [How::ByName, How::Opened].into_iter().any(|how| self.mark(place, ways, how) == Some(mark));
            ((root, path), !is_same)
        };
        asked.into_iter().map(answer).collect()
    }

    fn add(changed: &mut Changed, (place, is_changed): Self::Answer) {
        match is_changed {
            false if changed.known.is_empty() => {}
            false => drop(changed.known.remove(&place)),
            true if changed.known.len() < KNOWN_MOST => drop(changed.known.insert(place)),
            true => changed.more += u64::from(!changed.known.contains(&place)),
        }
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
        let mut recheck = Recheck::of_roots(&[bytes(&tree).to_vec()], false);
        let mut add = |name: &str, mark| recheck.add(At { root: 0, path: name.as_bytes() }, mark);
        for (name, mark) in names.into_iter().zip(marks) {
            add(name, mark);
            add(name, mark);
        }
        add("read again", mark_of(&tree.join("read again")));
        // The tree itself has lost a name.
        assert_eq!(recheck.end(), Rechecked { changed: 4, one: Some(bytes(&tree).to_vec()) });
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
        let changed = || {
            let mut recheck = Recheck::of_two(bytes(&one), bytes(&other));
            recheck.add(At { root: 0, path: b"a" }, marks[0]);
            recheck.add(At { root: 0, path: b"a/b" }, marks[1]);
            recheck.end()
        };
        assert_eq!(changed(), Rechecked::default());
        fs::write(other.join("a/b/file"), "").unwrap();
        assert_eq!(changed(), Rechecked { changed: 1, one: Some([bytes(&one), b"/a/b"].concat()) });
    }
}
