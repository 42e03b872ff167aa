//! Logs that several ranks read together, each some of them. It sends no messages: all ranks are in one process.

use std::collections::BTreeMap;

use atta_engine::Random;
use atta_ledger::{Extent, Fold, LogName, PartRead, Selected, SomeLogs, deal, extents, unread};

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

/// What the first rank got in an earlier view, which takes the place of older logs.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    pub(super) selected: Selected,
    /// How much of each log counted.
    pub(super) counted: Vec<(LogName, u64)>,
    /// The results in these logs.
    pub(super) results: Vec<u8>,
}

/// The logs of each rank, and what the first one has read before.
pub(super) struct Dealt<'l> {
    logs: Vec<Vec<(Extent, &'l [u8])>>,
    before: Before,
}

/// Deals logs out, each to any of so many ranks. None: they must be read at once.
///
/// # Errors
/// A log is refused.
pub(super) fn deal_at_random<'l>(
    fold: &Fold,
    (logs, before): (&'l BTreeMap<LogName, Log>, Before),
    (ranks, random): (usize, &mut Random),
) -> Result<Option<Dealt<'l>>, String> {
    let mut dealt = vec![Vec::new(); ranks];
    let Some((extents, before)) = extents_of(fold, logs, before)? else { return Ok(None) };
    for extent in extents {
        let rank = random.below(ranks as u64) as usize;
        dealt[rank].push((extent, logs[&extent.log].bytes.as_slice()));
    }
    Ok(Some(Dealt { logs: dealt, before }))
}

/// The same, about as many bytes to each, as the program does it.
pub(super) fn deal_by_size<'l>(
    fold: &Fold,
    (logs, before): (&'l BTreeMap<LogName, Log>, Before),
    ranks: usize,
) -> Result<Option<Dealt<'l>>, String> {
    let Some((extents, before)) = extents_of(fold, logs, before)? else { return Ok(None) };
    let bytes = |extent: &Extent| logs[&extent.log].bytes.as_slice();
    let sized = extents.into_iter().map(|extent| (bytes(&extent).len() as u64, extent)).collect();
    let with_bytes = |share: Vec<Extent>| share.into_iter().map(|extent| (extent, bytes(&extent))).collect();
    let logs = deal(sized, ranks, before.selected.bytes() as u64).into_iter().map(with_bytes).collect();
    Ok(Some(Dealt { logs, before }))
}

/// The logs that are to be read, and what was read before, if it can be used.
fn extents_of(
    fold: &Fold,
    logs: &BTreeMap<LogName, Log>,
    before: Before,
) -> Result<Option<(Vec<Extent>, Before)>, String> {
    let all = logs.iter().map(|(name, log)| (*name, log.bytes.as_slice())).collect();
    let found = extents(&fold.key, all).map_err(|refused| format!("{refused:?}"))?;
    Ok(found.map(|extents| match unread(&extents, &before.counted) {
        Some(rest) => (rest, before),
        None => (extents, Before::default()),
    }))
}

/// What ranks find in the logs dealt to them, for the first one, and what each has read. None: one of them has too much, so that one rank reads all logs.
///
/// # Errors
/// A log is refused.
pub(super) fn select(fold: &Fold, dealt: Dealt<'_>) -> Result<Option<(Before, Together)>, String> {
    let mut together = Together::default();
    let (mut read, mut open) = (Vec::new(), None);
    let Dealt { logs, before: mut found } = dealt;
    for part in logs {
        let before = std::mem::take(&mut found.selected);
        together.logs += part.len();
        let bytes: usize = part.iter().map(|(_, bytes)| bytes.len()).sum();
        together.read.push((bytes + before.bytes()) as u64);
        let mut logs = SomeLogs::new(&fold.key, part).after(before);
        let once = PartRead::read(fold, &mut logs).map_err(|refused| format!("{refused:?}"))?;
        let Some(mut once) = once else { return Ok(None) };
        let own = once.take_open();
        together.open.push(own.count() as u64);
        match &mut open {
            None => open = Some(own),
            Some(open) => open.merge(own),
        }
        read.push((logs, once));
    }
    let mut open = open.unwrap_or_default();
    open.settle();
    together.open_of_all = open.count();
    for (mut logs, once) in read {
        found.counted.extend(logs.counted());
        let results = &mut |bytes: &[u8]| found.results.extend_from_slice(bytes);
        let more = once.select((&mut logs, &open), usize::MAX, results);
        let more = more.map_err(|refused| format!("{refused:?}"))?.ok_or("more than there is")?;
        together.selected.push(more.bytes() as u64);
        found.selected.merge(more);
    }
    together.selected_of_all = found.selected.bytes();
    Ok(Some((found, together)))
}
