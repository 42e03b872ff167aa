//! How fast one process writes to a directory and reads from it: small timed transfers with a file of its own that has no name. It keeps no
//! results; `speeds.rs` does.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_code::record;
use atta_entry::Errno;
use atta_runtime::unnamed_file;
use rustix::fs::Advice;

use crate::in_time::each_in_time;

/// The most bytes that are written.
const BYTES_MAX: u64 = 32 << 20;
/// The fewest that say something.
const BYTES_MIN: u64 = 1 << 20;
/// The part of the available space that is used at most.
const SPACE_SHARE: u64 = 16;
/// How long to write, and how long to read. The step under way is finished.
const TIME_MAX: Duration = Duration::from_secs(1);
/// After so many bytes they are made durable, and the clock is read.
const STEP_BYTES: u64 = 8 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes a second of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Written and made durable (`fdatasync`).
    pub write: u64,
    /// Read again, after the kernel was asked to forget them. Servers and disks may still have them in memory.
    pub read: u64,
}

record!(Speed { write, read });

/// Measures the speed of a directory: up to 32 MiB or a second each way, but no more than a sixteenth of the available space. The file is
/// gone at the end, whatever happens. A dead server holds it as long as any other call.
///
/// # Errors
/// The directory cannot be written; ENOSPC: less than 16 MiB are available.
pub fn measure(directory: &Path) -> Result<Speed, Errno> {
    let file = unnamed_file(directory).map_err(|error| errno(&error))?;
    let found = rustix::fs::fstatvfs(&file).map_err(|error| Errno(error.raw_os_error()))?;
    let bytes = (found.f_bavail.saturating_mul(found.f_frsize) / SPACE_SHARE).min(BYTES_MAX);
    if bytes < BYTES_MIN {
        return Err(Errno::NOSPC);
    }
    let begin = Instant::now();
    timed(&file, bytes, || begin.elapsed()).map_err(|error| errno(&error))
}

/// The same with a time limit for the whole, after which the measurement is left behind. None: it has not ended by then.
///
/// # Errors
/// As [`measure`].
pub fn measure_in_time(directory: &Path, wait_max: Duration) -> Option<Result<Speed, Errno>> {
    let point = [directory.as_os_str().as_bytes().to_vec()];
    let ask = |directory: &[u8]| measure(Path::new(OsStr::from_bytes(directory)));
    each_in_time(&point, ask, |_| wait_max).pop().flatten()
}

fn errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::IO.0))
}

/// Writes and reads so many bytes, or as many as the time allows. `clock`: the time since some moment.
fn timed(file: &File, bytes: u64, clock: impl Fn() -> Duration) -> io::Result<Speed> {
    // Bytes that no file system compresses.
    let mut buffer = vec![0; BUFFER_BYTES];
    blake3::Hasher::new().update(b"atta").finalize_xof().fill(&mut buffer);
    let (written, write) = transfer(bytes, &clock, |at, length| {
        (at..at + length).step_by(BUFFER_BYTES).try_for_each(|at_part| {
            let part = buffer_part(at + length - at_part);
            file.write_all_at(&buffer[..part], at_part)
        })?;
        file.sync_data()
    })?;
    // What cannot be forgotten is read from memory, as it would be by anyone else.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    let (_, read) = transfer(written, &clock, |at, length| {
        (at..at + length).step_by(BUFFER_BYTES).try_for_each(|at_part| {
            let part = buffer_part(at + length - at_part);
            file.read_exact_at(&mut buffer[..part], at_part)
        })
    })?;
    Ok(Speed { write, read })
}

fn buffer_part(rest: u64) -> usize {
    usize::try_from(rest).unwrap_or(usize::MAX).min(BUFFER_BYTES)
}

/// Takes steps until all is done or the time is over. Returns the bytes, and how many there are in a second.
fn transfer(
    bytes: u64,
    clock: impl Fn() -> Duration,
    mut step: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let (begin, mut at) = (clock(), 0);
    loop {
        let length = (bytes - at).min(STEP_BYTES);
        step(at, length)?;
        at += length;
        let taken = clock().saturating_sub(begin);
        if at >= bytes || taken >= TIME_MAX {
            return Ok((at, per_second(at, taken)));
        }
    }
}

fn per_second(bytes: u64, taken: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / taken.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use atta_testkit::scratch::Scratch;

    use super::*;

    /// A clock that advances by so much whenever it is read.
    fn clock(step: Duration) -> impl Fn() -> Duration {
        let now = Cell::new(Duration::ZERO);
        move || now.replace(now.get() + step)
    }

    #[test]
    fn slow_file_systems_end_after_a_second() {
        let scratch = Scratch::new("measure").unwrap();
        let file = unnamed_file(&scratch.join("")).unwrap();
        let found = timed(&file, BYTES_MAX, clock(Duration::from_millis(600))).unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_size.cast_unsigned(), 2 * STEP_BYTES);
        // 16 MiB in 1.2 s.
        let speed = 2 * STEP_BYTES * 10 / 12;
        assert_eq!(found, Speed { write: speed, read: speed });
    }

    #[test]
    fn fast_file_systems_get_all_bytes() {
        let scratch = Scratch::new("measure").unwrap();
        let file = unnamed_file(&scratch.join("")).unwrap();
        let bytes = BYTES_MAX - 4097;
        let found = timed(&file, bytes, clock(Duration::from_millis(1))).unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_size.cast_unsigned(), bytes);
        assert_eq!(found.write, per_second(bytes, Duration::from_millis(4)));
        assert_eq!(per_second(5, Duration::ZERO), 5_000_000_000);
    }

    #[test]
    fn nothing_is_left_in_the_directory() {
        let scratch = Scratch::new("measure").unwrap();
        let found = measure(&scratch.join("")).unwrap();
        assert!(found.write > 0 && found.read > 0);
        #[expect(clippy::disallowed_methods, reason = "a directory of this test")]
        let left = std::fs::read_dir(scratch.join("")).unwrap().count();
        assert_eq!(left, 0);
        assert_eq!(measure(&scratch.join("none")), Err(Errno::NOENT));
    }

    #[test]
    fn little_space_is_left_alone() {
        let Some(small) = atta_testkit::skip::unless_available("measure", Scratch::on_tmpfs(15 << 20)) else {
            return;
        };
        assert_eq!(measure(&small.join("")), Err(Errno::NOSPC));
    }
}
