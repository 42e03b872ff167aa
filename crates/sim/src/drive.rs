//! Drives one rank: passes events to its engine, carries out the engine's actions, and keeps the threads busy.
//!
//! Every event of a rank ends in [`World::turn`]:
//!
//! ```text
//!   load changed? ─▶ report load ─▶ read messages, timers ─▶ start threads ─▶ report load ─▶ set alarms
//!                    └── carry out actions of the engine ──┘               └── carry out its actions
//! ```
//!
//! With a communication thread, a rank reads messages whenever that thread is free. Without one, the first worker reads them
//! between two tasks and starts no task while messages are unread.

use std::time::Duration;

use atta_engine::{Action, Load, Message, Rank, ScheduleKind, Share, Tasks};

use crate::check::Wrong;
use crate::process::{NEVER, Process};
use crate::setup::Setup;
use crate::task::{self, Task};
use crate::traffic;
use crate::tree::{below, mix};
use crate::work::{After, Running};
use crate::world::{World, what};

impl World {
    /// A message arrives.
    pub(crate) fn arrive(&mut self, rank: u32, from: u32, message: Message) {
        let process = &mut self.processes[rank as usize];
        if !process.left {
            process.inbox.push_back((from, message));
            return;
        }
        self.check.read(rank, &message);
        if !self.is_repeated(&message) {
            let wrong = Wrong::SentToTheDeparted { by: Rank(from), message: Box::new(message) };
            self.check.fail(self.now, rank, wrong);
        }
    }

    /// Whether this may be a repeated, and perhaps late, acknowledgement of a parcel that was delivered twice.
    fn is_repeated(&self, message: &Message) -> bool {
        self.setup.disturbance.duplicate_one_in > 0 && matches!(message, Message::Accepted { .. })
    }

    /// Runs every decision that depends on the whole state of a rank. Called after each change.
    pub(crate) fn turn(&mut self, rank: u32) {
        let process = &mut self.processes[rank as usize];
        if std::mem::take(&mut process.has_ended_task) {
            // Without a communication thread, messages are read first. Where new tasks are returned, they leave first.
            if self.setup.habits.communication_thread && !process.hands_in {
                self.start_threads(rank);
            }
            self.report_load(rank);
        }
        self.communicate(rank);
        self.start_threads(rank);
        let process = &self.processes[rank as usize];
        // The task that arrived is about to run. Where new tasks are returned, it must not be returned itself.
        let is_about_to_run = process.hands_in
            && process.pool.units() > 0
            && (process.running as usize) < process.threads.len();
        if process.is_stale && !is_about_to_run {
            self.report_load(rank);
        }
        self.count_busy(rank);
        self.set_alarms(rank);
    }

    fn communicate(&mut self, rank: u32) {
        let now = Duration::from_nanos(self.now);
        if !self.may_communicate(rank) {
            return;
        }
        while self.process(rank).free_at <= self.now
            && let Some((from, message)) = self.process(rank).inbox.pop_front()
        {
            self.read(rank, from, message);
        }
        if self.process(rank).free_at <= self.now && self.process(rank).timeout() <= self.now {
            self.process(rank).engine.handle_timeout(now);
            self.act(rank);
        }
    }

    /// Whether a thread can read messages now.
    fn may_communicate(&self, rank: u32) -> bool {
        let (habits, process) = (&self.setup.habits, &self.processes[rank as usize]);
        match (habits.communication_thread, habits.lock_step) {
            (true, _) => true,
            (false, true) => process.running == 0,
            (false, false) => process.threads[0].is_none(),
        }
    }

    fn read(&mut self, rank: u32, from: u32, message: Message) {
        self.check.read(rank, &message);
        let overhead = self.setup.costs.receive_ns;
        self.communicates(rank, overhead);
        if matches!(message, Message::Parcel { .. }) {
            self.check.parcels -= 1;
        }
        let now = Duration::from_nanos(self.now);
        if let Err(error) = self.process(rank).engine.handle_message(now, Rank(from), message) {
            self.check.fail(self.now, rank, Wrong::Protocol(error));
        }
        self.act(rank);
    }

    /// Keeps the thread that handles messages busy for `ns`.
    fn communicates(&mut self, rank: u32, ns: u64) {
        let (now, master_ns) = (self.now, self.setup.costs.master_ns);
        let process = self.process(rank);
        let ns = ns + if process.runs_tasks { 0 } else { master_ns };
        process.free_at = process.free_at.max(now) + ns;
        process.stats.communication_ns += ns;
    }

