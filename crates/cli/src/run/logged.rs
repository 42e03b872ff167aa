//! The log of a job while a command runs: what earlier runs have done is read by the first rank, or by all after deaths (`together.rs`), and each
//! rank writes a log of its own. What is done is the command's part.

use std::path::Path;
use std::sync::Arc;

use atta_catalog::ShardRecord;
use atta_entry::Code as _;
use atta_ledger::{JobLogs, Key, LogName};
use atta_ops::copy::CopyLog;
use atta_ops::resume::{BadLog, EarlierLog, JobPlace, LoggedJob, Recheck, Rechecked, short};
use atta_ops::underway::{Suspects, Underway};
use atta_ops::walk::{FromLog, Gone, Journal, ResumeError, SliceResults};
use atta_runtime::{
    LaterLog, Log, LogError, LogFile, LogHandle, LogLimits, Logging, RankError, Session, Stop, with_log,
};
use rustix::fd::OwnedFd;

use super::catalog::CatalogSink;
use super::earlier::Earlier;
use super::failures::Failures;
use super::fatal::Fatal;
use super::file::describe;
use super::history::Known;
use super::job::Job;
use super::messages::complain;
use super::outcome;
use super::parts::Parts;
use super::signals::commits;
use super::together::FromAll;

/// The rank that reads the logs of earlier runs.
const FIRST: u32 = 0;

/// The run of a job, for all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOfJob {
    number: [u8; 16],
    run: u32,
    /// The first run of the launch, if ranks have died since: then what ranks are at is noted, in the directory that all see.
    deaths_since: Option<u32>,
    /// All ranks read the logs: see `together.rs`.
    is_read_together: bool,
}

atta_entry::record!(RunOfJob { number, run, deaths_since, is_read_together });

impl RunOfJob {
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            number: job.running.number(),
            run: job.running.run(),
            deaths_since: job.deaths.first_run().filter(|_| !job.is_own),
            // Nothing is looked at again then.
            is_read_together: job.deaths.leave_new_job(),
        }
    }

    /// The random number that names the job.
    pub(crate) fn number(&self) -> [u8; 16] {
        self.number
    }

    /// The number of the run, from 1.
    pub(crate) fn run(&self) -> u32 {
        self.run
    }

    /// A number that names the job, the same in all its runs.
    pub(crate) fn job(&self) -> u64 {
        short(self.number)
    }

    /// Whether all ranks read what earlier runs have done, or the first one.
    pub(crate) fn is_read_together(&self) -> bool {
        self.is_read_together
    }

    /// Notes what the threads of a rank are at, in the directory of the job. On the first rank, it gathers what dead ranks were at. None: no rank has
    /// died, or the note cannot be made: then nothing is left out.
    pub(crate) fn underway(&self, directory: &OwnedFd, rank: u32) -> Option<Underway> {
        let Some(since) = self.deaths_since else {
            if rank == FIRST {
                Suspects::forget(directory);
            }
            return None;
        };
        let is_first = rank == FIRST;
        let suspects = if is_first { Suspects::gather(directory, since) } else { Suspects::read(directory) };
        Underway::begin(directory, (self.run, rank), suspects).ok()
    }

    /// The journal of a rank.
    pub(crate) fn journal<R: SliceResults>(&self, rank: u32) -> Journal<R> {
        Journal::new(Key::of_job(&self.number), self.run, rank)
    }

    /// Finds the directory of the job and makes the log of a rank there that is not the first.
    pub(crate) fn join(&self, path: &Path, rank: u32) -> Result<(OwnedFd, LogFile), Fatal> {
        let place = JobPlace::from(path);
        let joined = LoggedJob::join(&place, &self.number);
        let joined = joined.map_err(|error| Fatal::Failed { what: error.describe(path), hint: None });
        let (directory, key) = joined?;
        let name = LogName { run: self.run, rank, part: 0 };
        let log = new_log(&directory, (key, name), place.is_in_target())?;
        Ok((directory, log))
    }
}

