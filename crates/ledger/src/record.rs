//! Records: one fact each, as bytes. No I/O.
//!
//! Most facts are about a directory, given by its path below a root. A record holds only what its path does not share with that of the
//! record before, or nothing if the directory is the same. So records are read in order, from the start of a *section*: what one thread
//! has noted.
//!
//! Each list of records has one encoding. What names no possible entry is refused: an empty name, `.`, `..`, a slash in a name, a NUL.

use atta_code::{Code, decode_bytes, encode_bytes};

use crate::id::shared;
use crate::log::LogName;

/// The directory is that of the record before.
const SAME: u8 = 0x80;

/// A directory: its root, and the path below it with slashes between names; empty: the root itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At<'a> {
    /// Index among the roots of the job.
    pub root: u32,
    /// The path.
    pub path: &'a [u8],
}

/// The number of a slice, never used twice in a job: the run and rank that listed it, and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceNumber {
    /// The run of the job.
    pub run: u32,
    /// The rank in that run.
    pub rank: u32,
    /// Its counter.
    pub number: u64,
}

/// Which directories were there when one was done, so that a later run notices others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Inode of the directory; 0: it says nothing of the source.
    pub source_inode: u64,
    /// Inode of its copy; 0: there is none.
    pub target_inode: u64,
    /// When the directory changed last, in seconds and nanoseconds of the file system's clock.
    pub changed: (i64, u32),
}

/// What is known of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// It has this subdirectory, which is to be entered.
    Found {
        /// The name.
        name: &'a [u8],
        /// What was seen of it, as four bytes that another directory or a changed one hardly has; 0: nothing.
        mark: u32,
    },
    /// What was seen of it when it was about to be read, as in [`Found`](Self::Found), in place of what that says.
    Marked {
        /// The four bytes.
        mark: u32,
    },
    /// These names form a slice of their own. Whoever reads the directory again leaves them out.
    Listed {
        /// The slice.
        slice: SliceNumber,
        /// Its names.
        names: Vec<&'a [u8]>,
    },
    /// All names of a slice are done. None: the directory was read to its end, and all names are done that are in no listed slice.
    Done {
        /// The slice.
        slice: Option<SliceNumber>,
        /// What was seen, if the operation needs that. Of a directory that has several, the last counts.
        seen: Option<Seen>,
    },
    /// It is done, all below it is closed, and its attributes are final.
    Closed,
    /// A large file has a partial file. Which slice the file is in, the record does not say.
    Planned {
        /// Name of the file.
        name: &'a [u8],
        /// What the operation needs to go on with it.
        plan: &'a [u8],
    },
    /// A chunk of a large file is durable. It may be written after the file is done, by the rank that copied the chunk.
    Chunk {
        /// Name of the file.
        name: &'a [u8],
        /// Index of the chunk.
        index: u64,
        /// What the operation needs of it.
        value: &'a [u8],
    },
    /// An entry failed, or the directory itself. The last answer for an entry counts.
    Failed {
        /// Name of the entry; empty: the directory.
        name: &'a [u8],
        /// The failure.
        row: &'a [u8],
    },
    /// An entry that failed in an earlier run did not fail in this one.
    Mended {
        /// Name of the entry; empty: the directory.
        name: &'a [u8],
    },
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A fact about a directory.
    In(At<'a>, Fact<'a>),
    /// What the slices come to that are done by records of the same frame.
    Results(&'a [u8]),
    /// A finished part of a catalog.
    Part(&'a [u8]),
    /// Of a log of an earlier run, or of the part before this one, so many bytes count. Only in the first frame of a run or a part (see
    /// [`JobLogs`](crate::JobLogs)).
    Cut {
        /// That log.
        log: LogName,
        /// Its bytes.
        bytes: u64,
    },
    /// What a frame of an earlier run says is done does not count, nor its results. Only in the first frame of a run or a part (see
    /// [`JobLogs::void`](crate::JobLogs::void)).
    Void {
        /// The log of the frame.
        log: LogName,
        /// Where the frame begins.
        offset: u64,
        /// The run that found this out, which does it again.
        by: u32,
    },
}

const FOUND: u8 = 0;
const LISTED: u8 = 1;
const DONE: u8 = 2;
const DONE_SLICE: u8 = 3;
const CLOSED: u8 = 4;
const PLANNED: u8 = 5;
const CHUNK: u8 = 6;
const FAILED: u8 = 7;
const MENDED: u8 = 8;
const FOUND_MARKED: u8 = 9;
const MARKED: u8 = 10;
const RESULTS: u8 = 16;
const PART: u8 = 17;
const CUT: u8 = 18;
const VOID: u8 = 19;

/// Records of one section, to be written.
#[derive(Clone, Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    last: Last,
}

