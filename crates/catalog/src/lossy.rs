//! Bytes as text: UTF-8 with U+FFFD for invalid sequences, and hexadecimal digits that lose nothing. No I/O.

/// Appends `bytes` to `out` as UTF-8, each invalid sequence as U+FFFD; returns whether there was one.
pub(crate) fn lossy_into(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    if str::from_utf8(bytes).is_ok() {
        out.extend_from_slice(bytes);
        return false;
    }
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    true
}

/// Appends `bytes` to `out` as lower-case hexadecimal digits, two a byte.
pub(crate) fn hex_into(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// The bytes for hexadecimal digits of either case; `None` if the text is something else.
pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_says(bytes: Vec<u8>) {
            let mut out = Vec::new();
            let lossy = lossy_into(&bytes, &mut out);
            let expected = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
            prop_assert_eq!(out, expected);
            prop_assert_eq!(lossy, str::from_utf8(&bytes).is_err());
        }

        #[test]
        fn hex_goes_back_and_forth(bytes: Vec<u8>) {
            let mut digits = Vec::new();
            hex_into(&bytes, &mut digits);
            let digits = String::from_utf8(digits).unwrap();
            prop_assert_eq!(from_hex(&digits), Some(bytes.clone()));
            prop_assert_eq!(from_hex(&digits.to_uppercase()), Some(bytes));
        }
    }

    #[test]
    fn what_is_no_hex() {
        assert_eq!(from_hex("abc"), None);
        assert_eq!(from_hex("0g"), None);
        assert_eq!(from_hex("+1"), None);
        assert_eq!(from_hex("äb"), None);
    }
}
