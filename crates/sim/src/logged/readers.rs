//! Logs that several ranks read together, each some of them. It sends no messages: all ranks are in one process.

use std::collections::BTreeMap;

use atta_engine::Random;
use atta_ledger::{Fold, LogName, PartRead, Record, Selected, SomeLogs, extents};

use super::Log;

/// What so many ranks find in the logs; `results` gets results. None: one of them has too much, so that one rank reads all logs.
///
/// # Errors
/// A log is refused, or they find other `cuts` than one rank.
pub(super) fn select(
    (fold, cuts): (&Fold, &[Record<'static>]),
    logs: &BTreeMap<LogName, Log>,
    (ranks, random): (usize, &mut Random),
    results: &mut dyn FnMut(&[u8]),
) -> Result<Option<Selected>, String> {
    let bytes = |name: &LogName| logs[name].bytes.as_slice();
    let all = logs.keys().map(|name| (*name, bytes(name))).collect();
    let Some(extents) = extents(&fold.key, all).map_err(|refused| format!("{refused:?}"))? else {
        return Ok(None);
    };
    let mut parts: Vec<_> = (0..ranks).map(|_| Vec::new()).collect();
    for extent in extents {
        parts[random.below(ranks as u64) as usize].push((extent, bytes(&extent.log)));
    }
    let (mut read, mut open) = (Vec::new(), None);
    for part in parts {
        let mut logs = SomeLogs::new(&fold.key, part);
        let found = PartRead::read(fold, &mut logs).map_err(|refused| format!("{refused:?}"))?;
        let Some(mut found) = found else { return Ok(None) };
        match &mut open {
            None => open = Some(found.take_open()),
            Some(open) => open.merge(found.take_open()),
        }
        read.push((logs, found));
    }
    let (open, mut selected) = (open.unwrap_or_default(), Selected::default());
    let mut counted: BTreeMap<_, _> = logs.keys().map(|name| (*name, 0)).collect();
    for (mut logs, found) in read {
        counted.extend(logs.counted());
        let more = found.select((&mut logs, &open), usize::MAX, results);
        selected.merge(more.map_err(|refused| format!("{refused:?}"))?.ok_or("more than there is")?);
    }
    let found: Vec<_> = counted.into_iter().map(|(log, bytes)| Record::Cut { log, bytes }).collect();
    if found == cuts { Ok(Some(selected)) } else { Err(format!("cuts {found:?} instead of {cuts:?}")) }
}
