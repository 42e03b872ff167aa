//! `atta verify`: sets up a comparison, runs it and reports the differences.

mod arguments;
mod report;
mod rows;
pub(crate) mod run;
pub(crate) mod totals;

use std::io::Write as _;
use std::time::Duration;

use atta_mpi_loader::Launcher;
use atta_runtime::Session;

pub(crate) use arguments::VerifyArguments;
use rows::Rows;
use totals::Compared;

use crate::run::file::print;
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
    let printing = Printing::of(&arguments.report, arguments.row_format().is_some(), None);
    let given = session::Given { launcher, schedule: &arguments.ranks, signals, give_up: GIVE_UP, printing };
    session::run(&given, |session| {
        let rows = session.is_first().then(|| prepare(arguments, signals, session));
        Ok(match run::compare(arguments, signals, session, rows)? {
            Ok((rows, compared)) => conclude(arguments, rows, &compared, signals),
            Err(code) => code,
        })
    })
}

/// Checks the arguments and opens the output.
fn prepare(arguments: &VerifyArguments, signals: &Signals, session: &Session<'_>) -> Result<Rows, Refused> {
    if arguments.source.is_empty() || arguments.target.is_empty() {
        let hint = "the working directory is '.'";
        return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
    }
    compile(&arguments.visit.rules)?;
    Rows::new(arguments, signals.stop(), session)
}

/// Reports the result and returns the exit code.
fn conclude(arguments: &VerifyArguments, rows: Rows, outcome: &Compared, signals: &Signals) -> u8 {
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
    interrupted.unwrap_or(if outcome.totals.is_same() { exit::DONE } else { exit::DIFFERENT })
}
