//! A job on several ranks that writes its logs as the real one does, without files and threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use atta_ledger::{
    Fact, Fold, Id, Key, Left, LogName, Logs, Record, Records, Seen, SliceNumber, Stage, Void,
};
use atta_testkit::random::Random;

use super::closing::Lives;
use super::logs::{Late, Log, Unruly, find, log_of};
use super::target::Target;
use super::tree::{Entry, Tree};

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Results stand in the frame of what they belong to.
    ResultsBesideDone,
    /// What counted for an earlier run is written down, and nothing later counts.
    Cuts,
    /// It is on storage before another rank of that run does anything.
    CutsFirst,
    /// A complete directory is passed by when the directory above is read again.
    Complete,
    /// A directory that is left, or has slices of its own, is passed by as well.
    KnownDirectories,
    /// A directory that is read again leaves out what the logs give to others.
    Given,
    /// A batch that leaves is in the log before.
    ListedBeforeItLeaves,
    /// Who does a batch of another rank writes it into the own log.
    ListedByTaker,
    /// Earlier runs are read first.
    Order,
    /// All threads' records of a moment are one frame.
    OneFrame,
    /// A log that goes on in a new part says there that of the part before only what is on storage counts.
    NextPartCuts,
    /// What says that a directory is done which is gone does not count.
    Voids,
    /// A later run says it again.
    VoidsAgain,
    /// A slice in which a name failed is not done, and its results do not count.
    FailedIsNotDone,
    /// A directory that could not be read to its end is not done.
    UnreadIsNotDone,
}

impl Rule {
    pub(crate) const ALL: [Self; 15] = [
        Self::ResultsBesideDone,
        Self::Cuts,
        Self::CutsFirst,
        Self::Complete,
        Self::KnownDirectories,
        Self::Given,
        Self::ListedBeforeItLeaves,
        Self::ListedByTaker,
        Self::Order,
        Self::OneFrame,
        Self::NextPartCuts,
        Self::Voids,
        Self::VoidsAgain,
        Self::FailedIsNotDone,
        Self::UnreadIsNotDone,
    ];
}

type Names = Vec<(Vec<u8>, Entry)>;

/// Names of a directory that end together.
struct Slice {
    number: Option<SliceNumber>,
    /// Batches that were not looked at.
    open: usize,
    results: Vec<u64>,
    /// A name of it failed.
    has_failed: bool,
}

#[derive(Clone)]
enum Task {
    /// Reads a directory from a position on, without some names. `above` counts it.
    Read {
        directory: usize,
        above: Option<usize>,
        from: usize,
        given: Rc<HashSet<Vec<u8>>>,
    },
    Look {
        directory: usize,
        slice: usize,
        names: Names,
    },
}

/// One process.
struct Rank {
    name: LogName,
    tasks: Vec<Task>,
    slices: Vec<Slice>,
    /// What two threads have noted.
    records: [Records; 2],
    results: Vec<u64>,
    /// Results for the frame after this one, if that rule is off.
    late: Vec<u64>,
    next: u64,
}

pub(crate) struct Job {
    tree: Tree,
    key: Key,
    logs: BTreeMap<LogName, Log>,
    /// What stopped processes have not written.
    late: Vec<Late>,
    run: u32,
    without: Option<Rule>,
    wrong: Option<String>,
    memory: usize,
    target: Target,
    /// Directories are closed.
    closes: bool,
    /// What the closings of the last run come to that no log has: the directories.
    closed: Vec<usize>,
}

/// A run of the job.
struct Run<'j> {
    tree: &'j Tree,
    key: Key,
    logs: &'j mut BTreeMap<LogName, Log>,
    without: Option<Rule>,
    ranks: Vec<Rank>,
    /// Directories that are not entered where they are met.
    known: HashSet<Id>,
    target: &'j mut Target,
    closes: bool,
    lives: Lives,
    /// Some names and directories fail.
    fails: bool,
}

