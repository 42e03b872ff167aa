//! A Bloom filter that estimates how many different names there are, in messages of a bounded size (Ahn et al. 2013, section IV.E): `m` bits for
//! twice as many names over ln 2, two positions for each name, and the number that makes the bits that are set most likely. Which names there
//! are, it does not show.
//!
//! Few positions are kept and sent as such. From one in 16 on, all bits are: then they take fewer bytes.

use atta_code::{Code, record};

/// Positions of a name.
const HASHES: u32 = 2;

/// Names, of which it knows only how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The number of bits, in words of 32. 0: filters of different lengths were merged.
    words: u32,
    bits: Bits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Bits {
    /// Those that are set, ascending.
    Sparse(Vec<u32>),
    Dense(Vec<u32>),
}

/// How many names a filter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The most likely number.
    pub number: u32,
    /// All bits are set: there are as many or more.
    pub is_full: bool,
}

record!(Estimate { number, is_full });

impl Filter {
    /// An empty filter, for so many names at most. It takes more, but estimates them with a larger error.
    #[must_use]
    pub fn new(names_max: u32) -> Self {
        let bits = (f64::from(HASHES) * f64::from(names_max.max(1)) / std::f64::consts::LN_2).ceil();
        // Bits are numbered with 32 bits.
        let words = (bits / 32.0).ceil().min(f64::from(u32::MAX / 32));
        #[expect(clippy::cast_sign_loss, reason = "a positive number")]
        let words = words as u32;
        Self { words, bits: Bits::Sparse(Vec::new()) }
    }

    /// The number of bits.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.words * 32
    }

    /// The most bytes of a message with it, about.
    pub(crate) const fn bytes_max(&self) -> usize {
        self.words as usize * 4 + 8
    }

    /// Adds a name by its hash.
    pub fn insert(&mut self, hash: &[u8; 16]) {
        if self.words == 0 {
            return;
        }
        let (hash, bits) = (u128::from_le_bytes(*hash), u128::from(self.bits()));
        let mut positions = vec![((hash >> 64) % bits) as u32, (hash % (1 << 64) % bits) as u32];
        positions.sort_unstable();
        positions.dedup();
        self.merge(Self { words: self.words, bits: Bits::Sparse(positions) });
    }

    /// Adds the names of another filter, which must have the same length.
    pub fn merge(&mut self, other: Self) {
        if self.words != other.words {
            *self = Self { words: 0, bits: Bits::Sparse(Vec::new()) };
            return;
        }
        match (&mut self.bits, other.bits) {
            (Bits::Dense(words), Bits::Sparse(positions)) => set(words, &positions),
            (Bits::Dense(words), Bits::Dense(others)) => {
                words.iter_mut().zip(others).for_each(|(word, other)| *word |= other);
            }
            (Bits::Sparse(positions), Bits::Dense(mut words)) => {
                set(&mut words, positions);
                self.bits = Bits::Dense(words);
            }
            (Bits::Sparse(positions), Bits::Sparse(others)) => {
                positions.extend(others);
                positions.sort_unstable();
                positions.dedup();
                self.bits = packed(self.words, std::mem::take(positions));
            }
        }
    }

    /// How many bits are set.
    fn count(&self) -> u32 {
        match &self.bits {
            Bits::Sparse(positions) => positions.len() as u32,
            Bits::Dense(words) => words.iter().map(|word| word.count_ones()).sum(),
        }
    }

    /// How many names it has. None: filters of different lengths were merged.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        let (bits, set) = (self.bits(), self.count());
        if bits == 0 {
            return None;
        }
        // The logarithm of none would be that of 0.
        let is_full = set == bits;
        let (bits, set) = (f64::from(bits), f64::from(set.min(bits - 1)));
        let number = (-set / bits).ln_1p() / (f64::from(HASHES) * (-1.0 / bits).ln_1p());
        #[expect(clippy::cast_sign_loss, reason = "a positive number")]
        Some(Estimate { number: number.round() as u32, is_full })
    }
}

fn set(words: &mut [u32], positions: &[u32]) {
    positions.iter().for_each(|position| words[(position / 32) as usize] |= 1 << (position % 32));
}

/// Whether so many positions are kept as such. Two bytes hold a gap of 128 to 16,383 bits, so they take less than half of the bytes of all bits.
const fn is_sparse(words: u32, count: usize) -> bool {
    count < words as usize * 2 || words == 0
}

fn packed(words: u32, positions: Vec<u32>) -> Bits {
    if is_sparse(words, positions.len()) {
        return Bits::Sparse(positions);
    }
    let mut all = vec![0; words as usize];
    set(&mut all, &positions);
    Bits::Dense(all)
}

