//! Logs that several ranks read together, each its own part of them: as fast as one rank reads its part. No I/O, and no messages: what is sent is
//! encoded by the caller.
//!
//! ```text
//!   each rank    PartRead::read    its logs once: which directories are open as far as these logs say
//!   first rank   Open::settle      what is open for all ranks together
//!   each rank    PartRead::select  its logs again: all facts about these directories
//!   first rank   Fold::run         those facts, instead of the logs
//! ```
//!
//! Of a directory that is not complete, no part of the logs has all, or another part has something that belongs to it. So it is open, and so are
//! the directories above it. The first rank gets all facts about open directories that matter, from each log, so it finds what it would find in
//! the logs themselves. A directory above may have names left that are complete directories: what says that they are complete comes, too, and that they
//! were found, or else the fold may have forgotten the directory above, as a complete one, when it comes to them.
//! Failures, marks of their own, and names of slices that are done and that nobody needs stay behind.

use atta_code::{Code, encode_bytes};

use crate::fold::again::Reopened;
use crate::fold::known::{Finding, Map, Slices};
use crate::fold::walk::{Here, Read, Steps};
use crate::fold::{Fold, FrameAt, Logs};
use crate::frame::sections;
use crate::id::{Id, Key};
use crate::log::LogName;
use crate::record::{Fact, Record, Records};

/// Directories that are not complete, or above such a one, as far as some logs say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The first so many are in order, each once.
    sorted: usize,
    directories: OpenDirectories,
}

pub(super) type OpenDirectories = Vec<(Id, OpenAs)>;

/// How a directory is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenAs {
    /// The directory above; itself if it is a root.
    pub(super) above: Id,
    /// What parts of the logs say: see below.
    pub(super) flags: u8,
}

/// Bytes of a directory in a message.
const OPEN_BYTES: usize = 33;

/// There may be many: this is quicker than a list of records.
impl Code for Open {
    fn encode(&self, out: &mut Vec<u8>) {
        self.directories.len().encode(out);
        out.reserve(OPEN_BYTES * self.directories.len());
        for (id, open) in &self.directories {
            out.extend_from_slice(&id.bytes());
            out.extend_from_slice(&open.above.bytes());
            out.push(open.flags);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let count = usize::decode(bytes)?;
        let (own, rest) = bytes.split_at_checked(count.checked_mul(OPEN_BYTES)?)?;
        *bytes = rest;
        let of = |each: &[u8; OPEN_BYTES]| {
            let ([id @ .., _], above) = (each.first_chunk::<17>()?, each[16..].first_chunk()?);
            Some((Id::of_bytes(id), OpenAs { above: Id::of_bytes(above), flags: each[32] }))
        };
        let directories = own.as_chunks().0.iter().map(of).collect::<Option<_>>()?;
        Some(Self { sorted: 0, directories })
    }
}

/// It was read to its end.
pub(super) const READ: u8 = 1;
/// It has a slice that one of the parts does not know to be done.
pub(super) const SLICES_LEFT: u8 = 2;
/// One of the parts has all of it. Otherwise a part has something of it, or knows only that it is there.
pub(super) const COMPLETE: u8 = 4;
/// One of the parts has something of it, but not all.
pub(super) const PARTIAL: u8 = 8;

impl Open {
    /// Adds those of other logs.
    pub fn merge(&mut self, other: Self) {
        self.directories.extend(other.directories);
        if self.directories.len() > 2 * self.sorted {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.directories.sort_by_key(|(id, _)| *id);
        self.directories.dedup_by(|later, before| {
            let is_same = later.0 == before.0;
            before.1.flags |= if is_same { later.1.flags } else { 0 };
            is_same
        });
        self.sorted = self.directories.len();
    }

    /// Leaves out what is complete: what one part has all of, and no other part something. Those above what is left stay, and roots.
    pub fn settle(&mut self) {
        self.sort();
        let place_of = |id: &Id| self.directories.binary_search_by_key(id, |(id, _)| *id).ok();
        let mut stay = vec![false; self.directories.len()];
        for (place, (id, open)) in self.directories.iter().enumerate() {
            let is_complete = open.flags & (COMPLETE | PARTIAL) == COMPLETE;
            let mut next = Some(place).filter(|_| !is_complete || open.above == *id);
            while let Some(place) = next.filter(|place| !stay[*place]) {
                stay[place] = true;
                next = place_of(&self.directories[place].1.above);
            }
        }
        let mut stay = stay.into_iter();
        self.directories.retain(|_| stay.next().unwrap_or(true));
        self.sorted = self.directories.len();
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.directories.len()
    }
}

/// A part of the logs that was read once.
pub struct PartRead {
    key: Key,
    open: Open,
    slices: Map<Slices>,
}

impl PartRead {
    /// Reads logs. None: it takes more memory than the fold may have, or frames are void; then all logs are to be read at once.
    ///
    /// # Errors
    /// A log cannot be read, or is not valid.
    pub fn read<L: Logs>(fold: &Fold, logs: &mut L) -> Result<Option<Self>, L::Error> {
        if logs.has_voids() {
            return Ok(None);
        }
        let reopened = Reopened::default();
        let mut finding = Finding::new((fold, &reopened), (0, 1));
        finding.read(logs)?;
        let Some((directories, slices)) = finding.into_open() else { return Ok(None) };
        let mut open = Open { sorted: 0, directories };
        open.sort();
        Ok(Some(Self { key: fold.key, open, slices }))
    }

