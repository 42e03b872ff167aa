//! Operations on two trees, from outside this crate: each entry of the first tree, the same name in the second one, and a sum for each
//! directory with all that is below it. `examples/extra.rs` is one.
//!
//! It reads metadata only. No link is followed below the two roots.

use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_entry::{Code as _, Entry, Errno, Failure, Metadata};
use atta_runtime::{RankError, Results, Session, Stop};
use atta_sys::{self as sys, Features};

use crate::descriptors::{Budget, Needs};
use crate::tree::directory::{Directory, State};
use crate::tree::listing::descriptor_cache::DescriptorCache;
use crate::tree::operation::{Cx, Handler, Stage, Tasks};
use crate::tree::{self, Options, Start};

/// An operation on two trees. Its methods run on many threads at once.
pub trait Operation: Sync {
    /// What is known of a directory and all that is below it. Ranks send it to each other.
    type Sum: Results + std::fmt::Debug + Send + 'static;

    /// Gets each entry of the first tree once, the root included. `Break`: a directory is not entered.
    fn entry(&self, at: &mut At<'_, Self::Sum>, entry: &Entry<'_>);

    /// Gets each directory of the first tree once, on one of the ranks, after everything below it, with its sum. The sum is then added to
    /// that of the directory above. `is_whole`: nothing in it or below it failed. Not called for a directory of which a stop left something out, nor on a rank that has been stopped.
    fn closed(&self, path: &[u8], sum: &Self::Sum, is_whole: bool);

    /// Gets an entry that failed. The walk goes on.
    fn failure(&self, failure: &Failure<'_>);
}

/// The second tree at an entry of the first one.
#[derive(Debug)]
pub struct At<'a, S: Results + std::fmt::Debug + Send + 'static> {
    node: Option<&'a Node<S>>,
    name: &'a [u8],
    held: &'a mut DescriptorCache,
    features: Features,
    tasks: &'a mut Tasks<Arc<Node<S>>>,
}

impl<S: Results + std::fmt::Debug + Send + 'static> At<'_, S> {
    /// The metadata of the same name in the second tree. None: there is no such name. The root of the first tree has that of the second one.
    ///
    /// # Errors
    /// The name or its directory cannot be looked up.
    pub fn other(&mut self) -> Result<Option<Metadata>, Errno> {
        let Some(node) = self.node else { return Ok(None) };
        let name = CString::new(self.name).unwrap_or_default();
        let found = node.other.descriptor(self.held, self.features);
        match found.and_then(|directory| sys::stat_at(&directory, &name, false)) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Adds to the sum of the directory that the entry is in. What is added at a root is lost.
    pub fn add(&mut self, more: &S) {
        if let Some(node) = self.node {
            node.lock().sum.add(more);
        }
    }

    /// Keeps the walk from entering the directory that the entry is.
    pub fn prune(&mut self) {
        self.tasks.prune();
    }
}

/// What is kept beside a directory of the first tree.
#[derive(Debug)]
struct Node<S> {
    /// The directory of the same names in the second tree, opened on demand.
    other: Arc<Directory>,
    gathered: Mutex<Gathered<S>>,
}

/// What is known of a directory so far. Ranks report it to each other.
#[derive(Debug, Default)]
struct Gathered<S> {
    sum: S,
    /// A rank that has been stopped left names out.
    is_cut_off: bool,
}

impl<S: Results> Gathered<S> {
    fn add(&mut self, other: &Self) {
        self.sum.add(&other.sum);
        self.is_cut_off |= other.is_cut_off;
    }
}

impl<S: Results> Node<S> {
    fn new(other: Arc<Directory>) -> Arc<Self> {
        Arc::new(Self { other, gathered: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Gathered<S>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Results + std::fmt::Debug + Send + 'static> State for Arc<Node<S>> {
    type Results = ();
}

/// An operation as a handler of the walk.
struct Summed<'a, O: Operation> {
    operation: &'a O,
    top: Arc<Directory>,
    features: Features,
    held: usize,
    stop: &'a Stop,
}

type NodeOf<O> = Arc<Node<<O as Operation>::Sum>>;

impl<O: Operation> Summed<'_, O> {
    fn node<'d>(&self, directory: &'d Arc<Directory<NodeOf<O>>>) -> Option<&'d NodeOf<O>> {
        directory.state_or_made(|above, name| Node::new(Arc::new(Directory::below(&above.other, name, None))))
    }
}

impl<O: Operation> Handler for Summed<'_, O> {
    type Worker = DescriptorCache;
    type State = NodeOf<O>;

