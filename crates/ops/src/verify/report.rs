//! Reports and counts the results of a comparison. The watcher decides how to use them.

use std::sync::atomic::Ordering;

use atta_entry::{Change, Difference, Errno, Failure, Operation, Side};

use super::handler::{Comparing, VerifyWorker};
use super::pair::{At, Finding, Verdict};
use crate::file::error::PairError;

impl<const LOGGED: bool> Comparing<'_, LOGGED> {
    /// Reports a difference.
    pub(crate) fn report(&self, worker: &mut VerifyWorker, difference: &Difference<'_>) {
        worker.findings.totals.count(&difference.change);
        if LOGGED {
            worker.findings.log(difference);
        }
        self.live.differences.fetch_add(1, Ordering::Relaxed);
        self.watch.difference(difference);
    }

    /// Reports an entry that could not be compared.
    pub(crate) fn fail(&self, worker: &mut VerifyWorker, at: At<'_>, error: PairError) {
        let (side, operation, errno) = match error {
            PairError::Failed(side, operation, errno) => (side, operation, errno),
            PairError::Changed => {
                worker.findings.totals.changed += 1;
                (Side::Source, Operation::CompareUnchanged, Errno::AGAIN)
            }
            PairError::Stopped => return,
        };
        let (root, path) = at.root_and_path(side, &self.trees.target);
        let failure =
            Failure { operation, root: root.into(), path: path.into(), errno, spelled: None, at: None };
        self.count_failure(worker, &failure);
    }

    pub(crate) fn count_failure(&self, worker: &mut VerifyWorker, failure: &Failure<'_>) {
        *worker.findings.totals.failures.entry(failure.errno).or_default() += 1;
        self.watch.failure(failure);
    }

    /// Reports the result of a comparison.
    pub(crate) fn conclude(&self, worker: &mut VerifyWorker, finding: Finding<'_>) {
        let Finding { at, kind, verdict } = finding;
        match verdict {
            Ok(Verdict::Missing) => self.report(worker, &at.difference(kind, Change::Missing)),
            Ok(Verdict::Compared(found)) => {
                worker.findings.totals.compared += 1;
                if !found.is_empty() {
                    self.report(worker, &at.difference(kind, Change::Different(found)));
                }
            }
            Err(error) => self.fail(worker, at, error),
        }
    }
}
