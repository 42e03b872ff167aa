//! `atta copy --dry-run`: reports what a copy would do. It runs on one rank and writes nothing.

use std::sync::atomic::Ordering;

use atta_ops::copy::{DryRun, Progress};
use atta_runtime::Seat;

use super::arguments::CopyArguments;
use super::end::{Ended, conclude, report_refused};
use super::manifest::Rows;
use super::part::Part;
use super::plans::Plans;
use super::reporter::Reporter;
use super::reports::Reports;
use super::setting::{Begun, Run, Setting};
use super::summary::summary;
use crate::run::settings::take;
use crate::run::signals::Signals;
use crate::run::starts::Starts;

/// Rehearses a copy; returns the exit code.
pub(super) fn rehearse(arguments: &CopyArguments, signals: &Signals, run: Run) -> u8 {
    let Run { failures, events, keep, starts, .. } = run;
    let setting = Setting::new(arguments, Seat::alone(), keep);
    let options = setting.options(&Begun::default(), &signals.stop());
    let plans = arguments.report.verbose.then(Plans::default);
    let mut reporter = Reporter::new(&arguments.report, plans.is_some(), events);
    let reports =
        Reports { failures: &failures, plans, rows: Rows::Nowhere, is_quiet: arguments.report.quiet };
    let list_error = starts.as_ref().map(Starts::error);
    let extra = starts.as_ref().map(Starts::extra);
    let prepared = DryRun::prepare(&setting.sources, &setting.target, &options, &reports);
    let outcome = prepared.and_then(|dry_run| {
        let dry_run = match starts {
            None => dry_run,
            Some(starts) if starts.are_differences() => dry_run.repairing(starts.rows()),
            Some(starts) => dry_run.listed(starts),
        };
        dry_run
            .run(|progress: &Progress| reporter.tick(progress))
            .map(|outcome| Part::new(outcome, None).whole())
    });
    reporter.clear();
    let fatal = list_error.and_then(|error| take(&error));
    let fatal = fatal.or_else(|| reports.plans.as_ref().and_then(|plans| plans.finish().err()));
    match outcome {
        Ok(mut whole) => {
            let interrupted = signals.code();
            whole.extra = extra.map(|extra| extra.load(Ordering::Relaxed));
            let summed = || summary(arguments, &whole, interrupted.is_some());
            let fatal = fatal.or_else(|| reporter.events.finish(summed, &signals.stop()).err());
            conclude(
                arguments,
                &failures,
                Ended { outcome: &whole, interrupted, fatal, job: None, is_over: true },
            )
        }
        Err(refused) => report_refused(&refused),
    }
}
