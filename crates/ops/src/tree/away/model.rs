//! A random model of a walk on several ranks: tasks run, are spilled, are sent on and come back in any order. Directories must be done and
//! closed once, where they were found, after all that is below them. What ranks report of a directory must be there before it is done or
//! closed. It reads no file system.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use atta_entry::{Code as _, Entry, Failure, Kind};
use atta_runtime::Job as _;
use atta_sys::Place;

use crate::tree::directory::{self, State};
use crate::tree::job::{OnRank, TreeJob, Worker};
use crate::tree::listing::names::Names;
use crate::tree::operation::{self, Cx, Handler, Of, Own, Stage};
use crate::tree::options::Options;
use crate::tree::slice::{self, Extent};
use crate::tree::task;

/// What is kept beside a directory: how many names of it, and of all below it, were looked at, and not yet reported.
#[derive(Debug, Default)]
struct Sums {
    names: AtomicU64,
    below: AtomicU64,
}

impl Sums {
    /// What was added since the last call.
    fn take(&self) -> (u64, u64) {
        (self.names.swap(0, Ordering::Relaxed), self.below.swap(0, Ordering::Relaxed))
    }

    fn add(&self, (names, below): (u64, u64)) {
        self.names.fetch_add(names, Ordering::Relaxed);
        self.below.fetch_add(below, Ordering::Relaxed);
    }

    fn of(directory: &Arc<Directory>) -> &Self {
        directory.state_or_made(|_, _| Arc::default()).expect("its root has sums")
    }
}

/// The results of a slice: how many batches of names were looked at, and how many parts ended.
impl State for Arc<Sums> {
    type Results = u64;
}

type Directory = directory::Directory<Arc<Sums>>;
type Task = task::Task<Arc<Sums>>;
type Tasks = operation::Tasks<Arc<Sums>>;
type CurrentSlice<'a> = slice::CurrentSlice<'a, Arc<Sums>>;

/// A directory that is not closed, over all ranks.
#[derive(Debug, Default)]
struct Open {
    events: HashSet<&'static str>,
    /// Names that were looked at in it, and in all directories below it.
    names: u64,
    below: u64,
    /// Something failed in it or below it.
    has_failed: bool,
}

/// What became of each directory, over all ranks.
#[derive(Default)]
struct Seen {
    open: HashMap<Vec<u8>, Open>,
    done: usize,
    closed: usize,
}

impl Seen {
    /// Something fails in a directory.
    fn fail(&mut self, directory: &Directory) {
        for above in directory.lineage() {
            self.open.get_mut(&path_of(above)).expect("it is open").has_failed = true;
        }
    }

    /// Counts names that a rank looks at in a directory.
    fn count(&mut self, directory: &Directory, names: u64) {
        for (level, above) in directory.lineage().enumerate() {
            let open = self.open.get_mut(&path_of(above)).expect("it is open");
            open.below += names;
            open.names += if level == 0 { names } else { 0 };
        }
    }
}

fn path_of(directory: &Directory) -> Vec<u8> {
    let mut path = Vec::new();
    directory.path_into(&mut path);
    path
}

/// One rank's view of what became of directories. `CLOSED`: directories are followed until they are closed, otherwise until they are done.
struct Note<'a, const CLOSED: bool> {
    seen: &'a Mutex<Seen>,
}

