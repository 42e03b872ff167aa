//! Tasks that leave the memory of this process, to the spill file or to another rank. Their units stay here (`anchors.rs`). `task/bytes.rs`
//! has the format, `debts.rs` says how another rank returns units.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_ledger::{At, SliceNumber};
use atta_runtime::Queue;

use crate::tree::anchors::{Anchor, Lost};
use crate::tree::debts::{Debt, Payment, Unit};
use crate::tree::directory::{Directory, State};
use crate::tree::job::{TreeJob, Worker};
use crate::tree::journal::Journal;
use crate::tree::listing::names::{Name, Names};
use crate::tree::listing::path::CurrentPath;
use crate::tree::operation::{DirectoryOf, Handler, Of, Own, Stage};
use crate::tree::slice::{Part, Slice};
use crate::tree::task::bytes::{self, FindRoot};
use crate::tree::task::{Paid, Task};
use crate::tree::units::Life;

/// Names of batches that were sent to other ranks. Here they count as looked at, so that the directory need not wait for its name. Many
/// tasks leave at once, so they share one task that ends them.
///
/// It also keeps the directories of sent tasks until a worker drops them: the thread that communicates must not close descriptors.
#[derive(Debug)]
pub(crate) struct Sent<S: State> {
    left: Mutex<Left<S>>,
    has_left: AtomicBool,
    /// A task that ends them waits.
    has_task: AtomicBool,
}

/// What sent tasks leave here.
#[derive(Debug)]
struct Left<S: State> {
    parts: Vec<Part<S>>,
    directories: Vec<Arc<Directory<S>>>,
}

impl<S: State> Default for Sent<S> {
    fn default() -> Self {
        let left = Left { parts: Vec::new(), directories: Vec::new() };
        Self { left: Mutex::new(left), has_left: AtomicBool::new(false), has_task: AtomicBool::new(false) }
    }
}

impl<S: State> Sent<S> {
    /// Returns whether a task is needed that ends the parts.
    fn add(&self, part: Part<S>) -> bool {
        self.leave(|left| left.parts.push(part));
        !self.has_task.swap(true, Ordering::AcqRel)
    }

    /// Keeps the directory of a sent task until a worker takes the parts.
    fn keep(&self, directory: &Arc<Directory<S>>) {
        self.leave(|left| left.directories.push(Arc::clone(directory)));
    }

    fn leave(&self, add: impl FnOnce(&mut Left<S>)) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut left);
        self.has_left.store(true, Ordering::Release);
    }

    /// Notes that the task runs. It takes the parts afterwards, so none that came before this is left.
    pub(crate) fn note_run(&self) {
        self.has_task.store(false, Ordering::Release);
    }

    /// Takes the parts, if there is something, and drops the directories.
    pub(crate) fn take(&self) -> Option<Vec<Part<S>>> {
        if !self.has_left.load(Ordering::Acquire) {
            return None;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_left.store(false, Ordering::Release);
        let (parts, directories) = (std::mem::take(&mut left.parts), std::mem::take(&mut left.directories));
        drop(left);
        // Not under the lock: closing may take long.
        drop(directories);
        Some(parts)
    }
}

/// Whether names stay on this rank: of those that are a slice in the log, a part.
fn stays<S: State>(journal: &Journal<S::Results>, slice: &Slice<S>, names: &Names) -> bool {
    if slice.number().is_some() && !slice.is_waiting() {
        return true;
    }
    let may_leave = journal.may_leave(slice.directory(), names);
    if !may_leave {
        // It is not asked again.
        slice.stay();
    }
    !may_leave
}

impl<'a, V: Handler> TreeJob<'a, V> {
    /// Called by a worker for the directory of each new task. Identifies it while it is open, if another rank may get the task: the thread that
    /// packs tasks must not wait for a file system.
    pub(crate) fn identify_for_ranks(&self, directory: Option<&Arc<DirectoryOf<V>>>) {
        if let (2.., Some(directory)) = (self.ranks, directory) {
            directory.identify(self.features());
        }
    }

    /// Encodes a task for another rank, without system calls. False: it must stay.
    pub(crate) fn pack_task(
        &self,
        task: &Task<V::State>,
        last: Option<&Task<V::State>>,
        out: &mut Vec<u8>,
    ) -> bool {
        match task {
            Task::Own(own) if own.to == Some(self.rank) => return false,
            Task::Pay(to) => bytes::pack_payments(self.due.take(*to), out),
            task if !task.may_leave() => return false,
            // Only the first rank knows what of a root is done. Parts of a slice that is in the log are done here, but for chunks of its large files.
            Task::Start { .. } if self.journal.is_some() => return false,
            Task::Own(Own { of: Of::Part(_), .. }) if self.journal.is_some() => return false,
            Task::Look { slice, names }
                if self.journal.is_some_and(|journal| stays(journal, slice, names)) =>
            {
                return false;
            }
            task => {
                let debt = self.lend(task);
                let number = self.leave_slice(task);
                let root = |index| {
                    let root = self.roots.get(index);
                    (root.path.clone(), root.inode())
                };
                bytes::Packer { root }.pack((task, last), (debt, number), out);
            }
        }
        true
    }

