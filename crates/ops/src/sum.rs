//! Digests of all files of trees, and one signature of the whole, on many threads.
//!
//! ```no_run
//! use atta_entry::{Entry, Failure};
//! use atta_ops::digest::Hash;
//! use atta_ops::sum::{self, Options, Watch};
//! use atta_ops::walk::Start;
//!
//! struct Print;
//!
//! impl Watch for Print {
//!     type Worker = ();
//!
//!     fn worker(&self, _index: usize) {}
//!
//!     fn entry(&self, _worker: &mut (), entry: &Entry<'_>, digest: Option<&Hash>) {
//!         if let Some(digest) = digest {
//!             println!("{digest}  {}", entry.path().escape_ascii());
//!         }
//!     }
//!
//!     fn failure(&self, _worker: &mut (), failure: &Failure<'_>) {
//!         eprintln!("{failure}");
//!     }
//! }
//!
//! let outcome = sum::run(&Print, vec![Start::new("src")], &Options::default(), |_| {});
//! println!("{:?}", outcome.signature.map(|signature| signature.digest()));
//! ```
//!
//! What it promises: a digest is that of bytes that were all there at one time. A file that changed while it was read is read again, and
//! is a failure if it changed again. Regular files alone are opened, and no link is followed.
//!
//! What it does not do: it writes nothing, and does not remember digests from run to run.

pub mod check;
mod handler;
mod item;
mod large;
mod names;
mod totals;

use atta_sys as sys;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_entry::{Entry, Failure, Kind};

pub use totals::Totals;

use crate::digest::{Element, Hash, Signature};
use crate::tree::{self, Start};
use handler::Summing;

/// How trees are summed up.
#[derive(Debug)]
pub struct Options<'a> {
    /// How they are walked; what it says of links to follow and of targets is not used, and metadata is needed.
    pub walk: tree::Options<'a>,
    /// Bytes that one thread hashes of a large file at a time, a power of two and at least 1,024; none: by its size and the number of
    /// threads.
    pub chunk: Option<u64>,
    /// A file with more bytes of holes fails; none: [`HOLE_BYTES_MAX`](crate::digest::HOLE_BYTES_MAX).
    pub hole_bytes_max: Option<u64>,
    /// Whether directories are entered; else only what starts name is summed up.
    pub enters: bool,
    /// A file that is left out, by its device and inode: the one that is being written.
    pub output: Option<(u64, u64)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { walk: tree::Options::default(), chunk: None, hole_bytes_max: None, enters: true, output: None }
    }
}

/// Gets what is found, on any thread.
pub trait Watch: Sync {
    /// What one thread gathers.
    type Worker: Send;

    /// Makes the state of the thread with this index, 0 and up. Called on that thread.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Gets an entry, each one once: a regular file with its digest, and with the metadata that it had when it was read.
    fn entry(&self, worker: &mut Self::Worker, entry: &Entry<'_>, digest: Option<&Hash>);

    /// Gets an entry that could not be done.
    fn failure(&self, worker: &mut Self::Worker, failure: &Failure<'_>);

    /// Called on each thread when all is over for it.
    fn finish(&self, _worker: &mut Self::Worker) {}
}

/// How it stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the walk has found.
    pub walk: tree::Progress,
    /// Files that have their digests.
    pub files: u64,
    /// Bytes that were hashed, holes included.
    pub bytes: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome<W> {
    /// What was summed up.
    pub totals: Totals,
    /// Of all of it, if nothing failed: what a copy of it has, too.
    pub signature: Option<Signature>,
    /// The state of each thread.
    pub workers: Vec<W>,
    /// What each thread did, in the same order.
    pub threads: Vec<tree::ThreadReport>,
    /// From start to end.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
}

/// Sums up all that is below `starts`. Returns when all is done or `options.walk.stop` was set.
///
/// `observe` is called on the calling thread some 40 times a second.
///
/// # Panics
/// A panic of the watcher ends it and is passed on.
pub fn run<'a, W: Watch>(
    watch: &'a W,
    starts: impl IntoIterator<Item = Start, IntoIter: Send>,
    options: &'a Options<'a>,
    mut observe: impl FnMut(&Progress),
) -> Outcome<W::Worker> {
    let summing = Summing::new(options, watch);
    let began = std::time::Instant::now();
    let walked = tree::run_alone(&summing, starts, &options.walk, |progress, _| {
        observe(&Progress {
            walk: progress.clone(),
            files: summing.live.files.load(Ordering::Relaxed),
            bytes: summing.live.bytes.load(Ordering::Relaxed),
        });
    });
    let (mut totals, mut signature) = (Totals::default(), Signature::default());
    for worker in &walked.workers {
        totals += &worker.totals;
        signature.merge(&worker.signature);
    }
    let is_whole = totals.failed() == 0 && !walked.stopped;
    Outcome {
        totals,
        signature: is_whole.then_some(signature),
        workers: walked.workers.into_iter().map(|worker| worker.watch).collect(),
        threads: walked.threads,
        elapsed: began.elapsed(),
        stopped: walked.stopped,
    }
}

/// Which file a descriptor refers to, if it is a regular one: for [`Options::output`].
pub fn regular_file_of(descriptor: impl AsFd) -> Option<(u64, u64)> {
    let found = sys::stat_descriptor(descriptor).ok()?;
    (found.kind() == Kind::File).then_some((found.device, found.inode))
}

/// The digest of what is read to its end, how many bytes that were, and the signature of a file that has them.
///
/// # Errors
/// What cannot be read.
pub fn of_reader(mut reader: impl Read) -> std::io::Result<(Hash, u64, Signature)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => drop(hasher.update(&buffer[..count])),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (digest, size) = (hasher.finalize(), hasher.count());
    let mut signature = Signature::default();
    signature.add(&Element { path: b"", kind: Kind::File, size, digest: Some(&digest), target: None });
    Ok((digest, size, signature))
}
