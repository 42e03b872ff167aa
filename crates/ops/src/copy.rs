//! Copies file trees: everything that is there, with everything it has, on many threads.
//!
//! ```no_run
//! use atta_entry::Failure;
//! use atta_ops::copy::{self, Options, Watch};
//!
//! struct Print;
//!
//! impl Watch for Print {
//!     fn failure(&self, failure: &Failure<'_>) {
//!         eprintln!("{failure}");
//!     }
//! }
//!
//! let outcome = copy::run(&[b"src".to_vec()], b"/backup/src", &Options::default(), &Print, |_| {});
//! println!("{:?}", outcome.map(|outcome| outcome.totals.files));
//! ```
//!
//! What it promises: whoever looks at the target sees an old file, a new one, or none, never a part of one. Nothing outside of
//! TARGET is touched, whatever somebody swaps meanwhile. A file that changed while it was read is no copy.
//!
//! What it does not do: it prints nothing, and does not go on where another run was ended.

mod attributes;
mod clone;
mod data;
mod direct;
mod existing;
mod file;
mod handler;
mod keep;
mod large;
mod links;
mod listed;
mod mirror;
mod names;
mod owners;
mod pattern;
mod publish;
mod rehearsal;
mod report;
mod roots;
mod special;
mod stripe;
mod totals;
mod trouble;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_entry::{Failure, Kind};
use atta_runtime::Rate;
use rustix::fs::{AtFlags, Mode, OFlags};

pub use attributes::NotKept;
pub use clone::Reflink;
pub use existing::Existing;
pub use keep::{ExtendedNames, Keep, OwnerRule, Owners};
pub use rehearsal::Planned;
pub use report::{Report, SizeClass, SlowFile};
pub use roots::Refused;
pub use stripe::{StripeRule, Stripes};
pub use totals::Totals;

use crate::digest::Signature;
use crate::walk::visit::Handler;
use crate::walk::{self, Start};
use handler::{CopyWorker, Copying, Live, Where};
use links::Deferred;
use mirror::Shared;
use names::Namer;
use publish::Batch;
use roots::Target;
use trouble::{Doing, Trouble};

/// When what was copied is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before it gets its name: many at a time, by `syncfs`.
    #[default]
    Batch,
    /// Before it gets its name: each file by itself.
    File,
    /// When the kernel likes.
    None,
}

/// How a copy is done.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// How the sources are walked; what it says of links and metadata is not used.
    pub walk: walk::Options<'a>,
    /// When what was copied is made durable.
    pub fsync: Fsync,
    /// Whether files get a digest while they are copied.
    pub digest: bool,
    /// Bytes that one thread copies of a large file at a time, a power of two; none: by its size and the number of threads.
    pub chunk: Option<u64>,
    /// What is kept beside the bytes.
    pub keep: Keep,
    /// What is done where something is there already.
    pub existing: Existing,
    /// Whether a file that is there is written into, where that can be, instead of a new one that replaces it.
    pub in_place: bool,
    /// Whether it is only looked what would be made; nothing is written, and files are not opened.
    pub is_rehearsal: bool,
    /// A cap on the bytes a second that are read and written, over all threads.
    pub bandwidth: Option<Arc<Rate>>,
    /// Whether large files go past the page cache, where they can.
    pub direct: bool,
    /// Whether copies share the bytes of their sources; without a digest alone, which needs to see them.
    pub reflink: Reflink,
    /// How copies are striped on Lustre; none: as their directories say.
    pub stripes: Option<Stripes>,
}

