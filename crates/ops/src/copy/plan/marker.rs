//! The directories that a copy writes into, as ranks compare them before it begins, and an empty file that one rank makes in them and the others look
//! for: it shows that they write into one directory. What follows, the caller decides.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use atta_entry::{Errno, Kind};
use atta_sys::{self as sys, retry};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::Copy;

/// A directory that a copy writes into.
#[derive(Debug)]
pub struct TargetPlace {
    directory: OwnedFd,
    /// Its name in TARGET, or in the directory that TARGET is made in; empty: that directory itself.
    pub name: Vec<u8>,
    /// Its path without symbolic links. None: the kernel does not say.
    pub path: Option<Vec<u8>>,
    /// Its inode.
    pub inode: u64,
}

/// An empty file in a target directory. Dropping it removes the file. A killed run leaves it, as it does other temporary files of the copy.
#[derive(Debug)]
pub struct Marker<'p> {
    directory: &'p OwnedFd,
    name: CString,
}

impl Marker<'_> {
    /// Its name, for [`TargetPlace::sees`]: a new one, so that no client of a server remembers that it was missing.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.to_bytes()
    }
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

impl TargetPlace {
    fn of(directory: OwnedFd, name: Vec<u8>) -> Result<Self, Errno> {
        let inode = sys::stat_descriptor(&directory)?.inode;
        Ok(Self { path: sys::real_path(&directory), directory, name, inode })
    }

    /// Whether the file of a marker is in the directory.
    #[must_use]
    pub fn sees(&self, name: &[u8]) -> bool {
        let is_one_name = name.starts_with(b".atta.") && !name.contains(&b'/');
        let name = CString::new(name).ok().filter(|_| is_one_name);
        name.is_some_and(|name| sys::stat_at(&self.directory, &name, false).is_ok())
    }
}

impl Copy<'_> {
    /// The directories that the copy writes into: TARGET, or the directory that it is made in, and those in it that get the copy of a SOURCE and are
    /// mounts of their own.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn target_places(&self) -> Result<Vec<TargetPlace>, Errno> {
        let target = &self.operation.target;
        let top = retry(|| target.top.directory.try_clone().map_err(|_| rustix::io::Errno::MFILE))?;
        let device = sys::stat_descriptor(&top)?.device;
        let mut places = vec![TargetPlace::of(top, Vec::new())?];
        let mut names = target.roots.names();
        names.sort();
        for name in names.iter().filter(|name| name.as_c_str() != c".") {
            let found = sys::stat_at(&target.top.directory, name, false);
            if found.is_ok_and(|found| found.kind() == Kind::Directory && found.device != device) {
                let opened = sys::open_directory_at(&*target.top.directory, name)?;
                places.push(TargetPlace::of(opened, name.to_bytes().to_vec())?);
            }
        }
        Ok(places)
    }

    /// Makes an empty file in one of these directories.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn mark<'p>(&self, place: &'p TargetPlace) -> Result<Marker<'p>, Errno> {
        let (directory, name) = (&place.directory, self.operation.target.shared.namer.of_file(0));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry(|| rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR))?;
        Ok(Marker { directory, name })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use atta_testkit::scratch::Scratch;

    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};

    #[test]
    fn marker_is_seen_in_the_same_directory_only() {
        let scratch = Scratch::new("marker").unwrap();
        let source = [scratch.join("source").as_os_str().as_bytes().to_vec()];
        let [_, one, other] = ["source", "one", "other"].map(|name| {
            std::fs::create_dir(scratch.join(name)).unwrap();
            scratch.join(name)
        });
        let options = Options::default();
        let into = |target: &std::path::Path, (job, rank)| {
            let seat = Seat { job, rank, ranks: 2, ..Seat::alone() };
            Copy::prepare(&source, target.as_os_str().as_bytes(), &options, &NothingFails, seat).unwrap()
        };
        let copies = [into(&one, (7, 0)), into(&one, (7, 1)), into(&other, (8, 0))];
        let [first, same, another] = copies.each_ref().map(|copy| copy.target_places().unwrap().remove(0));
        assert_eq!((first.inode, &first.path), (same.inode, &same.path));
        let marker = copies[0].mark(&first).unwrap();
        let name = marker.name().to_vec();
        assert_eq!((same.sees(&name), another.sees(&name), same.sees(b".atta.none")), (true, false, false));
        assert!(!same.sees(b"../one"), "no other directory is looked at");
        drop(marker);
        assert!(!same.sees(&name));
    }
}
