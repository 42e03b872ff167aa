//! The granularity of times on a file system. If a job may write, it sets a time and reads it back. Otherwise the times set by the system
//! show it, which users cannot set and which are truncated in the same way. It sets only times of probe files.

use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_entry::{Metadata, Timestamp};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Timespec, Timestamps};

use crate::file::source::Source;
use atta_sys::{self as sys, retry};

/// To how many nanoseconds file systems cut times: not at all, as NTFS and SMB, to a microsecond (UDF), a millisecond, 10 of them
/// (exFAT), a second (ext3, small inodes of ext4), and two (FAT).
const UNITS: [i128; 7] = [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, FAT];
/// The first unit that a time divides by chance so rarely that one time is proof enough.
const SURE: i128 = 10_000_000;

const FAT: i128 = 2_000_000_000;
const MSDOS: i64 = 0x4d44;
/// ext2 to ext4, XFS, btrfs, tmpfs, F2FS, ZFS, overlayfs, bcachefs: they keep nanoseconds, or whole seconds.
const EXACT: [i64; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x2fc1_2fc1, 0x794c_7630, 0xca45_1a4e];

/// To which units times may be cut: a bit for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granularity(u8);

impl Granularity {
    /// Times are kept as they are.
    pub(crate) const EXACT: Self = Self(1);

    /// That of a file's file system, by setting a time of the file, which must be this job's own.
    pub(crate) fn probe(file: impl AsFd) -> Self {
        // An odd second, in what every file system can keep, and nanoseconds that no unit divides.
        let time = Timestamp { seconds: 1_000_000_001, nanoseconds: 987_654_321 };
        let spec = Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
        let times = Timestamps { last_access: spec, last_modification: spec };
        let kept = retry(|| rustix::fs::futimens(&file, &times)).and_then(|()| sys::stat_descriptor(&file));
        kept.map_or(Self::EXACT, |kept| Self::of_kept(time, kept.mtime))
    }

    /// That of a file system that keeps one time as another one.
    fn of_kept(given: Timestamp, kept: Timestamp) -> Self {
        let unit = UNITS.iter().position(|unit| cut(given, *unit) == kept.as_nanoseconds());
        Self(1 << unit.unwrap_or(0) | 1)
    }

    /// What a file system of this kind may have. `magic`: none if that is not known.
    fn possible(magic: Option<i64>) -> Self {
        let is_possible = |unit: i128| match magic {
            None => unit == 1,
            Some(_) if unit == 1 => true,
            Some(magic) if unit == FAT => magic == MSDOS,
            Some(magic) => unit >= SURE || !EXACT.contains(&magic),
        };
        let bits = UNITS.iter().enumerate().filter(|(_, unit)| is_possible(**unit));
        Self(bits.fold(0, |all, (bit, _)| all | 1 << bit))
    }

    /// Without the units that would have cut this time of the system.
    fn without_those_that_cut(self, time: Timestamp) -> Self {
        // On FAT the time of change of status does not show the unit of that of the content.
        let is_left = |unit: i128| unit == FAT || time.as_nanoseconds() % unit == 0;
        let bits = UNITS.iter().enumerate().filter(|(bit, unit)| self.0 >> bit & 1 == 1 && is_left(**unit));
        Self(bits.fold(0, |all, (bit, _)| all | 1 << bit))
    }

    /// Whether a time is what is left of another one.
    pub(crate) fn is_kept(self, source: Timestamp, copy: Timestamp) -> bool {
        let mut units = UNITS.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        units.any(|(_, unit)| cut(source, *unit) == copy.as_nanoseconds())
    }
}

/// The granularity of each file system, as the system's own times of entries show it. A time that a unit does not divide rules this
/// unit out for the rest of the run: one time alone divides by 100 ns in one of a hundred cases.
#[derive(Debug, Default)]
pub(crate) struct Shown(Mutex<Vec<(u64, Granularity)>>);

