//! `atta walk`: visits trees and says what is in them, alone or on several ranks. Each module imports only those before it: arguments,
//! threads, report, figures, progress, sink, run, ranks.

mod arguments;
mod figures;
mod progress;
mod ranks;
mod report;
mod run;
mod sink;
mod threads;

use atta_mpi_loader::Launcher;

pub(crate) use arguments::WalkArguments;

use crate::run::signals::Signals;

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &WalkArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    if let Some(launcher) = launcher {
        return ranks::run(arguments, signals, launcher);
    }
    match run::Run::new(arguments, 1, signals.stop()) {
        Ok(run) => run.walk(signals),
        Err(refused) => refused.tell(),
    }
}
