//! The header of a job that can be resumed, as text: what was asked for, and a random number. A later run reads it and does not trust it: its
//! size is bounded, and each field is checked. No I/O.
//!
//! ```text
//!   atta log 1
//!   number 00c0ffee00c0ffee00c0ffee00c0ffee    names the job; from it come the keys of its logs
//!   began 1764000000                           seconds since 1970
//!   in 2f686f6d65                              the working directory, in hexadecimal digits
//!   argument 77616c6b                          of the command, without the program's name; in order
//!   agrees 2d2d66...                           what each later run must ask for, too; in order
//!   end
//! ```
//!
//! A line with another first word is skipped: later versions may add some. A header without its last line is none.

use std::fmt::{self, Write as _};

use atta_entry::escape;

use crate::jobs::record::{fields_of, hex, once, unhex};

/// Bytes of a header, at most.
pub(crate) const BYTES_MAX: usize = 8 << 20;
const HEAD: &str = "atta log 1";

/// What a job was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The working directory.
    pub directory: Vec<u8>,
    /// The arguments of the command, without the program's name.
    pub arguments: Vec<Vec<u8>>,
    /// What each later run must ask for, too: sources, and options that change the result.
    pub agrees: Vec<Vec<u8>>,
}

/// The header of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: [u8; 16],
    pub(crate) began: u64,
    pub(crate) request: Request,
}

impl Header {
    pub(crate) fn to_text(&self) -> String {
        let Self { number, began, request: Request { directory, arguments, agrees } } = self;
        let mut text = format!("{HEAD}\nnumber {}\nbegan {began}\nin {}\n", hex(number), hex(directory));
        let lines = arguments.iter().map(|argument| ("argument", argument));
        for (word, bytes) in lines.chain(agrees.iter().map(|agrees| ("agrees", agrees))) {
            let _ = writeln!(text, "{word} {}", hex(bytes));
        }
        text.push_str("end\n");
        text
    }

    /// None: it is no whole header of this version.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let (mut number, mut began, mut directory) = (None, None, None);
        let (mut arguments, mut agrees) = (Vec::new(), Vec::new());
        for (word, rest) in fields_of(text, HEAD, BYTES_MAX)? {
            let bytes = || unhex(rest);
            match word {
                "number" => once(&mut number, bytes().and_then(|bytes| bytes.try_into().ok()))?,
                "began" => once(&mut began, rest.parse().ok())?,
                "in" => once(&mut directory, bytes())?,
                "argument" => arguments.push(bytes()?),
                "agrees" => agrees.push(bytes()?),
                _ => {}
            }
        }
        let request = Request { directory: directory?, arguments, agrees };
        Some(Self { number: number?, began: began?, request })
    }

    /// What this job and a later request do not agree on: what one of them asks for and the other does not.
    pub(crate) fn difference(&self, request: &Request) -> Option<Difference> {
        let (mine, other) = (&self.request.agrees, &request.agrees);
        let lacks = |all: &[Vec<u8>], one: &Vec<u8>| !all.contains(one);
        let missing = mine.iter().find(|one| lacks(other, one)).cloned();
        let more = other.iter().find(|one| lacks(mine, one)).cloned();
        // The same things in another order, or another number of times.
        let is_other = mine != other;
        (missing.is_some() || more.is_some() || is_other).then_some(Difference { missing, more })
    }
}

/// What a job and a later request do not agree on. Neither: the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What only the job has.
    pub missing: Option<Vec<u8>>,
    /// What only the request has.
    pub more: Option<Vec<u8>>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.missing, &self.more) {
            (Some(missing), Some(more)) => write!(f, "it has {}, not {}", escape(missing), escape(more)),
            (Some(missing), None) => write!(f, "it has {}", escape(missing)),
            (None, Some(more)) => write!(f, "it does not have {}", escape(more)),
            (None, None) => write!(f, "it has the same things in another order"),
        }
    }
}

#[cfg(test)]
pub(crate) fn sample() -> Header {
    let agrees = vec![b"/data".to_vec(), b"--max-depth 3".to_vec(), b"a\nb\xff".to_vec()];
    let request = Request { directory: b"/home".to_vec(), arguments: vec![b"walk".to_vec()], agrees };
    Header { number: [7; 16], began: 1_764_000_000, request }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_back() {
        let text = sample().to_text();
        assert_eq!(Header::from_text(text.as_bytes()), Some(sample()));
        let with_more = text.replace("\nend\n", "\nlater word\nend\n");
        assert_eq!(Header::from_text(with_more.as_bytes()), Some(sample()));
        for (from, to) in
            [("end\n", ""), ("log 1", "log 2"), ("number 07", "number 7"), ("began 1", "began x")]
        {
            assert_eq!(Header::from_text(text.replace(from, to).as_bytes()), None, "{from}");
        }
    }

    #[test]
    fn first_difference_is_named() {
        let asks = |agrees: &[&[u8]]| Request {
            agrees: agrees.iter().map(|one| one.to_vec()).collect(),
            ..Request::default()
        };
        let difference =
            |agrees: &[&[u8]]| sample().difference(&asks(agrees)).map(|found| (found.missing, found.more));
        assert_eq!(difference(&[b"/data", b"--max-depth 3", b"a\nb\xff"]), None);
        assert_eq!(
            difference(&[b"/data", b"--max-depth 4", b"a\nb\xff"]),
            Some((Some(b"--max-depth 3".to_vec()), Some(b"--max-depth 4".to_vec())))
        );
        assert_eq!(difference(&[b"/data", b"a\nb\xff"]), Some((Some(b"--max-depth 3".to_vec()), None)));
        assert_eq!(difference(&[b"--max-depth 3", b"/data", b"a\nb\xff"]), Some((None, None)));
    }
}
