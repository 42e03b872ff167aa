//! Tests: which steps of a task's way to another rank use the file system. Packing and arrival do not, since the thread that communicates does
//! both.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use atta_entry::{Entry, Errno, Failure};
use atta_runtime::Job as _;
use atta_sys::{self as sys, Features};
use atta_testkit::scratch::Scratch;
use rustix::fd::OwnedFd;

use crate::tree::directory::Directory;
use crate::tree::job::{OnRank, TreeJob};
use crate::tree::listing::descriptor_cache::DescriptorCache;
use crate::tree::operation::{Cx, Handler, Of, Own};
use crate::tree::options::Options;
use crate::tree::task::Task;

/// An operation that does nothing.
struct Nothing;

impl Handler for Nothing {
    type Worker = ();
    type State = ();

    fn worker(&self, _index: usize) {}

    fn entry(&self, _cx: &mut Cx<'_, Self>, _entry: &Entry<'_>) {}

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn failure(&self, (): &mut (), _failure: &Failure<'_>) {}

    fn finish(&self, (): &mut ()) {}
}

fn job_of<'a>(options: &'a Options<'a>, ranks: u32) -> TreeJob<'a, Nothing> {
    let on = OnRank { rank: 0, ranks, runs_tasks: true };
    TreeJob::new(&Nothing, Box::new(std::iter::empty()), options, on)
}

fn open(path: &Path) -> Arc<OwnedFd> {
    Arc::new(sys::open_directory_path(path.as_os_str().as_bytes(), false).unwrap())
}

/// A directory `d` that was opened and not identified, below a root with this path.
fn opened_below(job: &TreeJob<'_, Nothing>, root: &Path) -> Arc<Directory> {
    let index = job.roots.intern(root.as_os_str().as_bytes().to_vec());
    let root_of_job = job.open_root(index, true).unwrap();
    Arc::new(Directory::below(&root_of_job, c"d", None).with_descriptor(open(&root.join("d"))))
}

fn task_in(directory: &Arc<Directory>) -> Task {
    Task::Own(Own { to: None, of: Of::Directory(Arc::clone(directory)), bytes: Vec::new() })
}

/// A tree `root/d`, and a task in `d` as bytes for another rank.
fn sent_from(scratch: &Scratch) -> Vec<u8> {
    let (root, options) = (scratch.join("root"), Options::default());
    std::fs::create_dir_all(root.join("d")).unwrap();
    let job = job_of(&options, 2);
    let directory = opened_below(&job, &root);
    job.identify_for_ranks(Some(&directory));
    let mut bytes = Vec::new();
    assert!(job.pack(&task_in(&directory), None, &mut bytes));
    bytes
}

/// What a worker finds when it opens the directory of a task that has arrived. `arrived` changes the tree before that.
fn opened_after(scratch: &Scratch, bytes: &[u8], arrived: impl FnOnce(&Path)) -> Result<(), Errno> {
    let (options, root) = (Options::default(), scratch.join("root"));
    let job = job_of(&options, 2);
    std::fs::rename(&root, scratch.join("away")).unwrap();
    let tasks = job.arrive(bytes).unwrap();
    arrived(&root);
    let directory = tasks[0].directory().unwrap();
    directory.descriptor(&mut DescriptorCache::new(4), Features::default()).map(|_| ())
}

#[test]
fn an_arrived_root_is_opened_by_its_first_task() {
    let scratch = Scratch::new("arrived").unwrap();
    let bytes = sent_from(&scratch);
    let back = |root: &Path| std::fs::rename(scratch.join("away"), root).unwrap();
    assert_eq!(opened_after(&scratch, &bytes, back), Ok(()));
}

#[test]
fn an_arrived_root_must_be_that_of_the_sender() {
    let scratch = Scratch::new("replaced").unwrap();
    let bytes = sent_from(&scratch);
    // The directory that the task belongs to is the same, but its root is not.
    let replace = |root: &Path| {
        std::fs::create_dir(root).unwrap();
        std::fs::rename(scratch.join("away/d"), root.join("d")).unwrap();
    };
    assert_eq!(opened_after(&scratch, &bytes, replace), Err(Errno::STALE));
}

#[test]
fn an_arrived_root_that_is_gone_fails_its_tasks() {
    let scratch = Scratch::new("gone").unwrap();
    let bytes = sent_from(&scratch);
    assert_eq!(opened_after(&scratch, &bytes, |_| {}), Err(Errno::NOENT));
}

#[test]
fn roots_of_several_parcels_share_a_descriptor() {
    let scratch = Scratch::new("shared").unwrap();
    let (bytes, options) = (sent_from(&scratch), Options::default());
    let job = job_of(&options, 2);
    let mut held = DescriptorCache::new(4);
    let mut root = || {
        let task = job.arrive(&bytes).unwrap().remove(0);
        let root = Arc::clone(task.directory().unwrap().parent().unwrap());
        root.descriptor(&mut held, Features::default()).unwrap()
    };
    assert!(Arc::ptr_eq(&root(), &root()), "the first one is still held");
}

#[test]
fn packing_does_not_identify_directories() {
    let scratch = Scratch::new("packed").unwrap();
    std::fs::create_dir_all(scratch.join("root/d")).unwrap();
    let options = Options::default();
    for ranks in [2, 1] {
        let job = job_of(&options, ranks);
        let directory = opened_below(&job, &scratch.join("root"));
        assert!(job.pack(&task_in(&directory), None, &mut Vec::new()));
        assert_eq!(directory.known_place(), None);
        job.identify_for_ranks(Some(&directory));
        assert_eq!(directory.known_place().is_some(), ranks > 1);
    }
}

#[test]
fn workers_close_directories_of_sent_tasks() {
    let scratch = Scratch::new("closed").unwrap();
    std::fs::create_dir_all(scratch.join("root/d")).unwrap();
    let options = Options::default();
    let job = job_of(&options, 2);
    let directory = opened_below(&job, &scratch.join("root"));
    let opened =
        Arc::downgrade(&directory.descriptor(&mut DescriptorCache::new(4), Features::default()).unwrap());
    let task = task_in(&directory);
    assert!(job.pack(&task, None, &mut Vec::new()) && job.sent(&task).is_none());
    drop((task, directory));
    assert!(opened.upgrade().is_some(), "the thread that sends it closed it");
    // A worker does this after each task.
    assert!(job.sent.take().is_some());
    assert!(opened.upgrade().is_none());
}
