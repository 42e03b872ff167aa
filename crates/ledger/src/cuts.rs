//! The logs of a job: how much of each counts. No I/O of its own.
//!
//! A run begins by reading the logs of earlier runs. What it finds counts. What one of their processes writes later does not: this run does
//! it again. So the first frame of a run says how much counts of each older log (CUT), and it is on storage before the run does anything else,
//! on any rank. It stands in the log of rank 0.
//!
//! A run that has no frame has done nothing. So of the newest run with a frame all counts, and its first frame says the rest: it knows the
//! cuts of the runs before. An older log without a CUT was made later, and nothing of it counts.

use crate::fold::Logs;
use crate::frame::sections;
use crate::id::Key;
use crate::log::{Broken, Contents, LogBytes, LogName, read};
use crate::record::{Record, records};

/// The logs of a job, in the order of its runs, and what counts of them.
#[derive(Debug)]
pub struct JobLogs<'k, L> {
    key: &'k Key,
    logs: Vec<(LogName, L)>,
    /// Of each, the bytes that count.
    counted: Vec<u64>,
}

/// A log that is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<E> {
    /// The log.
    pub log: LogName,
    /// Why.
    pub why: Broken<E>,
}

impl<'k, L: LogBytes> JobLogs<'k, L> {
    /// Finds out what counts of the logs of a job, each given once. It reads those of the newest run, to their ends.
    ///
    /// # Errors
    /// A log is refused: one that is read, one that has no CUTs and needs them, or one of which something counts and that is not there.
    pub fn find(key: &'k Key, mut logs: Vec<(LogName, L)>) -> Result<Self, Refused<L::Error>> {
        logs.sort_by_key(|(name, _)| *name);
        let mut found = Self { key, counted: vec![0; logs.len()], logs };
        let mut until = found.logs.len();
        while until > 0 {
            let run = found.logs[until - 1].0.run;
            let from = found.logs.partition_point(|(name, _)| name.run < run);
            if found.read_run(from, until)? {
                break;
            }
            until = from;
        }
        Ok(found)
    }

    /// The records that the first frame of the next run has.
    pub fn cuts(&self) -> impl Iterator<Item = Record<'static>> + '_ {
        let counted = self.logs.iter().zip(&self.counted);
        counted.map(|((name, _), bytes)| Record::Cut { run: name.run, rank: name.rank, bytes: *bytes })
    }

    /// Reads the logs of a run to their ends. Returns whether there is a frame; the first one says what counts of older logs.
    fn read_run(&mut self, from: usize, until: usize) -> Result<bool, Refused<L::Error>> {
        let (older, newer) = self.logs.split_at_mut(from);
        let (cut, counted) = self.counted.split_at_mut(from);
        let mut is_begun = false;
        for ((name, log), counted) in newer[..until - from].iter_mut().zip(counted) {
            let mut cuts = (!is_begun).then(|| Cuts::new(older));
            let mut is_valid = |frame: &[u8]| match &mut cuts {
                Some(cuts) => cuts.is_valid(frame),
                None => true,
            };
            let contents = read((self.key, *name), log, None, &mut is_valid);
            let Contents { bytes, frames, .. } = contents.map_err(|why| Refused { log: *name, why })?;
            *counted = bytes;
            if let Some(cuts) = cuts.filter(|_| frames > 0) {
                is_begun = true;
                cuts.end(cut)?;
            }
        }
        Ok(is_begun)
    }
}

impl<L: LogBytes> Logs for JobLogs<'_, L> {
    type Error = Refused<L::Error>;

    fn each(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Self::Error> {
        for ((name, log), counted) in self.logs.iter_mut().zip(&self.counted) {
            read((self.key, *name), log, Some(*counted), each).map_err(|why| Refused { log: *name, why })?;
        }
        Ok(())
    }
}

/// What the first frame of a run says of older logs.
struct Cuts<'a, L> {
    older: &'a [(LogName, L)],
    found: Vec<Option<u64>>,
    /// A log of which something counts, and that is not there.
    missing: Option<LogName>,
    is_read: bool,
}

impl<'a, L> Cuts<'a, L> {
    fn new(older: &'a [(LogName, L)]) -> Self {
        Self { older, found: vec![None; older.len()], missing: None, is_read: false }
    }