/// What a fold said.
#[derive(Default)]
struct Found {
    results: Vec<u64>,
    known: HashSet<Id>,
    /// Roots that are known.
    begun: HashSet<u32>,
    /// Directories to read again.
    reads: Vec<usize>,
    given: HashMap<usize, HashSet<Vec<u8>>>,
    slices: Vec<(usize, SliceNumber, Vec<Vec<u8>>)>,
    closes: usize,
    /// Directories that are not complete, and whether they were closed once.
    left: Vec<(usize, bool)>,
    /// The inode of each directory when it was seen last, and whether all its names are done.
    seen: HashMap<usize, (u64, bool)>,
}

impl Found {
    /// Directories that are gone, or others, or lack a directory.
    fn gone(&self, job: &Job) -> HashSet<Id> {
        let lacks = |entry: &(_, Entry)| matches!(entry.1, Entry::Directory(below) if !job.target.inodes.contains_key(&below));
        let is_gone = |(directory, (inode, is_done)): &(&usize, &(u64, bool))| {
            let entries = &job.tree.directories[**directory].entries;
            job.target.inodes.get(*directory) != Some(inode) || *is_done && entries.iter().any(lacks)
        };
        let id = |(directory, _): (&usize, &(u64, bool))| {
            let at = job.tree.at(*directory);
            job.key.of_path(at.root, at.path)
        };
        self.seen.iter().filter(is_gone).map(id).collect()
    }
}

impl Job {
    pub(crate) fn new(random: &mut Random, without: Option<Rule>) -> Self {
        let mut number = [0; 16];
        number[..8].copy_from_slice(&random.draw().to_le_bytes());
        // Some do not fit in memory, some forget directories at once, and some never.
        let memory = *random.pick(&[1000, 5000, 1 << 20]);
        let (tree, key) = (Tree::random(random), Key::of_job(&number));
        let (logs, late, closes) = (BTreeMap::new(), Vec::new(), random.below(2) == 0);
        let (target, closed) = (Target::default(), Vec::new());
        Self { tree, key, logs, late, run: 0, without, wrong: None, memory, target, closes, closed }
    }

    /// Runs it until it is killed, or to the end.
    /// A run. One that is not the last is killed, or something of it fails, or both.
    pub(crate) fn run(&mut self, random: &mut Random, is_last: bool) {
        if self.wrong.is_some() {
            return;
        }
        self.run += 1;
        self.write_late(random);
        if random.below(6) == 0 {
            self.target.remove(&self.tree, random.index(self.tree.directories.len()));
        }
        let (found, cuts) = match self.look() {
            Ok(looked) => looked,
            Err(wrong) => return self.wrong = Some(wrong),
        };
        self.write_late(random);
        let mut run = self.begin(random);
        if !is_last && random.below(8) == 0 {
            let late = run.stop_before_tasks(random, &cuts);
            return self.late.extend(late);
        }
        run.cut(random, &cuts);
        let left = found.left.clone();
        run.fails = !is_last && random.below(3) == 0;
        run.take(random, found);
        let is_killed = !is_last && (!run.fails || random.below(2) == 0);
        let mut steps = if is_killed { random.index(40) } else { usize::MAX };
        while steps > 0 && run.step(random) {
            steps -= 1;
        }
        if is_killed {
            let late = run.stop(random);
            return self.late.extend(late);
        }
        run.end(random);
        // What an earlier run has begun is closed at the end. The log has none of that.
        for (directory, was_closed) in left {
            self.target.changed.remove(&directory);
            self.closed.extend(Some(directory).filter(|_| is_last && !was_closed));
        }
    }

    /// Ranks of earlier runs that were only stopped go on.
    fn write_late(&mut self, random: &mut Random) {
        let logs = &mut self.logs;
        self.late.iter_mut().for_each(|late| late.write(random, logs));
    }

