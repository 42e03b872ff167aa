//! `atta copy`: sets a copy up, lets it run, and says what was copied and what was not.

mod arguments;
mod keep;
mod owners;
mod plans;
mod stripes;
mod summary;

use std::io::{IsTerminal, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use atta_entry::Failure;
use atta_ops::copy::{self, Keep, Options, Outcome, Planned, Progress, Watch};
use atta_ops::walk;
use atta_runtime::{Rate, Stop};
use indicatif::ProgressBar;
use serde_json::json;

pub(crate) use arguments::CopyArguments;
use arguments::{DigestKind, ReflinkWhen};
use plans::Plans;
use summary::{summary, words};

use crate::events::Events;
use crate::fatal::Fatal;
use crate::file::print;
use crate::signals::Signals;
use crate::size::{binary, grouped};
use crate::walk::{Failures, ProgressWhen, Refused, Starts, bar, compile, spill_directory, take};
use crate::{complain, exit};

/// Between two lines where there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &CopyArguments, signals: &Signals) -> u8 {
    match Run::new(arguments) {
        Ok(run) => run.copy(signals),
        Err(refused) => refused.tell(),
    }
}

/// What one run needs, made before anything is copied.
struct Run<'a> {
    arguments: &'a CopyArguments,
    failures: Failures,
    display: Display,
    rate: Option<Rate>,
    rules: Option<walk::Rules>,
    keep: Keep,
}

/// Tells of what was not copied, and of what would be.
struct Told<'a> {
    failures: &'a Failures,
    /// What would be made, if that is to be told.
    plans: Option<Plans>,
}

impl Watch for Told<'_> {
    fn failure(&self, failure: &Failure<'_>) {
        self.failures.add(failure);
    }

    fn planned(&self, planned: Planned, path: &[u8]) {
        if let Some(plans) = &self.plans {
            plans.add(planned, path);
        }
    }
}

impl<'a> Run<'a> {
    fn new(arguments: &'a CopyArguments) -> Result<Self, Refused> {
        if arguments.paths.iter().any(|path| path.is_empty()) {
            let hint = "the working directory is '.'";
            return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
        }
        if arguments.reflink == ReflinkWhen::Always && arguments.digest == DigestKind::Blake3 {
            let what = "--reflink always, and a digest of bytes that nobody reads".to_owned();
            return Err(Refused::usage(what, "add --digest none"));
        }
        let (rules, keep) = (compile(&arguments.rules)?, arguments.keep.keep()?);
        let list = arguments.from_list.as_deref();
        let failures = Failures::new(arguments.verbose, arguments.errors.as_deref(), list)?;
        let display = Display::new(arguments)?;
        Ok(Self { arguments, failures, display, rate: arguments.iops.map(Rate::new), rules, keep })
    }

    fn copy(self, signals: &Signals) -> u8 {
        let Self { arguments, failures, mut display, rate, rules, keep } = self;
        let stop = Stop::new();
        let options = options(arguments, rate.as_ref(), rules, keep, &stop);
        let paths: Vec<_> = arguments.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let Some((target, sources)) = paths.split_last() else { return exit::USAGE };
        let plans = (arguments.dry_run && arguments.verbose).then(Plans::default);
        let told = Told { failures: &failures, plans };
        let observe = |progress: &Progress| {
            if signals.code().is_some() {
                stop.set();
            }
            display.tick(progress);
        };
        let mut list_error = None;
        let outcome = match &arguments.from_list {
            None => copy::run(sources, target, &options, &told, observe),
            Some(list) => match Starts::listed(list, sources.to_vec(), stop.clone()) {
                Ok(starts) => {
                    let error = starts.error();
                    let outcome = copy::run_listed(sources, starts, target, &options, &told, observe);
                    list_error = take(&error);
                    outcome
                }
                Err(refused) => return refused.tell(),
            },
        };
        display.clear();
        let fatal = list_error.or_else(|| told.plans.as_ref().and_then(|plans| plans.finish().err()));
        match outcome {
            Ok(outcome) => {
                let interrupted = signals.code();
                let told = || summary(arguments, &outcome, interrupted.is_some());
                let fatal = fatal.or_else(|| display.events.finish(told).err());
                conclude(arguments, &failures, &outcome, interrupted, fatal)
            }
            Err(copy::Refused { what, hint, is_usage }) => {
                complain(&what, Some(hint));
                if is_usage { exit::USAGE } else { exit::FATAL }
            }
        }
    }
}

