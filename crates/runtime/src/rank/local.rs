//! The tasks of this rank as seen by the rest of the job: the load, tasks for other ranks, tasks from other ranks. This is the
//! supervising thread's side of the pool; it sends no messages.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use atta_engine::{Load, Share, Tasks};
use crossbeam_deque::Steal;

use crate::bell::Bell;
use crate::job::Job;
use crate::pool::shared::Shared;
use crate::rank::outbox::Outbox;

/// Approximate bytes of tasks in a parcel: large enough for many directories, small enough to arrive at once.
const PARCEL_BYTES: usize = 256 << 10;
/// The maximum of tasks checked for a parcel: tasks that stay are moved, and no other thread can take them meanwhile.
const LOOKS_MOST: u64 = 4096;

/// How long a rank waits for work from others before it ends what waits in the job: that may need a sync, which pays off for much.
const REST_AFTER: Duration = Duration::from_millis(5);

/// Communicates with the other ranks of a job.
pub(crate) trait Peer {
    /// The bell to ring when a message may have arrived.
    fn bell(&self) -> Bell;

    /// The outbox, in which workers may wait for room.
    fn outbox(&self) -> Outbox;

    /// Whether this rank runs tasks.
    fn runs_tasks(&self) -> bool;

    /// The number of new tasks that stay here. None: all.
    fn kept(&self) -> Option<usize>;

    /// Does all current work. Returns the time until the next work, unless the bell rings.
    fn attend(&mut self, local: &dyn Local, stopping: bool) -> Duration;

    /// Whether no more tasks may run, here or anywhere.
    fn has_finished(&self) -> bool;

    /// Whether the job ended before all was done.
    fn was_stopped(&self) -> bool;
}

/// The tasks of this rank.
pub(crate) trait Local {
    /// The current load. Zero exactly if there are no tasks (see [`Idle::busy`](crate::idle::Idle::busy)) and the job has no rest.
    fn load(&self) -> Load;

    /// Takes tasks for another rank: the same fraction of the old ones as of the new.
    ///
    /// # Errors
    /// A task must leave but cannot.
    fn take(&self, share: Share) -> Result<Tasks, &'static str>;

    /// The next task addressed to another rank, with that rank.
    ///
    /// # Errors
    /// The task cannot leave.
    fn next_addressed(&self) -> Result<Option<(u32, Tasks)>, &'static str>;

    /// Adds tasks from another rank.
    ///
    /// # Errors
    /// The bytes are not valid tasks of this program.
    fn accept(&self, tasks: &Tasks) -> Result<(), String>;

    /// Sets whether this rank refused a request of another rank.
    fn set_wanted(&self, wanted: bool);

    /// Whether a worker has not ended yet.
    fn is_at_work(&self) -> bool;
}

impl<J: Job> Local for Shared<'_, J> {
    fn load(&self) -> Load {
        let started = self.started.load(Ordering::Acquire);
        let slots = started.min(self.wanted.load(Ordering::Relaxed)) as u64;
        let busy = self.idle.busy(|| self.is_empty() && self.outgoing.is_empty() && self.addressed.is_empty())
            as u64;
        if started == 0 {
            // No task runs here: all wait for other ranks.
            return Load { waiting: self.seeds.len() as u64, running: 0, slots: 0 };
        }
        if busy == 0 {
            // A rank that holds something is not idle: its work is not done.
            return Load { waiting: 0, running: u64::from(rests(self)), slots };
        }
        self.is_drained.store(false, Ordering::Relaxed);
        if let Some(kept) = self.kept {
            // Tasks that may stay are for the local workers and count as running, except for the share that the engine leaves them.
            let leaving = self.outgoing.len();
            let waiting = if leaving > 0 { leaving + kept } else { 0 };
            return Load { waiting: waiting as u64, running: busy, slots };
        }
        // Spilled tasks are not counted: a worker must bring them back before they can be given.
        let in_deques: usize = self.stealers.iter().take(started).map(crossbeam_deque::Stealer::len).sum();
        let waiting = in_deques + self.seeds.len();
        // A worker that is being woken, or that looks for a task, is about to take one of those that wait. If it counted as running, the
        // only task of this rank would count as spare and leave before that worker has it, and so on each rank that it comes to.
        let running = if waiting > 0 { running(self, started) } else { busy };
        Load { waiting: waiting as u64, running, slots }
    }

    fn take(&self, share: Share) -> Result<Tasks, &'static str> {
        let Load { waiting, running, slots } = self.load();
        // The engine has decided by an older load: tasks that workers here are about to take stay, unless none may stay.
        let about_to_run = if self.kept.is_none() { slots.saturating_sub(running) } else { 0 };
        let most = share.of(waiting).min(waiting.saturating_sub(about_to_run));
        let among = if matches!(share, Share::Part(_)) { waiting } else { most };
        let mut packer = Packer::new(self, most, among);
        packer.choose();
        let (parcel, was_refused) = packer.pack();
        if was_refused && parcel.count == 0 && self.started.load(Ordering::Acquire) == 0 {
            return Err(
                "a task cannot become bytes (Job::pack), and this rank hands out tasks and runs none",
            );
        }
        Ok(parcel)
    }

    fn next_addressed(&self) -> Result<Option<(u32, Tasks)>, &'static str> {
        let Some((rank, task)) = next(|| self.addressed.steal()) else { return Ok(None) };
        let mut bytes = Vec::new();
        if !self.job.pack(&task, None, &mut bytes) {
            return Err("a task for another rank cannot become bytes (Job::pack)");
        }
        release(self, std::slice::from_ref(&task));
        Ok(Some((rank, Tasks { count: 1, bytes: bytes.into() })))
    }

    fn accept(&self, tasks: &Tasks) -> Result<(), String> {
        let unpacked = self.job.arrive(&tasks.bytes).map_err(str::to_owned)?;
        self.outside().hold(weight(self, &unpacked));
        give_back(self, unpacked);
        Ok(())
    }

    fn set_wanted(&self, wanted: bool) {
        if self.is_wanted.load(Ordering::Relaxed) != wanted {
            self.is_wanted.store(wanted, Ordering::Relaxed);
        }
    }

    fn is_at_work(&self) -> bool {
        self.ended.load(Ordering::Acquire) < self.started.load(Ordering::Relaxed)
    }
}

