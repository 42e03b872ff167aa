//! How much of a file system the quotas of this user leave (quotactl_fd(2), Linux 5.14). Quotas of projects and of servers are not read. It sets
//! none.

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::raw;

/// What the quotas of a user leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// There is no limit.
    Unlimited,
    /// So many bytes.
    Left(u64),
    /// The file system or the kernel does not say. There may be a limit.
    NotRead,
}

/// Limits are in blocks of so many bytes (`QIF_DQBLKSIZE` of `linux/quota.h`).
const BLOCK_BYTES: u64 = 1024;

/// What the quotas of the effective user and group of this process leave on the file system that something is on. The smaller of both counts.
pub fn quota_of(descriptor: impl AsFd) -> Quota {
    let user = raw::quota(descriptor.as_fd(), libc::USRQUOTA, rustix::process::geteuid().as_raw());
    let group = raw::quota(descriptor.as_fd(), libc::GRPQUOTA, rustix::process::getegid().as_raw());
    smaller(left(user), left(group))
}

fn smaller(one: Quota, other: Quota) -> Quota {
    match (one, other) {
        (Quota::Left(one), Quota::Left(other)) => Quota::Left(one.min(other)),
        // The other one may be smaller still, or have none.
        (Quota::NotRead, _) | (_, Quota::NotRead) => Quota::NotRead,
        (Quota::Left(bytes), Quota::Unlimited) | (Quota::Unlimited, Quota::Left(bytes)) => Quota::Left(bytes),
        (Quota::Unlimited, Quota::Unlimited) => Quota::Unlimited,
    }
}

/// The soft limit counts where there is no hard one: it becomes one after some days.
fn left(found: Result<raw::DiskQuota, Errno>) -> Quota {
    match found {
        Ok(found) => match (found.hard_blocks, found.soft_blocks) {
            (0, 0) => Quota::Unlimited,
            (0, blocks) | (blocks, _) => {
                Quota::Left(blocks.saturating_mul(BLOCK_BYTES).saturating_sub(found.bytes))
            }
        },
        // Quotas of this kind are not switched on.
        Err(Errno::SRCH) => Quota::Unlimited,
        Err(_) => Quota::NotRead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(hard_blocks: u64, soft_blocks: u64, bytes: u64) -> Quota {
        left(Ok(raw::DiskQuota { hard_blocks, soft_blocks, bytes, ..raw::DiskQuota::default() }))
    }

    #[test]
    fn limits_leave_what_is_not_used() {
        assert_eq!(found(0, 0, 5), Quota::Unlimited);
        assert_eq!(found(10, 0, 5), Quota::Left(10_235));
        assert_eq!(found(10, 4, 5), Quota::Left(10_235));
        assert_eq!(found(0, 4, 5), Quota::Left(4091));
        assert_eq!(found(1, 0, 2000), Quota::Left(0), "over the limit");
        assert_eq!(found(u64::MAX, 0, 0), Quota::Left(u64::MAX));
    }

    #[test]
    fn the_smaller_limit_counts() {
        use Quota::{Left, NotRead, Unlimited};
        for (one, other, expected) in [
            (Left(5), Left(7), Left(5)),
            (Left(5), Unlimited, Left(5)),
            (Unlimited, Unlimited, Unlimited),
            (Left(5), NotRead, NotRead),
            (Unlimited, NotRead, NotRead),
        ] {
            assert_eq!((smaller(one, other), smaller(other, one)), (expected, expected));
        }
        assert_eq!((left(Err(Errno::SRCH)), left(Err(Errno::NOSYS))), (Unlimited, NotRead));
    }

    #[test]
    fn what_has_no_quotas_says_nothing() {
        let proc = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(quota_of(&proc), Quota::NotRead);
    }
}
