//! Digests line by line: as `b3sum` prints them, with or without `--tag`, or as NDJSON rows. It opens no files.
//!
//! In a name, a backslash, a line feed and a carriage return are written as `\\`, `\n` and `\r`; the line then begins with a backslash.
//! Names that are not UTF-8 keep their bytes here, as with `sha256sum`; `b3sum` itself would print U+FFFD and refuse to check it.

use std::borrow::Cow;
use std::io::BufRead;

use atta_entry::{Kind, escape_into, needs_escape};
use serde::Deserialize;

use super::{Digested, digest_of};
use crate::list::record::{Record, read_record};
use crate::list::row::{decode, reason};
use crate::lossy::hex_into;
use crate::{Error, ROW_BYTES_MAX, Result};

/// Appends the line of a file as `b3sum` prints it. With `terminal`, bytes that could control a terminal are escaped as well.
pub fn digest_line(digest: &[u8; 32], path: &[u8], terminal: bool, out: &mut Vec<u8>) {
    let is_odd = |byte: &u8| matches!(byte, b'\\' | b'\n' | b'\r');
    let escapes = if terminal { needs_escape(path) } else { path.iter().any(is_odd) };
    if escapes {
        out.push(b'\\');
    }
    hex_into(digest, out);
    out.extend_from_slice(b"  ");
    if terminal {
        escape_into(path, out);
    } else {
        for &byte in path {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                other => out.push(other),
            }
        }
    }
    out.push(b'\n');
}

/// Reads digests line by line. It holds one line in memory, and ends at the first error.
pub struct DigestLines<R: BufRead> {
    input: R,
    buffer: Vec<u8>,
    line: u64,
    is_ndjson: bool,
    ended: bool,
}

impl<R: BufRead> DigestLines<R> {
    /// Begins to read: NDJSON rows if the first byte is `{`, otherwise lines of `b3sum`.
    ///
    /// # Errors
    ///
    /// [`Error::ListRead`] if the input cannot be read.
    pub fn new(mut input: R) -> Result<Self> {
        let first = loop {
            match input.fill_buf() {
                Ok(available) => break available.first().copied(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::ListRead { source }),
            }
        };
        Ok(Self { input, buffer: Vec::new(), line: 0, is_ndjson: first == Some(b'{'), ended: false })
    }

    /// Whether it has entries of every kind; if not, only regular files.
    #[must_use]
    pub fn has_all_kinds(&self) -> bool {
        self.is_ndjson
    }

