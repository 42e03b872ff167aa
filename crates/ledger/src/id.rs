//! Identities of directories: hashes of the names from the root down. Nobody without the job's key can make two directories with one. No I/O.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// The secret that identities and checks of a job are made with: a random number in its header.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// For identities: SipHash, which is made to keep short inputs apart for everybody who lacks the key. Ten times as fast as BLAKE3 here.
    ids: [u8; 16],
    /// For the checks of logs.
    checks: [u8; 32],
}

/// A directory, or a name in one: 128 bits of a keyed hash of its root and names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u64; 2]);

/// What has so many bytes is hashed at once, which is quicker.
const SHORT: usize = 64;

impl Key {
    /// The key of a job with that random number.
    #[must_use]
    pub fn of_job(number: &[u8; 16]) -> Self {
        let mut ids = [0; 16];
        ids.copy_from_slice(&blake3::derive_key("atta 2026-11 identities of a job's log", number)[..16]);
        Self { ids, checks: blake3::derive_key("atta 2026-11 checks of a job's logs", number) }
    }

    /// The identity of a root, by its index among the job's roots.
    #[must_use]
    pub fn root(&self, root: u32) -> Id {
        self.short(&[&root.to_le_bytes()])
    }

    /// The identity of a name in a directory.
    #[must_use]
    pub fn below(&self, above: Id, name: &[u8]) -> Id {
        let [one, other] = above.0.map(u64::to_le_bytes);
        self.short(&[&one, &other, name])
    }

    /// The identity of a path, whose names are separated by slashes; empty: the root.
    #[must_use]
    pub fn of_path(&self, root: u32, path: &[u8]) -> Id {
        names(path).fold(self.root(root), |above, name| self.below(above, name))
    }

    /// A key for the checks of one log, given by its encoded name.
    pub(crate) fn of_log(&self, name: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.checks);
        hasher.update(b"log").update(name);
        *hasher.finalize().as_bytes()
    }

    fn short(&self, parts: &[&[u8]]) -> Id {
        let hasher = SipHasher13::new_with_key(&self.ids);
        let (mut bytes, mut end) = ([0; SHORT], 0);
        for part in parts {
            let Some(into) = bytes.get_mut(end..end + part.len()) else { return Self::long(hasher, parts) };
            into.copy_from_slice(part);
            end += part.len();
        }
        let hash = hasher.hash(&bytes[..end]);
        Id([hash.h1, hash.h2])
    }

    fn long(mut hasher: SipHasher13, parts: &[&[u8]]) -> Id {
        parts.iter().for_each(|part| hasher.write(part));
        let hash = hasher.finish128();
        Id([hash.h1, hash.h2])
    }
}

/// How many bytes two paths share.
pub(crate) fn shared(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 16;
    let most = one.len().min(other.len());
    let (one, other) = (&one[..most], &other[..most]);
    let blocks = one.as_chunks::<BLOCK>().0.iter().zip(other.as_chunks::<BLOCK>().0);
    let whole = BLOCK * blocks.take_while(|(one, other)| one == other).count();
    // The block that differs, or the last one, part of which was compared.
    let from = if whole + BLOCK <= most { whole } else { most.saturating_sub(BLOCK) };
    match (one[from..].first_chunk::<BLOCK>(), other[from..].first_chunk::<BLOCK>()) {
        (Some(one), Some(other)) => {
            let differs = u128::from_le_bytes(*one) ^ u128::from_le_bytes(*other);
            from + differs.trailing_zeros() as usize / 8
        }
        _ => one.iter().zip(other).take_while(|(one, other)| one == other).count(),
    }
}

/// The names of a path.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

impl Id {
    /// Its bytes, the same on each machine.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let [one, other] = self.0.map(u64::to_le_bytes);
        bytes[..8].copy_from_slice(&one);
        bytes[8..].copy_from_slice(&other);
        bytes
    }

    /// The identity with these bytes.
    #[must_use]
    pub(crate) fn of_bytes(bytes: &[u8; 16]) -> Self {
        let both = u128::from_le_bytes(*bytes);
        Self([both as u64, (both >> 64) as u64])
    }

    /// A number below `many`, the same for each identity.
    pub(crate) fn part(self, many: u32) -> u32 {
        (((self.0[0] & u64::from(u32::MAX)) * u64::from(many)) >> 32) as u32
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_names_have_the_hash_of_their_bytes() {
        let key = Key::of_job(&[9; 16]);
        let above = key.root(3);
        for length in 1..120 {
            let name = vec![b'n'; length];
            let [one, other] = above.0.map(u64::to_le_bytes);
            let long = Key::long(SipHasher13::new_with_key(&key.ids), &[&one, &other, &name]);
            assert_eq!(key.below(above, &name), long, "{length}");
        }
    }

    #[test]
    fn shared_bytes_are_counted() {
        let path: Vec<u8> = (0..40).collect();
        for (length, differs) in (0..40).flat_map(|length| (0..=length).map(move |differs| (length, differs)))
        {
            let mut other = path[..length].to_vec();
            if let Some(byte) = other.get_mut(differs) {
                *byte ^= 0x80;
            }
            for (one, other) in [(&path[..], &other[..]), (&other, &path), (&other, &path[..length])] {
                assert_eq!(shared(one, other), differs, "{length}");
            }
        }
    }
}
