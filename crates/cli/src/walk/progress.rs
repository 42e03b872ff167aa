//! Progress of a running walk: a line on a terminal, lines elsewhere, events in a file. Updated on each tick.

use std::time::Duration;

use atta_ops::walk::Progress;
use atta_runtime::Stop;
use serde_json::json;

use super::arguments::WalkArguments;
use super::report::{Report, seconds};
use crate::run;
use crate::run::events::Events;
use crate::run::fatal::Fatal;
use crate::run::refused::Refused;
use crate::size::grouped;

/// Time between two events.
const PERIOD: Duration = Duration::from_secs(1);

/// Shows progress.
pub(crate) struct Display {
    shown: run::display::Display,
    events: Events,
    next: Duration,
}

impl Display {
    pub(crate) fn new(arguments: &WalkArguments) -> Result<Self, Refused> {
        let shown = run::display::Display::new(&arguments.report, arguments.row_format().is_some());
        let events = Events::new(arguments.events.as_deref())?;
        Ok(Self { shown, events, next: PERIOD })
    }

    /// Updates the display; called about 40 times a second.
    pub(crate) fn tick(&mut self, progress: &Progress) {
        self.shown.tick(progress.elapsed, || line(progress));
        if progress.elapsed < self.next {
            return;
        }
        self.next = progress.elapsed + PERIOD;
        let profile = &progress.profile;
        self.events.emit(&json!({
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

    /// Removes the progress line from the terminal.
    pub(crate) fn clear(&mut self) {
        self.shown.clear();
    }

    /// Writes the last event.
    pub(crate) fn finish(self, report: &Report<'_>, stop: &Stop) -> Result<(), Fatal> {
        self.events.finish(|| report.json(), stop)
    }
}

/// The progress line. All counts still grow: the size of the tree is unknown until the end.
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
