//! An empty file that one rank makes in the target directory and the others look for: it shows that they write into one directory. It has a
//! random name, so that no client of a server remembers that it was missing. Who makes it, and what follows, the caller decides.

use std::ffi::CString;

use atta_entry::Errno;
use atta_sys::{self as sys, retry};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::copy::Copy;

/// A file by which ranks find out whether they see the same directory. Dropping it removes the file.
#[derive(Debug)]
pub struct Marker<'c> {
    copy: &'c Copy<'c>,
    name: CString,
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        // It is empty: whoever finds it removes it.
        let directory = &self.copy.operation.target.top.directory;
        let _ = rustix::fs::unlinkat(directory, &self.name, AtFlags::empty());
    }
}

impl Copy<'_> {
    /// Makes the file with this number in the target directory. It must not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn mark_target(&self, number: u64) -> Result<Marker<'_>, Errno> {
        let (name, directory) = (name(number), &self.operation.target.top.directory);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry(|| rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR))?;
        Ok(Marker { copy: self, name })
    }

    /// Whether the file with this number is in the target directory.
    #[must_use]
    pub fn sees_marker(&self, number: u64) -> bool {
        sys::stat_at(&self.operation.target.top.directory, &name(number), false).is_ok()
    }
}

fn name(number: u64) -> CString {
    CString::new(format!(".atta.marker.{number:016x}")).unwrap_or_default()
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
        let (first, same, another) = (into(&one, (7, 0)), into(&one, (7, 1)), into(&other, (8, 0)));
        let marker = first.mark_target(7).unwrap();
        assert_eq!((same.sees_marker(7), same.sees_marker(8), another.sees_marker(7)), (true, false, false));
        assert!(first.mark_target(7).is_err(), "it is there");
        drop(marker);
        assert!(!same.sees_marker(7));
    }
}