impl Shown {
    /// What the granularity of an entry's file system can be. `at`: where the entry is. Nothing is written.
    pub(crate) fn by(&self, entry: &Metadata, at: Source<'_>) -> Granularity {
        let known = self.lock().iter().find(|(device, _)| *device == entry.device).map(|known| known.1);
        let before = known.unwrap_or_else(|| first_shown(entry.device, at));
        let times = [Some(entry.ctime), entry.btime];
        let shown = times.into_iter().flatten().fold(before, Granularity::without_those_that_cut);
        if known == Some(shown) {
            return shown;
        }
        let mut all = self.lock();
        match all.iter_mut().find(|(device, _)| *device == entry.device) {
            // Another thread may know more.
            Some((_, known)) => {
                known.0 &= shown.0;
                *known
            }
            None => {
                all.push((entry.device, shown));
                shown
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Granularity)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the kind of an entry's file system and the directory that it is in show. A mount point is on another
/// file system than its directory. Of a path no directory is open.
fn first_shown(device: u64, at: Source<'_>) -> Granularity {
    let magic = |opened: BorrowedFd<'_>| {
        let found = rustix::fs::fstatfs(opened).ok()?;
        #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
        Some(i64::from(found.f_type))
    };
    let is_there = |found: &Metadata| found.device == device;
    if let Some(above) = sys::stat_descriptor(at.directory).ok().filter(is_there) {
        return Granularity::possible(magic(at.directory)).without_those_that_cut(above.ctime);
    }
    let opened = sys::open_name_at(at.directory, at.name).ok();
    let opened = opened.filter(|opened| sys::stat_descriptor(opened).is_ok_and(|found| is_there(&found)));
    Granularity::possible(opened.and_then(|opened| magic(opened.as_fd())))
}

fn cut(time: Timestamp, unit: i128) -> i128 {
    let nanoseconds = time.as_nanoseconds();
    nanoseconds - nanoseconds.rem_euclid(unit)
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn time(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    #[test]
    fn time_is_kept_as_far_as_its_file_system_can() {
        let given = time(7, 123_456_789);
        let cuts = [(7, 123_456_789), (7, 123_456_700), (7, 123_456_000), (7, 123_000_000), (7, 120_000_000)];
        let cuts = cuts.into_iter().chain([(7, 0), (6, 0)]).map(|(seconds, rest)| time(seconds, rest));
        for kept in cuts.clone() {
            let granularity = Granularity::of_kept(given, kept);
            for other in cuts.clone() {
                let is_kept = granularity.is_kept(given, other);
                assert_eq!(is_kept, other == kept || other == given, "{kept:?}: {other:?}");
            }
        }
        // Rounded, or not kept at all.
        for strange in [time(8, 0), time(1_700_000_000, 5)] {
            assert_eq!(Granularity::of_kept(given, strange), Granularity::EXACT);
        }
        let before = time(-2, 700_000_000);
        assert!(Granularity::of_kept(given, time(7, 0)).is_kept(before, time(-2, 0)));
    }

    /// A path, and an entry on its file system that changed at 7 s and so many nanoseconds.
    fn on(path: &'static CStr) -> (Source<'static>, impl Fn(u32) -> Metadata) {
        let at = Source { directory: rustix::fs::CWD, name: path };
        let device = sys::stat_at(at.directory, path, false).unwrap().device;
        (at, move |nanoseconds| Metadata { device, ctime: time(7, nanoseconds), ..Metadata::default() })
    }

    #[test]
    fn times_of_the_system_show_what_is_cut() {
        let (at, entry) = on(c"/proc");
        let shown = |nanoseconds| Shown::default().by(&entry(nanoseconds), at);
        let given = time(9, 999_999_999);
        assert!(shown(0).is_kept(given, time(9, 0)) && !shown(0).is_kept(given, time(8, 0)));
        assert!(shown(10_000_000).is_kept(given, time(9, 990_000_000)));
        assert!(!shown(10_000_000).is_kept(given, time(9, 0)));
        assert!(!shown(1).is_kept(given, time(9, 0)) && shown(1).is_kept(given, given));
    }

    #[test]
    fn one_time_rules_a_unit_out_for_its_file_system() {
        let (shown, proc, sys) = (Shown::default(), on(c"/proc"), on(c"/sys"));
        let is_kept = |at, entry: &Metadata| shown.by(entry, at).is_kept(time(9, 999_999_999), time(9, 0));
        assert!(is_kept(proc.0, &proc.1(0)));
        assert!(!is_kept(proc.0, &proc.1(1)));
        assert!(!is_kept(proc.0, &proc.1(0)), "what one time has shown is known");
        assert!(is_kept(sys.0, &sys.1(0)), "another file system");
        assert!(!is_kept(sys.0, &Metadata { btime: Some(time(8, 1)), ..sys.1(0) }));
    }

    // Procfs is not known to keep nanoseconds; what it is mounted on is. The other way round a miss would follow.
    #[test]
    fn a_mount_point_is_asked_for_its_own_kind() {
        for (above, path, name, is_cut) in
            [(c"/", c"/proc", c"proc", true), (c"/dev", c"/dev/shm", c"shm", false)]
        {
            let above = sys::open_directory_at(rustix::fs::CWD, above).unwrap();
            let at = Source { directory: above.as_fd(), name };
            let entry = on(path).1(100);
            let is_kept = Shown::default().by(&entry, at).is_kept(time(9, 1), time(9, 0));
            assert_eq!(is_kept, is_cut, "{name:?}");
        }
    }

    // The time of change of a root was a multiple of 100 ns by chance: what is 1 ns away was taken for a time that was cut.
    #[test]
    fn the_file_system_of_a_path_is_asked_for_its_kind() {
        let (at, entry) = on(c"/dev/shm");
        assert!(!Shown::default().by(&entry(100), at).is_kept(time(9, 1), time(9, 0)));
    }
}
