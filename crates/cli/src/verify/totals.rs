//! What ranks add up at the end of `atta verify`. Nothing is compared or printed here.

use std::time::Duration;

use atta_ops::verify::{Outcome, Totals};

use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;

/// Most bytes of a text that a rank sends.
const TEXT_BYTES_MAX: usize = 1024;

/// The results of one rank or of several, at most 5 KiB.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(super) totals: Totals,
    /// The longest time of a rank.
    pub(super) elapsed: Duration,
    /// Threads of all ranks.
    pub(super) threads: usize,
    /// Whether the run ended early.
    pub(super) stopped: bool,
    /// Exit code of a caught signal; 0 if none.
    interrupted: u8,
    /// Why a rank other than the first cannot continue.
    fatal: Option<String>,
    /// What earlier runs of the job have done. Only on the first rank.
    pub(super) earlier: Option<Earlier>,
}

atta_entry::record!(Compared { totals, elapsed, threads, stopped, interrupted, fatal, earlier });

impl Compared {
    /// The results of this rank.
    pub(super) fn new(outcome: Outcome, interrupted: Option<u8>) -> Self {
        let Outcome { totals, threads, elapsed, stopped, .. } = outcome;
        let (threads, interrupted) = (threads.len(), interrupted.unwrap_or(0));
        Self { totals, elapsed, threads, stopped, interrupted, fatal: None, earlier: None }
    }

    /// With the reason why this rank cannot continue.
    pub(super) fn with_fatal(self, fatal: Option<Fatal>) -> Self {
        let text = |fatal: Fatal| {
            let mut what = fatal.what();
            what.truncate(what.floor_char_boundary(TEXT_BYTES_MAX));
            what
        };
        Self { fatal: fatal.map(text), ..self }
    }

    /// Why another rank cannot continue.
    pub(super) fn fatal(&self) -> Option<Fatal> {
        self.fatal.clone().map(|what| Fatal::Failed { what, hint: None })
    }

    /// Whether both trees are the same, as far as is known.
    pub(super) fn is_same(&self) -> bool {
        self.totals.is_same() && !self.earlier.as_ref().is_some_and(Earlier::has_changed)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.threads += other.threads;
        self.stopped |= other.stopped;
        self.interrupted = self.interrupted.max(other.interrupted);
        self.fatal = self.fatal.take().or_else(|| other.fatal.clone());
    }

    /// The exit code of the signal that a rank caught, if one did.
    pub(super) fn interrupted(&self) -> Option<u8> {
        (self.interrupted > 0).then_some(self.interrupted)
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::{Code as _, Errno};

    use super::*;

    #[test]
    fn share_of_a_rank_of_verify_is_bounded() {
        let count = u64::MAX;
        let totals = Totals {
            compared: count,
            files: count,
            bytes: count,
            missing: count,
            extra: count,
            different: count,
            changed: count,
            looked_up: count,
            fields: [count; _],
            failures: (1..=133).map(|number| (Errno(number), count)).collect(),
        };
        let fatal = Some("x".repeat(TEXT_BYTES_MAX));
        let (elapsed, threads) = (Duration::MAX, usize::MAX);
        let share =
            Compared { totals, elapsed, threads, stopped: true, interrupted: 143, fatal, earlier: None };
        let bytes = share.encoded().len();
        assert!(bytes <= 5 << 10, "{bytes}");
    }
}
