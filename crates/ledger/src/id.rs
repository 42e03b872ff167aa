//! Identities of directories: hashes of the names from the root down. Nobody without the job's key can make two directories with one. No I/O.

/// The secret that identities and checks of a job are made with: a random number in its header.
#[derive(Clone, Copy, Debug)]
pub struct Key([u8; 32]);

/// A directory, or a name in one: 128 bits of a keyed hash of its root and names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 16]);

impl Key {
    /// The key of a job with that random number.
    #[must_use]
    pub fn of_job(number: &[u8; 16]) -> Self {
        Self(blake3::derive_key("atta 2026-11 log of a job", number))
    }

    /// The identity of a root, by its index among the job's roots.
    #[must_use]
    pub fn root(&self, root: u32) -> Id {
        self.short(&[&root.to_le_bytes()])
    }

    /// The identity of a name in a directory.
    #[must_use]
    pub fn below(&self, above: Id, name: &[u8]) -> Id {
        self.short(&[&above.0, name])
    }

    /// The identity of a path, whose names are separated by slashes; empty: the root.
    #[must_use]
    pub fn of_path(&self, root: u32, path: &[u8]) -> Id {
        names(path).fold(self.root(root), |above, name| self.below(above, name))
    }

    /// A key for the checks of one log.
    pub(crate) fn of_log(&self, run: u32, rank: u32) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"log").update(&run.to_le_bytes()).update(&rank.to_le_bytes());
        *hasher.finalize().as_bytes()
    }

    fn short(&self, parts: &[&[u8]]) -> Id {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Id(id)
    }
}

/// The names of a path.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

impl Id {
    /// A number below `many`, the same for each identity.
    pub(crate) fn part(self, many: u32) -> u32 {
        let low = u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]);
        ((u64::from(low) * u64::from(many)) >> 32) as u32
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
