//! `atta copy` as one of several ranks under an MPI launcher. Rank 0 has the command's files, standard output and standard error;
//! the others copy, and send it what failed.
//!
//! ```text
//!   meet:   one number for all  ──▶  every rank looks at SOURCE... and TARGET: the same?  ──▶  all are told to go
//!   copy:   engine and pool on every rank; failures ──▶ rank 0
//!   settle: links that waited, the last attributes, syncs; totals and late failures of all ──▶ rank 0, which tells
//! ```
//!
//! What is done in which order in the end is not decided here: see `atta_ops::copy`.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use atta_engine::Reduce;
use atta_entry::{Code, Failure};
use atta_fabric::Endpoint;
use atta_mpi_loader::Launcher;
use atta_ops::copy::{
    Copy, Leftovers, Notice, Outcome, Progress, RankReport, Refused, Report, Seat, Totals, Watch,
};
use atta_ops::digest::Signature;
use atta_runtime::{Meeting, Member, Outbox, RankError};

use super::arguments::CopyArguments;
use super::notices;
use super::teller::Teller;
use super::{Run, Setting, Whole, conclude, owners, run_alone, summary, tell};
use crate::ranks::{self, FAILURES, View, cores_of_this_rank, facts};
use crate::run::failures::Failures;
use crate::run::failures::as_bytes as failure_bytes;
use crate::run::fatal::Fatal;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::refused::Refused as WalkRefused;
use crate::run::settings::take;
use crate::run::signals::Signals;
use crate::run::starts::Starts;

/// Runs this rank's part of the command; returns its exit code. Rank 0's is the command's.
pub(super) fn run(arguments: &CopyArguments, signals: &Signals, launcher: &Launcher) -> u8 {
    ranks::run(launcher, |endpoint| on_ranks(arguments, signals, endpoint))
}

fn on_ranks(
    arguments: &CopyArguments,
    signals: &Signals,
    endpoint: &mut dyn Endpoint,
) -> Result<u8, RankError> {
    let mut meeting = match ranks::meet(endpoint)? {
        Ok(meeting) => meeting,
        Err(code) => return Ok(code),
    };
    let cores = cores_of_this_rank(&mut meeting)?;
    let (rank, ranks) = (meeting.rank(), meeting.size());
    if arguments.dry_run || arguments.repair.is_some() {
        // Which names are one file is found out in one place.
        let code = (rank == 0).then(|| run_alone(arguments, signals));
        meeting.tell(code)?;
        return Ok(code.unwrap_or(exit::DONE));
    }
    let job = meeting.tell((rank == 0).then(|| RandomState::new().hash_one(std::process::id())))?;
    let stop = signals.stop();
    let mut run = match (rank == 0).then(|| Run::new(arguments, &stop)).transpose() {
        Ok(Some(run)) if run.starts.as_ref().is_some_and(Starts::are_differences) => {
            let what = "a list of differences is repaired by one rank".to_owned();
            let hint = "use --repair LIST SOURCE TARGET, or run it without mpirun or srun";
            Err(WalkRefused::usage(what, hint).tell())
        }
        Ok(run) => Ok(run),
        Err(refused) => Err(refused.tell()),
    };
    let own = run.as_mut().ok().and_then(Option::as_mut);
    let mut teller = None;
    let (starts, owners) = own
        .map(|run| {
            teller = Some(Teller::new(&arguments.tell, false, std::mem::take(&mut run.events)));
            (run.starts.take(), owners::to_rows(&run.keep.owners))
        })
        .unzip();
    let owners = meeting.tell((rank == 0).then(|| owners.unwrap_or_default()))?;
    let keep = arguments.keep.with_owners(owners::from_rows(owners));
    let failures = run.as_ref().ok().and_then(Option::as_ref).map(|run| &run.failures);
    let watch = RankWatch::new(failures, arguments.tell.quiet);
    let setting = Setting::new(arguments, ranks, keep);
    let options = setting.options(&stop, Some(cores));
    let seat = Seat { rank, ranks, job };
    let prepared = Copy::prepare(&setting.sources, &setting.target, &options, &watch, seat);
    let refused = run.as_ref().err().copied();
    let copy = match may_go(prepared, refused, &setting, &mut meeting)? {
        Ok(copy) => copy,
        Err(code) => return Ok(code),
    };
    let target_is_name = copy.target_is_name();
    let starts = starts.flatten();
    let list_error = starts.as_ref().map(Starts::error);
    let copy = match arguments.list() {
        None => copy,
        // The list is the first rank's.
        Some(_) => copy.listed(starts.into_iter().flatten()),
    };
    let part = Here { arguments, signals, watch: &watch };
    let part = part.copy(copy, meeting, teller.as_mut())?;
    let damaged = part.as_ref().and_then(|(part, _)| watch.receive_last(&part.late));
    match (run, part) {
        (Ok(Some(run)), Some((part, leftovers))) => {
            let fatal = damaged.or_else(|| list_error.and_then(|error| take(&error)));
            let interrupted = (part.interrupted > 0).then_some(part.interrupted);
            let whole = Whole { target_is_name, leftovers, ..part.whole() };
            let told = || summary(arguments, &whole, interrupted.is_some());
            let fatal = fatal.or_else(|| teller.and_then(|teller| teller.events.finish(told).err()));
            Ok(conclude(arguments, &run.failures, &whole, interrupted, fatal))
        }
        _ => Ok(exit::DONE),
    }
}

