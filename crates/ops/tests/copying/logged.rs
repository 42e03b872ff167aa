//! What tests of copies with a log share.

use std::fmt::Debug;

use atta_ledger::Logs;
use atta_ops::copy::{Copy, CopyLog, Found, Results};
use atta_ops::walk::{FromLog, Journal};
use atta_runtime::Results as _;

/// A log whose test takes what was noted at times of its own.
pub(crate) struct InMemory;

impl CopyLog for InMemory {
    fn write(&self) {}

    fn is_kept(&self) -> bool {
        true
    }
}

/// Takes over what the logs of earlier runs say. Returns what these came to, and what is found of what they have done.
pub(crate) fn take_over<L: Logs<Error: Debug>>(
    journal: &mut Journal<Results>,
    logs: &mut L,
    memory: usize,
    copy: &Copy<'_>,
) -> (Results, Found) {
    let (mut sum, mut finished) = (Results::default(), copy.finished());
    let resumed = journal.resume(logs, memory, &mut |found| match found {
        FromLog::Results(share) => sum.add(&share),
        FromLog::Seen(at, seen, stage) => finished.add(at, seen, stage),
        FromLog::Names(at, names) => finished.add_names(at, names),
        FromLog::Part(_) | FromLog::Marked(..) => {}
    });
    resumed.unwrap();
    (sum, finished.end())
}
