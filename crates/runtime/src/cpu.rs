//! What the operating system says of cores and of how threads spent their time. Reads `/proc`; decides nothing.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// Cores that this process may run on: its affinity mask, not the machine's count.
#[must_use]
pub fn available_cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| (set.count() as usize).max(1))
}

/// How one thread spent its life so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// On a core.
    pub(crate) running: Duration,
    /// Ready to run, waiting for a core.
    pub(crate) queued: Duration,
}

/// Reads how a thread of this process spends its time, from the scheduler's statistics.
#[derive(Debug)]
pub(crate) struct Clock {
    file: OwnedFd,
}

impl Clock {
    /// The clock of the calling thread; none where the kernel keeps no such statistics.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let path = format!("/proc/self/task/{}/schedstat", rustix::thread::gettid().as_raw_nonzero());
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let clock = Self { file };
        clock.read().is_some().then_some(clock)
    }

    /// The totals until now. May be called from any thread.
    pub(crate) fn read(&self) -> Option<Spent> {
        let mut buffer = [0; 96];
        let length = rustix::io::pread(&self.file, &mut buffer, 0).ok()?;
        let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        Some(Spent { running: numbers.next()?.ok()?, queued: numbers.next()?.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_thread_neither_runs_nor_queues() {
        let Some(clock) = Clock::of_this_thread() else {
            return;
        };
        let before = clock.read().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let after = clock.read().unwrap();
        assert!(after.running - before.running < Duration::from_millis(40));
    }
}
