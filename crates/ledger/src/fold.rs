//! What all logs of a job say together: the results of what is done, and what is left to do. No I/O.
//!
//! The logs are read several times, in the order of their runs. The first readings find the directories that are not complete
//! (`fold/known.rs`): in one reading if they fit in memory, otherwise a part of all directories at a time. The last reading hands over
//! results and what is left (`fold/left.rs`).
//!
//! A directory is *done* when it was read to its end and all its slices are done; it is *complete* when it is also closed, if the operation
//! closes directories. A directory that is complete is left out of what is to do. If the directory above is not done, it will be read
//! again, so a complete directory in it is named as well ([`Left::Complete`]): whoever meets it there passes it by.

mod known;
mod left;
mod walk;

use crate::fold::known::Known;
use crate::fold::left::Reading;
use crate::id::{Id, Key};
use crate::record::{At, Seen, SliceNumber};

/// All logs of a job, those of earlier runs first. Each reading gets the same frames, also if a process writes to its log meanwhile.
pub trait Logs {
    /// Why they cannot be read.
    type Error;

    /// Calls `each` with the sections of each frame that counts, in order. It returns whether they are valid.
    ///
    /// # Errors
    /// A log cannot be read, or is not valid.
    fn each(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Self::Error>;
}

/// A directory that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its identity.
    pub id: Id,
    /// Its names are done or in slices: it is not read again.
    pub is_read: bool,
    /// It is done: only its closing is left.
    pub is_done: bool,
}

/// What the fold finds, in the order of the logs.
#[derive(Clone, Debug, PartialEq)]
pub enum Left<'a> {
    /// Results of slices that are done. Their sum is that of all slices that are done.
    Results(&'a [u8]),
    /// A part of a catalog that holds rows of slices that are done.
    Part(&'a [u8]),
    /// A directory that is not complete, each once.
    Directory(At<'a>, Item),
    /// A slice that is not done, each once.
    Slice(At<'a>, SliceNumber, &'a [&'a [u8]]),
    /// Names that form a slice of a directory that is read again, which leaves them out. A slice may come twice.
    Given(At<'a>, &'a [&'a [u8]]),
    /// A complete directory, of which the directory above may be read again; or a complete root.
    Complete(Id),
    /// What was seen of a directory of which something is done. It comes at each DONE of the directory and of its slices, and the
    /// last counts: to hand over only that one, the fold would have to keep a number for each directory of the tree.
    Seen(At<'a>, Seen),
    /// The last answer for an entry is that it failed. The name is empty if it is the directory.
    Failed(At<'a>, &'a [u8], &'a [u8]),
    /// A large file in a directory that is not done: its name and plan. The last plan of a file counts. The file itself may be done, as
    /// part of a slice that is: the fold does not know whose name it is. Plans and chunks count only for files of what is left: those that
    /// [`Slice`](Self::Slice) names, or that a directory has that is read again and are in nothing [`Given`](Self::Given).
    Planned(At<'a>, &'a [u8], &'a [u8]),
    /// A chunk of such a file: its index and value. It may come before the plan, and several times.
    Chunk(At<'a>, &'a [u8], u64, &'a [u8]),
}

/// How logs are folded.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// The key of the job.
    pub key: Key,
    /// Directories are complete only when they are closed.
    pub closes: bool,
    /// An aim for the memory of a reading, in bytes. If it needs more, there are more readings. What is left is in memory besides.
    pub memory: usize,
}

impl Fold {
    /// Reads all logs and hands over what they say.
    ///
    /// # Errors
    /// A log cannot be read, or is not valid.
    pub fn run<L: Logs>(&self, logs: &mut L, each: &mut dyn FnMut(Left<'_>)) -> Result<(), L::Error> {
        let known = Known::read(self, logs)?;
        Reading::new(&self.key, known, each).read(logs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Fact, Records};

    /// Frames with one section each.
    struct Frames(Vec<Vec<u8>>);

    impl Logs for Frames {
        type Error = std::convert::Infallible;

        fn each(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Self::Error> {
            assert!(self.0.iter().all(|frame| each(frame)), "valid frames");
            Ok(())
        }
    }

    fn frame(facts: &[(&[u8], Fact<'_>)]) -> Vec<u8> {
        let (mut records, mut frame) = (Records::default(), Vec::new());
        facts.iter().for_each(|(path, fact)| records.add_fact(At { root: 0, path }, fact));
        atta_code::encode_bytes(&records.take(), &mut frame);
        frame
    }

    #[test]
    fn what_was_done_after_the_closing_is_closed_again() {
        let done = || Fact::Done { slice: None, seen: None };
        for (facts, is_complete) in [
            (vec![done(), Fact::Closed], true),
            (vec![Fact::Closed, done()], false),
            (vec![done(), Fact::Closed, done()], false),
        ] {
            let facts: Vec<_> = facts.into_iter().map(|fact| (&b"d"[..], fact)).collect();
            let mut frames = Frames(vec![frame(&facts)]);
            let fold = Fold { key: Key::of_job(&[2; 16]), closes: true, memory: 1 << 20 };
            let mut left = Vec::new();
            let folded = fold.run(&mut frames, &mut |found| {
                if let Left::Directory(at, item) = found {
                    left.extend(Some(item.is_done).filter(|_| at.path == b"d"));
                }
            });
            assert!(folded.is_ok());
            assert_eq!(left, if is_complete { vec![] } else { vec![true] }, "{facts:?}");
        }
    }

    #[test]
    fn late_chunk_brings_no_directory_back() {
        let done = || Fact::Done { slice: None, seen: None };
        let names: Vec<_> = (0..9).map(|number| format!("d{number}")).collect();
        let mut tree: Vec<_> =
            names.iter().map(|name| (&b""[..], Fact::Found { name: name.as_bytes() })).collect();
        tree.push((b"", done()));
        tree.extend(names.iter().map(|name| (name.as_bytes(), done())));
        let chunk = Fact::Chunk { name: b"large", index: 1, value: b"" };
        let mut frames = Frames(vec![frame(&tree), frame(&[(b"d3", chunk)])]);
        // All of it is forgotten after the first frame.
        let fold = Fold { key: Key::of_job(&[2; 16]), closes: false, memory: 1600 };
        let mut left = Vec::new();
        let folded = fold.run(&mut frames, &mut |found| {
            if let Left::Directory(at, item) = found {
                left.push((at.path.to_vec(), item));
            }
        });
        assert!(folded.is_ok() && left.is_empty(), "{left:?}");
    }
}
