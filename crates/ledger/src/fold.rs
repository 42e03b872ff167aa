//! What all logs of a job say together: the results of what is done, and what is left to do. No I/O.
//!
//! The logs are read several times, in the order of their runs. The first readings find the directories that are not complete
//! (`fold/known.rs`): in one reading if they fit in memory, otherwise a part of all directories at a time. The last reading hands over
//! results and what is left (`fold/left.rs`).
//!
//! A directory is *done* when it was read to its end and all its slices are done; it is *complete* when it is also closed, if the operation
//! closes directories. A directory that is complete is left out of what is to do. If the directory above is not done, it will be read
//! again, so a complete directory in it is named as well ([`Left::Complete`]): whoever meets it there passes it by.

mod again;
mod known;
mod left;
mod together;
mod walk;

use crate::fold::again::Reopened;
use crate::fold::known::Known;
use crate::fold::left::Reading;
pub use crate::fold::together::{Open, PartRead, Selected};
pub use crate::fold::walk::PathIds;
use crate::id::{Id, Key};
use crate::log::LogName;
use crate::record::{At, Seen, SliceNumber};

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameAt {
    /// Its log.
    pub log: LogName,
    /// Where it begins.
    pub offset: u64,
    /// A later run has found that what it says is done does not count.
    pub voided_by: Option<u32>,
}

/// All logs of a job, those of earlier runs first. Each reading gets the same frames, also if a process writes to its log meanwhile.
pub trait Logs {
    /// Why they cannot be read.
    type Error;

    /// Calls `each` with each frame that counts and its sections, in order. It returns whether they are valid.
    ///
    /// # Errors
    /// A log cannot be read, or is not valid.
    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error>;

    /// Whether there are frames that a later run has voided.
    fn has_voids(&self) -> bool {
        false
    }

    /// Whether facts are left out. Then one that is left out may be all that says, when a directory is complete as far as was read, that facts about
    /// directories below it follow: it must stay in memory to the end.
    fn leave_out_facts(&self) -> bool {
        false
    }
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
    /// It was closed once, and what that came to counts. Something is left of it all the same: what another rank did in it is lost, or was done later.
    pub was_closed: bool,
}

