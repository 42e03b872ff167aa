//! Lets a file system move bytes by itself (`copy_file_range`), where the servers can do that and nobody needs to see the bytes: they
//! do not pass this machine then. What it does not do, or fails at, is read and written, which says why.

use std::ops::Range;

use atta_aio::{Fd, Op, perform};
use rustix::fd::{AsRawFd, BorrowedFd};

use super::data::Mover;

/// Bytes of one call: a server that copies them all the same can be interrupted.
const BLOCK: u64 = 16 << 20;
/// File systems whose servers copy: NFS, SMB, CIFS, CephFS. Within a local one reading and writing is as fast or faster.
pub(crate) const SERVERS_COPY: &[i64] = &[0x6969, 0xfe53_4d42, 0xff53_4d42, 0x00c3_6400];

impl Mover {
    /// How far the file system came with a range.
    pub(crate) fn move_within(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, range: &Range<u64>) -> u64 {
        let raw = |fd: BorrowedFd<'_>| Fd::Raw(fd.as_raw_fd());
        let mut at = range.start;
        while at < range.end {
            let bytes = usize::try_from((range.end - at).min(BLOCK)).unwrap_or(usize::MAX);
            let (from, to) = (raw(from), raw(to));
            let mut op = Op::CopyRange { from, from_offset: at, to, to_offset: at, bytes };
            match perform(&mut op) {
                Ok(0) | Err(_) => break,
                Ok(moved) => {
                    at += moved;
                    self.wait_for(usize::try_from(moved).unwrap_or(usize::MAX));
                }
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use atta_testkit::scratch::Scratch;

    use super::super::data::Way;
    use super::*;

    fn way(has_holes: bool) -> Way<'static> {
        Way { has_holes, hasher: None }
    }

    #[test]
    fn what_the_file_system_moves_is_what_is_there_and_the_rest_is_read() {
        let scratch = Scratch::new("within").unwrap();
        let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at * 7) as u8).collect();
        std::fs::write(scratch.join("from"), &bytes).unwrap();
        let from = std::fs::File::open(scratch.join("from")).unwrap();
        // Another file system may refuse, and a pipe's end cannot be asked at all.
        for place in [
            scratch.join("to"),
            std::path::PathBuf::from("/dev/shm").join(format!("atta-within-{}", std::process::id())),
        ] {
            let to = std::fs::File::create(&place).unwrap();
            let mut mover = Mover::within();
            let end = bytes.len() as u64;
            assert_eq!(mover.copy(from.as_fd(), to.as_fd(), 0..end, way(false)), Ok(end));
            assert!(std::fs::read(&place).unwrap() == bytes, "{}", place.display());
            // A source that ends before says where.
            assert_eq!(mover.copy(from.as_fd(), to.as_fd(), 0..end + 9, way(false)), Ok(end));
            std::fs::remove_file(&place).unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_says_so() {
        let scratch = Scratch::new("within").unwrap();
        let mut from = std::fs::File::create_new(scratch.join("from")).unwrap();
        from.write_all(b"bytes").unwrap();
        let from = std::fs::File::open(scratch.join("from")).unwrap();
        let mut mover = Mover::within();
        let came = mover.copy(from.as_fd(), from.as_fd(), 0..5, way(false));
        assert!(came.is_err(), "it is open to be read alone");
    }
}
