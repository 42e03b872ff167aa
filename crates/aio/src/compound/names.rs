//! Names for compound operations: splits paths, and generates names for temporary files. No I/O.

use std::ffi::CString;
use std::hash::{BuildHasher, Hasher, RandomState};

use atta_entry::Errno;

use crate::{Fd, Op, Place};

/// The number of names to try for a temporary file. Each is one of 2^64, so a second try is rare.
const TRIES_MOST: u32 = 16;

/// Splits a path into the directory and the last name. `None`: it has no last name (`/`, `.`, `..`, or a trailing slash).
pub(super) fn split(place: &Place) -> Option<(Place, CString)> {
    let path = place.path.as_bytes();
    let at = path.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = match at {
        None => (&b"."[..], path),
        Some(0) => (&b"/"[..], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
    };
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let (parent, name) = (CString::new(parent).ok()?, CString::new(name).ok()?);
    Some((Place { dir: place.dir.clone(), path: parent }, name))
}

/// The name of a temporary file: unique in its directory, and short.
#[derive(Debug)]
pub(super) struct Temporary {
    name: CString,
    tries: u32,
}

impl Temporary {
    pub(super) fn new() -> Self {
        Self { name: new_name(), tries: 1 }
    }

    /// The place of the file in a directory.
    pub(super) fn place(&self, dir: Fd) -> Place {
        Place { dir, path: self.name.clone() }
    }

    /// Picks another name if this one is taken.
    ///
    /// # Errors
    /// The file could not be created for another reason, or too many names were taken.
    pub(super) fn after(&mut self, errno: Errno) -> Result<(), Errno> {
        if errno.0 != libc::EEXIST || self.tries == TRIES_MOST {
            return Err(errno);
        }
        (self.name, self.tries) = (new_name(), self.tries + 1);
        Ok(())
    }
}

/// Opens a new temporary file for writing.
pub(super) fn create(place: Place, mode: u32) -> Op {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    Op::Open { place, flags, mode }
}

fn new_name() -> CString {
    // The keys differ with each call. After `fork`, a process has the keys of its parent, so the process ID is added.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    CString::new(format!(".atta-{:016x}", hasher.finish())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let parts = |path: &str| {
            let (parent, name) = split(&Place::path(CString::new(path).unwrap()))?;
            Some((parent.path.into_string().unwrap(), name.into_string().unwrap()))
        };
        let are = |parent: &str, name: &str| Some((parent.to_owned(), name.to_owned()));
        assert_eq!(parts("a"), are(".", "a"));
        assert_eq!(parts("/a"), are("/", "a"));
        assert_eq!(parts("a/b/c"), are("a/b", "c"));
        assert_eq!(parts("a//b"), are("a/", "b"));
        for path in ["", "/", ".", "..", "a/", "a/.", "a/.."] {
            assert_eq!(parts(path), None, "{path}");
        }
    }

    #[test]
    fn names_are_short_and_differ_and_tries_end() {
        let mut temporary = Temporary::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 1..TRIES_MOST {
            assert!(temporary.name.as_bytes().len() == 22 && seen.insert(temporary.name.clone()));
            assert_eq!(temporary.after(Errno(libc::EEXIST)), Ok(()));
        }
        assert_eq!(temporary.after(Errno(libc::EEXIST)), Err(Errno(libc::EEXIST)));
        assert_eq!(Temporary::new().after(Errno::IO), Err(Errno::IO));
    }
}
