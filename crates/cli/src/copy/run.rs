//! One run of `atta copy`, alone or on several ranks. The first rank has the command's files, standard output and standard error; the
//! other ranks copy, and send it their failures.
//!
//! ```text
//!   agree:  every rank examines SOURCE... and TARGET: the same?  ──▶  the decision is broadcast
//!   copy:   failures go to the first rank
//!   close:  what all ranks have done goes to the first rank, which reports it
//! ```
//!
//! `atta_ops::copy` decides the order of operations.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use atta_ops::copy::{Copy, Leftovers, Outcome, Refused, Results};
use atta_runtime::{RankError, Session, Stop, Stream};

use super::arguments::CopyArguments;
use super::end::{Ended, conclude, report_refused};
use super::logged::{self, Begins};
use super::manifest::{self, Manifest, Rows};
use super::owners;
use super::part::Part;
use super::per_node::OnNode;
use super::rehearse::rehearse;
use super::reporter::Reporter;
use super::reports::Reports;
use super::setting::{Begun, Run, Setting};
use super::summary::{Whole, summary};
use crate::run::earlier::Earlier;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::going;
use crate::run::job::Job;
use crate::run::logged::RunOfJob;
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused as Usage;
use crate::run::same::{self, NotSame, Seen};
use crate::run::settings::take;
use crate::run::signals::Signals;
use crate::run::starts::Starts;
use crate::run::together::{self, Reading};

/// Copies as one rank of a session; returns the exit code. The command's exit code is that of the first rank. `node`: it is one node's copy of
/// several, which reports nothing.
pub(super) fn run(
    arguments: &CopyArguments,
    signals: &Signals,
    node: Option<&OnNode>,
    session: &mut Session<'_>,
) -> Result<u8, RankError> {
    let is_for_one = arguments.dry_run || arguments.repair.is_some();
    if is_for_one && session.seat().ranks > 1 {
        // Only one process can find out which names are one file.
        let signals = signals.with_others();
        let own = || run(arguments, &signals, node, &mut Session::alone(signals.stop()));
        let code = session.is_first().then(|| session.beside(own)).transpose()?.transpose()?;
        session.broadcast(code)?;
        return Ok(code.unwrap_or(exit::DONE));
    }
    going::may_begin_again(session);
    let begun = session.is_first().then(|| begin(arguments, session, &signals.stop(), node)).transpose();
    match begun {
        Ok(Some(run)) if arguments.dry_run => Ok(rehearse(arguments, signals, run)),
        Err(code) if session.seat().ranks == 1 => Ok(code),
        begun => Rank { arguments, signals, node }.copy(begun, session),
    }
}

/// Sets up the first rank. If the run is refused, reports the reason and returns the exit code.
fn begin(
    arguments: &CopyArguments,
    session: &Session<'_>,
    stop: &Stop,
    node: Option<&OnNode>,
) -> Result<Run, u8> {
    let run = Run::new(arguments, session, stop, node.map(OnNode::failures)).map_err(Usage::report)?;
    if session.seat().ranks > 1 && run.starts.as_ref().is_some_and(Starts::are_differences) {
        let what = "a list of differences is repaired by one rank".to_owned();
        let hint = "use --repair LIST SOURCE TARGET, or run it without mpirun or srun";
        return Err(Usage::usage(what, hint).report());
    }
    Ok(run)
}

/// One rank of the copy.
struct Rank<'a> {
    arguments: &'a CopyArguments,
    signals: &'a Signals,
    node: Option<&'a OnNode>,
}

