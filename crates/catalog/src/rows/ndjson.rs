//! Rows as JSON, one object per line. No I/O.
//!
//! Written by hand, not with `serde`: the fields and their order are fixed, and every entry of a tree gets a row. The tests check the
//! output against `serde_json`.

use atta_entry::{Entry, Metadata, Timestamp};

use super::number_into;
use crate::Columns;
use crate::lossy::{hex_into, lossy_into};

/// `,"NAME":` as one literal: a row has a dozen of them, and writing each in four pieces took a third of the time.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}
pub(super) use key;

/// Appends `{"path":...,"path_raw"?:...,"kind":...,"depth":...,"inode":...,`, metadata if present, the target if present, and `}`. Times
/// are nanoseconds since the epoch, whole and exact; `mode` is a plain number.
pub(super) fn row(
    entry: &Entry<'_>,
    path: &[u8],
    columns: Columns,
    digest: Option<&[u8; 32]>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    bytes_field("\"path\":", key!("path_raw"), path, out);
    out.extend_from_slice(b",\"kind\":\"");
    out.extend_from_slice(entry.kind.name().as_bytes());
    out.push(b'"');
    number_field(key!("depth"), entry.depth, out);
    number_field(key!("inode"), entry.inode, out);
    if let Some(metadata) = entry.metadata.filter(|_| columns.metadata()) {
        metadata_fields(metadata, out);
    }
    if let Some(target) = entry.target.filter(|_| columns.targets()) {
        bytes_field(key!("target"), key!("target_raw"), target, out);
    }
    if let Some(digest) = digest.filter(|_| columns.digests()) {
        hex_field(key!("digest"), digest, out);
    }
    out.extend_from_slice(b"}\n");
}

fn metadata_fields(metadata: &Metadata, out: &mut Vec<u8>) {
    number_field(key!("device"), metadata.device, out);
    number_field(key!("mode"), metadata.mode, out);
    number_field(key!("nlink"), metadata.nlink, out);
    number_field(key!("uid"), metadata.uid, out);
    number_field(key!("gid"), metadata.gid, out);
    number_field(key!("size"), metadata.size, out);
    number_field(key!("blocks"), metadata.blocks, out);
    time_field(key!("atime"), metadata.atime, out);
    time_field(key!("mtime"), metadata.mtime, out);
    time_field(key!("ctime"), metadata.ctime, out);
    match metadata.btime {
        Some(btime) => time_field(key!("btime"), btime, out),
        None => out.extend_from_slice(b",\"btime\":null"),
    }
}

/// Appends `KEY"..."` with the bytes as UTF-8, and `RAW_KEY"..."` with their digits if the text is not exact.
pub(super) fn bytes_field(key: &str, raw_key: &str, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(key.as_bytes());
    if let Ok(text) = str::from_utf8(bytes) {
        string_into(text, out);
        return;
    }
    let mut text = Vec::with_capacity(bytes.len() + 8);
    lossy_into(bytes, &mut text);
    string_into(&String::from_utf8_lossy(&text), out);
    hex_field(raw_key, bytes, out);
}

/// Appends `KEY"..."` with the bytes as digits.
pub(super) fn hex_field(key: &str, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(key.as_bytes());
    out.push(b'"');
    hex_into(bytes, out);
    out.push(b'"');
}

/// Appends `KEY` and a number.
pub(super) fn number_field(key: &str, number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(key.as_bytes());
    number_into(number, out);
}

/// Appends `KEY"TEXT"`.
pub(super) fn text_field(key: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(key.as_bytes());
    string_into(text, out);
}

/// 64 bits are faster and hold every time of this age; the others are exact as well.
fn time_field(key: &str, time: Timestamp, out: &mut Vec<u8>) {
    match time.as_nanoseconds_i64() {
        Some(nanoseconds) => number_field(key, nanoseconds, out),
        None => number_field(key, time.as_nanoseconds(), out),
    }
}

/// Appends a JSON string with its quotes. Source: RFC 8259, section 7.
fn string_into(text: &str, out: &mut Vec<u8>) {
    let is_special = |&byte: &u8| byte < b' ' || byte == b'"' || byte == b'\\';
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Most names need no escape. Without an early exit from the loop, the compiler checks many bytes at once.
    if !rest.iter().fold(false, |any, byte| any | is_special(byte)) {
        out.extend_from_slice(rest);
        out.push(b'"');
        return;
    }
    while let Some(at) = rest.iter().position(is_special) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                hex_into(&[control], out);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_string_comes_back(text in ".*", controls in "[\\x00-\\x1f\"\\\\\\x7f]*") {
            let text = text + &controls;
            let mut out = Vec::new();
            string_into(&text, &mut out);
            prop_assert!(!out.iter().any(|&byte| byte < b' '));
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