    fn read(&mut self) -> Result<Option<Digested>> {
        loop {
            let record = read_record(&mut self.input, b'\n', ROW_BYTES_MAX, &mut self.buffer)?;
            self.line += 1;
            match record {
                Record::End => return Ok(None),
                Record::TooLong => {
                    return Err(Error::ListTooLong { item: self.line, bytes_max: ROW_BYTES_MAX });
                }
                Record::Finished | Record::Unfinished => {}
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let found = if self.is_ndjson { row(&self.buffer, self.line)? } else { self.plain()? };
        if found.path.is_empty() {
            return Err(Error::ListEmptyPath { item: self.line });
        }
        if found.path.contains(&0) {
            return Err(Error::ListNul { item: self.line });
        }
        Ok(Some(found))
    }

    fn plain(&self) -> Result<Digested> {
        let line = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        let no_line = || Error::DigestLine { line: self.line };
        let (path, digest) = parse(line).ok_or_else(no_line)?;
        Ok(Digested { path, kind: Kind::File, size: None, digest: Some(digest), target: None })
    }
}

impl<R: BufRead> Iterator for DigestLines<R> {
    type Item = Result<Digested>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Parses `HEX  PATH` or `BLAKE3 (PATH) = HEX`, with a backslash in front if the path is escaped.
fn parse(line: &[u8]) -> Option<(Vec<u8>, [u8; 32])> {
    let (is_escaped, line) = line.strip_prefix(b"\\").map_or((false, line), |rest| (true, rest));
    let (digits, path) = match line.strip_prefix(b"BLAKE3 (") {
        Some(rest) => {
            let at = rest.len().checked_sub(64 + b") = ".len())?;
            let (path, rest) = rest.split_at_checked(at)?;
            (rest.strip_prefix(b") = ")?, path)
        }
        None => {
            let (digits, rest) = line.split_at_checked(64)?;
            (digits, rest.strip_prefix(b"  ")?)
        }
    };
    let digest = digest_of(str::from_utf8(digits).ok()?)?;
    let path = if is_escaped { unescape(path)? } else { path.to_vec() };
    Some((path, digest))
}

fn unescape(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

/// The fields of a row that are used.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    path_raw: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    size: Option<u64>,
    #[serde(borrow)]
    digest: Option<Cow<'a, str>>,
    #[serde(default)]
    not_read: bool,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    target_raw: Option<Cow<'a, str>>,
}

fn row(bytes: &[u8], line: u64) -> Result<Digested> {
    let wrong = |column: usize, reason: &str| Error::ListJson { line, column, reason: reason.to_owned() };
    let row: Row<'_> =
        serde_json::from_slice(bytes).map_err(|error| wrong(error.column(), &reason(&error)))?;
    let path = match row.path_raw {
        Some(digits) => decode(&digits, line, "path_raw")?,
        None => row.path.into_owned().into_bytes(),
    };
    let target = match row.target_raw {
        Some(digits) => Some(decode(&digits, line, "target_raw")?),
        None => row.target.map(|target| target.into_owned().into_bytes()),
    };
    let kind = Kind::from_name(&row.kind).ok_or_else(|| wrong(0, "an unknown kind"))?;
    let digest = row.digest.map(|digits| digest_of(&digits).ok_or_else(|| wrong(0, "no BLAKE3 digest")));
    let digest = digest.transpose()?;
    if kind == Kind::File && digest.is_none() && !row.not_read {
        return Err(wrong(0, "a file without its digest"));
    }
    Ok(Digested { path, kind, size: row.size, digest, target })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> Result<Vec<Digested>> {
        DigestLines::new(text)?.collect()
    }

    #[test]
    fn lines_as_b3sum_prints_them() {
        let mut out = Vec::new();
        for path in [&b"a"[..], b"a\\b", b"a\nb\rc", b"\xff", b" a  b "] {
            digest_line(&[0xab; 32], path, false, &mut out);
        }
        let hex = "ab".repeat(32);
        let expected = format!("{hex}  a\n\\{hex}  a\\\\b\n\\{hex}  a\\nb\\rc\n{hex}  ?\n{hex}   a  b \n");
        assert_eq!(
            out.iter().map(|&byte| if byte == 0xff { b'?' } else { byte }).collect::<Vec<_>>(),
            expected.as_bytes()
        );
        let tagged = format!("BLAKE3 (a b) = {hex}\r\n\\BLAKE3 (\\n) = {hex}\n\n");
        let paths: Vec<_> = read(tagged.as_bytes()).unwrap().into_iter().map(|found| found.path).collect();
        assert_eq!(paths, [&b"a b"[..], b"\n"]);
        let mut out = Vec::new();
        digest_line(&[0xab; 32], b"\x1b[2J\xff", true, &mut out);
        assert_eq!(out, format!("\\{hex}  \\x1b[2J\\xff\n").as_bytes());
    }

    #[test]
    fn what_is_no_such_line_is_an_error_that_names_it() {
        let hex = "ab".repeat(32);
        let wrong = [
            format!("{hex}  a\n{hex} a\n"),
            format!("{hex}  a\n{}  a\n", hex.to_uppercase()),
            format!("{hex}  a\n\\{hex}  a\\x\n"),
            format!("{hex}  a\n\\{hex}  a\\\n"),
            format!("{hex}  a\n{}  a\n", &hex[2..]),
            format!("{hex}  a\nBLAKE3 (a) {hex}\n"),
        ];
        for text in wrong {
            assert!(matches!(read(text.as_bytes()), Err(Error::DigestLine { line: 2 })), "{text}");
        }
        assert!(matches!(read(format!("{hex}  \n").as_bytes()), Err(Error::ListEmptyPath { item: 1 })));
        let rows = [
            "{\"path\":\"a\",\"kind\":\"file\"}",
            "{\"path\":\"a\",\"kind\":\"file\",\"digest\":\"ab\"}",
            "{\"path\":\"a\",\"kind\":\"thing\"}",
            "{\"kind\":\"fifo\"}",
        ];
        for row in rows {
            assert!(matches!(read(row.as_bytes()), Err(Error::ListJson { line: 1, .. })), "{row}");
        }
    }

    proptest! {
        #[test]
        fn names_go_through_lines_and_back(paths in proptest::collection::vec(proptest::collection::vec(1_u8..=255, 1..20), 1..9), digest: [u8; 32]) {
            let mut text = Vec::new();
            for path in &paths {
                digest_line(&digest, path, false, &mut text);
            }
            let found = read(&text).unwrap();
            prop_assert!(found.iter().all(|found| found.digest == Some(digest)));
            let found: Vec<_> = found.into_iter().map(|found| found.path).collect();
            prop_assert_eq!(found, paths);
        }
    }
}
