//! One run of `atta sum` over trees or listed files, alone or on several ranks. The first rank has the record or the PATHs, the command's
//! files and standard output; the other ranks hash and send it their output. What is printed at the end is elsewhere.
//!
//! ```text
//!   first rank: opens files, catalog, record  ──▶  the decision is broadcast, and all ranks compare the roots
//!   hash:       rows, records and failures go to the first rank
//!   close:      totals and signatures of all ranks add up on the first rank
//! ```

use std::io;

use atta_ops::sum::{self, Options, Progress};
use atta_ops::walk::{self, Rules, Start};
use atta_runtime::{RankError, Rate, Seat, Session, Stop};

use super::arguments::SumArguments;
use super::logged::{self, Hashing};
use super::sink::{FirstSide, Sink};
use super::totals::Summed;
use crate::run::display::Display;
use crate::run::going;
use crate::run::job::Job;
use crate::run::logged::RunOfJob;
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused;
use crate::run::same::{self, Seen};
use crate::run::settings::{compile, spill_directory};
use crate::run::signals::Signals;
use crate::size::{binary, grouped};

/// What the first rank has set up.
pub(super) struct Prepared<'a> {
    pub(super) sink: Sink,
    pub(super) starts: Box<dyn Iterator<Item = Start> + Send + 'a>,
    /// Paths that must be the same on all ranks.
    pub(super) roots: Vec<Vec<u8>>,
    /// Whether directories are entered.
    pub(super) enters: bool,
    pub(super) job: Option<Job>,
}

/// What the first rank has when all is hashed.
pub(super) struct Hashed {
    pub(super) sink: Sink,
    pub(super) summed: Summed,
    pub(super) job: Option<Job>,
}

/// The decision of the first rank, for all ranks.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    go: bool,
    enters: bool,
    roots: Vec<Vec<u8>>,
    /// The device and inode of the file that is standard output.
    output: Option<(u64, u64)>,
    side: FirstSide,
    job: Option<RunOfJob>,
}

atta_entry::record!(Verdict { go, enters, roots, output, side, job });

impl Verdict {
    fn new(prepared: &Prepared<'_>, arguments: &SumArguments) -> Self {
        // As in `atta sum . > sums`: the file would change all the time.
        let output = if arguments.prints() { sum::regular_file_of(io::stdout()) } else { None };
        let Prepared { sink, roots, enters, job, .. } = prepared;
        let side = sink.side(job.as_ref());
        let job = job.as_ref().map(RunOfJob::of);
        Self { go: true, enters: *enters, roots: roots.clone(), output, side, job }
    }
}

/// Hashes as one rank of a session. `prepared`: on the first rank. Returns the results of all ranks there; an exit code where the rank has
/// nothing more to do.
pub(super) fn hash(
    arguments: &SumArguments,
    signals: &Signals,
    session: &mut Session<'_>,
    prepared: Option<Result<Prepared<'_>, Refused>>,
) -> Result<Result<Hashed, u8>, RankError> {
    if arguments.check.is_none() {
        going::may_begin_again(session);
    }
    let verdict = prepared.as_ref().map(|prepared| {
        prepared.as_ref().map_or_else(|_| Verdict::default(), |prepared| Verdict::new(prepared, arguments))
    });
    let verdict = session.broadcast(verdict)?;
    let job = verdict.job.zip(verdict.side.job_directory());
    let job = job.as_ref().map(|(of_job, directory)| (directory.as_path(), *of_job));
    going::settle(session, job, arguments.report.quiet)?;
    let prepared = match prepared {
        Some(Err(refused)) => return Ok(Err(refused.report())),
        None if !verdict.go => return Ok(Err(exit::DONE)),
        Some(Ok(prepared)) => Some(prepared),
        None => None,
    };
    let seen = Seen::all(verdict.roots.clone(), session);
    if let Some(not_same) = same::check(seen, None, arguments.ranks.assume_same, session)? {
        if session.is_first() {
            let hint = not_same.hint("PATH must be the same file system, at the same place,");
            complain(&format!("PATH is not the same on all ranks: {}", not_same.what), Some(&hint));
        }
        prepared.and_then(|prepared| prepared.job).into_iter().for_each(Job::give_up);
        return Ok(Err(exit::FATAL));
    }
    let rank = Rank { arguments, signals, seat: session.seat() };
    match prepared {
        Some(prepared) => rank.hash_first(prepared, &verdict, session).map(Ok),
        None => rank.hash(verdict, session).map(Err),
    }
}

