//! The tasks of this rank as the rest of the job sees them: how many there are, some for another rank, some from one.
//! The supervising thread's side of the pool; it speaks to nobody itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use atta_engine::{Load, Share, Tasks};
use crossbeam_deque::Steal;

use crate::Job;
use crate::bell::Bell;
use crate::pool::Shared;
use crate::stream::Outbox;

/// Bytes of tasks in one parcel, about: large enough for many directories, small enough to arrive at once.
const PARCEL_BYTES: usize = 256 << 10;

/// Speaks with the other ranks of a job.
pub(crate) trait Peer {
    /// What to ring when a message may have come.
    fn bell(&self) -> Bell;

    /// What workers may be waiting for room in.
    fn outbox(&self) -> Outbox;

    /// Whether this rank runs tasks.
    fn runs_tasks(&self) -> bool;

    /// Of what a task leads to, so many stay here; none: all.
    fn kept(&self) -> Option<usize>;

    /// Does what is to be done now; returns for how long nothing else will be, unless the bell rings.
    fn attend(&mut self, local: &dyn Local, stopping: bool) -> Duration;

    /// Whether no more tasks are to be run, here or anywhere.
    fn has_finished(&self) -> bool;

    /// Whether it ended before all was done.
    fn was_stopped(&self) -> bool;
}

/// The tasks of this rank.
pub(crate) trait Local {
    /// How many there are. Zero exactly if there are none: see [`Idle::busy`](crate::idle::Idle::busy).
    fn load(&self) -> Load;

    /// Takes some for another rank, oldest first.
    fn take(&self, share: Share) -> Tasks;

    /// Adds some from another rank.
    ///
    /// # Errors
    /// They are not what another rank of this program would send.
    fn accept(&self, tasks: &Tasks) -> Result<(), String>;

    /// Says whether another rank wants work that this one could not give.
    fn set_wanted(&self, wanted: bool);
}

impl<J: Job> Local for Shared<'_, J> {
    fn load(&self) -> Load {
        let started = self.started.load(Ordering::Acquire);
        let slots = started.min(self.wanted.load(Ordering::Relaxed)) as u64;
        let busy = self.idle.busy(|| self.is_empty() && self.outgoing.is_empty()) as u64;
        if started == 0 {
            // Nobody runs anything here: what there is waits for other ranks.
            return Load { waiting: self.seeds.len() as u64, running: 0, slots: 0 };
        }
        if busy == 0 {
            return Load { waiting: 0, running: 0, slots };
        }
        if let Some(kept) = self.kept {
            // What may stay is for the workers here, and counts as running, but for the share that the engine leaves them.
            let leaving = self.outgoing.len();
            let waiting = if leaving > 0 { leaving + kept } else { 0 };
            return Load { waiting: waiting as u64, running: busy, slots };
        }
        // Spilled ones are not counted: a worker brings them back before they can be given.
        let in_deques: usize = self.stealers.iter().take(started).map(crossbeam_deque::Stealer::len).sum();
        let waiting = in_deques + self.seeds.len();
        Load { waiting: waiting as u64, running: busy, slots }
    }

    fn take(&self, share: Share) -> Tasks {
        let mut parcel = Packer { shared: self, bytes: Vec::new(), tasks: Vec::new(), stay: Vec::new() };
        let most = usize::try_from(share.of(self.load().waiting)).unwrap_or(usize::MAX);
        parcel.fill(most);
        parcel.seal()
    }

    fn accept(&self, tasks: &Tasks) -> Result<(), String> {
        let unpacked = self.job.arrive(&tasks.bytes).map_err(str::to_owned)?;
        let weight: usize = unpacked.iter().map(|task| self.job.weigh(task)).sum();
        self.outside().hold(i64::try_from(weight).unwrap_or(i64::MAX));
        unpacked.into_iter().for_each(|task| self.seeds.push(task));
        self.idle.wake_all();
        Ok(())
    }

    fn set_wanted(&self, wanted: bool) {
        if self.is_wanted.load(Ordering::Relaxed) != wanted {
            self.is_wanted.store(wanted, Ordering::Relaxed);
        }
    }
}

/// Puts tasks into a parcel.
struct Packer<'a, 'b, J: Job> {
    shared: &'a Shared<'b, J>,
    bytes: Vec<u8>,
    tasks: Vec<J::Task>,
    /// What cannot be bytes, and so stays.
    stay: Vec<J::Task>,
}

impl<J: Job> Packer<'_, '_, J> {
    /// Takes up to `most` tasks: those that must leave, where there are such; else those that no worker holds, then the
    /// oldest of each worker in turn.
    fn fill(&mut self, most: usize) {
        let shared = self.shared;
        let first = if shared.kept.is_some() { &shared.outgoing } else { &shared.seeds };
        while self.wants(most)
            && let Some(task) = next(|| first.steal())
        {
            self.add(task);
        }
        let workers = if shared.kept.is_some() { 0 } else { shared.started.load(Ordering::Acquire) };
        let mut found = true;
        while found && self.wants(most) {
            found = false;
            for stealer in shared.stealers.iter().take(workers) {
                if self.wants(most)
                    && let Some(task) = next(|| stealer.steal())
                {
                    found = true;
                    self.add(task);
                }
            }
        }
    }

    fn wants(&self, most: usize) -> bool {
        self.tasks.len() + self.stay.len() < most && self.bytes.len() < PARCEL_BYTES
    }

    fn add(&mut self, task: J::Task) {
        if self.shared.job.pack(&task, self.tasks.last(), &mut self.bytes) {
            self.tasks.push(task);
        } else {
            self.stay.push(task);
        }
    }

    fn seal(self) -> Tasks {
        let shared = self.shared;
        let had_to_stay = !self.stay.is_empty();
        self.stay.into_iter().for_each(|task| shared.seeds.push(task));
        if had_to_stay {
            shared.idle.wake_all();
        }
        let freed: usize = self.tasks.iter().map(|task| shared.job.weigh(task)).sum();
        shared.outside().hold(-i64::try_from(freed).unwrap_or(i64::MAX));
        let count = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        Tasks { count, bytes: self.bytes.into() }
    }
}

/// Repeats a steal that lost a race.
fn next<T>(steal: impl Fn() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}
