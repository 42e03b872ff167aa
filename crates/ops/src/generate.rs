//! Makes a reproducible tree: the same seed and options give the same tree, byte for byte, on any number of threads.
//!
//! | module | holds |
//! | --- | --- |
//! | `spec`, `sizes`, `preset` | what is wanted, checked |
//! | `plan`, `skeleton`, `names`, `symlink` | what follows from it: every entry as a function of its number |
//! | `random`, `portable` | numbers with the same bits everywhere |
//! | `make`, `file`, `content`, `open` | the system calls, as tasks for the pool |
//! | `error` | what a run leaves |
//!
//! Names, contents, sizes, modes, modification times, link targets and extended attributes are reproduced. Owners, inode
//! numbers, the other times and the order in which a directory lists its entries are not. Nothing is synced to disk, and
//! nothing that exists is ever changed or replaced.

mod content;
mod error;
mod file;
mod make;
mod names;
mod open;
mod plan;
mod portable;
mod preset;
mod random;
mod sizes;
mod skeleton;
mod spec;
mod symlink;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_entry::{Errno as EntryErrno, Failure, Operation};
use atta_runtime::{Job, Stop, Threads};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Dir, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

pub use error::{GenerateError, Report};
pub use names::Node;
pub use plan::Plan;
pub use preset::Preset;
pub use sizes::{Band, Shape, Sizes};
pub use spec::{Contents, Spec, SpecError, Spread, XATTRS_MAX, XATTRS_SHARE};

use make::{Make, MakeError, Task};

/// Options for a run. They do not affect the tree.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of threads.
    pub threads: Threads,
    /// A request to end early. It takes effect within some tens of milliseconds; everything made until then stays.
    pub stop: Stop,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Entries that are complete, out of [`Spec::entries`].
    pub entries: u64,
    /// Number of threads currently wanted.
    pub threads: usize,
    /// Time since the run was asked to end, if it was: a thread may be stuck in a system call.
    pub stopping: Option<Duration>,
}

/// Makes the tree in `target`, which must not exist or must be an empty directory (no symbolic link to one).
///
/// An existing `target` keeps its mode. Its modification time is set where permitted.
///
/// Calls `observe` on the calling thread some 40 times a second. `observe` may set `options.stop`.
///
/// # Errors
/// Fails if no such tree can exist, if `target` is not empty, or if a system call fails. Everything made until then stays.
pub fn generate(
    target: &Path,
    spec: &Spec,
    options: &Options,
    observe: impl FnMut(&Progress),
) -> Result<Report, GenerateError> {
    let started = Instant::now();
    spec.check()?;
    let (root, is_root_new) = open_target(target)?;
    let plan = Plan::new(spec)?;
    // A stop of the pool. It is also set after a failure, which the caller did not request.
    let end = Stop::new();
    let make = Make::new(&plan, root, is_root_new, end.clone());
    let mut run = Run { make: &make, options, end, started, report: Report::default(), observe };
    let outcome = make.first().and_then(|task| run.phase(task)).and_then(|is_whole| {
        // Hard links follow when all files exist.
        let has_links = is_whole && spec.hard_links > 0;
        if has_links { run.phase(Task::HardLinks(0..spec.hard_links)) } else { Ok(is_whole) }
    });
    let mut report = run.report;
    report.elapsed = started.elapsed();
    match outcome {
        Ok(_) => Ok(report),
        Err(error) => {
            let failure = failure(target, &plan, &error);
            Err(GenerateError::Failed { failure: Box::new(failure), made: Box::new(report) })
        }
    }
}

/// One run, in phases. Each phase starts when the one before has ended.
struct Run<'a, F> {
    make: &'a Make<'a>,
    options: &'a Options,
    end: Stop,
    started: Instant,
    report: Report,
    observe: F,
}

impl<F: FnMut(&Progress)> Run<'_, F> {
    /// Runs a task and all tasks that it adds. Returns false if the run was asked to end before.
    fn phase(&mut self, task: Task) -> Result<bool, MakeError> {
        let Self { make, options, end, started, report, observe } = self;
        if options.stop.is_set() {
            end.set();
        }
        let pool =
            atta_runtime::Options { threads: options.threads, stop: end.clone(), ..Default::default() };
        let outcome = atta_runtime::run(*make, vec![task], &pool, |status| {
            let (threads, stopping) = (status.threads, status.stopping);
            observe(&Progress { elapsed: started.elapsed(), entries: make.progress(), threads, stopping });
            if options.stop.is_set() {
                end.set();
            }
        });
        outcome.workers.iter().for_each(|worker| report.add(&worker.made));
        report.threads_max = report.threads_max.max(outcome.threads_max);
        report.stopped |= outcome.stopped;
        make.error().map_or(Ok(!outcome.stopped), Err)
    }
}

/// Makes or opens the target, and returns whether it was made.
fn open_target(target: &Path) -> Result<(OwnedFd, bool), GenerateError> {
    let is_new = match mkdirat(CWD, target, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(target_failed(target, "make directory", errno)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(CWD, target, flags, Mode::empty());
    let root = opened.map_err(|errno| target_failed(target, "open directory", errno))?;
    match is_empty(&root) {
        Ok(true) => Ok((root, is_new)),
        Ok(false) => Err(GenerateError::NotEmpty(target.to_path_buf())),
        Err(errno) => Err(target_failed(target, "read directory", errno)),
    }
}

fn is_empty(directory: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn target_failed(target: &Path, operation: &'static str, errno: Errno) -> GenerateError {
    let path = target.as_os_str().as_bytes().to_vec();
    let failure = Failure {
        operation: Operation::Custom(operation),
        root: path.clone().into(),
        path: path.into(),
        errno: EntryErrno(errno.raw_os_error()),
        spelled: None,
        at: None,
    };
    GenerateError::Failed { failure: Box::new(failure), made: Box::default() }
}

fn failure(target: &Path, plan: &Plan, error: &MakeError) -> Failure<'static> {
    let root = target.as_os_str().as_bytes().to_vec();
    let below = plan.path(error.node);
    let path = if below.is_empty() { root.clone() } else { [root.as_slice(), below.as_slice()].join(&b'/') };
    Failure {
        operation: error.operation,
        root: root.into(),
        path: path.into(),
        errno: error.errno,
        spelled: None,
        at: None,
    }
}

#[cfg(test)]
mod tests;
