//! A job of three items, as its logs know it: tasks, what they note, and what logs say is left. The tree: item 0 stands in the first directory, item 1 is a slice
//! of that, item 2 stands in a directory in it. It has no ranks.

use std::collections::BTreeSet;
use std::rc::Rc;

use atta_ledger::{
    At, Fact, Fold, Frame, Id, JobLogs, Key, Left, LogName, Open, PartRead, Record, Records, Selected,
    SliceNumber, SomeLogs, cuts, deal, extents, frame,
};

/// The names of the tree.
const SLICE_NAME: &[u8] = b"1";
const BELOW: &[u8] = b"d";
/// Memory that a fold may use.
const MEMORY: usize = 1 << 20;
/// How many items there are.
pub(crate) const ITEMS: u8 = 3;

/// The logs of a process, by name.
pub(crate) type Disk = std::collections::BTreeMap<LogName, Rc<Vec<u8>>>;

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// The first directory. Its slice is not cut again if the logs have it, and the directory in it is not found again.
    First {
        has_slice: bool,
        has_below: bool,
    },
    /// The directory in it.
    Below,
    Slice(SliceNumber),
}

/// What a process has noted and not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Note {
    Found,
    Listed(SliceNumber),
    Done(Option<SliceNumber>),
    DoneBelow,
    Result(u8),
}

fn add(records: &mut Records, note: Note) {
    let (first, below) = (At { root: 0, path: b"" }, At { root: 0, path: BELOW });
    match note {
        Note::Found => records.add_fact(first, &Fact::Found { name: BELOW, mark: 0 }),
        Note::Listed(slice) => records.add_fact(first, &Fact::Listed { slice, names: vec![SLICE_NAME] }),
        Note::Done(slice) => records.add_fact(first, &Fact::Done { slice, seen: None }),
        Note::DoneBelow => records.add_fact(below, &Fact::Done { slice: None, seen: None }),
        Note::Result(item) => records.add(&Record::Results(&[item])),
    }
}

/// The frame of these notes, with what counts of older logs.
pub(crate) fn frame_of(
    key: &Key,
    name: LogName,
    (offset, sequence): (u64, u64),
    cuts: &[(LogName, u64)],
    notes: &[Note],
) -> Vec<u8> {
    let mut records = Records::default();
    cuts.iter().for_each(|(log, bytes)| records.add(&Record::Cut { log: *log, bytes: *bytes }));
    notes.iter().for_each(|note| add(&mut records, *note));
    let section = records.take();
    frame(key, name, Frame { offset, sequence, synced: 0 }, &[section]).expect("a small frame")
}

/// What logs say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// Results, in order: one that is there twice counts twice.
    pub(crate) items: Vec<u8>,
    pub(crate) tasks: Vec<Task>,
    /// What counts of the logs.
    pub(crate) cuts: Vec<(LogName, u64)>,
}

#[derive(Default)]
struct Reading {
    items: Vec<u8>,
    known: BTreeSet<Id>,
    reads: Vec<Vec<u8>>,
    has_slice: bool,
    slices: Vec<SliceNumber>,
}

impl Reading {
    fn add(&mut self, left: &Left<'_>) {
        match left {
            Left::Results(bytes) => self.items.extend(*bytes),
            Left::Directory(at, item) => {
                self.known.insert(item.id);
                self.reads.extend((!item.is_read).then(|| at.path.to_vec()));
            }
            Left::Complete(id) => drop(self.known.insert(*id)),
            Left::Given(..) => self.has_slice = true,
            Left::Slice(_, number, _) => self.slices.push(*number),
            _ => {}
        }
    }

    fn found(mut self, key: &Key, cuts: impl Iterator<Item = Record<'static>>) -> Found {
        let first = Task::First {
            has_slice: self.has_slice,
            has_below: self.known.contains(&key.below(key.root(0), BELOW)),
        };
        let is_begun = self.known.contains(&key.root(0));
        let of = |path: &Vec<u8>| if path.is_empty() { first } else { Task::Below };
        let mut tasks: Vec<Task> = self.reads.iter().map(of).collect();
        tasks.extend((!is_begun).then_some(first));
        tasks.extend(self.slices.into_iter().map(Task::Slice));
        self.items.sort_unstable();
        let cut = |record| if let Record::Cut { log, bytes } = record { Some((log, bytes)) } else { None };
        Found { items: self.items, tasks, cuts: cuts.filter_map(cut).collect() }
    }
}

fn fold(key: &Key) -> Fold {
    Fold { key: *key, closes: false, memory: MEMORY }
}

/// What one process finds in these logs. The error says why they are refused.
pub(crate) fn read_alone(key: &Key, disk: &Disk) -> Result<Found, String> {
    let logs = disk.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let mut logs = JobLogs::find(key, logs).map_err(|refused| format!("{refused:?}"))?;
    let (cuts, mut reading) = (logs.cuts().collect::<Vec<_>>(), Reading::default());
    fold(key).run(&mut logs, &mut |left| reading.add(&left)).map_err(|refused| format!("{refused:?}"))?;
    Ok(reading.found(key, cuts.into_iter()))
}

/// What processes find together, each in its own logs: the first one deals them out. None: one process must read them all.
pub(crate) fn read_together(key: &Key, disks: &[&Disk]) -> Result<Option<Found>, String> {
    let (fold, mut reading) = (fold(key), Reading::default());
    let all = disks[0].iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let Some(all) = extents(key, all).map_err(|refused| format!("{refused:?}"))? else { return Ok(None) };
    let sized = all.into_iter().map(|extent| (disks[0][&extent.log].len() as u64, extent)).collect();
    let (mut read, mut open) = (Vec::new(), Open::default());
    for (share, disk) in deal(sized, disks.len(), 0).into_iter().zip(disks) {
        let own = |log: LogName| disk.get(&log).map(|bytes| bytes.as_slice()).ok_or("a log is not there");
        let logs = share.into_iter().map(|extent| Ok((extent, own(extent.log)?)));
        let mut logs = SomeLogs::new(key, logs.collect::<Result<_, &str>>()?);
        let part = PartRead::read(&fold, &mut logs).map_err(|refused| format!("{refused:?}"))?;
        let Some(mut part) = part else { return Ok(None) };
        open.merge(part.take_open());
        read.push((logs, part));
    }
    open.settle();
    let (mut selected, mut counted) = (Selected::default(), Vec::new());
    for (mut logs, part) in read {
        let more = part.select((&mut logs, &open), MEMORY, &mut |items| reading.items.extend(items));
        selected.merge(more.map_err(|refused| format!("{refused:?}"))?.ok_or("more than there is")?);
        counted.extend(logs.counted());
    }
    fold.run(&mut selected, &mut |left| reading.add(&left)).map_err(|log| format!("invalid: {log}"))?;
    let cuts = cuts(disks[0].keys().copied(), &counted);
    Ok(Some(reading.found(key, cuts.into_iter())))
}
