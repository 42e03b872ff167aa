//! Bytes for a decoder: random ones, and samples that were damaged once or several times.

use crate::random::Random;

/// The most bytes of random input.
const RANDOM_BYTES_MAX: u64 = 200;
/// The most bytes of any input.
const BYTES_MAX: usize = 64 << 10;
/// Numbers that are no lengths, as seven bits in a byte and in little-endian order.
const HUGE: [&[u8]; 6] = [
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    &[0xff, 0xff, 0x7f],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0x7f],
];
/// Bytes at which decoders decide.
const EDGES: [u8; 10] = [0, 1, 2, 0x7f, 0x80, 0xff, b'/', b'.', b'\n', b'"'];

/// The input of one case.
pub(super) fn bytes(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    if samples.is_empty() || random.chance(10) {
        return (0..random.below(RANDOM_BYTES_MAX)).map(|_| random.draw() as u8).collect();
    }
    let mut bytes = random.pick(samples).clone();
    for _ in 0..=random.below(4) {
        damage(random, &mut bytes, samples);
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>, samples: &[Vec<u8>]) {
    let at = random.index(bytes.len() + 1);
    let end = at + random.index(bytes.len() - at + 1);
    match random.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = *random.pick(&EDGES),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let again = bytes[at..end].to_vec();
            let to = random.index(bytes.len() + 1);
            bytes.splice(to..to, again);
        }
        5 => {
            let other = random.pick(samples);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.index(other.len() + 1)..]);
        }
        6 => {
            let huge = *random.pick(&HUGE);
            bytes.splice(at..at, huge.iter().copied());
        }
        7 => {
            let huge = *random.pick(&HUGE);
            let end = (at + huge.len()).min(bytes.len());
            bytes.splice(at..end, huge.iter().copied());
        }
        _ => bytes.insert(at, random.draw() as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_depend_on_the_seed_and_differ() {
        let samples = vec![b"one".to_vec(), b"another".to_vec(), Vec::new()];
        let of = |seed| bytes(&mut Random::new(seed), &samples);
        let all: std::collections::HashSet<_> = (0..1000).map(of).collect();
        assert!((0..1000).map(of).all(|bytes| all.contains(&bytes)));
        assert!(all.len() > 700, "{}", all.len());
        assert!(all.iter().any(|bytes| bytes.starts_with(b"ano") && bytes.ends_with(b"ne")));
    }
}