impl Rank<'_> {
    fn copy(&self, begun: Result<Option<Run>, u8>, session: &mut Session<'_>) -> Result<u8, RankError> {
        let (arguments, stop) = (self.arguments, self.signals.stop());
        let (run, refused) = begun.map_or_else(|code| (None, Some(code)), |run| (run, None));
        let decided = session.is_first().then(|| run.as_ref().map(Begun::of).unwrap_or_default());
        let decided = session.broadcast(decided)?;
        if decided.job().is_none() {
            going::keeps_no_log(session)?;
        }
        let keep = arguments.keep.with_owners(owners::from_rows(decided.rules.clone()));
        let (failures, manifest, reporter, starts, job) = match run {
            Some(Run { failures, events, manifest, starts, job, .. }) => {
                let reporter = Reporter::new(&arguments.report, false, events);
                (failures, manifest, Some(reporter), starts, job.map(|of_copy| of_copy.job))
            }
            None => {
                let root = || Failures::Root(session.outbox());
                (self.node.map_or_else(root, OnNode::failures), None, None, None, None)
            }
        };
        let rows = match &manifest {
            Some(manifest) => Rows::Here(manifest),
            None if session.is_first() => Rows::Nowhere,
            None => Rows::Outbox(session.outbox()),
        };
        let seat = decided.seat(session.seat());
        let setting = Setting::new(arguments, seat, keep).with_target_of(&decided);
        let options = setting.options(&decided, &stop);
        let reports = Reports { failures: &failures, plans: None, rows, is_quiet: arguments.report.quiet };
        let prepared = Copy::prepare(&setting.sources, &setting.target, &options, &reports, seat);
        let copy = match may_go(prepared, refused, &setting, session)? {
            Ok(copy) => copy,
            Err(code) => return Ok(code),
        };
        let (target_is_name, makes_top) = (copy.target_is_name(), copy.makes_top());
        let list_error = starts.as_ref().map(Starts::error);
        let extra = starts.as_ref().map(Starts::extra);
        let copy = match starts {
            Some(starts) if starts.are_differences() => match copy.repairing(starts.rows()) {
                Ok(copy) => copy,
                Err(refused) => return Ok(report_refused(&refused)),
            },
            Some(starts) => copy.listed(starts),
            // Only the first rank reads the list.
            None if arguments.list().is_some() => copy.listed(std::iter::empty()),
            None => copy,
        };
        let from = FromOthers::new(&failures, manifest.as_ref());
        let mut received = Received { from, reporter };
        let ran = self.run_all(copy, (job.as_ref(), decided.job()), &mut received, session)?;
        let RanAll { ran, earlier, fatal } = ran;
        let Some((mut part, leftovers)) = ran else {
            return Ok(fatal.map_or(exit::DONE, Fatal::report));
        };
        let fatal = fatal.or_else(|| received.from.damaged());
        let fatal = fatal.or_else(|| list_error.and_then(|error| take(&error)));
        let fatal = fatal.or_else(|| part.take_failure().filter(|_| decided.job().is_some()));
        let (interrupted, has_stopped) =
            ((part.interrupted > 0).then_some(part.interrupted), part.has_stopped());
        let extra = extra.map(|extra| extra.load(Ordering::Relaxed));
        let kept = self.node.map(|_| part.clone());
        let mut whole = Whole { target_is_name, makes_top, leftovers, extra, earlier, ..part.whole() };
        let is_complete = fatal.is_none() && interrupted.is_none() && !whole.parked;
        // A signal may have come when nothing was left to do.
        let is_over = fatal.is_none() && !has_stopped && !whole.parked;
        let fatal = match manifest.as_ref().filter(|_| is_complete).map(Manifest::write) {
            Some(Ok(written)) => {
                whole.manifest = written;
                None
            }
            Some(Err(error)) => Some(error),
            None => fatal,
        };
        let interrupted = interrupted.or(self.signals.code().filter(|_| is_complete));
        let summed = || summary(arguments, &whole, interrupted.is_some());
        let finish = |reporter: Reporter| reporter.events.finish(summed, &stop).err();
        let fatal = fatal.or_else(|| received.reporter.and_then(finish));
        let ended = Ended { outcome: &whole, interrupted, fatal, job, is_over };
        Ok(match self.node.zip(kept) {
            Some((node, part)) => node.end(arguments, part, ended),
            None => conclude(arguments, &failures, ended),
        })
    }

    /// Copies with the other ranks. The first rank gets the totals of all ranks. All logs of the job end before that, since the first rank
    /// removes the job afterwards.
    fn run_all(
        &self,
        copy: Copy<'_>,
        jobs: (Option<&Job>, Option<(&Path, RunOfJob)>),
        received: &mut Received<'_>,
        session: &mut Session<'_>,
    ) -> Result<RanAll, RankError> {
        let Received { reporter, from } = received;
        let receive = |_, stream, bytes: &[u8]| from.take_in(stream, bytes);
        let closed = session.receiving(receive, |session| {
            let act = |copy: Copy<'_>, session: &mut Session<'_>| {
                copy.run(session, |progress| {
                    if let Some(reporter) = reporter {
                        reporter.tick(progress);
                    }
                })
            };
            let Copied { outcome, failed, earlier, fatal } = self.copy_logged(copy, jobs, act, session)?;
            let Some(outcome) = outcome else { return Ok(RanAll { ran: None, earlier, fatal }) };
            let leftovers = outcome.leftovers.clone();
            let own = Part::new(outcome, self.signals.code()).with_failure(failed);
            let own = if session.seat().ranks > 1 { own.shortened() } else { own };
            let sum = session.close(own, Part::merge)?;
            Ok(RanAll { ran: sum.map(|sum| (sum, leftovers)), earlier, fatal })
        });
        if let Some(reporter) = reporter {
            reporter.clear();
        }
        closed.inspect_err(|_| {
            if let Err(fatal) = from.failures.flush() {
                fatal.report();
            }
        })
    }

    /// Copies, with a log of the job if there is one: then only what earlier runs have not copied.
    fn copy_logged(
        &self,
        copy: Copy<'_>,
        jobs: (Option<&Job>, Option<(&Path, RunOfJob)>),
        act: impl FnOnce(Copy<'_>, &mut Session<'_>) -> Result<Outcome, RankError>,
        session: &mut Session<'_>,
    ) -> Result<Copied, RankError> {
        match jobs {
            (_, None) => act(copy, session).map(Copied::from),
            (Some(job), _) => self.copy_first(copy, job, act, session),
            (None, Some(of_job)) => self.copy_other(copy, of_job, act, session),
        }
    }

    fn reading(&self) -> Reading {
        Reading { memory_bytes: self.arguments.effort.memory / 2, closes: true }
    }

    /// The first rank of a copy with a log.
    fn copy_first(
        &self,
        copy: Copy<'_>,
        job: &Job,
        act: impl FnOnce(Copy<'_>, &mut Session<'_>) -> Result<Outcome, RankError>,
        session: &mut Session<'_>,
    ) -> Result<Copied, RankError> {
        if !logged::begin_for_all(job, session) {
            session.broadcast(Some(Begins::Unlogged))?;
            going::keeps_no_log(session)?;
            return act(copy, session).map(Copied::from);
        }
        let of_job = RunOfJob::of(job);
        going::has_job(session, (job.running.place().path(), of_job), self.arguments.report.quiet);
        let copy = copy.leaving_out(logged::place(job));
        let found = together::first(job, self.reading(), session)?;
        match logged::first(job, &copy, (self.reading().memory_bytes, found)) {
            Ok((log, earlier)) => {
                let log = log.with_limits(self.arguments.log_limits(session.log_limits()));
                let act = |copy: Copy<'_>, session: &mut Session<'_>| {
                    going::all_know(session)?;
                    act(copy, session)
                };
                let (outcome, fatal) = logged::copy_first(log, copy, (&self.signals.stop(), session), act)?;
                let earlier = (job.running.run() > 1 || !job.is_in_target()).then_some(earlier);
                Ok(Copied { outcome, earlier, fatal, failed: None })
            }
            Err(fatal) => {
                session.broadcast(Some(Begins::Not))?;
                Ok(Copied { fatal: Some(fatal), ..Copied::default() })
            }
        }
    }

    /// Any other rank of a copy with a log.
    fn copy_other(
        &self,
        copy: Copy<'_>,
        (path, of_job): (&Path, RunOfJob),
        act: impl FnOnce(Copy<'_>, &mut Session<'_>) -> Result<Outcome, RankError>,
        session: &mut Session<'_>,
    ) -> Result<Copied, RankError> {
        together::other::<Results>((path, of_job), self.reading(), session)?;
        match session.broadcast::<Begins>(None)? {
            Begins::Not => return Ok(Copied::default()),
            Begins::Unlogged => {
                going::keeps_no_log(session)?;
                return act(copy, session).map(Copied::from);
            }
            Begins::Logged => going::has_job(session, (path, of_job), self.arguments.report.quiet),
        }
        let stop = self.signals.stop();
        match logged::other(path, of_job, session.seat().rank) {
            Ok((log, place)) => {
                let log = log.with_limits(self.arguments.log_limits(session.log_limits()));
                let act = |copy: Copy<'_>| {
                    going::all_know(session)?;
                    act(copy, session)
                };
                let (outcome, written) = logged::copy_other(log, copy.leaving_out(place), &stop, act);
                if let Err(fatal) = written {
                    // The first rank does not know of it.
                    fatal.report();
                }
                outcome.map(Copied::from)
            }
            Err(fatal) => {
                // The others wait for this rank.
                stop.set();
                let failed = Some(fatal.what());
                going::all_know(session)?;
                act(copy.lacking_log(), session).map(|outcome| Copied { failed, ..Copied::from(outcome) })
            }
        }
    }
}

