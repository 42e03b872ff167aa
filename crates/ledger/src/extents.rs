//! How far each log of a job is read, found out from first frames alone, and some of these logs, read by one of several ranks. No I/O of its own.
//! `cuts.rs` says what counts of logs.

use crate::cuts::{Cuts, Refused, cuts_of};
use crate::fold::{FrameAt, Logs};
use crate::id::Key;
use crate::log::{LogBytes, LogName, first_frame, read};

/// How far a log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The log.
    pub log: LogName,
    /// So many bytes of it count. None: it counts to its end.
    pub until: Option<u64>,
}

atta_code::record!(Extent { log, until });

/// How far each of these logs is read, in their order; those of which nothing counts are left out. None: some have several parts, or frames that are void, and
/// must be read at once ([`JobLogs::find`](crate::JobLogs::find)).
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
    // Of the newest run with a frame all counts, and its first frame says what counts of older ones.
    let Some((run, cuts)) = newest(key, &mut logs)? else { return Ok(Some(Vec::new())) };
    if !cuts.voids.is_empty() {
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

/// The newest run with a frame, and what its first frame says.
fn newest<L: LogBytes>(
    key: &Key,
    logs: &mut [(LogName, L)],
) -> Result<Option<(u32, Cuts)>, Refused<L::Error>> {
    let runs = logs.chunk_by_mut(|(one, _), (other, _)| one.run == other.run);
    for logs in runs.rev() {
        for (name, log) in logs {
            let first = first_frame((key, *name), log).map_err(|why| Refused { log: *name, why })?;
            if let Some(frame) = first {
                let cuts = cuts_of(&frame).ok_or(Refused::invalid(*name))?;
                return Ok(Some((name.run, cuts)));
            }
        }
    }
    Ok(None)
}

/// Some logs of a job.
#[derive(Debug)]
pub struct SomeLogs<'k, L> {
    key: &'k Key,
    logs: Vec<(Extent, L)>,
}

impl<'k, L: LogBytes> SomeLogs<'k, L> {
    /// These logs, in the order of their names.
    #[must_use]
    pub fn new(key: &'k Key, logs: Vec<(Extent, L)>) -> Self {
        Self { key, logs }
    }

    /// How much counts of each, once they were read.
    pub fn counted(&self) -> impl Iterator<Item = (LogName, u64)> + '_ {
        self.logs.iter().map(|(extent, _)| (extent.log, extent.until.unwrap_or_default()))
    }
}

impl<L: LogBytes> Logs for SomeLogs<'_, L> {
    type Error = Refused<L::Error>;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
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
