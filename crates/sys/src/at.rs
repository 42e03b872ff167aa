//! Modes and extended attributes of entries that cannot be opened, by a directory's descriptor and a name that is not followed. Linux has
//! calls for that since 6.6 (`fchmodat2`) and 6.13 (`getxattrat` and its like). On older kernels, or if a sandbox refuses them, the path
//! `/proc/self/fd/N/NAME` and the calls that do not follow its last name do the same. It decides nothing.

use std::ffi::{CStr, CString};

use atta_entry::Errno;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, XattrFlags};
use rustix::io::Result;

use crate::raw;
use crate::retry::retry;
use crate::stat::Features;

/// A name in an open directory.
#[derive(Clone, Copy, Debug)]
pub struct NameAt<'a> {
    /// The directory, open.
    pub directory: BorrowedFd<'a>,
    /// The name in it; a link is not followed.
    pub name: &'a CStr,
    /// The calls that the kernel is assumed to have.
    pub features: Features,
}

impl NameAt<'_> {
    /// Lists the names of its extended attributes, each with a NUL. Without the calls and without `/proc`: ENOENT.
    pub fn list(self, room: &mut [u8]) -> Result<usize> {
        match self.features.calls_at.then(|| raw::list(self.directory, self.name, room)) {
            Some(done) if !is_refused(&done) => done,
            _ => rustix::fs::llistxattr(self.path(), room),
        }
    }

    /// Gets one of them. Without the calls and without `/proc`: ENOENT.
    pub fn get(self, attribute: &CStr, value: &mut [u8]) -> Result<usize> {
        match self.features.calls_at.then(|| raw::get(self.directory, self.name, attribute, value)) {
            Some(done) if !is_refused(&done) => done,
            _ => rustix::fs::lgetxattr(self.path(), attribute, value),
        }
    }

    /// Sets one of them. Without the calls and without `/proc`: ENOENT.
    pub fn set(self, attribute: &CStr, value: &[u8]) -> Result<()> {
        match self.features.calls_at.then(|| raw::set(self.directory, self.name, attribute, value)) {
            Some(done) if !is_refused(&done) => done,
            _ => rustix::fs::lsetxattr(self.path(), attribute, value, XattrFlags::empty()),
        }
    }

    /// A path to the name that passes through no other directory: the kernel resolves the first part to exactly that directory.
    fn path(self) -> CString {
        let number = self.directory.as_raw_fd();
        if number == CWD.as_raw_fd() {
            return self.name.to_owned();
        }
        let path = [format!("/proc/self/fd/{number}/").as_bytes(), self.name.to_bytes()].concat();
        CString::new(path).unwrap_or_default()
    }
}

/// Sets the mode of an entry by an `O_PATH` descriptor. Without the call and without `/proc`: ENOSYS.
pub fn set_mode(descriptor: impl AsFd, mode: Mode, features: Features) -> std::result::Result<(), Errno> {
    let descriptor = descriptor.as_fd();
    match features.calls_at.then(|| retry(|| raw::set_mode(descriptor, mode))) {
        Some(done) if !matches!(done, Err(Errno::NOSYS | Errno::PERM)) => return done,
        _ => {}
    }
    let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    match retry(|| rustix::fs::chmodat(CWD, link.as_str(), mode, AtFlags::empty())) {
        // The open entry exists, so the missing name is the link in `/proc`.
        Err(Errno::NOENT) => Err(Errno::NOSYS),
        done => done,
    }
}

/// Whether the kernel does not have a call, or a sandbox keeps it from this process (some say EPERM). EPERM that means something else
/// comes once more from the other call.
fn is_refused<T>(done: &Result<T>) -> bool {
    matches!(done, Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM))
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;
    use rustix::fs::{FileType, mknodat};

    use super::*;
    use crate::open::open_name_at;

    #[test]
    fn newer_calls_and_proc_do_the_same_for_links() {
        let scratch = Scratch::new("at").unwrap();
        let directory = std::fs::File::open(scratch.path()).unwrap();
        std::fs::write(scratch.join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", scratch.join("link")).unwrap();
        mknodat(&directory, c"fifo", FileType::Fifo, Mode::RUSR, 0).unwrap();
        for calls_at in [true, false] {
            let features = Features { calls_at, ..Features::default() };
            let at = |name| NameAt { directory: directory.as_fd(), name, features };
            let value = [calls_at.into(); 9];
            at(c"file").set(c"user.one", &value).unwrap();
            let mut room = [0; 64];
            let length = at(c"file").list(&mut room).unwrap();
            assert_eq!(&room[..length], b"user.one\0");
            let length = at(c"file").get(c"user.one", &mut room).unwrap();
            assert_eq!(&room[..length], &value);
            // A link has no attributes of users, whatever it leads to.
            assert!(at(c"link").set(c"user.one", b"").is_err());
            assert_eq!(at(c"link").get(c"user.one", &mut room), Err(rustix::io::Errno::NODATA));
            assert_eq!(at(c"none").list(&mut room), Err(rustix::io::Errno::NOENT));
            assert_eq!(at(c"file").list(&mut room[..3]), Err(rustix::io::Errno::RANGE));
            let mode = if calls_at { Mode::RWXU } else { Mode::RWXG };
            let fifo = open_name_at(&directory, c"fifo").unwrap();
            set_mode(&fifo, mode, features).unwrap();
            let found = rustix::fs::fstat(&fifo).unwrap();
            assert_eq!(Mode::from_raw_mode(found.st_mode), mode);
        }
    }
}
