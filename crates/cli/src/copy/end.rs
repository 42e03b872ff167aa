//! End of a copy: prints the summary and picks the exit code. Nothing is copied here.

use std::io::Write as _;

use atta_ops::copy;

use super::advice;
use super::arguments::CopyArguments;
use super::summary::{Whole, summary, words};
use crate::run::earlier::Earlier;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::print;
use crate::run::job::{self, Job};
use crate::run::line;
use crate::run::messages::{complain, exit, hint};

/// Reports why nothing is copied; returns the exit code.
pub(super) fn report_refused(copy::Refused { what, hint, is_usage }: &copy::Refused) -> u8 {
    complain(what, Some(hint.as_ref()));
    if *is_usage { exit::USAGE } else { exit::FATAL }
}

/// A copy that has come to its end.
pub(super) struct Ended<'a> {
    pub(super) outcome: &'a Whole,
    pub(super) interrupted: Option<u8>,
    pub(super) fatal: Option<Fatal>,
    pub(super) job: Option<Job>,
    /// The copy itself has come to its end, although its summary may not be printed.
    pub(super) is_over: bool,
}

impl Ended<'_> {
    /// The exit code, unless there is something fatal.
    pub(super) fn code(&self) -> u8 {
        self.interrupted.unwrap_or_else(|| come_to(self.outcome))
    }
}

/// The exit code of a copy that was not interrupted.
fn come_to(outcome: &Whole) -> u8 {
    // A copy is partial if a file that was to be read back was not.
    let has_changed = outcome.earlier.as_ref().is_some_and(Earlier::has_changed);
    let is_partial = outcome.totals.failed() > 0 || outcome.totals.not_verified > 0 || has_changed;
    if is_partial { exit::PARTIAL } else { exit::DONE }
}

/// Reports the result and returns the exit code.
pub(super) fn conclude(arguments: &CopyArguments, failures: &Failures, ended: Ended<'_>) -> u8 {
    let (code, come_to) = (ended.code(), come_to(ended.outcome));
    let Ended { outcome, interrupted, fatal, job, is_over } = ended;
    let kept = || {
        let json = summary(arguments, outcome, false).to_string();
        job::kept(come_to, &json, &words(arguments, outcome, false))
    };
    let recorded = job.as_ref().map(Job::line);
    // Before anything is printed: a later copy must not go on with this one because its summary went nowhere.
    let (job, left) = match job.filter(Job::is_kept) {
        Some(job) if job.is_in_target() && is_over => (None, job.remove(&kept(), outcome.makes_top)),
        job => (job, None),
    };
    let mut fatal = fatal.or_else(|| failures.flush().err());
    let text = if arguments.report.json {
        format!("{:#}\n", summary(arguments, outcome, interrupted.is_some()))
    } else if arguments.report.quiet {
        String::new()
    } else {
        words(arguments, outcome, interrupted.is_some())
    };
    if arguments.dry_run && arguments.report.verbose {
        // Standard output has the names.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        fatal = fatal.or_else(|| print(&text).err());
    }
    if !arguments.report.quiet {
        let words = recorded.unwrap_or_else(|| line::words().to_vec());
        let advice =
            advice::advice(arguments, outcome, (&words, interrupted.is_some() && !is_over, job.is_some()));
        advice.iter().for_each(|advice| hint(advice));
    }
    if let Some(fatal) = fatal {
        return fatal.report();
    }
    let is_whole = interrupted.is_none() && !outcome.parked && outcome.totals.failed() == 0;
    match job {
        Some(job) if is_whole && !job.is_in_target() => job.complete(&kept()).unwrap_or(code),
        Some(job) if outcome.parked => job.advise_for("make room in TARGET, then copy the rest with", code),
        Some(job) if job.is_in_target() && !arguments.update && !arguments.restart => {
            job.advise_for("to do what is left, give the same command again, or", code)
        }
        Some(job) => job.advise(code),
        None => left.unwrap_or(code),
    }
}