/// Puts tasks into a parcel: `most` of those checked, from the oldest on.
///
/// The oldest are the largest, so a rank that gave them all away would soon have no work; those in between stay. They go back
/// before packing: meanwhile the workers have them.
struct Packer<'a, 'b, J: Job> {
    shared: &'a Shared<'b, J>,
    chosen: Vec<J::Task>,
    /// The part for this rank.
    stay: Vec<J::Task>,
    most: u64,
    among: u64,
    /// The number of tasks checked.
    seen: u64,
}

impl<'a, 'b, J: Job> Packer<'a, 'b, J> {
    fn new(shared: &'a Shared<'b, J>, most: u64, among: u64) -> Self {
        Self { shared, chosen: Vec::new(), stay: Vec::new(), most, among, seen: 0 }
    }

    /// Selects tasks: those that must leave, if any; otherwise those that no worker holds, then the oldest of each worker in turn.
    fn choose(&mut self) {
        let shared = self.shared;
        let first = if shared.kept.is_some() { &shared.outgoing } else { &shared.seeds };
        while self.wants()
            && let Some(task) = next(|| first.steal())
        {
            self.add(task);
        }
        let workers = if shared.kept.is_some() { 0 } else { shared.started.load(Ordering::Acquire) };
        let mut found = true;
        while found && self.wants() {
            found = false;
            for stealer in shared.stealers.iter().take(workers) {
                if self.wants()
                    && let Some(task) = next(|| stealer.steal())
                {
                    found = true;
                    self.add(task);
                }
            }
        }
        give_back(shared, std::mem::take(&mut self.stay));
    }

    fn wants(&self) -> bool {
        self.seen < self.among.min(LOOKS_MOST)
    }

    fn add(&mut self, task: J::Task) {
        let due = |seen| (u128::from(seen) * u128::from(self.most)).div_ceil(u128::from(self.among));
        let is_due = due(self.seen + 1) > due(self.seen);
        self.seen += 1;
        if is_due { self.chosen.push(task) } else { self.stay.push(task) }
    }

    /// Packs the selected tasks. Tasks that cannot be encoded, or that exceed the parcel, go back. The flag: some task could not be
    /// encoded.
    fn pack(self) -> (Tasks, bool) {
        let shared = self.shared;
        let (mut bytes, mut tasks, mut back) = (Vec::new(), Vec::<J::Task>::new(), Vec::new());
        let mut was_refused = false;
        for task in self.chosen {
            let has_room = bytes.len() < PARCEL_BYTES;
            if has_room && shared.job.pack(&task, tasks.last(), &mut bytes) {
                tasks.push(task);
            } else {
                was_refused |= has_room;
                back.push(task);
            }
        }
        give_back(shared, back);
        release(shared, &tasks);
        let count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        (Tasks { count, bytes: bytes.into() }, was_refused)
    }
}

/// The number of workers that run a task.
fn running<J: Job>(shared: &Shared<'_, J>, started: usize) -> u64 {
    (0..started).filter(|&index| shared.meter(index).is_running()).count() as u64
}

/// Whether something still waits in the job that a task can end. Adds that task when no work has come for a while.
fn rests<J: Job>(shared: &Shared<'_, J>) -> bool {
    if shared.job.rest().is_none() {
        return false;
    }
    let mut since = shared.drained_since.lock().unwrap_or_else(PoisonError::into_inner);
    if !shared.is_drained.swap(true, Ordering::Relaxed) {
        *since = Instant::now();
    }
    if since.elapsed() >= REST_AFTER && shared.add_rest() {
        shared.is_drained.store(false, Ordering::Relaxed);
        shared.idle.wake_all();
    }
    true
}

