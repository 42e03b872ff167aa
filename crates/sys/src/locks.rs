//! Locks of whole files (`flock`), for processes on all hosts that see the file. It takes locks and asks the mount table what they are
//! worth; it decides nothing.

use atta_entry::Errno;
use rustix::fd::AsFd;
use rustix::fs::FlockOperation;

use crate::file_systems;
use crate::mount_line::line_of;
use crate::retry::retry;
use crate::stat::{Features, place_of};

/// Takes the exclusive lock of a file without waiting. It is released when the open file is closed.
///
/// # Errors
/// EAGAIN: another open file has it. ENOLCK: the lock was taken, and only processes of this host see that. Any other error: the file
/// system has no locks.
pub fn try_lock(file: impl AsFd) -> Result<(), Errno> {
    retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))?;
    if file_systems::is_nfs(&file) && has_local_locks(&file) { Err(Errno::NOLCK) } else { Ok(()) }
}

/// Whether the lock of a directory is seen on this host alone. An NFS client has no other locks for directories.
pub fn are_local_for_directories(directory: impl AsFd) -> bool {
    file_systems::is_nfs(directory)
}

/// Whether the mount of an NFS file keeps locks to itself. One that cannot be looked up counts as one that does not.
fn has_local_locks(file: impl AsFd) -> bool {
    let Ok(place) = place_of(file, Features::default()) else { return false };
    std::fs::read("/proc/self/mountinfo").is_ok_and(|mounts| keeps_locks(&mounts, place.mount))
}

/// Whether a mount with this number is one of NFS with local locks: `nolock`, `local_lock=flock` or `local_lock=all`.
fn keeps_locks(mounts: &[u8], mount: u64) -> bool {
    let is_one = |option: &[u8]| matches!(option, b"nolock" | b"local_lock=flock" | b"local_lock=all");
    line_of(mounts, mount).is_some_and(|line| line.super_options.split(|byte| *byte == b',').any(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_open_file_has_the_lock() {
        let scratch = atta_testkit::scratch::Scratch::new("locks").unwrap();
        let open = || std::fs::File::create(scratch.join("file")).unwrap();
        let (first, second) = (open(), open());
        assert_eq!((try_lock(&first), try_lock(&second)), (Ok(()), Err(Errno::AGAIN)));
        drop(first);
        assert_eq!(try_lock(&second), Ok(()));
    }

    #[test]
    fn local_locks_of_nfs_are_recognised() {
        let line = |options: &str| {
            format!(
                "24 1 0:22 / / rw - ext4 /dev/a rw\n\
                 31 24 0:48 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2,proto=tcp,{options},addr=192.0.2.1\n"
            )
        };
        for local in ["local_lock=all", "local_lock=flock", "nolock,local_lock=all"] {
            assert!(keeps_locks(line(local).as_bytes(), 31), "{local}");
            assert!(!keeps_locks(line(local).as_bytes(), 24) && !keeps_locks(line(local).as_bytes(), 3));
        }
        for shared in ["local_lock=none", "local_lock=posix", "hard"] {
            assert!(!keeps_locks(line(shared).as_bytes(), 31), "{shared}");
        }
        assert!(!keeps_locks(b"", 31));
    }
}
