//! Contents of files: fills an open file with random bytes or zeros. It does not know names or trees.

use rustix::fd::BorrowedFd;
use rustix::io::{Errno, pwrite, retry_on_intr};

use super::spec::Contents;

/// Bytes per write: large enough to make the call's cost small, and small enough for the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;

/// The source of the bytes of all files in a tree.
#[derive(Debug)]
pub(crate) struct Source {
    key: [u8; 32],
    contents: Contents,
}

impl Source {
    pub(crate) fn new(seed: u64, contents: Contents) -> Self {
        Self { key: blake3::derive_key("atta generate 1 contents of files", &seed.to_le_bytes()), contents }
    }

    /// Fills `buffer` with the bytes of a file from `offset` on: the extended output of BLAKE3, keyed by the seed, over the file's number.
    /// Any offset is possible, and the bytes do not compress.
    fn fill(&self, file: u64, offset: u64, buffer: &mut [u8]) {
        let mut reader = blake3::Hasher::new_keyed(&self.key).update(&file.to_le_bytes()).finalize_xof();
        reader.set_position(offset);
        reader.fill(buffer);
    }

    /// Writes the bytes of a file from `offset` to `end`. Returns early, without an error, when `is_stopping`.
    pub(crate) fn write(
        &self,
        to: BorrowedFd<'_>,
        file: u64,
        (mut offset, end): (u64, u64),
        buffer: &mut Vec<u8>,
        is_stopping: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        // Allocated on first use: a tree of empty or sparse files needs none. Zeros stay zeros.
        buffer.resize(BUFFER_BYTES, 0);
        while offset < end && !is_stopping() {
            let length = (end - offset).min(BUFFER_BYTES as u64) as usize;
            let bytes = &mut buffer[..length];
            if self.contents == Contents::Random {
                self.fill(file, offset, bytes);
            }
            write_all(to, bytes, offset)?;
            offset += length as u64;
        }
        Ok(())
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry_on_intr(|| pwrite(to, bytes, offset))? {
            0 => return Err(Errno::IO),
            written => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_wherever_one_begins() {
        let source = Source::new(1, Contents::Random);
        let mut whole = vec![0; 10_000];
        source.fill(7, 0, &mut whole);
        for offset in [1, 63, 64, 65, 4097] {
            let mut part = vec![0; 1000];
            source.fill(7, offset as u64, &mut part);
            assert_eq!(part, whole[offset..offset + 1000]);
        }
    }

    #[test]
    fn files_and_seeds_differ() {
        let bytes = |seed, file| {
            let mut bytes = [0; 32];
            Source::new(seed, Contents::Random).fill(file, 0, &mut bytes);
            bytes
        };
        assert_ne!(bytes(1, 1), bytes(1, 2));
        assert_ne!(bytes(1, 1), bytes(2, 1));
        // Part of the promise that a seed gives the same tree.
        assert_eq!(bytes(1, 0)[..4], [47, 39, 63, 92]);
    }
}
