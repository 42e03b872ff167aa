//! The base of all operations: reads directories on many threads and ranks, gets the metadata of each entry once, and passes entries to an
//! operation (`operation.rs`).
//!
//! It knows no operation: the [`Handler`] decides what happens to an entry. Names are looked up only through symbolic links that the
//! options allow to follow (`listing/link.rs`).

pub(crate) mod anchors;
mod at;
mod away;
pub(crate) mod debts;
pub(crate) mod directory;
pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod life;
pub(crate) mod listing;
pub(crate) mod location;
pub(crate) mod mark;
pub(crate) mod open;
pub(crate) mod operation;
mod options;
mod profile;
pub(crate) mod progress;
pub(crate) mod slice;
pub(crate) mod slot;
pub(crate) mod start;
pub(crate) mod task;
mod thread;
mod units;

use atta_runtime::{Ran, RankError, Results as _, Session, Status, Work};

pub use listing::rules::{BadRule, Rule, Rules};
pub use options::{Options, Outcome, Progress, ThreadReport};
pub use profile::Profile;
pub(crate) use start::Seed;
pub use start::{Differs, Start};

use job::{OnRank, TreeJob};
pub use journal::{FromLog, Gone, Held, Journal, ResumeError, Waiting};
use operation::{Handler, ResultsOf};
use progress::{Counted, SoFar};
use slice::OpenSlices;
use task::Task;

/// Runs an operation of this crate in a session of one rank.
pub(crate) fn run_alone<'a, V: Handler>(
    visit: &'a V,
    starts: impl IntoIterator<Item: Into<Seed>, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    observe: impl FnMut(&Progress, Counted),
) -> Outcome<V::Worker, ResultsOf<V>> {
    let mut session = Session::alone(options.stop.clone());
    match run(&mut session, visit, starts, options, observe) {
        Ok(walked) => walked.all(),
        Err(error) => unreachable!("a session of one waits for nobody: {error}"),
    }
}

/// Runs an operation of this crate. `observe` also gets the operation's own counts.
pub(crate) fn run<'a, V: Handler>(
    session: &mut Session<'_>,
    visit: &'a V,
    starts: impl IntoIterator<Item: Into<Seed>, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    observe: impl FnMut(&Progress, Counted),
) -> Result<Walked<V>, RankError> {
    let starts = Box::new(starts.into_iter().map(Into::<Seed>::into));
    run_job(session, TreeJob::new(visit, starts, options, on(session)), observe)
}

/// Runs an operation with a log of its job. The roots must be those of all runs of the job, in the same order on all ranks, and no two of
/// them the same. What earlier runs have left is done by the first rank, or begins there.
pub(crate) fn run_logged<'a, V: Handler>(
    session: &mut Session<'_>,
    (visit, journal): (&'a V, &'a Journal<ResultsOf<V>>),
    roots: Vec<Vec<u8>>,
    options: &'a Options<'a>,
    observe: impl FnMut(&Progress, Counted),
) -> Result<Walked<V>, RankError> {
    let given = if session.is_first() { roots.clone() } else { Vec::new() };
    let starts = Box::new(given.into_iter().map(|root| Seed::from(Start::new(root))));
    let mut job = TreeJob::new(visit, starts, options, on(session));
    job.journal = Some(journal);
    // Roots have the same numbers in all logs.
    for root in roots {
        job.roots.intern(root);
    }
    run_job(session, job, observe)
}

fn on(session: &Session<'_>) -> OnRank {
    let seat = session.seat();
    OnRank { rank: seat.rank, ranks: seat.ranks, runs_tasks: session.runs_tasks() }
}

fn run_job<V: Handler>(
    session: &mut Session<'_>,
    job: TreeJob<'_, V>,
    mut observe: impl FnMut(&Progress, Counted),
) -> Result<Walked<V>, RankError> {
    let visit = job.visit;
    let seeds = match (session.is_first(), session.runs_tasks()) {
        (true, true) => vec![Task::Feed],
        // A rank that only hands out tasks cannot take them from the list bit by bit.
        (true, false) => job.all_starts(),
        (false, _) => Vec::new(),
    };
    let runtime = runtime_options(&job);
    let work = Work { seeds: job.seeds(seeds), options: &runtime };
    let own = || SoFar { profile: job.profile(), own: visit.counted() };
    let mut of_all = None;
    let ran = session.run(
        &job,
        work,
        |_| own(),
        |status, sum| {
            of_all = sum.or(of_all);
            let SoFar { profile, own } = of_all.unwrap_or_else(own);
            observe(&progress_of(status, profile), own);
        },
    )?;
    Ok(gathered(job, ran))
}

fn runtime_options<'a, V: Handler>(job: &TreeJob<'a, V>) -> atta_runtime::Options<'a> {
    let options = job.options;
    atta_runtime::Options {
        threads_most: job.budget.threads,
        threads: options.threads,
        memory_bytes: options.memory_bytes,
        spill_directory: options.spill_directory.clone(),
        stop: options.stop.clone(),
        rate: options.rate,
        cores: options.cores,
    }
}

fn progress_of(status: &Status, profile: Profile) -> Progress {
    Progress { elapsed: status.elapsed, threads: status.threads, stopping: status.stopping, profile }
}

/// The outcome of a walk, and the slices that have not ended: none, unless the operation still ends parts, or after a stop.
pub(crate) struct Walked<V: Handler> {
    /// With the results of the slices that have ended.
    pub(crate) outcome: Outcome<V::Worker, ResultsOf<V>>,
    pub(crate) open: OpenSlices<V::State>,
}

impl<V: Handler> Walked<V> {
    /// The outcome with all results.
    pub(crate) fn all(mut self) -> Outcome<V::Worker, ResultsOf<V>> {
        let open = self.open.all().into_iter().filter_map(|slice| slice.take_results());
        open.for_each(|results| self.outcome.results.add(&results));
        self.outcome
    }
}

fn gathered<'a, V: Handler>(job: TreeJob<'a, V>, ran: Ran<job::Worker<'a, V>, SoFar>) -> Walked<V> {
    let Ran { mut outcome, exchanged, reason, .. } = ran;
    job.end_left(&mut outcome.workers);
    let mut results = ResultsOf::<V>::default();
    for worker in &mut outcome.workers {
        job.closer(worker).end_rest();
        results.add(&worker.results);
    }
    let reports = outcome.reports.iter().zip(&job.counters);
    let outcome = Outcome {
        threads: reports
            .map(|(worker, counters)| ThreadReport { profile: counters.read(), worker: *worker })
            .collect(),
        workers: outcome.workers.into_iter().map(|worker| worker.visit).collect(),
        results,
        profile: job.profile(),
        spill: outcome.spill,
        elapsed: outcome.elapsed,
        stopped: outcome.stopped,
        reason,
        exchanged,
    };
    Walked { outcome, open: job.open }
}
