//! Reports of a running copy: failures, planned actions, and other runs in the same place.

use atta_entry::Failure;
use atta_ops::copy::{ManifestRow, Notice, Planned, Watch};

use super::manifest::Rows;
use super::notices;
use super::plans::Plans;
use crate::run::failures::Failures;

/// See the head of this file.
pub(super) struct Reports<'a> {
    pub(super) failures: &'a Failures,
    /// Planned actions, if they are to be reported.
    pub(super) plans: Option<Plans>,
    /// Where rows of the manifest go.
    pub(super) rows: Rows<'a>,
    pub(super) is_quiet: bool,
}

impl Watch for Reports<'_> {
    fn failure(&self, failure: &Failure<'_>) {
        self.failures.add(failure);
    }

    fn planned(&self, planned: Planned, path: &[u8]) {
        if let Some(plans) = &self.plans {
            plans.add(planned, path);
        }
    }

    fn rows(&self, rows: Vec<ManifestRow>) {
        self.rows.add(&rows);
    }

    fn notice(&self, notice: &Notice) {
        notices::report(notice, self.is_quiet);
    }
}