    /// Starts tasks on the idle threads.
    fn start_threads(&mut self, rank: u32) {
        let (now, habits) = (self.now, self.setup.habits);
        let process = &mut self.processes[rank as usize];
        if process.finishing || !process.runs_tasks || process.pool.units() == 0 {
            return;
        }
        let is_reading = !habits.communication_thread && (process.free_at > now || !process.inbox.is_empty());
        if habits.lock_step && (process.running > 0 || is_reading) {
            return;
        }
        for thread in 0..process.threads.len() as u32 {
            let process = &mut self.processes[rank as usize];
            if process.threads[thread as usize].is_some() || (thread == 0 && is_reading) {
                continue;
            }
            let Some(task) = process.pool.take(habits.breadth_units, habits.slice_units) else { break };
            process.is_stale = true;
            self.begin(rank, thread, task);
        }
    }

    fn begin(&mut self, rank: u32, thread: u32, task: Task) {
        let process = &mut self.processes[rank as usize];
        let running = Running::begin(&self.setup, task, process.slowness);
        process.stats.first_task_ns.get_or_insert(self.now);
        process.threads[thread as usize] = Some(running);
        process.running += 1;
        self.put(self.now + running.ns(), rank, what::THREAD + thread);
        self.begins(rank, running);
    }

    /// A thread has finished its task.
    pub(crate) fn end_task(&mut self, rank: u32, thread: u32) {
        let process = &mut self.processes[rank as usize];
        let Some(running) = process.threads[thread as usize].take() else { return };
        process.running -= 1;
        process.has_ended_task = true;
        process.stats.readdir_ns += running.readdir_ns;
        process.stats.stat_ns += running.stat_ns;
        process.stats.last_task_ns = self.now;
        let worker = &mut process.workers[thread as usize];
        worker.tasks += running.done.tasks();
        worker.work_ns += running.readdir_ns + running.stat_ns;
        atta_engine::Reduce::merge(&mut process.stats.done, &running.done);
        atta_engine::Reduce::merge(&mut self.check.totals, &running.done);
        let (check, pool) = (&mut self.check, &mut process.pool);
        let finishing = process.finishing;
        let mut addressed = Vec::new();
        let mut add = |task| {
            check.created(&task);
            match addressee(&self.setup, rank, &task) {
                _ if finishing => {}
                Some(to) => addressed.push((to, task)),
                None => pool.push_newest(task),
            }
        };
        let after = match &mut self.journals {
            None => running.end(&self.setup, add),
            Some(journals) => {
                let (tasks, after) = journals.end((&self.setup, self.now), rank, &running);
                tasks.into_iter().for_each(&mut add);
                after
            }
        };
        addressed.into_iter().for_each(|(to, task)| self.address(rank, to, task));
        match after {
            After::More(task) if !finishing => self.begin(rank, thread, task),
            After::More(_) => {}
            After::Done => self.check.done(&running.task),
        }
        let process = self.process(rank);
        process.stats.waiting_most = process.stats.waiting_most.max(process.pool.units());
        if finishing {
            self.finish_engine(rank);
        }
    }

    /// Sends a task to the rank that must run it.
    fn address(&mut self, rank: u32, to: u32, task: Task) {
        let (now, habits) = (Duration::from_nanos(self.now), self.setup.habits);
        self.journals.iter_mut().for_each(|journals| journals.write(rank));
        let count = u32::try_from(task.units(habits.batch_files)).unwrap_or(u32::MAX);
        let bytes = task::encode(&[task], habits.full_paths).into();
        self.process(rank).engine.address(now, Rank(to), Tasks { count, bytes });
        self.act(rank);
    }

    fn report_load(&mut self, rank: u32) {
        let now = Duration::from_nanos(self.now);
        let process = self.process(rank);
        process.is_stale = false;
        let load = Load {
            waiting: process.pool.units(),
            running: u64::from(process.running),
            slots: process.threads.len() as u64,
        };
        process.engine.handle_load(now, load);
        self.act(rank);
    }

    /// Carries out the engine's actions.
    pub(crate) fn act(&mut self, rank: u32) {
        let now = Duration::from_nanos(self.now);
        while let Some(action) = self.process(rank).engine.poll_action() {
            match action {
                Action::Send { to, message } => self.send(rank, to.0, message),
                Action::Take { share, .. } => self.take(rank, share),
                Action::Accept { tasks, .. } => {
                    let process = self.process(rank);
                    task::decode(&tasks.bytes).rev().for_each(|task| process.pool.push_oldest(task));
                    process.stats.waiting_most = process.stats.waiting_most.max(process.pool.units());
                    process.is_stale = true;
                }
                Action::Report => {
                    let totals = self.process(rank).totals();
                    self.process(rank).engine.report(now, totals);
                }
                Action::Progress(_) => {}
                Action::Finish(reason) => {
                    self.count_busy(rank);
                    if rank == 0 {
                        // With logs, earlier runs have done some of them.
                        let files = self.journals.is_none().then(|| self.setup.tree.files());
                        self.check.announce(self.now, reason, files);
                    }
                    let process = self.process(rank);
                    process.finishing = true;
                    process.pool.clear();
                    self.finish_engine(rank);
                }
                Action::Result(totals) => self.check.result(totals),
                Action::Leave => self.leave(rank),
            }
        }
    }