/// The directory of the record before.
#[derive(Clone, Debug, Default)]
struct Last {
    is_there: bool,
    root: u32,
    path: Vec<u8>,
}

impl Last {
    fn set(&mut self, root: u32, shared: usize, rest: &[u8]) {
        (self.is_there, self.root) = (true, root);
        self.path.truncate(shared);
        self.path.extend_from_slice(rest);
    }
}

impl Records {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the section. The next record begins a new one.
    pub fn take(&mut self) -> Vec<u8> {
        self.last.is_there = false;
        self.last.path.clear();
        std::mem::take(&mut self.bytes)
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::In(at, fact) => self.add_fact(*at, fact),
            Record::Results(bytes) => self.add_bytes(RESULTS, bytes),
            Record::Part(bytes) => self.add_bytes(PART, bytes),
            Record::Cut { log, bytes } => {
                self.bytes.push(CUT);
                (*log, *bytes).encode(&mut self.bytes);
            }
            Record::Void { log, offset, by } => {
                self.bytes.push(VOID);
                (*log, *offset, *by).encode(&mut self.bytes);
            }
        }
    }

    fn add_bytes(&mut self, kind: u8, bytes: &[u8]) {
        self.bytes.push(kind);
        encode_bytes(bytes, &mut self.bytes);
    }

    /// Adds a fact about a directory.
    pub fn add_fact(&mut self, at: At<'_>, fact: &Fact<'_>) {
        self.add_fact_near(at, 0, fact);
    }

    /// The same. `same`: so many bytes of the path are those of the fact before, which are not compared again. The section may have been
    /// [taken](Self::take) since.
    pub fn add_fact_near(&mut self, at: At<'_>, same: usize, fact: &Fact<'_>) {
        self.begin(at, same, kind(fact));
        let out = &mut self.bytes;
        match fact {
            Fact::Found { name, mark: 0 } | Fact::Mended { name } => encode_bytes(name, out),
            Fact::Found { name, mark } => {
                encode_bytes(name, out);
                out.extend_from_slice(&mark.to_le_bytes());
            }
            Fact::Marked { mark } => out.extend_from_slice(&mark.to_le_bytes()),
            Fact::Listed { slice, names } => {
                slice.encode(out);
                names.len().encode(out);
                names.iter().for_each(|name| encode_bytes(name, out));
            }
            Fact::Done { slice, seen } => {
                if let Some(slice) = slice {
                    slice.encode(out);
                }
                seen.encode(out);
            }
            Fact::Closed => {}
            Fact::Planned { name, plan: more } | Fact::Failed { name, row: more } => {
                encode_bytes(name, out);
                encode_bytes(more, out);
            }
            Fact::Chunk { name, index, value } => {
                encode_bytes(name, out);
                index.encode(out);
                encode_bytes(value, out);
            }
        }
    }

    fn begin(&mut self, at: At<'_>, same: usize, kind: u8) {
        let same = same.min(self.last.path.len()).min(at.path.len());
        debug_assert_eq!(self.last.path[..same], at.path[..same]);
        let shared = same + shared(&self.last.path[same..], &at.path[same..]);
        if self.last.is_there
            && self.last.root == at.root
            && shared == self.last.path.len().max(at.path.len())
        {
            return self.bytes.push(kind | SAME);
        }
        let rest = &at.path[shared..];
        self.bytes.push(kind);
        at.root.encode(&mut self.bytes);
        shared.encode(&mut self.bytes);
        encode_bytes(rest, &mut self.bytes);
        self.last.set(at.root, shared, rest);
    }
}

