//! Walks file trees on many threads and passes every entry once, with its metadata, to the caller's function.
//!
//! An operation is a function of an entry. Tasks that it pushes may run on any thread. This one counts the lines of all Rust sources of a
//! tree:
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
//! It writes nothing, prints nothing, and reads no file contents. An entry that fails is passed to [`Visit::failure`] and never stops the
//! walk. No name is looked up through a symbolic link that the options do not allow to follow (see `link.rs`).

mod hard_links;
mod summary;
mod visit;

use atta_entry::{Errno, Metadata};
use atta_runtime::{RankError, Session};
use atta_sys as sys;

pub use crate::tree::directory::SliceResults;
pub use crate::tree::{
    BadRule, Differs, FromLog, Gone, Held, Journal, Options, Outcome, Profile, Progress, ResumeError, Rule,
    Rules, Start, ThreadReport, Waiting,
};
pub use atta_sys::Features;
pub use hard_links::{HardLinks, LinkedName, Seen};
#[cfg(test)]
pub(crate) use summary::LinkedNames;
pub use summary::{Summary, Totals};
pub use visit::{Each, Tasks, Visit, each};

use crate::tree;

/// Walks everything below `starts`. The list may be long; it is read as the walk goes on. Returns when all is done or `options.stop` was
/// set.
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
) -> Outcome<V::Worker, V::Results> {
    tree::run_alone(visit, starts, options, |progress, _| observe(progress))
}

/// As [`run`], as one of several ranks, which walk the starts of the first rank together. Returns when all is done or the walk was stopped
/// on one of them. `options.stop` is that of the session.
///
/// On the first rank `observe` gets the known progress of all ranks; on each other rank, its own.
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
) -> Result<Outcome<V::Worker, V::Results>, RankError> {
    Ok(tree::run(session, visit, starts, options, |progress, _| observe(progress))?.all())
}

/// As [`run_on`], with a log of its job: `journal` gets what is to be written, and on the first rank it says what earlier runs of the job have
/// done. The roots must be those of all runs of the job, in the same order on all ranks, and no two of them the same. The outcome has the
/// results of this run alone.
///
/// What `visit` does must be in its results, and it must push no tasks: a run that is killed has done what is in the logs, and the next run does
/// the rest. With [`Options::follow`] the log is not valid, since a followed link is not in it.
///
/// # Errors
/// As [`Session::run`].
///
/// # Panics
/// As [`run`].
pub fn run_logged<'a, V: Visit>(
    session: &mut Session<'_>,
    (visit, journal): (&'a V, &'a Journal<V::Results>),
    roots: Vec<Vec<u8>>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome<V::Worker, V::Results>, RankError> {
    let observe = |progress: &Progress, _| observe(progress);
    Ok(tree::run_logged(session, (visit, journal), roots, options, observe)?.all())
}

/// The path of a directory that the operator gave, without links, `.` and `..`. None: it cannot be found.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the operator named this one path")]
pub fn real_path(path: &std::path::Path) -> Option<std::path::PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The metadata of a path that the operator gave, links followed.
///
/// # Errors
/// The kernel's error.
pub fn look_at(path: &[u8]) -> Result<Metadata, Errno> {
    sys::stat_path(path, true)
}
