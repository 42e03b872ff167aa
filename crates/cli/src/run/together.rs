//! The logs of a job after deaths, read by all ranks that are left, each some of them. The first rank gets what is left to do and what was done, and goes on as
//! if it had read all logs. It says nothing: where it cannot be done, the first rank reads the logs, and reports what is wrong.
//!
//! ```text
//!   first rank   deals the logs out                          broadcast
//!   each rank    reads its logs: what is open                to the first rank, merged on the way
//!   first rank   what is open for any rank                   broadcast
//!   each rank    reads its logs again: what they say of it   to the first rank, merged on the way
//! ```

use std::collections::HashMap;
use std::path::Path;

use atta_ledger::{Extent, Fold, Key, LogName, Open, PartRead, Record, Selected};
use atta_ops::resume::{JobPlace, LoggedJob};
use atta_ops::walk::SliceResults;
use atta_runtime::{RankError, Session};

use super::job::Job;
use super::logged::RunOfJob;

/// Bytes of a message, at most: MPI takes twice as many.
const MESSAGE_MOST: usize = 1 << 30;
/// Bytes of an open directory in memory.
const OPEN_BYTES: usize = 40;
/// Counts take fewer bytes in a frame. What is more grows with what was found.
const COUNTS_BYTES: usize = 16 << 10;

/// How logs are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// An aim for the memory of each rank, in bytes.
    pub(crate) memory_bytes: u64,
    /// Directories are complete when they are closed.
    pub(crate) closes: bool,
}

impl Reading {
    fn memory(self) -> usize {
        usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)
    }

    /// Bytes that ranks find together, at most: they are in the memory of one rank, and in one message.
    fn most(self) -> usize {
        self.memory().min(MESSAGE_MOST)
    }
}

/// What the logs say that some ranks have read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FromAll<R> {
    pub(crate) selected: Selected,
    /// What is done comes to this.
    pub(crate) results: R,
    /// Bytes of the results, about.
    result_bytes: usize,
    /// The bytes that count of each log.
    counted: Vec<(LogName, u64)>,
}

atta_entry::record!(<R> FromAll<R> { selected, results, result_bytes, counted });

impl<R: SliceResults> FromAll<R> {
    fn merge(&mut self, other: Self) {
        self.selected.merge(other.selected);
        self.results.add(&other.results);
        self.result_bytes = self.result_bytes.saturating_add(other.result_bytes);
        self.counted.extend(other.counted);
    }

    fn bytes(&self) -> usize {
        self.selected.bytes().saturating_add(self.result_bytes)
    }

    /// The records that the first frame of this run has. `logs`: all of the job, in order.
    pub(crate) fn cuts(&self, logs: &[LogName]) -> Vec<Record<'static>> {
        let counted: HashMap<_, _> = self.counted.iter().copied().collect();
        let cut = |log: &LogName| Record::Cut { log: *log, bytes: counted.get(log).copied().unwrap_or(0) };
        logs.iter().map(cut).collect()
    }
}

/// On the first rank: what the logs of this job say. None: it must read them itself.
pub(crate) fn first<R: SliceResults>(
    job: &Job,
    reading: Reading,
    session: &mut Session<'_>,
) -> Result<Option<FromAll<R>>, RankError> {
    let of_job = RunOfJob::of(job);
    if !of_job.is_read_together() {
        return Ok(None);
    }
    let ranks = session.seat().ranks as usize;
    let dealt = session.beside(|| {
        let logged = job.running.begin().ok()?;
        logged.deal(ranks).ok()?
    })?;
    take_part((job.running.place().path(), of_job), reading, (Some(dealt), session))
}

/// The part of any other rank. `path`: the directory of the job.
pub(crate) fn other<R: SliceResults>(
    of_job: (&Path, RunOfJob),
    reading: Reading,
    session: &mut Session<'_>,
) -> Result<(), RankError> {
    if of_job.1.is_read_together() {
        take_part::<R>(of_job, reading, (None, session))?;
    }
    Ok(())
}

/// The logs of each rank. None: the first rank reads all.
type Dealt = Option<Vec<Vec<Extent>>>;

fn take_part<R: SliceResults>(
    (path, of_job): (&Path, RunOfJob),
    reading: Reading,
    (dealt, session): (Option<Dealt>, &mut Session<'_>),
) -> Result<Option<FromAll<R>>, RankError> {
    let Some(dealt) = session.broadcast(dealt)? else { return Ok(None) };
    let rank = session.seat().rank as usize;
    let share = Share {
        job: LoggedJob::peek(&JobPlace::from(path)).ok().filter(|job| job.number() == of_job.number()),
        extents: dealt.get(rank).map(Vec::as_slice).unwrap_or_default(),
        reading,
    };
    let read = session.beside(|| share.read(Key::of_job(&of_job.number())))?;
    let (read, own) = read.unzip();
    let mut open = session.reduce(own, |open, other| {
        merge(open, other, Open::merge);
        open.take_if(|open| open.count().saturating_mul(OPEN_BYTES) > reading.most());
    })?;
    if let Some(Some(open)) = &mut open {
        open.settle();
    }
    let Some(open) = session.broadcast(open)? else { return Ok(None) };
    let found = session.beside(|| share.select(&read?, &open))?;
    let found = session.reduce(found, |found, other| {
        merge(found, other, FromAll::merge);
        // All of it is in the memory of the first rank in the end.
        found.take_if(|found| found.bytes() > reading.most());
    })?;
    Ok(found.flatten())
}

/// None if one is none.
fn merge<T>(whole: &mut Option<T>, other: Option<T>, add: impl FnOnce(&mut T, T)) {
    match (whole.as_mut(), other) {
        (Some(one), Some(other)) => add(one, other),
        _ => *whole = None,
    }
}

/// What one rank reads.
struct Share<'d> {
    /// None: it cannot be opened.
    job: Option<LoggedJob>,
    extents: &'d [Extent],
    reading: Reading,
}

/// Logs that were read once.
struct ReadOnce {
    part: PartRead,
    counted: Vec<(LogName, u64)>,
}

impl Share<'_> {
    fn read(&self, key: Key) -> Option<(ReadOnce, Open)> {
        let fold = Fold { key, closes: self.reading.closes, memory: self.reading.memory() };
        let job = self.job.as_ref()?;
        let mut logs = job.some(self.extents);
        let mut part = PartRead::read(&fold, &mut logs).ok()??;
        let counted: Vec<_> = logs.counted().collect();
        for (log, _) in counted.iter().filter(|(_, bytes)| *bytes > 0) {
            job.sync(*log).ok()?;
        }
        let open = part.take_open();
        Some((ReadOnce { part, counted }, open))
    }

    fn select<R: SliceResults>(&self, read: &ReadOnce, open: &Open) -> Option<FromAll<R>> {
        let until = read.counted.iter().map(|(log, bytes)| Extent { log: *log, until: Some(*bytes) });
        let mut logs = self.job.as_ref()?.some(&until.collect::<Vec<_>>());
        let (mut results, mut are_valid, mut grown) = (R::default(), true, 0_usize);
        let most = self.reading.most();
        let selected = read.part.select((&mut logs, open), most, &mut |bytes| {
            grown += bytes.len().saturating_sub(COUNTS_BYTES);
            match R::decode_all(bytes).filter(|_| grown <= most) {
                Some(more) => results.add(&more),
                None => are_valid = false,
            }
        });
        let selected = selected.ok()??;
        let result_bytes = results.encoded().len();
        let found = FromAll { selected, results, result_bytes, counted: read.counted.clone() };
        (are_valid && found.bytes() <= most).then_some(found)
    }
}
