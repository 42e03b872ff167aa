//! `atta sum`: sets up a run, runs it, and reports what was hashed and what was not.

mod arguments;
mod check;
mod logged;
pub(crate) mod run;
pub(crate) mod sink;
mod summary;
pub(crate) mod totals;

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use atta_mpi_loader::Launcher;
use atta_ops::sum;
use atta_ops::walk::Start;
use atta_runtime::{RankError, Session};

pub(crate) use arguments::SumArguments;
use arguments::SumFormat;
use run::{Hashed, Prepared};
use sink::{Setting, Sink};
use totals::Summed;

use crate::input::Input;
use crate::run::beside::{self, WithJob};
use crate::run::catalog::Recorded;
use crate::run::earlier::{Again, Earlier};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::{describe, print};
use crate::run::job::{Asked, Job};
use crate::run::logged::report_no_log;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::printing::Printing;
use crate::run::refused::Refused;
use crate::run::report::by_errno;
use crate::run::session;
use crate::run::settings::compile;
use crate::run::signals::Signals;

/// Time to wait for other ranks after a signal.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &SumArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    let printing = Printing::of(&arguments.report, arguments.prints(), arguments.check.as_deref());
    let reads_once = arguments.check.is_some() || arguments.reads_input();
    let given = session::Given {
        launcher,
        schedule: &arguments.ranks,
        signals,
        give_up: GIVE_UP,
        printing,
        reads_once,
    };
    session::run(&given, arguments, |arguments, session| {
        if arguments.check.is_some() {
            check::run(arguments, signals, session)
        } else if !arguments.reads_input() {
            sum_trees(arguments, signals, session)
        } else if session.seat().ranks == 1 {
            Ok(sum_input(arguments, signals).unwrap_or_else(Refused::report))
        } else {
            if session.is_first() {
                let hint = "run it without mpirun or srun, or name PATHs";
                complain("standard input is read on one rank", Some(hint));
            }
            Ok(exit::USAGE)
        }
    })
}

/// Hashes standard input.
fn sum_input(arguments: &SumArguments, signals: &Signals) -> Result<u8, Refused> {
    if arguments.paths.is_empty() && io::stdin().is_terminal() {
        let hint = "the working directory is '.', standard input is '-'";
        return Err(Refused::usage("there is no PATH".to_owned(), hint));
    }
    if arguments.output.is_some() || !matches!(arguments.rows(), None | Some(SumFormat::B3sum)) {
        let hint = "its digest and its signature can be printed";
        return Err(Refused::usage("standard input is no entry that a row could describe".to_owned(), hint));
    }
    let (digest, _, signature) = sum::of_reader(Input::new(signals.stop()))
        .map_err(|error| Refused::fatal(format!("cannot read standard input: {}", describe(&error))))?;
    if let Some(code) = signals.code() {
        // Only a part was read.
        return Ok(code);
    }
    let text =
        if arguments.signature { format!("{}\n", signature.digest()) } else { format!("{digest}  -\n") };
    Ok(print(&text).map_or_else(Fatal::report, |()| exit::DONE))
}

/// Hashes trees.
fn sum_trees(
    arguments: &SumArguments,
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<u8, RankError> {
    let started = SystemTime::now();
    let prepared = session.is_first().then(|| prepare(arguments, session));
    let roots = prepared.iter().flatten().flat_map(|prepared| prepared.roots.clone()).collect();
    Ok(match run::hash(arguments, signals, session, prepared)? {
        Ok(Hashed { sink, summed, job }) => {
            conclude(arguments, &sink, &summed, Recording { roots, started, job }, signals)
        }
        Err(code) => code,
    })
}

fn prepare<'a>(arguments: &SumArguments, session: &Session<'_>) -> Result<Prepared<'a>, Refused> {
    let starts = given(arguments)?;
    compile(&arguments.visit.rules)?;
    let roots: Vec<_> = starts.iter().map(|start| start.root.clone()).collect();
    let WithJob { job, lacks } = begun(arguments, &roots, session)?;
    let place = job.as_ref().map(|job| job.running.place());
    let setting = Setting { is_list: false, job: place };
    // After the job is begun: another process may have it, and this file.
    let opened = Failures::new(arguments.report.verbose, arguments.report.errors.as_deref(), None)
        .and_then(|failures| Sink::new(arguments, failures, setting, session));
    let sink = match opened {
        Ok(sink) => sink,
        Err(refused) => {
            job.into_iter().for_each(Job::give_up);
            return Err(refused);
        }
    };
    if let Some(what) = lacks {
        report_no_log(&what);
    }
    Ok(Prepared { sink, starts: Box::new(starts.into_iter()), roots, enters: true, job })
}

