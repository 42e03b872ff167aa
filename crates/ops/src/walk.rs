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
pub(crate) mod parts;
mod profile;
pub(crate) mod progress;
mod read;
mod roots;
mod rules;
mod summary;
pub(crate) mod task;
pub(crate) mod visit;

use atta_sys as sys;
use std::path::PathBuf;
use std::time::Duration;

use atta_engine::Reduce;
use atta_entry::{Errno, Metadata};
use atta_runtime::{Member, RankError, Rate, SpillReport, Status, Stop, Threads, WorkerReport};

pub use atta_sys::Features;
pub use hard_links::{HardLinks, Seen};
pub use profile::Profile;
pub use rules::{BadRule, Rule, Rules};
pub use summary::{Summary, Totals};
pub use visit::{Each, Tasks, Visit, each};

use job::WalkJob;
use task::Task;
use visit::Handler;

/// Where a walk starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// A path as the operator gave it. Symbolic links on the way to it are followed, the last name's only if the walk
    /// follows links or it ends in a slash.
    pub root: Vec<u8>,
    /// A path below it, from a list: no link on the way to it is followed, and only it and what is below it is walked.
    pub below: Option<Vec<u8>>,
}

impl Start {
    /// Starts at a path.
    #[must_use]
    pub fn new(root: impl Into<Vec<u8>>) -> Self {
        Self { root: root.into(), below: None }
    }
}

/// What a list of differences says of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// The target does not have it: whatever is below it is meant too. Else a directory is meant alone.
    pub is_missing: bool,
    /// The bytes of the file were compared and differ, whatever size and times say.
    pub content: bool,
    /// It shares its file with another name on one side alone.
    pub links: bool,
}

impl Differs {
    const MISSING: u8 = 1;
    const CONTENT: u8 = 2;
    const LINKS: u8 = 4;

    /// As one byte, for tasks that become bytes.
    pub(crate) fn to_bits(self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.is_missing, Self::MISSING) | bit(self.content, Self::CONTENT) | bit(self.links, Self::LINKS)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        let is_set = |bit: u8| bits & bit != 0;
        Self { is_missing: is_set(Self::MISSING), content: is_set(Self::CONTENT), links: is_set(Self::LINKS) }
    }
}

/// A start, and what a list of differences says of it, if it comes from one.
#[derive(Debug)]
pub(crate) struct Seed {
    pub(crate) start: Start,
    pub(crate) differs: Option<Differs>,
}

impl From<Start> for Seed {
    fn from(start: Start) -> Self {
        Self { start, differs: None }
    }
}

impl From<(Start, Differs)> for Seed {
    fn from((start, differs): (Start, Differs)) -> Self {
        Self { start, differs: Some(differs) }
    }
}

/// How a walk is done.
#[derive(Debug)]
pub struct Options<'a> {
    /// Do not enter directories on other file systems, nor other mounts of the same one.
    pub one_file_system: bool,
    /// Levels below the root that are listed; none: all. With 0 the root alone.
    pub max_depth: Option<u32>,
    /// Follow symbolic links that stay below the root; others are failures, as is a link back to a directory above it.
    pub follow: bool,
    /// Do not ask for metadata where the directory says of which kind an entry is.
    pub lite: bool,
    /// Read the targets of symbolic links.
    pub targets: bool,
    /// Ask for the time of birth. Whoever does without it spares a walk of cached metadata some 2 % of its time.
    pub birth_time: bool,
    /// Entries to leave out.
    pub rules: Option<Rules>,
    /// A cap on metadata operations a second.
    pub rate: Option<&'a Rate>,
    /// How many threads.
    pub threads: Threads,
    /// Bytes of memory for tasks that wait; more go to a file.
    pub memory_bytes: u64,
    /// Where that file is made.
    pub spill_directory: PathBuf,
    /// A request to end early.
    pub stop: Stop,
    /// What the kernel is taken to have.
    pub features: Features,
    /// Cores that are this process's.
    pub cores: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let runtime = atta_runtime::Options::default();
        Self {
            one_file_system: false,
            max_depth: None,
            follow: false,
            lite: false,
            targets: false,
            birth_time: true,
            rules: None,
            rate: None,
            threads: runtime.threads,
            memory_bytes: runtime.memory_bytes,
            spill_directory: runtime.spill_directory,
            stop: runtime.stop,
            features: Features::default(),
            cores: runtime.cores,
        }
    }
}

