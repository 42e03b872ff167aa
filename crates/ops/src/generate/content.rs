//! Contents of files: random bytes or zeros, block by block. It does not know names or trees, and does no I/O.

use std::ops::Range;

use super::spec::Contents;

/// Bytes in a block, and so per write: large enough to make the call's cost small, and small enough for the second-level cache.
const BLOCK_BYTES: usize = 256 << 10;

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

    /// The first block of a range of a file: at most [`BLOCK_BYTES`] bytes, in `buffer`.
    pub(crate) fn block<'b>(&self, file: u64, range: &Range<u64>, buffer: &'b mut Vec<u8>) -> &'b [u8] {
        // Allocated on first use: a tree of empty or sparse files needs none. Zeros stay zeros.
        buffer.resize(BLOCK_BYTES, 0);
        let length = (range.end - range.start).min(BLOCK_BYTES as u64) as usize;
        let block = &mut buffer[..length];
        if self.contents == Contents::Random {
            self.fill(file, range.start, block);
        }
        block
    }
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
