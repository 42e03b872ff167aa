//! How far each log of a job is read, found out from first frames alone; how the logs are dealt out to ranks that read them together; and the logs of one
//! of these ranks. No I/O of its own. `cuts.rs` says what counts of logs.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::cuts::{Cuts, Refused, cuts_of};
use crate::fold::{FrameAt, Logs, Selected};
use crate::id::Key;
use crate::log::{Broken, LogBytes, LogName, first_frame, read};
use crate::record::Record;

/// How far a log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The log.
    pub log: LogName,
    /// So many bytes of it count. None: it counts to its end.
    pub until: Option<u64>,
}

atta_code::record!(Extent { log, until });

/// How far each of these logs is read, in their order; those of which nothing counts are left out. None: some have several parts, frames that are void, or
/// something that does not fit; they must be read at once ([`JobLogs::find`](crate::JobLogs::find)), which also says what is wrong.
///
/// # Errors
/// A log cannot be read, or has other cuts than it must have.
pub fn extents<L: LogBytes>(
    key: &Key,
    mut logs: Vec<(LogName, L)>,
) -> Result<Option<Vec<Extent>>, Refused<L::Error>> {
    logs.sort_by_key(|(name, _)| *name);
    if logs.iter().any(|(name, _)| name.part > 0) {
        return Ok(None);
    }
    if logs.is_empty() {
        return Ok(Some(Vec::new()));
    }
    // Of the newest run with a frame all counts, and its first frame says what counts of older ones.
    let Some((run, cuts)) = newest(key, &mut logs)? else { return Ok(None) };
    let has_older = logs.first().is_some_and(|(log, _)| log.run < run);
    if !cuts.voids.is_empty() || cuts.bytes.is_empty() == has_older {
        return Ok(None);
    }
    let mut extents = Vec::new();
    for (log, _) in logs {
        let until = if log.run < run { cuts.bytes.get(&log).copied() } else { None };
        if log.run == run || until.is_some_and(|until| until > 0) {
            extents.push(Extent { log, until });
        }
    }
    // What counts must be there. Who reads all of them finds out what is wrong.
    let counted = cuts.bytes.values().filter(|bytes| **bytes > 0).count();
    let found = extents.iter().filter(|extent| extent.until.is_some()).count();
    Ok((counted == found).then_some(extents))
}