impl<const CLOSED: bool> Handler for Note<'_, CLOSED> {
    type Worker = u64;
    type State = Arc<Sums>;
    const STAGE: Stage = if CLOSED { Stage::Closed } else { Stage::Done };

    fn worker(&self, _index: usize) -> u64 {
        0
    }

    fn results<'w>(&self, gathered: &'w mut u64) -> Option<&'w mut u64> {
        Some(gathered)
    }

    fn root(&self, directory: &Arc<Directory>) {
        directory.set_state(Arc::default());
    }

    fn done(&self, _worker: &mut u64, directory: &Arc<Directory>, _tasks: &mut Tasks) {
        let mut seen = self.seen.lock().unwrap();
        let open = seen.open.get_mut(&path_of(directory)).expect("it is open");
        assert!(open.events.insert("done"), "done twice");
        assert_eq!(Sums::of(directory).names.load(Ordering::Relaxed), open.names, "names of all ranks");
        seen.done += 1;
    }

    fn closed(&self, _worker: &mut u64, directory: &Arc<Directory>) {
        // A directory that another rank sent is closed there.
        if !directory.life().is_found() {
            return;
        }
        let mut seen = self.seen.lock().unwrap();
        let path = path_of(directory);
        let below = [path.as_slice(), b"/"].concat();
        let is_open = |path: &Vec<u8>| path.starts_with(&below);
        assert!(!seen.open.keys().any(is_open), "a directory was closed before one below it");
        let open = seen.open.remove(&path).expect("it is open");
        assert!(open.events.contains("done"), "closed before it was done");
        assert_eq!(directory.life().has_failed(), open.has_failed, "failures of all ranks");
        let sums = Sums::of(directory).take();
        assert_eq!(sums, (open.names, open.below), "names of all ranks");
        if let Some(above) = directory.parent() {
            Sums::of(above).add((0, open.below));
        }
        seen.closed += 1;
    }

    fn report(&self, directory: &Arc<Directory>) -> Vec<u8> {
        Sums::of(directory).take().encoded()
    }

    fn reported(&self, directory: &Arc<Directory>, report: &[u8]) -> bool {
        <(u64, u64)>::decode_all(report).map(|sums| Sums::of(directory).add(sums)).is_some()
    }

    fn entry(&self, _cx: &mut Cx<'_, Self>, _entry: &Entry<'_>) {}

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn failure(&self, _worker: &mut u64, _failure: &Failure<'_>) {}

    fn finish(&self, _worker: &mut u64) {}
}

struct Dice(u64);

impl Dice {
    /// One of so many.
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// A rank and the tasks that wait there.
struct Rank<'a, const CLOSED: bool> {
    number: u32,
    job: TreeJob<'a, Note<'a, CLOSED>>,
    worker: Worker<'a, Note<'a, CLOSED>>,
    tasks: Vec<Task>,
    /// Payments that are to be sent.
    pays: Vec<u32>,
    /// Batches that were looked at, and parts that ended, here.
    gathered: u64,
}

impl<'a, const CLOSED: bool> Rank<'a, CLOSED> {
    fn new(on: OnRank, note: &'a Note<'a, CLOSED>, options: &'a Options<'a>) -> Self {
        let job = TreeJob::new(note, Box::new(std::iter::empty()), options, on);
        let worker = job.worker(0);
        job.roots.intern(b"r".to_vec());
        Self { number: on.rank, job, worker, tasks: Vec::new(), pays: Vec::new(), gathered: 0 }
    }

    /// Makes names of a directory that was entered or read on.
    fn read(&mut self, dice: &mut Dice, seen: &Mutex<Seen>, directory: &Arc<Directory>) {
        let slice = CurrentSlice::new(directory, Extent::Whole);
        for _ in 0..dice.throw(3) {
            let mut names = Names::default();
            names.push(c"n", Kind::File, 0);
            self.tasks.push(Task::Look { slice: slice.batch(), names });
        }
        self.look(dice, seen, &slice);
    }

    /// Looks at names: some are directories, some are parts that end elsewhere.
    fn look(&mut self, dice: &mut Dice, seen: &Mutex<Seen>, slice: &CurrentSlice<'_>) {
        let directory = slice.directory();
        let names = dice.throw(4);
        seen.lock().unwrap().count(directory, names as u64);
        Sums::of(directory).add((names as u64, names as u64));
        if dice.throw(10) == 0 {
            directory.life().note_failure();
            seen.lock().unwrap().fail(directory);
        }
        for _ in 0..names {
            let name = CString::new(format!("{}", dice.throw(1 << 30))).unwrap();
            let part = match dice.throw(4) {
                0 | 1 if directory.depth() < 5 => {
                    let path = [&path_of(directory), b"/".as_slice(), name.as_bytes()].concat();
                    assert!(seen.lock().unwrap().open.insert(path, Open::default()).is_none());
                    if CLOSED {
                        directory.life().add_child();
                    }
                    let parent = Arc::clone(directory);
                    self.tasks.push(Task::Enter { parent, name, target: None });
                    continue;
                }
                2 => slice.part_of_names(),
                _ => slice.part(),
            };
            self.tasks.push(Task::Own(Own { to: None, of: Of::Part(part), bytes: Vec::new() }));
        }
        self.gather();
        self.job.closer(&mut self.worker).end_names(slice);
    }

