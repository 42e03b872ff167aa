//! Files with several names. A digest found under one name is valid for the others while the file is unchanged. Files that exceed the
//! memory are read again. No I/O.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_entry::{Metadata, Timestamp};

use crate::digest::Hash;

/// Approximate memory per file, in bytes.
const EACH: u64 = 256;

/// Digests of files with several names.
#[derive(Debug)]
pub(super) struct Names {
    known: Mutex<HashMap<(u64, u64), Known>>,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    state: State,
    digest: Hash,
    /// Names not yet found.
    left: u32,
}

/// State that changes when a file changes.
type State = (u64, Timestamp, Timestamp, u32);

fn state(metadata: &Metadata) -> State {
    (metadata.size, metadata.mtime, metadata.ctime, metadata.mode)
}

impl Names {
    /// Creates a store limited to this many bytes.
    pub(super) fn new(memory: u64) -> Self {
        let most = usize::try_from(memory / EACH).unwrap_or(usize::MAX);
        Self { known: Mutex::default(), most }
    }

    /// Returns the digest of a file that was read under another name and is unchanged. The last name removes the digest.
    pub(super) fn find(&self, metadata: &Metadata) -> Option<Hash> {
        if metadata.nlink < 2 {
            return None;
        }
        let key = (metadata.device, metadata.inode);
        let mut known = self.lock();
        let found = known.get_mut(&key)?;
        if found.state != state(metadata) {
            known.remove(&key);
            return None;
        }
        let digest = found.digest;
        found.left = found.left.saturating_sub(1);
        if found.left == 0 {
            known.remove(&key);
        }
        Some(digest)
    }

    /// Stores the digest of a file that was read under one of its names.
    pub(super) fn note(&self, metadata: &Metadata, digest: &Hash) {
        let mut known = self.lock();
        if metadata.nlink < 2 || known.len() >= self.most {
            return;
        }
        let left = metadata.nlink - 1;
        let found = Known { state: state(metadata), digest: *digest, left };
        known.insert((metadata.device, metadata.inode), found);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, u64), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_reused_for_other_names_until_a_change() {
        let names = Names::new(2 * EACH);
        let digest = blake3::hash(b"content");
        let file = Metadata { nlink: 3, inode: 7, size: 7, ..Metadata::default() };
        assert!(names.find(&file).is_none());
        names.note(&file, &digest);
        assert_eq!([(); 3].map(|()| names.find(&file)), [Some(digest), Some(digest), None]);
        let later = Timestamp { seconds: 1, nanoseconds: 0 };
        let changes = [
            Metadata { size: 8, ..file },
            Metadata { mtime: later, ..file },
            Metadata { ctime: later, ..file },
            Metadata { inode: 8, ..file },
            Metadata { device: 8, ..file },
        ];
        for changed in changes {
            names.note(&file, &digest);
            assert!(names.find(&changed).is_none());
        }
        for inode in 0..5 {
            names.note(&Metadata { inode, ..file }, &digest);
        }
        assert_eq!(names.lock().len(), 2, "no more than fits");
        let single = Metadata { nlink: 1, ..file };
        Names::new(1 << 20).note(&single, &digest);
        assert!(names.find(&single).is_none());
    }
}
