//! Sums of names: a count, and a sum of hashes with a secret key. Equal sums mean equal sets of names, since nobody who makes a tree knows
//! the key. All ranks have the same key, so their sums of one directory add up. No I/O.

use std::ffi::CStr;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The key of the hashes: random numbers, the same on all ranks of a run.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    first: u64,
    second: u64,
}

atta_entry::record!(Key { first, second });

impl Key {
    pub(crate) fn random() -> Self {
        let random = RandomState::new();
        Self { first: random.hash_one(1), second: random.hash_one(2) }
    }

    #[expect(deprecated, reason = "the standard library has no other hash with a given key")]
    fn hash(self, name: &CStr) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.first, self.second);
        hasher.write(name.to_bytes());
        hasher.finish()
    }
}

/// A key is secret: it is not printed.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Count of some names of one directory, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) names: u64,
    hashes: u64,
}

atta_entry::record!(Tally { names, hashes });

impl Tally {
    pub(crate) fn add(&mut self, name: &CStr, key: Key) {
        self.names += 1;
        self.hashes = self.hashes.wrapping_add(key.hash(name));
    }
}

/// A tally to which several threads add.
#[derive(Debug, Default)]
pub(crate) struct SharedTally {
    names: AtomicU64,
    hashes: AtomicU64,
}

impl SharedTally {
    pub(crate) fn add(&self, name: &CStr, key: Key) {
        self.add_all(Tally { names: 1, hashes: key.hash(name) });
    }

    pub(crate) fn add_all(&self, more: Tally) {
        self.names.fetch_add(more.names, Ordering::Relaxed);
        self.hashes.fetch_add(more.hashes, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Tally {
        Tally { names: self.names.load(Ordering::Acquire), hashes: self.hashes.load(Ordering::Acquire) }
    }

    /// Takes the sums, so that they are not added twice. No thread adds to them meanwhile.
    pub(crate) fn take(&self) -> Tally {
        Tally { names: self.names.swap(0, Ordering::AcqRel), hashes: self.hashes.swap(0, Ordering::AcqRel) }
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;

    use super::*;

    fn tally(names: &[&CStr], key: Key) -> Tally {
        let mut tally = Tally::default();
        names.iter().for_each(|name| tally.add(name, key));
        tally
    }

    #[test]
    fn name_sums_do_not_depend_on_the_order() {
        let (key, shared) = (Key::random(), SharedTally::default());
        [c"one", c"two", c"three"].iter().for_each(|name| shared.add(name, key));
        assert_eq!(shared.get(), tally(&[c"three", c"one", c"two"], key));
        for other in [&[c"one", c"two"][..], &[c"one", c"two", c"four"], &[c"one", c"two", c"two"], &[]] {
            assert_ne!(shared.get(), tally(other, key));
        }
    }

    #[test]
    fn sums_of_two_ranks_with_one_key_add_up() {
        let key = Key::random();
        let sent = Key::decode_all(&key.encoded()).unwrap();
        let (here, there) = (SharedTally::default(), SharedTally::default());
        here.add(c"one", key);
        there.add(c"two", sent);
        let report = there.take().encoded();
        assert_eq!(there.take(), Tally::default(), "it is taken once");
        here.add_all(Tally::decode_all(&report).unwrap());
        assert_eq!(here.get(), tally(&[c"two", c"one"], key));
        assert!(Tally::decode_all(&report[1..]).is_none(), "a damaged report");
        assert_ne!(here.get(), tally(&[c"two", c"one"], Key::random()));
    }
}
