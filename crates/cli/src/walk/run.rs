//! One run of `atta walk`: what it needs, alone and on rank 0, and how it ends. Ranks are in `ranks.rs`.

use std::time::{Duration, SystemTime};

use atta_ops::walk::{self, Features, Options, Progress, Rules, Summary, Totals};
use atta_runtime::{Rate, Stop};

use super::arguments::WalkArguments;
use super::figures;
use super::progress::Display;
use super::report::{Report, Whole};
use super::sink::Sink;
use crate::run::catalog::Recorded;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused;
use crate::run::report::by_errno;
use crate::run::settings::{compile, spill_directory, take};
use crate::run::signals::Signals;
use crate::run::starts::{Starts, root_paths};

/// How long threads that hang in a system call are waited for after a signal.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// What one run needs, made before anything is walked.
pub(super) struct Run<'a> {
    pub(super) arguments: &'a WalkArguments,
    pub(super) rules: Option<Rules>,
    pub(super) starts: Starts,
    pub(super) sink: Sink,
    pub(super) display: Display,
    pub(super) stop: Stop,
    pub(super) rate: Option<Rate>,
    pub(super) started: SystemTime,
}

impl<'a> Run<'a> {
    /// What this process needs, the first of so many ranks.
    pub(super) fn new(arguments: &'a WalkArguments, ranks: usize, stop: Stop) -> Result<Self, Refused> {
        let rules = compile(&arguments.visit.rules)?;
        let starts = Starts::new(
            &arguments.paths,
            arguments.from_list.as_deref(),
            arguments.list_form(),
            stop.clone(),
        )?;
        let summary = Summary::new(arguments.effort.memory / 4, spill_directory(), arguments.follow);
        let list = arguments.from_list.as_deref();
        let failures = Failures::new(arguments.tell.verbose, arguments.tell.errors.as_deref(), list)?;
        let sink = Sink::new(arguments, summary, failures, stop.clone(), ranks)?;
        let display = Display::new(arguments)?;
        let rate = arguments.effort.iops.map(Rate::new);
        Ok(Self { arguments, rules, starts, sink, display, stop, rate, started: SystemTime::now() })
    }

    pub(super) fn walk(self, signals: &Signals) -> u8 {
        let Self { arguments, rules, starts, sink, mut display, stop, rate, started } = self;
        let options = options(arguments, rules, rate.as_ref(), &stop);
        let list_error = starts.error();
        let outcome = walk::run(&sink, starts, &options, |progress| {
            display.tick(progress);
            if progress.stopping.is_some_and(|since| since > PATIENCE) {
                give_up(&sink, take(&list_error), &mut display, progress, signals);
            }
        });
        display.clear();
        let fatal = sink.take_fatal().or_else(|| take(&list_error));
        let totals = outcome.workers.iter().map(|worker| worker.totals.clone()).collect();
        let ended =
            Ended { totals, whole: Whole::alone(&outcome), fatal, interrupted: signals.code(), signals };
        conclude(arguments, sink, ended, display, started)
    }
}

/// How a walk ended.
pub(super) struct Ended<'a> {
    /// Of each thread, or of each rank.
    pub(super) totals: Vec<Totals>,
    pub(super) whole: Whole,
    pub(super) fatal: Option<Fatal>,
    /// The exit code of the signal that ended it.
    pub(super) interrupted: Option<u8>,
    /// A signal may still come.
    pub(super) signals: &'a Signals,
}

/// The walk's part of the arguments.
pub(super) fn options<'a>(
    arguments: &WalkArguments,
    rules: Option<Rules>,
    rate: Option<&'a Rate>,
    stop: &Stop,
) -> Options<'a> {
    Options {
        one_file_system: arguments.visit.one_file_system,
        max_depth: arguments.max_depth,
        follow: arguments.follow,
        lite: arguments.lite,
        targets: arguments.targets,
        birth_time: arguments.shows_attributes(),
        rules,
        rate,
        threads: arguments.effort.threads,
        memory_bytes: arguments.effort.memory / 2,
        spill_directory: spill_directory(),
        stop: stop.clone(),
        features: Features {
            statx_mount_id: !arguments.without.iter().any(|name| name == "statx-mount-id"),
            ..Features::default()
        },
        cores: atta_runtime::available_cores(),
    }
}

/// Ends the program although threads still hang in the kernel: nothing more will come of them.
pub(super) fn give_up(
    sink: &Sink,
    fatal: Option<Fatal>,
    display: &mut Display,
    progress: &Progress,
    signals: &Signals,
) -> ! {
    display.clear();
    sink.abandon();
    let mut fatal = sink.take_fatal().or(fatal);
    fatal = fatal.or_else(|| sink.failures.flush().err());
    let entries = progress.profile.entries;
    let state = if signals.code().is_some() { "interrupted; " } else { "" };
    let what = format!(
        "{state}some threads hang in the file system and were not waited for; {entries} entries were visited"
    );
    complain(&what, None);
    let code = fatal.map_or_else(|| signals.code().unwrap_or(exit::FATAL), Fatal::tell);
    std::process::exit(code.into());
}

/// Closes what was written, prints the summary, and says with which code to exit.
pub(super) fn conclude(
    arguments: &WalkArguments,
    sink: Sink,
    ended: Ended<'_>,
    display: Display,
    started: SystemTime,
) -> u8 {
    let Sink { summary, failures, catalog, .. } = sink;
    let Ended { totals, whole, mut fatal, interrupted, signals } = ended;
    let (totals, settled) = summary.finish(&totals, &signals.stop());
    let interrupted = interrupted.or(signals.code());
    if let Err(error) = settled {
        let what = format!("cannot count hard links: {}: {error}", spill_directory().display());
        fatal = fatal.or(Some(Fatal::Failed { what, hint: None }));
    }
    let report = Report { arguments, totals: &totals, outcome: &whole, interrupted: interrupted.is_some() };
    // What the catalog tells of errors must be in its file before it gets its name.
    fatal = fatal.or_else(|| failures.flush().err());
    if let Some(catalog) = catalog {
        if fatal.is_none() && interrupted.is_none() {
            let recorded = Recorded {
                roots: root_paths(&arguments.paths),
                totals: report.totals_json(),
                errors: by_errno(&totals.failures),
                started,
            };
            fatal = catalog.commit(recorded).err();
        } else {
            catalog.abandon();
            if interrupted.is_some() {
                complain("interrupted: no catalog was written", None);
            }
        }
    }
    if let Some(path) = &arguments.stats {
        fatal = fatal.or_else(|| report.write_stats(path).err());
    }
    if let Some(directory) = &arguments.plots {
        fatal = fatal.or_else(|| figures::draw(directory, &whole).err());
    }
    fatal = fatal.or_else(|| report.print().and_then(|()| display.finish(&report)).err());
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    interrupted.unwrap_or(if totals.failed() > 0 { exit::PARTIAL } else { exit::DONE })
}