/// One rank of a run.
struct Rank<'a> {
    arguments: &'a SumArguments,
    signals: &'a Signals,
    seat: Seat,
}

impl Rank<'_> {
    /// The first rank's part.
    fn hash_first(
        &self,
        prepared: Prepared<'_>,
        verdict: &Verdict,
        session: &mut Session<'_>,
    ) -> Result<Hashed, RankError> {
        let (rate, stop) = (self.rate(), self.signals.stop());
        let Prepared { sink, starts, roots, job, .. } = prepared;
        let options = self.options(verdict, &sink, rate.as_ref(), &stop);
        let mut earlier = None;
        let mut display = Display::new(&self.arguments.report, self.arguments.prints());
        let closed = session.receiving(
            |rank, stream, bytes: &[u8]| sink.receive(rank, stream, bytes),
            |session| {
                let observe = |progress: &Progress| display.tick(progress.walk.elapsed, || line(progress));
                let outcome = match &job {
                    Some(job) => {
                        let hashing = Hashing { sink: &sink, roots, options: &options };
                        let (outcome, before) = logged::hash_first(job, &hashing, session, observe)?;
                        earlier = before;
                        outcome
                    }
                    None => sum::run(session, &sink, starts, &options, observe)?,
                };
                session.close(Summed::new(outcome, &sink, self.signals.code()), Summed::merge)
            },
        );
        display.clear();
        let summed = closed.inspect_err(|error| {
            if error.goes_on_elsewhere() {
                // The others go on.
                return;
            }
            sink.abandon();
            if let Some(fatal) = sink.take_fatal().or_else(|| sink.failures.flush().err()) {
                fatal.report();
            }
            complain("not all was hashed", None);
        })?;
        let mut summed = summed.unwrap_or_default();
        summed.earlier = earlier;
        if let Some(catalog) = &sink.catalog {
            catalog.take_over(std::mem::take(&mut summed.shards));
        }
        if let Some(fatal) = summed.fatal() {
            sink.fail(fatal);
        }
        Ok(Hashed { sink, summed, job })
    }

    /// The part of any other rank; returns its exit code.
    fn hash(&self, verdict: Verdict, session: &mut Session<'_>) -> Result<u8, RankError> {
        let (seat, stop, rate) = (self.seat, self.signals.stop(), self.rate());
        let Verdict { side, .. } = verdict;
        let directory = side.job_directory();
        let verdict = Verdict { side: FirstSide::default(), ..verdict };
        let sink = Sink::of_rank(self.arguments, session.outbox(), side, stop.clone(), seat);
        let options = self.options(&verdict, &sink, rate.as_ref(), &stop);
        let outcome = match verdict.job.zip(directory) {
            Some((of_job, directory)) => {
                let hashing = Hashing { sink: &sink, roots: verdict.roots.clone(), options: &options };
                logged::hash_other((&directory, of_job), &hashing, session)?
            }
            None => sum::run(session, &sink, std::iter::empty::<Start>(), &options, |_| {})?,
        };
        let summed = Summed::new(outcome, &sink, self.signals.code());
        session.close(summed.with_shards(sink.hand_over(), seat), Summed::merge)?;
        Ok(exit::DONE)
    }

    fn rate(&self) -> Option<Rate> {
        self.arguments.effort.iops.map(|iops| Rate::new((iops / self.seat.ranks).max(1)))
    }

    fn options<'r>(
        &self,
        verdict: &Verdict,
        sink: &Sink,
        rate: Option<&'r Rate>,
        stop: &Stop,
    ) -> Options<'r> {
        let arguments = self.arguments;
        let walk = walk::Options {
            one_file_system: arguments.visit.one_file_system,
            birth_time: sink.shows_attributes(),
            rules: self.rules(),
            rate,
            threads: arguments.effort.threads,
            memory_bytes: arguments.effort.memory / 2,
            spill_directory: spill_directory(),
            stop: stop.clone(),
            cores: self.seat.cores,
            ..walk::Options::default()
        };
        let (chunk, hole_bytes_max) = (arguments.chunk.bytes(), Some(arguments.max_holes));
        Options { walk, chunk, hole_bytes_max, enters: verdict.enters, output: verdict.output }
    }

    /// The rules. The first rank has reported errors in them; then no rank hashes.
    fn rules(&self) -> Option<Rules> {
        compile(&self.arguments.visit.rules).ok().flatten()
    }
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