    /// Counts something in the current slice.
    fn gather(&mut self) {
        self.gathered += 1;
        self.worker.visit += 1;
    }

    fn run(&mut self, dice: &mut Dice, seen: &Mutex<Seen>, task: Task) {
        match task {
            Task::Enter { parent, name, .. } => {
                self.read(dice, seen, &Arc::new(Directory::below(&parent, &name, None)));
            }
            Task::Look { slice, .. } => self.look(dice, seen, &CurrentSlice::of_batch(&slice)),
            Task::Own(Own { of: Of::Part(part), .. }) => {
                self.gather();
                let mut closer = self.job.closer(&mut self.worker);
                closer.gather(part.slice());
                closer.end_part(&part);
            }
            Task::EndSent => self.job.sent.note_run(),
            // A root that another walk would look at.
            Task::Start { .. } => {}
            Task::Paid(paid) => self.job.end_paid(&mut self.worker, paid),
            other => panic!("{other:?}"),
        }
        self.job.closer(&mut self.worker).end_rest();
        let parts = self.job.sent.take().unwrap_or_default();
        self.job.end_each(&mut self.worker, parts);
        for payment in self.worker.tasks.payments.drain(..) {
            let to = payment.to;
            if to == self.number {
                self.tasks.push(Task::Paid(vec![self.job.returned(payment).expect("it was lent")]));
            } else if self.job.due.add(payment) {
                self.pays.push(to);
            }
        }
    }

    /// Encodes some tasks for another rank; what may not leave stays.
    fn pack(&mut self, dice: &mut Dice) -> Vec<u8> {
        let (mut bytes, mut packed): (_, Vec<Task>) = (Vec::new(), Vec::new());
        for _ in 0..=dice.throw(4) {
            if self.tasks.is_empty() {
                break;
            }
            if dice.throw(4) == 0 {
                let root = self.job.roots.intern(b"r".to_vec());
                self.tasks.push(Task::Start { root, below: None, differs: None });
            }
            let task = self.tasks.swap_remove(dice.throw(self.tasks.len()));
            if self.job.pack(&task, packed.last(), &mut bytes) {
                packed.push(task);
            } else {
                self.tasks.push(task);
            }
        }
        self.tasks.extend(packed.iter().filter_map(|task| self.job.sent(task)));
        bytes
    }

    /// Sends one task to the spill file and back.
    fn spill(&mut self, task: Task) {
        let mut bytes = Vec::new();
        if self.job.spill(&task, None, &mut bytes) {
            self.tasks.extend(self.job.unpack(&bytes).unwrap());
        } else {
            self.tasks.push(task);
        }
    }
}

/// The directory that a walk begins with.
fn top<const CLOSED: bool>(note: &Note<'_, CLOSED>) -> Arc<Directory> {
    let opened = Arc::new(std::fs::File::open("/").unwrap().into());
    let top = Directory::root(c"r".into(), 0, opened, Place { device: 1, inode: 1, mount: 1 });
    note.root(&top);
    note.seen.lock().unwrap().open.insert(path_of(&top), Open::default());
    top
}

