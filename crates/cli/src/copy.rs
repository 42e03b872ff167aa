//! `atta copy`: sets up a copy, runs it, and reports what was copied and what was not, alone or on several ranks.

mod advice;
mod arguments;
mod by_rank;
mod end;
mod keep;
pub(crate) mod logged;
mod manifest;
mod notices;
mod owners;
mod pace;
pub(crate) mod part;
pub(crate) mod per_node;
mod plans;
mod rehearse;
mod reporter;
mod reports;
mod run;
pub(crate) mod setting;
mod stripes;
mod summary;

use std::time::Duration;

use atta_mpi_loader::Launcher;

pub(crate) use arguments::CopyArguments;

use crate::run::printing::Printing;
use crate::run::session::{self, Given};
use crate::run::signals::Signals;

/// Time to wait for other ranks after a signal while they do not respond.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &CopyArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    let has_rows = arguments.dry_run && arguments.report.verbose;
    let printing = Printing::of(&arguments.report, has_rows, arguments.list().map(|(list, _)| list));
    let reads_once = arguments.list().is_some();
    let given =
        Given { launcher, schedule: &arguments.ranks, signals, give_up: GIVE_UP, printing, reads_once };
    session::run(&given, arguments, |arguments, session| match arguments.per_node {
        true => per_node::run(arguments, signals, session),
        false => run::run(arguments, signals, None, session),
    })
}
