//! Strings of bytes and of characters: their length, then they themselves.

use alloc::borrow::Cow;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::Code;

/// Appends bytes, as a `Vec<u8>` is encoded.
#[inline]
pub fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    bytes.len().encode(out);
    out.extend_from_slice(bytes);
}

/// Reads the bytes of an encoded `Vec<u8>` without copying them. `None` if the bytes are invalid.
#[inline]
pub fn decode_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::decode(bytes)?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

impl Code for String {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        core::str::from_utf8(decode_bytes(bytes)?).ok().map(Self::from)
    }
}

/// Without its NUL.
impl Code for CString {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::new(decode_bytes(bytes)?).ok()
    }
}

impl Code for Arc<[u8]> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self, out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        decode_bytes(bytes).map(Self::from)
    }
}

impl Code for Cow<'_, [u8]> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self, out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Vec::decode(bytes).map(Cow::Owned)
    }
}

impl Code for Cow<'_, CStr> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.to_bytes(), out);
    }

    #[inline]
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        CString::decode(bytes).map(Cow::Owned)
    }
}
