//! Logs in memory, for tests of jobs that are resumed.

use atta_ledger::{Frame, Key, LogName, frame};
use atta_runtime::Facts;

/// A log in memory.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) bytes: Vec<u8>,
    frames: u64,
}

impl Log {
    /// Writes a frame with what was noted, if there is anything.
    pub(crate) fn write(&mut self, key: &Key, name: LogName, facts: &dyn Facts) {
        let sections = facts.take();
        if !sections.is_empty() {
            let head = Frame { offset: self.bytes.len() as u64, sequence: self.frames, synced: 0 };
            self.bytes.extend(frame(key, name, head, &sections).unwrap());
            self.frames += 1;
        }
    }
}

/// A number that looks random.
pub(crate) fn mix(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}
