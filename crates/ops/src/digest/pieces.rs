//! The BLAKE3 of a file, computed from pieces that any thread hashes in any order. No I/O.
//!
//! BLAKE3 is a tree hash. Pieces that start at multiples of a power of two, and have that length except for the last one, are hashed
//! separately ([`Piece`]) and merged into the same digest ([`merge`]).
//!
//! Zeros of a hole need not be read, but they must be hashed. BLAKE3 hashes each 1,024 bytes with their number in the file, so zeros at
//! different offsets have different values (BLAKE3 2020, section 2.1: the counter *t*). At the same offset they have the same value in
//! every file. So a process hashes each block of zeros once and stores its value. A second sparse file costs only the time for its data.
//!
//! ```text
//!   a piece    [ block | block ][ block ][ the current block ...
//!   left            value           value       hasher            as BLAKE3's own stack of subtrees
//! ```

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use blake3::Hash;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The smallest piece that can be hashed separately: the leaf of the tree.
pub const PIECE_LEAST: u64 = blake3::CHUNK_LEN as u64;

/// Bytes of a block, a power of two. A stored block of zeros takes 32 bytes.
const BLOCK: u64 = 16 << 20;
/// The most stored blocks of zeros: the first 4 TiB of all files, in some 20 MiB of memory.
const BLOCKS_MOST: usize = 1 << 18;

/// Hashes one piece of a file.
#[derive(Clone, Debug)]
pub struct Piece {
    start: u64,
    /// Complete subtrees, the largest first.
    left: Vec<ChainingValue>,
    /// Hasher of the current block. It is empty only if the piece is.
    open: blake3::Hasher,
    open_start: u64,
}

/// The value of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceValue(ChainingValue);

impl Piece {
    /// Starts the piece at this offset: a multiple of the piece length, which is a power of two and at least [`PIECE_LEAST`].
    #[must_use]
    pub fn at(offset: u64) -> Self {
        Self { start: offset, left: Vec::new(), open: hasher_at(offset), open_start: offset }
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.open.update(now);
            bytes = later;
        }
    }

    /// Adds this many zeros.
    pub fn zeros(&mut self, count: u64) {
        self.zeros_while(count, || true);
    }

    /// Adds this many zeros while `goes_on` returns true. It is called at least some hundred times a second. Returns whether all zeros were
    /// added; if not, the piece is unusable.
    pub fn zeros_while(&mut self, mut count: u64, goes_on: impl Fn() -> bool) -> bool {
        static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
        while count > 0 {
            if !goes_on() {
                return false;
            }
            let room = self.room();
            // The last block stays open: it may be the whole piece, which is hashed in another way.
            let taken = if room == BLOCK && count > BLOCK {
                self.end_block(zeros_at(self.open_start));
                BLOCK
            } else {
                let taken = room.min(count).min(ZEROS.len() as u64);
                self.open.update(&ZEROS[..usize::try_from(taken).unwrap_or(ZEROS.len())]);
                taken
            };
            count -= taken;
        }
        true
    }

    /// Returns the value as one of several pieces. None: it has no bytes, and no file of several pieces has an empty one.
    #[must_use]
    pub fn value(&self) -> Option<PieceValue> {
        (self.open.count() > 0).then(|| {
            let last = self.open.finalize_non_root();
            PieceValue(self.left.iter().rev().fold(last, |right, left| parent(left, &right)))
        })
    }

    /// Returns the digest of a file that consists of this piece only, at offset 0.
    #[must_use]
    pub fn digest(&self) -> Hash {
        let Some((first, left)) = self.left.split_first() else { return self.open.finalize() };
        let last = self.open.finalize_non_root();
        let right = left.iter().rev().fold(last, |right, left| parent(left, &right));
        merge_subtrees_root(first, &right, Mode::Hash)
    }

    /// Returns how many bytes the current block still takes, at least one. The caller has more bytes to add.
    fn room(&mut self) -> u64 {
        if self.open.count() == BLOCK {
            self.end_block(self.open.finalize_non_root());
        }
        BLOCK - self.open.count()
    }

    /// Ends the current block. More bytes follow, so no complete subtree is the root.
    fn end_block(&mut self, value: ChainingValue) {
        self.left.push(value);
        self.open_start += BLOCK;
        self.open = hasher_at(self.open_start);
        let blocks = (self.open_start - self.start) / BLOCK;
        while self.left.len() > blocks.count_ones() as usize
            && let [.., one, other] = self.left.as_slice()
        {
            let merged = parent(one, other);
            self.left.truncate(self.left.len() - 2);
            self.left.push(merged);
        }
    }
}

atta_entry::record!(PieceValue { 0 });

