//! Copies file trees with their metadata, on many threads.
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
//! Guarantees: a reader of the target sees the old file, the new file, or no file, never a partial one. The copy modifies nothing outside
//! TARGET, even if another process replaces directories meanwhile. A file that changes while it is read is not copied.
//!
//! Limits: the copy prints nothing, and writes no log of its job: see [`Copy::logged`].

pub(crate) mod commit;
mod ending;
mod failures;
#[cfg(test)]
pub(crate) mod fuzz;
pub(crate) mod handler;
mod large;
mod links;
#[cfg(test)]
mod nothing_fails;
mod options;
pub(crate) mod plan;
mod results;
mod resume;
mod settle;
mod space;
pub(crate) mod target;
mod thread;

use atta_sys as sys;
use std::sync::Arc;

pub use atta_runtime::Seat;
use atta_runtime::{RankError, Session};

pub use crate::file::clone::Reflink;
pub use crate::metadata::keep::{ExtendedNames, Keep, OwnerRule, Owners};
pub use crate::metadata::not_kept::NotKept;
pub use crate::refused::Refused;
pub use options::{Existing, Fsync, Leftovers, Notice, Options, Outcome, Planned, Progress, Watch};
pub use plan::beside::clean_command;
pub use plan::marker::{Marker, TargetPlace};
pub use plan::rehearsal::DryRun;
pub use plan::roots::parent_of;
pub use results::Results;
pub use results::manifest::{Kept, ManifestRow};
pub use results::report::{Report, SizeClass, SlowFile};
pub use results::times::{Phase, RankReport};
pub use results::totals::Totals;
pub use resume::finished::{Finished, Found};
pub use resume::noting::CopyLog;
pub use target::stripe::{StripeRule, Stripes};

use crate::descriptors::{Budget, Needs};
use crate::file::chunks::UnderWay;
use crate::jobs::names::Namer;
use crate::tree::Journal;
use crate::tree::progress::Live;
use crate::tree::{self, Differs, Seed, Start};
use commit::Commit;
use commit::stores::Stores;
use ending::Ending;
use failures::Failures;
use handler::CopyOperation;
use links::Links;
use links::forget::forget_incomplete;
use links::private::PrivateDirectory;
use options::{number_of_thread, starts_of};
use plan::roots::Destination;
use results::times::Clock;
use resume::noting::Noting;
use resume::redone::remove_temporary;
use target::data::Data;
use target::grants::Grants;
use target::mirror::Shared;
use target::stripe::Striping;
use target::{Target, Top};

/// Copies all `sources` to `target`, as `cp -a` does.
///
/// Returns when everything is copied (and durable, if requested), or when `options.walk.stop` was set.
///
/// Calls `observe` on the calling thread about 40 times a second.
///
/// # Errors
/// Nothing was copied: the arguments are invalid, or a source or the target does not exist.
pub fn run(
    sources: &[Vec<u8>],
    target: &[u8],
    options: &Options<'_>,
    watch: &dyn Watch,
    observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    Ok(Copy::prepare(sources, target, options, watch, Seat::alone())?.run_alone(observe))
}

/// Copies the entries of a list.
///
/// The root of each start is one of `sources`. Missing directories above an entry are created. There is no signature, because a signature
/// covers a whole tree.
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

/// Repairs the entries of a list of differences (`atta verify`).
///
/// Both sides of each name are examined again, and differences are repaired. A directory stands for everything below it only if it was
/// missing. Hard links are preserved.
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

/// Whether a SOURCE is there, as far as its path says. A last name that is a symbolic link counts, wherever it leads.
#[must_use]
pub fn is_there(source: &[u8]) -> bool {
    sys::stat_path(source, source.ends_with(b"/")).is_ok()
}

/// The part of the memory for tasks that names take which a repair makes last, before they go to a file.
const PUT_OFF_PART: u64 = 8;

/// A copy that is set up but not started: all paths are resolved, and nothing has been copied. For a dry run see [`DryRun`].
pub struct Copy<'a> {
    operation: CopyOperation<'a>,
    /// Only on the first rank.
    starts: Box<dyn Iterator<Item = Seed> + Send + 'a>,
    target_is_name: bool,
    refused: Option<Refused>,
    logged: Option<Logged<'a>>,
    roots: Vec<Vec<u8>>,
}