/// How far a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Something of it is done.
    Begun,
    /// All of it is done.
    Done,
    /// It is closed as well, if the operation closes directories.
    Complete,
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
    /// What was seen of a directory of which something is done, and how far it is by the end of the logs. It comes at each DONE of the
    /// directory and of its slices, and the last counts: to hand over only that one, the fold would have to keep a number for each
    /// directory of the tree.
    Seen(At<'a>, Seen, Stage),
    /// What was seen of a directory when it was found or read, and how far it is by the end of the logs: `Begun` also if nothing of it is done. It may
    /// come several times, and the last counts.
    Marked(At<'a>, u32, Stage),
    /// Names that form a slice that is done, of a directory that is not. A slice may come several times.
    Names(At<'a>, &'a [&'a [u8]]),
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
        let reopened = Reopened::read(self, logs)?;
        let known = Known::read(self, &reopened, logs)?;
        Reading::new(&self.key, known, each).read(logs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Fact, Records};
    use crate::void::Void;

    /// Frames with one section each, of one run each.
    #[derive(Default)]
    struct Frames {
        frames: Vec<Vec<u8>>,
        /// Which of them a run has voided.
        void: Option<(usize, u32)>,
    }

    impl Frames {
        fn of(frames: Vec<Vec<u8>>) -> Self {
            Self { frames, void: None }
        }
    }

    impl Logs for Frames {
        type Error = std::convert::Infallible;

        fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
            for (number, frame) in self.frames.iter().enumerate() {
                let log = LogName { run: 1 + number as u32, rank: 0, part: 0 };
                let voided_by = self.void.filter(|(at, _)| *at == number).map(|(_, by)| by);
                assert!(each(FrameAt { log, offset: 0, voided_by }, frame), "valid frames");
            }
            Ok(())
        }

        fn has_voids(&self) -> bool {
            self.void.is_some()
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
            let runs = facts.iter().map(|fact| frame(std::slice::from_ref(fact))).collect();
            let expected = if is_complete { vec![] } else { vec![("d".to_owned(), true)] };
            let left =
                |mut frames| left_of(&mut frames, MEMORIES[1]).into_iter().filter(|left| left.0 == "d");
            assert_eq!(left(Frames::of(runs)).collect::<Vec<_>>(), expected, "{facts:?}");
            // Of one run, threads have noted them, and the closing came last.
            assert_eq!(left(Frames::of(vec![frame(&facts)])).count(), 0, "{facts:?}");
        }
    }

    #[test]
    fn late_chunk_brings_no_directory_back() {
        let done = || Fact::Done { slice: None, seen: None };
        let names: Vec<_> = (0..9).map(|number| format!("d{number}")).collect();
        let mut tree: Vec<_> =
            names.iter().map(|name| (&b""[..], Fact::Found { name: name.as_bytes(), mark: 0 })).collect();
        tree.push((b"", done()));
        tree.extend(names.iter().map(|name| (name.as_bytes(), done())));
        let chunk = Fact::Chunk { name: b"large", index: 1, value: b"" };
        let mut frames = Frames::of(vec![frame(&tree), frame(&[(b"d3", chunk)])]);
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

    /// Each directory that is left, and whether only its closing is.
    fn left_of(frames: &mut Frames, memory: usize) -> Vec<(String, bool)> {
        let fold = Fold { key: Key::of_job(&[2; 16]), closes: true, memory };
        let mut left = Vec::new();
        let folded = fold.run(frames, &mut |found| {
            if let Left::Directory(at, item) = found {
                left.push((String::from_utf8_lossy(at.path).into_owned(), item.is_done));
            }
        });
        assert!(folded.is_ok());
        left
    }

    /// Memory in which all is forgotten early, or nothing is.
    const MEMORIES: [usize; 2] = [1600, 1 << 20];

    #[test]
    fn directories_above_a_voided_one_are_closed_again() {
        let (done, closed) = (Fact::Done { slice: None, seen: None }, Fact::Closed);
        let whole = |path: &'static [u8]| [(path, done.clone()), (path, closed.clone())];
        let found = |path: &'static [u8], name: &'static [u8]| (path, Fact::Found { name, mark: 0 });
        let tree = [found(b"", b"a"), found(b"a", b"b"), found(b"", b"e"), found(b"", b"c")];
        let first = frame(&[&tree[..], &whole(b"e")].concat());
        // What this frame says is done is gone.
        let second = frame(&[&whole(b"a/b")[..], &whole(b"c")].concat());
        let third = frame(&[whole(b"a"), whole(b"")].concat());
        let again = frame(&[&whole(b"a/b")[..], &whole(b"c"), &[(b"a", closed.clone())]].concat());
        for memory in MEMORIES {
            let mut frames = Frames::of(vec![first.clone(), second.clone(), third.clone()]);
            assert_eq!(left_of(&mut frames, memory), []);
            frames.void = Some((1, 4));
            let expected = [("", true), ("a", true), ("a/b", false), ("c", false)]
                .map(|(path, is_done)| (path.to_owned(), is_done));
            let mut left = left_of(&mut frames, memory);
            left.sort();
            assert_eq!(left, expected);
            // The run that does it again closes them again.
            frames.frames.push(again.clone());
            assert_eq!(left_of(&mut frames, memory), [(String::new(), true)]);
        }
    }

    #[test]
    fn marks_come_with_what_is_done_of_their_directories() {
        let done = |path: &'static [u8]| (path, Fact::Done { slice: None, seen: None });
        let found = |path: &'static [u8], name: &'static [u8], mark| (path, Fact::Found { name, mark });
        let frames = [
            // A root has a mark of its own. Nothing was seen of `n`.
            frame(&[(b"", Fact::Marked { mark: 1 }), found(b"", b"a", 2), found(b"", b"n", 0), done(b"n")]),
            frame(&[
                found(b"a", b"b", 3),
                found(b"a", b"c", 4),
                found(b"a", b"d", 5),
                done(b"a"),
                done(b""),
                (b"n", Fact::Closed),
            ]),
            frame(&[done(b"a/b"), (b"a/b", Fact::Closed)]),
            // A later run has read them.
            frame(&[(b"a/d", Fact::Marked { mark: 6 }), done(b"a/d"), (b"a/c", Fact::Marked { mark: 7 })]),
        ];
        for (closes, memory) in [(true, MEMORIES[0]), (true, MEMORIES[1]), (false, MEMORIES[0])] {
            let fold = Fold { key: Key::of_job(&[2; 16]), closes, memory };
            let mut marks = Vec::new();
            let folded = fold.run(&mut Frames::of(frames.to_vec()), &mut |found| {
                if let Left::Marked(at, mark, stage) = found {
                    let path = String::from_utf8_lossy(at.path).into_owned();
                    marks.push((path, mark, stage != Stage::Begun));
                }
            });
            assert!(folded.is_ok());
            let expected = [
                ("", 1, true),
                ("a", 2, true),
                ("a/b", 3, true),
                ("a/c", 4, false),
                ("a/d", 5, true),
                ("a/d", 6, true),
                ("a/c", 7, false),
            ];
            let expected = expected.map(|(path, mark, is_done)| (path.to_owned(), mark, is_done));
            assert_eq!(marks, expected, "{closes} {memory}");
        }
    }

    #[test]
    fn what_a_taker_did_before_the_closing_counts() {
        let slice = SliceNumber { run: 1, rank: 0, number: 3 };
        let listed = (&b"d"[..], Fact::Listed { slice, names: vec![b"x"] });
        let done = |slice| (&b"d"[..], Fact::Done { slice, seen: None });
        let giver = frame(&[listed.clone(), done(None), (b"d", Fact::Closed)]);
        let taker = frame(&[listed, done(Some(slice))]);
        // The frames, and of `d`: whether only its closing is left, and whether it was closed.
        let of = |run, rank| LogName { run, rank, part: 0 };
        let cases = [
            (vec![(of(1, 0), &giver), (of(1, 1), &taker)], vec![]),
            // What the taker noted is lost.
            (vec![(of(1, 0), &giver)], vec![(false, true)]),
            // A later run has done it again.
            (vec![(of(1, 0), &giver), (of(2, 1), &taker)], vec![(true, true)]),
        ];
        for (frames, expected) in cases {
            for memory in [1, MEMORIES[1]] {
                let fold = Fold { key: Key::of_job(&[2; 16]), closes: true, memory };
                let (mut logs, mut left) = (Named(frames.clone()), Vec::new());
                let folded = fold.run(&mut logs, &mut |found| {
                    if let Left::Directory(at, item) = found
                        && at.path == b"d"
                    {
                        left.push((item.is_done, item.was_closed));
                    }
                });
                assert!(folded.is_ok());
                assert_eq!(left, expected, "{memory}: {frames:?}");
            }
        }
    }

    /// Frames of these logs.
    struct Named<'f>(Vec<(LogName, &'f Vec<u8>)>);

    impl Logs for Named<'_> {
        type Error = std::convert::Infallible;

        fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
            for (log, frame) in &self.0 {
                assert!(each(FrameAt { log: *log, offset: 0, voided_by: None }, frame), "valid frames");
            }
            Ok(())
        }
    }

    #[test]
    fn frames_of_lost_directories_are_found() {
        let done = |path: &'static [u8]| (path, Fact::Done { slice: None, seen: None });
        let slice = Some(SliceNumber { run: 1, rank: 0, number: 3 });
        let frames = [
            frame(&[done(b"a"), done(b"b")]),
            frame(&[(b"a", Fact::Found { name: b"c", mark: 0 }), done(b"a/c")]),
            frame(&[(b"b", Fact::Done { slice, seen: None })]),
            frame(&[(b"b", Fact::Closed)]),
        ];
        let key = Key::of_job(&[2; 16]);
        let void = |frames: &mut Frames, path: &[u8]| {
            let lost = std::iter::once(key.of_path(0, path)).collect();
            Void::of(&key, frames, &lost).map(|void| match void {
                Void::Frames(frames) => frames.into_iter().map(|(log, _)| log.run).collect(),
                Void::All => vec![],
            })
        };
        let mut frames = Frames::of(frames.to_vec());
        assert_eq!(void(&mut frames, b"b"), Ok(vec![1, 3, 4]));
        assert_eq!(void(&mut frames, b"a"), Ok(vec![1]));
        assert_eq!(void(&mut frames, b"a/c"), Ok(vec![2]));
        // It does not count already.
        frames.void = Some((0, 5));
        assert_eq!(void(&mut frames, b"a"), Ok(vec![]));
    }
}