    /// With a log: makes the names of a task that leaves for another rank a slice of their own, unless they are one. That rank notes their end. A rank that has no log,
    /// since it could not be made, sends a slice on as it is.
    fn leave_slice(&self, task: &Task<V::State>) -> Option<SliceNumber> {
        let Task::Look { slice, names } = task else { return None };
        if let Some(number) = slice.number() {
            slice.leave();
            return Some(number);
        }
        let journal = self.journal?;
        let mut path = CurrentPath::default();
        path.set(slice.directory());
        let at = At { root: slice.directory().root_index(), path: path.below_root() };
        Some(journal.note_leaving(at, names.iter().map(Name::bytes)))
    }

    /// With a log: notes the names of a task that another rank has sent, before they are looked at. Not when they arrive: this rank may send them on,
    /// and would name them when they are done.
    pub(crate) fn note_taken(
        &self,
        worker: &mut Worker<'a, V>,
        (slice, names): (&Arc<Slice<V::State>>, &Names),
        is_stopping: impl Fn() -> bool,
    ) {
        if let (true, Some(journal), Some(number)) = (slice.begin(), self.journal, slice.number())
            && journal.is_of_another(number)
        {
            journal.wait_for_room(is_stopping);
            worker.noter.listed_as(slice.directory(), number, names.iter().map(Name::bytes));
        }
    }

    /// Keeps the units of a task that leaves for another rank, which will owe them.
    fn lend(&self, task: &Task<V::State>) -> Option<Debt> {
        if V::STAGE == Stage::Slices {
            return None;
        }
        if !self.runs_tasks {
            // The task goes on to the rank that will owe its units.
            return task.debt();
        }
        // Below that stage, children are not counted.
        let lend_child = |directory: Arc<DirectoryOf<V>>| {
            let is_counted = V::STAGE >= Stage::Closed;
            if is_counted { self.lent.keep(&Anchor::Directory(directory), Unit::Child) } else { 0 }
        };
        match task.anchor()? {
            (Anchor::Slice(slice), unit) => {
                if unit == Unit::Names {
                    // Its unit of the names ends here: see `Sent`.
                    slice.parts.add();
                }
                let directory = slice.directory();
                // Directories that the other rank finds in the batch are below this one.
                directory.life().add_child();
                let directory = lend_child(Arc::clone(directory));
                let slice = self.lent.keep(&Anchor::Slice(Arc::clone(&slice)), Unit::Part);
                Some(Debt { rank: self.rank, directory, slice })
            }
            (Anchor::Directory(directory), Unit::Child) => {
                let directory = lend_child(directory);
                (directory != 0).then_some(Debt { rank: self.rank, directory, slice: 0 })
            }
            (Anchor::Directory(_), _) => None,
        }
    }

    /// Sends payments, or takes them where they are for this rank.
    pub(crate) fn pay(&self, payments: &mut Vec<Payment>, queue: &mut Queue<'_, Self>) {
        for payment in payments.drain(..) {
            let to = payment.to;
            if to == self.rank {
                // The task came back by way of a rank that runs none. If its debt was damaged on the way, the directory stays open to the end.
                queue.push(Task::Paid(self.returned(payment).into_iter().collect()));
            } else if self.due.add(payment) {
                queue.send(to, Task::Pay(to));
            }
        }
    }

    /// The directory or slice whose units were returned, after their report was added. None: this rank lent no such units, or the report is not
    /// valid.
    fn returned(&self, payment: Payment) -> Option<Paid<V::State>> {
        let Payment { number, unit, count, report, has_failed, .. } = payment;
        let anchor = self.lent.take_many(number, unit, count)?;
        let directory = match &anchor {
            Anchor::Directory(directory) => directory,
            Anchor::Slice(slice) => slice.directory(),
        };
        if has_failed {
            directory.life().note_failure();
        }
        let is_valid = report.is_empty() || self.visit.reported(directory, &report);
        is_valid.then_some(Paid { anchor, count })
    }

    /// Ends units that another rank has returned.
    pub(crate) fn end_paid(&self, worker: &mut Worker<'a, V>, paid: Vec<Paid<V::State>>) {
        let mut closer = self.closer(worker);
        for Paid { anchor, count } in paid {
            for _ in 0..count {
                match &anchor {
                    Anchor::Slice(slice) => closer.end_part(&Part::of(Arc::clone(slice), false)),
                    Anchor::Directory(directory) => closer.end_child(directory),
                }
            }
        }
    }

    /// Encodes a task for the spill file. False: it must stay.
    pub(crate) fn spill_task(
        &self,
        task: &Task<V::State>,
        last: Option<&Task<V::State>>,
        out: &mut Vec<u8>,
    ) -> bool {
        let anchor = if V::STAGE > Stage::Slices { task.anchor() } else { None };
        let Some((anchor, unit)) = anchor else {
            let last = last.filter(|last| V::STAGE == Stage::Slices || last.anchor().is_none());
            // It would be a slice of its own in the log.
            if self.journal.is_some() && matches!(task, Task::Look { .. }) {
                return false;
            }
            if let Some(directory) = task.directory() {
                directory.identify(self.features());
            }
            return self.pack_task(task, last, out);
        };
        if matches!(task, Task::Own(own) if own.to == Some(self.rank)) {
            return false;
        }
        if !task.may_leave() {
            return false;
        }
        bytes::pack_with_anchor(task, (self.anchors.keep(&anchor, unit), unit), out);
        true
    }

