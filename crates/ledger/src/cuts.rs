//! The logs of a job: how much of each counts. No I/O of its own.
//!
//! A run begins by reading the logs of earlier runs. What it finds counts. What one of their processes writes later does not: this run does
//! it again. So the first frame of a run says how much counts of each older log (CUT). It stands in the log of rank 0, and is on storage
//! before another rank does anything.
//!
//! A run that has no frame has done nothing. So of the newest run with a frame all counts, and its first frame says the rest: it knows the
//! cuts of the runs before. An older log without a CUT was made later, and nothing of it counts.
//!
//! A log of the newest run may have several parts. The first frame of a part has the CUT of the part before. A frame that does not count in
//! that part is written again in the new one. So if nothing of part 0 counts, its CUT stands beside those of the older logs:
//!
//! ```text
//!   2.0   CUT 1.0 ████▒▒▒▒▒✗       2.0.1   CUT 2.0 ▒▒▒▒▒ ▓▓▓            the first frame of 2.0 counts
//!
//!   2.0   ▒▒▒▒▒▒▒✗                 2.0.1   CUT 2.0: 0, CUT 1.0 ▒▒▒ ▓▓▓  nothing of 2.0 counts
//! ```
//!
//! The first frame also names the frames of older logs of which nothing is done any more (`void.rs`).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::fold::{FrameAt, Logs};
use crate::frame::sections;
use crate::id::Key;
use crate::log::{Broken, LogBytes, LogName, read};
use crate::record::{Record, records};
use crate::void::{Void, Voids};

/// The logs of a job, in the order of its runs, and what counts of them.
#[derive(Debug)]
pub struct JobLogs<'k, L> {
    key: &'k Key,
    logs: Vec<(LogName, L)>,
    /// Of each, the bytes that count.
    counted: Vec<u64>,
    voids: Voids,
}

/// A log that is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<E> {
    /// The log.
    pub log: LogName,
    /// Why.
    pub why: Broken<E>,
}

impl<E> Refused<E> {
    /// Its first frame has other CUTs than it must have.
    pub(crate) fn invalid(log: LogName) -> Self {
        Self { log, why: Broken::Invalid { offset: 0 } }
    }

    /// Something of it counts, and it is not there.
    fn missing(log: LogName) -> Self {
        Self { log, why: Broken::Damaged { offset: 0 } }
    }
}

/// What a frame says of other logs.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// The bytes that count of each.
    pub(crate) bytes: BTreeMap<LogName, u64>,
    pub(crate) voids: Voids,
}

impl Cuts {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.voids.is_empty()
    }
}

impl<'k, L: LogBytes> JobLogs<'k, L> {
    /// Finds out what counts of the logs of a job, each given once. It reads those of the newest run, to their ends.
    ///
    /// # Errors
    /// A log is refused: one that is read, one that has other CUTs than it must have, or one of which something counts and that is not there.
    pub fn find(key: &'k Key, mut logs: Vec<(LogName, L)>) -> Result<Self, Refused<L::Error>> {
        logs.sort_by_key(|(name, _)| *name);
        let mut found = Self { key, counted: vec![0; logs.len()], logs, voids: Voids::default() };
        let mut until = found.logs.len();
        while until > 0 {
            let run = found.logs[until - 1].0.run;
            let from = found.logs.partition_point(|(name, _)| name.run < run);
            if found.read_run(from..until)? {
                break;
            }
            until = from;
        }
        Ok(found)
    }

    /// The records that the first frame of the next run has.
    pub fn cuts(&self) -> impl Iterator<Item = Record<'static>> + '_ {
        let counted = self.logs.iter().zip(&self.counted);
        let cuts = counted.map(|((name, _), bytes)| Record::Cut { log: *name, bytes: *bytes });
        cuts.chain(self.voids.records())
    }

    /// What these frames say is done no longer counts: the run `by` does it again, which is newer than all logs.
    pub fn void(&mut self, by: u32, void: Void) {
        match void {
            Void::Frames(frames) => frames.into_iter().for_each(|frame| self.voids.add(frame, by)),
            Void::All => {
                self.counted.fill(0);
                self.voids = Voids::default();
            }
        }
    }

