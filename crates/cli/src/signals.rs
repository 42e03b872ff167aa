//! SIGINT and SIGTERM: the first one asks the run to end and report, a second one ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Which signals came.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: [(i32, Arc<AtomicBool>); 2],
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let caught = [SIGINT, SIGTERM].map(|signal| (signal, Arc::new(AtomicBool::new(false))));
        for (signal, flag) in &caught {
            // Order matters: this one sees the flag before the next one sets it.
            signal_hook::flag::register_conditional_shutdown(*signal, 128 + signal, Arc::clone(flag))?;
            signal_hook::flag::register(*signal, Arc::clone(flag))?;
        }
        Ok(Self { caught })
    }

    /// The exit code of the first signal that came: 130 or 143.
    pub(crate) fn code(&self) -> Option<u8> {
        let (signal, _) = self.caught.iter().find(|(_, flag)| flag.load(Ordering::Relaxed))?;
        u8::try_from(128 + signal).ok()
    }
}
