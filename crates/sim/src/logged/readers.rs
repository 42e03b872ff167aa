//! Logs that several ranks read together, each some of them. It sends no messages: all ranks are in one process.

use std::collections::BTreeMap;

use atta_engine::Random;
use atta_ledger::{Extent, Fold, LogName, PartRead, Selected, SomeLogs, deal, extents};

use super::Log;

/// What each rank has read and found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together {
    /// How many logs there are.
    pub(crate) logs: usize,
    /// Bytes of the logs of each rank.
    pub(crate) read: Vec<u64>,
    /// Directories that are open for each rank.
    pub(crate) open: Vec<u64>,
    pub(crate) open_of_all: usize,
    /// Bytes that each rank has selected.
    pub(crate) selected: Vec<u64>,
    pub(crate) selected_of_all: usize,
}

/// The logs of each rank.
pub(super) type Dealt<'l> = Vec<Vec<(Extent, &'l [u8])>>;

/// Deals logs out, each to any of so many ranks. None: they must be read at once.
///
/// # Errors
/// A log is refused.
pub(super) fn deal_at_random<'l>(
    fold: &Fold,
    logs: &'l BTreeMap<LogName, Log>,
    (ranks, random): (usize, &mut Random),
) -> Result<Option<Dealt<'l>>, String> {
    let mut dealt: Dealt<'l> = vec![Vec::new(); ranks];
    let Some(extents) = extents_of(fold, logs)? else { return Ok(None) };
    for extent in extents {
        let rank = random.below(ranks as u64) as usize;
        dealt[rank].push((extent, logs[&extent.log].bytes.as_slice()));
    }
    Ok(Some(dealt))
}

/// The same, about as many bytes to each, as the program does it.
pub(super) fn deal_by_size<'l>(
    fold: &Fold,
    logs: &'l BTreeMap<LogName, Log>,
    ranks: usize,
) -> Result<Option<Dealt<'l>>, String> {
    let Some(extents) = extents_of(fold, logs)? else { return Ok(None) };
    let bytes = |extent: &Extent| logs[&extent.log].bytes.as_slice();
    let sized = extents.into_iter().map(|extent| (bytes(&extent).len() as u64, extent)).collect();
    let with_bytes = |share: Vec<Extent>| share.into_iter().map(|extent| (extent, bytes(&extent))).collect();
    Ok(Some(deal(sized, ranks, 0).into_iter().map(with_bytes).collect()))
}

fn extents_of(fold: &Fold, logs: &BTreeMap<LogName, Log>) -> Result<Option<Vec<Extent>>, String> {
    let all = logs.iter().map(|(name, log)| (*name, log.bytes.as_slice())).collect();
    extents(&fold.key, all).map_err(|refused| format!("{refused:?}"))
}

/// What all ranks have found: what the first one gets, how much of each log counts, and what each has read.
pub(super) type Found = (Selected, Vec<(LogName, u64)>, Together);

/// What ranks find in the logs dealt to them; `results` gets results. None: one of them has too much, so that one rank reads all logs.
///
/// # Errors
/// A log is refused.
pub(super) fn select(
    fold: &Fold,
    dealt: Dealt<'_>,
    results: &mut dyn FnMut(&[u8]),
) -> Result<Option<Found>, String> {
    let mut together = Together::default();
    let (mut read, mut open) = (Vec::new(), None);
    for part in dealt {
        together.logs += part.len();
        together.read.push(part.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        let mut logs = SomeLogs::new(&fold.key, part);
        let found = PartRead::read(fold, &mut logs).map_err(|refused| format!("{refused:?}"))?;
        let Some(mut found) = found else { return Ok(None) };
        let own = found.take_open();
        together.open.push(own.count() as u64);
        match &mut open {
            None => open = Some(own),
            Some(open) => open.merge(own),
        }
        read.push((logs, found));
    }
    let (mut open, mut selected, mut counted) = (open.unwrap_or_default(), Selected::default(), Vec::new());
    open.settle();
    together.open_of_all = open.count();
    for (mut logs, found) in read {
        counted.extend(logs.counted());
        let more = found.select((&mut logs, &open), usize::MAX, results);
        let more = more.map_err(|refused| format!("{refused:?}"))?.ok_or("more than there is")?;
        together.selected.push(more.bytes() as u64);
        selected.merge(more);
    }
    together.selected_of_all = selected.bytes();
    Ok(Some((selected, counted, together)))
}