    /// Reads the logs of a run. Returns whether there is a frame; the first one says what counts of older logs.
    fn read_run(&mut self, run: Range<usize>) -> Result<bool, Refused<L::Error>> {
        let (mut is_begun, mut from) = (false, run.start);
        while from < run.end {
            let rank = self.logs[from].0.rank;
            let parts = self.logs[from..run.end].partition_point(|(name, _)| name.rank == rank);
            match self.read_parts(from..from + parts)? {
                Some((name, cuts)) if is_begun && !cuts.is_empty() => return Err(Refused::invalid(name)),
                Some((name, cuts)) if !is_begun => {
                    self.cut_older(run.start, name, cuts)?;
                    is_begun = true;
                }
                _ => {}
            }
            from += parts;
        }
        Ok(is_begun)
    }

    /// Reads the parts of a log, the last one first: a process that goes on in a new part meanwhile does no harm. Returns the cuts of older
    /// runs in its first frame that counts, and the part that has this frame. None: there is no frame.
    fn read_parts(&mut self, parts: Range<usize>) -> Result<Option<(LogName, Cuts)>, Refused<L::Error>> {
        for at in parts.rev() {
            if let Some(cuts) = self.read_log(at, None)? {
                return self.read_before(self.logs[at].0, cuts).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads what counts of the parts before one, of which the first frame has these cuts. Returns as [`read_parts`](Self::read_parts).
    fn read_before(
        &mut self,
        mut name: LogName,
        mut cuts: Cuts,
    ) -> Result<(LogName, Cuts), Refused<L::Error>> {
        for part in (0..name.part).rev() {
            let before = LogName { part, ..name };
            let bytes = cuts.bytes.remove(&before).ok_or(Refused::invalid(name))?;
            // The frames of a part of which nothing counts are in this one.
            if bytes == 0 {
                continue;
            }
            if !cuts.is_empty() {
                return Err(Refused::invalid(name));
            }
            let at = self.position(before).ok_or(Refused::missing(before))?;
            cuts = self.read_log(at, Some(bytes))?.unwrap_or_default();
            name = before;
        }
        Ok((name, cuts))
    }

    /// Reads a log, to its end or until there. Returns the cuts in its first frame, if there is one.
    fn read_log(&mut self, at: usize, until: Option<u64>) -> Result<Option<Cuts>, Refused<L::Error>> {
        let (name, log) = &mut self.logs[at];
        let mut cuts = None;
        let contents = read((self.key, *name), log, until, &mut |_, frame| {
            if cuts.is_none() {
                cuts = cuts_of(frame);
            }
            cuts.is_some()
        });
        self.counted[at] = contents.map_err(|why| Refused { log: *name, why })?.bytes;
        Ok(cuts)
    }

    /// Takes over what the first frame of a run says of older logs, which are those before a position. It says something if there are any.
    fn cut_older(&mut self, older: usize, first: LogName, cuts: Cuts) -> Result<(), Refused<L::Error>> {
        let Cuts { bytes, voids } = cuts;
        let are_older = bytes.keys().all(|log| log.run < first.run) && voids.are_older_than(first.run);
        if !are_older || older > 0 && bytes.is_empty() {
            return Err(Refused::invalid(first));
        }
        self.voids = voids;
        for (log, bytes) in bytes {
            match self.position(log) {
                Some(at) => self.counted[at] = bytes,
                None if bytes == 0 => {}
                None => return Err(Refused::missing(log)),
            }
        }
        Ok(())
    }

    fn position(&self, log: LogName) -> Option<usize> {
        self.logs.binary_search_by_key(&log, |(name, _)| *name).ok()
    }
}

/// The cuts in a frame. None: it is not valid, or names a log twice.
pub(crate) fn cuts_of(frame: &[u8]) -> Option<Cuts> {
    let (mut cuts, mut is_once) = (Cuts::default(), true);
    let is_valid = sections(frame, &mut |section| {
        records(section, &mut |record| match record {
            Record::Cut { log, bytes } => is_once &= cuts.bytes.insert(*log, *bytes).is_none(),
            Record::Void { log, offset, by } => cuts.voids.add((*log, *offset), *by),
            _ => {}
        })
    });
    (is_valid && is_once).then_some(cuts)
}

impl<L: LogBytes> Logs for JobLogs<'_, L> {
    type Error = Refused<L::Error>;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
        for ((name, log), counted) in self.logs.iter_mut().zip(&self.counted) {
            let with_place = &mut |offset, frame: &[u8]| {
                let voided_by = self.voids.by((*name, offset));
                each(FrameAt { log: *name, offset, voided_by }, frame)
            };
            let read = read((self.key, *name), log, Some(*counted), with_place);
            read.map_err(|why| Refused { log: *name, why })?;
        }
        Ok(())
    }

    fn has_voids(&self) -> bool {
        !self.voids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, frame};
    use crate::record::Records;

    fn name(run: u32, rank: u32) -> LogName {
        LogName { run, rank, part: 0 }
    }

    fn part(run: u32, rank: u32, part: u32) -> LogName {
        LogName { run, rank, part }
    }

    /// A log with a frame for each list of records.
    fn log(key: &Key, name: LogName, frames: &[&[Record<'_>]]) -> (LogName, Vec<u8>) {
        let mut log = Vec::new();
        for (sequence, records) in frames.iter().enumerate() {
            let mut section = Records::default();
            records.iter().for_each(|record| section.add(record));
            let head = Frame { offset: log.len() as u64, sequence: sequence as u64, synced: 0 };
            log.extend(frame(key, name, head, &[section.take()]).unwrap());
        }
        (name, log)
    }

    type Found = Result<Vec<u64>, Refused<std::convert::Infallible>>;

    fn counted(key: &Key, logs: &[(LogName, Vec<u8>)]) -> Found {
        let logs = logs.iter().rev().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let mut found = JobLogs::find(key, logs)?;
        found.each(&mut |_, _| true)?;
        Ok(found.counted)
    }

    fn cut(log: LogName, bytes: usize) -> Record<'static> {
        Record::Cut { log, bytes: bytes as u64 }
    }

    const DATA: &[Record<'_>] = &[Record::Part(b"part")];

    #[test]
    fn newest_run_with_a_frame_says_what_counts() {
        let key = Key::of_job(&[4; 16]);
        let first = log(&key, name(1, 0), &[DATA, DATA]);
        let late = log(&key, name(1, 1), &[DATA]);
        let half = first.1.len() / 2;
        // Run 2 found a part of the first log, and the second one was not there. Run 3 stopped before its first frame.
        let second = log(&key, name(2, 0), &[&[cut(name(1, 0), half)], DATA]);
        let logs = [first.clone(), late, second.clone(), log(&key, name(3, 0), &[])];
        assert_eq!(counted(&key, &logs), Ok(vec![half as u64, 0, second.1.len() as u64, 0]));
        assert_eq!(counted(&key, &logs[..1]), Ok(vec![first.1.len() as u64]));
        // Run 4 found no frame of run 2.
        let fourth = log(&key, name(4, 0), &[&[cut(name(1, 0), 2 * half), cut(name(2, 0), 0)]]);
        let logs = [first, second, fourth.clone()];
        assert_eq!(counted(&key, &logs), Ok(vec![2 * half as u64, 0, fourth.1.len() as u64]));
        assert_eq!(counted(&key, &[]), Ok(vec![]));
    }

    #[test]
    fn refused_logs_are_named() {
        let key = Key::of_job(&[4; 16]);
        let first = log(&key, name(1, 0), &[DATA, DATA]);
        let half = first.1.len() / 2;
        let of_first = |bytes| cut(name(1, 0), bytes);
        let refused = |records: &[Record<'_>]| {
            counted(&key, &[first.clone(), log(&key, name(2, 3), &[records])]).unwrap_err()
        };
        let invalid = Refused::invalid(name(2, 3));
        assert_eq!(refused(DATA), invalid);
        assert_eq!(refused(&[of_first(half), of_first(half)]), invalid);
        // Neither older nor a part before.
        for other in [name(2, 3), name(2, 0), part(2, 3, 1), name(3, 0)] {
            assert_eq!(refused(&[of_first(half), cut(other, 0)]), invalid);
        }
        let damaged = |log, offset| Refused { log, why: Broken::Damaged { offset } };
        assert_eq!(refused(&[of_first(half), cut(name(1, 1), 8)]), damaged(name(1, 1), 0));
        // It ends elsewhere.
        assert_eq!(refused(&[of_first(half + 8)]), damaged(name(1, 0), 2 * half as u64));
        assert_eq!(refused(&[of_first(3 * half)]), damaged(name(1, 0), 2 * half as u64));
        // Only rank 0 says what counts of older logs.
        let ranks = [name(2, 0), name(2, 1)].map(|name| log(&key, name, &[&[of_first(half)]]));
        assert_eq!(
            counted(&key, &[std::slice::from_ref(&first), &ranks[..]].concat()),
            Err(Refused::invalid(name(2, 1)))
        );
    }

    #[test]
    fn what_a_run_voids_is_said_by_each_later_one() {
        let key = Key::of_job(&[4; 16]);
        let first = log(&key, name(1, 0), &[DATA, DATA]);
        let half = first.1.len() / 2;
        let find = |logs: &[(LogName, Vec<u8>)]| -> Result<(Vec<_>, Vec<Record<'static>>), Refused<_>> {
            let logs = logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
            let mut found: JobLogs<'_, &[u8]> = JobLogs::find(&key, logs)?;
            let mut voids = Vec::new();
            found.each(&mut |at, _| {
                voids.push((at.log.run, at.offset as usize, at.voided_by));
                true
            })?;
            Ok((voids, found.cuts().collect()))
        };
        let void = |log, offset, by| Record::Void { log, offset: offset as u64, by };
        let mut found = JobLogs::find(&key, vec![(first.0, first.1.as_slice())]).unwrap();
        found.void(2, Void::Frames(vec![(name(1, 0), half as u64)]));
        let cuts: Vec<_> = found.cuts().collect();
        assert_eq!(cuts, [cut(name(1, 0), 2 * half), void(name(1, 0), half, 2)]);
        let second = log(&key, name(2, 0), &[&cuts]);
        let (voids, cuts) = find(&[first.clone(), second.clone()]).unwrap();
        assert_eq!(voids, [(1, 0, None), (1, half, Some(2)), (2, 0, None)]);
        assert_eq!(cuts.last(), Some(&void(name(1, 0), half, 2)), "{cuts:?}");
        // All of both logs: nothing of them counts.
        let mut found =
            JobLogs::find(&key, vec![(first.0, first.1.as_slice()), (second.0, second.1.as_slice())])
                .unwrap();
        found.void(3, Void::All);
        let cuts: Vec<_> = found.cuts().collect();
        assert_eq!(cuts, [cut(name(1, 0), 0), cut(name(2, 0), 0)]);
        let third = log(&key, name(3, 0), &[&cuts]);
        let (voids, _) = find(&[first.clone(), second, third]).unwrap();
        assert_eq!(voids, [(3, 0, None)]);
        // A run voids nothing of its own, and nothing for a later run.
        for bad in [void(name(2, 0), 0, 2), void(name(1, 0), 0, 3), void(name(1, 0), 0, 1)] {
            let second = log(&key, name(2, 0), &[&[cut(name(1, 0), half), bad]]);
            assert_eq!(find(&[first.clone(), second]).unwrap_err(), Refused::invalid(name(2, 0)));
        }
    }

    #[test]
    fn next_part_says_what_counts_of_the_part_before() {
        let key = Key::of_job(&[4; 16]);
        let older = log(&key, name(1, 0), &[DATA]);
        let size = older.1.len();
        let first = log(&key, name(2, 0), &[&[cut(name(1, 0), size)], DATA, DATA]);
        let synced = log(&key, name(2, 0), &[&[cut(name(1, 0), size)], DATA]).1.len();
        let next = log(&key, part(2, 0, 1), &[&[cut(name(2, 0), synced)], DATA]);
        let other = log(&key, name(2, 1), &[DATA]);
        let sizes = |logs: &[usize]| Ok(logs.iter().map(|size| *size as u64).collect());
        let logs = [older.clone(), first.clone(), next.clone(), other.clone()];
        assert_eq!(counted(&key, &logs), sizes(&[size, synced, next.1.len(), other.1.len()]));
        // The new part stopped before its first frame.
        let logs = [older.clone(), first.clone(), log(&key, part(2, 0, 1), &[])];
        assert_eq!(counted(&key, &logs), sizes(&[size, first.1.len(), 0]));
        // The next run says it of each part.
        let cuts = [cut(name(1, 0), size), cut(name(2, 0), synced), cut(part(2, 0, 1), next.1.len())];
        let third = log(&key, name(3, 0), &[&cuts]);
        let logs = [older.clone(), first.clone(), next.clone(), third.clone()];
        assert_eq!(counted(&key, &logs), sizes(&[size, synced, next.1.len(), third.1.len()]));
        let names = logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let of_third = cut(name(3, 0), third.1.len());
        let found = JobLogs::find(&key, names).unwrap();
        assert!(found.cuts().eq(cuts.into_iter().chain([of_third])));
    }

    #[test]
    fn part_with_nothing_on_storage_hands_on_its_cuts() {
        let key = Key::of_job(&[4; 16]);
        let older = log(&key, name(1, 0), &[DATA, DATA]);
        let half = older.1.len() / 2;
        let of_older = cut(name(1, 0), half);
        let lost = log(&key, name(2, 0), &[std::slice::from_ref(&of_older), DATA]);
        let next = log(&key, part(2, 0, 1), &[&[cut(name(2, 0), 0), of_older.clone()], DATA]);
        let sizes = vec![half as u64, 0, next.1.len() as u64];
        assert_eq!(counted(&key, &[older.clone(), lost.clone(), next.clone()]), Ok(sizes));
        let last =
            log(&key, part(2, 0, 2), &[&[cut(part(2, 0, 1), 0), cut(name(2, 0), 0), of_older.clone()]]);
        let sizes = vec![half as u64, 0, 0, last.1.len() as u64];
        assert_eq!(counted(&key, &[older.clone(), lost.clone(), next, last]), Ok(sizes));
        // Without those of older runs.
        let bad = log(&key, part(2, 0, 1), &[&[cut(name(2, 0), 0)]]);
        assert_eq!(counted(&key, &[older, lost, bad]), Err(Refused::invalid(part(2, 0, 1))));
    }

    #[test]
    fn part_without_the_cut_it_needs_is_refused() {
        let key = Key::of_job(&[4; 16]);
        let older = log(&key, name(1, 0), &[DATA]);
        let of_older = cut(name(1, 0), older.1.len());
        let first = log(&key, name(2, 0), &[std::slice::from_ref(&of_older), DATA]);
        let size = first.1.len();
        let refused = |cuts: &[Record<'_>]| {
            let next = log(&key, part(2, 0, 1), &[cuts]);
            counted(&key, &[older.clone(), first.clone(), next]).unwrap_err()
        };
        let invalid = Refused::invalid(part(2, 0, 1));
        assert_eq!(refused(DATA), invalid);
        assert_eq!(refused(std::slice::from_ref(&of_older)), invalid);
        // The first frame of part 0 counts, and says this.
        assert_eq!(refused(&[cut(name(2, 0), size), of_older.clone()]), invalid);
        let ends_elsewhere = Refused { log: name(2, 0), why: Broken::Damaged { offset: size as u64 } };
        assert_eq!(refused(&[cut(name(2, 0), size + 8)]), ends_elsewhere);
        // Part 0 is not there.
        let next = log(&key, part(2, 0, 1), &[&[cut(name(2, 0), size)]]);
        assert_eq!(counted(&key, &[older, next]), Err(Refused::missing(name(2, 0))));
    }
}