/// What this rank has come to.
#[derive(Default)]
struct Copied {
    /// None: the copy has not begun.
    outcome: Option<Outcome>,
    /// Why this rank cannot write the log of its job.
    failed: Option<String>,
    /// What earlier runs of the job have done.
    earlier: Option<Earlier>,
    /// Why the log cannot be read or written, on the first rank.
    fatal: Option<Fatal>,
}

impl From<Outcome> for Copied {
    fn from(outcome: Outcome) -> Self {
        Self { outcome: Some(outcome), ..Self::default() }
    }
}

/// What all ranks have done, and what is left under temporary names.
type Ran = (Part, Option<Leftovers>);

/// What a copy has come to. Without a log of a job, `ran` alone.
struct RanAll {
    /// None: the copy has not begun, or this is not the first rank.
    ran: Option<Ran>,
    /// What earlier runs of the job have done.
    earlier: Option<Earlier>,
    /// Why the log cannot be read or written.
    fatal: Option<Fatal>,
}

/// State of the first rank for data from other ranks, and its progress reports.
struct Received<'a> {
    from: FromOthers<'a>,
    reporter: Option<Reporter>,
}

/// Where data from other ranks goes.
pub(super) struct FromOthers<'a> {
    failures: &'a Failures,
    manifest: Option<&'a Manifest>,
    /// Another rank sent failures or rows that could not be decoded.
    is_damaged: AtomicBool,
}