/// The log of a job.
struct Logged<'a> {
    journal: &'a Journal<Results>,
    /// What earlier runs of the job have come to.
    earlier: Results,
}

impl<'a> Copy<'a> {
    /// Examines SOURCE... and TARGET. On several ranks, every rank does this before any rank proceeds.
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
        let target = Destination::open(target, options.no_target_directory, features)?;
        let striping = Striping::new(options.stripes.as_ref(), &target.top)?;
        let run = options.run_of_job;
        let shared = Shared::new(Namer::new(seat.job).with_run(run.unwrap_or_default()));
        let roots = target.roots(sources, &shared)?;
        let target_is_name = target.is_name();
        let budget = Budget::of_process(Needs::COPY, options.walk.threads.max(options.walk.cores));
        let who = number_of_thread(seat, u32::MAX as usize);
        let stores = Stores::new(&target.top, &shared, who, options).with_most(budget.stores);
        let place = plan::beside::Place {
            target: &target,
            roots: &roots,
            shared: &shared,
            stores: &stores,
            options,
            watch,
        };
        let begin = || plan::beside::begin(&place, sources);
        let (job, refused) = match (seat.rank == 0).then(begin).transpose() {
            Ok(job) => (job.flatten(), None),
            // The other ranks do not know of the refusal and must be notified first.
            Err(refused) if seat.ranks > 1 => (None, Some(refused)),
            Err(refused) => return Err(refused),
        };
        let (directory, path) = (target.top, target.path);
        let grants = Grants::new(Arc::clone(&directory));
        let data = Data::new(options, striping, &directory);
        let identity = sys::stat_of(&directory).map_or((0, 0), |top| (top.device, top.inode));
        let private = PrivateDirectory::new(&directory, &shared, seat, features);
        let is_resumed = run.is_some_and(|run| run > 1);
        let private = private.of_job(job, stores.own_uid(identity.0)).resumed(is_resumed);
        if is_resumed && seat.rank == 0 {
            private.stay();
            // With several ranks, a copy is on storage before other names become links of it.
            let cannot = |errno| {
                let hint = "temporary files of an earlier run of the job are there";
                Refused::failed("remove what an earlier run has not completed in", &path, errno, hint)
            };
            if let Some(links) = forget_incomplete(&private).map_err(cannot)? {
                // From here on, names of those copies count as done.
                stores.sync_links(&links).map_err(cannot)?;
            }
            // Of sources that are files. If TARGET itself is the copy of a directory, that is done when it is entered.
            if !roots.names().iter().any(|name| name.as_c_str() == c".") {
                remove_temporary(&shared.namer, &directory, (&|_| false, &|_| false)).map_err(cannot)?;
            }
        }
        let commit = Commit::new(&budget, stores.syncs());
        let target = Target {
            options,
            features,
            seat,
            run_of_job: run,
            is_listed: false,
            has_fragile_renames: sys::file_systems::has_fragile_renames(&directory, features),
            top: Top { directory, path, identity },
            roots,
            sources,
            shared,
            stores,
            grants,
            private,
            data,
            failures: Failures::new(watch, &options.walk.stop),
        };
        let operation = CopyOperation {
            target,
            commit,
            links: Links::default(),
            large: UnderWay::new(budget.large),
            live: Live::new(budget.threads),
            is_repair: false,
            left_out: None,
            lacks_log: false,
            held: budget.held_in_target,
        };
        let starts = Box::new(starts_of(sources).map(Seed::from));
        let (logged, roots) = (None, sources.to_vec());
        Ok(Self { operation, starts, target_is_name, refused, logged, roots })
    }

    /// Why the copy must not run although every rank sees the same file system. Only on the first of several ranks.
    #[must_use]
    pub fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }

    /// Whether TARGET is the name of the copy.
    ///
    /// Once TARGET exists, the same arguments have another meaning. A later copy that continues this one must set
    /// [`Options::no_target_directory`].
    #[must_use]
    pub fn target_is_name(&self) -> bool {
        self.target_is_name
    }

    /// Whether the directory that the copy is put into is itself a copy, and gets the times of its source.
    #[must_use]
    pub fn makes_top(&self) -> bool {
        self.operation.target.roots.names().iter().any(|name| name.as_c_str() == c".")
    }

    /// Copies the entries of a list instead: see [`run_listed`].
    ///
    /// On several ranks, every rank must call this. Only the first rank's list is used.
    #[must_use]
    pub fn listed(mut self, starts: impl Iterator<Item = Start> + Send + 'a) -> Self {
        self.operation.target.is_listed = true;
        Self { starts: Box::new(starts.map(Seed::from)), ..self }
    }

    /// With a log of its job ([`Options::run_of_job`]): `journal` gets what is to be written; `log` writes it at once; and on the first rank it says what earlier runs of the
    /// job have done, and `earlier` what that came to. Only what is left is copied; the outcome has the sums of all runs. Every rank must call this.
    #[must_use]
    pub fn logged(mut self, journal: &'a Journal<Results>, log: &'a dyn CopyLog, earlier: Results) -> Self {
        let target = &self.operation.target;
        target.private.stay();
        self.operation.commit.noting = Some(Noting::new(journal, log, (target.options, target.seat.ranks)));
        if target.is_durable() {
            journal.hold();
        }
        Self { logged: Some(Logged { journal, earlier }), ..self }
    }

    /// For a rank that cannot write its log while others write theirs: it leaves what is there to a later run of the job, as they do.
    #[must_use]
    pub fn lacking_log(mut self) -> Self {
        self.operation.lacks_log = true;
        self
    }

    /// Leaves a directory out, by device and inode: that of the job.
    #[must_use]
    pub fn leaving_out(mut self, place: Option<(u64, u64)>) -> Self {
        self.operation.left_out = place;
        self
    }

    /// Looks for directories that earlier runs of the job have completed and that are others by now: see [`Finished`].
    #[must_use]
    pub fn finished(&self) -> Finished {
        Finished::new(&self.operation.target, &self.roots)
    }

    /// Repairs the entries of a list of differences instead, on one rank: see [`run_repair`].
    ///
    /// # Errors
    /// [`Options::existing`] is not [`Existing::Replace`]: a repair determines by itself which entries to keep.
    pub fn repairing(
        mut self,
        rows: impl Iterator<Item = (Start, Differs)> + Send + 'a,
    ) -> Result<Self, Refused> {
        if self.operation.target.options.existing != Existing::Replace {
            let what = "a repair finds out by itself what may stay".to_owned();
            return Err(Refused::usage(what, "leave --update and --ignore-existing out"));
        }
        self.operation.target.is_listed = true;
        self.operation.is_repair = true;
        let walk = &self.operation.target.options.walk;
        self.operation.links.set_later(walk.memory_bytes / PUT_OFF_PART, &walk.spill_directory);
        Ok(Self { starts: Box::new(rows.map(Seed::from)), ..self })
    }

    /// Runs the copy in a session of one rank: see [`run`](fn@run).
    pub fn run_alone(self, observe: impl FnMut(&Progress)) -> Outcome {
        let mut session = Session::alone(self.operation.target.options.walk.stop.clone());
        match self.run(&mut session, observe) {
            Ok(outcome) => outcome,
            Err(error) => unreachable!("a session of one waits for nobody: {error}"),
        }
    }

    /// Runs the copy as one rank of a session.
    ///
    /// All ranks copy the entries that the first rank was given. `options.walk.stop` must be that of the session. Returns when all ranks
    /// are done, with what this rank did.
    ///
    /// On the first rank `observe` gets the known progress of all ranks; on the others only their own progress.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run(
        self,
        session: &mut Session<'_>,
        mut observe: impl FnMut(&Progress),
    ) -> Result<Outcome, RankError> {
        let Self { operation, starts, logged, roots, .. } = self;
        let clock = Clock::start();
        let observed = |walk: &tree::Progress, own| observe(&Progress::new(walk, own));
        let options = &operation.target.options.walk;
        let (walked, earlier) = match logged {
            Some(Logged { journal, earlier }) => {
                let with_log = (&operation, journal);
                let run = || tree::run_logged(session, with_log, roots, options, observed);
                let walked = match &operation.commit.noting {
                    Some(noting) => noting.while_syncing(&operation.target, run),
                    None => run(),
                };
                (walked?, Some(earlier))
            }
            None => (tree::run(session, &operation, starts, options, observed)?, None),
        };
        let mut ending = Ending::new(operation, walked, clock).with_earlier(earlier);
        ending.settle(session)?;
        session.beside(|| ending.end())
    }
}

impl std::fmt::Debug for Copy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copy").field("seat", &self.operation.target.seat).finish_non_exhaustive()
    }
}
