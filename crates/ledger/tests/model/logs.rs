//! Logs in memory: written frame by frame, cut by a kill or a power cut, and read again.

use std::collections::BTreeMap;

use atta_ledger::{
    Broken, Frame, FrameAt, JobLogs, Key, LogName, Logs, Record, Records, Refused, frame, read,
};
use atta_testkit::random::Random;

#[derive(Debug, Default)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    frames: u64,
    /// So many bytes are on storage.
    synced: u64,
    /// The frames behind them.
    unsynced: Vec<Vec<Vec<u8>>>,
}

/// What a stopped process goes on to write, when it likes: a frame, or the next part.
pub(crate) struct Late {
    log: LogName,
    rest: Vec<u8>,
}

impl Log {
    pub(crate) fn write(&mut self, key: &Key, name: LogName, sections: &[Vec<u8>]) {
        let frame = self.frame(key, name, sections);
        self.bytes.extend(frame);
        self.frames += 1;
        self.unsynced.push(sections.to_vec());
    }

    /// The next part, after a write or a sync has failed. Its first frame says that so much of this one counts as is on storage; `says_all`:
    /// it says that all counts.
    pub(crate) fn next_part(&mut self, key: &Key, name: LogName, says_all: bool) -> (LogName, Self) {
        let next = LogName { part: name.part + 1, ..name };
        let (mut log, mut cut) = (Self::default(), Records::default());
        let bytes = if says_all { self.bytes.len() as u64 } else { self.synced };
        cut.add(&Record::Cut { log: name, bytes });
        let mut cut = Some(cut.take());
        for mut sections in std::mem::take(&mut self.unsynced) {
            sections.splice(0..0, cut.take());
            log.write(key, next, &sections);
        }
        (next, log)
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    fn frame(&self, key: &Key, name: LogName, sections: &[Vec<u8>]) -> Vec<u8> {
        let head = Frame { offset: self.bytes.len() as u64, sequence: self.frames, synced: self.synced };
        frame(key, name, head, sections).expect("a small frame")
    }

    pub(crate) fn write_later(&self, key: &Key, name: LogName, sections: &[Vec<u8>]) -> Late {
        Late { log: name, rest: self.frame(key, name, sections) }
    }

    pub(crate) fn sync(&mut self) {
        self.synced = self.bytes.len() as u64;
        self.unsynced.clear();
    }

    /// The machine is gone: what is not on storage may be lost, from any byte on, or in the middle.
    pub(crate) fn lose(&mut self, random: &mut Random) {
        let rest = self.bytes.len() as u64 - self.synced;
        match random.below(4) {
            0 => {}
            1 | 2 => self.bytes.truncate((self.synced + random.below(rest + 1)) as usize),
            _ => {
                let from = (self.synced + random.below(rest + 1)) as usize;
                let until = from + random.index(self.bytes.len() - from + 1);
                self.bytes[from..until].fill(0);
            }
        }
        // Space that was reserved.
        let reserved = self.bytes.len() + random.index(64);
        self.bytes.resize(reserved, 0);
    }
}

impl Late {
    /// The next part.
    pub(crate) fn part((name, log): (LogName, Log)) -> Self {
        Self { log: name, rest: log.bytes }
    }

    /// Writes some of it, or all.
    pub(crate) fn write(&mut self, random: &mut Random, logs: &mut BTreeMap<LogName, Log>) {
        let count = match random.below(4) {
            0 | 1 => 0,
            2 => random.index(self.rest.len() + 1),
            _ => self.rest.len(),
        };
        logs.entry(self.log).or_default().bytes.extend(self.rest.drain(..count));
    }
}

pub(crate) fn log_of(logs: &mut BTreeMap<LogName, Log>, name: LogName) -> &mut Log {
    logs.get_mut(&name).expect("a process has a log")
}

type Infallible = std::convert::Infallible;

/// What counts of all logs.
pub(crate) fn find<'a>(
    key: &'a Key,
    logs: &'a BTreeMap<LogName, Log>,
) -> Result<JobLogs<'a, &'a [u8]>, Refused<Infallible>> {
    JobLogs::find(key, logs.iter().map(|(name, log)| (*name, log.bytes.as_slice())).collect())
}

/// The logs of a job, read without a rule.
pub(crate) struct Unruly<'a> {
    pub(crate) key: &'a Key,
    pub(crate) logs: &'a BTreeMap<LogName, Log>,
    /// What counts; none: all.
    pub(crate) cuts: Option<&'a [Record<'static>]>,
    pub(crate) is_backward: bool,
}

impl Logs for Unruly<'_> {
    type Error = Broken<Infallible>;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
        let mut names: Vec<_> = self.logs.keys().copied().collect();
        if self.is_backward {
            names.reverse();
        }
        let until = |name: LogName| {
            self.cuts?.iter().find_map(|cut| match cut {
                Record::Cut { log, bytes } if *log == name => Some(*bytes),
                _ => None,
            })
        };
        for name in names {
            let each =
                &mut |offset, frame: &[u8]| each(FrameAt { log: name, offset, voided_by: None }, frame);
            read((self.key, name), &mut self.logs[&name].bytes.as_slice(), until(name), each)?;
        }
        Ok(())
    }
}
