//! One run of `atta verify`, alone or on several ranks. The first rank has the command's files and standard output; the other ranks compare
//! and send it their output. What is printed at the end is elsewhere.
//!
//! ```text
//!   first rank: opens files  ──▶  the decision is broadcast, and all ranks compare and open the roots
//!   compare:    differences, failures and names of hard links go to the first rank
//!   close:      totals of all ranks add up on the first rank, which then compares the hard links
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Instant;

use atta_ops::resume::JobPlace;
use atta_ops::verify::{self, Options, Progress, Trees};
use atta_ops::walk;
use atta_runtime::{RankError, Rate, Session};

use super::arguments::VerifyArguments;
use super::logged::{self, Comparing};
use super::rows::{LINKS, Rows};
use super::totals::Compared;
use crate::run::display::Display;
use crate::run::going;
use crate::run::job::Job;
use crate::run::logged::{RunOfJob, WithLog as _};
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused;
use crate::run::same::{self, Seen};
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

/// What the first rank has set up.
pub(super) struct Prepared {
    pub(super) rows: Rows,
    pub(super) job: Option<Job>,
}

impl Prepared {
    /// Nothing was compared; the caller reports the reason.
    fn abandon(self) {
        self.rows.abandon();
        self.job.into_iter().for_each(Job::give_up);
    }
}

/// The decision of the first rank, for all ranks.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    go: bool,
    job: Option<RunOfJob>,
    /// The directory of the job.
    directory: Vec<u8>,
}

atta_entry::record!(Verdict { go, job, directory });

impl Verdict {
    fn of(prepared: &Prepared) -> Self {
        let job = prepared.job.as_ref();
        let directory = job.map(|job| job.running.place().path().as_os_str().as_bytes().to_vec());
        Self { go: true, job: job.map(RunOfJob::of), directory: directory.unwrap_or_default() }
    }
}

/// Compares as one rank of a session. `prepared`: on the first rank. Returns the results of all ranks there; an exit code where the rank has
/// nothing more to do.
pub(super) fn compare(
    arguments: &VerifyArguments,
    signals: &Signals,
    session: &mut Session<'_>,
    prepared: Option<Result<Prepared, Refused>>,
) -> Result<Result<(Prepared, Compared), u8>, RankError> {
    going::may_begin_again(session);
    let verdict =
        prepared.as_ref().map(|prepared| prepared.as_ref().map_or_else(|_| Verdict::default(), Verdict::of));
    let verdict = session.broadcast(verdict)?;
    // Differences that were printed would be printed again.
    let job = verdict.job.filter(|_| arguments.row_format().is_none());
    let directory = PathBuf::from(OsString::from_vec(verdict.directory.clone()));
    let job = job.map(|of_job| (directory.as_path(), of_job));
    going::settle(session, job, arguments.report.quiet)?;
    let prepared = match prepared {
        Some(Err(refused)) => return Ok(Err(refused.report())),
        None if !verdict.go => return Ok(Err(exit::DONE)),
        Some(Ok(prepared)) => Some(prepared),
        None => None,
    };
    let roots = [&arguments.source, &arguments.target].map(|root| root.as_bytes().to_vec());
    let seen = Seen::all(roots.to_vec(), session);
    if let Some(not_same) = same::check(seen, None, arguments.ranks.assume_same, session)? {
        if let Some(prepared) = prepared {
            prepared.abandon();
            let hint =
                not_same.hint("SOURCE and TARGET must each be the same file system, at the same place,");
            let what = format!("SOURCE or TARGET is not the same on all ranks: {}", not_same.what);
            complain(&what, Some(&hint));
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
    match (refused, trees, prepared) {
        (None, Some(trees), Some(prepared)) => rank.compare_first(&trees, prepared, session).map(Ok),
        (None, Some(trees), None) => rank.compare((trees, verdict), session).map(Err),
        (refused, _, prepared) => {
            let code = match (prepared, refused) {
                (Some(prepared), Some(refused)) => {
                    prepared.abandon();
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
        Prepared { rows, job }: Prepared,
        session: &mut Session<'_>,
    ) -> Result<(Prepared, Compared), RankError> {
        let mut earlier = None;
        let mut display = Display::new(&self.arguments.report, false);
        let closed = session.receiving(
            |rank, stream, bytes: &[u8]| match stream {
                LINKS => trees.receive(bytes),
                _ => rows.receive(rank, stream, bytes),
            },
            |session| {
                let observe = |progress: &Progress| display.tick(progress.walk.elapsed, || line(progress));
                let outcome = match &job {
                    Some(job) => {
                        let comparing = Comparing { rows: &rows, trees, options: self.options };
                        let (outcome, before) = logged::compare_first(job, &comparing, session, observe)?;
                        earlier = before;
                        outcome
                    }
                    None => verify::run(session, trees, self.options, &rows, observe)?,
                };
                session.close(Compared::new(outcome, self.signals.code()), |all, more| all.merge(&more))
            },
        );
        display.clear();
        match closed {
            Ok(compared) => {
                let mut compared = compared.unwrap_or_default();
                compared.earlier = earlier;
                if !compared.stopped {
                    let began = Instant::now();
                    trees.conclude(&rows, &mut compared.totals);
                    compared.elapsed += began.elapsed();
                }
                if let Some(fatal) = compared.fatal() {
                    rows.fail(fatal);
                }
                Ok((Prepared { rows, job }, compared))
            }
            Err(error) => {
                if let Some(fatal) = rows.finish(false) {
                    fatal.report();
                }
                if !error.goes_on_elsewhere() {
                    complain("not all was compared", None);
                }
                Err(error)
            }
        }
    }

    /// The part of any other rank; returns its exit code.
    fn compare(
        &self,
        (trees, verdict): (Trees, Verdict),
        session: &mut Session<'_>,
    ) -> Result<u8, RankError> {
        let directory = PathBuf::from(OsString::from_vec(verdict.directory));
        let place = verdict.job.map(|_| JobPlace::from(directory.as_path()));
        let rows = Rows::of_rank(self.arguments, (place.as_ref(), self.signals.stop()), session.outbox());
        let trees = trees.with_links_sent(session.outbox(), LINKS);
        let outcome = match verdict.job {
            Some(of_job) => {
                let comparing = Comparing { rows: &rows, trees: &trees, options: self.options };
                logged::compare_other((directory, of_job), &comparing, session)?
            }
            None => verify::run(session, &trees, self.options, &rows, |_| {})?,
        };
        let compared = Compared::new(outcome, self.signals.code()).with_fatal(rows.take_fatal());
        session.close(compared, |all, more| all.merge(&more))?;
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
