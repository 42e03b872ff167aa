//! `atta sum --output` with a log of its job: what earlier runs have hashed is added, and only the rest is hashed. `run/logged.rs` has the log,
//! `run/parts.rs` the parts of the catalog.

use std::path::Path;

use atta_ops::resume::Recheck;
use atta_ops::sum::{self, Options, Outcome, Progress};
use atta_ops::walk::{Journal, Start};
use atta_runtime::{RankError, Results as _, Session};

use super::sink::{Sink, SinkWorker, Sums};
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;
use crate::run::job::Job;
use crate::run::logged::{
    OfReading, Prepared, RunOfJob, WithLog as _, parted, prepare_catalog, run_first, run_other,
};
use crate::run::together::{self, FromAll, Reading};

/// What a rank hashes with.
pub(super) struct Hashing<'a> {
    pub(super) sink: &'a Sink,
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) options: &'a Options<'a>,
}

/// Hashes what earlier runs of the job have not, on the first rank. The outcome has the sums of all runs; also returns what earlier ones have
/// done. If something of the job fails, the sink gets the reason, and the run stops.
pub(super) fn hash_first(
    job: &Job,
    hashing: &Hashing<'_>,
    session: &mut Session<'_>,
    observe: impl FnMut(&Progress),
) -> Result<(Outcome<SinkWorker>, Option<Earlier>), RankError> {
    let mut earlier = Sums::default();
    let found = together::first(job, hashing.reading(), session)?;
    // Other ranks wait for the first one, and it listens to them.
    let (prepared, before) = parted(session.beside(|| prepared(job, (hashing, found), &mut earlier))?);
    let stop = &hashing.options.walk.stop;
    let outcome = run_first(hashing.sink, prepared, (stop, session), |journal, session| {
        hashing.run((journal, &earlier), session, observe)
    });
    Ok((outcome?, before))
}

/// The part of any other rank. `of_job`: the directory of the job as well.
pub(super) fn hash_other(
    of_job: (&Path, RunOfJob),
    hashing: &Hashing<'_>,
    session: &mut Session<'_>,
) -> Result<Outcome<SinkWorker>, RankError> {
    let stop = &hashing.options.walk.stop;
    together::other::<Sums>(of_job, hashing.reading(), session)?;
    run_other(hashing.sink, of_job, (stop, session), |journal, session| {
        hashing.run((journal, &Sums::default()), session, |_| {})
    })
}

impl Hashing<'_> {
    fn reading(&self) -> Reading {
        Reading { memory_bytes: self.options.walk.memory_bytes, closes: false }
    }

    /// Hashes. Without a journal, it takes part in a run that was stopped.
    fn run(
        &self,
        (journal, earlier): (Option<&Journal<Sums>>, &Sums),
        session: &mut Session<'_>,
        observe: impl FnMut(&Progress),
    ) -> Result<Outcome<SinkWorker>, RankError> {
        let Self { sink, roots, options } = self;
        match journal {
            Some(journal) => {
                sum::run_logged(session, (*sink, options), (journal, earlier), roots.clone(), observe)
            }
            None => sum::run(session, *sink, std::iter::empty::<Start>(), options, observe),
        }
    }
}

/// What earlier runs have hashed, and the log of this run.
fn prepared(
    job: &Job,
    (Hashing { sink, roots, options }, found): (&Hashing<'_>, Option<FromAll<Sums>>),
    earlier: &mut Sums,
) -> Result<(Prepared<Sums>, Option<Earlier>), Fatal> {
    if let Some(Ok(logged)) = job.running.begun() {
        sink.leave_out(logged.directory());
    }
    let of_catalog = (sink.catalog.as_ref(), &sink.failures);
    let (memory_bytes, recheck) = (options.walk.memory_bytes, Recheck::of_roots(roots, &options.walk));
    let of_reading = OfReading { memory_bytes, recheck, found };
    let (prepared, rechecked) = prepare_catalog(job, of_catalog, of_reading, &mut |mut share: Sums| {
        sink.failures.add_earlier(&std::mem::take(&mut share.gathered.vanished));
        earlier.add(&share);
    })?;
    let counts = (earlier.totals.entries(), Some(earlier.totals.bytes));
    Ok((prepared, Earlier::after_first(job, counts, rechecked)))
}
