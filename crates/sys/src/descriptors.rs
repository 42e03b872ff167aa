//! The limit of open descriptors, and retries when none is left. It does not divide them among users.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atta_entry::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open descriptors of this process to the hard one. A program does that at its start; a library leaves it
/// to its host.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If that is not permitted, the soft limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// How many descriptors this process may have open.
#[must_use]
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

/// How many are open, if `/proc` reports it.
pub fn open_now() -> u64 {
    let listed = rustix::fs::open("/proc/self/fd", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    let Ok(names) = listed.map_err(drop).and_then(|fd| rustix::fs::Dir::new(fd).map_err(drop)) else {
        return 3;
    };
    // The directory itself, `.` and `..`.
    (names.filter(Result::is_ok).count() as u64).saturating_sub(3)
}

/// The value for no limit.
const UNLIMITED: u64 = 1 << 16;

/// A function that closes unused descriptors.
static RELEASE: Mutex<Option<fn()>> = Mutex::new(None);

/// Sets the function that closes unused descriptors when a call finds none left. The last one set counts.
pub fn on_shortage(release: fn()) {
    *RELEASE.lock().unwrap_or_else(PoisonError::into_inner) = Some(release);
}

/// How often a call that finds no descriptor is tried.
const TRIES: u32 = 20;
/// How long the first pause is, and how long the longest: a second in all.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(64)];

/// Repeats a call that found no descriptor: after unused directories were closed, and then while other threads release theirs.
///
/// # Errors
/// The error of the last try.
#[cold]
pub fn wait_for<T>(call: &mut dyn FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let [mut pause, longest] = PAUSES;
    for _ in 0..TRIES {
        release();
        match call() {
            Err(errno) if errno.is_too_many_open() => std::thread::sleep(pause),
            other => return other,
        }
        pause = (2 * pause).min(longest);
    }
    call()
}

fn release() {
    let release = *RELEASE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(release) = release {
        release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_waits_for_a_descriptor_within_a_limit() {
        let mut left = 5;
        let mut call = || {
            left -= 1;
            if left > 0 { Err(Errno::MFILE) } else { Ok(7) }
        };
        assert_eq!(wait_for(&mut call), Ok(7));
        let mut calls = 0;
        let mut call = || -> Result<(), Errno> {
            calls += 1;
            Err(Errno::MFILE)
        };
        assert_eq!((wait_for(&mut call), calls), (Err(Errno::MFILE), TRIES + 1));
        assert_eq!(wait_for(&mut || Err::<(), _>(Errno::NOENT)), Err(Errno::NOENT));
    }
}
