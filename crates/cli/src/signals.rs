//! SIGINT and SIGTERM: the first one asks the run to end and report, a second one ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Which signal came.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The last one that came; 0: none. A second one ends the program before it gets here.
    caught: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let any = Arc::new(AtomicBool::new(false));
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            // Order matters: this one sees the flag before the next one sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&any))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), number)?;
            signal_hook::flag::register(signal, Arc::clone(&any))?;
        }
        Ok(Self { caught })
    }

    /// The exit code of the signal that came: 130 or 143.
    pub(crate) fn code(&self) -> Option<u8> {
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }
}
