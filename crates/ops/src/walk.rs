//! Walks file trees: every entry once, with its metadata, on many threads, handed to a function of the caller's.
//!
//! An operation of your own is a function of an entry; what it gives back becomes tasks that any thread may take.
//! This one counts the lines of all Rust sources of a tree:
//!
//! ```no_run
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use atta_entry::Kind;
//! use atta_ops::walk::{self, Options, Start};
//!
//! let lines = AtomicU64::new(0);
//! let count = walk::each(|entry, tasks| {
//!     if entry.kind == Kind::File && entry.name.ends_with(b".rs") {
//!         tasks.push(entry.path());
//!     }
//! })
//! .with_tasks(|path, _| {
//!     let path = String::from_utf8_lossy(path).into_owned();
//!     let text = std::fs::read(path).unwrap_or_default();
//!     lines.fetch_add(text.split(|&byte| byte == b'\n').count() as u64, Ordering::Relaxed);
//! });
//! walk::run(&count, vec![Start::new("src")], &Options::default(), |_| {});
//! println!("{} lines", lines.into_inner());
//! ```
//!
//! What it does not do: it writes nothing, prints nothing, and reads no file's contents. An entry that fails is handed
//! to [`Visit::failure`] and never stops the walk. No name is ever looked up through a symbolic link that the walk did
//! not decide to follow (see `link.rs`).

mod begin;
pub(crate) mod directory;
mod hard_links;
pub(crate) mod job;
mod link;
pub(crate) mod location;
pub(crate) mod look;
pub(crate) mod names;
mod options;
pub(crate) mod parts;
mod profile;
pub(crate) mod progress;
mod read;
mod roots;
mod rules;
mod start;
mod summary;
pub(crate) mod task;
pub(crate) mod visit;

use atta_sys as sys;

use atta_entry::{Errno, Metadata};
use atta_runtime::{Ran, RankError, Session, Status, Work};

pub use atta_sys::Features;
pub use hard_links::{HardLinks, Seen};
pub use options::{Options, Outcome, Progress, ThreadReport};
pub use profile::Profile;
pub use rules::{BadRule, Rule, Rules};
pub(crate) use start::Seed;
pub use start::{Differs, Start};
pub use summary::{Summary, Totals};
pub use visit::{Each, Tasks, Visit, each};

use job::WalkJob;
use progress::{Counted, SoFar};
use task::Task;
use visit::Handler;

/// Walks everything below `starts`, which may be a long list: it is taken as the walk goes on. Returns when all is done or `options.stop` was set.
///
/// `observe` is called on the calling thread some 40 times a second.
///
/// # Panics
/// A panic of the visitor ends the walk and is passed on.
pub fn run<'a, V: Visit>(
    visit: &'a V,
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress),
) -> Outcome<V::Worker> {
    run_alone(visit, starts, options, |progress, _| observe(progress))
}

/// The same as one of several ranks, which walk the starts of the first one together. Returns when all is done, or the walk was
/// stopped on one of them. `options.stop` is that of the session.
///
/// On the first rank `observe` gets what all ranks have done, as far as it is known; on the others what they have done themselves.
///
/// # Errors
/// As [`Session::run`].
///
/// # Panics
/// As [`run`].
pub fn run_on<'a, V: Visit>(
    session: &mut Session<'_>,
    visit: &'a V,
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome<V::Worker>, RankError> {
    run_handler(session, visit, starts, options, |progress, _| observe(progress))
}

/// An operation of this crate in a session of one.
pub(crate) fn run_alone<'a, V: Handler>(
    visit: &'a V,
    starts: impl IntoIterator<Item: Into<Seed>, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    observe: impl FnMut(&Progress, Counted),
) -> Outcome<V::Worker> {
    let mut session = Session::alone(options.stop.clone());
    match run_handler(&mut session, visit, starts, options, observe) {
        Ok(outcome) => outcome,
        Err(error) => unreachable!("a session of one waits for nobody: {error}"),
    }
}

/// An operation of this crate. `observe` also gets what the operation counts itself.
pub(crate) fn run_handler<'a, V: Handler>(
    session: &mut Session<'_>,
    visit: &'a V,
    starts: impl IntoIterator<Item: Into<Seed>, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress, Counted),
) -> Result<Outcome<V::Worker>, RankError> {
    let starts = Box::new(starts.into_iter().map(Into::<Seed>::into));
    let job = WalkJob::new(visit, starts, options, session.seat().rank);
    let seeds = match (session.is_first(), session.runs_tasks()) {
        (true, true) => vec![Task::Feed],
        // Who only hands tasks out cannot take them from the list bit by bit.
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
            observe(&progress(status, profile), own);
        },
    )?;
    Ok(gathered(&job, ran))
}

/// What is at a path that the operator gave, links followed.
///
/// # Errors
/// What the kernel says of it.
pub fn look_at(path: &[u8]) -> Result<Metadata, Errno> {
    sys::stat_path(path, true)
}

fn runtime_options<'a, V: Handler>(job: &WalkJob<'a, V>) -> atta_runtime::Options<'a> {
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

fn progress(status: &Status, profile: Profile) -> Progress {
    Progress { elapsed: status.elapsed, threads: status.threads, stopping: status.stopping, profile }
}

fn gathered<V: Handler>(job: &WalkJob<'_, V>, ran: Ran<job::WalkWorker<V>, SoFar>) -> Outcome<V::Worker> {
    let Ran { outcome, exchanged, reason, .. } = ran;
    let reports = outcome.reports.iter().zip(&job.counters);
    Outcome {
        threads: reports
            .map(|(worker, counters)| ThreadReport { profile: counters.read(), worker: *worker })
            .collect(),
        workers: outcome.workers.into_iter().map(|worker| worker.visit).collect(),
        profile: job.profile(),
        spill: outcome.spill,
        elapsed: outcome.elapsed,
        stopped: outcome.stopped,
        reason,
        exchanged,
    }
}
