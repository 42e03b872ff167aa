//! Values that hold other values: tuples, options, results, lists and maps.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::Code;

impl Code for () {
    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(_bytes: &mut &[u8]) -> Option<Self> {
        Some(())
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
        T::encode_each(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        // Each element takes at least one byte, except those that take no memory either.
        let count = usize::decode(bytes).filter(|count| *count <= bytes.len())?;
        T::decode_each(count, bytes)
    }
}

impl<T: Code, const N: usize> Code for [T; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode_each(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        T::decode_each(N, bytes)?.try_into().ok()
    }
}

/// Keys ascend, each once.
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
            let (key, value) = (K::decode(bytes)?, V::decode(bytes)?);
            // So no map takes more memory than its bytes do, even if keys take no bytes.
            if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return None;
            }
            map.insert(key, value);
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

/// Encodes what is borrowed; what is decoded is owned.
impl<T: Code + Clone> Code for Cow<'_, T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        T::decode(bytes).map(Cow::Owned)
    }
}
