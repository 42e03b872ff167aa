//! `atta sum`: sets up a run, runs it, and reports what was hashed and what was not.

mod arguments;
mod check;
mod sink;
mod summary;

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use atta_ops::sum::{self, Options, Outcome, Progress};
use atta_ops::walk::{self, Rules, Start};
use atta_runtime::{Rate, Stop};

pub(crate) use arguments::SumArguments;
use arguments::SumFormat;
use sink::{Sink, SinkWorker};

use crate::input::Input;
use crate::run::catalog::Recorded;
use crate::run::display::Display;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::{describe, print};
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::refused::Refused;
use crate::run::report::by_errno;
use crate::run::settings::compile;
use crate::run::settings::spill_directory;
use crate::run::signals::Signals;
use crate::size::{binary, grouped};

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &SumArguments, signals: &Signals) -> u8 {
    let done = if arguments.check.is_some() {
        check::run(arguments, signals)
    } else if arguments.reads_input() {
        sum_input(arguments, signals)
    } else {
        sum_trees(arguments, signals)
    };
    done.unwrap_or_else(Refused::tell)
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
    Ok(print(&text).map_or_else(Fatal::tell, |()| exit::DONE))
}

/// Hashes trees.
fn sum_trees(arguments: &SumArguments, signals: &Signals) -> Result<u8, Refused> {
    let started = SystemTime::now();
    let starts = given(arguments)?;
    let stop = signals.stop();
    let rules = compile(&arguments.visit.rules)?;
    let failures = Failures::new(arguments.tell.verbose, arguments.tell.errors.as_deref(), None)?;
    let sink = Sink::new(arguments, failures, None, false, stop.clone())?;
    let roots = starts.iter().map(|start| start.root.clone()).collect();
    let outcome = hash(arguments, rules, &sink, starts, true, &stop);
    Ok(conclude(arguments, &sink, &outcome, Recording { roots, started }, signals))
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

/// Hashes all entries; `enters`: also those in directories.
fn hash(
    arguments: &SumArguments,
    rules: Option<Rules>,
    sink: &Sink,
    starts: impl IntoIterator<Item = Start, IntoIter: Send>,
    enters: bool,
    stop: &Stop,
) -> Outcome<SinkWorker> {
    let rate = arguments.effort.iops.map(Rate::new);
    let walk = walk::Options {
        one_file_system: arguments.visit.one_file_system,
        birth_time: sink.shows_attributes(),
        rules,
        rate: rate.as_ref(),
        threads: arguments.effort.threads,
        memory_bytes: arguments.effort.memory / 2,
        spill_directory: spill_directory(),
        stop: stop.clone(),
        ..walk::Options::default()
    };
    // As in `atta sum . > sums`: the file would change all the time.
    let output = if arguments.prints() { sum::regular_file_of(io::stdout()) } else { None };
    let (chunk, hole_bytes_max) = (arguments.chunk.bytes(), Some(arguments.max_holes));
    let options = Options { walk, chunk, hole_bytes_max, enters, output };
    let mut display = Display::new(&arguments.tell, arguments.prints());
    let outcome = sum::run_alone(sink, starts, &options, |progress| {
        display.tick(progress.walk.elapsed, || line(progress));
    });
    display.clear();
    outcome
}

fn line(progress: &Progress) -> String {
    let found = &progress.walk.profile;
    format!(
        "{} files, {} hashed of {} entries, {} found so far; {} threads",
        grouped(progress.files),
        binary(progress.bytes),
        grouped(found.entries),
        binary(found.bytes),
        progress.walk.threads
    )
}

/// Data about the run that a catalog records.
struct Recording {
    roots: Vec<Vec<u8>>,
    started: SystemTime,
}

/// Closes all output, reports the result and returns the exit code.
fn conclude(
    arguments: &SumArguments,
    sink: &Sink,
    outcome: &Outcome<SinkWorker>,
    recording: Recording,
    signals: &Signals,
) -> u8 {
    let mut fatal = sink.take_fatal();
    if signals.code().is_none() {
        fatal = fatal.or_else(|| sink.print_sorted().err());
    }
    let interrupted = signals.code();
    // The errors of a catalog must be in their file before the catalog gets its name.
    fatal = fatal.or_else(|| sink.failures.flush().err());
    if let Some(catalog) = &sink.catalog {
        if fatal.is_none() && interrupted.is_none() {
            let (totals, errors) = (summary::totals(outcome), by_errno(&outcome.totals.failures));
            fatal = catalog
                .commit(Recorded { roots: recording.roots, totals, errors, started: recording.started })
                .err();
        } else {
            catalog.abandon();
            if interrupted.is_some() {
                complain("interrupted: no catalog was written", None);
            }
        }
    }
    if arguments.signature && fatal.is_none() {
        fatal = print_signature(outcome).err();
    }
    fatal = fatal.or_else(|| summary::tell(arguments, outcome, interrupted.is_some()).err());
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    interrupted.unwrap_or(if outcome.totals.failed() > 0 { exit::PARTIAL } else { exit::DONE })
}

fn print_signature(outcome: &Outcome<SinkWorker>) -> Result<(), Fatal> {
    match &outcome.signature {
        Some(signature) => print(&format!("{}\n", signature.digest())),
        None => {
            complain("there is no signature: not all could be read", None);
            Ok(())
        }
    }
}