/// How a walk stands, as its observer sees it.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Threads that are wanted at present.
    pub threads: usize,
    /// How long ago it was asked to end, if it was.
    pub stopping: Option<Duration>,
    /// What was done so far, over all threads.
    pub profile: Profile,
}

/// What one thread of a walk did.
#[derive(Clone, Copy, Debug)]
pub struct ThreadReport {
    /// What it did and where its time went.
    pub profile: Profile,
    /// Its tasks, steals and waiting.
    pub worker: WorkerReport,
}

/// What a walk left.
#[derive(Debug)]
pub struct Outcome<W> {
    /// The visitor's state of each thread.
    pub workers: Vec<W>,
    /// What each thread did, in the same order.
    pub threads: Vec<ThreadReport>,
    /// Their sum.
    pub profile: Profile,
    /// What was spilled.
    pub spill: SpillReport,
    /// From start to end.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
}

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
    observe: impl FnMut(&Progress),
) -> Outcome<V::Worker> {
    run_handler(visit, starts, options, observe)
}

/// The same for an operation of this crate.
pub(crate) fn run_handler<'a, V: Handler>(
    visit: &'a V,
    starts: impl IntoIterator<Item: Into<Seed>, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress),
) -> Outcome<V::Worker> {
    let job = WalkJob::new(visit, Box::new(starts.into_iter().map(Into::<Seed>::into)), options, 0);
    let outcome = atta_runtime::run(&job, job.seeds(vec![Task::Feed]), &runtime_options(&job), |status| {
        observe(&progress(&job, status));
    });
    gathered(&job, outcome)
}

/// The same as one of several ranks, which walk the starts of rank 0 together. Returns when all is done, or the walk was
/// stopped on one of them; then [`Member::close`] must be called.
///
/// `totals` makes what ranks add up of what this one did so far; `observe` also gets the newest sum, on the root.
///
/// # Errors
/// The fabric or another rank fails.
///
/// # Panics
/// As [`run`].
pub fn run_on_ranks<'a, V: Visit, R: Reduce>(
    visit: &'a V,
    starts: impl IntoIterator<Item = Start, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    member: &mut Member<'_, '_, R>,
    totals: impl Fn(&Profile) -> R,
    observe: impl FnMut(&Progress, Option<R>),
) -> Result<Outcome<V::Worker>, RankError> {
    run_handler_on_ranks(visit, starts, options, member, totals, observe)
}

/// The same for an operation of this crate.
pub(crate) fn run_handler_on_ranks<'a, V: Handler, R: Reduce>(
    visit: &'a V,
    starts: impl IntoIterator<Item: Into<Seed>, IntoIter: Send + 'a>,
    options: &'a Options<'a>,
    member: &mut Member<'_, '_, R>,
    totals: impl Fn(&Profile) -> R,
    mut observe: impl FnMut(&Progress, Option<R>),
) -> Result<Outcome<V::Worker>, RankError> {
    let job =
        WalkJob::new(visit, Box::new(starts.into_iter().map(Into::<Seed>::into)), options, member.rank());
    let seeds = match (member.rank(), member.runs_tasks()) {
        (0, true) => vec![Task::Feed],
        // Who only hands tasks out cannot take them from the list bit by bit.
        (0, false) => job.all_starts(),
        _ => Vec::new(),
    };
    let seeds = job.seeds(seeds);
    let so_far = || totals(&job.profile());
    let observed = |status: &Status, sum: Option<R>| observe(&progress(&job, status), sum);
    let runtime = runtime_options(&job);
    let outcome = atta_runtime::run_on_ranks(&job, seeds, &runtime, member, so_far, observed)?;
    Ok(gathered(&job, outcome))
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

fn progress<V: Handler>(job: &WalkJob<'_, V>, status: &Status) -> Progress {
    Progress {
        elapsed: status.elapsed,
        threads: status.threads,
        stopping: status.stopping,
        profile: job.profile(),
    }
}

fn gathered<V: Handler>(
    job: &WalkJob<'_, V>,
    outcome: atta_runtime::Outcome<job::WalkWorker<V>>,
) -> Outcome<V::Worker> {
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
    }
}