    fn send(&mut self, rank: u32, to: u32, message: Message) {
        let overhead = self.setup.costs.send_ns;
        self.communicates(rank, overhead);
        let (kind, bytes) = (traffic::kind(&message), traffic::bytes(&message));
        let process = &mut self.processes[rank as usize];
        process.stats.sent.messages += 1;
        process.stats.sent.bytes += bytes;
        let (free_at, arrives) = self.traffic.send(process.free_at, rank, to, kind, bytes);
        process.stats.communication_ns += free_at - process.free_at;
        process.free_at = free_at;
        if matches!(message, Message::Parcel { .. }) {
            self.check.parcels += 1;
            if self.traffic.duplicates() {
                self.check.parcels += 1;
                self.put_message(arrives, rank, to, message.clone());
            }
        }
        self.put_message(arrives, rank, to, message);
    }

    fn take(&mut self, rank: u32, share: Share) {
        let (now, full_paths) = (Duration::from_nanos(self.now), self.setup.habits.full_paths);
        self.journals.iter_mut().for_each(|journals| journals.write(rank));
        let process = self.process(rank);
        let (count, tasks) = process.pool.take_share(share);
        let bytes = task::encode(&tasks, full_paths);
        process.engine.give(now, Tasks { count, bytes: bytes.into() });
    }

    /// Gives the engine the last totals, once no thread runs any more.
    fn finish_engine(&mut self, rank: u32) {
        let now = Duration::from_nanos(self.now);
        let process = self.process(rank);
        if process.running == 0 && !process.finished {
            process.finished = true;
            let totals = process.totals();
            process.engine.finish(now, totals);
        }
    }

    fn leave(&mut self, rank: u32) {
        let now = self.now;
        let process = &mut self.processes[rank as usize];
        process.left = true;
        let unread: Vec<(u32, Message)> = process.inbox.drain(..).collect();
        if unread.iter().any(|(_, message)| !self.is_repeated(message)) {
            self.check.fail(now, rank, Wrong::LeftUnread);
        }
        self.check.left += 1;
    }

    /// Reports the number of waiting and running tasks to the checkers.
    fn count_busy(&mut self, rank: u32) {
        let process = &mut self.processes[rank as usize];
        let busy = process.busy();
        self.check.busy = self.check.busy + busy - process.known_busy;
        process.known_busy = busy;
    }

    fn set_alarms(&mut self, rank: u32) {
        let (now, habits) = (self.now, self.setup.habits);
        let may_communicate = self.may_communicate(rank);
        let process = self.process(rank);
        if process.left {
            return;
        }
        let waits_to_work = !habits.communication_thread && process.pool.units() > 0 && process.runs_tasks;
        let wants_to_wake = may_communicate && (waits_to_work || !process.inbox.is_empty());
        let wakes = wants_to_wake && process.free_at > now && process.wake_at == NEVER;
        if wakes {
            process.wake_at = process.free_at;
        }
        // Never at the present time: an engine that always asks for that would stop the clock.
        let timer_at = process.timeout().max(process.free_at).max(now + 1);
        let times = may_communicate && timer_at < process.timer_at;
        if times {
            process.timer_at = timer_at;
        }
        let wake_at = process.wake_at;
        if wakes {
            self.put(wake_at, rank, what::WAKE);
        }
        if times {
            self.put(timer_at, rank, what::TIMER);
        }
    }

    pub(crate) fn process(&mut self, rank: u32) -> &mut Process {
        &mut self.processes[rank as usize]
    }
}

/// The other rank that must run a new task, if any. Never a master, which runs no tasks.
fn addressee(setup: &Setup, here: u32, task: &Task) -> Option<u32> {
    let draw = mix(setup.engine.seed ^ mix(task.seed ^ task.from));
    let one_in = u64::from(setup.disturbance.addressed_one_in);
    let to = below(mix(draw), u64::from(setup.ranks)) as u32;
    let is_wanted = one_in > 0 && draw.is_multiple_of(one_in) && to != here;
    let has_master =
        matches!(setup.engine.schedule, ScheduleKind::Centralized | ScheduleKind::CentralizedKeep);
    (is_wanted && !(has_master && to == 0)).then_some(to)
}
