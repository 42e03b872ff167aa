//! Logs on a disk that fails, and on real file systems; all are read back with `atta-ledger`. No test depends on time.

mod disk;
mod journal;
mod real;
mod threads;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use atta_ledger::{Contents, Key, LogName, Record, Records, read, records, sections};

use super::{Facts, LogLimits};

pub(super) const NAME: LogName = LogName { run: 1, rank: 0, part: 0 };
pub(super) const NEXT: LogName = LogName { part: 1, ..NAME };
/// Longer than any test.
pub(super) const NEVER: Duration = Duration::from_secs(1 << 30);
/// Nothing is written or synced on its own.
pub(super) const ON_REQUEST: LogLimits =
    LogLimits { frame_every: NEVER, sync_every: NEVER, unsynced_bytes: 64 << 20 };

pub(super) fn key() -> Key {
    Key::of_job(&[4; 16])
}

/// A section with this number.
pub(super) fn section(number: u64) -> Vec<u8> {
    let mut section = Records::default();
    section.add(&Record::Results(&number.to_le_bytes()));
    section.take()
}

/// Numbers that threads note.
#[derive(Default)]
pub(super) struct Notes(Mutex<Vec<u64>>);

impl Notes {
    pub(super) fn add(&self, number: u64) {
        self.0.lock().unwrap().push(number);
    }
}

impl Facts for Notes {
    fn take(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().drain(..).map(section).collect()
    }
}

/// The numbers in all logs, and what counts of each log. A part that says how much of the part before counts is obeyed.
pub(super) fn read_all(logs: &BTreeMap<LogName, Vec<u8>>) -> (Vec<u64>, BTreeMap<LogName, Contents>) {
    let mut cuts = BTreeMap::new();
    for (name, bytes) in logs {
        each_record(*name, bytes, None, &mut |record| {
            if let Record::Cut { log, bytes } = record {
                cuts.insert(*log, *bytes);
            }
        });
    }
    let (mut numbers, mut contents) = (Vec::new(), BTreeMap::new());
    for (name, bytes) in logs {
        let found = each_record(*name, bytes, cuts.get(name).copied(), &mut |record| {
            if let Record::Results(number) = record {
                numbers.push(u64::from_le_bytes((*number).try_into().unwrap()));
            }
        });
        contents.insert(*name, found);
    }
    (numbers, contents)
}

fn each_record(
    name: LogName,
    mut bytes: &[u8],
    until: Option<u64>,
    each: &mut dyn FnMut(&Record<'_>),
) -> Contents {
    read((&key(), name), &mut bytes, until, &mut |_, frame| {
        sections(frame, &mut |section| records(section, each))
    })
    .unwrap()
}
