//! Values as bytes for other processes of the same program: the data that ranks send each other besides the engine's messages. It is not a
//! file format. One version covers all of it: ranks whose versions differ are refused before they send anything else.
//!
//! Decoding trusts no input. Any bytes give a value or `None`, and it reserves no memory for elements that the bytes cannot hold.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::Duration;

use crate::Errno;

/// The version of the data that ranks send each other. It rises when the fields of a value change, or the bytes of a message.
pub const VERSION: u32 = 5;

/// A value that can be sent as bytes.
pub trait Code: Sized {
    /// Appends its bytes to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads the bytes that [`encode`](Self::encode) wrote, and leaves the rest. `None` if the bytes are invalid.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;

    /// The value as bytes.
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Reads a value from bytes that hold nothing else.
    fn decode_all(mut bytes: &[u8]) -> Option<Self> {
        Self::decode(&mut bytes).filter(|_| bytes.is_empty())
    }
}

/// Sends a struct as its fields, one after another.
///
/// ```
/// use atta_entry::Code;
///
/// #[derive(Debug, PartialEq)]
/// struct Found {
///     name: String,
///     sizes: Vec<u64>,
/// }
/// atta_entry::record!(Found { name, sizes });
///
/// let found = Found { name: "a".to_owned(), sizes: vec![1, 300] };
/// assert_eq!(Found::decode_all(&found.encoded()), Some(found));
/// ```
#[macro_export]
macro_rules! record {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::Code for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::Code::encode(&self.$field, out);)*
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::Code::decode(bytes)?,)* })
            }
        }
    };
}

/// Removes the first bytes and returns them.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

impl Code for () {
    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(_bytes: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl Code for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match take::<1>(bytes)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Code for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        take::<1>(bytes).map(|[byte]| byte)
    }
}

impl Code for u64 {
    /// Encodes seven bits per byte, lowest first; all but the last have the highest bit.
    fn encode(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = take::<1>(bytes)?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl Code for u32 {
    fn encode(&self, out: &mut Vec<u8>) {
        u64::from(*self).encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes)?.try_into().ok()
    }
}

impl Code for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u64).encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes)?.try_into().ok()
    }
}

impl Code for f64 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes).map(Self::from_le_bytes)
    }
}

/// Nanoseconds: at most 584 years.
impl Code for Duration {
    fn encode(&self, out: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes).map(Self::from_nanos)
    }
}

impl Code for Errno {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.cast_unsigned().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u32::decode(bytes).map(|number| Self(number.cast_signed()))
    }
}

impl Code for String {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        out.extend(self.as_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(Vec::decode(bytes)?).ok()
    }
}

/// Small numbers take few bytes, also negative ones.
impl Code for i64 {
    fn encode(&self, out: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let number = u64::decode(bytes)?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }
}

impl Code for CString {
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = self.as_bytes();
        bytes.len().encode(out);
        out.extend_from_slice(bytes);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::new(Vec::decode(bytes)?).ok()
    }
}

impl<T: Code, E: Code> Code for Result<T, E> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_ok().encode(out);
        match self {
            Ok(value) => value.encode(out),
            Err(error) => error.encode(out),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        if bool::decode(bytes)? { T::decode(bytes).map(Ok) } else { E::decode(bytes).map(Err) }
    }
}

impl<T: Code> Code for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        if bool::decode(bytes)? { T::decode(bytes).map(Some) } else { Some(None) }
    }
}

impl<T: Code> Code for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        self.iter().for_each(|element| element.encode(out));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        // Each element takes at least one byte, except those that take no memory either.
        let count = usize::decode(bytes).filter(|count| *count <= bytes.len())?;
        (0..count).map(|_| T::decode(bytes)).collect()
    }
}

impl<T: Code, const N: usize> Code for [T; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|element| element.encode(out));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let elements: Option<Vec<T>> = (0..N).map(|_| T::decode(bytes)).collect();
        elements?.try_into().ok()
    }
}

