//! Data of the operating system on cores and threads. Makes no decisions.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// Cores that this process may run on: its affinity mask, not the machine's count.
#[must_use]
pub fn available_cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| (set.count() as usize).max(1))
}

/// Which cores these are, in ascending order.
#[must_use]
pub fn cores() -> Vec<u32> {
    let mask = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| mask.is_set(*core))
        .filter_map(|core| u32::try_from(core).ok())
        .collect()
}

/// Time that all threads of this process have spent on a core so far, in user and kernel mode.
#[must_use]
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}

/// Detects whether a thread of this process is blocked in the kernel.
///
/// The scheduler's own sums (`schedstat`) are the obvious source, but they are brought up to date only when a thread
/// changes its state: over a few milliseconds a thread that runs, or waits for a core, looks as if it slept.
#[derive(Debug)]
pub(crate) struct Watch {
    file: OwnedFd,
}

impl Watch {
    /// Watches the calling thread. None if `/proc` is missing.
    pub(crate) fn this_thread() -> Option<Self> {
        let path = format!("/proc/self/task/{}/stat", rustix::thread::gettid().as_raw_nonzero());
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(Self { file })
    }

    /// Whether the thread neither runs nor waits for a core. May be called from any thread; takes some 10 us.
    pub(crate) fn is_blocked(&self) -> Option<bool> {
        let mut buffer = [0; 128];
        let length = rustix::io::pread(&self.file, &mut buffer, 0).ok()?;
        // "1234 (worker-0) S ...": the state follows the name, and our names hold no parenthesis.
        let text = buffer.get(..length)?;
        let state = text.iter().position(|&byte| byte == b')').and_then(|at| text.get(at + 2))?;
        Some(*state != b'R')
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn blocked_and_running_threads_are_distinguished() {
        let (send, receive) = mpsc::channel();
        let (_end, ended) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            send.send(Watch::this_thread()).unwrap();
            let _ = ended.recv();
        });
        let other = receive.recv().unwrap().unwrap();
        // It blocks at once, or very soon.
        let blocked = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            other.is_blocked() == Some(true)
        });
        assert!(blocked);
        assert_eq!(Watch::this_thread().unwrap().is_blocked(), Some(false));
    }
}
