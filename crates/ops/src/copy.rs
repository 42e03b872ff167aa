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

pub(crate) mod commit;
mod ending;
pub(crate) mod handler;
mod large;
mod links;
#[cfg(test)]
mod nothing_fails;
pub(crate) mod plan;
mod report;
mod room;
pub(crate) mod target;
mod times;
mod totals;

use atta_sys as sys;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atta_entry::Failure;
pub use atta_runtime::Seat;
use atta_runtime::{Exchanged, RankError, Rate, Session};

pub use crate::metadata::keep::{ExtendedNames, Keep, OwnerRule, Owners};
pub use crate::metadata::not_kept::NotKept;
pub use crate::refused::Refused;
pub use plan::beside::{Leftovers, Notice, clean_command};
pub use plan::rehearsal::{DryRun, Planned};
pub use report::{Report, SizeClass, SlowFile};
pub use target::clone::Reflink;
pub use target::existing::Existing;
pub use target::stripe::{StripeRule, Stripes};
pub use times::{Phase, RankReport};
pub use totals::Totals;

use crate::descriptors::{Budget, Needs};
use crate::digest::Signature;
use crate::file::kernel_copy::{Race, Within};
use crate::file::source::clock_of_files;
use crate::jobs::names::Namer;
use crate::tree::progress::{Counted, Live};
use crate::tree::{self, Differs, Seed, Start};
use atta_sys::file_systems::{CopyBy, is_copied_by};
use commit::publish::Batch;
use commit::reread::Checks;
use commit::stores::Stores;
use commit::syncing::Syncing;
use ending::Ending;
use handler::Copying;
use plan::repair::Repair;
use plan::roots::Target;
use target::mirror::Shared;
use times::{Clock, Syncs};

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
    pub walk: tree::Options<'a>,
    /// When what was copied is made durable.
    pub fsync: Fsync,
    /// Whether files get a digest while they are copied.
    pub digest: bool,
    /// Whether copies are read back and compared, when they are durable. Needs digests.
    pub verify: bool,
    /// Bytes that one thread copies of a large file at a time, a power of two; none: by its size and the number of threads.
    pub chunk: Option<u64>,
    /// A file with more bytes of holes is copied without a digest; none: [`HOLE_BYTES_MAX`](crate::digest::HOLE_BYTES_MAX).
    pub hole_bytes_max: Option<u64>,
    /// What is kept beside the bytes.
    pub keep: Keep,
    /// TARGET is the name of the copy of one SOURCE, also where it is a directory already, which the copy is merged into.
    pub no_target_directory: bool,
    /// Whether the copy does not start where another one is writing to TARGET, or where nobody knows.
    pub exclusive: bool,
    /// What is done where something is there already.
    pub existing: Existing,
    /// Whether a file that is there is written into, where that can be, instead of a new one that replaces it.
    pub in_place: bool,
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

    /// What a copy would do with an entry: reported by a [`DryRun`] alone, and not for directories that exist. The path is the
    /// source's.
    fn planned(&self, _planned: Planned, _path: &[u8]) {}

    /// Something about other runs in the place where the copy makes things, before it begins; on rank 0 alone.
    fn notice(&self, _notice: &Notice) {}
}

/// How a copy stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the walk of the sources has found.
    pub walk: tree::Progress,
    /// Files whose bytes were copied.
    pub files: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Bytes of large files that were to be copied, counted once more where one has to be copied again.
    pub large_found: u64,
    /// Of these, those that were copied, or will not be. On one of several ranks it may be more than what that one has found.
    pub large_done: u64,
}

