//! One run of `atta walk`, alone or on several ranks. The first rank has the command's files, standard output and standard error; the
//! other ranks walk and send it their output.
//!
//! ```text
//!   agree:  every rank sees the same PATHs?  ──▶  the first rank opens lists, catalog, files  ──▶  the decision is broadcast
//!   walk:   rows, failures and names of hard links go to the first rank
//!   close:  totals of all ranks go to the first rank, which settles, commits the catalog and prints the summary
//! ```
//!
//! `atta-engine` decides how tasks are distributed over ranks.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use atta_entry::escape;
use atta_ops::resume::JobPlace;
use atta_ops::walk::{self, Features, Options, Progress, Rules, Start, Summary, Totals};
use atta_runtime::{RankError, Rate, Session, Stop, Stream, processor_time};

use super::arguments::WalkArguments;
use super::end::{Ended, conclude, give_up, give_up_on_others, give_up_on_rank, hangs};
use super::logged::{self, Walking};
use super::progress::Display;
use super::report::Whole;
use super::sink::{ROWS, RootSide, Sink};
use super::totals::{Own, RankTotals};
use crate::run::beside::{self, WithJob, repeated};
use crate::run::failures::{FAILURES, Failures};
use crate::run::fatal::Fatal;
use crate::run::going;
use crate::run::job::{self, Asked, Job};
use crate::run::logged::{RunOfJob, report_no_log};
use crate::run::messages::{complain, exit};
use crate::run::own::OwnJob;
use crate::run::refused::Refused;
use crate::run::same::{self, Seen};
use crate::run::settings::{compile, spill_directory, take};
use crate::run::signals::Signals;
use crate::run::starts::{Starts, root_paths};

/// Stream of names of files with several names.
const LINKS: Stream = Stream(2);

