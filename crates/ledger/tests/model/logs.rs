//! Logs in memory: written frame by frame, cut by a kill or a power cut, and read again.

use std::collections::BTreeMap;

use atta_ledger::{Broken, Frame, JobLogs, Key, LogName, Logs, Record, Refused, frame, read};
use atta_testkit::random::Random;

#[derive(Debug, Default)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    frames: u64,
    /// So many bytes are on storage.
    synced: u64,
}

/// A frame that a stopped process goes on to write, when it likes.
pub(crate) struct Late {
    log: LogName,
    rest: Vec<u8>,
}

impl Log {
    pub(crate) fn write(&mut self, key: &Key, name: LogName, sections: &[Vec<u8>]) {
        let frame = self.frame(key, name, sections);
        self.bytes.extend(frame);
        self.frames += 1;
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
    /// Writes some of it, or all.
    pub(crate) fn write(&mut self, random: &mut Random, logs: &mut BTreeMap<LogName, Log>) {
        let count = match random.below(4) {
            0 | 1 => 0,
            2 => random.index(self.rest.len() + 1),
            _ => self.rest.len(),
        };
        log_of(logs, self.log).bytes.extend(self.rest.drain(..count));
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

    fn each(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Self::Error> {
        let mut names: Vec<_> = self.logs.keys().copied().collect();
        if self.is_backward {
            names.reverse();
        }
        let until = |name: LogName| {
            self.cuts?.iter().find_map(|cut| match cut {
                Record::Cut { run, rank, bytes } if (*run, *rank) == (name.run, name.rank) => Some(*bytes),
                _ => None,
            })
        };
        for name in names {
            read((self.key, name), &mut self.logs[&name].bytes.as_slice(), until(name), each)?;
        }
        Ok(())
    }
}
