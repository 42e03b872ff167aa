//! SIGINT and SIGTERM: the first one asks the run to end and report, a second one ends the program at once.
//!
//! The signal itself sets the request ([`Signals::stop`]), so every phase of a command sees it that looks at the request, also
//! the phases in which nobody reports progress. Nothing here waits, and nothing is printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use atta_runtime::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Which signal came, and the request that it makes.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The last one that came; 0: none. A second one ends the program before it gets here.
    caught: Arc<AtomicUsize>,
    stop: Stop,
    /// Whether a request alone counts as a signal: it came from another rank.
    has_others: bool,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let any = Arc::new(AtomicBool::new(false));
        let stop = Stop::new();
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            // Order matters: the first action sees the flag before a later one sets it, and whoever sees the request finds
            // the number. The request has a flag of its own: a run also makes it when it fails, and the first signal after
            // that is still the first.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&any))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), number)?;
            signal_hook::flag::register(signal, Arc::clone(&any))?;
            signal_hook::flag::register(signal, stop.flag())?;
        }
        Ok(Self { caught, stop, has_others: false })
    }

    /// The request to end early that a signal makes. The command makes the same request when it cannot go on.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The same for one rank that works alone while the others wait: a request to end that it has not from a signal of its own comes from
    /// theirs.
    pub(crate) fn with_others(&self) -> Self {
        Self { caught: Arc::clone(&self.caught), stop: self.stop.clone(), has_others: true }
    }

    /// The exit code of the signal that came: 130 or 143.
    pub(crate) fn code(&self) -> Option<u8> {
        match self.caught.load(Ordering::Acquire) {
            0 if self.has_others && self.stop.is_set() => Some(143),
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }
}