/// Walks as one rank of a session; returns the exit code. The command's exit code is that of the first rank.
pub(super) fn run(
    arguments: &WalkArguments,
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<u8, RankError> {
    // The first rank prints the head of a table early.
    if arguments.row_format().is_none() {
        going::may_begin_again(session);
    }
    let traffic = arguments.stats.is_some() || arguments.plots.is_some();
    let own = Own { seat: session.seat(), met: processor_time(), traffic };
    if let Some(own_job) = own_job(arguments, session)
        && let Some(why) = own_job.enter(session, arguments.deaths.first_run().is_some())?
    {
        if session.is_first() {
            complain(&why, Some("TMPDIR names another directory"));
        }
        return Ok(exit::FATAL);
    }
    let seen = Seen::all(root_paths(&arguments.paths), session);
    let devices = seen.iter().map(|seen| seen.device).collect();
    if let Some(not_same) = same::check(seen, None, arguments.ranks.assume_same, session)? {
        if session.is_first() {
            let hint = not_same.hint("PATH must be the same file system, at the same place,");
            complain(&format!("PATH is not the same on all ranks: {}", not_same.what), Some(&hint));
        }
        return Ok(exit::FATAL);
    }
    let run = session.is_first().then(|| Run::new(arguments, session, signals));
    let verdict = run.as_ref().map(|run| {
        let own = arguments.own.as_deref();
        run.as_ref().map_or_else(|_| Verdict::default(), |run| Verdict::new(run, own))
    });
    let mut verdict = session.broadcast(verdict)?;
    if let Some(own_job) = own_job(arguments, session) {
        if !session.is_first() && verdict.job.is_some() {
            own_job.put_header(&verdict.header);
        }
        verdict.directory = own_job.path().as_os_str().as_bytes().to_vec();
    }
    // One that each rank has is in no place that all know.
    let directory = if arguments.own.is_some() { Vec::new() } else { verdict.directory.clone() };
    let directory = PathBuf::from(std::ffi::OsString::from_vec(directory));
    let job = verdict.job.map(|of_job| (directory.as_path(), of_job));
    going::settle(session, job, arguments.report.quiet)?;
    let rank = Rank { arguments, signals, own, devices };
    match run {
        Some(Ok(run)) => rank.walk_first(run, session),
        Some(Err(refused)) => Ok(refused.report()),
        None if verdict.go => rank.walk(verdict, session),
        None => Ok(exit::DONE),
    }
}

/// The job that each rank keeps itself, if the walk has one.
fn own_job<'a>(arguments: &'a WalkArguments, session: &Session<'_>) -> Option<&'a OwnJob> {
    arguments.own.as_deref().filter(|_| session.goes_on())
}

/// State of the first rank, set up before the walk starts.
struct Run {
    rules: Option<Rules>,
    starts: Starts,
    sink: Sink,
    display: Display,
    started: SystemTime,
    job: Option<Job>,
}

impl Run {
    fn new(arguments: &WalkArguments, session: &Session<'_>, signals: &Signals) -> Result<Self, Refused> {
        let (rules, list) = (compile(&arguments.visit.rules)?, arguments.from_list.as_deref());
        let starts = Starts::new(&arguments.paths, list, arguments.list_form(), signals.stop())?;
        // Before files are made anew: another process may have the job, and these files.
        let WithJob { job, lacks } = begun(arguments, session)?;
        let mut summary = Summary::new(arguments.effort.memory / 4, spill_directory(), arguments.follow);
        if job.is_some() {
            summary = summary.putting_links_off();
        }
        let place = job.as_ref().map(|job| job.running.place());
        let opened = Failures::new(arguments.report.verbose, arguments.report.errors.as_deref(), list)
            .and_then(|failures| Sink::new(arguments, summary, failures, (place, session)))
            .and_then(|sink| Ok((sink, Display::new(arguments)?)));
        let (sink, display) = match opened {
            Ok(opened) => opened,
            Err(refused) => {
                job.into_iter().for_each(Job::give_up);
                return Err(refused);
            }
        };
        if let Some(what) = lacks {
            report_no_log(&what);
        }
        Ok(Self { rules, starts, sink, display, started: SystemTime::now(), job })
    }
}

/// Begins the job of a walk with a log, or goes on with it.
fn begun(arguments: &WalkArguments, session: &Session<'_>) -> Result<WithJob, Refused> {
    match (&arguments.job, &arguments.output) {
        // `atta resume` names the directory as well.
        (_, Some(output)) => beside_catalog(arguments, output, session),
        (Some(directory), None) => in_directory(arguments, directory, session).map(WithJob::from),
        (None, None) => match own_job(arguments, session) {
            Some(own) => in_directory(arguments, own.path(), session).map(WithJob::from),
            None => {
                if arguments.own.is_some() && !arguments.report.quiet {
                    complain("note: ranks do not survive others here: --survive does nothing", None);
                }
                Ok(WithJob::default())
            }
        },
    }
}

/// The job of a walk with a catalog, which needs no option.
fn beside_catalog(
    arguments: &WalkArguments,
    output: &Path,
    session: &Session<'_>,
) -> Result<WithJob, Refused> {
    let (agrees, roots) = (arguments.agrees(), root_paths(&arguments.paths));
    let (restarts, deaths) = (arguments.restart, arguments.deaths.clone());
    let asked = Asked { restarts, deaths, agrees, roots };
    let has_job = !arguments.lacks_job() && session.runs_tasks();
    beside::begin((output, "atta walk"), has_job.then_some(asked), arguments.report.kept())
}

/// A job in a directory that the user has named, or in that of this rank.
fn in_directory(arguments: &WalkArguments, directory: &Path, session: &Session<'_>) -> Result<Job, Refused> {
    let is_own = arguments.own.is_some();
    let option = if is_own { "--survive" } else { "--job" };
    if !session.runs_tasks() {
        let what = format!("{option} with --schedule centralized, where the first rank walks nothing");
        return Err(Refused::usage(what, "take another schedule; the first rank does what is left first"));
    }
    let roots = root_paths(&arguments.paths);
    if let Some(index) = repeated(&roots) {
        let (root, number) = (escape(&roots[index]), index + 1);
        let what = format!("a walk with {option} takes each PATH once: {root} is number {number}, too");
        return Err(Refused::usage(what, "leave it out"));
    }
    let (restarts, deaths) = (arguments.restart, arguments.deaths.clone());
    let asked = Asked { restarts, deaths, agrees: arguments.agrees(), roots };
    let begin = if is_own { job::begin_own } else { job::begin };
    begin(&JobPlace::from(directory), asked, arguments.report.kept())
}

/// Decision of the first rank before the walk, for all ranks.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    go: bool,
    partial: Option<Vec<u8>>,
    terminal: bool,
    job: Option<RunOfJob>,
    /// The directory of the job.
    directory: Vec<u8>,
    /// The header of a job that each rank keeps itself.
    header: Vec<u8>,
}