fn kind(fact: &Fact<'_>) -> u8 {
    match fact {
        Fact::Found { mark: 0, .. } => FOUND,
        Fact::Found { .. } => FOUND_MARKED,
        Fact::Marked { .. } => MARKED,
        Fact::Listed { .. } => LISTED,
        Fact::Done { slice: None, .. } => DONE,
        Fact::Done { slice: Some(_), .. } => DONE_SLICE,
        Fact::Closed => CLOSED,
        Fact::Planned { .. } => PLANNED,
        Fact::Chunk { .. } => CHUNK,
        Fact::Failed { .. } => FAILED,
        Fact::Mended { .. } => MENDED,
    }
}

atta_code::record!(SliceNumber { run, rank, number });
atta_code::record!(Seen { source_inode, target_inode, changed });

/// Reads the records of a section in order. Returns whether all of it is valid; `each` has seen those before the first invalid one.
pub fn records(section: &[u8], each: &mut dyn FnMut(&Record<'_>)) -> bool {
    records_near(section, &mut |record, _| each(record))
}

/// As [`records`]. `each` also gets how many bytes of the path of a directory are those of the record of a directory before, in this section: all of
/// them if it is the same one.
pub(crate) fn records_near(mut section: &[u8], each: &mut dyn FnMut(&Record<'_>, usize)) -> bool {
    let mut last = Last::default();
    while !section.is_empty() {
        let Some(record) = next(&mut section, &mut last) else { return false };
        each(&record.0, record.1);
    }
    true
}

fn next<'a: 'r, 'r>(bytes: &mut &'a [u8], last: &'r mut Last) -> Option<(Record<'r>, usize)> {
    let tag = u8::decode(bytes)?;
    let other = |record| Some((record, 0));
    match tag {
        RESULTS => return other(Record::Results(decode_bytes(bytes)?)),
        PART => return other(Record::Part(decode_bytes(bytes)?)),
        CUT => {
            let (log, bytes) = Code::decode(bytes)?;
            return other(Record::Cut { log, bytes });
        }
        VOID => {
            let (log, offset, by) = Code::decode(bytes)?;
            return other(Record::Void { log, offset, by });
        }
        _ => {}
    }
    let shared = match tag & SAME {
        0 => place(bytes, last)?,
        _ if last.is_there => last.path.len(),
        _ => return None,
    };
    let fact = fact(tag & !SAME, bytes)?;
    Some((Record::In(At { root: last.root, path: &last.path }, fact), shared))
}

/// Reads a directory. Returns how many bytes of its path are those of the one before.
fn place(bytes: &mut &[u8], last: &mut Last) -> Option<usize> {
    let (root, shared) = (u32::decode(bytes)?, usize::decode(bytes)?);
    let rest = decode_bytes(bytes)?;
    // One encoding: as much is shared as possible, and another directory is named.
    let is_most = last.path.get(shared).is_none_or(|byte| Some(byte) != rest.first());
    let is_same = last.is_there && root == last.root && shared == last.path.len() && rest.is_empty();
    if shared > last.path.len() || !is_most || is_same {
        return None;
    }
    last.set(root, shared, rest);
    // What is shared was checked, but for the name that the rest continues.
    let from = last.path[..shared].iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    let from = if from > 0 { from + 1 } else { 0 };
    (are_names(&last.path[from..]) && last.path.last() != Some(&b'/')).then_some(shared)
}

/// Whether these are names that are possible, with slashes between them; or nothing.
fn are_names(path: &[u8]) -> bool {
    let (mut length, mut dots) = (0, 0);
    for byte in path {
        match byte {
            0 => return false,
            b'/' if length == 0 || length == dots && dots <= 2 => return false,
            b'/' => (length, dots) = (0, 0),
            b'.' => (length, dots) = (length + 1, dots + 1),
            _ => length += 1,
        }
    }
    path.is_empty() || length > 0 && (length > dots || dots > 2)
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

fn name<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    decode_bytes(bytes).filter(|name| is_name(name))
}

fn name_or_none<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    decode_bytes(bytes).filter(|name| name.is_empty() || is_name(name))
}

