//! A random model of a walk on several ranks: tasks run, are spilled, are sent on and come back in any order. Directories must be done and
//! closed once, where they were found, after all that is below them. It reads no file system.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use atta_entry::{Entry, Failure, Kind};
use atta_runtime::Job as _;
use atta_sys::Place;

use crate::tree::directory::Directory;
use crate::tree::job::{OnRank, TreeJob, Worker};
use crate::tree::life;
use crate::tree::listing::names::Names;
use crate::tree::operation::{Cx, Handler, Of, Own, Stage, Tasks};
use crate::tree::options::Options;
use crate::tree::slice::{CurrentSlice, Extent};
use crate::tree::task::Task;

/// What became of each directory, over all ranks.
#[derive(Default)]
struct Seen {
    open: HashMap<Vec<u8>, HashSet<&'static str>>,
    closed: usize,
}

/// One rank's view of what became of directories.
struct Note<'a> {
    seen: &'a Mutex<Seen>,
}

impl Note<'_> {
    fn note(&self, directory: &Directory, event: &'static str) {
        let mut path = Vec::new();
        directory.path_into(&mut path);
        let mut seen = self.seen.lock().unwrap();
        if event == "closed" {
            let below = [path.as_slice(), b"/"].concat();
            let is_open = |path: &Vec<u8>| path.starts_with(&below);
            assert!(!seen.open.keys().any(is_open), "a directory was closed before one below it");
            let events = seen.open.remove(&path).expect("it is open");
            assert!(events.contains("done"), "closed before it was done");
            seen.closed += 1;
        } else {
            let events = seen.open.get_mut(&path).expect("it is open");
            assert!(events.insert(event) || event == "looked", "{event} twice");
        }
    }
}

impl Handler for Note<'_> {
    type Worker = ();
    type State = ();
    const STAGE: Stage = Stage::Closed;

    fn worker(&self, _index: usize) {}

    fn done(&self, (): &mut (), directory: &Arc<Directory>, _tasks: &mut Tasks) {
        self.note(directory, "done");
    }

    fn closed(&self, (): &mut (), directory: &Arc<Directory>) {
        // A directory that another rank sent is closed there.
        if directory.life().is_found() {
            self.note(directory, "closed");
        }
    }

    fn entry(&self, _cx: &mut Cx<'_, Self>, _entry: &Entry<'_>) {}

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn failure(&self, (): &mut (), _failure: &Failure<'_>) {}

    fn finish(&self, (): &mut ()) {}
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
struct Rank<'a> {
    number: u32,
    job: TreeJob<'a, Note<'a>>,
    worker: Worker<Note<'a>>,
    tasks: Vec<Task>,
    /// Payments that are to be sent.
    pays: Vec<u32>,
}

impl<'a> Rank<'a> {
    fn new(on: OnRank, note: &'a Note<'a>, options: &'a Options<'a>) -> Self {
        let job = TreeJob::new(note, Box::new(std::iter::empty()), options, on);
        let worker = job.worker(0);
        let opened = Arc::new(std::fs::File::open("/").unwrap().into());
        let root = job.roots.get(job.roots.intern(b"r".to_vec()));
        let place = Place { device: 1, inode: 1, mount: 1 };
        let kept = Directory::root_for_tasks(c"r".into(), 0, opened, place);
        job.roots.keep(&root, &kept, 1);
        Self { number: on.rank, job, worker, tasks: Vec::new(), pays: Vec::new() }
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
        for _ in 0..dice.throw(4) {
            let name = CString::new(format!("{}", dice.throw(1 << 30))).unwrap();
            let part = match dice.throw(4) {
                0 | 1 if directory.depth() < 5 => {
                    let mut path = Vec::new();
                    directory.path_into(&mut path);
                    let path = [path.as_slice(), b"/", name.as_bytes()].concat();
                    assert!(seen.lock().unwrap().open.insert(path, HashSet::new()).is_none());
                    directory.life().add_child();
                    let parent = Arc::clone(directory);
                    self.tasks.push(Task::Enter { parent, name, target: None });
                    continue;
                }
                2 => slice.part_of_names(),
                _ => slice.part(),
            };
            self.tasks.push(Task::Own(Own { to: None, of: Of::Part(part), bytes: Vec::new() }));
        }
        life::end_names(self.job.visit, &mut (), slice, &mut self.worker.tasks);
    }

    fn run(&mut self, dice: &mut Dice, seen: &Mutex<Seen>, task: Task) {
        match task {
            Task::Enter { parent, name, .. } => {
                self.read(dice, seen, &Arc::new(Directory::below(&parent, &name, None)));
            }
            Task::Look { slice, .. } => self.look(dice, seen, &CurrentSlice::of_batch(&slice)),
            Task::Own(Own { of: Of::Part(part), .. }) => {
                life::end_part(self.job.visit, &mut (), &part, &mut self.worker.tasks);
            }
            Task::EndSent => self.job.sent.note_run(),
            Task::Paid(paid) => self.job.end_paid(&mut self.worker, paid),
            other => panic!("{other:?}"),
        }
        let parts = self.job.sent.take().unwrap_or_default();
        self.job.end_each(&mut self.worker, parts);
        for payment in self.worker.tasks.payments.drain(..) {
            let to = payment.to;
            if to == self.number {
                let lent = self.job.lent.take_many(payment.number, payment.unit, payment.count);
                let anchor = lent.expect("it was lent");
                self.tasks.push(Task::Paid(vec![crate::tree::task::Paid { anchor, count: payment.count }]));
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

/// Runs a random tree on ranks. `master`: the first one only passes tasks on. Returns how many directories were closed, and how many
/// parcels and payments were sent.
fn run(seed: u64, ranks: u32, master: bool) -> (usize, usize, usize) {
    let (seen, options) = (Mutex::new(Seen::default()), Options::default());
    let note = Note { seen: &seen };
    let mut dice = Dice(seed);
    let (mut parcels, mut payments) = (0, 0);
    let mut ranks: Vec<_> = (0..ranks)
        .map(|rank| {
            let on = OnRank { rank, ranks, runs_tasks: !(master && rank == 0) };
            Rank::new(on, &note, &options)
        })
        .collect();
    let opened = Arc::new(std::fs::File::open("/").unwrap().into());
    let top = Directory::root(c"r".into(), 0, opened, Place { device: 1, inode: 1, mount: 1 });
    seen.lock().unwrap().open.insert(b"r".to_vec(), HashSet::new());
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
    }
    let seen = seen.lock().unwrap();
    assert!(seen.open.is_empty(), "seed {seed}: {:?}", seen.open);
    (seen.closed, parcels, payments)
}

#[test]
fn directories_close_once_and_in_order_over_ranks() {
    let (mut directories, mut parcels, mut payments) = (0, 0, 0);
    for seed in 0..3000 {
        let ranks = 1 + u32::try_from(seed % 5).unwrap();
        let (closed, sent, paid) = run(seed, ranks, seed % 2 == 1 && ranks > 2);
        directories += closed;
        parcels += sent;
        payments += paid;
    }
    assert!(directories > 10_000, "{directories}");
    assert!(parcels > directories / 4 && payments > parcels / 4, "{parcels} parcels, {payments} payments");
}