/// The newest run whose logs are not empty, and what its first frame says. None: there is none, or something else than a frame.
fn newest<L: LogBytes>(
    key: &Key,
    logs: &mut [(LogName, L)],
) -> Result<Option<(u32, Cuts)>, Refused<L::Error>> {
    let runs = logs.chunk_by_mut(|(one, _), (other, _)| one.run == other.run);
    for logs in runs.rev() {
        for (name, log) in logs {
            let refused = |why| Refused { log: *name, why };
            if let Some(frame) = first_frame((key, *name), log).map_err(refused)? {
                let cuts = cuts_of(&frame).ok_or(Refused::invalid(*name))?;
                return Ok(Some((name.run, cuts)));
            }
            let count = log.read_at(0, &mut [0]).map_err(|error| refused(Broken::Unreadable(error)))?;
            if count > 0 {
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// What is left to read, if an earlier view has read some of the logs, and this much of each counted. None: other bytes of them count now.
#[must_use]
pub fn unread(extents: &[Extent], counted: &[(LogName, u64)]) -> Option<Vec<Extent>> {
    let counted = counted.iter().copied().filter(|(_, bytes)| *bytes > 0).collect::<HashMap<_, _>>();
    // Logs of the newest run count to their ends.
    let is_older = |extent: &Extent| extent.until.is_some();
    let older = extents.iter().filter(|extent| is_older(extent)).count();
    let fits = |extent: &Extent| extent.until == counted.get(&extent.log).copied();
    if older != counted.len() || !extents.iter().all(fits) {
        return None;
    }
    Some(extents.iter().filter(|extent| !is_older(extent)).copied().collect())
}

/// Deals logs out to so many ranks, at least one: about as many bytes to each. `logs`: each with the bytes that are read of it; `held`: bytes that the
/// first rank reads beside its logs. The logs of a rank are in order.
#[must_use]
pub fn deal(mut logs: Vec<(u64, Extent)>, ranks: usize, held: u64) -> Vec<Vec<Extent>> {
    logs.sort_by_key(|(bytes, extent)| (Reverse(*bytes), extent.log));
    let mut shares = vec![(0, Vec::new()); ranks.max(1)];
    shares[0].0 = held;
    for (bytes, extent) in logs {
        if let Some((held, share)) = shares.iter_mut().min_by_key(|(held, _)| *held) {
            *held += bytes;
            share.push(extent);
        }
    }
    let in_order = |(_, mut share): (u64, Vec<Extent>)| {
        share.sort_by_key(|extent| extent.log);
        share
    };
    shares.into_iter().map(in_order).collect()
}

/// The records that the first frame of the next run has, as [`JobLogs::cuts`](crate::JobLogs::cuts) returns them. `logs`: all of the job, in order;
/// `counted`: how much counts of those that were read.
#[must_use]
pub fn cuts(logs: impl Iterator<Item = LogName>, counted: &[(LogName, u64)]) -> Vec<Record<'static>> {
    let counted: HashMap<_, _> = counted.iter().copied().collect();
    logs.map(|log| Record::Cut { log, bytes: counted.get(&log).copied().unwrap_or_default() }).collect()
}

/// Some logs of a job.
#[derive(Debug)]
pub struct SomeLogs<'k, L> {
    key: &'k Key,
    /// What an earlier view has selected of older logs.
    before: Selected,
    logs: Vec<(Extent, L)>,
}

impl<'k, L: LogBytes> SomeLogs<'k, L> {
    /// These logs, in the order of their names.
    #[must_use]
    pub fn new(key: &'k Key, logs: Vec<(Extent, L)>) -> Self {
        Self { key, before: Selected::default(), logs }
    }

    /// These after older logs, of which an earlier view has selected this.
    #[must_use]
    pub fn after(self, before: Selected) -> Self {
        Self { before, ..self }
    }

    /// How much counts of each, once they were read; without older ones.
    pub fn counted(&self) -> impl Iterator<Item = (LogName, u64)> + '_ {
        self.logs.iter().map(|(extent, _)| (extent.log, extent.until.unwrap_or_default()))
    }
}

/// What was selected before leaves facts out, but these logs do not say so: a reading of a part may forget directories, since one that is met again then only
/// counts as open.
impl<L: LogBytes> Logs for SomeLogs<'_, L> {
    type Error = Refused<L::Error>;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
        self.before.each(each).map_err(Refused::invalid)?;
        for (Extent { log: name, until }, log) in &mut self.logs {
            let with_place =
                &mut |offset, frame: &[u8]| each(FrameAt { log: *name, offset, voided_by: None }, frame);
            let contents = read((self.key, *name), log, *until, with_place);
            // What a process writes to it later does not count.
            *until = Some(contents.map_err(|why| Refused { log: *name, why })?.bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, frame};
    use crate::record::{At, Fact, Records};

    const fn name(run: u32, rank: u32) -> LogName {
        LogName { run, rank, part: 0 }
    }

    fn log(key: &Key, name: LogName, cut: Option<(LogName, u64)>) -> (LogName, Vec<u8>) {
        let mut records = Records::default();
        cut.iter().for_each(|(log, bytes)| records.add(&Record::Cut { log: *log, bytes: *bytes }));
        records.add_fact(At { root: 0, path: b"d" }, &Fact::Done { slice: None, seen: None });
        let head = Frame { offset: 0, sequence: 0, synced: 0 };
        (name, frame(key, name, head, &[records.take()]).unwrap())
    }

    fn found(key: &Key, logs: &[(LogName, Vec<u8>)]) -> Option<Vec<(LogName, Option<u64>)>> {
        let logs = logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let extents = extents(key, logs).unwrap()?;
        Some(extents.into_iter().map(|extent| (extent.log, extent.until)).collect())
    }

    #[test]
    fn logs_are_dealt_out_by_size() {
        let extent = |rank| Extent { log: name(1, rank), until: None };
        let sized = [(1, 0), (5, 1), (3, 2), (2, 3), (9, 4)].map(|(bytes, rank)| (bytes, extent(rank)));
        let ranks = |share: &Vec<Extent>| share.iter().map(|extent| extent.log.rank).collect();
        let dealt: Vec<Vec<_>> = deal(sized.to_vec(), 2, 0).iter().map(ranks).collect();
        assert_eq!(dealt, [vec![0, 4], vec![1, 2, 3]]);
        let counts = |held| deal(vec![(7, extent(0))], 3, held).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!((counts(0), counts(1)), (vec![1, 0, 0], vec![0, 1, 0]));
    }

    #[test]
    fn what_was_read_before_is_not_read_again() {
        let extent = |log, until| Extent { log, until };
        let newer = [extent(name(2, 0), None), extent(name(2, 1), None)];
        let all = [&[extent(name(1, 0), Some(9)), extent(name(1, 1), Some(5))], &newer[..]].concat();
        let before = [(name(1, 0), 9), (name(1, 1), 5), (name(1, 2), 0)];
        assert_eq!(unread(&all, &before), Some(newer.to_vec()));
        // One log was not read; one counts more than was read, or nothing, or is of the newest run.
        assert_eq!(unread(&all, &before[..1]), None);
        assert_eq!(unread(&all, &[(name(1, 0), 9), (name(1, 1), 4)]), None);
        assert_eq!(unread(&all[1..], &before), None);
        assert_eq!(unread(&all, &[&before[..], &[(name(2, 0), 7)]].concat()), None);
    }

    #[test]
    fn what_does_not_fit_is_read_at_once() {
        let key = Key::of_job(&[4; 16]);
        let older = log(&key, name(1, 0), None);
        let bytes = older.1.len() as u64;
        let (newer, other) = (log(&key, name(2, 0), Some((name(1, 0), bytes))), log(&key, name(2, 1), None));
        let all = [older.clone(), newer.clone(), other.clone()];
        let whole = vec![(name(1, 0), Some(bytes)), (name(2, 0), None), (name(2, 1), None)];
        assert_eq!(found(&key, &all), Some(whole.clone()));
        assert_eq!(found(&key, &[]), Some(vec![]));
        // A run that has written nothing.
        assert_eq!(found(&key, &[&all[..], &[(name(3, 0), vec![])]].concat()), Some(whole));
        // The log with the cuts is gone, or damaged; a newer run has something else than a frame; a log that counts is gone.
        assert_eq!(found(&key, &[older.clone(), other.clone()]), None);
        assert_eq!(found(&key, &[older, (name(2, 0), vec![1; 64]), other]), None);
        assert_eq!(found(&key, &[&all[..], &[(name(3, 0), vec![1; 64])]].concat()), None);
        assert_eq!(found(&key, &all[1..]), None);
    }
}