/// What a copy left.
#[derive(Debug)]
pub struct Outcome {
    /// What was copied.
    pub totals: Totals,
    /// Which files it was made of.
    pub report: Report,
    /// What this rank did, and where its time went.
    pub rank: RankReport,
    /// Of what was copied, if all files got digests, and nothing failed or was left as it is.
    pub signature: Option<Signature>,
    /// What the walk of the sources did.
    pub threads: Vec<tree::ThreadReport>,
    /// From start to end.
    pub elapsed: Duration,
    /// Whether it ended early because it was asked to, or parked.
    pub stopped: bool,
    /// Whether it ended early because there is no room in TARGET: nothing new was begun then.
    pub parked: bool,
    /// What is left under names of its own, if anything is; on rank 0 alone.
    pub leftovers: Option<Leftovers>,
    /// What was exchanged with other ranks.
    pub exchanged: Exchanged,
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
    Ok(Copy::prepare(sources, target, options, watch, Seat::alone())?.run_alone(observe))
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
    Ok(Copy::prepare(sources, target, options, watch, Seat::alone())?.listed(starts).run_alone(observe))
}

/// The same for what a list of differences names (`atta verify`): both sides of each name are looked at again, and what differs is repaired.
/// A directory is meant with what is below it only if it was missing. Hard links are kept.
///
/// # Errors
/// As [`run`].
pub fn run_repair(
    sources: &[Vec<u8>],
    rows: impl Iterator<Item = (Start, Differs)> + Send,
    target: &[u8],
    options: &Options<'_>,
    watch: &dyn Watch,
    observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    Ok(Copy::prepare(sources, target, options, watch, Seat::alone())?.repairing(rows)?.run_alone(observe))
}

fn starts_of(sources: &[Vec<u8>]) -> impl Iterator<Item = Start> + Send {
    sources.iter().map(|source| Start::new(source.clone()))
}

/// A copy that is set up: it is known where everything goes, and nothing has been copied. What only looks is a [`DryRun`].
pub struct Copy<'a> {
    copying: Copying<'a>,
    /// Of the first rank alone.
    starts: Box<dyn Iterator<Item = Seed> + Send + 'a>,
    target_is_name: bool,
    refused: Option<Refused>,
}

impl<'a> Copy<'a> {
    /// Looks at SOURCE... and TARGET. On several ranks each does that before any goes on.
    ///
    /// # Errors
    /// As [`run`].
    pub fn prepare(
        sources: &'a [Vec<u8>],
        target: &[u8],
        options: &'a Options<'a>,
        watch: &'a dyn Watch,
        seat: Seat,
    ) -> Result<Self, Refused> {
        let features = options.walk.features;
        let target = Target::open(target, options.no_target_directory)?;
        let layouts = target::stripe::layouts(options.stripes.as_ref(), &target.top)?;
        let shared = Shared::new(Namer::new(seat.job));
        let roots = target.roots(sources, &shared, features)?;
        let target_is_name = target.is_name();
        let budget = Budget::of_process(Needs::COPY, options.walk.threads.max(options.walk.cores));
        let who = number_of_thread(seat, u32::MAX as usize);
        let stores = Stores::new(&target.top, &shared, who, features).with_most(budget.stores);
        let place = plan::beside::Place { target: &target, roots: &roots, shared: &shared, stores: &stores };
        let begin = || plan::beside::begin(&place, sources, options, watch);
        let (job, refused) = match (seat.rank == 0).then(begin).transpose() {
            Ok(job) => (job.flatten(), None),
            // The others do not know of it, and must hear of it first.
            Err(refused) if seat.ranks > 1 => (None, Some(refused)),
            Err(refused) => return Err(refused),
        };
        let (top, path) = (target.top, target.path);
        let within = match () {
            () if is_copied_by(&top, CopyBy::Server) => Within::Servers,
            () if is_copied_by(&top, CopyBy::Pages) => Within::Kernel(Race::default()),
            () => Within::Nobody,
        };
        let top_identity = sys::stat_of(&top).map_or((0, 0), |top| (top.device, top.inode));
        let (links, large) = (links::Links::default(), large::LargeFiles::new(budget.large));
        let (batch, live) = (Batch::default(), Live::new(budget.threads));
        let (checks, syncs) = (Checks::default(), Arc::new(Syncs::default()));
        let copying = Copying {
            options,
            watch,
            seat,
            roots,
            shared,
            links,
            large,
            batch,
            checks,
            room: room::Room::default(),
            began: clock_of_files(),
            top,
            target: path,
            stores,
            grants: target::grants::Grants::default(),
            within,
            top_identity,
            features,
            budget,
            live,
            syncing: Syncing::new(budget.syncing, Arc::clone(&syncs)),
            syncs,
            unable: target::clone::Unable::default(),
            layouts,
            is_listed: false,
            repair: None,
            namings: AtomicU64::new(0),
            job: Mutex::new(job),
            left_over: AtomicU64::new(0),
        };
        let starts = Box::new(starts_of(sources).map(Seed::from));
        Ok(Self { copying, starts, target_is_name, refused })
    }

