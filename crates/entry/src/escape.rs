//! Escapes bytes from a disk for terminals, logs and line-based text. No I/O.
//!
//! A name may contain newlines, escape sequences and any other bytes except `/` and NUL. Written raw to a terminal it can move the cursor,
//! change the title or fake a line of output. The escaped form is printable, on one line, and unique for each name: a backslash is
//! escaped, too.

/// Whether escaping would change `bytes`.
#[must_use]
pub fn needs_escape(bytes: &[u8]) -> bool {
    // Printable ASCII is the common case and needs no decoding.
    if bytes.iter().all(|&byte| (b' '..=b'~').contains(&byte) && byte != b'\\') {
        return false;
    }
    bytes.utf8_chunks().any(|chunk| !chunk.invalid().is_empty() || chunk.valid().chars().any(is_unsafe))
}

/// Appends `bytes` to `out` in escaped form: `\n`, `\t`, `\r`, `\\`, and `\xHH` for each byte of any other control character, of an
/// invisible or direction-changing character, and of invalid UTF-8.
pub fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    if !needs_escape(bytes) {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let encoded = character.encode_utf8(&mut buffer).as_bytes();
            match character {
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\\' => out.extend_from_slice(b"\\\\"),
                _ if is_unsafe(character) => encoded.iter().for_each(|&byte| push_hex(byte, out)),
                _ => out.extend_from_slice(encoded),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_hex(byte, out));
    }
}

/// Returns the result of [`escape_into`] as a string. The escaped form is always UTF-8.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Control characters (C0, DEL, C1), and format characters that hide text or change its direction: a name with one could look like another
/// name.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || character == '\\'
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn push_hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS[usize::from(nibble & 15)];
    out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_names_stay_as_they_are() {
        for name in ["plain", "with space", "übergrößenträger", "日本語", "-rf *", "'\"$"] {
            assert!(!needs_escape(name.as_bytes()), "{name}");
            assert_eq!(escape(name.as_bytes()), name);
        }
    }

    #[test]
    fn harmful_bytes_are_spelled_out() {
        assert_eq!(escape(b"a\nb"), "a\\nb");
        assert_eq!(escape(b"\x1b[2Jx"), "\\x1b[2Jx");
        assert_eq!(escape(b"caf\xe9"), "caf\\xe9");
        assert_eq!(escape(b"\\n"), "\\\\n");
        assert_eq!(escape("\u{202e}gpj.exe".as_bytes()), "\\xe2\\x80\\xaegpj.exe");
        assert_eq!(escape("\u{9b}31m".as_bytes()), "\\xc2\\x9b31m");
    }

    #[test]
    fn two_names_never_escape_to_the_same_text() {
        let names: [&[u8]; 6] = [b"\n", b"\\n", b"\\\\n", b"\\x0a", b"\x0a\\", b"n"];
        for (i, one) in names.iter().enumerate() {
            for other in &names[i + 1..] {
                assert_ne!(escape(one), escape(other));
            }
        }
    }
}
