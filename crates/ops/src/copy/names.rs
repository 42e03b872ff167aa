//! Names for what is being made and has not its own name yet: short, whatever the name is, and of this job alone. No I/O.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};

/// What all of them begin with.
pub(crate) const PREFIX: &[u8] = b".atta.";
/// Digits behind it, of 5 bits each.
const DIGITS: usize = 12;
/// No letter that looks like another one, and none that differs only in case: a target may not tell those apart.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Makes them.
#[derive(Debug)]
pub(crate) struct Namer {
    /// Of the job: the same on all ranks.
    job: u64,
    next: AtomicU64,
}

impl Namer {
    pub(crate) fn new(job: u64) -> Self {
        Self { job, next: AtomicU64::new(0) }
    }

    /// For a directory, which any rank is to find by its own name.
    pub(crate) fn of_directory(&self, name: &CStr) -> CString {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.job.to_le_bytes()).update(b"directory").update(name.to_bytes());
        spell(&hasher)
    }

    /// For a file that `who` makes; each time another one.
    pub(crate) fn of_file(&self, who: u64) -> CString {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.job.to_le_bytes()).update(b"file").update(&who.to_le_bytes());
        spell(hasher.update(&next.to_le_bytes()))
    }
}

fn spell(hasher: &blake3::Hasher) -> CString {
    let hash = hasher.finalize();
    let mut name = PREFIX.to_vec();
    name.extend(hash.as_bytes()[..DIGITS].iter().map(|byte| ALPHABET[usize::from(byte & 31)]));
    // There is no NUL in it.
    CString::new(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_again_and_files_never_meet() {
        let (one, other) = (Namer::new(1), Namer::new(2));
        assert_eq!(one.of_directory(c"a"), Namer::new(1).of_directory(c"a"));
        assert_ne!(one.of_directory(c"a"), other.of_directory(c"a"));
        assert_ne!(one.of_directory(c"a"), one.of_directory(c"b"));
        let names: std::collections::HashSet<_> =
            (0..1000).flat_map(|who| [one.of_file(who % 3), other.of_file(who % 3)]).collect();
        assert_eq!(names.len(), 2000);
        assert!(names.iter().all(|name| name.as_bytes().len() == 18 && name.as_bytes().starts_with(PREFIX)));
    }
}
