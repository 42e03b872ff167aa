//! End of a copy: prints the summary and picks the exit code. Nothing is copied here.

use std::io::Write as _;

use atta_ops::copy;

use super::advice;
use super::arguments::CopyArguments;
use super::summary::{Whole, summary, words};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::print;
use crate::run::messages::{complain, exit, hint};

/// Reports why nothing is copied; returns the exit code.
pub(super) fn report_refused(copy::Refused { what, hint, is_usage }: &copy::Refused) -> u8 {
    complain(what, Some(hint.as_ref()));
    if *is_usage { exit::USAGE } else { exit::FATAL }
}

/// Reports the result and returns the exit code.
pub(super) fn conclude(
    arguments: &CopyArguments,
    failures: &Failures,
    outcome: &Whole,
    interrupted: Option<u8>,
    fatal: Option<Fatal>,
) -> u8 {
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
        let advice = advice::advice(arguments, outcome, interrupted.is_some());
        advice.iter().for_each(|advice| hint(advice));
    }
    if let Some(fatal) = fatal {
        return fatal.report();
    }
    // A copy is partial if a file that was to be read back was not.
    let is_partial = outcome.totals.failed() > 0 || outcome.totals.not_verified > 0;
    interrupted.unwrap_or(if is_partial { exit::PARTIAL } else { exit::DONE })
}
