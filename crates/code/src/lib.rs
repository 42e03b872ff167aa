//! Values as bytes for other processes of the same program: the messages, tasks, totals and reports that ranks send each other, and tasks
//! in the spill file. It is not a file format. One version covers all of it: ranks whose versions differ are refused before they send
//! anything else.
//!
//! Decoding trusts no input. Any bytes give a value or `None`, and it reserves no memory for elements that the bytes cannot hold. Each value
//! has one encoding: bytes that decode are the bytes that encoding the value gives.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod containers;
#[cfg(test)]
mod fuzz;
mod macros;
mod numbers;
mod text;

use alloc::vec::Vec;

pub use text::{decode_bytes, encode_bytes};

/// The version of the data that ranks send each other. It rises when the fields of a value change, or the bytes of a message.
pub const VERSION: u32 = 9;

/// What values are encoded to. For the macros.
#[doc(hidden)]
pub type Bytes = Vec<u8>;

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

    /// Appends the bytes of many values.
    #[doc(hidden)]
    fn encode_each(values: &[Self], out: &mut Vec<u8>) {
        values.iter().for_each(|value| value.encode(out));
    }

    /// Reads as many values.
    #[doc(hidden)]
    fn decode_each(count: usize, bytes: &mut &[u8]) -> Option<Vec<Self>> {
        (0..count).map(|_| Self::decode(bytes)).collect()
    }
}

/// Removes the first bytes and returns them.
#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests;
