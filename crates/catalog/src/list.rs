//! Reads lists of paths: NUL-separated as `find -print0` writes them, or NDJSON as `_errors.ndjson` is. It opens neither the list nor the
//! files that the list names.
//!
//! A list may come from anywhere and is not trusted: it is read item by item with a limit on each, and an item that could lead out of its
//! tree is an error. So is a line-separated list: a name can contain a line end, and a reader that guesses would act on files that were
//! not listed.

pub(crate) mod record;
pub(crate) mod row;

use std::io::{BufRead, Chain, Cursor, ErrorKind, Read};

use crate::{Error, Result};
use record::{Record, read_record};

/// Longest path in a list, in bytes: far above `PATH_MAX` (4096), which does not limit a path below a directory.
pub const PATH_BYTES_MAX: usize = 1 << 20;

/// Longest NDJSON row in a list, in bytes: two paths of [`PATH_BYTES_MAX`] with every byte escaped, and as
/// hexadecimal digits, take 16 MiB; the rest is for the other fields.
pub const ROW_BYTES_MAX: usize = 17 << 20;

/// Length of the beginning in which a NUL shows that a list is not NDJSON although it begins with `{`.
const FORM_BYTES: usize = 64 << 10;

/// One item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The root below which the entry was found, if the list has it (only NDJSON). The writer of the list may claim anything: compare the
    /// root with known ones; do not open it otherwise.
    pub root: Option<Vec<u8>>,
    /// The whole path: not empty, no NUL, at most [`PATH_BYTES_MAX`]. Only the part that repeats `root` may have `..` among its
    /// components.
    pub path: Vec<u8>,
    /// The change in a row of a list of differences; `None` for any other item. The path of such a row is below the compared roots, and is
    /// empty for the roots themselves.
    pub change: Option<ListedChange>,
}

/// The change in a row of a list of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedChange {
    /// The target does not have it.
    Missing,
    /// Only the target has it.
    Extra,
    /// Both have it.
    Different {
        /// Its bytes differ.
        content: bool,
        /// It shares its file with another name on only one side.
        links: bool,
    },
}

/// Reads a list item by item. It holds one item in memory, and the first 64 KiB of an NDJSON list.
///
/// The first error ends it: after a broken item, the start of the next one is unknown.
pub struct ListReader<R: BufRead> {
    input: Chain<Cursor<Vec<u8>>, R>,
    form: Form,
    buffer: Vec<u8>,
    items: u64,
    nul_seen: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Nul,
    Ndjson,
    Lines,
}

impl<R: BufRead> ListReader<R> {
    /// Begins to read a list and detects its form: NDJSON if it begins with `{` and has no NUL in its first 64 KiB, otherwise
    /// NUL-separated. It does not read ahead in a NUL-separated list that does not begin with `{`.
    ///
    /// # Errors
    ///
    /// [`Error::ListRead`] if the input cannot be read.
    pub fn new(mut input: R) -> Result<Self> {
        let (form, head) = detect(&mut input)?;
        Ok(Self {
            input: Cursor::new(head).chain(input),
            form,
            buffer: Vec::new(),
            items: 0,
            nul_seen: false,
            ended: false,
        })
    }

    /// Begins to read a list with a path on each line. A line that could also be a different name in some other notation is an error: see
    /// [`Error::ListLine`].
    pub fn lines(input: R) -> Self {
        Self {
            input: Cursor::new(Vec::new()).chain(input),
            form: Form::Lines,
            buffer: Vec::new(),
            items: 0,
            nul_seen: false,
            ended: false,
        }
    }

    fn read_next(&mut self) -> Result<Option<Listed>> {
        match self.form {
            Form::Nul => self.read_path(),
            Form::Ndjson => self.read_row(),
            Form::Lines => self.read_line(),
        }
    }

    fn read_path(&mut self) -> Result<Option<Listed>> {
        let record = read_record(&mut self.input, 0, PATH_BYTES_MAX, &mut self.buffer)?;
        self.items += 1;
        // Before the first NUL, line ends could still be the separators.
        let lines = !self.nul_seen && self.buffer.contains(&b'\n');
        match record {
            Record::End => return Ok(None),
            Record::TooLong | Record::Unfinished if lines => return Err(Error::ListForm),
            Record::TooLong => {
                return Err(Error::ListTooLong { item: self.items, bytes_max: PATH_BYTES_MAX });
            }
            Record::Unfinished => {}
            Record::Finished => self.nul_seen = true,
        }
        let path = std::mem::take(&mut self.buffer);
        check(&path, self.items)?;
        check_parents(&path, self.items)?;
        Ok(Some(Listed { root: None, path, change: None }))
    }

