//! A lock across test programs: cargo runs the programs of one crate in turn, but its threads, a second terminal and
//! a second crate's run do not wait. For tests that mount, use FUSE or change what the whole process shares. Orders
//! nothing between machines.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

/// Held until it is dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    /// The kernel lets the lock go with the last descriptor of this open file.
    _file: File,
}

impl Lock {
    /// Waits for the lock of this name. Two calls in one process exclude each other too.
    ///
    /// # Errors
    /// When the lock's file in the target directory cannot be made or locked.
    pub fn acquire(name: &str) -> io::Result<Self> {
        Self::with(name, FlockOperation::LockExclusive)
    }

    fn with(name: &str, operation: FlockOperation) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path(name))?;
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The lock for tests that mount something or change state of the whole process.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn for_mounts() -> io::Result<Self> {
        Self::acquire("mounts")
    }

    /// The same lock, for tests that only use a file system of their own: they run beside each other.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn for_own_mount() -> io::Result<Self> {
        Self::with("mounts", FlockOperation::LockShared)
    }
}

fn path(name: &str) -> PathBuf {
    crate::target::directory().join(format!("testkit-{name}.lock"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _lock = Lock::acquire("test-of-the-lock").unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn shared_holders_exclude_only_others() {
        let shared = || Lock::with("test-shared", FlockOperation::LockShared).unwrap();
        let is_free = || Lock::with("test-shared", FlockOperation::NonBlockingLockExclusive).is_ok();
        let (one, two) = (shared(), shared());
        assert!(!is_free());
        drop(one);
        assert!(!is_free());
        drop(two);
        // A child of another test may hold it until it executes a program.
        let _alone = Lock::acquire("test-shared").unwrap();
    }

    #[test]
    fn names_are_apart() {
        let _first = Lock::acquire("test-first").unwrap();
        let _second = Lock::acquire("test-second").unwrap();
    }
}
