//! Progress while a walk runs: a line on a terminal, lines elsewhere, events in a file. Fed on each tick.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use atta_ops::walk::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::Refused;
use super::arguments::WalkArguments;
use super::report::{Report, seconds};
use crate::arguments::ProgressWhen;
use crate::events::Events;
use crate::fatal::Fatal;
use crate::size::grouped;

/// Between two events, and between two lines where there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);

/// Shows progress.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    events: Events,
    next: Duration,
}

impl Display {
    pub(crate) fn new(arguments: &WalkArguments) -> Result<Self, Refused> {
        let terminal = io::stderr().is_terminal();
        // Rows on the same terminal say enough by themselves.
        let rows_shown = arguments.row_format().is_some() && io::stdout().is_terminal();
        let (shown, lines) = match arguments.tell.progress {
            ProgressWhen::Auto => (terminal && !arguments.tell.quiet && !rows_shown, false),
            ProgressWhen::Always => (terminal, !terminal),
            ProgressWhen::Never => (false, false),
        };
        let events = Events::new(arguments.events.as_deref())?;
        Ok(Self { bar: shown.then(bar), lines, events, next: PERIOD })
    }

    /// Called some 40 times a second.
    pub(crate) fn tick(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_message(line(progress));
            bar.tick();
        }
        if progress.elapsed < self.next {
            return;
        }
        self.next = progress.elapsed + PERIOD;
        if self.lines {
            let _ = writeln!(io::stderr(), "{}", line(progress));
        }
        let profile = &progress.profile;
        self.events.tell(&json!({
            "event": "progress",
            "elapsed_seconds": progress.elapsed.as_secs_f64(),
            "entries": profile.entries,
            "directories": profile.directories,
            "failures": profile.failures,
            "bytes": profile.bytes,
            "threads": progress.threads,
            "growing": true,
        }));
    }

    /// Takes the line off the terminal.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Writes the last event.
    pub(crate) fn finish(self, report: &Report<'_>) -> Result<(), Fatal> {
        self.events.finish(|| report.json())
    }
}

pub(crate) fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// What a walk has done so far. All counts still grow: how large the tree is nobody knows before the end.
fn line(progress: &Progress) -> String {
    let profile = &progress.profile;
    let rate = profile.entries as f64 / progress.elapsed.as_secs_f64().max(1e-3);
    let mut text = format!(
        "{} entries so far, {} directories, {}/s, {} threads, {}",
        grouped(profile.entries),
        grouped(profile.directories),
        grouped(rate as u64),
        progress.threads,
        seconds(progress.elapsed),
    );
    if profile.failures > 0 {
        text.push_str(&format!(", {} errors", grouped(profile.failures)));
    }
    text
}
