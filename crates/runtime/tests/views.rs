//! Ranks within this process that die at any call of the fabric: the others end their session, agree on a new view, and run the job again there.
//! Which views ranks may enter is tested exhaustively in `crates/engine/tests/regroup.rs`.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

use atta_engine::Random;
use atta_fabric::{Endpoint, FabricError, InProcess, Received, Wake, in_process, in_process_mortal};
use atta_runtime::{
    Group, Job, Limits, Options, Queue, RankError, Regrouped, Session, Stop, Threads, Way, Work,
};

/// A rank that dies after so many calls.
struct Dying {
    inner: InProcess,
    calls_left: Option<u64>,
}

fn died() -> FabricError {
    FabricError::Transport { operation: "live", code: 9, text: "it died".to_owned() }
}

impl Dying {
    /// A rank that has died stays dead, whoever has taken its error.
    fn is_alive(&self) -> Result<(), FabricError> {
        if self.calls_left == Some(0) { Err(died()) } else { Ok(()) }
    }

    fn live(&mut self) -> Result<(), FabricError> {
        match &mut self.calls_left {
            None => Ok(()),
            Some(0) => Err(died()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Endpoint for Dying {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn neighbours(&self) -> &[u32] {
        self.inner.neighbours()
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        self.live().and_then(|()| self.inner.send(to, message))
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        self.is_alive()?;
        let received = self.inner.receive()?;
        // Idle polls are too many to count.
        if received.is_some() {
            self.live()?;
        }
        Ok(received)
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.inner.on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.is_alive()?;
        self.inner.unsent()
    }

    fn survives(&self) -> bool {
        true
    }

    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        self.is_alive()?;
        self.inner.lost()
    }

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Box::new(self.inner).leave()
    }

    fn abort(&mut self, exit_code: i32) {
        self.inner.abort(exit_code);
    }
}

/// Counts the nodes of a binary tree of the given height.
struct Count;

impl Job for Count {
    type Task = u8;
    type Worker = u64;

    fn worker(&self, _index: usize) -> u64 {
        0
    }

    fn run(&self, nodes: &mut u64, height: u8, queue: &mut Queue<'_, Self>) {
        *nodes += 1;
        if height > 0 {
            queue.push(height - 1);
            queue.push(height - 1);
        }
    }

    fn pack(&self, task: &u8, _last: Option<&u8>, out: &mut Vec<u8>) -> bool {
        out.push(*task);
        true
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
        Ok(bytes.to_vec())
    }
}

const HEIGHT: u8 = 11;
const LIMITS: Limits =
    Limits { report: Duration::from_secs(20), give_up: Duration::from_secs(5), waiting: |_| {} };

/// Counts in one view. The first rank notes the sum. Also returns how the next view goes on.
fn count(group: &mut Group<'_>, sums: &Mutex<Vec<u64>>) -> (Result<(), RankError>, Way) {
    let mut view = group.view();
    match Session::join(&mut view, "test", Stop::new(), LIMITS) {
        Ok(session) => {
            let mut session = session.unwrap();
            session.set_way(Way::From(vec![7]));
            (count_in(&mut session, sums), session.way().clone())
        }
        Err(error) => (Err(error), Way::From(vec![7])),
    }
}

fn count_in(session: &mut Session<'_>, sums: &Mutex<Vec<u64>>) -> Result<(), RankError> {
    let options =
        Options { threads: Threads::Fixed(NonZeroUsize::MIN), stop: session.stop(), ..Options::default() };
    let seeds = if session.is_first() { vec![HEIGHT] } else { Vec::new() };
    let totals = |workers: Option<&[u64]>| Total(workers.into_iter().flatten().sum());
    let ran = session.run(&Count, Work { seeds, options: &options }, totals, |_, _| {})?;
    session.close((), |(), ()| ())?;
    sums.lock().unwrap().extend(ran.sum.map(|sum| sum.0));
    session.finish(vec![3])
}

#[derive(Clone)]
struct Total(u64);

atta_runtime::record!(Total { 0 });

impl atta_engine::Reduce for Total {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }
}

/// Returns whether the rank has lived.
fn live(mut endpoint: Dying, sums: &Mutex<Vec<u64>>) -> bool {
    let mut group = Group::new(&mut endpoint);
    loop {
        let (Err(error), way) = count(&mut group, sums) else { return true };
        let regrouped = match error {
            RankError::Lost { .. } => group.regroup(way, &Stop::new(), LIMITS),
            error => Err(error),
        };
        match regrouped {
            Ok(Regrouped::Ended(way)) => {
                assert_eq!(way, Way::Over(vec![3]));
                return true;
            }
            Ok(view) => assert_eq!(view, Regrouped::View(Way::From(vec![7]))),
            Err(RankError::Fabric(FabricError::Transport { .. })) => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn job_is_done_whichever_ranks_die() {
    let (mut deaths, mut survived) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let ranks = 2 + u32::try_from(random.below(4)).unwrap();
        let lives = u32::try_from(random.below(u64::from(ranks))).unwrap();
        let sums = Mutex::new(Vec::new());
        let lived: Vec<bool> = std::thread::scope(|scope| {
            let running: Vec<_> = in_process_mortal(ranks)
                .into_iter()
                .map(|inner| {
                    let dies = inner.rank() != lives && random.below(4) > 0;
                    let calls_left = dies.then(|| random.below(60));
                    let sums = &sums;
                    scope.spawn(move || live(Dying { inner, calls_left }, sums))
                })
                .collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        // A first rank that dies after it has noted the sum may leave the others to count again.
        let sums = sums.into_inner().unwrap();
        let all = (1 << (HEIGHT + 1)) - 1;
        assert!(!sums.is_empty() && sums.iter().all(|sum| *sum == all), "seed {seed}: {lived:?} {sums:?}");
        let died = lived.iter().filter(|lived| !**lived).count();
        deaths += died;
        survived += usize::from(died > 0);
    }
    assert!(deaths > 60 && survived > 40, "{deaths} deaths in {survived} jobs");
}

#[test]
fn ranks_end_if_one_cannot_go_on() {
    let ways = [Way::From(vec![1]), Way::Ends];
    let mut endpoints = in_process_mortal(3);
    drop(endpoints.remove(0));
    let ended: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = endpoints
            .into_iter()
            .zip(ways)
            .map(|(mut endpoint, way)| {
                scope.spawn(move || {
                    let mut group = Group::new(&mut endpoint);
                    let (ended, _) = count(&mut group, &Mutex::default());
                    assert!(ended.is_err_and(|error| error.is_lost()));
                    group.regroup(way, &Stop::new(), LIMITS).unwrap()
                })
            })
            .collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert_eq!(ended, [const { Regrouped::Ended(Way::Ends) }; 2]);
}

#[test]
fn group_without_survival_changes_no_message() {
    let mut ranks = in_process(2);
    let mut other = ranks.pop().unwrap();
    let mut group = Group::new(&mut ranks[0]);
    assert!(!group.survives());
    group.view().send(1, vec![5]).unwrap();
    assert_eq!(other.receive().unwrap().unwrap().message, [5]);
}
