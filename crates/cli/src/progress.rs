//! Shows how an operation goes: a line on a terminal, lines elsewhere. What the line says is the operation's to know.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::walk::{ProgressWhen, bar};

/// Between two lines where there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    next: Duration,
}

impl Display {
    pub(crate) fn new(when: ProgressWhen, is_quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let (shown, lines) = match when {
            ProgressWhen::Auto => (terminal && !is_quiet, false),
            ProgressWhen::Always => (terminal, !terminal),
            ProgressWhen::Never => (false, false),
        };
        Self { bar: shown.then(bar), lines, next: PERIOD }
    }

    /// Called some 40 times a second.
    pub(crate) fn tick(&mut self, elapsed: Duration, line: impl Fn() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(line());
            bar.tick();
        }
        if self.lines && elapsed >= self.next {
            self.next = elapsed + PERIOD;
            // Nothing can be said of an error of standard error.
            let _ = writeln!(std::io::stderr(), "{}", line());
        }
    }

    /// Takes the line off the terminal.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
