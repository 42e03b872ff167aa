//! Signals to `atta launch`, which it passes on to COMMAND: SIGINT, SIGTERM and SIGHUP, after which nothing is started again, and SIGUSR1, which
//! asks ranks to put on storage what they have done. SIGUSR2 is for one rank, and is not passed on. Nothing is printed here.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The signals that have arrived.
pub(super) struct Signals {
    arrived: Vec<(Signal, Arc<AtomicBool>)>,
    /// The first one that ends the command.
    first: Cell<Option<Signal>>,
}

impl Signals {
    /// Starts to catch them. SIGHUP stays ignored if it is: `nohup` has asked for that.
    pub(super) fn catch() -> io::Result<Self> {
        let mut arrived = Vec::new();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2] {
            if signal != Signal::HUP || !is_ignored(signal) {
                let flag = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(signal.as_raw(), Arc::clone(&flag))?;
                arrived.push((signal, flag));
            }
        }
        Ok(Self { arrived, first: Cell::new(None) })
    }

    /// Passes on to a process what has arrived since the last look.
    pub(super) fn pass_on(&self, process: Pid) {
        for signal in self.look() {
            // A terminal sends it to all processes of its foreground. A second one would make a launcher kill its ranks at once.
            let is_theirs = signal == Signal::INT && is_in_foreground();
            if !is_theirs && signal != Signal::USR2 {
                // The process may have ended.
                let _ = kill_process(process, signal);
            }
        }
    }

    /// The exit code after a signal.
    pub(super) fn code(&self) -> Option<u8> {
        self.look();
        self.first.get().and_then(|signal| u8::try_from(128 + signal.as_raw()).ok())
    }

    /// Waits. After a signal it ends at once, with the exit code.
    pub(super) fn wait(&self, time: Duration) -> Option<u8> {
        let began = Instant::now();
        while self.code().is_none() && began.elapsed() < time {
            std::thread::sleep(LOOK);
        }
        self.code()
    }

    fn look(&self) -> Vec<Signal> {
        let arrived = self.arrived.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        let arrived: Vec<_> = arrived.map(|(signal, _)| *signal).collect();
        let ends = arrived.iter().find(|signal| ![Signal::USR1, Signal::USR2].contains(signal));
        self.first.set(self.first.get().or(ends.copied()));
        arrived
    }
}

/// Whether this process belongs to the foreground of its terminal.
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| rustix::termios::tcgetpgrp(terminal) == Ok(rustix::process::getpgrp()))
}

fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}