/// The log of a job that begins when it is first written. If it cannot be made, the command goes on without it.
pub(crate) fn later(job: &Job) -> Log {
    let (running, key) = (Arc::clone(&job.running), job.running.key());
    let name = LogName { run: job.running.run(), rank: FIRST, part: 0 };
    let create = move || {
        let begun = running.begin().map_err(|error| error.describe(running.place().path()));
        let made = begun.and_then(|logged| {
            LogFile::create_small(logged.directory(), key, name)
                .map_err(|error| format!("cannot make the log {name} of the job: {}", describe(&error)))
        });
        if made.is_ok() {
            Known::of(&running).keep();
            outcome::begun();
        }
        made.inspect_err(|what| report_no_log(what)).ok()
    };
    let report = move |error: &std::io::Error| {
        let what = format!("note: the log {name} of the job cannot be written: {}", describe(error));
        complain(&what, Some("if this copy is killed, what it copies from now on is copied again"));
    };
    LaterLog::new(key, name, create, report).into()
}

/// The log of a copy, for the operation.
pub(crate) struct OfCopy<'a, 'l>(pub(crate) &'a LogHandle<'l>);

impl CopyLog for OfCopy<'_, '_> {
    fn write(&self) {
        // What fails is reported at the end.
        let _ = self.0.write_now();
    }

    fn sync(&self) {
        let _ = self.0.sync_now();
    }

    fn is_kept(&self) -> bool {
        self.0.is_kept()
    }

    fn end(&self) {
        self.0.cancel();
    }

    fn commits(&self) -> u64 {
        commits()
    }
}

/// Reports why a run goes on without a log.
pub(crate) fn report_no_log(what: &str) {
    complain(&format!("note: {what}"), Some("if this run is killed, the same command begins anew"));
}

/// The logs of earlier runs of a job, on the first rank.
pub(crate) struct EarlierRuns<'j, R> {
    job: &'j Job,
    logged: &'j LoggedJob,
    logs: LogsOf<'j, R>,
    /// An aim for the memory of a reading, in bytes.
    memory: usize,
}

/// Who reads them.
enum LogsOf<'j, R> {
    /// This rank.
    All(JobLogs<'j, EarlierLog<'j>>),
    /// All ranks have.
    FromAll(FromAll<R>),
}

impl<'j, R: SliceResults> EarlierRuns<'j, R> {
    /// Begins the job, if it is new, and opens the logs. `found`: what all ranks have read in them.
    pub(crate) fn open(job: &'j Job, memory_bytes: u64, found: Option<FromAll<R>>) -> Result<Self, Fatal> {
        let logged =
            job.running.begin().map_err(|error| failed(error.describe(job.running.place().path())))?;
        let logs = match found {
            Some(found) => LogsOf::FromAll(found),
            None => LogsOf::All(logged.earlier().map_err(|bad| unusable(bad.to_string()))?),
        };
        let memory = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        Ok(Self { job, logged, logs, memory })
    }

    /// Whether nobody else can have changed what they have done.
    pub(crate) fn are_trusted(&self) -> bool {
        self.job.deaths.leave_new_job()
    }