    /// Takes what is open for these logs.
    pub fn take_open(&mut self) -> Open {
        std::mem::take(&mut self.open)
    }

    /// Reads the same logs again: returns all that they say of these directories, and all parts of catalogs. `results` gets the results of slices that are
    /// done. None: it has more than `most` bytes.
    ///
    /// # Errors
    /// A log cannot be read, or is not valid.
    pub fn select<L: Logs>(
        &self,
        (logs, open): (&mut L, &Open),
        most: usize,
        results: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Selected>, L::Error> {
        let mut selecting = Selecting {
            open: open.directories.iter().map(|(id, open)| (*id, open.flags)).collect(),
            slices: &self.slices,
            selected: Selected::default(),
            records: Records::default(),
            most,
        };
        let mut steps = Steps::new(&self.key);
        logs.each(&mut |at, frame| {
            selecting.begin(at.log);
            sections(frame, &mut |section| {
                steps.read(section, &mut |read| match read {
                    Read::Fact(here, fact) => selecting.note(&here, fact),
                    Read::Other(Record::Results(bytes)) => results(bytes),
                    Read::Other(record @ Record::Part(_)) => selecting.add(|records| records.add(record)),
                    Read::Other(_) => {}
                })
            })
        })?;
        Ok(selecting.end())
    }
}

struct Selecting<'s> {
    open: Map<u8>,
    slices: &'s Map<Slices>,
    selected: Selected,
    /// Those of the log that is read.
    records: Records,
    most: usize,
}

impl Selecting<'_> {
    fn begin(&mut self, log: LogName) {
        if self.selected.logs.last().is_none_or(|(last, _)| *last != log) {
            self.end_log();
            self.selected.logs.push((log, Vec::new()));
        }
    }

    fn end_log(&mut self) {
        if let Some((_, section)) = self.selected.logs.last_mut() {
            *section = self.records.take();
        }
    }

    fn add_if(&mut self, is_selected: bool, add: impl FnOnce(&mut Records)) {
        if is_selected {
            self.add(add);
        }
    }

    fn add(&mut self, add: impl FnOnce(&mut Records)) {
        if self.selected.bytes <= self.most {
            let before = self.records.bytes();
            add(&mut self.records);
            self.selected.bytes += self.records.bytes() - before;
        }
    }

    fn note(&mut self, here: &Here<'_>, fact: &Fact<'_>) {
        let id = here.id();
        let Some(flags) = self.open.get(&id) else { return self.note_complete(here, fact) };
        let is_selected = match fact {
            Fact::Found { name, .. } if !self.open.contains_key(&here.named(name)) => {
                let found = Fact::Found { name, mark: 0 };
                return self.add_if(may_be_met(*flags), |records| records.add_fact(here.at, &found));
            }
            // Its names are of use only to whoever reads the directory again, or does the slice again. That it is there counts.
            Fact::Listed { slice, .. } if flags & READ != 0 && self.is_done(id, slice) => {
                let unnamed = Fact::Listed { slice: *slice, names: Vec::new() };
                return self.add(|records| records.add_fact(here.at, &unnamed));
            }
            Fact::Failed { .. } | Fact::Mended { .. } | Fact::Marked { .. } => false,
            _ => true,
        };
        self.add_if(is_selected, |records| records.add_fact(here.at, fact));
    }

    /// A directory that is complete may be met again if the directory above is not done.
    fn note_complete(&mut self, here: &Here<'_>, fact: &Fact<'_>) {
        let of_above = here.above().and_then(|above| self.open.get(&above));
        if of_above.is_some_and(|flags| may_be_met(*flags))
            && matches!(fact, Fact::Done { slice: None, .. } | Fact::Closed)
        {
            self.add(|records| records.add_fact(here.at, fact));
        }
    }

    fn is_done(&self, id: Id, slice: &crate::SliceNumber) -> bool {
        self.slices.get(&id).is_some_and(|slices| slices.is_done(slice))
    }