/// Begins the job of a run that writes a catalog, or goes on with it.
fn begun(arguments: &SumArguments, roots: &[Vec<u8>], session: &Session<'_>) -> Result<WithJob, Refused> {
    let Some(output) = &arguments.output else { return Ok(WithJob::default()) };
    let (restarts, deaths) = (arguments.restart, arguments.deaths.clone());
    let asked = Asked { restarts, deaths, agrees: arguments.agrees(), roots: roots.to_vec() };
    let has_job = !arguments.lacks_job() && session.runs_tasks();
    beside::begin((output, "atta sum"), has_job.then_some(asked), arguments.report.kept())
}

/// The PATHs that were given.
fn given(arguments: &SumArguments) -> Result<Vec<Start>, Refused> {
    if arguments.paths.iter().any(|path| path.is_empty()) {
        return Err(Refused::usage("PATH is empty".to_owned(), "the working directory is '.'"));
    }
    if arguments.paths.iter().any(|path| path == "-") {
        let hint = "read it by itself; a file of this name is './-'";
        return Err(Refused::usage("standard input among other PATHs".to_owned(), hint));
    }
    Ok(arguments.paths.iter().map(|path| Start::new(path.as_bytes())).collect())
}

/// Data about the run that a catalog records.
struct Recording {
    roots: Vec<Vec<u8>>,
    started: SystemTime,
    job: Option<Job>,
}

/// Closes all output, reports the result and returns the exit code.
fn conclude(
    arguments: &SumArguments,
    sink: &Sink,
    outcome: &Summed,
    recording: Recording,
    signals: &Signals,
) -> u8 {
    let mut fatal = sink.take_fatal();
    if signals.code().or(outcome.interrupted()).is_none() {
        fatal = fatal.or_else(|| sink.print_sorted().err());
    }
    let interrupted = signals.code().or(outcome.interrupted());
    // The errors of a catalog must be in their file before the catalog gets its name.
    fatal = fatal.or_else(|| sink.failures.flush().err());
    let has_changed = outcome.earlier.as_ref().is_some_and(Earlier::has_changed);
    let is_partial = outcome.totals.failed() > 0 || has_changed;
    let code = interrupted.unwrap_or(if is_partial { exit::PARTIAL } else { exit::DONE });
    let Recording { roots, started, mut job } = recording;
    let mut left = None;
    if let Some(catalog) = &sink.catalog {
        if fatal.is_none() && interrupted.is_none() {
            let (totals, errors) = (summary::totals(outcome), by_errno(&outcome.totals.failures));
            let job_of = job.as_ref().map(Job::recorded);
            fatal = catalog.commit(Recorded { roots, totals, errors, started, job: job_of }).err();
            // Before anything is printed: the catalog is complete.
            if fatal.is_none() {
                left = job.take().and_then(|job| job.remove(&summary::kept(outcome, code), false));
            }
        } else {
            catalog.abandon();
            if interrupted.is_some() {
                complain(&format!("interrupted: {}", catalog.why_not_written()), None);
            }
        }
    }
    if arguments.signature && fatal.is_none() {
        fatal = print_signature(outcome).err();
    }
    fatal = fatal.or_else(|| summary::report(arguments, outcome, interrupted.is_some()).err());
    if let Some(fatal) = fatal {
        return fatal.report();
    }
    if interrupted.is_none()
        && let Some(earlier) = &outcome.earlier
    {
        earlier.advise(Again::ToAnotherOutput);
    }
    match job {
        Some(job) => job.advise_for("to do what is left, give the same command again, or", code),
        None => left.unwrap_or(code),
    }
}

fn print_signature(outcome: &Summed) -> Result<(), Fatal> {
    match &outcome.signature {
        Some(signature) => print(&format!("{}\n", signature.digest())),
        None => {
            complain("there is no signature: not all could be read", None);
            Ok(())
        }
    }
}