fn mark(bytes: &mut &[u8]) -> Option<u32> {
    let (mark, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*mark))
}

fn fact<'a>(kind: u8, bytes: &mut &'a [u8]) -> Option<Fact<'a>> {
    Some(match kind {
        FOUND => Fact::Found { name: name(bytes)?, mark: 0 },
        FOUND_MARKED => Fact::Found { name: name(bytes)?, mark: mark(bytes).filter(|mark| *mark != 0)? },
        MARKED => Fact::Marked { mark: mark(bytes)? },
        LISTED => {
            let slice = Code::decode(bytes)?;
            // A name takes at least two bytes.
            let count = usize::decode(bytes).filter(|count| *count <= bytes.len() / 2)?;
            Fact::Listed { slice, names: (0..count).map(|_| name(bytes)).collect::<Option<_>>()? }
        }
        DONE => Fact::Done { slice: None, seen: Code::decode(bytes)? },
        DONE_SLICE => Fact::Done { slice: Some(Code::decode(bytes)?), seen: Code::decode(bytes)? },
        CLOSED => Fact::Closed,
        PLANNED => Fact::Planned { name: name(bytes)?, plan: decode_bytes(bytes)? },
        CHUNK => Fact::Chunk { name: name(bytes)?, index: Code::decode(bytes)?, value: decode_bytes(bytes)? },
        FAILED => Fact::Failed { name: name_or_none(bytes)?, row: decode_bytes(bytes)? },
        MENDED => Fact::Mended { name: name_or_none(bytes)? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a section with these facts.
    fn bytes(facts: &[(&[u8], Fact<'_>)]) -> usize {
        let mut records = Records::default();
        facts.iter().for_each(|(path, fact)| records.add_fact(At { root: 0, path }, fact));
        records.take().len()
    }

    #[test]
    fn a_directory_takes_few_bytes() {
        let seen = Seen { source_inode: 1 << 34, target_inode: 1 << 34, changed: (1 << 31, 999_999_999) };
        // Twenty directories of one, each found, done and closed.
        for (mark, seen, closes, most) in [(7, None, false, 40), (0, Some(seen), true, 60)] {
            let names: Vec<_> = (0..20).map(|number| format!("directory-{number:04}")).collect();
            let paths: Vec<_> = names.iter().map(|name| format!("project/data/2026/{name}")).collect();
            let above: &[u8] = b"project/data/2026";
            let mut facts: Vec<_> =
                names.iter().map(|name| (above, Fact::Found { name: name.as_bytes(), mark })).collect();
            facts.push((above, Fact::Done { slice: None, seen }));
            for path in &paths {
                facts.push((path.as_bytes(), Fact::Done { slice: None, seen }));
                if closes {
                    facts.push((path.as_bytes(), Fact::Closed));
                }
            }
            let each = bytes(&facts) / 20;
            assert!(each <= most, "{each} bytes for a directory");
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let good = [&b"a"[..], b"..a", b"a b\n", b"\xff"];
        let bad = [&b""[..], b".", b"..", b"a/b", b"a\0"];
        for (names, is_good) in [(&good[..], true), (&bad, false)] {
            for name in names {
                let mut written = Records::default();
                written.add_fact(At { root: 0, path: b"d" }, &Fact::Found { name, mark: 0 });
                assert_eq!(records(&written.take(), &mut |_| {}), is_good, "{name:?}");
            }
        }
        for path in [&b"/a"[..], b"a/", b"a//b", b"a/../b", b"./a", b"a\0"] {
            let mut written = Records::default();
            written.add_fact(At { root: 0, path: b"a/x" }, &Fact::Closed);
            written.add_fact(At { root: 0, path }, &Fact::Closed);
            assert!(!records(&written.take(), &mut |_| {}), "{path:?}");
        }
    }
}