/// Whether all ranks see the same, and may go. Else rank 0 says why not; with which code to exit.
fn may_go<'a>(
    prepared: Result<Copy<'a>, Refused>,
    refused: Option<u8>,
    setting: &Setting<'_>,
    meeting: &mut Meeting<'_>,
) -> Result<Result<Copy<'a>, u8>, RankError> {
    let (mut seen, _) = facts(setting.sources.clone());
    seen.push(match &prepared {
        Ok(copy) => format!("TARGET goes to inode {}", copy.target_inode()),
        Err(refused) => refused.what.clone(),
    });
    let views = View::gather(seen, meeting)?;
    let code = views.map(|views| match (refused, &prepared, View::differ(&views)) {
        (Some(code), ..) => code,
        (None, _, Some(what)) => {
            let hint = "SOURCE and TARGET must be the same file systems, at the same places, on all ranks";
            complain(&what, Some(hint));
            exit::FATAL
        }
        (None, Err(refused), None) => tell(refused),
        (None, Ok(copy), None) => copy.refused().map_or(exit::DONE, tell),
    });
    let said = meeting.tell(code)?;
    Ok(match prepared {
        Ok(copy) if said == exit::DONE => Ok(copy),
        _ => Err(code.unwrap_or(exit::DONE)),
    })
}

/// What a rank has at hand.
struct Here<'a> {
    arguments: &'a CopyArguments,
    signals: &'a Signals,
    watch: &'a RankWatch<'a>,
}

impl Here<'_> {
    /// Copies with the other ranks; rank 0 gets what all of them have done.
    fn copy(
        &self,
        copy: Copy<'_>,
        meeting: Meeting<'_>,
        mut teller: Option<&mut Teller>,
    ) -> Result<Option<(Part, Option<Leftovers>)>, RankError> {
        let mut member = Member::after(meeting, self.arguments.ranks.config());
        self.watch.set_outbox(member.outbox());
        let watch = self.watch;
        member.on_stream(Box::new(|_, _, bytes| watch.receive(bytes)));
        let mut all = Going::default();
        let ending = copy.run_on_ranks(&mut member, Going::of, |progress, sum| {
            all = sum.unwrap_or(all);
            if let Some(teller) = &mut teller {
                teller.tick(&all.shown(progress));
            }
        });
        let mut ending = ending?;
        self.watch.keep();
        // What ranks have done is added up when the rest is done, too.
        member.close(Going::default())?;
        let mut meeting = member.into_meeting();
        ending.settle(&mut meeting)?;
        let outcome = ending.end();
        let leftovers = outcome.leftovers.clone();
        let own = Part::new(outcome, self.signals.code(), self.watch.take());
        let sum = meeting.gather(own, Part::merge)?;
        // Nobody leaves before the first has heard of all.
        meeting.tell(sum.as_ref().map(|_| ()))?;
        if let Some(teller) = &mut teller {
            teller.clear();
        }
        Ok(sum.map(|sum| (sum, leftovers)))
    }
}

/// Tells of what was not copied: here, on rank 0, or sends it there; what fails after the last task comes with the totals.
struct RankWatch<'a> {
    root: Option<&'a Failures>,
    outbox: OnceLock<Outbox>,
    kept: Mutex<Option<Vec<u8>>>,
    /// Another rank sent failures that could not be decoded.
    is_damaged: AtomicBool,
    is_quiet: bool,
}

impl<'a> RankWatch<'a> {
    fn new(root: Option<&'a Failures>, is_quiet: bool) -> Self {
        Self {
            root,
            outbox: OnceLock::new(),
            kept: Mutex::default(),
            is_damaged: AtomicBool::new(false),
            is_quiet,
        }
    }

    fn set_outbox(&self, outbox: Outbox) {
        let _ = self.outbox.set(outbox);
    }

