//! Rows of comma-separated values. No I/O.
//!
//! RFC 4180, except that lines end in LF instead of CRLF. A field is quoted if it contains a comma, a quote, a CR or an LF. An empty field
//! is an absent value: paths and targets are never empty.

use atta_entry::{Entry, Timestamp};

use super::number_into;
use crate::Columns;
use crate::lossy::{hex_into, lossy_into};

/// Number of metadata columns; all are empty for an entry without metadata.
const METADATA_COLUMNS: usize = 11;

pub(super) fn row(
    entry: &Entry<'_>,
    path: &[u8],
    columns: Columns,
    digest: Option<&[u8; 32]>,
    out: &mut Vec<u8>,
) {
    bytes_fields(path, out);
    out.push(b',');
    out.extend_from_slice(entry.kind.name().as_bytes());
    number_field(entry.depth, out);
    number_field(entry.inode, out);
    if columns.metadata() {
        metadata_fields(entry, out);
    }
    if columns.targets() {
        out.push(b',');
        match entry.target {
            Some(target) => bytes_fields(target, out),
            None => out.push(b','),
        }
    }
    if columns.digests() {
        out.push(b',');
        if let Some(digest) = digest {
            hex_into(digest, out);
        }
    }
    out.push(b'\n');
}

fn metadata_fields(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let Some(metadata) = entry.metadata else {
        out.extend_from_slice(&[b','; METADATA_COLUMNS]);
        return;
    };
    number_field(metadata.device, out);
    number_field(metadata.mode, out);
    number_field(metadata.nlink, out);
    number_field(metadata.uid, out);
    number_field(metadata.gid, out);
    number_field(metadata.size, out);
    number_field(metadata.blocks, out);
    time_field(metadata.atime, out);
    time_field(metadata.mtime, out);
    time_field(metadata.ctime, out);
    match metadata.btime {
        Some(btime) => time_field(btime, out),
        None => out.push(b','),
    }
}

/// Appends two fields: the bytes as UTF-8, and their hexadecimal digits if the text is not exact.
fn bytes_fields(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let lossy = lossy_into(bytes, out);
    if out[start..].iter().any(|byte| b",\"\r\n".contains(byte)) {
        let text = out.split_off(start);
        quote_into(&text, out);
    }
    out.push(b',');
    if lossy {
        hex_into(bytes, out);
    }
}

fn quote_into(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn number_field(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.push(b',');
    number_into(number, out);
}

fn time_field(time: Timestamp, out: &mut Vec<u8>) {
    match time.as_nanoseconds_i64() {
        Some(nanoseconds) => number_field(nanoseconds, out),
        None => number_field(time.as_nanoseconds(), out),
    }
}
