//! Decoders under bytes that nobody meant to send: random ones, and valid ones that were damaged. Each case depends on a seed alone. No
//! coverage guides it.
//!
//! A decoder must answer, with a value or a refusal, and hold no more memory than a stated multiple of its input. What it accepts must
//! survive being encoded and decoded again.
//!
//! Each crate with decoders has a table of targets, `src/fuzz.rs`. `atta-structure` compares the tables with the source, so that none is
//! forgotten. A failure names its target and seed. This repeats it alone: `ATTA_FUZZ='TARGET SEED'`.

mod damage;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::allocations::most_held;
use crate::random::{Random, mix};

/// Cases of each target in every run of the tests: a second or two for a crate.
pub const CASES: u64 = 50_000;
/// Cases of each target in a long run.
pub const CASES_LONG: u64 = 10_000_000;
/// Bytes that a decoder may hold whatever its input, for messages and first growth of lists.
const HELD_ALWAYS: usize = 4096;
/// The environment variable that names one case.
const REPLAY: &str = "ATTA_FUZZ";

/// A decoder: returns what encoding the decoded value gives, or none if it refuses the bytes.
type Decode = Box<dyn Fn(&[u8]) -> Option<Vec<u8>>>;

/// A decoder and what is tried on it.
pub struct Target {
    name: &'static str,
    samples: Vec<Vec<u8>>,
    decode: Decode,
    held_per_byte: usize,
    is_exact: bool,
}

impl Target {
    /// A decoder of a value that has one encoding. `name`: the file below `src`, and the type. `samples`: valid bytes.
    pub fn new(
        name: &'static str,
        samples: Vec<Vec<u8>>,
        decode: impl Fn(&[u8]) -> Option<Vec<u8>> + 'static,
    ) -> Self {
        Self { name, samples, decode: Box::new(decode), held_per_byte: 32, is_exact: true }
    }

    /// Sets how many bytes of memory it may hold for each byte of input, instead of 32.
    #[must_use]
    pub fn holding(self, held_per_byte: usize) -> Self {
        Self { held_per_byte, ..self }
    }

    /// A value may have several encodings.
    #[must_use]
    pub fn of_several_encodings(self) -> Self {
        Self { is_exact: false, ..self }
    }

    /// Tries one input.
    ///
    /// # Panics
    /// The decoder breaks a promise.
    pub fn try_one(&self, bytes: &[u8]) {
        let (encoded, held) = most_held(|| (self.decode)(bytes));
        let held_max = HELD_ALWAYS + self.held_per_byte * bytes.len();
        assert!(held <= held_max, "{held} bytes of memory for {} bytes: {bytes:?}", bytes.len());
        let Some(encoded) = encoded else { return };
        if self.is_exact {
            assert_eq!(encoded, bytes, "a second encoding of a value");
        } else {
            assert_eq!((self.decode)(&encoded), Some(encoded), "changed by being encoded: {bytes:?}");
        }
    }

    fn try_case(&self, seed: u64) {
        let bytes = damage::bytes(&mut Random::new(seed), &self.samples);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.try_one(&bytes))) {
            #[expect(clippy::print_stderr, reason = "how to repeat a failed test")]
            {
                eprintln!("{} fails on {bytes:?}; {REPLAY}='{} {seed}' repeats it", self.name, self.name);
            }
            resume_unwind(panic);
        }
    }

    /// The seed of a case.
    fn seed(&self, case: u64) -> u64 {
        let name = self.name.bytes().fold(0, |name, byte| mix(name ^ u64::from(byte)));
        mix(name ^ case)
    }
}

/// Tries so many cases of each target, or the case that the environment names.
///
/// # Panics
/// A decoder breaks a promise, refuses a sample, or the test program does not count its memory.
pub fn run(targets: &[Target], cases: u64) {
    let (_, counted) = most_held(|| drop(std::hint::black_box(vec![0_u8; 1000])));
    assert!(counted >= 1000, "the test program does not use the counting allocator");
    let replay = std::env::var(REPLAY).ok();
    let replay = replay.as_deref().and_then(|replay| replay.rsplit_once(' '));
    for target in targets {
        for sample in &target.samples {
            assert_eq!((target.decode)(sample).as_ref(), Some(sample), "a sample of {}", target.name);
        }
        match replay {
            None => (0..cases).for_each(|case| target.try_case(target.seed(case))),
            Some((name, seed)) if name == target.name => {
                target.try_case(seed.parse().expect("a seed is a number"));
            }
            Some(_) => {}
        }
    }
}

/// A target of a type with the trait `Code`, which must be in scope: its name, the type, and values of it.
#[macro_export]
macro_rules! fuzz_code {
    ($name:literal, $type:ty, [$($sample:expr),* $(,)?]) => {
        $crate::fuzz::Target::new(
            $name,
            vec![$(<$type as Code>::encoded(&$sample)),*],
            |bytes| <$type as Code>::decode_all(bytes).map(|value| Code::encoded(&value)),
        )
    };
}

/// The tests of a crate's targets, a short one and a long one, and the allocator that they need. Gets the name of the function that returns
/// the targets.
#[macro_export]
macro_rules! fuzz_tests {
    ($targets:ident) => {
        #[global_allocator]
        static COUNTING: $crate::allocations::Counting = $crate::allocations::Counting;

        #[test]
        fn decoders_withstand_any_bytes() {
            $crate::fuzz::run(&$targets(), $crate::fuzz::CASES);
        }

        #[test]
        #[ignore = "takes minutes"]
        fn decoders_withstand_any_bytes_for_long() {
            $crate::fuzz::run(&$targets(), $crate::fuzz::CASES_LONG);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations::Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// Reads a length and as many bytes.
    fn sized(bytes: &[u8]) -> Option<Vec<u8>> {
        let (length, rest) = bytes.split_first()?;
        (rest.len() == usize::from(*length)).then(|| bytes.to_vec())
    }

    fn run_on(decode: impl Fn(&[u8]) -> Option<Vec<u8>> + 'static) {
        run(&[Target::new("a decoder", vec![vec![2, 5, 6]], decode)], CASES);
    }

    #[test]
    fn a_decoder_that_keeps_its_promises_passes() {
        run_on(sized);
    }

    #[test]
    #[should_panic(expected = "bytes of memory")]
    fn memory_for_what_is_not_there_is_noticed() {
        run_on(|bytes| {
            let length = usize::from(*bytes.first()?);
            drop(std::hint::black_box(Vec::<u8>::with_capacity(length << 12)));
            sized(bytes)
        });
    }

    #[test]
    #[should_panic(expected = "a second encoding")]
    fn a_second_encoding_is_noticed() {
        run_on(|bytes| sized(bytes).map(|read| read.iter().map(|byte| byte & 0x7f).collect()));
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_panic_is_noticed() {
        run_on(|bytes| {
            let length = usize::from(*bytes.first()?);
            (bytes[length] != 0).then(|| sized(bytes)).flatten()
        });
    }
}