    /// Takes failures of another rank.
    fn receive(&self, bytes: &[u8]) {
        if self.root.is_some_and(|failures| !failures.receive(bytes)) {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Takes those that came with the totals. The error to report if any could not be decoded.
    fn receive_last(&self, bytes: &[u8]) -> Option<Fatal> {
        self.receive(bytes);
        self.is_damaged.load(Ordering::Relaxed).then(|| Fatal::Failed {
            what: "another rank sent failures that could not be decoded".to_owned(),
            hint: None,
        })
    }

    /// Sends nothing from now on.
    fn keep(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    fn take(&self) -> Vec<u8> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

impl Watch for RankWatch<'_> {
    fn failure(&self, failure: &Failure<'_>) {
        if let Some(failures) = self.root {
            return failures.add(failure);
        }
        let bytes = failure_bytes(failure);
        match (&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner), self.outbox.get()) {
            (Some(kept), _) => kept.extend(bytes),
            (None, Some(outbox)) => outbox.push(FAILURES, &bytes),
            (None, None) => {}
        }
    }

    fn notice(&self, notice: &Notice) {
        notices::report(notice, self.is_quiet);
    }
}

/// How far the ranks are: files and bytes copied, entries and bytes found, names known and looked at, bytes of large files found and
/// done.
#[derive(Clone, Copy, Debug, Default)]
struct Going([u64; GOING]);

const GOING: usize = 8;

impl Going {
    fn of(progress: &Progress) -> Self {
        let found = &progress.walk.profile;
        let Progress { files, bytes, large_found, large_done, .. } = *progress;
        Self([files, bytes, found.entries, found.bytes, found.known, found.looked, large_found, large_done])
    }

    fn shown(self, here: &Progress) -> Progress {
        let mut shown = here.clone();
        let found = &mut shown.walk.profile;
        let [files, bytes, entries, found_bytes, known, looked, large_found, large_done] = self.0;
        (shown.files, shown.bytes, shown.large_found, shown.large_done) =
            (files, bytes, large_found, large_done);
        (found.entries, found.bytes, found.known, found.looked) = (entries, found_bytes, known, looked);
        shown
    }
}

impl Reduce for Going {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Code::decode_all(bytes).map(Self)
    }
}

/// What ranks have done in the end.
#[derive(Debug)]
struct Part {
    totals: Totals,
    report: Report,
    /// What each rank did, and where its time went.
    by_rank: Vec<RankReport>,
    /// None: not wanted, or not all was copied.
    signature: Option<Signature>,
    elapsed: Duration,
    threads: usize,
    /// The exit code of a signal, if one was caught.
    interrupted: u8,
    parked: bool,
    /// What failed after the last task.
    late: Vec<u8>,
}

atta_entry::record!(Part { totals, report, by_rank, signature, elapsed, threads, interrupted, parked, late });

impl Part {
    fn new(outcome: Outcome, interrupted: Option<u8>, late: Vec<u8>) -> Self {
        let Outcome { totals, report, rank, signature, threads, elapsed, parked, .. } = outcome;
        let (by_rank, threads, interrupted) = (vec![rank], threads.len(), interrupted.unwrap_or(0));
        Self { totals, report, by_rank, signature, elapsed, threads, interrupted, parked, late }
    }

    fn merge(&mut self, more: Self) {
        self.totals += &more.totals;
        self.report += &more.report;
        self.by_rank.extend(more.by_rank);
        self.by_rank.sort_unstable_by_key(|report| report.rank);
        self.signature = self.signature.take().zip(more.signature).map(|(mut sum, more)| {
            sum.merge(&more);
            sum
        });
        self.elapsed = self.elapsed.max(more.elapsed);
        self.threads = self.threads.saturating_add(more.threads);
        self.interrupted = self.interrupted.max(more.interrupted);
        self.parked |= more.parked;
        self.late.extend(more.late);
    }

    fn whole(self) -> Whole {
        let Self { totals, report, signature, elapsed, threads, by_rank: ranks, parked, .. } = self;
        let (target_is_name, leftovers, extra) = (false, None, None);
        Whole { totals, report, signature, elapsed, threads, ranks, parked, target_is_name, leftovers, extra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecodable_failures_are_reported() {
        let failures = Failures::new(false, None, None).ok().unwrap();
        let failure = ("a failure of a test\n".to_owned(), b"{}".to_vec()).encoded();
        for (late, is_told) in [(Vec::new(), false), (failure, false), (vec![9], true)] {
            let watch = RankWatch::new(Some(&failures), true);
            assert_eq!(watch.receive_last(&late).is_some(), is_told, "{late:?}");
        }
    }
}
