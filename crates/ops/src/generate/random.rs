//! Random numbers in any order: each number depends only on the seed, the stream and the index. So any thread can make any part of a tree.
//! Not for secrets.

/// The odd number nearest to 2^64 divided by the golden ratio, as in splitmix64 (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Rounds of the permutation: four make a Feistel network a strong pseudo-random permutation (Luby, Rackoff 1988).
const ROUNDS: u64 = 4;

/// What numbers are drawn for. Each purpose has its own stream, so a new purpose does not change the others. The values are part of the
/// promise that a seed gives the same tree. They are never reused.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Purpose {
    Parent = 1,
    FileCut = 2,
    SymlinkCut = 3,
    HardLinkCut = 4,
    SizeRank = 5,
    SizeOffset = 6,
    FileMode = 7,
    DirectoryMode = 8,
    FileTime = 9,
    DirectoryTime = 10,
    SymlinkTime = 11,
    FileName = 12,
    DirectoryName = 13,
    SymlinkName = 14,
    HardLinkName = 15,
    SymlinkKind = 16,
    SymlinkTarget = 17,
    HardLinkFile = 18,
    HasXattrs = 19,
    XattrValue = 20,
}

/// The numbers of one purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream(u64);

impl Stream {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        Self(mix(seed ^ mix((purpose as u64).wrapping_mul(STEP))))
    }

    /// Returns the number at this index.
    pub(crate) fn at(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// Returns a number below `bound`, which is not 0. Its bias is below `bound` / 2^64.
    pub(crate) fn below(self, index: u64, bound: u64) -> u64 {
        scale(self.at(index), bound)
    }

    /// Whether the index belongs to a share (0 to 1) of all.
    pub(crate) fn is_in(self, index: u64, share: f64) -> bool {
        fraction(self.at(index)) < share
    }
}

/// A permutation of the numbers below `count`, computed number by number.
///
/// A Feistel network on the smallest even number of bits that holds `count`. A result outside is permuted again until it is inside ("cycle
/// walking"), fewer than four times on average.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    stream: Stream,
    count: u64,
    half_bits: u32,
}

impl Permutation {
    pub(crate) fn new(stream: Stream, count: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self { stream, count, half_bits: bits.div_ceil(2).max(1) }
    }

    /// Returns the image of `index`, which is below the count.
    pub(crate) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut at = self.once(index);
        while at >= self.count {
            at = self.once(at);
        }
        at
    }

    fn once(&self, index: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for round in 0..ROUNDS {
            let turned = left ^ (self.stream.at((round << 60) ^ right) & mask);
            (left, right) = (right, turned);
        }
        left << self.half_bits | right
    }
}

/// Returns a 64-bit fraction of `bound`, rounded down.
pub(crate) fn scale(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Converts a 64-bit number to a fraction: at least 0 and below 1.
pub(crate) fn fraction(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finalizer of splitmix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_seed_purpose_and_index() {
        let stream = Stream::new(1, Purpose::Parent);
        assert_eq!(stream.at(5), Stream::new(1, Purpose::Parent).at(5));
        assert_ne!(stream.at(5), stream.at(6));
        assert_ne!(stream.at(5), Stream::new(2, Purpose::Parent).at(5));
        assert_ne!(stream.at(5), Stream::new(1, Purpose::FileCut).at(5));
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let stream = Stream::new(3, Purpose::FileMode);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|index| counts[stream.below(index, 10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        let inside = (0..100_000).filter(|&index| stream.is_in(index, 0.25)).count();
        assert!((24_400..25_600).contains(&inside), "{inside}");
    }

    #[test]
    fn a_permutation_meets_every_number_once() {
        for count in [1, 2, 3, 4, 5, 17, 1000, 4096, 4097, 65_537] {
            let permutation = Permutation::new(Stream::new(7, Purpose::SizeRank), count);
            let mut seen: Vec<u64> = (0..count).map(|index| permutation.at(index)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn a_permutation_leaves_few_numbers_in_place() {
        let permutation = Permutation::new(Stream::new(7, Purpose::SizeRank), 10_000);
        let fixed = (0..10_000).filter(|&index| permutation.at(index) == index).count();
        assert!(fixed < 10, "{fixed}");
    }

    #[test]
    fn fractions_stay_in_bounds() {
        assert_eq!((scale(0, 7), scale(u64::MAX, 7), scale(u64::MAX, u64::MAX)), (0, 6, u64::MAX - 1));
        assert!(fraction(u64::MAX) < 1.0);
    }
}
