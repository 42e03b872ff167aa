//! The conformance test of a job on ranks over every fabric, for tests: one body that each rank runs over its endpoint. It tests
//! the engine and its driver together; `atta_fabric::conformance` tests the fabric itself.
//!
//! The ranks run one small job after another over the same endpoint: every schedule, split and method of termination. The result
//! of each job is known in advance. Only the totals are checked, since ranks may be processes. They hold a count for each task,
//! added up by the protocol, so that a task that was lost or done twice shows.

mod multicasts;
mod parts;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use atta_engine::{Config, Random, Rank, Reason, Reduce, ScheduleKind, Split, Termination};
use atta_entry::Code;
use atta_fabric::{Endpoint, FabricError};

use crate::{Job, Limits, Options, Queue, Ran, RankError, Session, Status, Stop, Threads, Work};

/// Tasks of one job.
const TASKS: u32 = 300;
/// A wait this long means that a message is lost. It only ends a test that has already failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// The exit code of the aborting rank.
const ABORTED: i32 = 9;

/// Runs multicasts within groups, then all jobs. Every rank must call it with its own endpoint, no messages in flight to it, and the same `seed`. Afterwards the
/// endpoint can be left.
///
/// # Errors
/// The first failed check, with its rank and job.
pub fn conformance(endpoint: &mut dyn Endpoint, seed: u64) -> Result<(), String> {
    let rank = endpoint.rank();
    let mut number = seed;
    multicasts::conform(endpoint, seed)?;
    for schedule in ScheduleKind::ALL {
        for split in Split::ALL {
            for termination in Termination::ALL {
                number += 1;
                let config = config(schedule, split, termination, number);
                run_to_the_end(endpoint, config).map_err(|reason| {
                    format!("rank {rank}: {schedule}, {split}, {termination}, seed {number}: {reason}")
                })?;
            }
        }
        let config = config(schedule, Split::Equal, Termination::Counters, number);
        run_until_stopped(endpoint, config)
            .map_err(|reason| format!("rank {rank}: {schedule}, stopped, seed {number}: {reason}"))?;
    }
    parts::conform(endpoint, seed).map_err(|reason| format!("rank {rank}: parts, seed {seed}: {reason}"))
}

/// One rank aborts while the others are in the middle of a job: none of them may continue. Under MPI this does not return, except
/// for an error that the library reports first. Afterwards the endpoint is unusable.
///
/// # Errors
/// A rank continued, or ended in another way.
pub fn abort_reaches_all(endpoint: &mut dyn Endpoint) -> Result<(), String> {
    let (rank, size) = (endpoint.rank(), endpoint.size());
    // Under this schedule a rank of two threads, one of them without a task, asks each other rank for work sooner or later. Then the
    // job is in progress.
    let config = Config { schedule: ScheduleKind::Random, seed: 1, ..Config::default() };
    let ended =
        if rank + 1 == size { abort_once_asked(endpoint, config) } else { run_endless(endpoint, config) };
    match ended {
        Err(RankError::Fabric(FabricError::Aborted { exit_code: ABORTED })) => Ok(()),
        ended => Err(format!("rank {rank}: aborted, it ended with {ended:?}")),
    }
}

/// Each job differs in the shape of its tree, of the tree of ranks, in the number of threads and in whether totals climb
/// while it runs.
fn config(schedule: ScheduleKind, split: Split, termination: Termination, seed: u64) -> Config {
    let often = Duration::from_micros(200);
    Config {
        schedule,
        split,
        termination,
        tree_width: 1 + (seed % 4) as u32,
        progress_interval: seed.is_multiple_of(2).then_some(often),
        low_water: seed % 3,
        seed,
        ..Config::default()
    }
}

fn options(config: &Config, stop: &Stop) -> Options<'static> {
    let threads = NonZeroUsize::MIN.saturating_add((config.seed % 2) as usize);
    Options { threads: Threads::Fixed(threads), stop: stop.clone(), ..Options::default() }
}