/// Returns the digest of a file with these pieces, in order.
///
/// There must be at least two, all of one length except for the last, which is not longer. A file of one piece is hashed as a whole.
///
/// # Panics
/// There are fewer than two.
#[must_use]
pub fn merge(pieces: &[PieceValue]) -> Hash {
    assert!(pieces.len() > 1, "one piece is no tree");
    let (left, right) = pieces.split_at(left_of(pieces.len()));
    merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash)
}

fn subtree(pieces: &[PieceValue]) -> ChainingValue {
    // The recursion is as deep as the logarithm of the number of pieces.
    match pieces {
        [one] => one.0,
        _ => {
            let (left, right) = pieces.split_at(left_of(pieces.len()));
            parent(&subtree(left), &subtree(right))
        }
    }
}

/// Number of pieces in the left subtree: the largest power of two that leaves one for the right.
fn left_of(pieces: usize) -> usize {
    pieces.next_power_of_two() / 2
}

fn parent(left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

fn hasher_at(offset: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher
}

/// Returns the value of a block of zeros at this offset.
fn zeros_at(offset: u64) -> ChainingValue {
    static KNOWN: OnceLock<Mutex<HashMap<u64, ChainingValue>>> = OnceLock::new();
    let known = || -> MutexGuard<'_, HashMap<u64, ChainingValue>> {
        KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    };
    let block = offset / BLOCK;
    let found = known().get(&block).copied();
    found.unwrap_or_else(|| {
        let mut zeros = Piece::at(offset);
        // At most one block, so this function is not called again.
        zeros.zeros(BLOCK);
        let value = zeros.open.finalize_non_root();
        if usize::try_from(block).is_ok_and(|block| block < BLOCKS_MOST) {
            known().insert(block, value);
        }
        value
    })
}

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_merge_to_the_digest_of_the_whole(length in 1_u64..40_000, power in 10_u32..14, seed: u8) {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 + u64::from(seed)) as u8).collect();
            let piece = 1_usize << power;
            let values: Vec<_> = bytes
                .chunks(piece)
                .enumerate()
                .map(|(index, bytes)| {
                    let mut hashed = Piece::at((index * piece) as u64);
                    for some in bytes.chunks(777) {
                        hashed.update(some);
                    }
                    hashed.value().unwrap()
                })
                .collect();
            if values.len() > 1 {
                prop_assert_eq!(merge(&values), blake3::hash(&bytes));
                let sent: Vec<_> = values.iter().map(|value| PieceValue::decode_all(&value.encoded())).collect();
                prop_assert_eq!(sent, values.into_iter().map(Some).collect::<Vec<_>>());
            }
        }
    }

    /// Runs of data and of zeros.
    const RUNS: [&[(u64, bool)]; 8] = [
        &[],
        &[(1, false)],
        &[(BLOCK, false)],
        &[(BLOCK, true), (1, false)],
        &[(2 * BLOCK, false)],
        &[(100, true), (3 * BLOCK + 5, false), (BLOCK, true)],
        &[(BLOCK, true), (2 * BLOCK, false), (BLOCK - 1, true), (BLOCK + 1, false)],
        &[(5 * BLOCK + 1024, false)],
    ];

    #[test]
    fn blocks_of_data_and_zeros_give_the_whole_digest() {
        for runs in RUNS {
            let mut whole = Vec::new();
            let mut hashed = Piece::at(0);
            for &(length, is_data) in runs {
                let start = whole.len();
                whole.extend((0..length).map(|at| if is_data { at as u8 | 1 } else { 0 }));
                if is_data {
                    whole[start..].chunks(300_000).for_each(|some| hashed.update(some));
                } else {
                    hashed.zeros(length);
                }
            }
            assert_eq!(hashed.digest(), blake3::hash(&whole), "{runs:?}");
        }
    }

    #[test]
    fn pieces_in_the_middle_of_a_file_merge() {
        let piece = 4 * BLOCK;
        let (mut first, mut second) = (Piece::at(0), Piece::at(piece));
        first.zeros(piece);
        second.zeros(piece - 7);
        let mut whole = Piece::at(0);
        whole.zeros(2 * piece - 7);
        let values = [first.value().unwrap(), second.value().unwrap()];
        assert_eq!(merge(&values), whole.digest());
        let mut plain = blake3::Hasher::new();
        plain.update(&vec![0; 2 * piece as usize]);
        assert_ne!(plain.finalize(), whole.digest());
        let mut plain = blake3::Hasher::new();
        plain.update(&vec![0; (2 * piece - 7) as usize]);
        assert_eq!(plain.finalize(), whole.digest());
    }

    #[test]
    fn zeros_at_two_offsets_have_two_digests() {
        assert_ne!(zeros_at(0), zeros_at(BLOCK));
        assert_eq!(zeros_at(BLOCK), zeros_at(BLOCK));
    }
}
