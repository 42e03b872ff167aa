//! `atta verify` with a log of its job: what earlier runs have compared is not compared again, and what they have found is reported again. `run/logged.rs`
//! has the log. The job is beside the table that `--output` names, or in a directory that the user names (`--job`).

use std::path::{Path, PathBuf};

use atta_entry::{Errno, Kind};
use atta_ops::resume::JobPlace;
use atta_ops::verify::{self, Findings, Options, Outcome, Progress, Totals, Trees};
use atta_ops::walk::{self, Journal};
use atta_runtime::{RankError, Session};

use super::arguments::VerifyArguments;
use super::rows::Rows;
use crate::run::beside::{self, WithJob};
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;
use crate::run::job::{self, Asked, Job, Kept};
use crate::run::logged::{OfReading, Prepared, RunOfJob, WithLog, parted, run_first, run_other};
use crate::run::refused::Refused;
use crate::run::together::{self, FromAll, Reading};

/// Begins the job of a run, or goes on with it, if it has one.
pub(super) fn begun(
    arguments: &VerifyArguments,
    roots: Vec<Vec<u8>>,
    session: &Session<'_>,
) -> Result<WithJob, Refused> {
    let restarts = arguments.restart;
    let kept = if arguments.row_format().is_some() { Kept::BesideRows } else { arguments.report.kept() };
    let deaths = arguments.deaths.clone();
    let mut asked = Asked { restarts, deaths, agrees: arguments.agrees(), roots };
    match (&arguments.job, &arguments.output) {
        // `atta resume` names the directory as well.
        (_, Some(output)) if !arguments.no_job && session.runs_tasks() && may_be_replaced(output) => {
            let place = job::place_of_report(output)?;
            asked.agrees.push(job::describe_report(output)?);
            beside::begin_or_lack(&place, asked, kept)
        }
        (Some(directory), None) => in_directory(directory, (asked, kept), session).map(WithJob::from),
        _ => Ok(WithJob::default()),
    }
}

/// A job in a directory that the user has named.
fn in_directory(
    directory: &Path,
    (asked, kept): (Asked, Kept),
    session: &Session<'_>,
) -> Result<Job, Refused> {
    if !session.runs_tasks() {
        let what = "--job with --schedule centralized, where the first rank compares nothing".to_owned();
        return Err(Refused::usage(what, "take another schedule; the first rank does what is left first"));
    }
    job::begin(&JobPlace::from(directory), asked, kept)
}

/// Whether a file in this place is one that a later run writes anew: no pipe and no device.
fn may_be_replaced(output: &Path) -> bool {
    match walk::look_at(output.as_os_str().as_encoded_bytes()) {
        Ok(found) => found.kind() == Kind::File,
        Err(errno) => errno == Errno::NOENT,
    }
}

/// What a rank compares.
pub(super) struct Comparing<'a> {
    pub(super) rows: &'a Rows,
    pub(super) trees: &'a Trees,
    pub(super) options: &'a Options<'a>,
}

/// Compares what earlier runs of the job have not, on the first rank. The outcome has the totals of all runs; also returns what earlier ones
/// have done. If something of the job fails, the rows get the reason, and the run stops.
pub(super) fn compare_first(
    job: &Job,
    comparing: &Comparing<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<(Outcome, Option<Earlier>), RankError> {
    let mut earlier = Totals::default();
    let found = together::first(job, comparing.reading(), session)?;
    // Other ranks wait for the first one, and it listens to them.
    let (prepared, before) = parted(session.beside(|| comparing.prepared(job, found, &mut earlier))?);
    let stop = &comparing.options.walk.stop;
    let outcome = run_first(comparing.rows, prepared, (stop, session), |journal, session| {
        comparing.run(journal, session, observe)
    });
    outcome.map(|mut outcome| {
        outcome.totals += &earlier;
        (outcome, before)
    })
}

/// The part of any other rank. `directory`: that of the job.
pub(super) fn compare_other(
    (directory, of_job): (PathBuf, RunOfJob),
    comparing: &Comparing<'_>,
    session: &mut Session<'_>,
) -> Result<Outcome, RankError> {
    let stop = &comparing.options.walk.stop;
    together::other::<Findings>((&directory, of_job), comparing.reading(), session)?;
    run_other(comparing.rows, (&directory, of_job), (stop, session), |journal, session| {
        comparing.run(journal, session, |_| {})
    })
}

impl Comparing<'_> {
    fn reading(&self) -> Reading {
        Reading { memory_bytes: self.options.walk.memory_bytes, closes: true }
    }

    /// Compares. Without a journal, it takes part in a run that was stopped.
    fn run(
        &self,
        journal: Option<&Journal<Findings>>,
        session: &mut Session<'_>,
        observe: impl FnMut(&Progress),
    ) -> Result<Outcome, RankError> {
        let Self { rows, trees, options } = self;
        match journal {
            Some(journal) => verify::run_logged(session, trees, options, (*rows, journal), observe),
            None => verify::run(session, trees, options, *rows, observe),
        }
    }

    /// What earlier runs have found, and the log of this run.
    fn prepared(
        &self,
        job: &Job,
        found: Option<FromAll<Findings>>,
        earlier: &mut Totals,
    ) -> Result<(Prepared<Findings>, Option<Earlier>), Fatal> {
        let Self { rows, trees, options } = self;
        if let Some(Ok(logged)) = job.running.begun() {
            rows.leave_out(logged.directory());
        }
        let journal = RunOfJob::of(job).journal(0).with_closing();
        let (memory_bytes, recheck) = (options.walk.memory_bytes, trees.recheck(options));
        let of_reading = OfReading { memory_bytes, recheck, found };
        let (prepared, rechecked) = Prepared::closing(job, journal, of_reading, &mut |found: Findings| {
            rows.add_earlier(found.differences())?;
            trees.receive(found.names());
            *earlier += &found.totals;
            Ok(())
        })?;
        let counts = (earlier.compared + earlier.missing, None);
        Ok((prepared, Earlier::after_first(job, counts, rechecked)))
    }
}
