//! Progress of a copy: the line of a display, and an event a second. `pace.rs` makes the estimates.

use std::time::Duration;

use atta_ops::copy::Progress;

use super::pace::Pace;
use super::summary::{event, line};
use crate::arguments::ReportArguments;
use crate::run::display::Display;
use crate::run::events::Events;

/// Time between two events.
const PERIOD: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(super) struct Reporter {
    display: Display,
    pub(super) events: Events,
    next: Duration,
    pace: Pace,
}

impl Reporter {
    /// `prints`: as in [`Display::new`].
    pub(super) fn new(report: &ReportArguments, prints: bool, events: Events) -> Self {
        Self { display: Display::new(report, prints), events, next: PERIOD, pace: Pace::default() }
    }

    /// Updates the display; called about 40 times a second.
    pub(super) fn tick(&mut self, progress: &Progress) {
        let elapsed = progress.walk.elapsed;
        let outlook = self.pace.look(progress);
        self.display.tick(elapsed, || line(progress, &outlook));
        if self.events.is_wanted() && elapsed >= self.next {
            self.next = elapsed + PERIOD;
            self.events.emit(&event(progress, &outlook));
        }
    }

    /// Removes the progress line from the terminal.
    pub(super) fn clear(&mut self) {
        self.display.clear();
    }
}