    fn end(mut self) -> Option<Selected> {
        self.end_log();
        (self.selected.bytes <= self.most).then_some(self.selected)
    }
}

/// Whether names of a directory may be met again.
fn may_be_met(flags: u8) -> bool {
    flags & (READ | SLICES_LEFT) != READ
}

/// What logs say of open directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// One section of each log.
    logs: Vec<(LogName, Vec<u8>)>,
    bytes: usize,
}

impl Code for Selected {
    fn encode(&self, out: &mut Vec<u8>) {
        self.logs.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let logs: Vec<(LogName, Vec<u8>)> = Code::decode(bytes)?;
        let bytes = logs.iter().map(|(_, section)| section.len()).sum();
        Some(Self { logs, bytes })
    }
}

impl Selected {
    /// Adds what other logs say.
    pub fn merge(&mut self, other: Self) {
        self.logs.extend(other.logs);
        self.bytes += other.bytes;
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Logs for Selected {
    /// The log that has something that is not valid.
    type Error = LogName;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), LogName> {
        self.logs.sort_by_key(|(log, _)| *log);
        let mut frame = Vec::new();
        for (log, section) in self.logs.iter().filter(|(_, section)| !section.is_empty()) {
            frame.clear();
            encode_bytes(section, &mut frame);
            if !each(FrameAt { log: *log, offset: 0, voided_by: None }, &frame) {
                return Err(*log);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::fold::Left;
    use crate::frame::{Frame, frame};
    use crate::record::At;
    use crate::{JobLogs, SliceNumber, SomeLogs, extents};

    const PATHS: [&[u8]; 7] = [b"", b"a", b"b", b"a/a", b"a/b", b"a/b/a", b"b/a"];

    /// A fact, by numbers.
    fn fact(kind: u8, number: u8) -> Fact<'static> {
        let names: &[&'static [u8]] = if number > 1 { &[b"x", b"y"] } else { &[b"x"] };
        let slice = SliceNumber { run: 1, rank: 0, number: u64::from(number) };
        match kind {
            0 | 1 => Fact::Found { name: if number > 1 { b"a" } else { b"b" }, mark: u32::from(number) },
            2 => Fact::Listed { slice, names: names.to_vec() },
            3 => Fact::Done { slice: Some(slice), seen: None },
            4 | 5 => Fact::Done { slice: None, seen: None },
            6 | 7 => Fact::Closed,
            8 => Fact::Planned { name: names[0], plan: b"plan" },
            9 => Fact::Chunk { name: names[0], index: u64::from(number), value: b"" },
            _ => Fact::Failed { name: names[0], row: b"row" },
        }
    }

    type Facts = Vec<(usize, u8, u8)>;

    /// Logs, by run and rank, each with one frame.
    fn logs() -> impl Strategy<Value = BTreeMap<(u32, u32), Facts>> {
        let facts = vec((0..PATHS.len(), 0..11_u8, 0..4_u8), 0..12);
        proptest::collection::btree_map((1..4_u32, 0..4_u32), facts, 1..8)
    }

    /// The logs, as they are on storage. The first of each run has the cuts of older ones. Directories are closed when they were read.
    fn on_storage(key: &Key, logs: &BTreeMap<(u32, u32), Facts>, closes: bool) -> Vec<(LogName, Vec<u8>)> {
        let mut were_read = BTreeSet::new();
        let mut all: Vec<(LogName, Vec<u8>)> = Vec::new();
        for (&(run, rank), facts) in logs {
            let (name, mut records) = (LogName { run, rank, part: 0 }, Records::default());
            let is_first = all.last().is_none_or(|(last, _)| last.run < run);
            for (log, bytes) in all.iter().filter(|_| is_first) {
                records.add(&Record::Cut { log: *log, bytes: bytes.len() as u64 });
            }
            records.add(&Record::Results(&[rank as u8]));
            for (path, kind, number) in facts {
                let fact = fact(*kind, *number);
                were_read.extend((fact == Fact::Done { slice: None, seen: None }).then_some(*path));
                if fact != Fact::Closed || closes && were_read.contains(path) {
                    records.add_fact(At { root: 0, path: PATHS[*path] }, &fact);
                }
            }
            let head = Frame { offset: 0, sequence: 0, synced: 0 };
            all.push((name, frame(key, name, head, &[records.take()]).unwrap()));
        }
        all
    }

    /// What is left to do.
    fn left_of<L: Logs<Error: std::fmt::Debug>>(fold: &Fold, logs: &mut L) -> BTreeSet<String> {
        let mut left = BTreeSet::new();
        fold.run(logs, &mut |found| match found {
            Left::Directory(..) | Left::Slice(..) | Left::Given(..) | Left::Complete(_) => {
                left.insert(format!("{found:?}"));
            }
            Left::Planned(..) | Left::Chunk(..) => {
                left.insert(format!("{found:?}"));
            }
            _ => {}
        })
        .unwrap();
        left
    }

    /// What three ranks find in these logs, each in those that it owns, and how many results; the first rank may have other memory.
    fn found_together(
        fold: &Fold,
        first: &Fold,
        logs: &[(LogName, Vec<u8>)],
        owners: &[usize],
    ) -> (BTreeSet<String>, usize) {
        let mut parts: [Vec<_>; 3] = Default::default();
        let bytes = logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        for (extent, owner) in extents(&fold.key, bytes).unwrap().unwrap().into_iter().zip(owners) {
            let (_, bytes) = logs.iter().find(|(name, _)| *name == extent.log).unwrap();
            parts[*owner].push((extent, bytes.as_slice()));
        }
        let mut open = Open::default();
        let read = parts.map(|part| {
            let mut logs = SomeLogs::new(&fold.key, part);
            let mut read = PartRead::read(fold, &mut logs).unwrap().unwrap();
            open.merge(read.take_open());
            (logs, read)
        });
        open.settle();
        let (mut selected, mut results) = (Selected::default(), 0);
        for (mut logs, read) in read {
            let more = read.select((&mut logs, &open), 1 << 20, &mut |_| results += 1).unwrap();
            selected.merge(more.unwrap());
        }
        (left_of(first, &mut selected), results)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        #[test]
        fn several_ranks_find_what_one_finds(logs in logs(), owners in vec(0..3_usize, 12), closes: bool) {
            let key = Key::of_job(&[5; 16]);
            let logs = on_storage(&key, &logs, closes);
            let bytes = || logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
            let fold = Fold { key, closes, memory: 1 << 20 };
            let expected = left_of(&fold, &mut JobLogs::find(&key, bytes()).unwrap());
            let (left, results) = found_together(&fold, &fold, &logs, &owners);
            prop_assert_eq!(results, logs.len());
            prop_assert_eq!(left, expected);
        }
    }

    /// `a` has a slice that another rank has done, so one part knows that it is read and the other one the rest. When the first rank has read both, it
    /// forgets the directory. Then it comes to a complete directory in it.
    #[test]
    fn forgotten_directory_stays_complete() {
        let key = Key::of_job(&[5; 16]);
        let (found, read) = (|number| (1, number), (4, 0));
        let (listed, slice_done) = (|number| (2, number), |number| (3, number));
        let on = |path: &[u8], fact: (u8, u8)| {
            (PATHS.iter().position(|known| *known == path).unwrap(), fact.0, fact.1)
        };
        let readers =
            vec![on(b"", found(2)), on(b"", read), on(b"a", found(0)), on(b"a", listed(1)), on(b"a", read)];
        let takers =
            [1, 2].into_iter().flat_map(|slice| [on(b"a", listed(slice)), on(b"a", slice_done(slice))]);
        let takers = takers.collect();
        let others = vec![on(b"a/b", read)];
        let logs = BTreeMap::from([((1, 0), readers), ((1, 1), takers), ((1, 2), others)]);
        let logs = on_storage(&key, &logs, false);
        // It looks for what it can forget when it holds more than a fourth: the second log makes that much.
        let small = Fold { key, closes: false, memory: 2400 };
        let bytes = || logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        let expected = left_of(&small, &mut JobLogs::find(&key, bytes()).unwrap());
        assert_eq!(found_together(&Fold { memory: 1 << 20, ..small }, &small, &logs, &[0, 1, 1]).0, expected);
        assert!(expected.iter().all(|left| left.starts_with("Complete")), "{expected:?}");
    }

    #[test]
    fn what_takes_too_much_memory_is_not_selected() {
        let key = Key::of_job(&[5; 16]);
        let facts = || (0..40).map(|_| (1, 8, 1)).collect();
        let logs = on_storage(&key, &BTreeMap::from([((1, 0), facts()), ((1, 1), facts())]), true);
        let with_extent =
            |(log, bytes): &'_ (LogName, Vec<u8>)| (crate::Extent { log: *log, until: None }, bytes.clone());
        let logs: Vec<_> = logs.iter().map(with_extent).collect();
        let logs = logs.iter().map(|(extent, bytes)| (*extent, bytes.as_slice())).collect();
        let mut logs = SomeLogs::new(&key, logs);
        let fold = Fold { key, closes: true, memory: 1 << 20 };
        let mut read = PartRead::read(&fold, &mut logs).unwrap().unwrap();
        let open = read.take_open();
        assert_eq!(open.count(), 2);
        let mut select = |most| read.select((&mut logs, &open), most, &mut |_| {}).unwrap();
        let whole = select(1 << 20).unwrap();
        assert!(select(whole.bytes()).is_some() && select(whole.bytes() - 1).is_none());
    }
}
