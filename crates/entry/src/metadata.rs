//! The metadata of an entry, as `statx(2)` returns it. No I/O.

use crate::Kind;

/// A point in time as file systems store it: whole seconds since 1970-01-01 UTC, and nanoseconds after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since the epoch; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, 0 to 999,999,999, also before 1970.
    pub nanoseconds: u32,
}

crate::record!(Timestamp { seconds, nanoseconds });

impl Timestamp {
    /// Nanoseconds since the epoch, exact for every value.
    #[must_use]
    pub const fn as_nanoseconds(self) -> i128 {
        self.seconds as i128 * 1_000_000_000 + self.nanoseconds as i128
    }

    /// Nanoseconds since the epoch if 64 bits hold them: 1677-09-21 to 2262-04-11; otherwise `None`.
    #[must_use]
    pub const fn as_nanoseconds_i64(self) -> Option<i64> {
        let exact = self.as_nanoseconds();
        if exact < i64::MIN as i128 || exact > i64::MAX as i128 { None } else { Some(exact as i64) }
    }
}

/// The `statx(2)` data of an entry. All sizes are in bytes unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names (hard links).
    pub nlink: u32,
    /// Apparent size in bytes; for a symbolic link the length of its target.
    pub size: u64,
    /// Allocated space in units of 512 bytes, whatever the block size of the file system.
    pub blocks: u64,
    /// Inode number.
    pub inode: u64,
    /// Device number of the file system that holds the inode: major in the upper, minor in the lower 32 bits.
    pub device: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth, if requested and recorded by the file system.
    pub btime: Option<Timestamp>,
}

impl Metadata {
    /// The kind in the mode.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::from_mode(self.mode)
    }

    /// Allocated space in bytes. Saturates instead of wrapping on a block count that no disk could have.
    #[must_use]
    pub const fn allocated_bytes(&self) -> u64 {
        self.blocks.saturating_mul(512)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_after_2262() {
        let before = Timestamp { seconds: -1, nanoseconds: 999_999_999 };
        assert_eq!(before.as_nanoseconds(), -1);
        assert_eq!(before.as_nanoseconds_i64(), Some(-1));
        let far = Timestamp { seconds: 10_000_000_000, nanoseconds: 7 };
        assert_eq!(far.as_nanoseconds(), 10_000_000_000_000_000_007);
        assert_eq!(far.as_nanoseconds_i64(), None);
        let first = Timestamp { seconds: -9_223_372_037, nanoseconds: 145_224_192 };
        assert_eq!(first.as_nanoseconds_i64(), Some(i64::MIN));
    }

    #[test]
    fn absurd_block_counts_saturate() {
        let metadata = Metadata { blocks: u64::MAX, ..Metadata::default() };
        assert_eq!(metadata.allocated_bytes(), u64::MAX);
    }
}
