//! `atta walk`: visits trees and reports their contents, alone or on several ranks. Each module imports only those before it: arguments,
//! threads, report, figures, progress, sink, totals, end, logged, run.

mod arguments;
mod end;
mod figures;
pub(crate) mod logged;
mod progress;
mod report;
pub(crate) mod run;
mod sink;
pub(crate) mod threads;
pub(crate) mod totals;

use std::sync::Arc;
use std::time::Duration;

use atta_mpi_loader::Launcher;

pub(crate) use arguments::WalkArguments;

use crate::run::own::OwnJob;
use crate::run::printing::Printing;
use crate::run::session::{self, Given};
use crate::run::signals::Signals;

/// Time to wait for other ranks after a signal.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &WalkArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    let printing =
        Printing::of(&arguments.report, arguments.row_format().is_some(), arguments.from_list.as_deref());
    let reads_once = arguments.from_list.is_some();
    let given =
        Given { launcher, schedule: &arguments.ranks, signals, give_up: GIVE_UP, printing, reads_once };
    let mut arguments = arguments.clone();
    arguments.own = arguments.survive.map(|copies| Arc::new(OwnJob::new(copies)));
    session::run(&given, &arguments, |arguments, session| run::run(arguments, signals, session))
}