/// All ranks meet for one job: a fast rank must not begin the next one while others are in it.
fn join<'e>(endpoint: &'e mut dyn Endpoint, config: Config, stop: &Stop) -> Result<Session<'e>, RankError> {
    let session = Session::join(endpoint, "conformance", stop.clone(), Limits::default())?;
    Ok(session.map_err(|_| RankError::Stuck("ranks run different programs"))?.with_schedule(config))
}

/// Runs a job to its end. The first rank checks the result.
fn run_to_the_end(endpoint: &mut dyn Endpoint, config: Config) -> Result<(), String> {
    let rank = endpoint.rank();
    let job = Twigs::new(config.seed, rank, endpoint.size());
    let mut wrong = None;
    let (reason, sum) = run_twigs(endpoint, &job, config, &mut wrong).map_err(|error| error.to_string())?;
    if job.gave_up.load(Ordering::Relaxed) > 0 {
        return Err("no rank received a task".to_owned());
    }
    if job.strayed.load(Ordering::Relaxed) > 0 {
        return Err("a task for another rank was done here".to_owned());
    }
    if reason != Reason::Done {
        return Err(format!("it ended as {reason:?}"));
    }
    match (rank == Rank::ROOT.0, sum) {
        (true, Some(sum)) => wrong.or_else(|| job.compare(&sum)).map_or(Ok(()), Err),
        (false, None) => Ok(()),
        (_, sum) => Err(format!("the totals are {sum:?}")),
    }
}

/// Runs the job. Errors in its progress go to `wrong`. Returns the reason of its end, and the first rank's totals.
fn run_twigs(
    endpoint: &mut dyn Endpoint,
    job: &Twigs,
    config: Config,
    wrong: &mut Option<String>,
) -> Result<(Reason, Option<Tally>), RankError> {
    let stop = Stop::new();
    let mut session = join(endpoint, config, &stop)?;
    let seeds = if session.is_first() { vec![0] } else { Vec::new() };
    let options = options(&config, &stop);
    let observe = |_: &Status, sum: Option<Tally>| {
        *wrong = wrong.take().or_else(|| sum.and_then(|sum| sum.excess()));
    };
    let totals = |workers: Option<&[Tally]>| workers.map_or_else(|| job.so_far(), Tally::sum);
    let Ran { reason, sum, .. } = session.run(job, Work { seeds, options: &options }, totals, observe)?;
    session.close((), |(), ()| ())?;
    Ok((reason, sum))
}

