//! The logs of a job after deaths, read by all ranks that are left, each some of them. The first rank gets what is left to do and what was done, and goes on as
//! if it had read all logs. It says nothing: where it cannot be done, the first rank reads the logs, and reports what is wrong.
//!
//! ```text
//!   first rank   deals the logs out                          broadcast
//!   each rank    reads its logs: what is open                to the first rank, merged on the way
//!   first rank   what is open for any rank                   broadcast
//!   each rank    reads its logs again: what they say of it   to the first rank, merged on the way
//! ```
//!
//! The first rank keeps what it got. When ranks die again, it takes the place of the logs of all views before the last one, so the ranks read only the logs
//! of that view.

use std::path::Path;

use atta_entry::Code as _;
use atta_ledger::{Extent, Fold, Key, LogName, Open, PartRead, Record, Selected, SomeLogs};
use atta_ops::resume::{EarlierLog, JobPlace, LoggedJob};
use atta_ops::walk::SliceResults;
use atta_runtime::{RankError, Session};

use super::job::Job;
use super::logged::RunOfJob;
use super::read_before::ReadBefore;

/// Bytes of a message, at most: MPI takes twice as many.
const MESSAGE_MOST: usize = 1 << 30;
/// Bytes of an open directory in memory.
const OPEN_BYTES: usize = 40;
/// What is kept for the next view takes at most one of so many parts of the memory.
const KEPT_PART: usize = 8;
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

    fn has_room(self, open: &Open) -> bool {
        open.count().saturating_mul(OPEN_BYTES) <= self.most()
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
        atta_ledger::cuts(logs.iter().copied(), &self.counted)
    }
}

fn read_before<R: SliceResults>(read: &ReadBefore) -> FromAll<R> {
    FromAll::decode_all(&read.bytes()).unwrap_or_default()
}

/// Keeps it for the next view, or nothing if it has too many bytes: it stays in memory until ranks die again.
fn keep<R: SliceResults>(read: &ReadBefore, found: &FromAll<R>, reading: Reading) {
    let has_room = found.bytes() <= reading.memory() / KEPT_PART;
    read.set(if has_room { found.encoded() } else { Vec::new() });
}

/// What a rank is to do.
enum Part<R> {
    /// The first rank has dealt the logs out.
    First(Begun<R>),
    /// The first rank must read all logs itself.
    FirstAlone,
    Other,
}

/// What the first rank begins with.
struct Begun<R> {
    /// The logs of each rank.
    dealt: Dealt,
    /// What it has read before.
    before: FromAll<R>,
}

impl<R: SliceResults> Begun<R> {
    /// None: it must read all logs.
    fn of(logged: &LoggedJob, ranks: usize, before: FromAll<R>) -> Option<Self> {
        let extents = logged.extents().ok()??;
        let (before, extents) = match atta_ledger::unread(&extents, &before.counted) {
            Some(rest) => (before, rest),
            None => (FromAll::default(), extents),
        };
        let dealt = logged.deal(extents, ranks, before.bytes() as u64).ok()?;
        Some(Self { dealt, before })
    }
}

/// On the first rank: what the logs of this job say. None: it must read them itself.
pub(crate) fn first<R: SliceResults>(
    job: &Job,
    reading: Reading,
    session: &mut Session<'_>,
) -> Result<Option<FromAll<R>>, RankError> {
    let (of_job, kept) = (RunOfJob::of(job), job.deaths.read_before());
    if !of_job.is_read_together() {
        return Ok(None);
    }
    let ranks = session.seat().ranks as usize;
    let begun = session.beside(|| Begun::of(job.running.begin().ok()?, ranks, read_before(kept)))?;
    let part = begun.map_or(Part::FirstAlone, Part::First);
    let found = take_part((job.running.place().path(), of_job), reading, (part, session))?;
    if let Some(found) = &found {
        keep(kept, found, reading);
    }
    Ok(found)
}

/// The part of any other rank. `path`: the directory of the job.
pub(crate) fn other<R: SliceResults>(
    of_job: (&Path, RunOfJob),
    reading: Reading,
    session: &mut Session<'_>,
) -> Result<(), RankError> {
    if of_job.1.is_read_together() {
        take_part::<R>(of_job, reading, (Part::Other, session))?;
    }
    Ok(())
}

/// The logs of each rank.
type Dealt = Vec<Vec<Extent>>;

