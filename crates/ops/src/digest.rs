//! Digests of files and of sets of files. No I/O.
//!
//! A file's digest is BLAKE3, as `b3sum` prints it. `digest/pieces.rs` describes how several threads compute it.
//!
//! A set's signature ([`Signature`]) is a sum (LtHash: Bellare and Micciancio 1997; Lewi et al. 2019 for the parameters). Each entry is
//! expanded to 1,024 numbers of 16 bits, which are added number by number, modulo 2^16. The sum depends neither on the order of the entries
//! nor on the thread that adds them, and an entry can be removed again. Two sets with one signature solve a lattice problem that is assumed
//! to be harder than 2^200 steps.

mod pieces;

use std::sync::OnceLock;

use atta_entry::{Code, Kind};
use atta_runtime::{Counter, Results};
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};

pub use blake3::Hash;
pub use pieces::{PIECE_LEAST, Piece, PieceValue, merge};

/// By default, a file with more bytes of holes gets no digest. Hashing this many zeros takes a core some minutes, the first time. A file of
/// 2^63 bytes needs no disk space, but would take a century.
pub const HOLE_BYTES_MAX: u64 = 1 << 40;
/// Number of lanes in a signature.
const LANES: usize = 1024;
/// Separates the entries of a signature from all other hashed data.
const CONTEXT: &str = "atta 2026-11 entry of a data set's signature";
static KEY: OnceLock<ContextKey> = OnceLock::new();

/// The sum over a set of entries.
#[derive(Clone, Default)]
pub struct Signature(
    /// None: all lanes are 0.
    Option<Box<[u16; LANES]>>,
);

/// An entry of a set, with the fields that its signature covers.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// Path below the root; empty for the root itself.
    pub path: &'a [u8],
    /// Its type.
    pub kind: Kind,
    /// Size of a regular file in bytes; otherwise 0.
    pub size: u64,
    /// Digest of a regular file.
    pub digest: Option<&'a Hash>,
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
}

/// The lanes of an empty set.
const NONE: &[u16; LANES] = &[0; LANES];

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.lanes() == other.lanes()
    }
}

impl Eq for Signature {}

impl Signature {
    /// Adds an entry.
    pub fn add(&mut self, element: &Element<'_>) {
        self.combine(&element.expand(), u16::wrapping_add);
    }

    /// Removes an entry that was added before.
    pub fn remove(&mut self, element: &Element<'_>) {
        self.combine(&element.expand(), u16::wrapping_sub);
    }

    /// Adds all entries of another signature.
    pub fn merge(&mut self, other: &Self) {
        if let Some(other) = &other.0 {
            self.combine(other, u16::wrapping_add);
        }
    }

    fn combine(&mut self, other: &[u16; LANES], with: impl Fn(u16, u16) -> u16) {
        let lanes = self.0.get_or_insert_with(|| Box::new(*NONE));
        lanes.iter_mut().zip(other).for_each(|(lane, other)| *lane = with(*lane, *other));
    }

    fn lanes(&self) -> &[u16; LANES] {
        self.0.as_deref().unwrap_or(NONE)
    }

    /// Returns the BLAKE3 of the numbers, for display and comparison.
    #[must_use]
    pub fn digest(&self) -> Hash {
        blake3::hash(&self.encoded())
    }
}

/// All numbers, 16 bits each, little-endian.
impl Code for Signature {
    fn encode(&self, out: &mut Vec<u8>) {
        self.lanes().iter().for_each(|lane| out.extend(lane.to_le_bytes()));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.split_at_checked(2 * LANES)?;
        *bytes = rest;
        let lanes: Vec<u16> =
            numbers.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        lanes.into_boxed_slice().try_into().ok().map(|lanes| Self(Some(lanes)))
    }
}

impl Results for Signature {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }

    fn is_empty(&self) -> bool {
        self.0.is_none() || *self == Self::default()
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
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
    use super::*;

    fn element<'a>(path: &'a [u8], digest: &'a Hash) -> Element<'a> {
        Element { path, kind: Kind::File, size: 3, digest: Some(digest), target: None }
    }

    #[test]
    fn signature_depends_only_on_the_set() {
        let (a, b) = (blake3::hash(b"a"), blake3::hash(b"b"));
        let entries = [element(b"x", &a), element(b"y", &b), element(b"x/y", &a), element(b"", &b)];
        let mut forward = Signature::default();
        entries.iter().for_each(|entry| forward.add(entry));
        let (mut one, mut other) = (Signature::default(), Signature::default());
        entries.iter().rev().step_by(2).for_each(|entry| one.add(entry));
        entries.iter().rev().skip(1).step_by(2).for_each(|entry| other.add(entry));
        one.merge(&other);
        assert_eq!(one, forward);
        assert_eq!(Signature::decode_all(&one.encoded()).unwrap().digest(), forward.digest());
        assert!(Signature::decode_all(&[0; 2047]).is_none() && Signature::decode_all(&[0; 2050]).is_none());
        entries.iter().for_each(|entry| one.remove(entry));
        assert_eq!(one, Signature::default());
        // Every single change is visible, and so is an entry added twice.
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
