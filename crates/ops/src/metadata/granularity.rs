//! How exactly a file system keeps times. Where a job may write, it sets a time and looks what is left of it; else the system's own
//! times show it, which nobody can set and which it cuts in the same way. It sets no times but those of a probe.

use atta_entry::{Metadata, Timestamp};
use rustix::fd::AsFd;
use rustix::fs::{Timespec, Timestamps};

use atta_sys::{self as sys, retry};

/// To how many nanoseconds file systems cut times: not at all, as NTFS and SMB, to a microsecond (UDF), a millisecond, 10 of them
/// (exFAT), a second (ext3, small inodes of ext4), and two (FAT).
const UNITS: [i128; 7] = [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];
/// The first unit that a time divides by chance so rarely that one time is proof enough.
const SURE: i128 = 10_000_000;

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

    /// What the times of an entry, and of the directory that it is in, let the granularity be. Nothing is written.
    pub(crate) fn shown_by(entry: &Metadata, directory: impl AsFd) -> Self {
        #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
        let magic = rustix::fs::fstatfs(&directory).map_or(0, |found| i64::from(found.f_type));
        let above = sys::stat_descriptor(&directory).map_or(entry.ctime, |found| found.ctime);
        let may_be = |unit: i128| {
            let is_cut = |time: Timestamp| time.as_nanoseconds() % unit == 0;
            match unit {
                1 => true,
                // What it calls a time of change is something else.
                2_000_000_000 => magic == MSDOS,
                SURE.. => is_cut(entry.ctime),
                _ => is_cut(entry.ctime) && is_cut(above) && !EXACT.contains(&magic),
            }
        };
        let bits = UNITS.iter().enumerate().filter(|(_, unit)| may_be(**unit));
        Self(bits.fold(0, |all, (bit, _)| all | 1 << bit))
    }

    /// Whether a time is what is left of another one.
    pub(crate) fn is_kept(self, source: Timestamp, copy: Timestamp) -> bool {
        let mut units = UNITS.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        units.any(|(_, unit)| cut(source, *unit) == copy.as_nanoseconds())
    }
}

fn cut(time: Timestamp, unit: i128) -> i128 {
    let nanoseconds = time.as_nanoseconds();
    nanoseconds - nanoseconds.rem_euclid(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    #[test]
    fn a_time_counts_as_kept_only_as_its_file_system_cuts_times() {
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

    #[test]
    fn times_of_the_system_show_what_is_cut() {
        let directory = std::fs::File::open("/proc/self").unwrap();
        let entry = |nanoseconds| Metadata { ctime: time(7, nanoseconds), ..Metadata::default() };
        let shown = |nanoseconds| Granularity::shown_by(&entry(nanoseconds), &directory);
        let given = time(9, 999_999_999);
        assert!(shown(0).is_kept(given, time(9, 0)) && !shown(0).is_kept(given, time(8, 0)));
        assert!(shown(10_000_000).is_kept(given, time(9, 990_000_000)));
        assert!(!shown(10_000_000).is_kept(given, time(9, 0)));
        assert!(!shown(1).is_kept(given, time(9, 0)) && shown(1).is_kept(given, given));
    }
}
