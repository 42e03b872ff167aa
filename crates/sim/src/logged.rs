//! What the ranks of a job with logs note, as the walk of `atta-ops` does it: the facts of `atta-ledger`, frames before tasks leave a rank, and what a run
//! begins with that goes on after a kill. `killed.rs` kills them. No files: a log is bytes in memory.

mod earlier;
mod paths;
mod readers;

use earlier::Earlier;
pub(crate) use paths::Paths;
use paths::{name, names};
pub(crate) use readers::Together;

use std::collections::{BTreeMap, HashMap, HashSet};

use atta_engine::Random;
use atta_ledger::{At, Fact, Fold, Frame, JobLogs, Key, Left, LogName, Record, Records, SliceNumber, frame};

use crate::setup::Setup;
use crate::task::{Kind, Task};
use crate::tree::{Node, Tree};
use crate::work::{After, Running};

/// Memory that the fold of a large job may use.
const LARGE_FOLD_BYTES: usize = 8 << 30;
/// Memory that a fold may use: some trees do not fit.
const FOLD_BYTES: [usize; 4] = [2000, 1 << 20, 1 << 20, 1 << 20];

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRule {
    /// Slices of a directory that has several are in the log with their names.
    Listed,
    /// Results stand in the frame of what they belong to.
    ResultsBesideDone,
    /// A rank that does a slice of another one notes its names, too.
    ListedByTaker,
    /// A directory that is read again leaves out names of slices.
    Given,
    /// Complete directories and such as are left are not entered again.
    Known,
    /// The first frame of a run says what counts of older logs, and is on storage before another rank writes.
    CutsFirst,
    /// A slice, or a directory, of which something failed is not noted as done.
    FailedIsNotDone,
}

impl LogRule {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Listed,
        Self::ResultsBesideDone,
        Self::ListedByTaker,
        Self::Given,
        Self::Known,
        Self::CutsFirst,
        Self::FailedIsNotDone,
    ];
}

/// When a rank writes its log, beside before tasks leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// After some of its tasks.
    Random,
    /// When so much time has passed since it did so last.
    Each(u64),
}

/// The results that a rank notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Results {
    /// One for each file, which names it.
    OfFiles,
    /// Numbers of files.
    Counts,
}

/// The log of a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    frames: u64,
    /// So many bytes are on storage.
    synced: u64,
}

impl Log {
    fn write(&mut self, key: &Key, name: LogName, sections: &[Vec<u8>]) {
        let head = Frame { offset: self.bytes.len() as u64, sequence: self.frames, synced: self.synced };
        // Too large a frame would be a defect of this model: the log stays as it is, and something is missing.
        self.bytes.extend(frame(key, name, head, sections).unwrap_or_default());
        self.frames += 1;
    }

    fn sync(&mut self) {
        self.synced = self.bytes.len() as u64;
    }

    /// What is not on storage may be lost: from any byte on, or in the middle. Space that was reserved is zero.
    pub(crate) fn lose(&mut self, random: &mut Random) {
        let from = self.synced + random.below(self.bytes.len() as u64 - self.synced + 1);
        match random.below(4) {
            0 => {}
            1 | 2 => self.bytes.truncate(from as usize),
            _ => {
                let until = from + random.below(self.bytes.len() as u64 - from + 1);
                self.bytes[from as usize..until as usize].fill(0);
            }
        }
        self.bytes.resize(self.bytes.len() + random.below(64) as usize, 0);
    }
}

/// What one rank has noted and not written.
#[derive(Debug)]
struct Noted {
    name: LogName,
    records: Records,
    results: Vec<u64>,
    /// Results for the frame after this one, if that rule is off.
    late: Vec<u64>,
    next: u64,
    /// When it was written last.
    written_ns: u64,
}