/// Runs a random tree on ranks. `master`: the first one only passes tasks on. Returns how many directories were done, and how many
/// parcels and payments were sent.
fn run<const CLOSED: bool>(seed: u64, ranks: u32, master: bool) -> (usize, usize, usize) {
    let (seen, options) = (Mutex::new(Seen::default()), Options::default());
    let note = Note::<CLOSED> { seen: &seen };
    let mut dice = Dice(seed);
    let (mut parcels, mut payments) = (0, 0);
    let mut ranks: Vec<_> = (0..ranks)
        .map(|rank| {
            let on = OnRank { rank, ranks, runs_tasks: !(master && rank == 0) };
            Rank::new(on, &note, &options)
        })
        .collect();
    let top = top(&note);
    ranks.last_mut().unwrap().read(&mut dice, &seen, &top);
    while ranks.iter().any(|rank| !(rank.tasks.is_empty() && rank.pays.is_empty())) {
        let at = dice.throw(ranks.len());
        let to = dice.throw(ranks.len());
        let rank = &mut ranks[at];
        if let Some(to) = rank.pays.pop() {
            let mut bytes = Vec::new();
            assert!(rank.job.pack(&Task::Pay(to), None, &mut bytes));
            payments += 1;
            let paid = ranks[to as usize].job.arrive(&bytes).unwrap();
            ranks[to as usize].tasks.extend(paid);
        } else if !rank.tasks.is_empty() {
            let runs = !(master && at == 0);
            match dice.throw(4) {
                0 | 1 if runs => {
                    let task = rank.tasks.swap_remove(dice.throw(rank.tasks.len()));
                    rank.run(&mut dice, &seen, task);
                }
                2 if runs => {
                    let task = rank.tasks.swap_remove(dice.throw(rank.tasks.len()));
                    rank.spill(task);
                }
                _ if to != at => {
                    let bytes = rank.pack(&mut dice);
                    parcels += usize::from(!bytes.is_empty());
                    let tasks = ranks[to].job.arrive(&bytes).unwrap();
                    ranks[to].tasks.extend(tasks);
                }
                _ => {}
            }
        }
    }
    for rank in &ranks {
        assert!(rank.job.lent.take_lost().is_empty(), "seed {seed}: a unit was not returned");
        assert!(rank.job.anchors.take_lost().is_empty(), "seed {seed}");
        assert!(rank.job.open.all().is_empty(), "seed {seed}: a slice did not end");
        assert_eq!((rank.worker.results, rank.worker.visit), (rank.gathered, 0), "seed {seed}");
    }
    let seen = seen.lock().unwrap();
    let is_open = |open: &&Open| CLOSED || !open.events.contains("done");
    assert_eq!(seen.open.values().find(is_open).map(|open| open.names), None, "seed {seed}");
    assert_eq!(seen.closed, if CLOSED { seen.done } else { 0 }, "seed {seed}");
    (seen.done, parcels, payments)
}

fn run_all<const CLOSED: bool>(seeds: u64) {
    let (mut directories, mut parcels, mut payments) = (0, 0, 0);
    for seed in 0..seeds {
        let ranks = 1 + u32::try_from(seed % 5).unwrap();
        let (done, sent, paid) = run::<CLOSED>(seed, ranks, seed % 2 == 1 && ranks > 2);
        directories += done;
        parcels += sent;
        payments += paid;
    }
    assert!(directories > 10_000, "{directories}");
    assert!(parcels > directories / 4 && payments > parcels / 4, "{parcels} parcels, {payments} payments");
}

#[test]
fn directories_close_once_and_in_order_over_ranks() {
    run_all::<true>(3000);
}

#[test]
fn directories_are_done_once_over_ranks() {
    run_all::<false>(3000);
}

/// Has another rank look at a name, and returns whether its payment is taken. `damage` changes the report.
fn pays(damage: fn(&mut Vec<u8>)) -> bool {
    let (seen, options) = (Mutex::default(), Options::default());
    let note = Note::<false> { seen: &seen };
    let [here, mut there] =
        [0, 1].map(|rank| Rank::new(OnRank { rank, ranks: 2, runs_tasks: true }, &note, &options));
    let (top, mut names, mut bytes) = (top(&note), Names::default(), Vec::new());
    names.push(c"n", Kind::File, 0);
    let lent = CurrentSlice::new(&top, Extent::Whole).batch();
    assert!(here.job.pack(&Task::Look { slice: lent, names }, None, &mut bytes));
    let mut arrived = there.job.arrive(&bytes).unwrap();
    let Some(Task::Look { slice, .. }) = arrived.pop() else { panic!("{arrived:?}") };
    Sums::of(slice.directory()).add((1, 1));
    there.job.closer(&mut there.worker).end_names(&CurrentSlice::of_batch(&slice));
    let payments = &mut there.worker.tasks.payments;
    let mut payment = payments.pop().unwrap();
    assert!(payments.is_empty() && !payment.report.is_empty());
    damage(&mut payment.report);
    there.job.due.add(payment);
    bytes.clear();
    assert!(there.job.pack(&Task::Pay(0), None, &mut bytes));
    let is_taken = here.job.arrive(&bytes).is_ok();
    assert_eq!(Sums::of(&top).take(), if is_taken { (1, 1) } else { (0, 0) });
    is_taken
}

#[test]
fn damaged_reports_of_slices_are_refused() {
    assert!(pays(|_| {}));
    assert!(!pays(|report| report.truncate(1)));
    assert!(!pays(|report| report.push(0)));
}
