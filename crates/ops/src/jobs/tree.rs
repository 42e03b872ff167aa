//! Counts, and optionally removes, one name in an open directory and everything below it: by descriptors, without following links, and
//! within its file system and mount. It holds two descriptors, however deep the tree is.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use atta_runtime::Stop;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::AtFlags;

use atta_sys::{self as sys, Features, Place, retry};

/// How often a directory is read again if names were added to it meanwhile.
const AGAIN_MOST: u32 = 3;

/// Whether names are removed or only counted, and what ends it early.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) removes: bool,
    pub(crate) stop: Stop,
    pub(crate) features: Features,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) entries: u64,
    /// Bytes on the disk that have no other name.
    pub(crate) bytes: u64,
}

impl Tally {
    /// Counts an entry.
    pub(crate) fn add(&mut self, found: &Metadata) {
        let has_another_name = found.kind() != Kind::Directory && found.nlink != 1;
        self.entries += 1;
        self.bytes += if has_another_name { 0 } else { found.allocated_bytes() };
    }
}

/// A directory on the way down.
struct Level {
    name: CString,
    place: Place,
    /// Directories in it that were not entered yet.
    below: Vec<CString>,
    again: u32,
}

/// Counts or removes the tree. The tally stays valid after a failure.
///
/// # Errors
/// The first failure, which ends it: what is left stays. Something is mounted there (EXDEV), it was stopped (EINTR), or another process
/// moves directories (ESTALE).
pub(crate) fn dispose(
    directory: BorrowedFd<'_>,
    name: &CStr,
    manner: &Manner,
    tally: &mut Tally,
) -> Result<(), Errno> {
    let found = sys::stat_at(directory, name, false)?;
    if found.kind() != Kind::Directory {
        return leaf(directory, name, manner, tally);
    }
    let above = sys::place_of(directory, manner.features)?;
    let mut here = enter(directory, name, above, manner)?;
    let mut levels = vec![level(&here, name.to_owned(), manner, tally)?];
    while let Some(last) = levels.last_mut() {
        if let Some(next) = last.below.pop() {
            let entered = enter(here.as_fd(), &next, above, manner)?;
            levels.push(level(&entered, next, manner, tally)?);
            here = entered;
            continue;
        }
        let Some(mut done) = levels.pop() else { break };
        let parent = match levels.last() {
            Some(level) => Some(climb(&here, level.place, manner)?),
            None => None,
        };
        let over = parent.as_ref().map_or(directory, AsFd::as_fd);
        match end(over, &done, manner) {
            Err(Errno::NOTEMPTY) if done.again < AGAIN_MOST => {
                let below = list(&here, manner, tally)?;
                done = Level { below, again: done.again + 1, ..done };
                levels.push(done);
                continue;
            }
            ended => ended?,
        }
        match parent {
            Some(parent) => here = parent,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Counts or removes an entry that is no directory.
fn leaf(directory: BorrowedFd<'_>, name: &CStr, manner: &Manner, tally: &mut Tally) -> Result<(), Errno> {
    let found = match sys::stat_at(directory, name, false) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    if manner.removes {
        match retry(|| rustix::fs::unlinkat(directory, name, AtFlags::empty())) {
            // The reply to the first request was lost.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    tally.add(&found);
    Ok(())
}

/// Opens a directory, which must be on the same mount as the one that holds the tree.
fn enter(directory: BorrowedFd<'_>, name: &CStr, above: Place, manner: &Manner) -> Result<OwnedFd, Errno> {
    if manner.stop.is_set() {
        return Err(Errno::INTR);
    }
    let opened = sys::open_directory_at(directory, name)?;
    let place = sys::place_of(&opened, manner.features)?;
    if (place.device, place.mount) == (above.device, above.mount) { Ok(opened) } else { Err(Errno::XDEV) }
}

fn level(opened: &OwnedFd, name: CString, manner: &Manner, tally: &mut Tally) -> Result<Level, Errno> {
    let place = sys::place_of(opened, manner.features)?;
    tally.add(&sys::stat_descriptor(opened)?);
    Ok(Level { name, place, below: list(opened, manner, tally)?, again: 0 })
}

/// Handles all entries of a directory except directories, whose names it returns.
fn list(opened: &OwnedFd, manner: &Manner, tally: &mut Tally) -> Result<Vec<CString>, Errno> {
    let errno = |error: rustix::io::Errno| Errno(error.raw_os_error());
    let mut below = Vec::new();
    for entry in rustix::fs::Dir::read_from(opened).map_err(errno)? {
        let entry = entry.map_err(errno)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if manner.stop.is_set() {
            return Err(Errno::INTR);
        }
        let kind = match sys::kind_of(entry.file_type()) {
            Kind::Unknown => match sys::stat_at(opened, name, false) {
                Err(Errno::NOENT) => continue,
                found => found?.kind(),
            },
            kind => kind,
        };
        match kind {
            Kind::Directory => below.push(name.to_owned()),
            _ => leaf(opened.as_fd(), name, manner, tally)?,
        }
    }
    Ok(below)
}

/// Opens the directory above, which must be the one that led here.
fn climb(here: &OwnedFd, expected: Place, manner: &Manner) -> Result<OwnedFd, Errno> {
    let above = sys::open_directory_at(here, c"..")?;
    if sys::place_of(&above, manner.features)? == expected { Ok(above) } else { Err(Errno::STALE) }
}

fn end(above: BorrowedFd<'_>, done: &Level, manner: &Manner) -> Result<(), Errno> {
    if !manner.removes {
        return Ok(());
    }
    if done.again == AGAIN_MOST {
        return sys::remove_empty(above, &done.name);
    }
    match retry(|| rustix::fs::unlinkat(above, &done.name, AtFlags::REMOVEDIR)) {
        Err(Errno::NOENT) => Ok(()),
        // POSIX lets it be either.
        Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use atta_testkit::scratch::Scratch;
    use atta_testkit::trees;

    use super::*;

    fn run(scratch: &Scratch, removes: bool) -> (Result<(), Errno>, Tally) {
        let opened = fs::File::open(scratch.path()).unwrap();
        let manner = Manner { removes, stop: Stop::new(), features: Features::default() };
        let mut tally = Tally::default();
        let done = dispose(opened.as_fd(), c"tree", &manner, &mut tally);
        (done, tally)
    }

    #[test]
    fn tree_is_removed_without_targets_of_links() {
        let scratch = Scratch::new("dispose").unwrap();
        let (tree, outside) = (scratch.join("tree"), scratch.join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "kept").unwrap();
        for directory in ["a/b/c", "a/d", "e"] {
            fs::create_dir_all(tree.join(directory)).unwrap();
            fs::write(tree.join(directory).join("file"), vec![b'x'; 5000]).unwrap();
            symlink(&outside, tree.join(directory).join("link")).unwrap();
        }
        fs::hard_link(outside.join("file"), tree.join("e/hard")).unwrap();
        let counted = run(&scratch, false);
        assert_eq!((counted.0, counted.1.entries), (Ok(()), 13));
        assert!(counted.1.bytes >= 15_000);
        assert!(tree.exists());
        let removed = run(&scratch, true);
        assert_eq!((removed.0, removed.1.entries), (Ok(()), 13));
        assert!(!tree.exists());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"kept");
        fs::write(&tree, "a file").unwrap();
        assert_eq!((run(&scratch, true).1.entries, tree.exists()), (1, false));
        assert_eq!(run(&scratch, true).0, Err(Errno::NOENT));
    }

    #[test]
    fn deep_chain_is_removed_with_two_descriptors() {
        let scratch = Scratch::new("dispose-deep").unwrap();
        fs::create_dir(scratch.join("tree")).unwrap();
        trees::chain(&scratch.join("tree"), 3_000, b"level").unwrap();
        let (done, tally) = run(&scratch, true);
        assert_eq!(done, Ok(()));
        assert!(tally.entries > 3_000, "{tally:?}");
        assert!(!scratch.join("tree").exists());
    }

    #[test]
    fn it_ends_when_it_is_asked_to() {
        let scratch = Scratch::new("dispose-stop").unwrap();
        fs::create_dir_all(scratch.join("tree/a")).unwrap();
        let opened = fs::File::open(scratch.path()).unwrap();
        let manner = Manner { removes: true, stop: Stop::new(), features: Features::default() };
        manner.stop.set();
        let done = dispose(opened.as_fd(), c"tree", &manner, &mut Tally::default());
        assert_eq!(done, Err(Errno::INTR));
        assert!(scratch.join("tree/a").exists());
    }
}
