//! A piece of a directory as the kernel reads it, written past fuser, which cannot say that it does not know the type
//! of an entry. Writes this one answer and nothing else; byte order and padding as in `struct fuse_dirent`.

use std::io;
use std::os::fd::OwnedFd;

/// The kernel asks for a page at least, and refuses an answer that is longer than what it asked for, which fuser does
/// not pass on. So a page is the most that may be sent.
const ANSWER_BYTES: usize = 4096;

/// `fuse_out_header`: length, error, number of the request.
const HEADER_BYTES: usize = 16;

/// Entries of unknown type, to be sent as the answer to one request.
pub(super) struct Listing {
    bytes: Vec<u8>,
}

impl Listing {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEADER_BYTES] }
    }

    /// Adds an entry and the offset that the next one is asked for with; false when there is no room for it.
    pub(super) fn add(&mut self, inode: u64, next: u64, name: &str) -> bool {
        let entry = (24 + name.len()).next_multiple_of(8);
        if self.bytes.len() + entry > HEADER_BYTES + ANSWER_BYTES {
            return false;
        }
        let end = self.bytes.len() + entry;
        self.bytes.extend_from_slice(&inode.to_ne_bytes());
        self.bytes.extend_from_slice(&next.to_ne_bytes());
        let length = u32::try_from(name.len()).expect("names of the tree are short");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        // DT_UNKNOWN
        self.bytes.extend_from_slice(&0_u32.to_ne_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(end, 0);
        true
    }

    /// Sends it as the answer to the request of this number. The descriptor must be the one that the request was read
    /// from, not a clone of the connection.
    pub(super) fn send(mut self, device: &OwnedFd, request: u64) -> io::Result<()> {
        let length = u32::try_from(self.bytes.len()).map_err(io::Error::other)?;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..16].copy_from_slice(&request.to_ne_bytes());
        // The kernel takes an answer whole or not at all.
        rustix::io::write(device, &self.bytes)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_bounded() {
        let mut listing = Listing::new();
        assert!(listing.add(7, 1, "f0000000x"));
        assert_eq!(listing.bytes.len(), HEADER_BYTES + 40);
        assert_eq!(listing.bytes[HEADER_BYTES], 7);
        assert_eq!(listing.bytes[HEADER_BYTES + 20..HEADER_BYTES + 24], [0; 4]);
        while listing.add(7, 1, "f0000000") {}
        assert!(listing.bytes.len() <= HEADER_BYTES + ANSWER_BYTES);
        assert!(listing.bytes.len() + 32 > HEADER_BYTES + ANSWER_BYTES);
    }
}
