//! A walk with a log of its job (`--job`), on one rank: what earlier runs have counted is added, and only the rest is walked.

use atta_ledger::LogName;
use atta_ops::resume::{BadLog, LoggedJob};
use atta_ops::walk::{self, Journal, Options, Outcome, Progress, ResumeError, Totals};
use atta_runtime::{LogError, LogFile, LogLimits, Logging, with_log};

use super::sink::{Sink, SinkWorker};
use crate::run::fatal::Fatal;
use crate::run::job::Job;

/// The log is written by the only rank.
const RANK: u32 = 0;

/// Walks what earlier runs of the job have not done. The outcome has the sums of all runs. If something of the job fails, the sink gets the
/// reason, and the walk stops.
pub(super) fn walk(
    job: &Job,
    (sink, roots): (&Sink, Vec<Vec<u8>>),
    options: &Options<'_>,
    observe: impl FnMut(&Progress),
) -> Outcome<SinkWorker, Totals> {
    let (journal, earlier, file) = match prepared(job, sink, options) {
        Ok(prepared) => prepared,
        Err(fatal) => {
            sink.fail(fatal);
            return walk::run(sink, Vec::new(), options, observe);
        }
    };
    let logging = Logging { facts: &journal, stop: &options.stop, limits: LogLimits::default() };
    let (mut outcome, written) = with_log(file, logging, |log| {
        // The first frame has the cuts of earlier logs: without it, nothing of this run counts.
        match log.write_now() {
            Ok(()) => walk::run_logged(sink, roots, options, &journal, observe),
            Err(error) => {
                sink.fail(log_failed(&error));
                walk::run(sink, Vec::new(), options, observe)
            }
        }
    });
    match written {
        Ok(written) if written.out_of_space.is_some() => {
            sink.fail(failed("no space is left for the log of the job".to_owned()));
        }
        Ok(_) => {}
        Err(error) => sink.fail(log_failed(&error)),
    }
    sink.summary.count_links(&mut outcome.results);
    outcome.results += &earlier;
    outcome
}

/// What earlier runs have done, and the log of this run.
fn prepared(
    job: &Job,
    sink: &Sink,
    options: &Options<'_>,
) -> Result<(Journal<Totals>, Totals, LogFile), Fatal> {
    let logged = &job.logged;
    let (journal, earlier) = earlier(logged, sink, options)?;
    if logged.run() > 1 {
        job.report_earlier(earlier.entries());
    }
    let name = LogName { run: logged.run(), rank: RANK, part: 0 };
    let made = LogFile::create(logged.directory(), logged.key(), name);
    let file = made.map_err(|error| failed(format!("cannot make the log {name} of the job: {error}")))?;
    Ok((journal, earlier, file))
}

/// What the logs of earlier runs say.
fn earlier(
    logged: &LoggedJob,
    sink: &Sink,
    options: &Options<'_>,
) -> Result<(Journal<Totals>, Totals), Fatal> {
    let mut logs = logged.earlier().map_err(|bad| failed(bad.to_string()))?;
    let mut journal = Journal::new(logged.key(), logged.run(), RANK).with_cuts(logs.cuts());
    let mut sum = Totals::default();
    let memory = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
    let resumed = journal.resume(&mut logs, memory, &mut |mut share: Totals| {
        sink.summary.count_links(&mut share);
        sum += &share;
    });
    match resumed {
        Ok(()) => Ok((journal, sum)),
        Err(ResumeError::Logs(refused)) => Err(failed(BadLog::from(refused).to_string())),
        Err(ResumeError::Results) => Err(failed("a log of the job holds no results of a walk".to_owned())),
    }
}

fn log_failed(error: &LogError) -> Fatal {
    failed(format!("the log of the job failed: {error}"))
}

fn failed(what: String) -> Fatal {
    Fatal::Failed { what, hint: Some("what the log has is kept; atta resume goes on from there".to_owned()) }
}

/// The devices of the roots, in order. One that cannot be looked at has none.
pub(super) fn devices(roots: &[Vec<u8>]) -> Vec<u64> {
    roots.iter().map(|root| walk::look_at(root).map_or(0, |metadata| metadata.device)).collect()
}