    /// Adds to a new journal what they say; `each` gets the rest of it.
    pub(crate) fn read(
        &mut self,
        journal: &mut Journal<R>,
        each: &mut dyn FnMut(FromLog<'_, R>),
    ) -> Result<(), Fatal> {
        let read = match &mut self.logs {
            LogsOf::All(logs) => journal
                .resume(logs, self.memory, each)
                .map_err(|error| error.of_logs(|refused| BadLog::from(refused).to_string())),
            LogsOf::FromAll(found) => {
                each(FromLog::Results(std::mem::take(&mut found.results)));
                journal
                    .resume(&mut found.selected, self.memory, each)
                    .map_err(|error| error.of_logs(|log| format!("the log {log} is not valid")))
            }
        };
        read.map_err(|error| match error {
            ResumeError::Logs(what) => unusable(what),
            ResumeError::Results => unusable("a log of the job holds no results of this command".to_owned()),
        })
    }

    /// What they have done in directories that are gone does not count. Returns whether everything is done again.
    pub(crate) fn void(&mut self, journal: &Journal<R>, gone: &Gone) -> Result<bool, Fatal> {
        match &mut self.logs {
            LogsOf::All(logs) => {
                journal.void(logs, gone).map_err(|refused| unusable(BadLog::from(refused).to_string()))
            }
            // They are read together only where nothing is looked for that is gone.
            LogsOf::FromAll(_) => Err(failed("logs that all ranks have read cannot be voided".to_owned())),
        }
    }

    /// Makes the log of this run.
    pub(crate) fn begin(self, journal: Journal<R>) -> Result<(Journal<R>, LogFile), Fatal> {
        let Self { job, logged, logs, .. } = self;
        let name = LogName { run: logged.run(), rank: FIRST, part: 0 };
        let log = new_log(logged.directory(), (logged.key(), name), job.is_in_target())?;
        let underway = RunOfJob::of(job).underway(logged.directory(), FIRST);
        let journal = match logs {
            LogsOf::All(logs) => journal.with_cuts(logs.cuts()),
            LogsOf::FromAll(found) => journal.with_cuts(found.cuts(logged.log_names()).into_iter()),
        };
        Ok((journal.with_underway(underway), log))
    }
}

/// How the first rank of a walk or sum gets what earlier runs say.
pub(crate) struct OfReading<R> {
    /// An aim for the memory, in bytes.
    pub(crate) memory_bytes: u64,
    /// What looks at finished directories again.
    pub(crate) recheck: Recheck,
    /// What all ranks have read, if they have.
    pub(crate) found: Option<FromAll<R>>,
}

/// Adds to the journal of the first rank what earlier runs say; `each` gets the rest of it. Makes the log of this run. Also returns which finished
/// directories have changed since.
fn prepare<R: SliceResults>(
    job: &Job,
    mut journal: Journal<R>,
    OfReading { memory_bytes, mut recheck, found }: OfReading<R>,
    each: &mut dyn FnMut(FromLog<'_, R>),
) -> Result<(Journal<R>, LogFile, Rechecked), Fatal> {
    let mut earlier = EarlierRuns::open(job, memory_bytes, found)?;
    let read = earlier.read(&mut journal, &mut |found| match found {
        FromLog::Marked(..) | FromLog::Names(..) if job.deaths.leave_new_job() => {}
        FromLog::Marked(at, mark, stage) => recheck.add(at, mark, stage),
        FromLog::Names(at, _) => recheck.add_half(at),
        found => each(found),
    });
    let rechecked = recheck.end();
    read?;
    let (journal, log) = earlier.begin(journal)?;
    Ok((journal, log, rechecked))
}

/// What the first rank of a walk or sum has found out before its run.
pub(crate) struct Prepared<R> {
    journal: Journal<R>,
    log: LogFile,
    /// The first number of a part of the catalog that no earlier run has used.
    first_part: usize,
    /// Earlier runs of the job may have left something.
    is_resumed: bool,
}

/// What was prepared, and what earlier runs have done: none after the first one, or if it failed.
pub(crate) type PreparedAfter<R> = (Result<Prepared<R>, Fatal>, Option<Earlier>);

/// Parts what a command has prepared.
pub(crate) fn parted<R>(prepared: Result<(Prepared<R>, Option<Earlier>), Fatal>) -> PreparedAfter<R> {
    match prepared {
        Ok((prepared, earlier)) => (Ok(prepared), earlier),
        Err(fatal) => (Err(fatal), None),
    }
}

impl<R: SliceResults> Prepared<R> {
    /// Of a run whose directories are complete when they are closed. `add` gets what earlier runs have come to.
    pub(crate) fn closing(
        job: &Job,
        journal: Journal<R>,
        of_reading: OfReading<R>,
        add: &mut dyn FnMut(R) -> Result<(), Fatal>,
    ) -> Result<(Self, Rechecked), Fatal> {
        let mut added = Ok(());
        let (journal, log, rechecked) = prepare(job, journal, of_reading, &mut |found| {
            if let (FromLog::Results(share), true) = (found, added.is_ok()) {
                added = add(share);
            }
        })?;
        added.map(|()| (Self { journal, log, first_part: 0, is_resumed: job.running.run() > 1 }, rechecked))
    }
}

/// As [`prepare`], for a run with a catalog, or without: the parts of it that earlier runs have ended are kept. `add` gets what earlier runs have come to.
pub(crate) fn prepare_catalog<R: SliceResults>(
    job: &Job,
    (catalog, failures): (Option<&CatalogSink>, &Failures),
    of_reading: OfReading<R>,
    add: &mut dyn FnMut(R),
) -> Result<(Prepared<R>, Rechecked), Fatal> {
    if let Some(catalog) = catalog {
        catalog.open(failures)?;
    }
    let (mut parts, mut are_valid) = (Vec::new(), true);
    let journal = journal_for(RunOfJob::of(job), FIRST, catalog);
    let (journal, log, rechecked) = prepare(job, journal, of_reading, &mut |found| match found {
        FromLog::Results(share) => add(share),
        FromLog::Part(bytes) => match ShardRecord::decode_all(bytes) {
            Some(part) => parts.push(part),
            None => are_valid = false,
        },
        FromLog::Seen(..) | FromLog::Marked(..) | FromLog::Names(..) => {}
    })?;
    if !are_valid {
        return Err(unusable("a log of the job names no valid part of a catalog".to_owned()));
    }
    let first_part = catalog.map_or(Ok(0), |catalog| catalog.keep_earlier(parts))?;
    Ok((Prepared { journal, log, first_part, is_resumed: job.running.run() > 1 }, rechecked))
}

/// The journal of a rank. With a catalog, a slice is done when its rows are on storage.
fn journal_for<R: SliceResults>(of_job: RunOfJob, rank: u32, catalog: Option<&CatalogSink>) -> Journal<R> {
    let journal = of_job.journal(rank);
    if catalog.is_some() { journal.holding() } else { journal }
}

/// What the first rank of a walk or sum has decided when its log is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begins {
    is_begun: bool,
    /// See [`Prepared`].
    first_part: usize,
}

atta_entry::record!(Begins { is_begun, first_part });

/// What a walk, sum or comparison with a log has.
pub(crate) trait WithLog<R: SliceResults>: Sync {
    /// Directories are complete when they are closed.
    const CLOSES: bool = false;

