//! Shows how a run goes: a line on a terminal, or a line a second elsewhere. What it says is whoever's runs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::{ProgressWhen, TellArguments};

/// Between two lines where there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    next: Duration,
}

impl Display {
    /// `prints`: rows on standard output, which on the same terminal say enough by themselves.
    pub(crate) fn new(tell: &TellArguments, prints: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let says_enough = tell.quiet || (prints && std::io::stdout().is_terminal());
        let (shown, lines) = match tell.progress {
            ProgressWhen::Auto => (terminal && !says_enough, false),
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

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}
