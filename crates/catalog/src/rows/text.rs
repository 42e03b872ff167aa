//! Rows for people, like those of `ls -l`, with tabs between the columns. No I/O.

use atta_entry::{Entry, Kind, Metadata, escape_into};

use super::number_into;
use crate::Columns;
use crate::calendar::timestamp_into;

/// Appends `-rw-r--r--`, links, owner, group, bytes, allocated bytes, modification time, path, and ` -> target`. Without metadata columns,
/// only the letter of the kind and the path. Names are escaped: a row is a line.
pub(super) fn row(entry: &Entry<'_>, path: &[u8], columns: Columns, out: &mut Vec<u8>) {
    if columns.metadata() {
        match entry.metadata {
            Some(metadata) => metadata_into(entry.kind, metadata, out),
            None => {
                out.push(letter(entry.kind));
                out.extend_from_slice(b"?????????\t?\t?\t?\t?\t?\t?\t");
            }
        }
    } else {
        out.extend_from_slice(&[letter(entry.kind), b'\t']);
    }
    escape_into(path, out);
    if let Some(target) = entry.target.filter(|_| columns.targets()) {
        out.extend_from_slice(b" -> ");
        escape_into(target, out);
    }
    out.push(b'\n');
}

fn metadata_into(kind: Kind, metadata: &Metadata, out: &mut Vec<u8>) {
    out.push(letter(kind));
    out.extend_from_slice(&permissions(metadata.mode));
    for number in [metadata.nlink, metadata.uid, metadata.gid] {
        out.push(b'\t');
        number_into(number, out);
    }
    for number in [metadata.size, metadata.allocated_bytes()] {
        out.push(b'\t');
        number_into(number, out);
    }
    out.push(b'\t');
    timestamp_into(metadata.mtime, out);
    out.push(b'\t');
}

/// Every letter of a kind is ASCII.
const fn letter(kind: Kind) -> u8 {
    kind.letter() as u8
}

/// The permission bits as `ls -l` shows them. A set-user-ID, set-group-ID or sticky bit replaces the `x` beside it; it is a capital letter
/// if there is no `x`.
fn permissions(mode: u32) -> [u8; 9] {
    let mut letters = *b"rwxrwxrwx";
    for (at, letter) in letters.iter_mut().enumerate() {
        if mode & (0o400 >> at) == 0 {
            *letter = b'-';
        }
    }
    for (bit, at, special) in [(0o4000, 2, b's'), (0o2000, 5, b's'), (0o1000, 8, b't')] {
        if mode & bit != 0 {
            letters[at] = if letters[at] == b'x' { special } else { special.to_ascii_uppercase() };
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_as_ls_shows_them() {
        assert_eq!(&permissions(0o100_644), b"rw-r--r--");
        assert_eq!(&permissions(0o041_777), b"rwxrwxrwt");
        assert_eq!(&permissions(0o107_000), b"--S--S--T");
        assert_eq!(&permissions(0o106_755), b"rwsr-sr-x");
        assert_eq!(&permissions(0), b"---------");
    }
}
