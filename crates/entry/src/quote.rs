//! Quotes the bytes of a word for a shell, for commands that a message advises. No I/O.

/// Quotes a word so that a POSIX shell reads back exactly these bytes: unchanged if nothing in it is special, otherwise in single quotes,
/// or as `$'...'` (POSIX.1-2024; bash, zsh and ksh have it) if a byte could harm a terminal or is not UTF-8.
#[must_use]
pub fn shell_quote(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./:@%+,=-".contains(byte);
    if !word.is_empty() && !word.starts_with(b"=") && word.iter().all(is_plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    // A backslash is literal between single quotes.
    let without: Vec<u8> = word.iter().copied().filter(|byte| *byte != b'\\').collect();
    match std::str::from_utf8(word) {
        Ok(text) if !crate::needs_escape(&without) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => octal(word),
    }
}

fn octal(word: &[u8]) -> String {
    let mut quoted = String::from("$'");
    for byte in word {
        match byte {
            b'\'' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        for (word, quoted) in [
            (&b"plain/name-1.txt"[..], "plain/name-1.txt"),
            (b"", "''"),
            (b"with space", "'with space'"),
            (b"it's", r"'it'\''s'"),
            (b"back\\slash", r"'back\slash'"),
            (b"~", "'~'"),
            ("größe".as_bytes(), "'größe'"),
            (b"line\nend", r"$'line\012end'"),
            (b"caf\xe9 '\\", r"$'caf\351 \'\\'"),
        ] {
            assert_eq!(shell_quote(word), quoted);
        }
    }

    #[test]
    fn a_shell_reads_back_every_byte() {
        use std::os::unix::ffi::OsStrExt;
        let all: Vec<u8> = (1..=255).collect();
        for word in [&all[..], b"a\\'b", b"$(x) `y` \"z\" *?[", b"-rf"] {
            let script = format!("printf %s {}", shell_quote(word));
            let output =
                std::process::Command::new("bash").arg("-c").arg(&script).env("LC_ALL", "C").output();
            let read = output.unwrap().stdout;
            assert_eq!(read, word, "{:?}", std::ffi::OsStr::from_bytes(word));
        }
    }
}