    const STAGE: Stage = Stage::Closed;
    const NEEDS: Needs = Needs::VERIFY;

    fn worker(&self, _index: usize) -> DescriptorCache {
        DescriptorCache::new(self.held)
    }

    fn root(&self, directory: &Arc<Directory<NodeOf<O>>>) {
        directory.set_state(Node::new(Arc::clone(&self.top)));
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let node = cx.here().and_then(|here| self.node(here.directory));
        let Cx { worker, tasks, .. } = cx;
        let node = node.map(Arc::as_ref);
        let mut at = At { node, name: entry.name, held: worker, features: self.features, tasks };
        self.operation.entry(&mut at, entry);
    }

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn closed(&self, _worker: &mut DescriptorCache, directory: &Arc<Directory<NodeOf<O>>>) {
        // A directory that another rank sent is closed there.
        let Some(node) = self.node(directory).filter(|_| directory.life().is_found()) else { return };
        // After a stop directories are closed whose names were left out.
        if self.stop.is_set() {
            return;
        }
        let sum = std::mem::take(&mut *node.lock());
        if !sum.is_cut_off {
            let mut path = Vec::new();
            directory.path_into(&mut path);
            self.operation.closed(&path, &sum.sum, !directory.life().has_failed());
        }
        if let Some(above) = directory.parent().and_then(|parent| self.node(parent)) {
            above.lock().add(&sum);
        }
    }

    fn report(&self, directory: &Arc<Directory<NodeOf<O>>>) -> Vec<u8> {
        let Some(node) = self.node(directory) else { return Vec::new() };
        let mut gathered = std::mem::take(&mut *node.lock());
        // The other rank may get this before it learns of the stop.
        gathered.is_cut_off |= self.stop.is_set();
        (gathered.is_cut_off, gathered.sum).encoded()
    }

    fn reported(&self, directory: &Arc<Directory<NodeOf<O>>>, report: &[u8]) -> bool {
        let gathered = <(bool, O::Sum)>::decode_all(report);
        let gathered = gathered.map(|(is_cut_off, sum)| Gathered { sum, is_cut_off });
        if let (Some(node), Some(gathered)) = (self.node(directory), &gathered) {
            node.lock().add(gathered);
        }
        gathered.is_some()
    }

    fn failure(&self, _worker: &mut DescriptorCache, failure: &Failure<'_>) {
        self.operation.failure(failure);
    }

    fn finish(&self, _worker: &mut DescriptorCache) {}
}

/// Walks `first` beside `second`, two directories, as one rank of a session. Returns whether all was done: when all ranks are done or
/// `options.stop`, which is that of the session, is set on one of them.
///
/// # Errors
/// `Ok(Err)`, on all ranks: one of them cannot open `second`, and nothing was walked. Otherwise as [`Session::run`].
pub fn run<O: Operation>(
    session: &mut Session<'_>,
    operation: &O,
    [first, second]: [&[u8]; 2],
    options: &Options<'_>,
) -> Result<Result<bool, Errno>, RankError> {
    let opened = open(second, options.features);
    let failed = session.all_reduce(opened.as_ref().err().copied(), |one, other| *one = one.or(other))?;
    let top = match (opened, failed) {
        (Ok(top), None) => top,
        (Err(errno), _) | (_, Some(errno)) => return Ok(Err(errno)),
    };
    let budget = Budget::of_process(Needs::VERIFY, options.threads.max(options.cores));
    let features = options.features;
    let summed = Summed { operation, top, features, held: budget.held_in_target, stop: &options.stop };
    let starts = session.is_first().then(|| Start::new(first));
    let outcome = tree::run(session, &summed, starts, options, |_, _| {})?;
    Ok(Ok(!outcome.outcome.stopped))
}

fn open(path: &[u8], features: Features) -> Result<Arc<Directory>, Errno> {
    let opened = sys::open_directory_path(path, true)?;
    let place = sys::place_of(&opened, features)?;
    let name = CString::new(path).map_err(|_| Errno::INVAL)?;
    Ok(Directory::root(name, 0, Arc::new(opened), place))
}