/// Runs a job that ends only when the last rank requests it, which it does as soon as it has joined the job.
fn run_until_stopped(endpoint: &mut dyn Endpoint, config: Config) -> Result<(), String> {
    match run_stopped(endpoint, config) {
        Ok(Reason::Stopped) => Ok(()),
        Ok(reason) => Err(format!("it ended as {reason:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn run_stopped(endpoint: &mut dyn Endpoint, config: Config) -> Result<Reason, RankError> {
    let stop = Stop::new();
    let mut session = join(endpoint, config, &stop)?;
    if session.seat().rank + 1 == session.seat().ranks {
        stop.set();
    }
    let reason = run_forever(&mut session, &options(&config, &stop))?;
    session.close((), |(), ()| ())?;
    Ok(reason)
}

/// Runs a job that ends only on request. Returns the reason of the end.
fn run_forever(session: &mut Session<'_>, options: &Options<'_>) -> Result<Reason, RankError> {
    let seeds = if session.is_first() { vec![()] } else { Vec::new() };
    let ran = session.run(&Endless, Work { seeds, options }, |_| Tally::none(), |_, _| {})?;
    Ok(ran.reason)
}

/// Aborts when a message of the job has arrived. Returns the result of a later call.
fn abort_once_asked(endpoint: &mut dyn Endpoint, config: Config) -> Result<(), RankError> {
    let began = Instant::now();
    let mut session = join(endpoint, config, &Stop::new())?;
    while session.seat().ranks > 1 && began.elapsed() < PATIENCE && !session.has_come_for_job()? {
        std::thread::sleep(Duration::from_micros(100));
    }
    drop(session);
    endpoint.abort(ABORTED);
    while began.elapsed() < PATIENCE {
        endpoint.receive()?;
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

fn run_endless(endpoint: &mut dyn Endpoint, config: Config) -> Result<(), RankError> {
    let stop = Stop::new();
    let mut session = join(endpoint, config, &stop)?;
    run_forever(&mut session, &options(&config, &stop)).map(|_| ())
}

/// A job of one task that ends only on request.
#[derive(Debug)]
pub struct Endless;

impl Job for Endless {
    type Task = ();
    type Worker = ();

    fn worker(&self, _index: usize) {}

    fn run(&self, (): &mut (), (): (), queue: &mut Queue<'_, Self>) {
        while !queue.is_stopping() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn pack(&self, (): &(), _last: Option<&()>, out: &mut Vec<u8>) -> bool {
        out.push(0);
        true
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<()>, &'static str> {
        Ok(vec![(); bytes.len()])
    }
}

/// A tree of tasks decided by a seed. Some have many children, some form long chains, some cannot leave their rank, and some are
/// addressed to one rank.
struct Twigs {
    parents: Vec<u32>,
    here: u32,
    ranks: u32,
    /// Whether no task may end before this rank has given a task away.
    waits: bool,
    given: AtomicU32,
    gave_up: AtomicU32,
    /// Tasks for other ranks that were done here.
    strayed: AtomicU32,
    /// How often each task was done on this rank.
    done: Vec<AtomicU32>,
}

impl Twigs {
    fn new(seed: u64, here: u32, ranks: u32) -> Self {
        let mut random = Random::new(seed);
        let mut parent = |task: u32| match random.below(3) {
            0 => task - 1,
            1 => random.below(u64::from(task)) as u32,
            _ => random.below(u64::from(task.min(5))) as u32,
        };
        let parents = (0..TASKS).map(|task| if task < 5 { 0 } else { parent(task) }).collect();
        let done = (0..TASKS).map(|_| AtomicU32::new(0)).collect();
        let waits = here == Rank::ROOT.0 && ranks > 1;
        let [given, gave_up, strayed] = [(); 3].map(|()| AtomicU32::new(0));
        Self { parents, here, ranks, waits, given, gave_up, strayed, done }
    }

    fn children(&self, task: u32) -> impl Iterator<Item = u32> {
        (task + 1..TASKS).filter(move |child| self.parents[*child as usize] == task)
    }

    fn depth(&self, task: u32) -> u32 {
        if task == 0 { 0 } else { 1 + self.depth(self.parents[task as usize]) }
    }

    /// Most tasks can leave, the first and its children for certain: more than there are threads to hold them.
    fn can_leave(&self, task: u32) -> bool {
        let is_free = task % 11 != 7 && self.home(task) != Some(self.here);
        is_free || self.parents[task as usize] == 0
    }

    /// The rank that must run a task. Never the first one, which may run none.
    fn home(&self, task: u32) -> Option<u32> {
        let is_addressed =
            task % 7 == 3 && task % 11 != 7 && self.parents[task as usize] != 0 && self.ranks > 1;
        is_addressed.then(|| 1 + task % (self.ranks - 1))
    }

    fn so_far(&self) -> Tally {
        let counts = self.done.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Tally { counts, deepest: 0 }
    }

    /// Waits until another rank has received a task: on a fast machine a small job would be over before any request.
    fn wait_for_a_taker(&self, queue: &Queue<'_, Self>) {
        let began = Instant::now();
        while self.given.load(Ordering::Relaxed) == 0 && !queue.is_stopping() {
            if began.elapsed() > PATIENCE {
                self.gave_up.store(1, Ordering::Relaxed);
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Checks the totals.
    fn compare(&self, sum: &Tally) -> Option<String> {
        let wrong = (0..).zip(&sum.counts).find(|(_, count)| **count != 1);
        if let Some((task, count)) = wrong {
            return Some(format!("task {task} was done {count} times"));
        }
        let deepest = (0..TASKS).map(|task| self.depth(task)).max().unwrap_or(0);
        (sum.deepest != deepest).then(|| format!("the deepest task is at {}, not {deepest}", sum.deepest))
    }
}

impl Job for Twigs {
    type Task = u32;
    type Worker = Tally;

    fn worker(&self, _index: usize) -> Tally {
        Tally::none()
    }

    fn run(&self, tally: &mut Tally, task: u32, queue: &mut Queue<'_, Self>) {
        tally.counts[task as usize] += 1;
        tally.deepest = tally.deepest.max(self.depth(task));
        self.done[task as usize].fetch_add(1, Ordering::Relaxed);
        let is_astray = self.home(task).is_some_and(|home| home != self.here);
        self.strayed.fetch_add(u32::from(is_astray), Ordering::Relaxed);
        self.children(task).for_each(|child| match self.home(child) {
            Some(home) if home != self.here => queue.send(home, child),
            _ => queue.push(child),
        });
        if self.waits {
            self.wait_for_a_taker(queue);
        }
    }

    fn pack(&self, &task: &u32, _last: Option<&u32>, out: &mut Vec<u8>) -> bool {
        let leaves = self.can_leave(task);
        if leaves {
            out.extend(task.to_le_bytes());
            self.given.fetch_add(1, Ordering::Relaxed);
        }
        leaves
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u32>, &'static str> {
        let task = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).map_err(|_| "cut short");
        bytes.chunks(4).map(task).collect()
    }
}

/// The totals of the ranks: how often each task was done, and the depth of the deepest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tally {
    counts: Vec<u32>,
    deepest: u32,
}

impl Tally {
    fn none() -> Self {
        Self { counts: vec![0; TASKS as usize], deepest: 0 }
    }

    fn sum(parts: &[Self]) -> Self {
        let mut sum = Self::none();
        parts.iter().for_each(|part| sum.merge(part));
        sum
    }

    /// Checks the totals of a job in progress.
    fn excess(&self) -> Option<String> {
        let twice = self.counts.iter().position(|count| *count > 1)?;
        Some(format!("task {twice} was done {} times, says the progress", self.counts[twice]))
    }
}

impl Reduce for Tally {
    fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.deepest = self.deepest.max(other.deepest);
    }
}

/// One count for each task.
impl Code for Tally {
    fn encode(&self, out: &mut Vec<u8>) {
        self.deepest.encode(out);
        self.counts.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (deepest, counts) = <(u32, Vec<u32>)>::decode(bytes)?;
        (counts.len() == TASKS as usize).then_some(Self { counts, deepest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_that_miss_or_repeat_a_task_are_found() {
        let twigs = Twigs::new(3, 0, 1);
        let deepest = (0..TASKS).map(|task| twigs.depth(task)).max().unwrap();
        let right = Tally { counts: vec![1; TASKS as usize], deepest };
        assert_eq!(twigs.compare(&right), None);
        for count in [0, 2] {
            let mut wrong = right.clone();
            wrong.counts[17] = count;
            assert_eq!(twigs.compare(&wrong), Some(format!("task 17 was done {count} times")));
        }
        assert!(twigs.compare(&Tally { deepest: deepest + 1, ..right.clone() }).is_some());
        let fewer = Tally { counts: vec![1; 3], ..right.clone() };
        assert_eq!(Tally::decode_all(&fewer.encoded()), None);
        assert_eq!(Tally::decode_all(&right.encoded()), Some(right));
    }

    #[test]
    fn every_task_has_a_way_from_the_first() {
        let twigs = Twigs::new(5, 0, 1);
        let mut seen = vec![0];
        let mut at = 0;
        while let Some(task) = seen.get(at) {
            let children: Vec<_> = twigs.children(*task).collect();
            seen.extend(children);
            at += 1;
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..TASKS).collect::<Vec<_>>());
        assert!((0..TASKS).any(|task| !twigs.can_leave(task)));
    }
}
