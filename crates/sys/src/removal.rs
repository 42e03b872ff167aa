//! Removes an empty directory on file systems that may report for a moment that it is not empty. It removes nothing else, and does not
//! look into the directory.

use std::ffi::CStr;
use std::time::Duration;

use atta_entry::Errno;
use rustix::fd::AsFd;
use rustix::fs::AtFlags;

use crate::retry::retry;

/// The first pause after ENOTEMPTY. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Number of pauses: together about one second.
const PAUSES: u32 = 10;

/// Removes a directory whose names the caller has removed; one that does not exist counts as removed. The caller must have closed the
/// files in it: an NFS client gives a file that is removed while it is open another name in the same directory until it is closed.
///
/// # Errors
/// As of [`until_empty`]. EEXIST is returned as ENOTEMPTY: POSIX allows either.
pub fn remove_empty(above: impl AsFd, name: &CStr) -> Result<(), Errno> {
    until_empty(|| remove(&above, name))
}

/// Tries again for about one second what fails with ENOTEMPTY: a FUSE file system learns late that a file was closed, and servers of a
/// distributed file system may disagree for a moment.
///
/// # Errors
/// The last error.
pub fn until_empty(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..PAUSES {
        match call() {
            Err(Errno::NOTEMPTY) => std::thread::sleep(pause),
            done => return done,
        }
        pause *= 2;
    }
    call()
}

fn remove(above: &impl AsFd, name: &CStr) -> Result<(), Errno> {
    match retry(|| rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use atta_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn name_that_goes_late_is_waited_for() {
        let scratch = Scratch::new("remove-empty").unwrap();
        let above = fs::File::open(scratch.path()).unwrap();
        let file = scratch.join("directory/file");
        fs::create_dir(scratch.join("directory")).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(remove_empty(&above, c"directory"), Err(Errno::NOTEMPTY));
        assert!(file.exists());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                fs::remove_file(&file).unwrap();
            });
            assert_eq!(remove_empty(&above, c"directory"), Ok(()));
        });
        assert!(!scratch.join("directory").exists());
        assert_eq!(remove_empty(&above, c"directory"), Ok(()));
    }
}