/// The logs of all ranks of a run, and what it knows of earlier runs.
#[derive(Debug)]
pub(crate) struct Journals {
    paths: Paths,
    key: Key,
    pub(crate) logs: BTreeMap<LogName, Log>,
    ranks: Vec<Noted>,
    /// The numbers of slices that wait, by directory and first file. They travel with their tasks.
    slices: HashMap<(u64, u64), SliceNumber>,
    earlier: Earlier,
    /// Files of a slice, at most.
    batch: u64,
    without: Option<LogRule>,
    random: Random,
    /// Something fails in this run.
    fails: bool,
    pace: Pace,
    results: Results,
    /// What the first frame of the next run says, if the logs were read together.
    cuts: Vec<Record<'static>>,
    /// What was read together in an earlier view, if it was.
    before: readers::Before,
}

impl Journals {
    /// The first run of a job.
    pub(crate) fn new(paths: Paths, without: Option<LogRule>, seed: u64) -> Self {
        let mut number = [0; 16];
        number[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            paths,
            key: Key::of_job(&number),
            logs: BTreeMap::new(),
            ranks: Vec::new(),
            slices: HashMap::new(),
            earlier: Earlier::default(),
            batch: 1,
            without,
            random: Random::stream(seed, 7),
            fails: false,
            pace: Pace::Random,
            results: Results::OfFiles,
            cuts: Vec::new(),
            before: readers::Before::default(),
        }
    }

    /// Ranks write their logs so often.
    pub(crate) fn writing(self, write_ns: u64) -> Self {
        Self { pace: Pace::Each(write_ns), ..self }
    }

    /// For a large job: results are numbers of files.
    pub(crate) fn counting(self) -> Self {
        Self { results: Results::Counts, ..self }
    }

    fn is_off(&self, rule: LogRule) -> bool {
        self.without == Some(rule)
    }

    /// Begins a run on so many ranks, which cut files of a directory into batches of so many. Returns the tasks that the first rank begins with.
    ///
    /// # Errors
    /// The logs are refused.
    pub(crate) fn begin(
        &mut self,
        tree: &Tree,
        run: u32,
        ranks_and_batch: (u32, u64),
    ) -> Result<Vec<Task>, String> {
        self.cuts = self.look()?;
        Ok(self.begin_next(tree, run, ranks_and_batch))
    }

    /// The same when the logs were [read together](Self::look_together).
    pub(crate) fn begin_next(&mut self, tree: &Tree, run: u32, (ranks, batch): (u32, u64)) -> Vec<Task> {
        let cuts = std::mem::take(&mut self.cuts);
        self.batch = batch.max(1);
        self.slices.clear();
        let noted = |rank| {
            let name = LogName { run, rank, part: 0 };
            let (results, late) = (Vec::new(), Vec::new());
            Noted { name, records: Records::default(), results, late, next: 0, written_ns: 0 }
        };
        self.ranks = (0..ranks).map(noted).collect();
        self.ranks.iter().for_each(|noted| drop(self.logs.insert(noted.name, Log::default())));
        cuts.iter().for_each(|cut| self.ranks[0].records.add(cut));
        if !self.is_off(LogRule::CutsFirst) {
            self.write(0);
            self.sync(0);
        }
        self.first_tasks(tree)
    }

    fn first_tasks(&mut self, tree: &Tree) -> Vec<Task> {
        let mut tasks = Vec::new();
        if !self.earlier.is_begun {
            tasks.push(Task::directory(&tree.root()));
        }
        let of = |path: &Vec<u8>| self.paths.nodes.get(path).copied();
        tasks.extend(self.earlier.reads.iter().filter_map(of).map(|node| Task::directory(&node)));
        for (path, number, files) in std::mem::take(&mut self.earlier.slices) {
            let Some(node) = self.paths.nodes.get(&path) else { continue };
            let from = files.iter().min().copied().unwrap_or_default();
            let task = Task { kind: Kind::Files, files: files.len() as u64, from, ..Task::directory(node) };
            self.slices.insert((task.seed, task.from), number);
            tasks.push(task);
        }
        tasks
    }

    /// Lets some slices and directories of this run fail, or none.
    pub(crate) fn let_fail(&mut self, fails: bool) {
        self.fails = fails;
    }

