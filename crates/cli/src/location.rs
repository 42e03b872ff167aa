//! `atta where`: which file system each PATH is on, which ranks see the same, and how much space there is. It writes nothing.
//!
//! ```text
//!   arguments.rs  what is asked                     apart.rs   questions in a process that can be left behind
//!   gather.rs     all ranks: tables, looks          answer.rs  that process
//!   row.rs        one PATH, as it is printed        text.rs, json.rs  for people, for programs
//!   need.rs       which mount points suit           saved.rs   maps in files
//! ```

mod answer;
mod apart;
mod arguments;
mod gather;
mod json;
mod need;
mod row;
mod saved;
mod text;

use std::time::Duration;

use atta_mpi_loader::Launcher;
use atta_runtime::{RankError, Session};

#[cfg(test)]
pub(crate) use answer::Question;
pub(crate) use answer::answer;
use apart::Apart;
pub(crate) use arguments::WhereArguments;
use gather::{Gathered, gather, read_on_all};
use row::Row;

use crate::run::file::print;
use crate::run::messages::{complain, exit};
use crate::run::printing::Printing;
use crate::run::refused::Refused;
use crate::run::session;
use crate::run::signals::Signals;
use crate::schedule::RankArguments;

/// Time to wait for other ranks after a signal.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &WhereArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    let given = session::Given {
        launcher,
        schedule: &RankArguments::default(),
        signals,
        give_up: GIVE_UP,
        printing: Printing::of_text(arguments.json),
        // A short question is asked again by whoever needs the answer.
        reads_once: true,
    };
    session::run(&given, &(), |(), session| locate(arguments, signals, session))
}

/// One rank's part.
fn locate(arguments: &WhereArguments, signals: &Signals, session: &mut Session<'_>) -> Result<u8, RankError> {
    let done = match &arguments.map {
        Some(map) => saved::ask(map, arguments, session),
        None => ask_ranks(arguments, signals, session)?,
    };
    Ok(match done {
        Ok(code) => code,
        Err(refused) if session.is_first() => refused.report(),
        Err(_) => exit::DONE,
    })
}

/// What needs the mount tables of all ranks; returns the exit code.
fn ask_ranks(
    arguments: &WhereArguments,
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<Result<u8, Refused>, RankError> {
    let apart = Apart { deadline: arguments.deadline, stop: signals.stop() };
    let table = match read_on_all(&apart, session)? {
        Ok(table) => table,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(path) = &arguments.save {
        return saved::save((path, arguments.json), &table, signals, session);
    }
    if let Some(need) = arguments.need {
        return need::find((arguments, need), (&table, &apart), signals, session);
    }
    let found = gather(arguments, (&table, &apart), session)?;
    Ok(found.map(|found| report(arguments, signals, session, &found)))
}

/// Prints what was found; returns the exit code.
fn report(arguments: &WhereArguments, signals: &Signals, session: &Session<'_>, gathered: &Gathered) -> u8 {
    // What was interrupted has no answers.
    if let Some(code) = signals.code() {
        return code;
    }
    if !session.is_first() {
        return exit::DONE;
    }
    let text = match arguments.json {
        true => format!("{:#}\n", json::summary(gathered)),
        false => text::table(gathered),
    };
    if let Err(fatal) = print(&text) {
        return fatal.report();
    }
    if !arguments.json {
        for row in &gathered.rows {
            row.notes().iter().for_each(|note| complain(note, None));
        }
    }
    gathered.rows.iter().map(Row::code).max().unwrap_or(exit::DONE)
}
