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
//! the logs themselves. A directory above may have names left that are complete directories: what says that they are complete comes, too.
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
            Fact::Found { name, .. } => self.open.contains_key(&here.named(name)),
            // Its names are of use only to whoever reads the directory again, or does the slice again. That it is there counts.
            Fact::Listed { slice, .. } if flags & READ != 0 && self.is_done(id, slice) => {
                let unnamed = Fact::Listed { slice: *slice, names: Vec::new() };
                return self.add(|records| records.add_fact(here.at, &unnamed));
            }
            Fact::Failed { .. } | Fact::Mended { .. } | Fact::Marked { .. } => false,
            _ => true,
        };
        if is_selected {
            self.add(|records| records.add_fact(here.at, fact));
        }
    }

    /// A directory that is complete may be met again if the directory above is not done.
    fn note_complete(&mut self, here: &Here<'_>, fact: &Fact<'_>) {
        let of_above = here.above().and_then(|above| self.open.get(&above));
        let may_be_met = of_above.is_some_and(|flags| flags & (READ | SLICES_LEFT) != READ);
        if may_be_met && matches!(fact, Fact::Done { slice: None, .. } | Fact::Closed) {
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

    fn leave_out_facts(&self) -> bool {
        true
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
    use crate::{JobLogs, SliceNumber, SomeLogs, extents, unread};

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

    /// What an earlier view has read: what it has selected, and how much of each log counted.
    type Before = (Selected, Vec<(LogName, u64)>);

    type Stored = Vec<(LogName, Vec<u8>)>;

    /// Reads logs as three ranks do it. Returns what the first one gets, what is open, and how many results there are.
    fn read_together(
        fold: &Fold,
        (before, logs): (Before, &Stored),
        owners: &[usize],
    ) -> (Before, Open, usize) {
        let (key, of_logs) = (fold.key, logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())));
        let extents = extents(&key, of_logs.collect()).unwrap().unwrap();
        let extents = match before.1.as_slice() {
            [] => extents,
            counted => unread(&extents, counted).expect("the same bytes count"),
        };
        let mut parts: [Vec<_>; 3] = Default::default();
        for (extent, owner) in extents.into_iter().zip(owners) {
            let (_, bytes) = logs.iter().find(|(name, _)| *name == extent.log).unwrap();
            parts[*owner].push((extent, bytes.as_slice()));
        }
        let (mut selected, mut counted) = before;
        let mut open = Open::default();
        let read: Vec<_> = parts
            .into_iter()
            .map(|part| {
                // The first rank has what was selected before.
                let mut logs = SomeLogs::new(&key, part).after(std::mem::take(&mut selected));
                let mut read = PartRead::read(fold, &mut logs).unwrap().unwrap();
                open.merge(read.take_open());
                (logs, read)
            })
            .collect();
        open.settle();
        let mut results = 0;
        for (mut logs, read) in read {
            let more = read.select((&mut logs, &open), 1 << 20, &mut |_| results += 1).unwrap();
            selected.merge(more.unwrap());
            counted.extend(logs.counted());
        }
        ((selected, counted), open, results)
    }

    /// The directories that are known from facts: those that they are about, all above them, and those that were found.
    fn known<'f>(facts: impl Iterator<Item = &'f (usize, u8, u8)>) -> BTreeSet<Vec<u8>> {
        let mut known = BTreeSet::new();
        for (path, kind, number) in facts {
            let (path, fact) = (PATHS[*path], fact(*kind, *number));
            if !matches!(fact, Fact::Chunk { .. } | Fact::Closed | Fact::Failed { .. }) {
                known.extend(way(path).map(<[u8]>::to_vec));
            }
            if let Fact::Found { name, .. } = fact {
                known.insert(if path.is_empty() { name.to_vec() } else { [path, name].join(&b"/"[..]) });
            }
        }
        known
    }

    /// A directory and those above it. Names have one byte.
    fn way(path: &[u8]) -> impl Iterator<Item = &[u8]> {
        [0, 1, 3, 5].into_iter().filter_map(|end| path.get(..end))
    }

    /// Nobody works in a directory, or finds one below it, that older logs say is complete; one that is done is only closed; and chunks are copied in
    /// directories that some log knows. Leaves out other facts of this run.
    fn leave_out_complete(logs: &mut BTreeMap<(u32, u32), Facts>, run: u32, (key, open): (&Key, &Open)) {
        let older = known(logs.range(..(run, 0)).flat_map(|(_, facts)| facts));
        let open: BTreeMap<_, _> = open.directories.iter().map(|(id, open)| (*id, open.flags)).collect();
        let flags = |path: &[u8]| open.get(&key.of_path(0, path));
        for (_, facts) in logs.range_mut((run, 0)..) {
            facts.retain(|(path, kind, number)| {
                let (path, fact) = (PATHS[*path], fact(*kind, *number));
                let is_done = flags(path).is_some_and(|flags| flags & (READ | SLICES_LEFT) == READ);
                (!is_done || fact == Fact::Closed)
                    && way(path).all(|above| !older.contains(above) || flags(above).is_some())
            });
        }
        let known = known(logs.range(..(run + 1, 0)).flat_map(|(_, facts)| facts));
        for (_, facts) in logs.range_mut((run, 0)..(run + 1, 0)) {
            facts.retain(|(path, kind, number)| {
                known.contains(PATHS[*path]) || !matches!(fact(*kind, *number), Fact::Chunk { .. })
            });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        #[test]
        fn several_ranks_find_what_one_finds(logs in logs(), owners in vec(0..3_usize, 12), closes: bool) {
            let key = Key::of_job(&[5; 16]);
            let logs = on_storage(&key, &logs, closes);
            let bytes = logs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
            let fold = Fold { key, closes, memory: 1 << 20 };
            let expected = left_of(&fold, &mut JobLogs::find(&key, bytes).unwrap());
            let ((mut selected, _), _, results) = read_together(&fold, (Before::default(), &logs), &owners);
            prop_assert_eq!(results, logs.len());
            prop_assert_eq!(left_of(&fold, &mut selected), expected);
        }

        /// After each run the ranks that are left read what is new, and the first one has what it got before.
        #[test]
        fn what_was_read_before_stands_for_logs(
            mut logs in logs(),
            owners in vec(0..3_usize, 12),
            closes: bool,
        ) {
            let key = Key::of_job(&[5; 16]);
            let fold = Fold { key, closes, memory: 1 << 20 };
            let (mut before, mut open) = (Before::default(), Open::default());
            for run in 1..4 {
                leave_out_complete(&mut logs, run, (&key, &open));
                let so_far = logs.range(..(run + 1, 0)).map(|(name, facts)| (*name, facts.clone())).collect();
                let stored = on_storage(&key, &so_far, closes);
                if stored.last().is_none_or(|(log, _)| log.run < run) {
                    continue;
                }
                let bytes = stored.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
                let expected = left_of(&fold, &mut JobLogs::find(&key, bytes).unwrap());
                (before, open, _) = read_together(&fold, (before, &stored), &owners);
                prop_assert_eq!(left_of(&fold, &mut before.0), expected, "run {}", run);
            }
        }
    }

    /// That a directory below one that is done is there may be in a fact that is left out.
    #[test]
    fn selected_directories_are_not_forgotten() {
        let done = |rank, paths: &[&[u8]]| {
            let mut records = Records::default();
            for path in paths {
                records.add_fact(At { root: 0, path }, &Fact::Done { slice: None, seen: None });
            }
            (LogName { run: 1, rank, part: 0 }, records.take())
        };
        // As many that memory is short.
        let names: Vec<_> = (b'0'..=b'z').map(|name| [name]).collect();
        let many: Vec<_> =
            [&b""[..], b"a/b"].into_iter().chain(names.iter().map(<[u8; 1]>::as_slice)).collect();
        let logs = vec![done(0, &many), done(1, &[b"a/b/a"])];
        let mut selected = Selected { logs, bytes: 0 };
        let fold = Fold { key: Key::of_job(&[5; 16]), closes: false, memory: 10_000 };
        let left = left_of(&fold, &mut selected);
        assert!(left.iter().all(|left| left.starts_with("Complete")), "{left:?}");
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