    /// Reads the logs, as one rank does it or several. Returns what counts of them.
    fn look(&mut self) -> Result<Vec<Record<'static>>, String> {
        let Self { key, logs, random, .. } = self;
        let memory = match self.pace {
            Pace::Random => FOLD_BYTES[random.below(FOLD_BYTES.len() as u64) as usize],
            Pace::Each(_) => LARGE_FOLD_BYTES,
        };
        let bytes = logs.iter().map(|(name, log)| (*name, log.bytes.as_slice())).collect();
        let mut counted = JobLogs::find(key, bytes).map_err(|refused| format!("{refused:?}"))?;
        let cuts: Vec<_> = counted.cuts().collect();
        let mut earlier = Earlier::default();
        let fold = Fold { key: *key, closes: false, memory };
        let ranks = random.below(4) as usize;
        // Now and then another rank is the first one.
        let before = if random.below(3) == 0 { readers::Before::default() } else { self.before.clone() };
        let dealt =
            if ranks == 0 { None } else { readers::deal_at_random(&fold, (logs, before), (ranks, random))? };
        let found = dealt.map_or(Ok(None), |dealt| readers::select(&fold, dealt))?;
        let each = &mut |left: Left<'_>| earlier.add(key.root(0), &left);
        match found {
            Some((before, _)) => {
                let found = atta_ledger::cuts(logs.keys().copied(), &before.counted);
                if found != cuts {
                    return Err(format!("cuts {found:?} instead of {cuts:?}"));
                }
                each(Left::Results(&before.results));
                fold.run(&mut before.selected.clone(), each).map_err(|log| format!("invalid: {log}"))?;
                self.before = before;
            }
            None => fold.run(&mut counted, each).map_err(|refused| format!("{refused:?}"))?,
        }
        self.earlier = earlier;
        Ok(cuts)
    }

    /// Reads the logs as so many ranks of the program do it, for the next run. Returns what each has read and found.
    ///
    /// # Errors
    /// The logs are refused, or what is in them takes too much memory.
    pub(crate) fn look_together(&mut self, ranks: usize) -> Result<Together, String> {
        let Self { key, logs, .. } = self;
        let fold = Fold { key: *key, closes: false, memory: LARGE_FOLD_BYTES };
        let (mut earlier, too_much) = (Earlier::default(), "too much to be read together");
        let before = std::mem::take(&mut self.before);
        let dealt = readers::deal_by_size(&fold, (logs, before), ranks)?.ok_or(too_much)?;
        let (before, together) = readers::select(&fold, dealt)?.ok_or(too_much)?;
        let each = &mut |left: Left<'_>| earlier.add(key.root(0), &left);
        each(Left::Results(&before.results));
        fold.run(&mut before.selected.clone(), each).map_err(|log| format!("invalid: {log}"))?;
        self.cuts = atta_ledger::cuts(logs.keys().copied(), &before.counted);
        self.before = before;
        self.earlier = earlier;
        Ok(together)
    }

    /// What is wrong when all is said to be done.
    pub(crate) fn verdict(&mut self) -> Option<String> {
        if let Err(wrong) = self.look() {
            return Some(wrong);
        }
        let Earlier { results, reads, slices, is_begun, .. } = &mut self.earlier;
        let is_left = !*is_begun || !reads.is_empty() || !slices.is_empty();
        if is_left {
            return Some(format!("left: {reads:?} {slices:?}"));
        }
        if self.results == Results::Counts {
            let (done, files) = (results.iter().sum::<u64>(), self.paths.files);
            return (done != files).then(|| format!("{done} results, and there are {files} files"));
        }
        results.sort_unstable();
        let all = results.len() as u64;
        results.dedup();
        if (all, results.len() as u64) != (self.paths.files, self.paths.files) {
            let (once, files) = (results.len(), self.paths.files);
            return Some(format!("{all} results of {once} files, and there are {files}"));
        }
        None
    }

    /// A task of a rank has ended: notes it. Returns its new tasks, the oldest first.
    pub(crate) fn end(
        &mut self,
        (setup, now_ns): (&Setup, u64),
        rank: u32,
        running: &Running,
    ) -> (Vec<Task>, After) {
        let task = running.task;
        let ended = match task.kind {
            Kind::Files => {
                self.end_slice(rank, &task);
                (Vec::new(), After::Done)
            }
            Kind::Directory => self.end_reading(setup, rank, running),
        };
        match self.pace {
            Pace::Each(write_ns) => {
                if now_ns >= self.ranks[rank as usize].written_ns + write_ns {
                    self.write(rank);
                    self.ranks[rank as usize].written_ns = now_ns;
                }
            }
            Pace::Random => match self.random.below(6) {
                0 | 1 => self.write(rank),
                2 => {
                    self.write(rank);
                    self.sync(rank);
                }
                _ => {}
            },
        }
        ended
    }

    fn results_of(&self, seed: u64, files: impl Iterator<Item = u64>) -> Vec<u64> {
        match self.results {
            Results::OfFiles => files.map(|file| self.paths.file(seed, file)).collect(),
            Results::Counts => vec![files.count() as u64],
        }
    }

    fn end_slice(&mut self, rank: u32, task: &Task) {
        let Some(slice) = self.slices.remove(&(task.seed, task.from)) else { return };
        let LogName { run, rank: own, .. } = self.ranks[rank as usize].name;
        if slice.run == run && slice.rank != own && !self.is_off(LogRule::ListedByTaker) {
            self.listed(rank, task, slice);
        }
        let results = self.results_of(task.seed, task.from..task.from + task.files);
        self.done(rank, task.seed, Some(slice), results);
    }

    fn end_reading(&mut self, setup: &Setup, rank: u32, running: &Running) -> (Vec<Task>, After) {
        let (tasks, own) = self.note_names(setup, rank, running);
        let Some(own) = own else {
            return (tasks, After::More(Task { from: running.upto(), ..running.task }));
        };
        self.done(rank, running.task.seed, None, own);
        (tasks, After::Done)
    }

    /// Names of a directory were read: notes them. Returns the tasks for them, and, when all was read, the results of the names that the task handles itself.
    pub(crate) fn note_names(
        &mut self,
        setup: &Setup,
        rank: u32,
        running: &Running,
    ) -> (Vec<Task>, Option<Vec<u64>>) {
        let (task, node) = (running.task, running.task.node());
        let listing = setup.tree.listing(&node);
        let upto = running.upto();
        let is_last = upto == listing.entries();
        let none = HashSet::new();
        let given = self.earlier.given.get(self.paths.path(task.seed)).unwrap_or(&none);
        let is_given = |file: &u64| !self.is_off(LogRule::Given) && given.contains(file);
        let inline = Running::directory(setup, Task { from: 0, ..task }).done.files;
        let from = task.from.max(inline);
        let files: Vec<_> = (from..upto.min(listing.files)).filter(|file| !is_given(file)).collect();
        let own = self.results_of(task.seed, (0..inline).filter(|file| !is_given(file)));
        let mut tasks = Vec::new();
        if is_last {
            self.find_directories(setup, rank, &node, &mut tasks);
        }
        for (from, files) in runs(&files, self.batch) {
            let batch = Task { kind: Kind::Files, files, from, ..task };
            let slice = self.number(rank);
            if !self.is_off(LogRule::Listed) {
                self.listed(rank, &batch, slice);
            }
            self.slices.insert((batch.seed, batch.from), slice);
            tasks.push(batch);
        }
        (tasks, is_last.then_some(own))
    }

    fn find_directories(&mut self, setup: &Setup, rank: u32, node: &Node, tasks: &mut Vec<Task>) {
        let path = self.paths.path(node.seed).to_vec();
        let (id, mut index) = (self.key.of_path(0, &path), 0);
        setup.tree.for_each_directory(node, |child| {
            let name = name(index);
            index += 1;
            let is_known = self.earlier.known.contains(&self.key.below(id, &name));
            if !is_known || self.without == Some(LogRule::Known) {
                let at = At { root: 0, path: &path };
                self.ranks[rank as usize].records.add_fact(at, &Fact::Found { name: &name, mark: 0 });
                tasks.push(Task::directory(&child));
            }
        });
    }

    fn number(&mut self, rank: u32) -> SliceNumber {
        let noted = &mut self.ranks[rank as usize];
        noted.next += 1;
        SliceNumber { run: noted.name.run, rank: noted.name.rank, number: noted.next }
    }

    fn listed(&mut self, rank: u32, batch: &Task, slice: SliceNumber) {
        let names = names(batch.from, batch.files);
        let fact = Fact::Listed { slice, names: names.iter().map(Vec::as_slice).collect() };
        let at = At { root: 0, path: self.paths.path(batch.seed) };
        self.ranks[rank as usize].records.add_fact(at, &fact);
    }

    fn done(&mut self, rank: u32, seed: u64, slice: Option<SliceNumber>, mut results: Vec<u64>) {
        if self.fails && self.random.below(6) == 0 {
            if !self.is_off(LogRule::FailedIsNotDone) {
                return;
            }
            // What failed comes to nothing.
            results.pop();
        }
        let at = At { root: 0, path: self.paths.path(seed) };
        let noted = &mut self.ranks[rank as usize];
        noted.records.add_fact(at, &Fact::Done { slice, seen: None });
        noted.results.extend(results);
    }

    /// Writes what a rank has noted: also before tasks leave it.
    pub(crate) fn write(&mut self, rank: u32) {
        let (is_late, noted) = (self.is_off(LogRule::ResultsBesideDone), &mut self.ranks[rank as usize]);
        if is_late {
            std::mem::swap(&mut noted.results, &mut noted.late);
        }
        let results: Vec<u8> =
            std::mem::take(&mut noted.results).iter().flat_map(|number| number.to_le_bytes()).collect();
        if !results.is_empty() {
            noted.records.add(&Record::Results(&results));
        }
        if let (false, Some(log)) = (noted.records.is_empty(), self.logs.get_mut(&noted.name)) {
            log.write(&self.key, noted.name, &[noted.records.take()]);
        }
    }

    fn sync(&mut self, rank: u32) {
        self.logs.get_mut(&self.ranks[rank as usize].name).into_iter().for_each(Log::sync);
    }

    /// Some ranks die, but not all: what they have noted and not written is lost, and what they have written is not. The others end their part
    /// of the run, and write what they have noted. Returns how many die.
    pub(crate) fn some_die(&mut self, random: &mut Random) -> u32 {
        let ranks = self.ranks.len() as u64;
        let lives = random.below(ranks);
        let mut dead = 0;
        for rank in 0..ranks {
            if rank != lives && random.below(2) == 0 {
                dead += 1;
            } else {
                self.write(rank as u32);
                self.sync(rank as u32);
            }
        }
        dead
    }

    /// One rank dies: what it has noted and not written is lost. The others write what they have noted.
    pub(crate) fn one_dies(&mut self, dead: u32) {
        (0..self.ranks.len() as u32).filter(|rank| *rank != dead).for_each(|rank| self.write(rank));
    }

    /// All ranks are killed, or their hosts lose power: what is noted is lost, and so is what is written and not on storage.
    pub(crate) fn kill(&mut self) {
        for noted in &self.ranks {
            let random = &mut self.random;
            self.logs.get_mut(&noted.name).into_iter().for_each(|log| log.lose(random));
        }
    }

    /// Whether a rank has written anything in this run, beside what counts of older logs.
    pub(crate) fn has_written(&self) -> bool {
        let frames = |noted: &Noted| self.logs.get(&noted.name).map_or(0, |log| log.frames);
        self.ranks.iter().any(|noted| frames(noted) > u64::from(noted.name.rank == 0 && noted.name.run > 1))
    }

    /// The run has come to its end.
    pub(crate) fn end_run(&mut self) {
        // Twice, for what is late.
        (0..self.ranks.len() as u32).for_each(|rank| self.write(rank));
        (0..self.ranks.len() as u32).for_each(|rank| self.write(rank));
    }
}

/// Runs of consecutive numbers, with their lengths, which are at most `most`.
fn runs(numbers: &[u64], most: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((from, length)) if *from + *length == *number && *length < most => *length += 1,
            _ => runs.push((*number, 1)),
        }
    }
    runs
}
