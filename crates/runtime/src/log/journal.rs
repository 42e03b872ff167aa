//! A log as one thread at a time writes it: frames at its end, what is on storage, and the part that follows one that failed. It has no
//! threads and does not wait.
//!
//! ```text
//!   part 0   ████████████▒▒▒▒▒▒▒✗           part 1   cut ▒▒▒▒▒▒▒ ▓▓▓ ...
//!            on storage  │  the frame that failed     │   │       the frame that failed
//!                        not known to be there        │   written again
//!                                                     "of part 0, so many bytes count"
//! ```
//!
//! Results are sums, so no frame may count twice. That is why the new part begins with the cut, and why all frames behind it follow, also
//! those that the file before may have.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atta_ledger::{Frame, Key, LogName, Record, Records, frame_into};
use rustix::io::Errno;

use super::file::{Calls, reserve};
use super::outcome::{LogCall, LogError, LogWritten};
use crate::stop::Stop;

/// Memory for the bytes of a frame that is kept for the next one.
const BYTES_KEPT: usize = 16 << 20;

/// A log that is written.
#[derive(Debug)]
pub(super) struct Journal<'a> {
    key: Key,
    stop: &'a Stop,
    file: Arc<dyn Calls>,
    /// Bytes of the file.
    end: u64,
    /// Frames in the file.
    sequence: u64,
    /// Bytes of the file that are known to be on storage.
    synced: u64,
    /// The frames behind them.
    unsynced: VecDeque<Unsynced>,
    /// Memory for the bytes of a frame.
    bytes: Vec<u8>,
    /// What the next frame begins with.
    cut: Option<Vec<u8>>,
    /// The next sync should not wait for its time.
    pub(super) is_sync_due: bool,
    written: LogWritten,
    failed: Option<LogError>,
}

/// A frame that may not be on storage.
#[derive(Debug)]
struct Unsynced {
    /// Where it ends in the file.
    end: u64,
    sections: Vec<Vec<u8>>,
}

/// A sync to be run without the lock of the journal.
#[derive(Debug)]
pub(super) struct Syncing {
    file: Arc<dyn Calls>,
    until: u64,
}

/// A sync that ended.
#[derive(Debug)]
pub(super) struct Synced {
    log: LogName,
    /// All bytes before this were written before the sync began.
    until: u64,
    outcome: Result<(), Errno>,
    took: Duration,
}

impl Syncing {
    pub(super) fn run(&self) -> Synced {
        let began = Instant::now();
        let outcome = self.file.sync();
        Synced { log: self.file.name(), until: self.until, outcome, took: began.elapsed() }
    }
}

impl<'a> Journal<'a> {
    pub(super) fn new(file: Arc<dyn Calls>, key: Key, stop: &'a Stop) -> Self {
        Self {
            key,
            stop,
            file,
            end: 0,
            sequence: 0,
            synced: 0,
            unsynced: VecDeque::new(),
            bytes: Vec::new(),
            cut: None,
            is_sync_due: false,
            written: LogWritten::default(),
            failed: None,
        }
    }

    /// Bytes that may not be on storage.
    pub(super) fn unsynced_bytes(&self) -> u64 {
        self.end - self.synced
    }

    /// Where the next frame is written.
    pub(super) fn end(&self) -> (LogName, u64) {
        (self.file.name(), self.end)
    }

    /// Whether what was written before that place is on storage. If the log has gone on in another part, all of that must be.
    pub(super) fn is_synced(&self, (log, end): (LogName, u64)) -> bool {
        if log == self.file.name() { self.synced >= end } else { self.unsynced_bytes() == 0 }
    }

