//! A walk with a log of its job (`--job`, `--output`): what earlier runs have counted is added, and only the rest is walked. `run/logged.rs` has the log,
//! `run/parts.rs` the parts of a catalog.

use std::path::Path;

use atta_ops::resume::Recheck;
use atta_ops::walk::{self, Journal, Options, Outcome, Progress, Start, Totals};
use atta_runtime::{RankError, Session};

use super::sink::{Sink, SinkWorker};
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;
use crate::run::job::Job;
use crate::run::logged::{
    OfReading, Prepared, RunOfJob, WithLog as _, parted, prepare_catalog, run_first, run_other,
};
use crate::run::share::Share;
use crate::run::together::{self, FromAll, Reading};

/// What a rank walks with.
pub(super) struct Walking<'a> {
    pub(super) sink: &'a Sink,
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) options: &'a Options<'a>,
}

/// Walks what earlier runs of the job have not done, on the first rank. The outcome has the sums of all runs; also returns what earlier ones
/// have done. If something of the job fails, the sink gets the reason, and the walk stops.
pub(super) fn walk_first(
    job: &Job,
    walking: &Walking<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<(Outcome<SinkWorker, Share>, Option<Earlier>), RankError> {
    let (sink, stop, mut earlier) = (walking.sink, &walking.options.stop, Totals::default());
    let found = together::first(job, walking.reading(), session)?;
    // Other ranks wait for the first one, and it listens to them.
    let (prepared, before) = parted(session.beside(|| prepared(job, (walking, found), &mut earlier))?);
    let outcome =
        run_first(sink, prepared, (stop, session), |journal, session| walking.run(journal, session, observe));
    outcome.map(|mut outcome| {
        sink.summary.count_links(&mut outcome.results.totals);
        outcome.results.totals += &earlier;
        (outcome, before)
    })
}

/// The part of any other rank. `of_job`: the directory of the job as well.
pub(super) fn walk_other(
    of_job: (&Path, RunOfJob),
    walking: &Walking<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<Outcome<SinkWorker, Share>, RankError> {
    let (sink, stop) = (walking.sink, &walking.options.stop);
    together::other::<Share>(of_job, walking.reading(), session)?;
    let outcome =
        run_other(sink, of_job, (stop, session), |journal, session| walking.run(journal, session, observe));
    outcome.map(|mut outcome| {
        sink.summary.count_links(&mut outcome.results.totals);
        outcome
    })
}

impl Walking<'_> {
    fn reading(&self) -> Reading {
        Reading { memory_bytes: self.options.memory_bytes, closes: false }
    }

    /// Walks. Without a journal, it takes part in a walk that was stopped.
    fn run(
        &self,
        journal: Option<&Journal<Share>>,
        session: &mut Session<'_>,
        observe: impl FnMut(&Progress),
    ) -> Result<Outcome<SinkWorker, Share>, RankError> {
        let Self { sink, roots, options } = self;
        match journal {
            Some(journal) => walk::run_logged(session, (*sink, journal), roots.clone(), options, observe),
            None => walk::run_on(session, *sink, std::iter::empty::<Start>(), options, observe),
        }
    }
}

/// What earlier runs have done, and the log of this run.
fn prepared(
    job: &Job,
    (Walking { sink, roots, options }, found): (&Walking<'_>, Option<FromAll<Share>>),
    earlier: &mut Totals,
) -> Result<(Prepared<Share>, Option<Earlier>), Fatal> {
    if let Some(Ok(logged)) = job.running.begun() {
        sink.leave_out(logged.directory());
    }
    let of_catalog = (sink.catalog.as_ref(), &sink.failures);
    let (memory_bytes, recheck) = (options.memory_bytes, Recheck::of_roots(roots, options));
    let of_reading = OfReading { memory_bytes, recheck, found };
    let (prepared, rechecked) = prepare_catalog(job, of_catalog, of_reading, &mut |mut share: Share| {
        sink.summary.count_links(&mut share.totals);
        sink.failures.add_earlier(&share.gathered.vanished);
        *earlier += &share.totals;
    })?;
    Ok((prepared, Earlier::after_first(job, (earlier.entries(), None), rechecked)))
}

/// The devices of the roots, in order. One that cannot be looked at has none.
pub(super) fn devices(roots: &[Vec<u8>]) -> Vec<u64> {
    roots.iter().map(|root| walk::look_at(root).map_or(0, |metadata| metadata.device)).collect()
}