    fn begin(&mut self, random: &mut Random) -> Run<'_> {
        let count = 1 + random.index(4) as u32;
        let run = self.run;
        let rank = |rank| Rank {
            name: LogName { run, rank, part: 0 },
            tasks: Vec::new(),
            slices: Vec::new(),
            records: Default::default(),
            results: Vec::new(),
            late: Vec::new(),
            next: 0,
        };
        let ranks: Vec<_> = (0..count).map(rank).collect();
        ranks.iter().for_each(|rank| drop(self.logs.insert(rank.name, Log::default())));
        Run {
            tree: &self.tree,
            key: self.key,
            logs: &mut self.logs,
            without: self.without,
            ranks,
            known: HashSet::new(),
            target: &mut self.target,
            closes: self.closes,
            lives: Lives::default(),
            fails: false,
        }
    }

    /// What the logs say, and what counts of them.
    fn look(&self) -> Result<(Found, Vec<Record<'static>>), String> {
        let (key, logs) = (&self.key, &self.logs);
        let mut counted = find(key, logs).map_err(|refused| format!("{refused:?}"))?;
        let gone = self.fold(&mut counted)?.gone(self);
        if !gone.is_empty() && self.without != Some(Rule::Voids) {
            let void = Void::of(key, &mut counted, &gone).map_err(|refused| format!("{refused:?}"))?;
            counted.void(self.run, void);
        }
        let mut cuts: Vec<_> = counted.cuts().collect();
        if self.without == Some(Rule::VoidsAgain) {
            cuts.retain(|cut| !matches!(cut, Record::Void { by, .. } if *by < self.run));
        }
        let found = match self.without {
            Some(Rule::Cuts) => self.fold(&mut Unruly { key, logs, cuts: None, is_backward: false }),
            Some(Rule::Order) => self.fold(&mut Unruly { key, logs, cuts: Some(&cuts), is_backward: true }),
            _ => self.fold(&mut counted),
        };
        Ok((found?, cuts))
    }

    fn fold<L: Logs<Error: std::fmt::Debug>>(&self, logs: &mut L) -> Result<Found, String> {
        let off = |rule| self.without == Some(rule);
        let fold = Fold { key: self.key, closes: self.closes, memory: self.memory };
        let (mut found, tree) = (Found::default(), &self.tree);
        let root = |id| (0..tree.roots).find(|root| self.key.root(*root) == id);
        let folded = fold.run(logs, &mut |left| match left {
            Left::Results(bytes) => {
                let numbers = bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
                found.results.extend(numbers);
            }
            Left::Directory(at, item) => {
                found.left.push((tree.find(at), item.was_closed));
                // A root that was not read to its end is read when it is looked at.
                found.begun.extend(root(item.id));
                if !off(Rule::KnownDirectories) {
                    found.known.insert(item.id);
                }
                match (item.is_done, item.is_read) {
                    (true, _) => found.closes += 1,
                    (_, true) => {}
                    (_, false) => found.reads.push(tree.find(at)),
                }
            }
            Left::Complete(id) => {
                found.begun.extend(root(id));
                if !off(Rule::Complete) {
                    found.known.insert(id);
                }
            }
            Left::Given(at, names) => {
                if !off(Rule::Given) {
                    let given = found.given.entry(tree.find(at)).or_default();
                    given.extend(names.iter().map(|name| name.to_vec()));
                }
            }
            Left::Slice(at, slice, names) => {
                let names = names.iter().map(|name| name.to_vec()).collect();
                found.slices.push((tree.find(at), slice, names));
            }
            Left::Seen(at, seen, stage) => {
                found.seen.insert(tree.find(at), (seen.target_inode, stage != Stage::Begun));
            }
            Left::Names(..) => {}
            other => panic!("nothing writes {other:?}"),
        });
        folded.map(|()| found).map_err(|refused| format!("{refused:?}"))
    }

    /// What is wrong, after the last run.
    pub(crate) fn verdict(mut self, random: &mut Random) -> Option<String> {
        self.write_late(random);
        let (mut found, _) = match self.look() {
            Ok(looked) if self.wrong.is_none() => looked,
            Ok(_) => return self.wrong,
            Err(wrong) => return Some(self.wrong.unwrap_or(wrong)),
        };
        if let Some(file) = (0..self.tree.files).find(|file| !self.target.files.contains(file)) {
            return Some(format!("file {file} is gone"));
        }
        let count = if self.closes { self.tree.directories.len() as u64 } else { 0 };
        found.results.extend(
            self.closed.iter().filter(|_| self.closes).map(|number| self.tree.files + *number as u64),
        );
        found.results.sort_unstable();
        let each_once: Vec<_> = (0..self.tree.files + count).collect();
        if found.results != each_once {
            return Some(format!("results {:?}, and there are {} files", found.results, self.tree.files));
        }
        if let Some(directory) = self.target.changed.iter().next().filter(|_| self.closes) {
            return Some(format!("directory {directory} was changed after it was closed"));
        }
        // The log does not say that what was done again is closed.
        let was_closed_by_log = !self.closes || self.run == 1;
        let is_left =
            !found.reads.is_empty() || !found.slices.is_empty() || found.closes > 0 && was_closed_by_log;
        (is_left || found.begun.len() < self.tree.roots as usize).then(|| {
            let (reads, slices, closes, begun) = (found.reads, found.slices, found.closes, found.begun);
            format!("left: {reads:?} {slices:?} {closes}, begun {begun:?}")
        })
    }
}