    fn read_line(&mut self) -> Result<Option<Listed>> {
        let record = read_record(&mut self.input, b'\n', PATH_BYTES_MAX, &mut self.buffer)?;
        self.items += 1;
        match record {
            Record::End => return Ok(None),
            Record::TooLong => {
                return Err(Error::ListTooLong { item: self.items, bytes_max: PATH_BYTES_MAX });
            }
            Record::Finished | Record::Unfinished => {}
        }
        let path = std::mem::take(&mut self.buffer);
        if let Some(reason) = ambiguity(&path) {
            return Err(Error::ListLine { line: self.items, reason });
        }
        check(&path, self.items)?;
        check_parents(&path, self.items)?;
        Ok(Some(Listed { root: None, path, change: None }))
    }

    fn read_row(&mut self) -> Result<Option<Listed>> {
        loop {
            let record = read_record(&mut self.input, b'\n', ROW_BYTES_MAX, &mut self.buffer)?;
            self.items += 1;
            match record {
                Record::End => return Ok(None),
                Record::TooLong => {
                    return Err(Error::ListTooLong { item: self.items, bytes_max: ROW_BYTES_MAX });
                }
                Record::Finished | Record::Unfinished => {}
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let listed = row::parse(&self.buffer, self.items)?;
        // An empty path means the roots themselves, in a list of differences.
        if !(listed.path.is_empty() && listed.change.is_some()) {
            check(&listed.path, self.items)?;
        }
        if let Some(root) = &listed.root {
            check(root, self.items)?;
        }
        check_parents(below_root(&listed), self.items)?;
        Ok(Some(listed))
    }
}

impl<R: BufRead> Iterator for ListReader<R> {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read_next().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The form of a list, and the bytes that were read to detect it.
fn detect(input: &mut impl BufRead) -> Result<(Form, Vec<u8>)> {
    let mut head = Vec::new();
    let mut more = true;
    // One byte is enough for most lists; only a `{` requires more. The reader never waits longer than that for a slow writer.
    while more && head.len() < FORM_BYTES && !head.contains(&0) {
        if head.first().is_some_and(|&first| first != b'{') {
            break;
        }
        let want = if head.is_empty() { 1 } else { FORM_BYTES - head.len() };
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(source) if source.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::ListRead { source }),
        };
        let taken = available.len().min(want);
        more = taken > 0;
        head.extend_from_slice(&available[..taken]);
        input.consume(taken);
    }
    let ndjson = head.first() == Some(&b'{') && !head.contains(&0);
    Ok((if ndjson { Form::Ndjson } else { Form::Nul }, head))
}

/// Why a line may stand for a name other than its bytes; `None` if it cannot.
fn ambiguity(line: &[u8]) -> Option<&'static str> {
    let is_quoted = |quote: u8| line.len() > 1 && line.starts_with(&[quote]) && line.ends_with(&[quote]);
    match () {
        () if line.is_empty() => Some("an empty line, which may be a part of a name"),
        () if line.contains(&0) => Some("a NUL: the list is NUL-separated and is read without --lines"),
        () if line.contains(&b'\\') => Some("a backslash, which may be an escape"),
        () if line.ends_with(b"\r") => Some("a carriage return, which may belong to the line end"),
        () if is_quoted(b'"') || is_quoted(b'\'') => {
            Some("quotation marks, which may not belong to the name")
        }
        () => None,
    }
}

/// Rejects bytes that no path may be.
fn check(path: &[u8], item: u64) -> Result<()> {
    if path.is_empty() {
        return Err(Error::ListEmptyPath { item });
    }
    if path.contains(&0) {
        return Err(Error::ListNul { item });
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Error::ListTooLong { item, bytes_max: PATH_BYTES_MAX });
    }
    Ok(())
}

fn check_parents(path: &[u8], item: u64) -> Result<()> {
    if path.split(|&byte| byte == b'/').any(|component| component == b"..") {
        return Err(Error::ListParent { item });
    }
    Ok(())
}

/// The path below its root if it has a root and begins with it, otherwise the whole path. A root may be `../data`.
fn below_root(listed: &Listed) -> &[u8] {
    let Some(root) = &listed.root else {
        return &listed.path;
    };
    match listed.path.strip_prefix(root.as_slice()) {
        Some(rest) if rest.is_empty() || rest[0] == b'/' || root.ends_with(b"/") => rest,
        _ => &listed.path,
    }
}

#[cfg(test)]
mod tests;