/// The copy's part of the arguments.
fn options<'a>(
    arguments: &CopyArguments,
    rate: Option<&'a Rate>,
    rules: Option<walk::Rules>,
    keep: Keep,
    stop: &Stop,
) -> Options<'a> {
    let walk = walk::Options {
        one_file_system: arguments.one_file_system,
        birth_time: false,
        rules,
        rate,
        threads: arguments.threads,
        memory_bytes: arguments.memory / 2,
        spill_directory: spill_directory(),
        stop: stop.clone(),
        ..walk::Options::default()
    };
    Options {
        walk,
        fsync: arguments.fsync.into(),
        digest: arguments.digest == DigestKind::Blake3,
        chunk: arguments.chunk.bytes(),
        keep,
        existing: arguments.existing(),
        in_place: arguments.in_place,
        is_rehearsal: arguments.dry_run,
        direct: arguments.direct,
        reflink: arguments.reflink.into(),
        stripes: arguments.stripes(),
        bandwidth: arguments.bandwidth.map(|bytes| Arc::new(Rate::per_second(bytes))),
    }
}

/// Says what was done, and with which code to exit.
fn conclude(
    arguments: &CopyArguments,
    failures: &Failures,
    outcome: &Outcome,
    interrupted: Option<u8>,
    fatal: Option<Fatal>,
) -> u8 {
    let mut fatal = fatal.or_else(|| failures.flush().err());
    let text = if arguments.json {
        format!("{:#}\n", summary(arguments, outcome, interrupted.is_some()))
    } else if arguments.quiet {
        String::new()
    } else {
        words(arguments, outcome, interrupted.is_some())
    };
    if arguments.dry_run && arguments.verbose {
        // Standard output has the names.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        fatal = fatal.or_else(|| print(&text).err());
    }
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    interrupted.unwrap_or(if outcome.totals.failed() > 0 { exit::PARTIAL } else { exit::DONE })
}

/// Shows how it goes.
struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    events: Events,
    next: Duration,
}

impl Display {
    fn new(arguments: &CopyArguments) -> Result<Self, Refused> {
        let terminal = std::io::stderr().is_terminal();
        let (shown, lines) = match arguments.progress {
            ProgressWhen::Auto => (terminal && !arguments.quiet, false),
            ProgressWhen::Always => (terminal, !terminal),
            ProgressWhen::Never => (false, false),
        };
        let events = Events::new(arguments.events.as_deref())?;
        Ok(Self { bar: shown.then(bar), lines, events, next: PERIOD })
    }

    fn tick(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_message(line(progress));
            bar.tick();
        }
        let elapsed = progress.walk.elapsed;
        if elapsed < self.next {
            return;
        }
        self.next = elapsed + PERIOD;
        if self.lines {
            // Nothing can be said of an error of standard error.
            let _ = writeln!(std::io::stderr(), "{}", line(progress));
        }
        let found = &progress.walk.profile;
        self.events.tell(&json!({
            "event": "progress",
            "elapsed_seconds": elapsed.as_secs_f64(),
            "files": progress.files,
            "bytes": progress.bytes,
            "entries_found": found.entries,
            "bytes_found": found.bytes,
            "failures": found.failures,
            "threads": progress.walk.threads,
            "growing": true,
        }));
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(progress: &Progress) -> String {
    let found = &progress.walk.profile;
    format!(
        "{} files, {} copied of {} entries, {} found so far; {} threads",
        grouped(progress.files),
        binary(progress.bytes),
        grouped(found.entries),
        binary(found.bytes),
        progress.walk.threads
    )
}