impl Run<'_> {
    fn is_off(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }

    /// Says what counts of older logs.
    fn cut(&mut self, random: &mut Random, cuts: &[Record<'_>]) {
        let name = self.ranks[0].name;
        log_of(self.logs, name).write(&self.key, name, &[section(cuts)]);
        if random.below(4) == 0 {
            self.begin_part(0);
        }
        // What a single rank writes later stands behind it. If all of its log is lost, a stopped process may say that directories are closed in which this
        // run has done something: then their times are wrong.
        let is_synced = self.ranks.len() > 1 || self.closes || random.below(2) == 0;
        if !self.is_off(Rule::CutsFirst) && is_synced {
            log_of(self.logs, self.ranks[0].name).sync();
        }
    }

    /// It is killed before the cuts are on storage. No other rank has written anything.
    fn stop_before_tasks(&mut self, random: &mut Random, cuts: &[Record<'_>]) -> Vec<Late> {
        let name = self.ranks[0].name;
        let log = log_of(self.logs, name);
        if random.below(2) == 0 {
            return vec![log.write_later(&self.key, name, &[section(cuts)])];
        }
        log.write(&self.key, name, &[section(cuts)]);
        if random.below(2) == 0 {
            self.begin_part(0);
        }
        self.lose(random, 0);
        Vec::new()
    }

    /// It is killed. Some processes are only stopped: they lose nothing, and go on later.
    fn stop(&mut self, random: &mut Random) -> Vec<Late> {
        let mut late = Vec::new();
        for rank in 0..self.ranks.len() {
            if random.below(4) > 0 {
                self.lose(random, rank);
                continue;
            }
            let name = self.ranks[rank].name;
            let sections = self.ranks[rank].sections(random);
            let (goes_on, says_all) = (self.may_begin_part(rank), self.is_off(Rule::NextPartCuts));
            let log = log_of(self.logs, name);
            if goes_on && random.below(2) == 0 {
                log.write(&self.key, name, &sections);
                late.push(Late::part(log.next_part(&self.key, name, says_all)));
            } else {
                late.push(log.write_later(&self.key, name, &sections));
            }
        }
        late
    }

    /// What all parts of a log have, and is not on storage, may be lost.
    fn lose(&mut self, random: &mut Random, rank: usize) {
        let name = self.ranks[rank].name;
        let parts = LogName { part: 0, ..name }..=name;
        self.logs.range_mut(parts).for_each(|(_, log)| log.lose(random));
    }

    /// Without cuts all parts count as they are, so there is only one.
    fn may_begin_part(&self, rank: usize) -> bool {
        self.ranks[rank].name.part == 0 && !self.is_off(Rule::Cuts)
    }

    /// The log of a rank goes on in a new part, once.
    fn begin_part(&mut self, rank: usize) {
        let says_all = self.is_off(Rule::NextPartCuts);
        let name = self.ranks[rank].name;
        let may_begin = self.may_begin_part(rank);
        let log = log_of(self.logs, name);
        if may_begin && log.has_unsynced() {
            let (next, log) = log.next_part(&self.key, name, says_all);
            self.logs.insert(next, log);
            self.ranks[rank].name = next;
        }
    }

    /// It is at its end.
    fn end(&mut self, random: &mut Random) {
        let twice = (0..self.ranks.len()).chain(0..self.ranks.len());
        twice.for_each(|rank| self.flush(random, rank));
    }

    /// Takes over what an earlier run left.
    fn take(&mut self, random: &mut Random, found: Found) {
        self.known = found.known;
        let mut given = found.given;
        for root in (0..self.tree.roots).filter(|root| !found.begun.contains(root)) {
            let directory = root as usize;
            self.ranks[0].tasks.push(Task::Read { directory, above: None, from: 0, given: Rc::default() });
        }
        found.left.iter().for_each(|(directory, _)| self.lives.begin_again(*directory));
        for directory in found.reads {
            let given = Rc::new(given.remove(&directory).unwrap_or_default());
            let rank = random.index(self.ranks.len());
            self.ranks[rank].tasks.push(Task::Read { directory, above: None, from: 0, given });
        }
        for (directory, number, names) in found.slices {
            let entries = &self.tree.directories[directory].entries;
            let names = entries.iter().filter(|(name, _)| names.contains(name)).cloned().collect();
            let rank = random.index(self.ranks.len());
            let slice = self.ranks[rank].slice(Some(number));
            self.lives.add(directory);
            self.ranks[rank].tasks.push(Task::Look { directory, slice, names });
        }
    }

    /// Does something. False: nothing is left.
    fn step(&mut self, random: &mut Random) -> bool {
        let busy: Vec<_> = (0..self.ranks.len()).filter(|rank| !self.ranks[*rank].tasks.is_empty()).collect();
        if busy.is_empty() {
            return false;
        }
        let rank = *random.pick(&busy);
        match random.below(8) {
            0 => self.flush(random, rank),
            1 | 2 => self.give(random, rank),
            3 if random.below(4) == 0 => self.begin_part(rank),
            3 => log_of(self.logs, self.ranks[rank].name).sync(),
            _ => self.run_task(random, rank),
        }
        true
    }

    /// Writes what a rank has noted.
    fn flush(&mut self, random: &mut Random, rank: usize) {
        let rank = &mut self.ranks[rank];
        if self.without == Some(Rule::OneFrame) && random.below(2) == 0 {
            let only = &mut rank.records[random.index(2)];
            let section = only.take();
            return log_of(self.logs, rank.name).write(&self.key, rank.name, &[section]);
        }
        if self.without == Some(Rule::ResultsBesideDone) {
            std::mem::swap(&mut rank.results, &mut rank.late);
        }
        let sections = rank.sections(random);
        log_of(self.logs, rank.name).write(&self.key, rank.name, &sections);
    }

    /// Sends a task to another rank.
    fn give(&mut self, random: &mut Random, from: usize) {
        let to = random.index(self.ranks.len());
        let at = random.index(self.ranks[from].tasks.len());
        let task = self.ranks[from].tasks[at].clone();
        match task {
            // The reader stays.
            Task::Read { from: position, ref given, .. }
                if position > 0 || !given.is_empty() || to == from => {}
            Task::Read { .. } => {
                self.flush(random, from);
                self.ranks[from].tasks.remove(at);
                self.ranks[to].tasks.push(task);
            }
            Task::Look { .. } if to == from => {}
            Task::Look { directory, slice, names } => {
                let number = self.leave(random, (from, directory, slice), &names);
                self.flush(random, from);
                self.ranks[from].tasks.remove(at);
                let slice = self.ranks[to].slice(Some(number));
                self.ranks[to].tasks.push(Task::Look { directory, slice, names });
            }
        }
    }

    /// A batch leaves: it becomes a slice of its own.
    fn leave(
        &mut self,
        random: &mut Random,
        (rank, directory, slice): (usize, usize, usize),
        names: &Names,
    ) -> SliceNumber {
        if let Some(number) = self.ranks[rank].slices[slice].number {
            return number;
        }
        let number = self.ranks[rank].number();
        if !self.is_off(Rule::ListedBeforeItLeaves) {
            self.listed(random, (rank, directory), number, names);
        }
        self.lives.add(directory);
        self.end_batch(random, (rank, directory, slice));
        number
    }

    fn listed(
        &mut self,
        random: &mut Random,
        (rank, directory): (usize, usize),
        slice: SliceNumber,
        names: &Names,
    ) {
        let names = names.iter().map(|(name, _)| name.as_slice()).collect();
        self.note(random, rank, directory, &Fact::Listed { slice, names });
    }

    fn note(&mut self, random: &mut Random, rank: usize, directory: usize, fact: &Fact<'_>) {
        let at = self.tree.at(directory);
        self.ranks[rank].records[random.index(2)].add_fact(at, fact);
    }

    fn run_task(&mut self, random: &mut Random, rank: usize) {
        let at = self.ranks[rank].tasks.len() - 1 - random.index(self.ranks[rank].tasks.len().min(3));
        match self.ranks[rank].tasks.remove(at) {
            Task::Read { directory, above, from, given } => {
                if from == 0 {
                    self.lives.begin(directory, rank, above);
                }
                if self.fails && random.below(12) == 0 {
                    return self.unread(random, rank, directory);
                }
                self.read(random, rank, (directory, above), (from, &given));
            }
            Task::Look { directory, slice, names } => {
                // Not on arrival: a rank that only passes it on would name it after another has done it.
                let (number, own) = (self.ranks[rank].slices[slice].number, self.ranks[rank].name);
                let taken = number.filter(|number| (number.run, number.rank) != (own.run, own.rank));
                if let Some(number) =
                    taken.filter(|number| number.run == own.run && !self.is_off(Rule::ListedByTaker))
                {
                    self.listed(random, (rank, directory), number, &names);
                }
                self.look(random, (rank, directory, slice), &names);
                self.end_batch(random, (rank, directory, slice));
            }
        }
    }

    /// A directory cannot be read on.
    fn unread(&mut self, random: &mut Random, rank: usize, directory: usize) {
        if self.is_off(Rule::UnreadIsNotDone) {
            self.note(random, rank, directory, &Fact::Done { slice: None, seen: None });
        }
        self.lives.fail(directory);
        self.release(random, directory);
    }

    fn read(
        &mut self,
        random: &mut Random,
        rank: usize,
        (directory, above): (usize, Option<usize>),
        (from, given): (usize, &Rc<HashSet<Vec<u8>>>),
    ) {
        let entries = &self.tree.directories[directory].entries;
        let until = entries.len().min(from + 1 + random.index(8));
        let names: Names =
            entries[from..until].iter().filter(|(name, _)| !given.contains(name)).cloned().collect();
        let is_end = until == entries.len();
        if from == 0 && is_end {
            return self.whole(random, rank, directory, names);
        }
        if !names.is_empty() {
            let number = self.ranks[rank].number();
            self.listed(random, (rank, directory), number, &names);
            let slice = self.ranks[rank].slice(Some(number));
            self.lives.add(directory);
            self.ranks[rank].tasks.push(Task::Look { directory, slice, names });
        }
        if is_end {
            let seen = self.seen(directory);
            self.note(random, rank, directory, &Fact::Done { slice: None, seen });
            self.release(random, directory);
        } else {
            let (from, given) = (until, Rc::clone(given));
            self.ranks[rank].tasks.push(Task::Read { directory, above, from, given });
        }
    }

    /// All names were read together.
    fn whole(&mut self, random: &mut Random, rank: usize, directory: usize, mut names: Names) {
        let slice = self.ranks[rank].slice(None);
        while names.len() > 1 && random.below(2) == 0 {
            let rest = names.split_off(1 + random.index(names.len() - 1));
            self.ranks[rank].slices[slice].open += 1;
            self.ranks[rank].tasks.push(Task::Look { directory, slice, names: rest });
        }
        self.look(random, (rank, directory, slice), &names);
        self.end_batch(random, (rank, directory, slice));
    }

    fn look(&mut self, random: &mut Random, (rank, directory, slice): (usize, usize, usize), names: &Names) {
        let at = self.tree.at(directory);
        let id = self.key.of_path(at.root, at.path);
        for (name, entry) in names {
            if self.fails && random.below(8) == 0 {
                self.ranks[rank].slices[slice].has_failed = true;
                continue;
            }
            match entry {
                Entry::File(number) => {
                    self.target.enter(self.tree, directory);
                    self.target.changed.insert(directory);
                    self.target.files.insert(*number);
                    self.ranks[rank].slices[slice].results.push(*number);
                }
                Entry::Directory(_) if self.known.contains(&self.key.below(id, name)) => {}
                Entry::Directory(below) => {
                    self.note(random, rank, directory, &Fact::Found { name, mark: 0 });
                    self.lives.add(directory);
                    let (below, above) = (*below, Some(directory));
                    let task = Task::Read { directory: below, above, from: 0, given: Rc::default() };
                    self.ranks[rank].tasks.push(task);
                }
            }
        }
    }

    fn seen(&mut self, directory: usize) -> Option<Seen> {
        Some(Seen { target_inode: self.target.enter(self.tree, directory), ..Seen::default() })
    }

    fn end_batch(&mut self, random: &mut Random, (rank, directory, slice): (usize, usize, usize)) {
        let ended = &mut self.ranks[rank].slices[slice];
        ended.open -= 1;
        if ended.open == 0 {
            let (number, results) = (ended.number, std::mem::take(&mut ended.results));
            if ended.has_failed && !self.is_off(Rule::FailedIsNotDone) {
                self.lives.fail(directory);
                return self.release(random, directory);
            }
            let seen = self.seen(directory);
            self.note(random, rank, directory, &Fact::Done { slice: number, seen });
            self.ranks[rank].results.extend(results);
            self.release(random, directory);
        }
    }

    /// Something of a directory has ended.
    fn release(&mut self, random: &mut Random, directory: usize) {
        let closed = if self.closes { self.lives.release(directory) } else { Vec::new() };
        for (directory, rank, has_failed) in closed {
            self.target.changed.remove(&directory);
            if has_failed {
                continue;
            }
            self.note(random, rank, directory, &Fact::Closed);
            self.ranks[rank].results.push(self.tree.files + directory as u64);
        }
    }
}

impl Rank {
    fn slice(&mut self, number: Option<SliceNumber>) -> usize {
        self.slices.push(Slice { number, open: 1, results: Vec::new(), has_failed: false });
        self.slices.len() - 1
    }

    fn number(&mut self) -> SliceNumber {
        self.next += 1;
        SliceNumber { run: self.name.run, rank: self.name.rank, number: self.next }
    }

    /// What its threads have noted, with the results of slices that are done.
    fn sections(&mut self, random: &mut Random) -> Vec<Vec<u8>> {
        let results: Vec<u8> =
            std::mem::take(&mut self.results).iter().flat_map(|number| number.to_le_bytes()).collect();
        if !results.is_empty() {
            self.records[random.index(2)].add(&Record::Results(&results));
        }
        self.records.iter_mut().map(Records::take).collect()
    }
}

fn section(of: &[Record<'_>]) -> Vec<u8> {
    let mut records = Records::default();
    of.iter().for_each(|record| records.add(record));
    records.take()
}
