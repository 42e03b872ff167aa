//! Progress display of a run: a line on a terminal, or a line a second elsewhere. The caller supplies the text.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::{ProgressWhen, ReportArguments};

/// Time between two lines if there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    next: Duration,
}

impl Display {
    /// `prints`: rows go to standard output; on the same terminal they are progress enough.
    pub(crate) fn new(report: &ReportArguments, prints: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let says_enough = report.quiet || (prints && std::io::stdout().is_terminal());
        let (shown, lines) = match report.progress {
            ProgressWhen::Auto => (terminal && !says_enough, false),
            ProgressWhen::Always => (terminal, !terminal),
            ProgressWhen::Never => (false, false),
        };
        Self { bar: shown.then(bar), lines, next: PERIOD }
    }

    /// Updates the display; called about 40 times a second.
    pub(crate) fn tick(&mut self, elapsed: Duration, line: impl Fn() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(line());
            bar.tick();
        }
        if self.lines && elapsed >= self.next {
            self.next = elapsed + PERIOD;
            // An error of standard error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{}", line());
        }
    }

    /// Removes the progress line from the terminal.
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
