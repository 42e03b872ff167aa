//! A walk with a log of its job (`--job`): what earlier runs have counted is added, and only the rest is walked. `run/logged.rs` has the log.

use std::path::Path;

use atta_ops::walk::{self, FromLog, Journal, Options, Outcome, Progress, Start, Totals};
use atta_runtime::{LogFile, LogHandle, RankError, Session};

use super::sink::{Sink, SinkWorker};
use crate::run::fatal::Fatal;
use crate::run::job::Job;
use crate::run::logged::{RunOfJob, prepare, write_first, write_while};

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
    let sink = walking.sink;
    let (journal, earlier, file) = match prepared(job, sink, walking.options) {
        Ok(prepared) => prepared,
        Err(fatal) => {
            sink.fail(fatal);
            session.broadcast(Some(false))?;
            return nothing(&walking, session, observe);
        }
    };
    let outcome = with_journal((file, &journal), walking, |walking, log| {
        let begun = write_first(log, session.is_alone());
        session.broadcast(Some(begun.is_ok()))?;
        match begun {
            Ok(()) => logged(walking, &journal, session, observe),
            Err(fatal) => {
                sink.fail(fatal);
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
    let rank = session.seat().rank;
    let file = match of_job.join(path, rank) {
        Ok((directory, file)) => {
            walking.sink.leave_out(&directory);
            file
        }
        Err(fatal) => {
            walking.sink.fail(fatal);
            return nothing(&walking, session, observe);
        }
    };
    let journal = of_job.journal(rank);
    with_journal((file, &journal), walking, |walking, _| logged(walking, &journal, session, observe))
}

/// Walks while the log is written.
fn with_journal(
    (file, journal): (LogFile, &Journal<Totals>),
    walking: Walking<'_>,
    walk: impl FnOnce(Walking<'_>, &LogHandle<'_>) -> Result<Outcome<SinkWorker, Totals>, RankError>,
) -> Result<Outcome<SinkWorker, Totals>, RankError> {
    let (sink, stop) = (walking.sink, walking.options.stop.clone());
    let (outcome, written) = write_while((file, journal), &stop, |log| walk(walking, log));
    if let Err(fatal) = written {
        sink.fail(fatal);
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

/// What earlier runs have done, and the log of this run.
fn prepared(
    job: &Job,
    sink: &Sink,
    options: &Options<'_>,
) -> Result<(Journal<Totals>, Totals, LogFile), Fatal> {
    if let Some(Ok(logged)) = job.running.begun() {
        sink.leave_out(logged.directory());
    }
    let mut earlier = Totals::default();
    let journal = RunOfJob::of(job).journal(0);
    let (journal, file) = prepare(job, journal, options.memory_bytes, &mut |found| {
        if let FromLog::Results(mut share) = found {
            sink.summary.count_links(&mut share);
            earlier += &share;
        }
    })?;
    if job.running.run() > 1 {
        job.report_earlier(earlier.entries());
    }
    Ok((journal, earlier, file))
}

/// The devices of the roots, in order. One that cannot be looked at has none.
pub(super) fn devices(roots: &[Vec<u8>]) -> Vec<u64> {
    roots.iter().map(|root| walk::look_at(root).map_or(0, |metadata| metadata.device)).collect()
}
