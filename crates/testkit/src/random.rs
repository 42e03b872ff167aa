//! A small generator (splitmix64): the same seed gives the same numbers on every machine and in every version of the
//! suite, which a crate's generator does not promise. Not for secrets.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The distance between two states of the stream: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles a number: equal in, equal out, and neighbours land far apart (the finisher of splitmix64).
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The number in an environment variable, such as the seed that a test is to be repeated with. None: it is not set.
///
/// # Panics
/// It is no number.
#[must_use]
pub fn asked(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is no number: {value}")))
}

impl Random {
    /// A stream from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of the stream.
    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `bound`; the bias of the remainder is below 2^-32 for the bounds that tests use.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below 0 does not exist");
        self.draw() % bound
    }

    /// An index into something of `length` elements.
    ///
    /// # Panics
    /// When `length` is 0.
    pub fn index(&mut self, length: usize) -> usize {
        let bound = u64::try_from(length).expect("a length fits in 64 bits");
        usize::try_from(self.below(bound)).expect("an index is below a length")
    }

    /// One element of a slice.
    ///
    /// # Panics
    /// When the slice is empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// True in `percent` of 100 cases.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_the_seed_alone() {
        // The reference values of splitmix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
        assert_ne!(Random::new(1).draw(), Random::new(2).draw());
    }

    #[test]
    fn bounds_hold() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert!((0..100).all(|_| [1, 2, 3].contains(random.pick(&[1, 2, 3]))));
        let hits = (0..10_000).filter(|_| random.chance(30)).count();
        assert!((2_500..3_500).contains(&hits), "{hits}");
    }
}
