//! Tests of tasks that leave this rank, or wait in the spill file.

use atta_entry::{Entry, Failure, Kind};
use atta_ledger::{Fact, Key, Record, records};
use atta_runtime::{Facts as _, Job as _};
use atta_sys::Place;

use super::*;
use crate::tree::directory::Directory;
use crate::tree::job::OnRank;
use crate::tree::journal::noter::Noter;
use crate::tree::life::Closer;
use crate::tree::listing::names::Names;
use crate::tree::operation::{Cx, Tasks};
use crate::tree::options::Options;
use crate::tree::slice::{CurrentSlice, Extent, OpenSlices};

const FIRST: OnRank = OnRank { rank: 0, ranks: 2, runs_tasks: true };

/// Notes what each directory comes to.
struct Notes(Mutex<Vec<(String, &'static str)>>);

impl Notes {
    fn note(&self, directory: &Directory, what: &'static str) {
        let mut path = Vec::new();
        directory.path_into(&mut path);
        self.0.lock().unwrap().push((String::from_utf8(path).unwrap(), what));
    }

    fn take(&self) -> Vec<(String, &'static str)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Handler for Notes {
    type Worker = ();
    type State = ();
    const STAGE: Stage = Stage::Closed;

    fn worker(&self, _index: usize) {}

    fn looked(&self, (): &mut (), slice: &CurrentSlice<'_>) {
        self.note(slice.directory(), "looked");
    }

    fn done(&self, (): &mut (), directory: &Arc<Directory>, _tasks: &mut Tasks) {
        self.note(directory, "done");
    }

    fn closed(&self, (): &mut (), directory: &Arc<Directory>) {
        self.note(directory, "closed");
    }

    fn entry(&self, _cx: &mut Cx<'_, Self>, _entry: &Entry<'_>) {}

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn failure(&self, (): &mut (), _failure: &Failure<'_>) {}

    fn finish(&self, (): &mut ()) {}
}

fn end_names(handler: &Notes, slice: &CurrentSlice<'_>) {
    let (worker, tasks, results, open) = (&mut (), &mut Tasks::default(), &mut (), &OpenSlices::default());
    let noter = &mut Noter::default();
    Closer { handler, worker, tasks, results, open, noter }.end_names(slice);
}

/// A directory with a batch of names for another thread; the names of its reader have been looked at.
fn batch_of(notes: &Notes, root: &Arc<Directory>) -> Task {
    root.life().add_child();
    let directory = Arc::new(Directory::below(root, c"a", None));
    let slice = CurrentSlice::new(&directory, Extent::Whole);
    let mut names = Names::default();
    names.push(c"b", Kind::File, 3);
    let task = Task::Look { slice: slice.batch(), names };
    end_names(notes, &slice);
    assert!(notes.take().is_empty(), "a batch is left");
    task
}

fn root() -> Arc<Directory> {
    let opened = Arc::new(std::fs::File::open("/").unwrap().into());
    Directory::root(c"r".into(), 0, opened, Place { device: 1, inode: 1, mount: 1 })
}

#[test]
fn spilled_tasks_come_back_to_their_slice() {
    let (notes, options) = (Notes(Mutex::default()), Options::default());
    let job = TreeJob::new(&notes, Box::new(std::iter::empty()), &options, FIRST);
    let Task::Look { slice, names } = batch_of(&notes, &root()) else { unreachable!() };
    let mut bytes = Vec::new();
    assert!(job.spill(&Task::Look { slice: Arc::clone(&slice), names }, None, &mut bytes));
    let back = job.unpack(&bytes).unwrap();
    let [Task::Look { slice: found, names }] = back.as_slice() else { panic!("{back:?}") };
    assert!(Arc::ptr_eq(&slice, found) && names.len() == 1);
    assert!(job.unpack(&bytes).is_err(), "it comes back once");
}

#[test]
fn directories_of_lost_tasks_are_named_and_closed() {
    let (notes, options) = (Notes(Mutex::default()), Options::default());
    let job = TreeJob::new(&notes, Box::new(std::iter::empty()), &options, FIRST);
    let root = root();
    root.life().add_child();
    let enter = Task::Enter { parent: Arc::clone(&root), name: c"c".into(), target: None };
    for task in [batch_of(&notes, &root), enter] {
        assert!(job.spill(&task, None, &mut Vec::new()));
    }
    end_names(&notes, &CurrentSlice::new(&root, Extent::Whole));
    let of = |path: &str, what| (path.to_owned(), what);
    assert_eq!(notes.take(), [of("r", "looked"), of("r", "done")]);
    job.end_left(&mut [job.worker(0)]);
    let expected = [of("r/a", "looked"), of("r/a", "done"), of("r/a", "closed"), of("r", "closed")];
    assert_eq!(notes.take(), expected);
}

/// Sends a batch of names to another rank, and ends it here.
fn send_and_end(directory: &Arc<Directory>, on: OnRank) -> Vec<(String, &'static str)> {
    let (notes, options) = (Notes(Mutex::default()), Options::default());
    let job = TreeJob::new(&notes, Box::new(std::iter::empty()), &options, on);
    job.roots.intern(b"r".to_vec());
    let task = batch_of(&notes, directory);
    assert!(job.pack(&task, None, &mut Vec::new()));
    let again = job.sent.has_task.load(Ordering::Relaxed);
    assert!(job.sent(&task).is_some_and(|task| matches!(task, Task::EndSent)) == on.runs_tasks && !again);
    job.end_left(&mut [job.worker(0)]);
    notes.take()
}

/// What was noted of slices: their names, or that they are done.
fn noted(journal: &Journal<()>) -> Vec<(SliceNumber, &'static str)> {
    let mut found = Vec::new();
    for section in journal.take() {
        let valid = records(&section, &mut |record| match record {
            Record::In(_, Fact::Listed { slice, .. }) => found.push((*slice, "listed")),
            Record::In(_, Fact::Done { slice: Some(slice), .. }) => found.push((*slice, "done")),
            _ => {}
        });
        assert!(valid);
    }
    found
}

#[test]
fn names_that_leave_are_done_by_their_taker() {
    let (notes, options, key) = (Notes(Mutex::default()), Options::default(), Key::of_job(&[1; 16]));
    for is_numbered in [false, true] {
        let [own, others] = [0, 1].map(|rank| Journal::<()>::new(key, 1, rank));
        let job = |on, journal| {
            let mut job = TreeJob::new(&notes, Box::new(std::iter::empty()), &options, on);
            job.journal = Some(journal);
            job.roots.intern(b"r".to_vec());
            job
        };
        let (giver, taker) = (job(FIRST, &own), job(OnRank { rank: 1, ..FIRST }, &others));
        let mut task = batch_of(&notes, &root());
        if let (true, Task::Look { slice, .. }) = (is_numbered, &mut task) {
            let number = SliceNumber { run: 1, rank: 0, number: 7 };
            *slice = Slice::of_numbered(Arc::clone(slice.directory()), number, 0);
        }
        let mut parcel = Vec::new();
        assert!(giver.pack(&task, None, &mut parcel) && giver.sent(&task).is_some());
        let mut worker = giver.worker(0);
        giver.end_left(std::slice::from_mut(&mut worker));
        let (anchor, _) = task.anchor().unwrap();
        giver.end_paid(&mut worker, vec![Paid { anchor, count: 1 }]);
        let number = if is_numbered { 7 } else { 0 };
        let number = SliceNumber { run: 1, rank: 0, number };
        let listed: &[_] = if is_numbered { &[] } else { &[(number, "listed")] };
        assert_eq!(noted(&own), listed);
        let tasks = taker.arrive(&parcel).unwrap();
        let [Task::Look { slice, names }] = tasks.as_slice() else { panic!("{tasks:?}") };
        assert_eq!(noted(&others), [], "it may send them on");
        let mut worker = taker.worker(0);
        for _ in 0..2 {
            taker.note_taken(&mut worker, (slice, names), || false);
        }
        taker.closer(&mut worker).end_names(&CurrentSlice::of_batch(slice));
        assert_eq!(noted(&others), [(number, "listed"), (number, "done")]);
        notes.take();
    }
}

#[test]
fn slice_keeps_its_number_on_a_rank_without_a_log() {
    let (notes, options, key) = (Notes(Mutex::default()), Options::default(), Key::of_job(&[1; 16]));
    let journal = Journal::<()>::new(key, 1, 2);
    let job = |on| {
        let job = TreeJob::new(&notes, Box::new(std::iter::empty()), &options, on);
        job.roots.intern(b"r".to_vec());
        job
    };
    let mut taker = job(OnRank { rank: 2, ranks: 3, ..FIRST });
    taker.journal = Some(&journal);
    let Task::Look { slice, names } = batch_of(&notes, &root()) else { unreachable!() };
    let number = SliceNumber { run: 1, rank: 0, number: 7 };
    let slice = Slice::of_numbered(Arc::clone(slice.directory()), number, 0);
    let mut parcel = Vec::new();
    assert!(job(OnRank { rank: 1, ranks: 3, ..FIRST }).pack(&Task::Look { slice, names }, None, &mut parcel));
    let tasks = taker.arrive(&parcel).unwrap();
    let [Task::Look { slice, .. }] = tasks.as_slice() else { panic!("{tasks:?}") };
    assert_eq!(slice.number(), Some(number));
}

#[test]
fn begun_slices_stay() {
    let (notes, options, key) = (Notes(Mutex::default()), Options::default(), Key::of_job(&[1; 16]));
    let journal = Journal::<()>::new(key, 1, 0);
    let mut job = TreeJob::new(&notes, Box::new(std::iter::empty()), &options, FIRST);
    job.journal = Some(&journal);
    job.roots.intern(b"r".to_vec());
    let Task::Look { slice, names } = batch_of(&notes, &root()) else { unreachable!() };
    let number = SliceNumber { run: 1, rank: 0, number: 7 };
    let slice = Slice::of_numbered(Arc::clone(slice.directory()), number, 0);
    slice.begin();
    assert!(!job.pack(&Task::Look { slice, names }, None, &mut Vec::new()));
}

#[test]
fn directory_with_lent_names_gets_its_name() {
    assert_eq!(send_and_end(&root(), FIRST), [("r/a".to_owned(), "looked")]);
}

#[test]
fn a_rank_without_threads_ends_nothing() {
    assert_eq!(send_and_end(&root(), OnRank { runs_tasks: false, ..FIRST }), []);
}
