//! The directories of the records that are read, with their identities. Hashes only names that changed since the record before. No I/O.

use crate::id::{Id, Key, names, shared};
use crate::record::{At, Fact, Record, records_near};

/// The directory of the last record.
#[derive(Debug)]
pub(super) struct Steps<'k> {
    key: &'k Key,
    root: Option<u32>,
    /// The root, then each name of the path: where it ends, and its identity.
    steps: Vec<(usize, Id)>,
}

/// The identities of paths one after the other: hashes only names that the path before did not have.
#[derive(Debug)]
pub struct PathIds<'k> {
    steps: Steps<'k>,
    path: Vec<u8>,
}

impl<'k> PathIds<'k> {
    /// For paths of a job.
    #[must_use]
    pub fn new(key: &'k Key) -> Self {
        Self { steps: Steps::new(key), path: Vec::new() }
    }

    /// The identity of a path below a root of the job, as [`Key::of_path`] returns it.
    pub fn id(&mut self, root: u32, path: &[u8]) -> Id {
        let kept = shared(&self.path, path);
        self.path.truncate(kept);
        self.path.extend_from_slice(&path[kept..]);
        self.steps.set(At { root, path }, kept);
        self.steps.last()
    }
}

/// What a record says.
pub(super) enum Read<'a> {
    Fact(Here<'a>, &'a Fact<'a>),
    Other(&'a Record<'a>),
}

/// A directory of a record.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) at: At<'a>,
    key: &'a Key,
    steps: &'a [(usize, Id)],
    /// So many of the steps are those of the record before.
    kept: usize,
}

impl<'k> Steps<'k> {
    pub(super) fn new(key: &'k Key) -> Self {
        Self { key, root: None, steps: Vec::new() }
    }

    /// Reads a section: calls `each` with its records, and the directory if it is a fact about one. Returns whether it is valid.
    pub(super) fn read(&mut self, section: &[u8], each: &mut dyn FnMut(Read<'_>)) -> bool {
        self.root = None;
        records_near(section, &mut |record, shared| match record {
            Record::In(at, fact) => {
                let kept = self.set(*at, shared);
                each(Read::Fact(Here { at: *at, key: self.key, steps: &self.steps, kept }, fact));
            }
            record => each(Read::Other(record)),
        })
    }

    /// The identity of the last directory.
    fn last(&self) -> Id {
        self.steps[self.steps.len() - 1].1
    }

    /// `shared`: so many bytes of the path are those of the record before. Returns how many steps are.
    fn set(&mut self, at: At<'_>, shared: usize) -> usize {
        let is_other_root = self.root != Some(at.root);
        if is_other_root {
            self.root = Some(at.root);
            self.steps.clear();
            self.steps.push((0, self.key.root(at.root)));
        } else if shared == at.path.len() && self.steps.last().is_some_and(|(end, _)| *end == shared) {
            return self.steps.len();
        }
        let ends =
            |end: usize| end == 0 || end <= shared && at.path.get(end).is_none_or(|byte| *byte == b'/');
        let kept = self.steps.iter().take_while(|(end, _)| ends(*end)).count();
        self.steps.truncate(kept);
        let (mut end, mut id) = self.steps[kept - 1];
        for name in names(&at.path[end..]) {
            end += usize::from(end > 0) + name.len();
            id = self.key.below(id, name);
            self.steps.push((end, id));
        }
        if is_other_root { 0 } else { kept }
    }
}

impl<'a> Here<'a> {
    pub(super) fn id(&self) -> Id {
        self.steps[self.steps.len() - 1].1
    }

    /// Identity of the directory above; none: it is a root.
    pub(super) fn above(&self) -> Option<Id> {
        self.steps.len().checked_sub(2).map(|at| self.steps[at].1)
    }

    /// Identity of a name in it; of itself if the name is empty.
    pub(super) fn named(&self, name: &[u8]) -> Id {
        if name.is_empty() { self.id() } else { self.key.below(self.id(), name) }
    }

    /// The directories from this one up to the root, each with that above it.
    pub(super) fn up(&self) -> impl Iterator<Item = (Id, Option<Id>)> + '_ {
        (0..self.steps.len()).rev().map(|at| (self.steps[at].1, at.checked_sub(1).map(|at| self.steps[at].1)))
    }

    /// The directories whose names the record before did not have, from the top.
    pub(super) fn added(&self) -> impl Iterator<Item = (At<'a>, Id)> + '_ {
        let Self { at, steps, .. } = *self;
        steps[self.kept..].iter().map(move |(end, id)| (At { root: at.root, path: &at.path[..*end] }, *id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_those_of_whole_paths() {
        let key = Key::of_job(&[3; 16]);
        let (mut steps, mut ids) = (Steps::new(&key), PathIds::new(&key));
        let path = |root, path: &'static str| (root, path.as_bytes());
        // With the number of steps of the record before: the root is one.
        let paths = [
            (path(0, ""), 0),
            (path(0, "ab/c"), 1),
            (path(0, "ab/c"), 3),
            (path(0, "ab/cd"), 2),
            (path(0, "ab/cd/e"), 3),
            (path(0, "ab"), 2),
            (path(0, "a"), 1),
            (path(1, "a/b"), 0),
        ];
        let mut before: &[u8] = b"";
        for ((root, path), kept) in paths {
            let shared = crate::id::shared(before, path);
            before = path;
            assert_eq!(steps.set(At { root, path }, shared), kept, "{path:?}");
            assert_eq!(steps.last(), key.of_path(root, path), "{path:?}");
            assert_eq!(ids.id(root, path), key.of_path(root, path), "{path:?}");
        }
    }
}
