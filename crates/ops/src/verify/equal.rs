//! Pairs of files with several names whose bytes are equal, stored within a memory limit, so that they are not read again under their other
//! names. No I/O.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use atta_entry::Timestamp;

use super::links::has_names;
use super::pair::Both;
use crate::file::source::Identity;

/// The identity and change time of a file.
type State = (Identity, Timestamp);

/// Pairs of files with several names whose bytes are equal.
#[derive(Debug)]
pub(crate) struct Equal {
    pairs: Mutex<HashSet<[State; 2]>>,
    most: usize,
}

/// Approximate memory of a pair in the table: 64 bytes, spare capacity, and control bytes.
const PAIR_BYTES: u64 = 128;

impl Equal {
    /// Creates a store limited to this much memory.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let most = usize::try_from(memory_bytes / PAIR_BYTES).unwrap_or(usize::MAX);
        Self { pairs: Mutex::default(), most }
    }

    /// Stores that two files have the same bytes.
    pub(crate) fn add(&self, both: &Both) {
        if has_names(both) {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            if pairs.len() < self.most {
                pairs.insert(states(both));
            }
        }
    }

    /// Whether the two files are known to be equal.
    pub(crate) fn has(&self, both: &Both) -> bool {
        has_names(both) && self.pairs.lock().unwrap_or_else(PoisonError::into_inner).contains(&states(both))
    }
}

fn states(both: &Both) -> [State; 2] {
    let [source, target] = both.identities();
    [(source, both.source.ctime), (target, both.target.ctime)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::links::tests::both;

    #[test]
    fn equal_pairs_are_kept_within_the_limit() {
        let equal = Equal::new(2 * PAIR_BYTES);
        for number in 0..3 {
            equal.add(&both(number, number));
        }
        assert!(equal.has(&both(0, 0)) && equal.has(&both(1, 1)) && !equal.has(&both(2, 2)));
        assert!(!equal.has(&both(0, 1)));
        let mut later = both(0, 0);
        later.target.ctime.seconds += 1;
        assert!(!equal.has(&later), "it may be another content by now");
    }
}
