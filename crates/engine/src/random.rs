//! Random numbers from a seed that the caller gives (SplitMix64). Not for secrets.

/// A generator whose numbers depend on its seed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Random(u64);

impl Random {
    /// A generator that starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of several independent generators from one seed.
    #[must_use]
    pub fn stream(seed: u64, number: u64) -> Self {
        let mut random = Self(seed ^ number.wrapping_mul(0xD605_1A2E_9B1F_7A4D));
        let first = random.next_u64();
        Self(first)
    }

    /// The next number, any of 2^64.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0. Its bias is under `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_reach_all_of_their_range() {
        let mut random = Random::new(7);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[usize::try_from(random.below(10)).unwrap()] = true);
        assert_eq!(seen, [true; 10]);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::stream(1, 0).next_u64(), Random::stream(1, 1).next_u64());
    }
}
