//! How much space a mount point has, and whether a file can be made there: asked by one rank of each source. It does not know who else needs
//! space.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_code::record;
use atta_entry::Errno;
use atta_runtime::unnamed_file;
use atta_sys::quota::{Quota, quota_of};
use atta_sys::retry;
use rustix::fs::{Mode, OFlags};

use super::place::Tightest;
use crate::in_time::each_in_time;

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes for users without privileges.
    pub available: u64,
    /// The limit of this user.
    pub quota: Quota,
    /// Whether a file can be made in the directory. Ok if that was not asked.
    pub writable: Result<(), Errno>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// A call failed. ENOTDIR: the mount point is a file.
    Unreadable(Errno),
    /// A call did not return in time.
    NoAnswer,
}

/// Answers for mount points. A trait, so that tests answer by themselves.
pub trait Rooms {
    /// The space of each mount point, in the same order. It returns in bounded time, whatever the file systems do.
    fn rooms(&self, points: &[Vec<u8>], is_write_wanted: bool) -> Vec<Result<Room, NoRoom>>;
}

/// The file systems of this host, all of them asked at once.
///
/// To find out whether it may write, it makes a file without a name, and removes it. access(2) answers from mode bits: it does not know that a
/// server exports read-only, or that no inode is left.
#[derive(Clone, Copy, Debug)]
pub struct SystemRooms {
    /// How long to wait for answers, in total.
    pub wait_max: Duration,
}

impl Default for SystemRooms {
    /// Five seconds.
    fn default() -> Self {
        Self { wait_max: Duration::from_secs(5) }
    }
}

impl Rooms for SystemRooms {
    fn rooms(&self, points: &[Vec<u8>], is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
        let end = Instant::now() + self.wait_max;
        let left = |_| end.saturating_duration_since(Instant::now());
        let answers = each_in_time(points, move |point| room(point, is_write_wanted), left);
        let answer = |answer: Option<Result<_, _>>| {
            answer.map_or(Err(NoRoom::NoAnswer), |room| room.map_err(NoRoom::Unreadable))
        };
        answers.into_iter().map(answer).collect()
    }
}

fn room(point: &[u8], is_write_wanted: bool) -> Result<Room, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = retry(|| rustix::fs::open(point, flags, Mode::empty()))?;
    let found = retry(|| rustix::fs::fstatvfs(&directory))?;
    // A descriptor that only names a file is not accepted. A directory that cannot be read has no quota that could be read.
    let opened =
        retry(|| rustix::fs::openat(&directory, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()));
    let quota = opened.map_or(Quota::NotRead, quota_of);
    let writable = if is_write_wanted { check_write(point) } else { Ok(()) };
    let available = found.f_bavail.saturating_mul(found.f_frsize);
    Ok(Room { available, quota, writable })
}

fn check_write(point: &[u8]) -> Result<(), Errno> {
    let made = unnamed_file(Path::new(OsStr::from_bytes(point)));
    made.map(drop).map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))
}

/// What ranks found at one mount point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    pub(crate) tightest: Option<Tightest>,
    pub(crate) is_quota_unread: bool,
    pub(crate) not_writable: Option<(u32, Errno)>,
    pub(crate) unreadable: Option<(u32, Errno)>,
    pub(crate) silent: Option<u32>,
}

record!(Looked { tightest, is_quota_unread, not_writable, unreadable, silent });

impl Looked {
    pub(crate) fn of(room: Result<Room, NoRoom>, rank: u32, need: u64) -> Self {
        let room = match room {
            Ok(room) => room,
            Err(NoRoom::Unreadable(errno)) => {
                return Self { unreadable: Some((rank, errno)), ..Self::default() };
            }
            Err(NoRoom::NoAnswer) => return Self { silent: Some(rank), ..Self::default() },
        };
        let available = match room.quota {
            Quota::Left(bytes) => room.available.min(bytes),
            Quota::Unlimited | Quota::NotRead => room.available,
        };
        Self {
            tightest: Some(Tightest { rank, need, available }),
            is_quota_unread: room.quota == Quota::NotRead,
            not_writable: room.writable.err().map(|errno| (rank, errno)),
            ..Self::default()
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        let least = |tight: &Tightest| (tight.surplus(), tight.rank);
        self.tightest = self.tightest.into_iter().chain(other.tightest).min_by_key(least);
        self.is_quota_unread |= other.is_quota_unread;
        self.not_writable = lowest(self.not_writable, other.not_writable);
        self.unreadable = lowest(self.unreadable, other.unreadable);
        self.silent = self.silent.into_iter().chain(other.silent).min();
    }
}

fn lowest(one: Option<(u32, Errno)>, other: Option<(u32, Errno)>) -> Option<(u32, Errno)> {
    one.into_iter().chain(other).min_by_key(|(rank, _)| *rank)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use atta_testkit::scratch::Scratch;

    use super::*;

    fn asked(points: &[Vec<u8>], is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
        SystemRooms { wait_max: Duration::from_secs(600) }.rooms(points, is_write_wanted)
    }

    #[test]
    fn directories_have_space_and_files_have_none() {
        let scratch = Scratch::new("room").unwrap();
        std::fs::write(scratch.join("file"), b"x").unwrap();
        let path = |name: &str| scratch.join(name).into_os_string().into_vec();
        let found = asked(&[path(""), path("file"), path("none")], true);
        let room = found[0].unwrap();
        assert!(room.available > 0 && room.writable.is_ok());
        assert_eq!(found[1], Err(NoRoom::Unreadable(Errno::NOTDIR)));
        assert_eq!(found[2], Err(NoRoom::Unreadable(Errno::NOENT)));
        #[expect(clippy::disallowed_methods, reason = "a directory of this test")]
        let left = std::fs::read_dir(scratch.join("")).unwrap().count();
        assert_eq!(left, 1, "the file with which it was tried is gone");
    }

    #[test]
    fn quota_limits_the_space() {
        let room = |quota| Ok(Room { available: 100, quota, writable: Ok(()) });
        let of = |quota| Looked::of(room(quota), 3, 60);
        assert!(of(Quota::Unlimited).tightest.unwrap().fits());
        assert!(
            !of(Quota::Left(59)).tightest.unwrap().fits() && of(Quota::Left(60)).tightest.unwrap().fits()
        );
        assert_eq!(of(Quota::Left(500)).tightest.unwrap().available, 100);
        assert_eq!([Quota::Left(7), Quota::NotRead].map(|quota| of(quota).is_quota_unread), [false, true]);
    }

    #[test]
    fn looks_do_not_depend_on_the_order() {
        let room = |available| Ok(Room { available, quota: Quota::Unlimited, writable: Err(Errno::ROFS) });
        let all = [
            Looked::of(room(100), 0, 60),
            Looked::of(room(u64::MAX), 1, 0),
            Looked::of(room(0), 2, u64::MAX),
            Looked::of(room(0), 3, u64::MAX),
            Looked::of(Err(NoRoom::NoAnswer), 4, 1),
            Looked::of(Err(NoRoom::Unreadable(Errno::IO)), 5, 1),
        ];
        let merged = |order: [usize; 6]| {
            let mut found = Looked::default();
            order.into_iter().for_each(|at| found.merge(all[at]));
            found
        };
        let found = merged([0, 1, 2, 3, 4, 5]);
        assert_eq!(found, merged([5, 3, 1, 2, 4, 0]));
        assert_eq!(found.tightest.map(|tight| tight.rank), Some(2));
        assert_eq!((found.silent, found.unreadable), (Some(4), Some((5, Errno::IO))));
        assert_eq!(found.not_writable, Some((0, Errno::ROFS)));
    }
}