/// Lets go of tasks that have left, and adds what follows from that for the workers.
fn release<J: Job>(shared: &Shared<'_, J>, left: &[J::Task]) {
    let follow: Vec<_> = left.iter().filter_map(|task| shared.job.sent(task)).collect();
    shared.outside().hold(weight(shared, &follow) - weight(shared, left));
    give_back(shared, follow);
}

/// The memory that tasks hold, in bytes.
fn weight<J: Job>(shared: &Shared<'_, J>, tasks: &[J::Task]) -> i64 {
    tasks.iter().map(|task| i64::try_from(shared.job.weigh(task)).unwrap_or(i64::MAX)).sum()
}

/// Gives to the workers the tasks that do not leave.
fn give_back<J: Job>(shared: &Shared<'_, J>, tasks: Vec<J::Task>) {
    if tasks.is_empty() {
        return;
    }
    tasks.into_iter().for_each(|task| shared.seeds.push(task));
    shared.idle.wake_all();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::shared::Ranks;
    use crate::{Options, Queue};

    /// Numbers, four bytes each; nothing runs. Numbers divisible by 1,000 cannot leave.
    struct Numbers;

    impl Job for Numbers {
        type Task = u32;
        type Worker = ();

        fn worker(&self, _index: usize) {}

        fn run(&self, _worker: &mut (), _task: u32, _queue: &mut Queue<'_, Self>) {}

        fn pack(&self, task: &u32, _last: Option<&u32>, out: &mut Vec<u8>) -> bool {
            out.extend_from_slice(&task.to_le_bytes()[..if task.is_multiple_of(1000) { 0 } else { 4 }]);
            !task.is_multiple_of(1000)
        }
    }

    /// What is taken of numbers that wait in the deque of a worker and outside, and how many are left.
    fn taken(
        outside: impl Iterator<Item = u32>,
        inside: impl Iterator<Item = u32>,
        share: Share,
    ) -> (Vec<u32>, u64) {
        let deques = [crossbeam_deque::Worker::new_lifo()];
        let shared = Shared::new(&Numbers, &Options::default(), &deques, None);
        shared.started.store(1, Ordering::Release);
        shared.meter(0).task_begins();
        outside.for_each(|number| shared.seeds.push(number));
        inside.for_each(|number| deques[0].push(number));
        let tasks = shared.take(share).unwrap();
        let numbers: Vec<u32> =
            tasks.bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        assert_eq!(numbers.len(), tasks.count as usize);
        (numbers, (shared.seeds.len() + deques[0].len()) as u64)
    }

    #[test]
    fn a_part_is_taken_from_old_and_new_tasks_alike() {
        let half = Share::Part(1 << 15);
        assert_eq!(taken(1..4, 4..10, half), (vec![1, 2, 4, 6, 8], 4));
        assert_eq!(taken(1..1, 1..9, Share::Part(1 << 14)), (vec![1, 5], 6));
        assert_eq!(taken(1..3, 3..9, Share::One), (vec![1], 7));
        assert_eq!(taken(1..1, 1..9, Share::AllBut(5)), (vec![1, 2, 3], 5));
        assert_eq!(taken(1..1, 1..1, half), (vec![], 0));
    }

    #[test]
    fn task_stays_for_a_worker_that_wakes() {
        let deques = [crossbeam_deque::Worker::new_lifo(), crossbeam_deque::Worker::new_lifo()];
        let shared = Shared::new(&Numbers, &Options::default(), &deques, Some(Ranks::default()));
        shared.started.store(2, Ordering::Release);
        shared.seeds.push(1);
        assert_eq!(shared.load(), Load { waiting: 1, running: 0, slots: 2 });
        assert_eq!(shared.take(Share::One).unwrap().count, 0, "both workers look for a task");

        shared.meter(1).task_begins();
        assert_eq!(shared.take(Share::AllBut(0)).unwrap().count, 0, "one worker looks for a task");
        shared.seeds.push(2);
        assert_eq!(shared.take(Share::AllBut(0)).unwrap().count, 1);

        shared.meter(0).task_begins();
        assert_eq!(shared.load(), Load { waiting: 1, running: 2, slots: 2 });
        assert_eq!(shared.take(Share::One).unwrap().count, 1, "all workers have tasks");
    }

    #[test]
    fn what_cannot_leave_stays_and_few_are_moved_of_many() {
        assert_eq!(taken(999..1001, 1001..1002, Share::AllBut(0)), (vec![999, 1001], 1));
        let (given, left) = taken(1..10, 10..100_000, Share::Part(1 << 15));
        assert_eq!(given.len() as u64 + left, 99_999);
        assert!((2000..=2048).contains(&given.len()), "{}", given.len());
        assert!(given.iter().all(|number| *number < 5000));
    }
}