atta_entry::record!(Verdict { go, partial, terminal, job, directory, header });

impl Verdict {
    fn new(run: &Run, own: Option<&OwnJob>) -> Self {
        let partial = run.sink.partial().map(|partial| partial.as_os_str().as_bytes().to_vec());
        let job = run.job.as_ref().map(RunOfJob::of);
        let place = run.job.as_ref().map(|job| job.running.place().path().as_os_str());
        let directory = place.map(|place| place.as_bytes().to_vec()).unwrap_or_default();
        let header = own.map(OwnJob::header).unwrap_or_default();
        Self { go: true, partial, terminal: run.sink.is_on_terminal(), job, directory, header }
    }
}

/// One rank of the walk.
struct Rank<'a> {
    arguments: &'a WalkArguments,
    signals: &'a Signals,
    own: Own,
    /// Devices of the roots.
    devices: Vec<u64>,
}

impl Rank<'_> {
    fn rate(&self) -> Option<Rate> {
        self.arguments.effort.iops.map(|iops| Rate::new((iops / self.own.seat.ranks).max(1)))
    }

    /// The first rank's part.
    fn walk_first(&self, run: Run, session: &mut Session<'_>) -> Result<u8, RankError> {
        let Run { rules, starts, mut sink, mut display, started, job } = run;
        let (signals, rate) = (self.signals, self.rate());
        let options = self.options(rules, rate.as_ref(), &signals.stop());
        let roots = root_paths(&self.arguments.paths);
        // Devices have other numbers after a reboot and on other hosts, so the log of a job has those of roots. One rank has not looked.
        let is_one = session.seat().ranks == 1;
        let devices = if job.is_some() && is_one { logged::devices(&roots) } else { self.devices.clone() };
        sink.summary = sink.summary.with_root_devices(devices);
        let list_error = starts.error();
        // Totals of files whose names other ranks found.
        let linked = Mutex::new(Totals::default());
        let (mut entries, mut earlier) = (0, None);
        let received = |rank, stream, bytes: &[u8]| {
            if !receive(&sink, &linked, stream, bytes) {
                sink.fail(Fatal::protocol(rank));
            }
        };
        // Ranks that go on would take the exit of this one for a death.
        let survives = session.survives();
        let closed = session.receiving(received, |session| {
            let observe = |progress: &Progress| {
                entries = progress.profile.entries;
                display.tick(progress);
                if !survives && hangs(progress, signals) {
                    give_up(&sink, take(&list_error), &mut display, progress, signals);
                }
            };
            let outcome = match &job {
                Some(job) => {
                    let walking = Walking { sink: &sink, roots, options: &options };
                    let (outcome, before) = logged::walk_first(job, &walking, session, observe)?;
                    earlier = before;
                    outcome
                }
                None => walk::run_on(session, &sink, starts, &options, observe)?,
            };
            session.close(RankTotals::new(self.own, &outcome, signals.code()), RankTotals::merge)
        });
        let sum = closed.inspect_err(|error| match error.goes_on_elsewhere() {
            // The others go on.
            true => display.clear(),
            false => give_up_on_others(&sink, take(&list_error), &mut display, entries),
        })?;
        display.clear();
        let sum = sum.unwrap_or_default();
        sink.take_over(sum.shards.clone());
        let fatal = sink.take_fatal().or_else(|| take(&list_error)).or_else(|| sum.fatal());
        let was_stopped = sum.interrupted > 0;
        // It may have left names out, also if nothing was left to do for others.
        let interrupted = was_stopped.then_some(sum.interrupted);
        let mut totals = linked.into_inner().unwrap_or_else(PoisonError::into_inner);
        totals += &sum.totals;
        let whole = Whole { earlier, ..sum.whole(session.is_alone()) };
        let ended = Ended { totals, whole, fatal, interrupted, signals, started, job, was_stopped };
        Ok(conclude(self.arguments, sink, ended, display))
    }

    /// The part of any other rank.
    fn walk(&self, verdict: Verdict, session: &mut Session<'_>) -> Result<u8, RankError> {
        let (arguments, seat, rate) = (self.arguments, self.own.seat, self.rate());
        let stop = self.signals.stop();
        // The first rank has reported errors in the rules; then no rank walks.
        let rules = compile(&arguments.visit.rules).ok().flatten();
        let options = self.options(rules, rate.as_ref(), &stop);
        let links = session.outbox();
        let mut summary = Summary::of_rank(move |bytes| links.push(LINKS, bytes), arguments.follow)
            .with_root_devices(self.devices.clone());
        if verdict.job.is_some() {
            summary = summary.putting_links_off();
        }
        let partial = verdict.partial.map(|partial| PathBuf::from(std::ffi::OsString::from_vec(partial)));
        let directory = PathBuf::from(std::ffi::OsString::from_vec(verdict.directory));
        let job = verdict.job.map(|_| JobPlace::from(directory.as_path()));
        let side = RootSide { partial, terminal: verdict.terminal, job };
        let numbers = (seat.rank as usize, seat.ranks as usize);
        let sink = Sink::of_rank(arguments, summary, session.outbox(), stop.clone(), side, numbers);
        let survives = session.survives();
        let observe = |progress: &Progress| {
            if !survives && hangs(progress, self.signals) {
                give_up_on_rank(seat.rank, &sink, progress);
            }
        };
        let outcome = match verdict.job {
            Some(of_job) => {
                let roots = root_paths(&arguments.paths);
                let walking = Walking { sink: &sink, roots, options: &options };
                logged::walk_other((&directory, of_job), &walking, session, observe)?
            }
            None => walk::run_on(session, &sink, std::iter::empty::<Start>(), &options, observe)?,
        };
        let handed = sink.hand_over();
        let shards = sink.take_fatal().map_or(handed, Err);
        let own = RankTotals::new(self.own, &outcome, self.signals.code()).with_shards(shards, seat);
        session.close(own, RankTotals::merge)?;
        Ok(exit::DONE)
    }

    /// The walk's part of the arguments.
    fn options<'r>(&self, rules: Option<Rules>, rate: Option<&'r Rate>, stop: &Stop) -> Options<'r> {
        let arguments = self.arguments;
        Options {
            one_file_system: arguments.visit.one_file_system,
            max_depth: arguments.max_depth,
            follow: arguments.follow,
            lite: arguments.lite,
            targets: arguments.targets,
            birth_time: arguments.shows_attributes(),
            rules,
            rate,
            threads: arguments.effort.threads,
            memory_bytes: arguments.effort.memory / 2,
            spill_directory: spill_directory(),
            stop: stop.clone(),
            features: Features {
                statx_mount_id: !arguments.without.iter().any(|name| name == "statx-mount-id"),
                ..Features::default()
            },
            cores: self.own.seat.cores,
        }
    }
}

/// Passes data from another rank to its destination. Returns false if it cannot be decoded.
fn receive(sink: &Sink, linked: &Mutex<Totals>, stream: Stream, bytes: &[u8]) -> bool {
    match stream {
        ROWS => {
            sink.write_rows(&mut bytes.to_vec());
            true
        }
        FAILURES => sink.failures.receive(bytes),
        LINKS => sink.summary.receive(&mut linked.lock().unwrap_or_else(PoisonError::into_inner), bytes),
        _ => false,
    }
}
