//! Digests of files and of sets of files. No I/O.
//!
//! A file's digest is BLAKE3, what `b3sum` prints. BLAKE3 has a tree inside: pieces that begin at multiples of a power of two, and
//! have that length but for the last, are hashed by anybody in any order ([`Piece`]) and merged to the same digest ([`merge`]).
//!
//! A set's signature ([`Signature`]) is a sum (LtHash: Bellare and Micciancio 1997; Lewi et al. 2019 for the parameters): each
//! entry is expanded to 1,024 numbers of 16 bits, which are added number by number, modulo 2^16. So it depends neither on
//! the order of the entries nor on who adds them, and an entry can be taken out again. Whoever finds two sets with one signature
//! would have solved a lattice problem that is taken to be harder than 2^200 steps.

use std::sync::OnceLock;

use atta_entry::Kind;
use blake3::hazmat::{
    ChainingValue, ContextKey, HasherExt, Mode, hash_derive_key_context, merge_subtrees_non_root,
    merge_subtrees_root,
};

pub use blake3::Hash;

/// The smallest piece that can be hashed by itself: the leaf of the tree.
pub const PIECE_LEAST: u64 = blake3::CHUNK_LEN as u64;

/// Hashes one piece of a file.
#[derive(Clone, Debug)]
pub struct Piece(blake3::Hasher);

/// What a piece comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceValue(ChainingValue);

impl Piece {
    /// Begins the piece that starts at so many bytes: a multiple of the pieces' length, which is a power of two and at least
    /// [`PIECE_LEAST`].
    #[must_use]
    pub fn at(offset: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        Self(hasher)
    }

    /// Where further bytes go.
    pub fn hasher(&mut self) -> &mut blake3::Hasher {
        &mut self.0
    }

    /// What it comes to, as one of several. None: it has no bytes, and a file of several pieces has none such.
    #[must_use]
    pub fn value(&self) -> Option<PieceValue> {
        (self.0.count() > 0).then(|| PieceValue(self.0.finalize_non_root()))
    }
}

impl PieceValue {
    /// As bytes, to be sent.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for PieceValue {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The digest of a file that has these pieces, in order: two at least; all of one length but the last, which is not longer. A
/// file of one piece is hashed as a whole.
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
    // As deep as the logarithm of their number.
    match pieces {
        [one] => one.0,
        _ => {
            let (left, right) = pieces.split_at(left_of(pieces.len()));
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// So many of them are in the left subtree: the largest power of two that leaves one.
fn left_of(pieces: usize) -> usize {
    pieces.next_power_of_two() / 2
}

/// Numbers of a signature.
const LANES: usize = 1024;
/// What tells an entry of a signature from anything else that is hashed.
const CONTEXT: &str = "atta 2026-11 entry of a data set's signature";
static KEY: OnceLock<ContextKey> = OnceLock::new();

/// The sum over a set of entries.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature(Box<[u16; LANES]>);

/// An entry of a set, as its signature sees it.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// Its path below the root; empty for the root itself.
    pub path: &'a [u8],
    /// What it is.
    pub kind: Kind,
    /// Bytes of a regular file; else 0.
    pub size: u64,
    /// Of a regular file's bytes.
    pub digest: Option<&'a Hash>,
    /// Where a symbolic link leads.
    pub target: Option<&'a [u8]>,
}

impl Default for Signature {
    fn default() -> Self {
        Self(Box::new([0; LANES]))
    }
}

impl Signature {
    /// Adds an entry.
    pub fn add(&mut self, element: &Element<'_>) {
        let expanded = element.expand();
        self.0.iter_mut().zip(expanded.iter()).for_each(|(lane, more)| *lane = lane.wrapping_add(*more));
    }

    /// Takes an entry out that was added before.
    pub fn remove(&mut self, element: &Element<'_>) {
        let expanded = element.expand();
        self.0.iter_mut().zip(expanded.iter()).for_each(|(lane, less)| *lane = lane.wrapping_sub(*less));
    }

    /// Adds all entries of another one.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(lane, more)| *lane = lane.wrapping_add(*more));
    }

    /// All numbers, to be sent: 16 bits each, the lower byte first.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|lane| lane.to_le_bytes()).collect()
    }

