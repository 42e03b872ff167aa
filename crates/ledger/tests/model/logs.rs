//! Logs in memory: written frame by frame, cut by a kill or a power cut, and read again.

use std::collections::BTreeMap;

use atta_ledger::{
    Broken, Contents, Frame, Key, LogName, Logs, Record, Records, frame, read, records, sections,
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
    /// So many bytes count, as a later run has found.
    pub(crate) cut: Option<u64>,
}

impl Log {
    pub(crate) fn write(&mut self, key: &Key, name: LogName, sections: &[Vec<u8>]) {
        let offset = self.bytes.len() as u64;
        let head = Frame { offset, sequence: self.frames, synced: self.synced };
        self.bytes.extend(frame(key, name, head, sections).expect("a small frame"));
        self.frames += 1;
        self.unsynced.push(sections.to_vec());
    }

    /// The next part, after a write or a sync has failed. `says_cut`: it says how much of this one counts.
    pub(crate) fn next_part(&mut self, key: &Key, name: LogName, says_cut: bool) -> (LogName, Self) {
        let next = LogName { part: name.part + 1, ..name };
        let (mut log, mut cut) = (Self::default(), Records::default());
        if says_cut {
            cut.add(&Record::Cut { log: name, bytes: self.synced });
        }
        for (index, mut sections) in std::mem::take(&mut self.unsynced).into_iter().enumerate() {
            if index == 0 {
                sections.push(cut.take());
            }
            log.write(key, next, &sections);
        }
        (next, log)
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    pub(crate) fn sync(&mut self) {
        self.synced = self.bytes.len() as u64;
        self.unsynced.clear();
    }

    /// The process is gone: what is not on storage may be lost, from any byte on, or in the middle.
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

    /// Overwrites what does not count, as a process does that was believed dead.
    pub(crate) fn write_late(&mut self, key: &Key, name: LogName, sections: &[Vec<u8>]) {
        let contents = self.contents(key, name);
        self.cut = Some(contents.bytes);
        self.frames = contents.frames;
        self.bytes.truncate(contents.bytes as usize);
        self.write(key, name, sections);
    }

    /// What counts.
    pub(crate) fn contents(&self, key: &Key, name: LogName) -> Contents {
        let mut bytes = self.bytes.as_slice();
        read((key, name), &mut bytes, self.cut, &mut |_| true).expect("a log that is only torn")
    }

    /// What it says of another log.
    fn cut_of(&self, key: &Key, name: LogName, other: LogName) -> Option<u64> {
        let mut cut = None;
        let mut each = |record: &Record<'_>| match record {
            Record::Cut { log, bytes } if *log == other => cut = Some(*bytes),
            _ => {}
        };
        let mut frame = |frame: &[u8]| sections(frame, &mut |section| records(section, &mut each));
        read((key, name), &mut self.bytes.as_slice(), self.cut, &mut frame).expect("a log that is only torn");
        cut
    }
}

/// Fixes what counts of each log, as a run does that begins.
pub(crate) fn cut_all(logs: &mut BTreeMap<LogName, Log>, key: &Key) {
    let names: Vec<_> = logs.keys().copied().collect();
    for name in names {
        let by_next = cut_by_next(logs, key, name);
        let log = log_of(logs, name);
        log.cut = log.cut.or(by_next);
        log.cut = Some(log.contents(key, name).bytes);
    }
}

/// What the next part says of a log.
fn cut_by_next(logs: &BTreeMap<LogName, Log>, key: &Key, name: LogName) -> Option<u64> {
    let next = LogName { part: name.part + 1, ..name };
    logs.get(&next)?.cut_of(key, next, name)
}

pub(crate) fn log_of(logs: &mut BTreeMap<LogName, Log>, name: LogName) -> &mut Log {
    logs.get_mut(&name).expect("a process has a log")
}

/// The logs of a job, in the order in which they are read.
pub(crate) struct All<'a> {
    pub(crate) key: &'a Key,
    pub(crate) logs: &'a BTreeMap<LogName, Log>,
    pub(crate) ignores_cuts: bool,
    pub(crate) is_backward: bool,
}

impl Logs for All<'_> {
    type Error = Broken<std::convert::Infallible>;

    fn each(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Self::Error> {
        let mut names: Vec<_> = self.logs.keys().copied().collect();
        if self.is_backward {
            names.reverse();
        }
        for name in names {
            let log = &self.logs[&name];
            let until = log.cut.filter(|_| !self.ignores_cuts);
            let until = until.or_else(|| cut_by_next(self.logs, self.key, name));
            read((self.key, name), &mut log.bytes.as_slice(), until, each)?;
        }
        Ok(())
    }
}