/// The number of words, that of the bits that are set, then the gaps before these, or all words.
impl Code for Filter {
    fn encode(&self, out: &mut Vec<u8>) {
        self.words.encode(out);
        self.count().encode(out);
        match &self.bits {
            Bits::Sparse(positions) => {
                let mut begin = 0;
                for position in positions {
                    (position - begin).encode(out);
                    begin = position + 1;
                }
            }
            Bits::Dense(words) => out.extend(words.iter().flat_map(|word| word.to_le_bytes())),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let words = u32::decode(bytes).filter(|words| *words <= u32::MAX / 32)?;
        let count = u32::decode(bytes)?;
        let bits = if is_sparse(words, count as usize) {
            Bits::Sparse(decode_sparse(words, count, bytes)?)
        } else {
            let (all, rest) = bytes.split_at_checked(words as usize * 4)?;
            *bytes = rest;
            let (chunks, _) = all.as_chunks::<4>();
            Bits::Dense(chunks.iter().map(|word| u32::from_le_bytes(*word)).collect())
        };
        Some(Self { words, bits }).filter(|filter| filter.count() == count)
    }
}

fn decode_sparse(words: u32, count: u32, bytes: &mut &[u8]) -> Option<Vec<u32>> {
    let (mut begin, mut positions) = (0_u32, Vec::new());
    for _ in 0..count {
        let position = begin.checked_add(u32::decode(bytes)?).filter(|position| *position < words * 32)?;
        positions.push(position);
        begin = position + 1;
    }
    Some(positions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(name: u32) -> [u8; 16] {
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(&name.to_le_bytes()).as_bytes()[..16]);
        hash
    }

    fn of(names: impl IntoIterator<Item = u32>, names_max: u32) -> Filter {
        let mut filter = Filter::new(names_max);
        names.into_iter().for_each(|name| filter.insert(&hash(name)));
        filter
    }

    /// Filters of single names, merged in a binary tree as by ranks, and the longest message.
    fn merged(names: std::ops::Range<u32>, names_max: u32) -> (Filter, usize) {
        if names.end - names.start == 1 {
            let filter = of(names, names_max);
            let bytes = filter.encoded().len();
            return (filter, bytes);
        }
        let middle = names.start.midpoint(names.end);
        let (mut one, bytes_of_one) = merged(names.start..middle, names_max);
        let (two, bytes_of_two) = merged(middle..names.end, names_max);
        one.merge(two);
        let bytes = one.encoded().len();
        (one, bytes.max(bytes_of_one).max(bytes_of_two))
    }

    #[test]
    fn length_is_that_of_the_paper() {
        // 2 * 420,000 / ln 2 is 1,211,863.7.
        assert_eq!(Filter::new(420_000).bits(), 1_211_872);
        assert_eq!(Filter::new(1).bits(), 32);
        assert_eq!(Filter::new(0).bits(), 32);
        assert!(Filter::new(u32::MAX).bits() > 4_000_000_000);
    }

    #[test]
    fn servers_of_a_billion_ranks_are_estimated() {
        const SERVERS: u32 = 420_000;
        let (filter, bytes) = merged(0..SERVERS, SERVERS);
        let estimate = filter.estimate().unwrap();
        let error = f64::from(estimate.number.abs_diff(SERVERS)) / f64::from(SERVERS);
        println!("{} of {SERVERS}: {:.3} %, longest message {bytes} bytes", estimate.number, error * 100.0);
        assert!(error < 0.02 && !estimate.is_full, "{estimate:?}");
        assert!(bytes <= 150 * 1024, "{bytes}");
        assert!(bytes >= SERVERS as usize / 4, "a filter so short cannot count as many: {bytes}");
    }

    #[test]
    fn few_names_are_counted_well() {
        for names in [0, 1, 2, 10, 100, 1000] {
            let estimate = of(0..names, 10_000).estimate().unwrap();
            assert!(estimate.number.abs_diff(names) <= names / 50, "{names}: {estimate:?}");
            assert!(!estimate.is_full);
        }
    }

    #[test]
    fn same_name_counts_once() {
        let mut filter = of([7; 100], 1000);
        filter.merge(of([7], 1000));
        assert_eq!(filter.estimate(), Some(Estimate { number: 1, is_full: false }));
    }

    // Defect 9: the logarithm of 0 was converted to a number.
    #[test]
    fn full_filter_gives_at_least() {
        let full = of(0..10_000, 1);
        assert_eq!((full.bits(), full.count()), (32, 32));
        let Estimate { number, is_full } = full.estimate().unwrap();
        assert!(is_full && (32..1000).contains(&number), "{number}");
        let almost = of(0..40, 1);
        assert!(almost.count() < 32 && !almost.estimate().unwrap().is_full);
    }

    #[test]
    fn filters_of_two_lengths_have_no_estimate() {
        let mut filter = of(0..10, 10);
        filter.merge(of(0..10, 100));
        assert_eq!(filter.estimate(), None);
        assert_eq!(Filter::decode_all(&filter.encoded()), Some(filter.clone()));
        filter.merge(of(0..10, 10));
        filter.insert(&hash(7));
        assert_eq!((filter.estimate(), Filter::decode_all(&filter.encoded())), (None, Some(filter)));
    }

    #[test]
    fn few_names_take_few_bytes() {
        assert!(of([1], 420_000).encoded().len() <= 12);
        assert!(of(0..1000, 420_000).encoded().len() <= 5000);
        let dense = of(0..5000, 420).encoded().len();
        assert!(dense <= 420 * 3 / 8 + 8, "{dense}");
    }

    proptest! {
        #[test]
        fn merged_filters_are_those_of_all_names(one in prop::collection::vec(0_u32..300, 0..200),
                                                 two in prop::collection::vec(0_u32..300, 0..200), names_max in 1_u32..400) {
            let mut merged = of(one.iter().copied(), names_max);
            merged.merge(of(two.iter().copied(), names_max));
            let all = of(two.into_iter().chain(one), names_max);
            prop_assert_eq!(&merged, &all);
            let words = match &all.bits {
                Bits::Sparse(positions) => packed(0, positions.clone()),
                dense @ Bits::Dense(_) => dense.clone(),
            };
            prop_assert_eq!(words, all.bits.clone());
            prop_assert!(all.encoded().len() <= all.words as usize * 4 + 8);
            prop_assert_eq!(Filter::decode_all(&all.encoded()), Some(all));
        }
    }
}