/// Each key may occur once.
impl<K: Code + Ord, V: Code> Code for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut map = Self::new();
        for _ in 0..usize::decode(bytes)? {
            // So no map takes more memory than its bytes do.
            if map.insert(K::decode(bytes)?, V::decode(bytes)?).is_some() {
                return None;
            }
        }
        Some(map)
    }
}

macro_rules! tuples {
    ($($($value:ident: $type:ident),+;)+) => {
        $(
            impl<$($type: Code),+> Code for ($($type,)+) {
                fn encode(&self, out: &mut Vec<u8>) {
                    let ($($value,)+) = self;
                    $($value.encode(out);)+
                }

                fn decode(bytes: &mut &[u8]) -> Option<Self> {
                    Some(($($type::decode(bytes)?,)+))
                }
            }
        )+
    };
}

tuples! {
    a: A, b: B;
    a: A, b: B, c: C;
    a: A, b: B, c: C, d: D;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Sample {
        flag: bool,
        byte: u8,
        small: u32,
        count: usize,
        share: f64,
        time: Duration,
        text: String,
        paths: Vec<Vec<u8>>,
        perhaps: Option<(u32, String)>,
        numbers: [u64; 3],
        failures: BTreeMap<Errno, u64>,
        signed: [i64; 4],
        name: CString,
        outcomes: Vec<Result<u32, String>>,
    }

    record!(Sample {
        flag,
        byte,
        small,
        count,
        share,
        time,
        text,
        paths,
        perhaps,
        numbers,
        failures,
        signed,
        name,
        outcomes
    });

    fn sample() -> Sample {
        Sample {
            flag: true,
            byte: 255,
            small: u32::MAX,
            count: 300,
            share: 0.25,
            time: Duration::from_nanos(1_234_567_890_123),
            text: "ä".to_owned(),
            paths: vec![b"\xff/".to_vec(), Vec::new()],
            perhaps: Some((7, "why".to_owned())),
            numbers: [0, 127, u64::MAX],
            failures: [(Errno::IO, 2), (Errno::NOENT, 300)].into(),
            signed: [i64::MIN, -1, 64, i64::MAX],
            name: c"a name\xff".into(),
            outcomes: vec![Ok(7), Err("no".to_owned())],
        }
    }

    #[test]
    fn bytes_are_read_back_and_nothing_else_is() {
        for sample in [sample(), Sample::default()] {
            let mut bytes = sample.encoded();
            assert_eq!(Sample::decode_all(&bytes), Some(sample));
            for length in 0..bytes.len() {
                assert_eq!(Sample::decode_all(&bytes[..length]), None, "{length} of {}", bytes.len());
            }
            bytes.push(0);
            assert_eq!(Sample::decode_all(&bytes), None);
        }
    }

    #[test]
    fn any_other_byte_gives_a_value_or_none() {
        let bytes = sample().encoded();
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut other = bytes.clone();
                other[at] = byte;
                if let Some(read) = Sample::decode_all(&other) {
                    assert!(read.paths.len() <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        // Bits that no number has, and a number that does not end.
        assert_eq!(u64::decode_all(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(u64::decode_all(&[0x80; 11]), None);
        assert_eq!(u32::decode_all(&(u64::from(u32::MAX) + 1).encoded()), None);
        assert_eq!(bool::decode_all(&[2]), None);
        assert_eq!(CString::decode_all(&[2, b'a', 0]), None);
        assert_eq!(String::decode_all(&[1, 0xff]), None);
        // More elements than bytes.
        assert_eq!(Vec::<()>::decode_all(&u64::MAX.encoded()), None);
        assert_eq!(Vec::<u64>::decode_all(&[0xff, 0xff, 0xff, 0x7f, 1, 1]), None);
        // The same key twice, and more keys than bytes.
        assert_eq!(BTreeMap::<Errno, u64>::decode_all(&[2, 1, 1, 1, 1]), None);
        assert_eq!(BTreeMap::<Errno, u64>::decode_all(&[0xff, 0xff, 0xff, 0x7f, 1, 1]), None);
    }
}