    /// Why the copy must not run although every rank sees the same; on the first of several ranks alone.
    #[must_use]
    pub fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }

    /// Whether TARGET is the name of the copy. The same arguments mean something else once it exists: to go on, a later copy takes
    /// [`Options::no_target_directory`].
    #[must_use]
    pub fn target_is_name(&self) -> bool {
        self.target_is_name
    }

    /// Copies what a list names instead: see [`run_listed`]. On several ranks that is said on each of them, and the list is that
    /// of the first.
    #[must_use]
    pub fn listed(mut self, starts: impl Iterator<Item = Start> + Send + 'a) -> Self {
        self.copying.is_listed = true;
        Self { starts: Box::new(starts.map(Seed::from)), ..self }
    }

    /// Repairs what a list of differences names instead, on one rank: see [`run_repair`].
    ///
    /// # Errors
    /// [`Options::existing`] is not [`Existing::Replace`]: a repair finds out by itself what may stay.
    pub fn repairing(
        mut self,
        rows: impl Iterator<Item = (Start, Differs)> + Send + 'a,
    ) -> Result<Self, Refused> {
        if self.copying.options.existing != Existing::Replace {
            let what = "a repair finds out by itself what may stay".to_owned();
            return Err(Refused::usage(what, "leave --update and --ignore-existing out"));
        }
        self.copying.is_listed = true;
        self.copying.repair = Some(Repair::default());
        Ok(Self { starts: Box::new(rows.map(Seed::from)), ..self })
    }

    /// The inode of the directory that everything is put into: the same on all ranks, if they see the same file system.
    #[must_use]
    pub fn target_inode(&self) -> u64 {
        self.copying.top_identity.1
    }

    /// Runs it in a session of one: see [`run`](fn@run).
    pub fn run_alone(self, observe: impl FnMut(&Progress)) -> Outcome {
        let mut session = Session::alone(self.copying.options.walk.stop.clone());
        match self.run(&mut session, observe) {
            Ok(outcome) => outcome,
            Err(error) => unreachable!("a session of one waits for nobody: {error}"),
        }
    }

    /// Runs it as one of the ranks of a session, which copy what the first one was given. `options.walk.stop` is that of the session. Returns
    /// what this rank has done when all ranks are done.
    ///
    /// On the first rank `observe` gets what all ranks have done, as far as it is known; on the others what they have done themselves.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run(
        self,
        session: &mut Session<'_>,
        mut observe: impl FnMut(&Progress),
    ) -> Result<Outcome, RankError> {
        let Self { copying, starts, .. } = self;
        let clock = Clock::start();
        let observed = |walk: &tree::Progress, own| observe(&Progress::new(walk, own));
        let walked = tree::run(session, &copying, starts, &copying.options.walk, observed)?;
        let mut ending = Ending::new(copying, walked, clock);
        ending.settle(session)?;
        session.beside(|| ending.end())
    }
}

impl std::fmt::Debug for Copy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copy").field("seat", &self.copying.seat).finish_non_exhaustive()
    }
}

impl Progress {
    /// Of a walk, and of what a copy counts beside it: see [`Copying::counted_so_far`].
    fn new(walk: &tree::Progress, [files, bytes, large_found, large_done]: Counted) -> Self {
        Self { walk: walk.clone(), files, bytes, large_found, large_done }
    }
}

impl Copying<'_> {
    fn counted_so_far(&self) -> Counted {
        let Live { files, bytes, large_found, large_done, .. } = &self.live;
        [files, bytes, large_found, large_done].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A number for a thread of a rank that no other one of the session has.
fn number_of_thread(seat: Seat, index: usize) -> u64 {
    u64::from(seat.rank) << 32 | index as u64
}
