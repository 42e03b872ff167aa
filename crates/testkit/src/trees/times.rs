//! Times that programs get wrong: before 1970, past 2038, with nanoseconds. Sets modification and access times; the
//! change time cannot be set, and the time of birth neither.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Timespec, Timestamps, symlinkat, utimensat};

use super::{make_directory, make_file, open_or_make};

/// Name, seconds since 1970 and nanoseconds of each file that [`times`] makes. The nanoseconds count forwards, so
/// -1 s and 5*10^8 ns is half a second before 1970.
pub const TIMES: &[(&str, i64, i64)] = &[
    ("1901", -(1 << 31), 0),
    ("1901-before", -(1 << 31) - 1, 0),
    ("1969-half", -1, 500_000_000),
    ("1969-last", -1, 999_999_999),
    ("1970", 0, 0),
    ("1970-first", 0, 1),
    ("2001", 1_000_000_000, 123_456_789),
    ("2001-micro", 1_000_000_000, 123_456_000),
    ("2038", (1 << 31) - 1, 999_999_999),
    ("2038-after", 1 << 31, 0),
    ("2100", 4_102_444_800, 1),
];

/// Files with the times of [`TIMES`], and a directory and a symlink of 1969. A file system that cannot hold a time
/// (ext4 with small inodes, xfs without bigtime) stores the nearest it can.
///
/// # Errors
/// What making an entry or setting its times said.
pub fn times(directory: &Path) -> io::Result<u64> {
    let top = open_or_make(directory)?;
    let mut made = 0;
    for &(name, seconds, nanoseconds) in TIMES {
        make_file(&top, name.as_bytes(), b"time")?;
        set_times(&top, name.as_bytes(), seconds, nanoseconds)?;
        made += 1;
    }
    make_directory(&top, b"directory-1969")?;
    symlinkat("2001", &top, "link-1969")?;
    for name in ["directory-1969", "link-1969"] {
        set_times(&top, name.as_bytes(), -1, 500_000_000)?;
        made += 1;
    }
    Ok(made)
}

/// Sets both times of an entry, of a link itself rather than of what it leads to.
pub(super) fn set_times(at: &OwnedFd, name: &[u8], seconds: i64, nanoseconds: i64) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(at, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lock::Lock, oracle, scratch::Scratch, skip};

    #[test]
    fn times_are_kept() {
        let _lock = Lock::for_mounts().unwrap();
        // tmpfs holds every time; what lies under the target directory may not.
        let Some(scratch) = skip::unless_available("times_are_kept", Scratch::on_tmpfs(1 << 20)) else {
            return;
        };
        let made = times(scratch.path()).unwrap();
        let found = oracle::list(scratch.path()).unwrap();
        assert_eq!(u64::try_from(found.len()).unwrap(), made + 1);
        let time = |name: &str| {
            let record = &found[scratch.join(name).as_os_str().as_encoded_bytes()];
            (record.mtime_sec, record.mtime_nsec)
        };
        for &(name, seconds, nanoseconds) in TIMES {
            assert_eq!(time(name), (seconds, u32::try_from(nanoseconds).unwrap()), "{name}");
        }
        assert_eq!(time("link-1969"), (-1, 500_000_000));
        assert_eq!(time("directory-1969"), (-1, 500_000_000));
    }
}
