//! Progress display of a run: a line on a terminal, or a line a second elsewhere. The caller supplies the text. A thread of its own writes it,
//! and the run never waits for that thread: standard error may be a full pipe or a stopped terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::{ProgressWhen, ReportArguments};
use crate::run::latest::Latest;

/// Time between two lines if there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);
/// Time between two updates of the line on a terminal.
const PERIOD_OF_BAR: Duration = Duration::from_millis(100);
/// How long the end of a run waits for the line to be removed. Only a terminal that takes nothing needs longer.
const CLEAR_MOST: Duration = Duration::from_secs(2);

/// See the head of this file.
pub(crate) struct Display {
    /// Gets each line; none removes it.
    lines: Option<Latest<Option<String>>>,
    period: Duration,
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
        // Without a thread the run goes on and shows no progress.
        match (shown, lines) {
            (true, _) => Self { lines: on_bar().ok(), period: PERIOD_OF_BAR, next: Duration::ZERO },
            (_, true) => Self { lines: in_lines().ok(), period: PERIOD, next: PERIOD },
            _ => Self { lines: None, period: PERIOD, next: PERIOD },
        }
    }

    /// Updates the display; called about 40 times a second. Does not wait.
    pub(crate) fn tick(&mut self, elapsed: Duration, line: impl Fn() -> String) {
        if let Some(lines) = self.lines.as_ref().filter(|_| elapsed >= self.next) {
            self.next = elapsed + self.period;
            lines.put(Some(line()));
        }
    }

    /// Removes the progress line from the terminal, unless the terminal takes nothing.
    pub(crate) fn clear(&mut self) {
        if let Some(lines) = self.lines.take() {
            let began = Instant::now();
            lines.put(None);
            lines.wait(|| began.elapsed() > CLEAR_MOST);
        }
    }
}

fn on_bar() -> std::io::Result<Latest<Option<String>>> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    Latest::start("progress", move |line| match line {
        Some(line) => {
            bar.set_message(line);
            bar.tick();
        }
        None => bar.finish_and_clear(),
    })
}

fn in_lines() -> std::io::Result<Latest<Option<String>>> {
    Latest::start("progress", |line: Option<String>| {
        if let Some(line) = line {
            // An error of standard error cannot be reported.
            let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
        }
    })
}