/// Hears of what happens, on any thread.
pub trait Watch: Sync {
    /// An entry was not copied. Its path is the source's.
    fn failure(&self, failure: &Failure<'_>);

    /// What would become of an entry, if it is only asked for that; directories that are there are not told. Its path is the
    /// source's.
    fn planned(&self, _planned: Planned, _path: &[u8]) {}
}

/// How a copy stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the walk of the sources has found.
    pub walk: walk::Progress,
    /// Files whose bytes were copied.
    pub files: u64,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// What a copy left.
#[derive(Debug)]
pub struct Outcome {
    /// What was copied.
    pub totals: Totals,
    /// Which files it was made of.
    pub report: Report,
    /// Of what was copied, if files got digests, and nothing failed or was left as it is.
    pub signature: Option<Signature>,
    /// What the walk of the sources did.
    pub threads: Vec<walk::ThreadReport>,
    /// From start to end.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to.
    pub stopped: bool,
}

/// Copies all `sources` to `target`, as `cp -a` does. Returns when all is done, and durable if that was asked for, or
/// `options.walk.stop` was set.
///
/// `observe` is called on the calling thread some 40 times a second.
///
/// # Errors
/// Nothing was copied: the arguments make no sense, or a source or the target is not there.
pub fn run(
    sources: &[Vec<u8>],
    target: &[u8],
    options: &Options<'_>,
    watch: &dyn Watch,
    observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    let starts = sources.iter().map(|source| Start::new(source.clone()));
    run_starts(sources, starts, false, target, (options, watch), observe)
}

/// The same for what a list names: each start's root is one of `sources`, and directories above it are made as needed. There is no
/// signature: it would be that of a whole.
///
/// # Errors
/// As [`run`].
pub fn run_listed(
    sources: &[Vec<u8>],
    starts: impl Iterator<Item = Start> + Send,
    target: &[u8],
    options: &Options<'_>,
    watch: &dyn Watch,
    observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    run_starts(sources, starts, true, target, (options, watch), observe)
}

fn run_starts(
    sources: &[Vec<u8>],
    starts: impl Iterator<Item = Start> + Send,
    is_listed: bool,
    target: &[u8],
    (options, watch): (&Options<'_>, &dyn Watch),
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    let features = options.walk.features;
    let target = Target::open(target)?;
    let layouts = stripe::layouts(options.stripes.as_ref(), &target.top)?;
    let shared = Shared::new(Namer::new(RandomState::new().hash_one(std::process::id())));
    if options.is_rehearsal {
        return rehearsal::run(sources, starts, &target, (options, watch), &shared, observe);
    }
    let roots = target.roots(sources, &shared, features)?;
    let top = target.top;
    let (is_volatile, is_served) = (is_one_of(&top, &[TMPFS, RAMFS]), is_one_of(&top, &[FUSE]));
    let top_identity = walk::kernel::stat_of(&top).map_or((0, 0), |top| (top.device, top.inode));
    let (links, large) = (links::Links::default(), large::LargeFiles::default());
    let (batch, live) = (Batch::default(), Live::default());
    let own_uid = own_uid(&top, &shared);
    let held = handler::held_by_each(options.walk.threads.max(options.walk.cores));
    let mut copying = Copying {
        options,
        watch,
        roots,
        shared,
        links,
        large,
        batch,
        top,
        is_volatile,
        is_served,
        top_identity,
        features,
        own_uid,
        held,
        live,
        unable: clone::Unable::default(),
        layouts,
        is_listed,
    };
    let began = std::time::Instant::now();
    let walked = walk::run_handler(&copying, starts, &options.walk, |progress| {
        observe(&Progress {
            walk: progress.clone(),
            files: copying.live.files.load(Ordering::Relaxed),
            bytes: copying.live.bytes.load(Ordering::Relaxed),
        });
    });
    let mut last = copying.worker(walked.workers.len());
    copying.conclude(&mut last, walked.stopped);
    copying.finish(&mut last);
    let (mut totals, mut signature, mut report) = (last.totals, last.signature, last.report);
    for worker in &walked.workers {
        totals += &worker.totals;
        report += &worker.report;
        signature.merge(&worker.signature);
    }
    // It would be that of a whole copy.
    let is_whole = totals.failed() == 0 && totals.skipped == 0 && !walked.stopped && !is_listed;
    let signature = (options.digest && is_whole).then_some(signature);
    Ok(Outcome {
        totals,
        report,
        signature,
        threads: walked.threads,
        elapsed: began.elapsed(),
        stopped: walked.stopped,
    })
}

impl Copying<'_> {
    /// Makes a name whose file somebody else was copying.
    fn make_deferred(&self, worker: &mut CopyWorker, deferred: &Deferred) {
        let made = match self.link_deferred(worker, deferred) {
            Ok(made) => made,
            Err(trouble) => return self.fail(worker, &deferred.at, trouble),
        };
        if self.options.digest {
            let (root, path) = deferred.at.told();
            let path = handler::below(&path, root.len());
            self.sign(worker, path, Kind::File, deferred.metadata.size, &made);
        }
        let name = deferred.name();
        let to = self.place(worker, &deferred.mirror, &name);
        match to {
            Ok(to) => self.complete(worker, &deferred.at, &to, Kind::File, made),
            Err(trouble) => self.fail(worker, &deferred.at, trouble),
        }
    }

    /// Does what can be done only when everything else is.
    fn conclude(&mut self, worker: &mut CopyWorker, was_stopped: bool) {
        let deferred = self.links.take_deferred();
        if !was_stopped {
            deferred.iter().for_each(|deferred| self.make_deferred(worker, deferred));
        }
        drop(deferred);
        // While the directory that it is in has not got its times.
        let ended = self.forget_links();
        self.publish_rest(worker);
        self.forget_large(worker);
        for mirror in self.roots.mirrors() {
            // A directory that could not be read has its name all the same.
            self.name_root(worker, mirror);
        }
        // They hold the directories of the roots.
        self.roots.clear();
        let complete = self.shared.take_complete();
        self.close(worker, complete);
        let late = self.shared.take_late();
        self.close(worker, late);
        let is_durable = self.is_volatile || self.options.fsync == Fsync::None;
        let synced = if is_durable { Ok(()) } else { self.sync() };
        if let Err(errno) = ended.and(synced) {
            self.fail(worker, &Where::Root(b"TARGET".to_vec()), Trouble::new(Doing::Sync, errno));
        }
    }
}

/// Whose what this process makes in a directory is, by a file that nobody can replace before it is looked at.
fn own_uid(directory: &rustix::fd::OwnedFd, shared: &Shared) -> Option<u32> {
    let name = shared.namer.of_file(u64::MAX);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR).ok()?;
    // What cannot be removed is found by its name.
    let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
    walk::kernel::stat_descriptor(&file).ok().map(|found| found.uid)
}

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const FUSE: i64 = 0x6573_5546;

/// Whether a file system is one of these.
fn is_one_of(directory: impl rustix::fd::AsFd, magics: &[i64]) -> bool {
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    let magic = |found: rustix::fs::StatFs| i64::from(found.f_type);
    rustix::fs::fstatfs(directory).is_ok_and(|found| magics.contains(&magic(found)))
}
