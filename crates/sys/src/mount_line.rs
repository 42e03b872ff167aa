//! One line of `/proc/self/mountinfo` (proc(5)), borrowed from the text that was read. It interprets neither types nor sources, and it
//! reads no file.
//!
//! ```text
//!   36 35 98:0 /mnt1 /mnt/parent rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//!   id parent device root point options  tags       - kind source super options
//! ```
//!
//! Each field may be empty but the numbers: a source may be, so that two spaces are no mistake. Any number of tags end with a dash. The
//! kernel writes space, tab, newline and backslash, in sources also `#`, as a backslash and three octal digits.

use std::borrow::Cow;

/// A line, with fields as they are written: escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountLine<'a> {
    /// Number of the mount. It is given again after the mount is gone.
    pub id: u64,
    /// Number of the mount that it is mounted on; its own for the root of a tree.
    pub parent: u64,
    /// Major and minor number of the device, as `stat` reports it for files (btrfs reports others).
    pub device: (u32, u32),
    /// The directory of the file system that is mounted. For namespaces it is no path.
    pub root: &'a [u8],
    /// Where it is mounted, seen from the root directory of the process.
    pub point: &'a [u8],
    /// Options of this mount, separated by commas.
    pub options: &'a [u8],
    /// `shared:N`, `master:N`, `propagate_from:N`, `unbindable`, and what later kernels add; separated by spaces.
    pub tags: &'a [u8],
    /// Type, with a subtype after a dot.
    pub kind: &'a [u8],
    /// What the file system says that it is mounted from.
    pub source: &'a [u8],
    /// Options of the file system, separated by commas.
    pub super_options: &'a [u8],
}

impl<'a> MountLine<'a> {
    /// Reads a line without its newline. None: it is not one of `mountinfo`.
    #[must_use]
    pub fn from_bytes(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut field = || take_field(&mut rest);
        let (id, parent, device) = (number(field()?)?, number(field()?)?, field()?);
        let (root, point, options) = (field()?, field()?, field()?);
        let (major, minor) = device.split_at_checked(device.iter().position(|byte| *byte == b':')?)?;
        let device = (number(major)?, number(minor.get(1..)?)?);
        let tags = take_tags(&mut rest)?;
        let (kind, source) = (take_field(&mut rest)?, take_field(&mut rest)?);
        Some(Self { id, parent, device, root, point, options, tags, kind, source, super_options: rest })
    }
}

/// The lines of a mount table.
pub fn lines(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The line of a mount.
pub(crate) fn line_of(table: &[u8], mount: u64) -> Option<MountLine<'_>> {
    lines(table).filter_map(MountLine::from_bytes).find(|line| line.id == mount)
}

/// A field without its escapes.
#[must_use]
pub fn unescaped(field: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = field.iter().position(|byte| *byte == b'\\') else { return Cow::Borrowed(field) };
    let mut bytes = Vec::with_capacity(field.len());
    bytes.extend_from_slice(&field[..first]);
    let mut rest = &field[first..];
    while let Some((&byte, more)) = rest.split_first() {
        let escaped = if byte == b'\\' { more.get(..3).and_then(octal) } else { None };
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &more[3..] } else { more };
    }
    Cow::Owned(bytes)
}

/// The byte that three octal digits stand for.
fn octal(digits: &[u8]) -> Option<u8> {
    let value = digits.iter().try_fold(0_u32, |value, digit| {
        (b'0'..=b'7').contains(digit).then(|| value * 8 + u32::from(digit - b'0'))
    });
    value.and_then(|value| u8::try_from(value).ok())
}

/// Removes the bytes up to the next space, and the space.
fn take_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let field = &rest[..end];
    *rest = &rest[end + 1..];
    Some(field)
}

/// Removes the tags and the dash after them.
fn take_tags<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let all = *rest;
    let mut length = 0;
    loop {
        let field = take_field(rest)?;
        if field == b"-" {
            return Some(&all[..length]);
        }
        length = all.len() - rest.len() - 1;
    }
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    let is_number = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(field).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_at_single_spaces() {
        let line = b"36 35 98:0 /mnt1 /a\\040b rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,x y";
        let read = MountLine::from_bytes(line).unwrap();
        assert_eq!((read.id, read.parent, read.device), (36, 35, (98, 0)));
        assert_eq!(
            (read.root, read.point, read.options),
            (&b"/mnt1"[..], &b"/a\\040b"[..], &b"rw,noatime"[..])
        );
        assert_eq!((read.tags, read.kind), (&b"master:1 propagate_from:2"[..], &b"ext3"[..]));
        assert_eq!((read.source, read.super_options), (&b"/dev/root"[..], &b"rw,x y"[..]));
    }

    #[test]
    fn empty_sources_and_no_tags_are_read() {
        let read = MountLine::from_bytes(b"1 1 0:5 / / rw - tmpfs  rw").unwrap();
        assert_eq!((read.tags, read.kind, read.source), (&b""[..], &b"tmpfs"[..], &b""[..]));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for line in [
            &b""[..],
            b"36 35 98:0 / /mnt rw",
            b"36 35 98:0 / /mnt rw - ext3",
            b"x 35 98:0 / /mnt rw - ext3 none rw",
            b"36 +5 98:0 / /mnt rw - ext3 none rw",
            b"36 35 980 / /mnt rw - ext3 none rw",
            b"36 35 98: / /mnt rw - ext3 none rw",
            b"99999999999999999999 35 98:0 / /mnt rw - ext3 none rw",
        ] {
            assert_eq!(MountLine::from_bytes(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn octal_escapes_are_undone_once() {
        assert_eq!(unescaped(br"/a\040b\134012\011\012\043"), &b"/a b\\012\t\n#"[..]);
        for kept in [&br"\04"[..], br"\089", br"\777", br"\", b"plain"] {
            assert_eq!(unescaped(kept), kept);
        }
    }
}
