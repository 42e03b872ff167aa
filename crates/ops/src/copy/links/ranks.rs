//! Files with several names that this rank is copying, and the ranks that wait for them. A rank that meets a name whose file another rank
//! copies asks that rank, by a task, and gets a task when the copy is complete or was given up. It makes no links.
//!
//! ```text
//!   rank 1: the name is claimed by rank 0 ── Wait ──▶ rank 0: still copying ─▶ complete, or given up
//!   rank 1: makes its names of this file  ◀─ Ended ──┘
//! ```
//!
//! While a rank copies a file it has work, so the job does not end before the answer.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A task of one rank for another, about the copy with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkTask {
    /// Names on a rank wait for the copy.
    Wait { key: CString, from: u32 },
    /// The copy is complete, or was given up.
    Ended { key: CString },
}

// Tasks of large files have other first bytes.
atta_entry::choice!(LinkTask {
    b'W' => Wait { key, from },
    b'D' => Ended { key },
});

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// The ranks that wait for each file.
    files: Mutex<HashMap<CString, Vec<u32>>>,
    /// Tasks that are to be sent.
    out: Mutex<Vec<(u32, LinkTask)>>,
    has_out: AtomicBool,
}

impl Copying {
    /// Notes a file before it is claimed. False: a thread of this rank is at it.
    pub(crate) fn begin(&self, key: &CStr) -> bool {
        let mut files = lock(&self.files);
        let is_new = !files.contains_key(key);
        if is_new {
            files.insert(key.to_owned(), Vec::new());
        }
        is_new
    }

    /// Whether a thread of this rank is at the file.
    pub(crate) fn has(&self, key: &CStr) -> bool {
        lock(&self.files).contains_key(key)
    }

    /// Answers the ranks that wait for a file: the copy is complete or given up, or another rank makes it.
    pub(crate) fn end(&self, key: &CStr) {
        let ranks = lock(&self.files).remove(key).unwrap_or_default();
        ranks.into_iter().for_each(|rank| self.send(rank, LinkTask::Ended { key: key.to_owned() }));
    }

    /// Asks the rank that copies a file to say when the copy has ended.
    pub(crate) fn ask(&self, maker: u32, key: &CStr, from: u32) {
        self.send(maker, LinkTask::Wait { key: key.to_owned(), from });
    }

    /// Notes that a rank waits for a file, or answers at once.
    pub(crate) fn wait(&self, key: CString, from: u32) {
        let mut files = lock(&self.files);
        match files.get_mut(&key) {
            Some(ranks) => ranks.push(from),
            None => {
                drop(files);
                self.send(from, LinkTask::Ended { key });
            }
        }
    }

    /// Takes the tasks that are to be sent, with their ranks.
    pub(crate) fn take_out(&self) -> Vec<(u32, LinkTask)> {
        if !self.has_out.load(Ordering::Acquire) || !self.has_out.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.out))
    }

    fn send(&self, to: u32, task: LinkTask) {
        lock(&self.out).push((to, task));
        self.has_out.store(true, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;

    use super::*;

    fn ended(to: u32) -> (u32, LinkTask) {
        (to, LinkTask::Ended { key: c"8-1".into() })
    }

    #[test]
    fn ranks_that_wait_for_a_file_are_answered() {
        let copying = Copying::default();
        assert!(copying.begin(c"8-1") && !copying.begin(c"8-1"));
        copying.wait(c"8-1".into(), 2);
        copying.wait(c"8-1".into(), 3);
        assert_eq!(copying.take_out(), []);
        copying.end(c"8-1");
        assert_eq!(copying.take_out(), [ended(2), ended(3)]);
        // It came too late.
        copying.wait(c"8-1".into(), 4);
        assert_eq!((copying.take_out(), copying.take_out()), (vec![ended(4)], vec![]));
        assert!(copying.begin(c"8-1"));
        copying.ask(1, c"9-1", 0);
        assert_eq!(copying.take_out(), [(1, LinkTask::Wait { key: c"9-1".into(), from: 0 })]);
    }

    #[test]
    fn link_tasks_survive_encoding() {
        let (_, ended) = ended(0);
        for task in [LinkTask::Wait { key: c"fe-1a".into(), from: u32::MAX }, ended] {
            let bytes = task.encoded();
            assert_eq!(LinkTask::decode_all(&bytes), Some(task));
            assert_eq!(LinkTask::decode_all(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!((LinkTask::decode_all(b""), LinkTask::decode_all(b"P")), (None, None));
    }
}
