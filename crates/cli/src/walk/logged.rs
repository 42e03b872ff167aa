//! A walk with a log of its job (`--job`): what earlier runs have counted is added, and only the rest is walked. The first rank reads the logs
//! of earlier runs; each rank writes one of its own.

use std::path::Path;

use atta_ledger::{Key, LogName};
use atta_ops::resume::{BadLog, LoggedJob};
use atta_ops::walk::{self, Journal, Options, Outcome, Progress, ResumeError, Start, Totals};
use atta_runtime::{LogError, LogFile, LogHandle, LogLimits, Logging, RankError, Session, with_log};
use rustix::fd::OwnedFd;

use super::sink::{Sink, SinkWorker};
use crate::run::fatal::Fatal;
use crate::run::job::Job;

/// The rank that reads the logs of earlier runs.
const FIRST: u32 = 0;

/// The job of this run, for all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOfJob {
    number: [u8; 16],
    run: u32,
}

atta_entry::record!(RunOfJob { number, run });

impl RunOfJob {
    pub(super) fn of(job: &Job) -> Self {
        Self { number: job.logged.number(), run: job.logged.run() }
    }
}

/// What a rank walks with.
pub(super) struct Walking<'a> {
    pub(super) sink: &'a Sink,
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) options: &'a Options<'a>,
}

/// Walks what earlier runs of the job have not done, on the first rank. The outcome has the sums of all runs. If something of the job fails,
/// the sink gets the reason, and the walk stops.
pub(super) fn walk_first(
    job: &Job,
    walking: Walking<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<Outcome<SinkWorker, Totals>, RankError> {
    let (sink, options) = (walking.sink, walking.options);
    let (journal, earlier, file) = match prepared(job, sink, options) {
        Ok(prepared) => prepared,
        Err(fatal) => {
            sink.fail(fatal);
            session.broadcast(Some(false))?;
            return nothing(&walking, session, observe);
        }
    };
    let outcome = with_journal((file, &journal), walking, |walking, log| {
        // The first frame has the cuts of earlier logs. Without it, nothing of this run counts, on any rank.
        let begun = if session.is_alone() { log.write_now() } else { log.sync_now() };
        session.broadcast(Some(begun.is_ok()))?;
        match begun {
            Ok(()) => logged(walking, &journal, session, observe),
            Err(error) => {
                sink.fail(log_failed(&error));
                nothing(&walking, session, observe)
            }
        }
    });
    outcome.map(|mut outcome| {
        outcome.results += &earlier;
        outcome
    })
}

/// The part of any other rank. `path`: the directory of the job.
pub(super) fn walk_other(
    (path, of_job): (&Path, RunOfJob),
    walking: Walking<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<Outcome<SinkWorker, Totals>, RankError> {
    if !session.broadcast::<bool>(None)? {
        return nothing(&walking, session, observe);
    }
    let RunOfJob { number, run } = of_job;
    let name = LogName { run, rank: session.seat().rank, part: 0 };
    let joined = LoggedJob::join(path, &number);
    let joined = joined.map_err(|error| Fatal::Failed { what: error.describe(path), hint: None });
    let made = joined.and_then(|(directory, key)| {
        walking.sink.leave_out(&directory);
        Ok((new_log(&directory, key, name)?, key))
    });
    let (file, key) = match made {
        Ok(made) => made,
        Err(fatal) => {
            walking.sink.fail(fatal);
            return nothing(&walking, session, observe);
        }
    };
    let journal = Journal::new(key, run, name.rank);
    with_journal((file, &journal), walking, |walking, _| logged(walking, &journal, session, observe))
}

/// Walks while the log is written.
fn with_journal(
    (file, journal): (LogFile, &Journal<Totals>),
    walking: Walking<'_>,
    walk: impl FnOnce(Walking<'_>, &LogHandle<'_>) -> Result<Outcome<SinkWorker, Totals>, RankError>,
) -> Result<Outcome<SinkWorker, Totals>, RankError> {
    let (sink, stop) = (walking.sink, walking.options.stop.clone());
    let logging = Logging { facts: journal, stop: &stop, limits: LogLimits::default() };
    let (outcome, written) = with_log(file, logging, |log| walk(walking, log));
    match written {
        Ok(written) if written.out_of_space.is_some() => {
            sink.fail(failed("no space is left for the log of the job".to_owned()));
        }
        Ok(_) => {}
        Err(error) => sink.fail(log_failed(&error)),
    }
    outcome.map(|mut outcome| {
        sink.summary.count_links(&mut outcome.results);
        outcome
    })
}

fn logged(
    walking: Walking<'_>,
    journal: &Journal<Totals>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<Outcome<SinkWorker, Totals>, RankError> {
    let Walking { sink, roots, options } = walking;
    walk::run_logged(session, (sink, journal), roots, options, observe)
}

/// Takes part in a walk that was stopped.
fn nothing(
    walking: &Walking<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<Outcome<SinkWorker, Totals>, RankError> {
    walk::run_on(session, walking.sink, std::iter::empty::<Start>(), walking.options, observe)
}

fn new_log(directory: &OwnedFd, key: Key, name: LogName) -> Result<LogFile, Fatal> {
    LogFile::create(directory, key, name)
        .map_err(|error| failed(format!("cannot make the log {name} of the job: {error}")))
}

/// What earlier runs have done, and the log of this run.
fn prepared(
    job: &Job,
    sink: &Sink,
    options: &Options<'_>,
) -> Result<(Journal<Totals>, Totals, LogFile), Fatal> {
    let logged = &job.logged;
    sink.leave_out(logged.directory());
    let (journal, earlier) = earlier(logged, sink, options)?;
    if logged.run() > 1 {
        job.report_earlier(earlier.entries());
    }
    let name = LogName { run: logged.run(), rank: FIRST, part: 0 };
    Ok((journal, earlier, new_log(logged.directory(), logged.key(), name)?))
}

/// What the logs of earlier runs say.
fn earlier(
    logged: &LoggedJob,
    sink: &Sink,
    options: &Options<'_>,
) -> Result<(Journal<Totals>, Totals), Fatal> {
    let mut logs = logged.earlier().map_err(|bad| unusable(bad.to_string()))?;
    let mut journal = Journal::new(logged.key(), logged.run(), FIRST).with_cuts(logs.cuts());
    let mut sum = Totals::default();
    let memory = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
    let resumed = journal.resume(&mut logs, memory, &mut |mut share: Totals| {
        sink.summary.count_links(&mut share);
        sum += &share;
    });
    match resumed {
        Ok(()) => Ok((journal, sum)),
        Err(ResumeError::Logs(refused)) => Err(unusable(BadLog::from(refused).to_string())),
        Err(ResumeError::Results) => Err(unusable("a log of the job holds no results of a walk".to_owned())),
    }
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

/// The devices of the roots, in order. One that cannot be looked at has none.
pub(super) fn devices(roots: &[Vec<u8>]) -> Vec<u64> {
    roots.iter().map(|root| walk::look_at(root).map_or(0, |metadata| metadata.device)).collect()
}