fn take_part<R: SliceResults>(
    (path, of_job): (&Path, RunOfJob),
    reading: Reading,
    (part, session): (Part<R>, &mut Session<'_>),
) -> Result<Option<FromAll<R>>, RankError> {
    let (dealt, before) = match part {
        Part::First(Begun { dealt, before }) => (Some(Some(dealt)), before),
        Part::FirstAlone => (Some(None), FromAll::default()),
        Part::Other => (None, FromAll::default()),
    };
    let Some(dealt) = session.broadcast(dealt)? else { return Ok(None) };
    let rank = session.seat().rank as usize;
    let share = Share {
        job: LoggedJob::peek(&JobPlace::from(path)).ok().filter(|job| job.number() == of_job.number()),
        extents: dealt.get(rank).map(Vec::as_slice).unwrap_or_default(),
        reading,
    };
    let read = session.beside(|| share.read(Key::of_job(&of_job.number()), before))?;
    let (read, own) = read.unzip();
    let mut open = session.reduce(own, |open, other| {
        merge(open, other, Open::merge);
        open.take_if(|open| !reading.has_room(open));
    })?;
    if let Some(Some(open)) = &mut open {
        open.settle();
    }
    let Some(open) = session.broadcast(open)? else { return Ok(None) };
    let found = session.beside(|| share.select(read?, &open))?;
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
struct ReadOnce<'d, R> {
    part: PartRead,
    logs: SomeLogs<'d, EarlierLog<'d>>,
    /// The results of what was read before, and how much of each log counted.
    before: FromAll<R>,
}

impl Share<'_> {
    /// `before`: what this rank has read before.
    fn read<R: SliceResults>(&self, key: Key, mut before: FromAll<R>) -> Option<(ReadOnce<'_, R>, Open)> {
        let fold = Fold { key, closes: self.reading.closes, memory: self.reading.memory() };
        let job = self.job.as_ref()?;
        let mut logs = job.some(self.extents).after(std::mem::take(&mut before.selected));
        let mut part = PartRead::read(&fold, &mut logs).ok()??;
        for (log, _) in logs.counted().filter(|(_, bytes)| *bytes > 0) {
            job.sync(log).ok()?;
        }
        let open = part.take_open();
        self.reading.has_room(&open).then_some((ReadOnce { part, logs, before }, open))
    }

    fn select<R: SliceResults>(&self, read: ReadOnce<'_, R>, open: &Open) -> Option<FromAll<R>> {
        let ReadOnce { part, mut logs, before: mut found } = read;
        let (mut are_valid, mut grown, most) = (true, 0_usize, self.reading.most());
        let selected = part.select((&mut logs, open), most, &mut |bytes| {
            grown += bytes.len().saturating_sub(COUNTS_BYTES);
            match R::decode_all(bytes).filter(|_| grown <= most) {
                Some(more) => found.results.add(&more),
                None => are_valid = false,
            }
        });
        found.selected = selected.ok()??;
        found.result_bytes = found.results.encoded().len();
        found.counted.extend(logs.counted());
        (are_valid && found.bytes() <= most).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use atta_entry::Code as _;
    use atta_fabric::in_process;
    use atta_ledger::{At, Fact, Frame, Left, Logs, Records, frame};
    use atta_ops::resume::Request;
    use atta_runtime::{Limits, Stop};
    use atta_testkit::scratch::Scratch;

    use super::*;

    const RANKS: usize = 3;

    /// The log of a rank of the first run: it has found directories, is done with one, and has results.
    fn log(key: &Key, rank: u32, (path, found): (&[u8], &[&[u8]])) -> Vec<u8> {
        let (mut records, at) = (Records::default(), At { root: 0, path });
        found.iter().for_each(|name| records.add_fact(at, &Fact::Found { name, mark: 0 }));
        records.add_fact(at, &Fact::Done { slice: None, seen: None });
        records.add(&Record::Results(&(1_u64 << rank).encoded()));
        let (name, head) = (LogName { run: 1, rank, part: 0 }, Frame { offset: 0, sequence: 0, synced: 0 });
        frame(key, name, head, &[records.take()]).unwrap()
    }

    /// What is left of the logs.
    fn left<L: Logs<Error: std::fmt::Debug>>(key: Key, logs: &mut L) -> BTreeSet<String> {
        let (fold, mut left) = (Fold { key, closes: false, memory: 1 << 20 }, BTreeSet::new());
        let read = fold.run(logs, &mut |found| {
            if let Left::Directory(at, item) = found {
                left.insert(format!("{} {item:?}", atta_entry::escape(at.path)));
            }
        });
        read.unwrap();
        left
    }

    /// A job with some logs.
    fn job(scratch: &Scratch) -> LoggedJob {
        let path = scratch.join("job");
        let request = Request { directory: b"/".to_vec(), arguments: vec![b"walk".to_vec()], agrees: vec![] };
        let made = LoggedJob::begin(&JobPlace::from(path.as_path()), &request).unwrap();
        let done: [(&[u8], &[&[u8]]); RANKS] = [(b"", &[b"a", b"b"]), (b"a", &[b"c"]), (b"a/c", &[])];
        for (rank, done) in (0..).zip(done) {
            std::fs::write(path.join(format!("1.{rank}")), log(&made.key(), rank, done)).unwrap();
        }
        drop(made);
        LoggedJob::resume(&JobPlace::from(path.as_path())).unwrap()
    }

    /// What the first rank gets, which has read this before. `memory_bytes`: of each rank.
    fn read(
        (job, kept): (&LoggedJob, &ReadBefore),
        paths: [&Path; RANKS],
        memory_bytes: u64,
    ) -> Option<FromAll<u64>> {
        let of_job = RunOfJob::decode_all(&(job.number(), 2_u32, None::<u32>, true).encoded()).unwrap();
        let reading = Reading { memory_bytes, closes: false };
        std::thread::scope(|scope| {
            let ranks: Vec<_> = in_process(RANKS as u32)
                .into_iter()
                .zip(paths)
                .enumerate()
                .map(|(rank, (mut endpoint, path))| {
                    let first =
                        || Begun::of(job, RANKS, read_before(kept)).map_or(Part::FirstAlone, Part::First);
                    let part = if rank == 0 { first() } else { Part::Other };
                    scope.spawn(move || {
                        let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                        let mut session = joined.unwrap().unwrap();
                        let found = take_part::<u64>((path, of_job), reading, (part, &mut session)).unwrap();
                        session.close((), |(), ()| ()).unwrap();
                        found
                    })
                })
                .collect();
            let mut found: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
            let first = found.remove(0);
            assert!(found.iter().all(Option::is_none), "only the first rank gets it");
            first
        })
    }

    #[test]
    fn first_rank_gets_what_it_would_read() {
        let scratch = Scratch::new("together").unwrap();
        let job = job(&scratch);
        let path = scratch.join("job");
        let mut found = read((&job, &ReadBefore::default()), [&path; RANKS], 1 << 20).expect("all have read");
        let mut earlier = job.earlier().unwrap();
        assert_eq!(found.results, 7);
        assert_eq!(found.cuts(job.log_names()), earlier.cuts().collect::<Vec<_>>());
        let expected = left(job.key(), &mut earlier);
        assert_eq!(expected.len(), 1, "{expected:?}");
        assert_eq!(left(job.key(), &mut found.selected), expected);
    }

    /// Nothing hangs, and the first rank knows that it must read all logs.
    #[test]
    fn rank_that_cannot_read_is_no_obstacle() {
        let scratch = Scratch::new("together-not").unwrap();
        let job = job(&scratch);
        let (path, none) = (scratch.join("job"), scratch.join("none"));
        let kept = ReadBefore::default();
        assert_eq!(read((&job, &kept), [&path, &none, &path], 1 << 20), None);
        assert_eq!(read((&job, &kept), [&path; RANKS], 16), None);
    }

    /// A later run is done with one more directory, and the older logs are damaged meanwhile, so that whoever reads them finds out.
    #[test]
    fn logs_are_not_read_twice_by_a_launch() {
        let scratch = Scratch::new("together-kept").unwrap();
        let first = job(&scratch);
        let (path, kept) = (scratch.join("job"), ReadBefore::default());
        let found = read((&first, &kept), [&path; RANKS], 1 << 20).expect("all have read");
        keep(&kept, &found, Reading { memory_bytes: 1 << 20, closes: false });
        let (mut cuts, name) = (Records::default(), LogName { run: 2, rank: 0, part: 0 });
        found.cuts(first.log_names()).iter().for_each(|cut| cuts.add(cut));
        cuts.add(&Record::Results(&8_u64.encoded()));
        let mut done = Records::default();
        done.add_fact(At { root: 0, path: b"b" }, &Fact::Done { slice: None, seen: None });
        let head = Frame { offset: 0, sequence: 0, synced: 0 };
        let newer = frame(&first.key(), name, head, &[cuts.take(), done.take()]).unwrap();
        std::fs::write(path.join("2.0"), newer).unwrap();
        drop(first);
        let second = LoggedJob::resume(&JobPlace::from(path.as_path())).unwrap();
        let mut whole = second.earlier().unwrap();
        let (expected, cuts) = (left(second.key(), &mut whole), whole.cuts().collect::<Vec<_>>());
        for rank in 0..RANKS {
            let log = path.join(format!("1.{rank}"));
            let bytes = std::fs::read(&log).unwrap().len();
            std::fs::write(&log, vec![1; bytes]).unwrap();
        }
        assert_eq!(read((&second, &ReadBefore::default()), [&path; RANKS], 1 << 20), None);
        let mut found = read((&second, &kept), [&path; RANKS], 1 << 20).expect("all have read");
        assert_eq!((found.results, found.cuts(second.log_names())), (15, cuts));
        assert_eq!(left(second.key(), &mut found.selected), expected);
    }
}
