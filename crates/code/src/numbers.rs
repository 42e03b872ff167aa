//! Numbers as bytes: seven bits in a byte, lowest first. Small numbers take one byte.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{Code, take};

/// The most bytes of a number.
const BYTES_MAX: usize = 10;

impl Code for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match take::<1>(bytes)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Code for u8 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        take::<1>(bytes).map(|[byte]| byte)
    }

    fn encode_each(values: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(values);
    }

    fn decode_each(count: usize, bytes: &mut &[u8]) -> Option<Vec<Self>> {
        let (taken, rest) = bytes.split_at_checked(count)?;
        *bytes = rest;
        Some(taken.to_vec())
    }
}

impl Code for u64 {
    /// Encodes seven bits per byte, lowest first; all but the last have the highest bit.
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        if *self < 0x80 {
            return out.push(*self as u8);
        }
        let (mut bytes, mut count, mut rest) = ([0; BYTES_MAX], 0, *self);
        while rest >= 0x80 {
            bytes[count] = rest as u8 | 0x80;
            rest >>= 7;
            count += 1;
        }
        bytes[count] = rest as u8;
        out.extend_from_slice(&bytes[..=count]);
    }

    /// Refuses a number that does not fit, and one with needless bytes.
    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        // Most numbers are small.
        if let [byte @ 0..0x80, rest @ ..] = *bytes {
            *bytes = rest;
            return Some((*byte).into());
        }
        let mut number = 0_u64;
        for (at, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
            let (bits, shift) = (u64::from(byte & 0x7f), 7 * at);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                *bytes = &bytes[at + 1..];
                return (*byte != 0).then_some(number);
            }
        }
        None
    }
}

impl Code for u32 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        u64::from(*self).encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes)?.try_into().ok()
    }
}

impl Code for usize {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u64).encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes)?.try_into().ok()
    }
}

/// Small numbers take few bytes, also negative ones.
impl Code for i64 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let number = u64::decode(bytes)?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }
}

impl Code for f64 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes).map(Self::from_le_bytes)
    }
}

/// Nanoseconds: at most 584 years.
impl Code for Duration {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).encode(out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes).map(Self::from_nanos)
    }
}