    /// The signature that has these numbers; none: it is not 2,048 bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let lanes: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        let lanes: Box<[u16; LANES]> = lanes.into_boxed_slice().try_into().ok()?;
        rest.is_empty().then_some(Self(lanes))
    }

    /// What is shown and compared: the BLAKE3 of the numbers.
    #[must_use]
    pub fn digest(&self) -> Hash {
        blake3::hash(&self.to_bytes())
    }
}

impl std::fmt::Debug for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signature({})", self.digest())
    }
}

impl Element<'_> {
    fn expand(&self) -> [u16; LANES] {
        let key = KEY.get_or_init(|| hash_derive_key_context(CONTEXT));
        let mut hasher = blake3::Hasher::new_from_context_key(key);
        let mut put = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        put(self.path);
        put(&[self.kind as u8]);
        put(&self.size.to_le_bytes());
        put(self.digest.map_or(&[], |digest| digest.as_bytes()));
        put(self.target.unwrap_or_default());
        let mut bytes = [0; 2 * LANES];
        hasher.finalize_xof().fill(&mut bytes);
        let mut lanes = [0; LANES];
        let (pairs, _) = bytes.as_chunks::<2>();
        lanes.iter_mut().zip(pairs).for_each(|(lane, pair)| *lane = u16::from_le_bytes(*pair));
        lanes
    }
}

#[cfg(test)]
mod tests {
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
                        hashed.hasher().update(some);
                    }
                    hashed.value().unwrap()
                })
                .collect();
            if values.len() > 1 {
                prop_assert_eq!(merge(&values), blake3::hash(&bytes));
                let sent: Vec<_> = values.iter().map(|value| PieceValue::from(*value.as_bytes())).collect();
                prop_assert_eq!(sent, values);
            }
        }
    }

    fn element<'a>(path: &'a [u8], digest: &'a Hash) -> Element<'a> {
        Element { path, kind: Kind::File, size: 3, digest: Some(digest), target: None }
    }

    #[test]
    fn a_signature_depends_on_what_is_in_the_set_and_on_nothing_else() {
        let (a, b) = (blake3::hash(b"a"), blake3::hash(b"b"));
        let entries = [element(b"x", &a), element(b"y", &b), element(b"x/y", &a), element(b"", &b)];
        let mut forward = Signature::default();
        entries.iter().for_each(|entry| forward.add(entry));
        let (mut one, mut other) = (Signature::default(), Signature::default());
        entries.iter().rev().step_by(2).for_each(|entry| one.add(entry));
        entries.iter().rev().skip(1).step_by(2).for_each(|entry| other.add(entry));
        one.merge(&other);
        assert_eq!(one, forward);
        assert_eq!(Signature::from_bytes(&one.to_bytes()).unwrap().digest(), forward.digest());
        assert!(Signature::from_bytes(&[0; 2047]).is_none() && Signature::from_bytes(&[0; 2050]).is_none());
        entries.iter().for_each(|entry| one.remove(entry));
        assert_eq!(one, Signature::default());
        // Any single thing that is different shows, and so does an entry that is there twice.
        let changes = [
            Element { path: b"z", ..entries[0] },
            Element { kind: Kind::Symlink, ..entries[0] },
            Element { size: 4, ..entries[0] },
            Element { digest: Some(&b), ..entries[0] },
            Element { digest: None, ..entries[0] },
            Element { target: Some(b"t"), ..entries[0] },
        ];
        for change in changes {
            let mut changed = forward.clone();
            changed.remove(&entries[0]);
            changed.add(&change);
            assert_ne!(changed.digest(), forward.digest(), "{change:?}");
        }
        let mut twice = forward.clone();
        twice.add(&entries[0]);
        assert_ne!(twice.digest(), forward.digest());
    }
}
