//! `atta verify`: sets up a comparison, runs it and reports the differences.

mod arguments;
mod logged;
mod report;
mod rows;
pub(crate) mod run;
pub(crate) mod totals;

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use atta_mpi_loader::Launcher;
use atta_runtime::Session;

pub(crate) use arguments::VerifyArguments;
use rows::Rows;
use run::Prepared;
use totals::Compared;

use crate::run::beside::WithJob;

use crate::run::earlier::Again;
use crate::run::failures::is_same_file;
use crate::run::file::{print, printable};
use crate::run::job::{self, Job};
use crate::run::logged::report_no_log;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::printing::Printing;
use crate::run::refused::Refused;
use crate::run::session;
use crate::run::settings::compile;
use crate::run::signals::Signals;

/// Time to wait for other ranks after a signal.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &VerifyArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    let has_rows = arguments.row_format().is_some();
    let printing = Printing::of(&arguments.report, has_rows, arguments.output.as_deref());
    let reads_once = false;
    let given = session::Given {
        launcher,
        schedule: &arguments.ranks,
        signals,
        give_up: GIVE_UP,
        printing,
        reads_once,
    };
    session::run(&given, arguments, |arguments, session| {
        let prepared = session.is_first().then(|| prepare(arguments, signals, session));
        Ok(match run::compare(arguments, signals, session, prepared)? {
            Ok((prepared, compared)) => conclude(arguments, prepared, &compared, signals),
            Err(code) => code,
        })
    })
}

/// Checks the arguments, begins the job and opens the output.
fn prepare(
    arguments: &VerifyArguments,
    signals: &Signals,
    session: &Session<'_>,
) -> Result<Prepared, Refused> {
    if arguments.source.is_empty() || arguments.target.is_empty() {
        let hint = "the working directory is '.'";
        return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
    }
    if let Some((output, errors)) = arguments.output.as_deref().zip(arguments.report.errors.as_deref())
        && (output == errors || is_same_file(output, errors))
    {
        let what = format!("--output and --errors are one file: {}", printable(output));
        return Err(Refused::usage(what, "name two files"));
    }
    compile(&arguments.visit.rules)?;
    let roots = [&arguments.source, &arguments.target].map(|root| root.as_bytes().to_vec());
    let WithJob { job, lacks } = logged::begun(arguments, roots.to_vec(), session)?;
    let place = job.as_ref().map(|job| job.running.place());
    // After the job is begun: another process may have it, and these files.
    let rows = match Rows::new(arguments, (place, signals.stop()), session) {
        Ok(rows) => rows,
        Err(refused) => {
            job.into_iter().for_each(Job::give_up);
            return Err(refused);
        }
    };
    if let Some(what) = lacks {
        report_no_log(&what);
    }
    Ok(Prepared { rows, job })
}

/// Reports the result and returns the exit code.
fn conclude(
    arguments: &VerifyArguments,
    Prepared { rows, job }: Prepared,
    outcome: &Compared,
    signals: &Signals,
) -> u8 {
    let interrupted = signals.code().or(outcome.interrupted());
    let mut fatal = rows.finish(interrupted.is_none());
    if interrupted.is_some() && arguments.output.is_some() {
        complain("interrupted: no table was written", None);
    }
    let text = if arguments.report.json {
        format!("{:#}\n", report::summary(outcome, interrupted.is_some()))
    } else if arguments.report.quiet {
        String::new()
    } else {
        report::words(outcome, interrupted.is_some())
    };
    if arguments.row_format().is_some() {
        // An error of standard error cannot be reported.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        fatal = fatal.or_else(|| print(&text).err());
    }
    if let Some(fatal) = fatal {
        return fatal.report();
    }
    let code = interrupted.unwrap_or(if outcome.is_same() { exit::DONE } else { exit::DIFFERENT });
    if interrupted.is_none()
        && let Some(earlier) = &outcome.earlier
    {
        earlier.advise(if arguments.output.is_some() { Again::Given } else { Again::Restarted });
    }
    match job {
        Some(job) if outcome.stopped || interrupted.is_some() => {
            job.advise_for("to do what is left, give the same command again, or", code)
        }
        Some(job) => end(job, outcome, code),
        None => code,
    }
}

/// Ends the job of a run that has come to its end. What failed is compared again by a later run only if the user has named the directory of the job.
fn end(job: Job, outcome: &Compared, code: u8) -> u8 {
    let kept = job::kept(code, &report::summary(outcome, false).to_string(), &report::words(outcome, false));
    if job.is_in_target() {
        job.remove(&kept, false).unwrap_or(code)
    } else if outcome.totals.failed() > 0 {
        job.advise_for("to try again what failed", code)
    } else {
        job.complete(&kept).unwrap_or(code)
    }
}