    pub(super) fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether the log can be written.
    pub(super) fn check(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes a frame, unless there is nothing in it.
    pub(super) fn write(&mut self, sections: Vec<Vec<u8>>) -> Result<(), LogError> {
        self.check()?;
        if sections.iter().all(Vec::is_empty) {
            return Ok(());
        }
        self.append(sections).or_else(|failure| self.go_on(failure))
    }

    /// What a sync that begins now would cover.
    pub(super) fn begin_sync(&mut self) -> Syncing {
        self.is_sync_due = false;
        Syncing { file: Arc::clone(&self.file), until: self.end }
    }

    pub(super) fn end_sync(&mut self, synced: &Synced) -> Result<(), LogError> {
        self.written.syncs += 1;
        self.written.syncing += synced.took;
        self.check()?;
        // What it says of a part that was given up is of no use: the cut is written.
        if synced.log != self.file.name() {
            return Ok(());
        }
        if let Err(errno) = synced.outcome {
            return self.go_on(self.error(LogCall::Sync, errno));
        }
        self.synced = synced.until;
        while self.unsynced.pop_front_if(|frame| frame.end <= synced.until).is_some() {}
        Ok(())
    }

    /// Waits until all of it is on storage.
    pub(super) fn finish(mut self) -> Result<LogWritten, LogError> {
        self.check()?;
        while self.unsynced_bytes() > 0 {
            let synced = self.begin_sync().run();
            self.end_sync(&synced)?;
        }
        Ok(self.written)
    }

    /// Writes a frame at the end. It is kept whatever happens.
    fn append(&mut self, mut sections: Vec<Vec<u8>>) -> Result<(), LogError> {
        sections.splice(0..0, self.cut.take());
        let head = Frame { offset: self.end, sequence: self.sequence, synced: self.synced };
        let mut bytes = std::mem::take(&mut self.bytes);
        let is_frame = frame_into(&mut bytes, (&self.key, self.file.name()), head, &sections);
        let end = self.end + if is_frame { bytes.len() as u64 } else { 0 };
        self.unsynced.push_back(Unsynced { end, sections });
        if !is_frame {
            return Err(self.error(LogCall::Write, Errno::FBIG));
        }
        let began = Instant::now();
        let outcome = self.reserve_ahead(end).and_then(|()| self.write_all(&bytes));
        self.written.writing += began.elapsed();
        outcome?;
        self.written.bytes += bytes.len() as u64;
        self.written.frames += 1;
        (self.end, self.sequence) = (end, self.sequence + 1);
        if bytes.capacity() <= BYTES_KEPT {
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Reserves the space of a frame that ends there, and what is reserved behind it. If there is none, the frame goes into what was reserved
    /// before, and the job is to stop.
    fn reserve_ahead(&mut self, end: u64) -> Result<(), LogError> {
        match reserve(&*self.file, self.end, end - self.end + self.file.ahead()) {
            Ok(()) => Ok(()),
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                self.written.out_of_space = Some(atta_entry::Errno(errno.raw_os_error()));
                self.stop.set();
                Ok(())
            }
            Err(errno) => Err(self.error(LogCall::Reserve, errno)),
        }
    }

    fn write_all(&self, bytes: &[u8]) -> Result<(), LogError> {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(self.end + written as u64, &bytes[written..]) {
                Ok(0) => return Err(self.error(LogCall::Write, Errno::IO)),
                Ok(count) => written += count,
                Err(errno) => return Err(self.error(LogCall::Write, errno)),
            }
        }
        Ok(())
    }

    fn error(&self, call: LogCall, errno: Errno) -> LogError {
        LogError::new(self.file.name(), call, errno)
    }

    /// Goes on in a new part after a failure, once.
    fn go_on(&mut self, failure: LogError) -> Result<(), LogError> {
        let outcome = match self.written.replaced {
            Some(_) => Err(failure),
            None => {
                self.written.replaced = Some(failure);
                self.write_again()
            }
        };
        outcome.map_err(|mut failure| {
            failure.before = self.written.replaced.clone().map(Box::new);
            self.failed = Some(failure.clone());
            self.unsynced.clear();
            self.stop.set();
            failure
        })
    }

    /// Creates the next part, and writes what may not be on storage into it.
    fn write_again(&mut self) -> Result<(), LogError> {
        let old = self.file.name();
        let name = LogName { part: old.part + 1, ..old };
        self.file = self.file.next().map_err(|errno| LogError::new(name, LogCall::Create, errno))?;
        let mut cut = Records::default();
        cut.add(&Record::Cut { log: old, bytes: self.synced });
        self.cut = Some(cut.take());
        (self.end, self.sequence, self.synced) = (0, 0, 0);
        self.is_sync_due = true;
        for frame in std::mem::take(&mut self.unsynced) {
            self.append(frame.sections)?;
        }
        Ok(())
    }
}