    /// Reads the first frame. Each log may be cut once, and one is, if there are older logs.
    fn is_valid(&mut self, frame: &[u8]) -> bool {
        if std::mem::replace(&mut self.is_read, true) {
            return true;
        }
        let (mut is_cut, mut is_valid) = (self.older.is_empty(), true);
        let is_whole = sections(frame, &mut |section| {
            records(section, &mut |record| {
                if let Record::Cut { run, rank, bytes } = record {
                    is_cut = true;
                    is_valid &= self.cut(LogName { run: *run, rank: *rank }, *bytes);
                }
            })
        });
        is_whole && is_cut && is_valid
    }

    fn cut(&mut self, log: LogName, bytes: u64) -> bool {
        match self.older.binary_search_by_key(&log, |(name, _)| *name) {
            Ok(at) => self.found[at].replace(bytes).is_none(),
            Err(_) => {
                self.missing = self.missing.or(Some(log).filter(|_| bytes > 0));
                true
            }
        }
    }

    fn end<E>(self, counted: &mut [u64]) -> Result<(), Refused<E>> {
        if let Some(log) = self.missing {
            return Err(Refused { log, why: Broken::Damaged { offset: 0 } });
        }
        counted.iter_mut().zip(self.found).for_each(|(counted, cut)| *counted = cut.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, frame};
    use crate::record::Records;

    fn name(run: u32, rank: u32) -> LogName {
        LogName { run, rank }
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
        found.each(&mut |_| true)?;
        Ok(found.counted)
    }

    fn cut(run: u32, rank: u32, bytes: usize) -> Record<'static> {
        Record::Cut { run, rank, bytes: bytes as u64 }
    }

    const DATA: &[Record<'_>] = &[Record::Part(b"part")];

    #[test]
    fn newest_run_with_a_frame_says_what_counts() {
        let key = Key::of_job(&[4; 16]);
        let first = log(&key, name(1, 0), &[DATA, DATA]);
        let late = log(&key, name(1, 1), &[DATA]);
        let half = first.1.len() / 2;
        // Run 2 found a part of the first log, and the second one was not there. Run 3 stopped before its first frame.
        let second = log(&key, name(2, 0), &[&[cut(1, 0, half)], DATA]);
        let logs = [first.clone(), late, second.clone(), log(&key, name(3, 0), &[])];
        assert_eq!(counted(&key, &logs), Ok(vec![half as u64, 0, second.1.len() as u64, 0]));
        assert_eq!(counted(&key, &logs[..1]), Ok(vec![first.1.len() as u64]));
        // Run 4 found no frame of run 2.
        let fourth = log(&key, name(4, 0), &[&[cut(1, 0, 2 * half), cut(2, 0, 0)]]);
        let logs = [first, second, fourth.clone()];
        assert_eq!(counted(&key, &logs), Ok(vec![2 * half as u64, 0, fourth.1.len() as u64]));
        assert_eq!(counted(&key, &[]), Ok(vec![]));
    }

    #[test]
    fn refused_logs_are_named() {
        let key = Key::of_job(&[4; 16]);
        let first = log(&key, name(1, 0), &[DATA, DATA]);
        let half = first.1.len() / 2;
        let refused = |records: &[Record<'_>]| {
            counted(&key, &[first.clone(), log(&key, name(2, 3), &[records])]).unwrap_err()
        };
        let invalid = Refused { log: name(2, 3), why: Broken::Invalid { offset: 0 } };
        assert_eq!(refused(DATA), invalid);
        assert_eq!(refused(&[cut(1, 0, half), cut(1, 0, half)]), invalid);
        let damaged = |log, offset| Refused { log, why: Broken::Damaged { offset } };
        assert_eq!(refused(&[cut(1, 0, half), cut(1, 1, 8)]), damaged(name(1, 1), 0));
        // It ends elsewhere.
        assert_eq!(refused(&[cut(1, 0, half + 8)]), damaged(name(1, 0), 2 * half as u64));
        assert_eq!(refused(&[cut(1, 0, 3 * half)]), damaged(name(1, 0), 2 * half as u64));
    }
}
