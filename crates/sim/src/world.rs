//! All ranks and the clock: builds them, runs the events, and sums up. `drive.rs` drives one rank.

use std::ops::ControlFlow;
use std::time::Duration;

use atta_engine::{Counts, Message, Reason, ScheduleKind};

use crate::check::{Check, Violation, Wrong};
use crate::events::{Event, Events};
use crate::logged::Journals;
use crate::outcome::Outcome;
use crate::points::{Passing, Passings};
use crate::process::Process;
use crate::setup::Setup;
use crate::task::Task;
use crate::traffic::{self, Traffic};
use crate::tree::mix;
use crate::work::Running;

/// Up to this many ranks, `proximity` knows distances. Each rank then has a list of all others; beyond that it uses a ring.
const DISTANCES_MOST: u32 = 4096;

/// Events between two calls of the watcher: some milliseconds.
const WATCHED_EVERY: u64 = 1 << 14;

/// The meaning of an event's number. Threads and messages add their own number.
pub(crate) mod what {
    /// The thread that handles messages is free.
    pub(crate) const WAKE: u32 = 0;
    /// A timer of the engine.
    pub(crate) const TIMER: u32 = 1;
    /// The rank asks for an early end.
    pub(crate) const STOP: u32 = 2;
    /// From here on: the thread with this number has finished its task.
    pub(crate) const THREAD: u32 = 8;
    /// From here on: the message with this number arrives.
    pub(crate) const MESSAGE: u32 = 1 << 31;
}

/// Runs a simulation to its end.
///
/// # Errors
/// A checker found a violation.
pub fn simulate(setup: &Setup) -> Result<Outcome, Violation> {
    let mut world = World::new(*setup);
    world.start();
    while world.advance() {}
    world.finish()
}

/// Like [`simulate`], but calls `watch` with the number of files done, at intervals. None: `watch` stopped the run.
///
/// # Errors
/// A checker found a violation.
pub fn simulate_watched(
    setup: &Setup,
    mut watch: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Outcome>, Violation> {
    let mut world = World::new(*setup);
    world.start();
    while world.advance() {
        if world.handled.is_multiple_of(WATCHED_EVERY) && watch(world.check.totals.files).is_break() {
            return Ok(None);
        }
    }
    world.finish().map(Some)
}

/// A simulation in progress.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) now: u64,
    pub(crate) events: Events,
    pub(crate) processes: Vec<Process>,
    pub(crate) traffic: Traffic,
    pub(crate) check: Check,
    /// The logs of its ranks, if they write any.
    pub(crate) journals: Option<Journals>,
    /// The point at which a rank may die, and how it dies.
    points: Option<(Passings, Option<Passing>)>,
    messages: Messages,
    handled: u64,
    trace: u64,
}

/// The state of a world that came to a time, or of which a rank has died.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What became of it, if all was done before.
    pub(crate) outcome: Option<Outcome>,
    /// Files that were handled.
    pub(crate) files: u64,
    /// How often the point was passed.
    pub(crate) passed: u64,
    /// How a rank has died at the point.
    pub(crate) died: Option<Passing>,
    pub(crate) journals: Option<Journals>,
}

/// Messages in flight, by number, with their sender.
#[derive(Debug, Default)]
struct Messages {
    slots: Vec<Option<(u32, Message)>>,
    free: Vec<u32>,
}