impl<'a> FromOthers<'a> {
    pub(super) fn new(failures: &'a Failures, manifest: Option<&'a Manifest>) -> Self {
        Self { failures, manifest, is_damaged: AtomicBool::new(false) }
    }

    /// Takes what another rank sent.
    pub(super) fn take_in(&self, stream: Stream, bytes: &[u8]) {
        let is_valid = match (stream, self.manifest) {
            (manifest::ROWS, Some(manifest)) => manifest.receive(bytes),
            _ => self.failures.receive(bytes),
        };
        if !is_valid {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
    }

    /// The error to report if what another rank sent could not be decoded.
    pub(super) fn damaged(&self) -> Option<Fatal> {
        self.is_damaged.load(Ordering::Relaxed).then(|| Fatal::Failed {
            what: "another rank sent failures or rows that could not be decoded".to_owned(),
            hint: None,
        })
    }
}

/// Whether all ranks see the same and may start. If not, the first rank reports the reason; returns the exit code.
fn may_go<'a>(
    prepared: Result<Copy<'a>, Refused>,
    refused: Option<u8>,
    setting: &Setting<'_>,
    session: &mut Session<'_>,
) -> Result<Result<Copy<'a>, u8>, RankError> {
    const MUST: &str = "SOURCE and TARGET must be the same file systems, at the same places,";
    let refused_here = prepared.as_ref().err().map(|refused| refused.what.clone()).unwrap_or_default();
    let differ = session.agree(vec![refused_here])?;
    let may_look = refused.is_none() && prepared.as_ref().is_ok_and(|copy| copy.refused().is_none());
    // A copy that is refused makes no file in TARGET.
    let looks = session.broadcast(session.is_first().then_some(may_look && differ.is_none()))?;
    let differ = match (differ.map(|differ| NotSame { what: differ.to_string(), may_be_same: false }), looks)
    {
        (None, true) => {
            let sources = Seen::all(setting.sources.clone(), session);
            same::check(sources, prepared.as_ref().ok(), setting.assumes_same(), session)?
        }
        (differ, _) => differ,
    };
    let code = session.is_first().then(|| match (refused, &prepared, differ) {
        (Some(code), ..) => code,
        (None, _, Some(not_same)) => {
            let what = format!("PATH is not the same on all ranks: {}", not_same.what);
            complain(&what, Some(&not_same.hint(MUST)));
            exit::FATAL
        }
        (None, Err(refused), None) => report_refused(refused),
        (None, Ok(copy), None) => copy.refused().map_or(exit::DONE, report_refused),
    });
    let decided = session.broadcast(code)?;
    Ok(match prepared {
        Ok(copy) if decided == exit::DONE => Ok(copy),
        _ => Err(code.unwrap_or(exit::DONE)),
    })
}

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;

    use super::*;
    use crate::run::failures::FAILURES;

    #[test]
    fn undecodable_failures_are_reported() {
        let failures = Failures::new(false, None, None).ok().unwrap();
        let failure = ("a failure of a test\n".to_owned(), b"{}".to_vec()).encoded();
        for (bytes, is_reported) in [(Vec::new(), false), (failure, false), (vec![9], true)] {
            let from = FromOthers::new(&failures, None);
            from.take_in(FAILURES, &bytes);
            assert_eq!(from.damaged().is_some(), is_reported, "{bytes:?}");
        }
    }
}
