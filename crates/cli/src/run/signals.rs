//! SIGINT and SIGTERM: the first one asks the run to end and report, a second one ends the program at once. SIGUSR1 asks a run with a job to put on
//! storage what it has done, and ends nothing. SIGUSR2 asks a rank to leave the others, which go on without it.
//!
//! The signal handler itself sets the stop request ([`Signals::stop`]). Every phase of a command that checks the request sees it, also
//! phases that report no progress. Nothing here waits or prints.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use atta_runtime::Stop;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// Set by SIGUSR1. The signal is for the whole process, and each part of it that commits looks by itself.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// See [`commits`].
static COMMITS: AtomicU64 = AtomicU64::new(0);

/// How often SIGUSR1 has arrived; signals that come together count once.
pub(crate) fn commits() -> u64 {
    let is_asked = ASKED.get().is_some_and(|asked| asked.swap(false, Ordering::Relaxed));
    COMMITS.fetch_add(is_asked.into(), Ordering::Relaxed) + u64::from(is_asked)
}

/// The signal that arrived, and the stop request that it sets.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The last signal that arrived; 0 if none. A second one ends the program before it is stored here.
    caught: Arc<AtomicUsize>,
    stop: Stop,
    /// Whether a stop request alone counts as a signal: it came from another rank.
    has_others: bool,
}

impl Signals {
    /// Starts to catch all signals.
    pub(crate) fn catch() -> io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let any = Arc::new(AtomicBool::new(false));
        let stop = Stop::new();
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            // Order matters: the first action checks the flag before a later one sets it, and code that sees the request finds the number.
            // The request has a flag of its own: a run also sets the request when it fails, and the first signal after that is still the
            // first.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&any))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), number)?;
            signal_hook::flag::register(signal, Arc::clone(&any))?;
            signal_hook::flag::register(signal, stop.flag())?;
        }
        signal_hook::flag::register(SIGUSR2, stop.leave_flag())?;
        signal_hook::flag::register(SIGUSR1, Arc::clone(ASKED.get_or_init(Arc::default)))?;
        Ok(Self { caught, stop, has_others: false })
    }

    /// The stop request that a signal sets. The command sets the same request when it cannot continue.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The same for a rank that works alone while the others wait. A stop request without a signal of its own then comes from one of
    /// theirs.
    pub(crate) fn with_others(&self) -> Self {
        Self { caught: Arc::clone(&self.caught), stop: self.stop.clone(), has_others: true }
    }

    /// Takes the stop request back if no signal has arrived: a run that could not go on has set it, and begins again.
    pub(crate) fn begin_again(&self) {
        if self.code().is_none() {
            self.stop.withdraw();
        }
        // One may have arrived meanwhile.
        if self.code().is_some() {
            self.stop.set();
        }
    }

    /// The exit code of the signal that arrived: 130 or 143.
    pub(crate) fn code(&self) -> Option<u8> {
        match self.caught.load(Ordering::Acquire) {
            0 if self.has_others && self.stop.is_asked() => Some(143),
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }
}