    /// A task that was encoded for the spill file stays in memory after all.
    pub(crate) fn release_anchor(&self, task: &Task<V::State>) {
        if V::STAGE > Stage::Slices
            && let Some((anchor, unit)) = task.anchor()
        {
            self.anchors.release(&anchor, unit);
        }
    }

    /// Ends the unit of a task that was written to the spill file, after the current task of this thread. The task is a slice of its own when
    /// it comes back. Only where directories are not followed: otherwise it keeps its unit.
    pub(crate) fn end_of_spilled(&self, task: &Task<V::State>) {
        if V::STAGE == Stage::Slices
            && let Some((Anchor::Slice(slice), unit)) = task.anchor()
        {
            self.sent.leave(|left| left.parts.push(Part::of(slice, unit == Unit::Names)));
        }
    }

    /// Ends what another rank has got, after the next task of this rank. Returns a task for that, unless one waits.
    pub(crate) fn end_of_sent(&self, task: &Task<V::State>) -> Option<Task<V::State>> {
        // A rank without threads opens no directories.
        if let (true, Some(directory)) = (self.runs_tasks, task.directory()) {
            self.sent.keep(directory);
        }
        let Some((Anchor::Slice(slice), unit)) = task.anchor() else { return None };
        let holds_names = unit == Unit::Names;
        // Where directories are followed, other parts end when they are paid for.
        if !holds_names && V::STAGE > Stage::Slices {
            return None;
        }
        // A rank without threads has no directories of its own.
        let needs_task = self.runs_tasks && self.sent.add(Part::of(slice, holds_names));
        needs_task.then_some(Task::EndSent)
    }

    /// Called when no task is left: ends the parts and children of lost tasks, and after a stop the names of sent ones.
    pub(crate) fn end_left(&self, workers: &mut [Worker<'a, V>]) {
        let Some(worker) = workers.first_mut() else { return };
        let (mut left, mut children) = (self.sent.take().unwrap_or_default(), Vec::new());
        for lost in self.anchors.take_lost() {
            match lost {
                Lost::Part(part) => {
                    part.slice().note_failure();
                    left.push(part);
                }
                Lost::Child(directory) => {
                    directory.life().note_failure();
                    children.push(directory);
                }
            }
        }
        while !left.is_empty() {
            self.end_each(worker, left);
            left = self.visit.ended(&mut worker.visit, &mut worker.results);
        }
        for directory in children {
            self.closer(worker).end_child(&directory);
        }
        loop {
            let ended = self.visit.ended(&mut worker.visit, &mut worker.results);
            if ended.is_empty() {
                break;
            }
            self.end_each(worker, ended);
        }
        // No other rank takes payments any more.
        worker.tasks.payments.clear();
    }
}

impl<V: Handler> FindRoot<V::State> for TreeJob<'_, V> {
    fn intern(&self, path: &[u8]) -> Result<u32, &'static str> {
        Ok(self.roots.intern(path.to_vec()))
    }

    fn anchor(&self, number: u64, unit: Unit) -> Result<Anchor<V::State>, &'static str> {
        self.anchors.take(number, unit).ok_or("a task of a directory that is not kept")
    }

    fn is_task(&self, bytes: &[u8], in_directory: bool) -> bool {
        self.visit.is_task(bytes, in_directory)
    }

    fn may_be_slice(&self, number: Option<SliceNumber>) -> bool {
        match (self.journal, number) {
            (Some(journal), Some(number)) => journal.may_be_given(number, self.ranks),
            (Some(_), None) => false,
            // Without a log it looks at none: it stops.
            (None, _) => true,
        }
    }

    fn returned(&self, payment: Payment) -> Result<Paid<V::State>, &'static str> {
        self.returned(payment).ok_or("a payment of units that were not lent")
    }

    /// The thread that communicates calls this, so nothing is opened here. If the root cannot be opened later, only its own tasks fail, each
    /// with its path.
    fn directory_of_sent(&self, index: u32, inode: u64) -> Result<Arc<DirectoryOf<V>>, &'static str> {
        let root = self.roots.find(index).and_then(|root| Directory::unopened_root(index, root));
        let life = if V::STAGE == Stage::Slices { Life::of_sent() } else { Life::of_lent() };
        let root = Arc::new(root.ok_or("an unknown root")?.with_inode(Some(inode)).with_life(life));
        self.visit.root(&root);
        Ok(root)
    }

    /// A root that can no longer be opened makes only its own tasks fail, each with its path.
    fn directory(&self, index: u32) -> Result<Arc<DirectoryOf<V>>, &'static str> {
        let unknown = "an unknown root";
        let root = self.roots.find(index).ok_or(unknown)?;
        self.open_root(index, true).ok().or_else(|| Directory::closed_root(&root.path, index)).ok_or(unknown)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod tests;