    fn catalog(&self) -> Option<&CatalogSink> {
        None
    }

    /// The parts of the catalog.
    fn parts(&self) -> Option<&Parts<R>> {
        None
    }

    /// Ends the run with this reason.
    fn fail(&self, fatal: Fatal);

    /// Leaves the directory of the job out of the tree.
    fn leave_out(&self, directory: &OwnedFd);

    /// Runs, and lets the log have the parts of the catalog.
    fn while_kept<T>(&self, journal: &Journal<R>, act: impl FnOnce() -> T) -> T {
        match self.parts().zip(self.catalog()) {
            Some((parts, catalog)) => parts.while_kept((catalog, journal), &|fatal| self.fail(fatal), act),
            None => act(),
        }
    }
}

/// Runs the first rank of a walk or sum while its log is written. `act` gets no journal if the run does not begin. If something of the job fails, the sink gets
/// the reason, and the run stops.
pub(crate) fn run_first<R: SliceResults, T>(
    sink: &impl WithLog<R>,
    prepared: Result<Prepared<R>, Fatal>,
    (stop, session): (&Stop, &mut Session<'_>),
    act: impl FnOnce(Option<&Journal<R>>, &mut Session<'_>) -> Result<T, RankError>,
) -> Result<T, RankError> {
    let Prepared { journal, log, first_part, is_resumed } = match prepared {
        Ok(prepared) => prepared,
        Err(fatal) => {
            sink.fail(fatal);
            session.broadcast(Some(Begins::default()))?;
            return act(None, session);
        }
    };
    let log = (log.mirrored(session.mirror()), &journal, session.log_limits());
    with_journal(sink, log, stop, |log| {
        // What counts of older logs is on storage before what these do not name is removed.
        let catalog = sink.catalog().filter(|_| is_resumed);
        let begun = write_first(log, session.is_alone() && catalog.is_none());
        let begun = begun.and_then(|()| catalog.map_or(Ok(()), CatalogSink::remove_others));
        session.broadcast(Some(Begins { is_begun: begun.is_ok(), first_part }))?;
        match begun {
            Ok(()) => act(Some(&journal), session),
            Err(fatal) => {
                sink.fail(fatal);
                act(None, session)
            }
        }
    })
}

/// The same on any other rank. `path`: the directory of the job.
pub(crate) fn run_other<R: SliceResults, T>(
    sink: &impl WithLog<R>,
    (path, of_job): (&Path, RunOfJob),
    (stop, session): (&Stop, &mut Session<'_>),
    act: impl FnOnce(Option<&Journal<R>>, &mut Session<'_>) -> Result<T, RankError>,
) -> Result<T, RankError> {
    let Begins { is_begun, first_part } = session.broadcast(None)?;
    if !is_begun {
        return act(None, session);
    }
    let rank = session.seat().rank;
    let (log, underway) = match of_job.join(path, rank) {
        Ok((directory, log)) => {
            sink.leave_out(&directory);
            (log, of_job.underway(&directory, rank))
        }
        Err(fatal) => {
            sink.fail(fatal);
            return act(None, session);
        }
    };
    if let Some(catalog) = sink.catalog() {
        catalog.number_from(first_part);
    }
    let journal = journal_for(of_job, rank, sink.catalog()).with_underway(underway);
    let journal = if closes(sink) { journal.with_closing() } else { journal };
    let log = (log.mirrored(session.mirror()), &journal, session.log_limits());
    with_journal(sink, log, stop, |_| act(Some(&journal), session))
}

fn closes<R: SliceResults, S: WithLog<R>>(_sink: &S) -> bool {
    S::CLOSES
}

fn with_journal<R: SliceResults, T>(
    sink: &impl WithLog<R>,
    (log, journal, limits): (LogFile, &Journal<R>, LogLimits),
    stop: &Stop,
    act: impl FnOnce(&LogHandle<'_>) -> T,
) -> T {
    let (done, written) =
        write_while((log, journal, limits), stop, |log| sink.while_kept(journal, || act(log)));
    if let Err(fatal) = written {
        sink.fail(fatal);
    }
    done
}

/// Runs a command while its log is written. Also returns what of the log failed.
pub(crate) fn write_while<R: SliceResults, T>(
    (log, journal, limits): (impl Into<Log>, &Journal<R>, LogLimits),
    stop: &Stop,
    act: impl FnOnce(&LogHandle<'_>) -> T,
) -> (T, Result<(), Fatal>) {
    let logging = Logging { facts: journal, stop, limits };
    let (done, written) = with_log(log, logging, act);
    let written = match written {
        Ok(written) if written.out_of_space.is_some() => {
            Err(failed("no space is left for the log of the job".to_owned()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(log_failed(&error)),
    };
    (done, written)
}

/// Writes the first frame of a run, with the cuts of earlier logs. Without it, nothing of the run counts, on any rank.
pub(crate) fn write_first(log: &LogHandle<'_>, is_alone: bool) -> Result<(), Fatal> {
    let written = if is_alone { log.write_now() } else { log.sync_now() };
    written.map_err(|error| log_failed(&error))
}

/// `is_small`: it takes room from a copy.
fn new_log(directory: &OwnedFd, (key, name): (Key, LogName), is_small: bool) -> Result<LogFile, Fatal> {
    let create = if is_small { LogFile::create_small } else { LogFile::create };
    create(directory, key, name)
        .map_err(|error| failed(format!("cannot make the log {name} of the job: {}", describe(&error))))
}

fn log_failed(error: &LogError) -> Fatal {
    failed(format!("the log of the job failed: {error}"))
}

/// The log of this run cannot be written.
fn failed(what: String) -> Fatal {
    let hint = "what the log has is kept: when it can be written, give the same command again";
    Fatal::Failed { what, hint: Some(hint.to_owned()) }
}

/// A log of an earlier run cannot be used.
fn unusable(what: String) -> Fatal {
    Fatal::Failed { what, hint: Some("--restart begins the job anew".to_owned()) }
}
