//! One run of `atta verify`, alone or on several ranks. The first rank has the command's files and standard output; the other ranks compare
//! and send it their output. What is printed at the end is elsewhere.
//!
//! ```text
//!   first rank: opens files  ──▶  the decision is broadcast, and all ranks compare and open the roots
//!   compare:    differences, failures and names of hard links go to the first rank
//!   close:      totals of all ranks add up on the first rank, which then compares the hard links
//! ```

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use atta_ops::verify::{self, Options, Progress, Trees};
use atta_ops::walk;
use atta_runtime::{RankError, Rate, Session};

use super::arguments::VerifyArguments;
use super::rows::{LINKS, Rows};
use super::totals::Compared;
use crate::run::display::Display;
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused;
use crate::run::session::seen_at;
use crate::run::settings::{compile, spill_directory};
use crate::run::signals::Signals;
use crate::size::{binary, grouped};

/// Why a rank cannot compare, for the first rank.
#[derive(Debug)]
pub(crate) struct Refusal {
    rank: u32,
    what: String,
    hint: String,
    is_usage: bool,
}

atta_entry::record!(Refusal { rank, what, hint, is_usage });

impl Refusal {
    fn of(refused: verify::Refused, rank: u32) -> Self {
        let verify::Refused { what, hint, is_usage } = refused;
        let what = if rank == 0 { what } else { format!("rank {rank}: {what}") };
        Self { rank, what, hint: hint.into_owned(), is_usage }
    }

    /// Keeps that of the first rank that has one.
    fn merge(one: &mut Option<Self>, other: Option<Self>) {
        let is_first = |other: &Self| one.as_ref().is_none_or(|one| other.rank < one.rank);
        if other.as_ref().is_some_and(is_first) {
            *one = other;
        }
    }

    fn report(&self) -> u8 {
        complain(&self.what, Some(&self.hint));
        if self.is_usage { exit::USAGE } else { exit::FATAL }
    }
}

/// Compares as one rank of a session. `rows`: on the first rank. Returns the results of all ranks there; an exit code where the rank has
/// nothing more to do.
pub(super) fn compare(
    arguments: &VerifyArguments,
    signals: &Signals,
    session: &mut Session<'_>,
    rows: Option<Result<Rows, Refused>>,
) -> Result<Result<(Rows, Compared), u8>, RankError> {
    let goes = session.broadcast(rows.as_ref().map(Result::is_ok))?;
    let rows = match rows {
        Some(Err(refused)) => return Ok(Err(refused.report())),
        None if !goes => return Ok(Err(exit::DONE)),
        Some(Ok(rows)) => Some(rows),
        None => None,
    };
    let roots = [&arguments.source, &arguments.target].map(|root| root.as_bytes().to_vec());
    let (facts, _) = seen_at(roots.to_vec(), session);
    if let Some(differ) = session.agree(facts)? {
        if let Some(rows) = rows {
            rows.abandon();
            let hint = "SOURCE and TARGET must each be the same file system, at the same place, on all ranks";
            complain(&format!("SOURCE or TARGET is not the same on all ranks: {differ}"), Some(hint));
        }
        return Ok(Err(exit::FATAL));
    }
    let rate = rate(arguments, session);
    let options = options(arguments, signals, session, rate.as_ref());
    let [source, target] = &roots;
    let (trees, refused) = match Trees::open(source, target, &options) {
        Ok(trees) => (Some(trees), None),
        Err(refused) => (None, Some(Refusal::of(refused, session.seat().rank))),
    };
    let refused = session.all_reduce(refused, Refusal::merge)?;
    let rank = Rank { arguments, signals, options: &options };
    match (refused, trees, rows) {
        (None, Some(trees), Some(rows)) => rank.compare_first(&trees, rows, session).map(Ok),
        (None, Some(trees), None) => rank.compare(trees, session).map(Err),
        (refused, _, rows) => {
            let code = match (rows, refused) {
                (Some(rows), Some(refused)) => {
                    rows.abandon();
                    refused.report()
                }
                _ => exit::FATAL,
            };
            Ok(Err(code))
        }
    }
}

/// One rank of a run.
struct Rank<'a> {
    arguments: &'a VerifyArguments,
    signals: &'a Signals,
    options: &'a Options<'a>,
}

impl Rank<'_> {
    /// The first rank's part.
    fn compare_first(
        &self,
        trees: &Trees,
        rows: Rows,
        session: &mut Session<'_>,
    ) -> Result<(Rows, Compared), RankError> {
        let mut display = Display::new(&self.arguments.report, false);
        let closed = session.receiving(
            |rank, stream, bytes: &[u8]| match stream {
                LINKS => trees.receive(bytes),
                _ => rows.receive(rank, stream, bytes),
            },
            |session| {
                let outcome = verify::run(session, trees, self.options, &rows, |progress| {
                    display.tick(progress.walk.elapsed, || line(progress));
                })?;
                session.close(Compared::new(outcome, self.signals.code()), |all, more| all.merge(&more))
            },
        );
        display.clear();
        match closed {
            Ok(compared) => {
                let mut compared = compared.unwrap_or_default();
                if !compared.stopped {
                    let began = Instant::now();
                    trees.conclude(&rows, &mut compared.totals);
                    compared.elapsed += began.elapsed();
                }
                Ok((rows, compared))
            }
            Err(error) => {
                if let Some(fatal) = rows.finish(false) {
                    fatal.report();
                }
                complain("not all was compared", None);
                Err(error)
            }
        }
    }

    /// The part of any other rank; returns its exit code.
    fn compare(&self, trees: Trees, session: &mut Session<'_>) -> Result<u8, RankError> {
        let rows = Rows::of_rank(self.arguments, session.outbox(), self.signals.stop());
        let trees = trees.with_links_sent(session.outbox(), LINKS);
        let outcome = verify::run(session, &trees, self.options, &rows, |_| {})?;
        session.close(Compared::new(outcome, self.signals.code()), |all, more| all.merge(&more))?;
        Ok(exit::DONE)
    }
}

fn rate(arguments: &VerifyArguments, session: &Session<'_>) -> Option<Rate> {
    let ranks = session.seat().ranks;
    arguments.effort.iops.map(|iops| Rate::new((iops / ranks).max(1)))
}

fn options<'r>(
    arguments: &VerifyArguments,
    signals: &Signals,
    session: &Session<'_>,
    rate: Option<&'r Rate>,
) -> Options<'r> {
    let walk = walk::Options {
        one_file_system: arguments.visit.one_file_system,
        birth_time: false,
        // The first rank has reported errors in them; then no rank compares.
        rules: compile(&arguments.visit.rules).ok().flatten(),
        rate,
        threads: arguments.effort.threads,
        memory_bytes: arguments.effort.memory / 2,
        spill_directory: spill_directory(),
        stop: signals.stop(),
        cores: session.seat().cores,
        ..walk::Options::default()
    };
    let (fields, window) = (arguments.fields(), arguments.modify_window);
    Options { walk, fields, window, chunk: arguments.chunk.bytes() }
}

fn line(progress: &Progress) -> String {
    let found = &progress.walk.profile;
    format!(
        "{} entries so far, {} compared, {} differences; {} threads",
        grouped(found.entries),
        binary(progress.bytes),
        grouped(progress.differences),
        progress.walk.threads
    )
}
