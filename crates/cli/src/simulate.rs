//! `atta simulate`: runs the engine of many ranks on the simulator's virtual clock, one run after the other, and reports the results. The
//! models are in `atta-sim`; nothing here touches a tree or an MPI.

mod arguments;
mod count;
mod experiment;
mod figures;
mod report;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use atta_sim::{Outcome, simulate_watched};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(crate) use arguments::SimulateArguments;
use arguments::{Case, PAIRS_MAX};
use report::Report;

use crate::run::fatal::Fatal;
use crate::run::file;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::signals::Signals;

/// A run and its result.
pub(crate) struct Done {
    pub(crate) case: Case,
    pub(crate) outcome: Outcome,
    /// Time that the simulation itself took.
    pub(crate) elapsed: Duration,
}

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &SimulateArguments, signals: &Signals) -> u8 {
    let cases = match arguments.cases() {
        Ok(cases) => cases,
        Err(why) => {
            complain(&why, Some("see atta simulate --help"));
            return exit::USAGE;
        }
    };
    if arguments.plots.is_some() && cases.iter().any(|case| !case.setup.count_pairs) {
        let hint = format!("messages of each pair are counted up to {PAIRS_MAX} ranks");
        complain("there will be no heat maps of runs with more ranks", Some(&hint));
    }
    let bar = bar(arguments, &cases);
    let mut done = Vec::with_capacity(cases.len());
    for case in cases {
        bar.set_message(format!("{} {}", case.series, case.group));
        match run_case(case, signals, &bar) {
            Ok(Some(run)) => done.push(run),
            Ok(None) => break,
            Err(fatal) => {
                bar.finish_and_clear();
                return fatal.report();
            }
        }
    }
    bar.finish_and_clear();
    conclude(arguments, &done, signals.code())
}

/// Simulates one run; `None` if a signal ended it.
fn run_case(case: Case, signals: &Signals, bar: &ProgressBar) -> Result<Option<Done>, Fatal> {
    let (started, before) = (Instant::now(), bar.position());
    let watched = simulate_watched(&case.setup, |files| {
        bar.set_position(before + files);
        if signals.code().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let outcome = watched.map_err(|violation| Fatal::Failed {
        what: format!("the protocol broke a rule: {} {}: {violation}", case.series, case.group),
        hint: Some("this is a bug of atta; the same command repeats it".to_owned()),
    })?;
    bar.set_position(before + case.setup.tree.files());
    // A run that is too short to be watched ends before the signal is seen.
    let outcome = outcome.filter(|_| signals.code().is_none());
    Ok(outcome.map(|outcome| Done { case, outcome, elapsed: started.elapsed() }))
}

/// Writes the requested output and returns the exit code.
fn conclude(arguments: &SimulateArguments, done: &[Done], interrupted: Option<u8>) -> u8 {
    let report = Report { arguments, done, interrupted: interrupted.is_some() };
    match write(&report) {
        Ok(()) => interrupted.unwrap_or(exit::DONE),
        Err(fatal) => fatal.report(),
    }
}

fn write(report: &Report<'_>) -> Result<(), Fatal> {
    let arguments = report.arguments;
    if let Some(path) = &arguments.stats {
        file::write_stats(path, &report.json())?;
    }
    // A comparison that lacks runs would look complete.
    if let Some(directory) = arguments.plots.as_ref().filter(|_| !report.interrupted) {
        crate::figures::write(directory, figures::figures(arguments, report.done))?;
    }
    if arguments.json {
        return file::print(&format!("{}\n", report.json()));
    }
    if arguments.quiet { Ok(()) } else { file::print(&report.text()) }
}

/// Progress bar on standard error, if that is a terminal: files done, over all runs.
fn bar(arguments: &SimulateArguments, cases: &[Case]) -> ProgressBar {
    if arguments.quiet {
        return ProgressBar::hidden();
    }
    let files = cases.iter().map(|case| case.setup.tree.files()).sum();
    let bar = ProgressBar::with_draw_target(Some(files), ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} files, {eta} left, {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