impl Messages {
    fn put(&mut self, from: u32, message: Message) -> u32 {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = Some((from, message));
            return number;
        }
        self.slots.push(Some((from, message)));
        (self.slots.len() - 1) as u32
    }

    fn take(&mut self, number: u32) -> Option<(u32, Message)> {
        self.free.push(number);
        self.slots[number as usize].take()
    }
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let with_distances =
            setup.engine.schedule == ScheduleKind::Proximity && setup.ranks <= DISTANCES_MOST;
        let ranks = setup.ranks.max(1);
        let setup = Setup { ranks, ..setup };
        let (network, seed) = (setup.network, setup.engine.seed);
        Self {
            setup,
            now: 0,
            events: Events::new(),
            processes: (0..ranks).map(|rank| Process::new(&setup, rank, with_distances)).collect(),
            traffic: Traffic::new(network, setup.disturbance, ranks, setup.count_pairs, seed),
            check: Check::new(ranks),
            journals: None,
            points: None,
            messages: Messages::default(),
            handled: 0,
            trace: 0,
        }
    }

    /// With logs of its ranks.
    pub(crate) fn with_journals(self, journals: Journals) -> Self {
        Self { journals: Some(journals), ..self }
    }

    /// Runs the first so many events, or all. Returns whether there were no more, and the logs.
    ///
    /// # Errors
    /// A checker found a violation.
    pub(crate) fn run_until(mut self, last: u64, tasks: Vec<Task>) -> Result<(bool, Journals), Violation> {
        self.start_with(tasks);
        while self.handled < last && self.advance() {}
        let is_ended = self.handled < last;
        let journals = self.journals.take();
        let ended =
            if is_ended { self.finish().map(drop) } else { self.check.violation().map_or(Ok(()), Err) };
        ended.map(|()| (is_ended, journals.unwrap_or_else(|| unreachable!("a job with logs has them"))))
    }

    /// With a point at which a rank may die.
    pub(crate) fn with_point(self, passings: Passings) -> Self {
        Self { points: Some((passings, None)), ..self }
    }

    /// Runs until this time, until a rank dies at a point, or all.
    ///
    /// # Errors
    /// A checker found a violation.
    pub(crate) fn run_for(mut self, until_ns: u64, tasks: Vec<Task>) -> Result<Ended, Violation> {
        self.start_with(tasks);
        while self.now < until_ns && self.advance() {}
        let (journals, files) = (self.journals.take(), self.check.totals.files);
        let (passings, died) = self.points.take().unzip();
        let (passed, died) = (passings.map_or(0, |passings| passings.passed()), died.flatten());
        let is_over = self.now < until_ns && died.is_none();
        let outcome = match is_over {
            true => Some(self.finish()?),
            false => self.check.violation().map_or(Ok(None), Err)?,
        };
        Ok(Ended { outcome, files, passed, died, journals })
    }

    /// A task of a rank begins, in which the rank may die.
    pub(crate) fn begins(&mut self, rank: u32, running: Running) {
        if let Some((passings, _)) = &mut self.points {
            passings.begin(&self.setup.costs, (rank, self.now), running);
        }
    }

    fn start(&mut self) {
        self.start_with(vec![Task::directory(&self.setup.tree.root())]);
    }

    /// Starts with these tasks, on the first rank.
    fn start_with(&mut self, tasks: Vec<Task>) {
        for task in tasks {
            self.check.created(&task);
            self.processes[0].pool.push_newest(task);
        }
        if let Some((at, rank)) = self.setup.disturbance.stop {
            self.put(at, rank.min(self.setup.ranks - 1), what::STOP);
        }
        (0..self.setup.ranks).for_each(|rank| self.turn(rank));
    }

    /// Runs the next event. False: there is none, a rank dies before it, or a checker found a violation.
    fn advance(&mut self) -> bool {
        let Some(event) = self.events.pop() else { return false };
        if let Some((passings, died)) = &mut self.points {
            *died = passings.until(event.time);
            if died.is_some() {
                return false;
            }
        }
        self.step(event);
        !self.check.has_failed()
    }

    /// Schedules an event at `time`.
    pub(crate) fn put(&mut self, time: u64, rank: u32, what: u32) {
        self.events.push(Event { time, rank, what });
    }

    /// Schedules the arrival of a message at `time`.
    pub(crate) fn put_message(&mut self, time: u64, from: u32, to: u32, message: Message) {
        self.check.sent(self.now, to, &message);
        let number = self.messages.put(from, message);
        self.put(time, to, what::MESSAGE | number);
    }

    fn step(&mut self, event: Event) {
        let Event { time, rank, what } = event;
        self.now = time;
        self.handled += 1;
        if self.handled > self.setup.events_most {
            self.check.fail(time, rank, Wrong::Endless);
            return;
        }
        self.note(time ^ u64::from(rank) << 40 ^ u64::from(what) << 20);
        if what & what::MESSAGE != 0 {
            let Some((from, message)) = self.messages.take(what & !what::MESSAGE) else { return };
            self.note(u64::from(from) << 8 ^ traffic::kind(&message) as u64 ^ traffic::bytes(&message) << 40);
            self.arrive(rank, from, message);
        } else if what >= what::THREAD {
            self.end_task(rank, what - what::THREAD);
        } else if what == what::STOP {
            self.stop(rank);
        } else if what == what::WAKE {
            self.processes[rank as usize].wake_at = crate::process::NEVER;
        } else if self.processes[rank as usize].timer_at == time {
            // Otherwise this timer was replaced by an earlier one.
            self.processes[rank as usize].timer_at = crate::process::NEVER;
        }
        self.turn(rank);
    }

    fn note(&mut self, number: u64) {
        self.trace = mix(self.trace ^ number);
    }

    fn stop(&mut self, rank: u32) {
        let now = Duration::from_nanos(self.now);
        self.processes[rank as usize].engine.stop(now, Reason::Stopped);
        self.act(rank);
    }

    fn finish(mut self) -> Result<Outcome, Violation> {
        self.check.end(self.now, self.setup.ranks);
        let totals = self.check.totals;
        let announced = self.check.announced;
        if let Some(violation) = self.check.violation() {
            return Err(violation);
        }
        let workers = || self.processes.iter().filter(|process| process.runs_tasks);
        let (reason, announced_ns) = announced.unwrap_or((Reason::Failed, self.now));
        Ok(Outcome {
            run_ns: self.processes.iter().map(|process| process.free_at).max().unwrap_or(self.now),
            announced_ns,
            reason,
            all_begun_ns: workers().filter_map(|process| process.stats.first_task_ns).max().unwrap_or(0),
            first_out_ns: workers().map(|process| process.stats.last_task_ns).min().unwrap_or(0),
            ranks_without_tasks: workers().filter(|process| process.stats.last_task_ns == 0).count() as u32,
            totals,
            threads: workers().map(|process| process.threads.len() as u64).sum(),
            counts: sum(self.processes.iter().map(|process| process.engine.counts())),
            ranks: self.processes.iter().map(|process| process.stats).collect(),
            workers: self.processes.iter().flat_map(|process| process.workers.iter().copied()).collect(),
            kinds: self.traffic.kinds,
            pairs: self.traffic.pairs,
            events: self.handled,
            trace: self.trace,
        })
    }
}

fn sum(counts: impl Iterator<Item = Counts>) -> Counts {
    counts.fold(Counts::default(), |sum, one| Counts {
        requests: sum.requests + one.requests,
        refused: sum.refused + one.refused,
        parcels_given: sum.parcels_given + one.parcels_given,
        tasks_given: sum.tasks_given + one.tasks_given,
        parcels_accepted: sum.parcels_accepted + one.parcels_accepted,
        tasks_accepted: sum.tasks_accepted + one.tasks_accepted,
        rests: sum.rests + one.rests,
    })
}
