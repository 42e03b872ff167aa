//! Detects that this process is a forked copy of the one that created an object: after `fork`, its threads and rings are
//! missing.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process that watched and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that created an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The current process.
    #[must_use]
    pub fn here() -> Self {
        WATCH.call_once(|| {
            // SAFETY: the function only counts, which is allowed in a child of a process with threads. On the one error, lack
            // of memory, forks are not detected.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether it is still the current process. Takes no system call.
    #[must_use]
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
