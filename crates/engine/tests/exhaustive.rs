//! All interleavings of two to four ranks on small trees: every order in which messages arrive (in order between two
//! ranks), tasks are done and timers fire, and every random choice.
//!
//! In every state: no task is done twice, the end is announced only when all is done and nothing is under way, and nobody
//! who has left is sent anything. Where nothing can happen any more, all tasks are done and all ranks have left; and from
//! every state such an end can be reached.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by panicking, and tells how much it saw"
)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use atta_engine::{
    Action, Config, Engine, Load, Message, Place, Random, Rank, Reason, Reduce, Rule, Rules, ScheduleKind,
    Split, Tasks, Termination,
};

/// Times are all zero: a timer that is set may fire at any moment.
const NOW: Duration = Duration::ZERO;

/// For each task its children; task 0 is the root.
type Tree = &'static [&'static [u8]];
const FORK: Tree = &[&[1, 2], &[], &[]];
const COMB: Tree = &[&[1, 2], &[3], &[], &[]];
const TWICE: Tree = &[&[1, 2], &[3, 4], &[], &[], &[]];
const WIDE: Tree = &[&[1, 2, 3], &[], &[4], &[], &[]];

/// The number of tasks that were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Done(u8);

impl Reduce for Done {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if let [count] = bytes { Some(Self(*count)) } else { None }
    }
}

/// One rank: its engine, and the tasks that it has; the newest one runs.
#[derive(Clone, Hash)]
struct Process {
    engine: Engine<Done>,
    tasks: VecDeque<u8>,
    done: u8,
    finishing: bool,
}

#[derive(Clone, Hash)]
struct World {
    tree: Tree,
    processes: Vec<Process>,
    channels: BTreeMap<(u32, u32), VecDeque<Message>>,
    done: u32,
    /// What a checker has to say.
    wrong: Option<String>,
    result: Option<Done>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver(u32, u32),
    Run(u32),
    Timer(u32),
}

impl World {
    fn new(config: Config, hosts: &[u32], tree: Tree) -> Self {
        let size = u32::try_from(hosts.len()).unwrap();
        let process = |rank: u32| {
            let host = hosts[rank as usize];
            let neighbours = (0..size).filter(|other| hosts[*other as usize] == host).map(Rank).collect();
            let engine = Engine::new(config, &Place::new(Rank(rank), size, neighbours));
            let tasks = if rank == 0 { VecDeque::from([0]) } else { VecDeque::new() };
            Process { engine, tasks, done: 0, finishing: false }
        };
        let processes = (0..size).map(process).collect();
        let mut world =
            Self { tree, processes, channels: BTreeMap::new(), done: 0, wrong: None, result: None };
        (0..size).for_each(|rank| world.tell_load(rank));
        world
    }

    fn steps(&self) -> Vec<Step> {
        if self.wrong.is_some() {
            return Vec::new();
        }
        let deliver = self.channels.iter().filter(|(_, channel)| !channel.is_empty());
        let mut steps: Vec<Step> = deliver.map(|((from, to), _)| Step::Deliver(*from, *to)).collect();
        for (rank, process) in (0..).zip(&self.processes) {
            if !process.tasks.is_empty() && process.engine.runs_tasks() && !process.finishing {
                steps.push(Step::Run(rank));
            }
            if process.engine.poll_timeout().is_some() {
                steps.push(Step::Timer(rank));
            }
        }
        steps
    }

    fn apply(&mut self, step: Step, choice: (u64, u64)) {
        let rank = match step {
            Step::Deliver(_, rank) | Step::Run(rank) | Step::Timer(rank) => rank,
        };
        self.process(rank).engine.reseed(seed_for(choice));
        match step {
            Step::Deliver(from, to) => {
                let message = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap();
                if self.processes[to as usize].engine.has_ended() {
                    self.fail(format!("rank {to} has left, and {from} sends it {message:?}"));
                } else if let Err(error) = self.process(to).engine.handle_message(NOW, Rank(from), message) {
                    self.fail(error.to_string());
                }
                self.act(to);
            }
            Step::Run(rank) => {
                let task = self.process(rank).tasks.pop_back().unwrap();
                if self.done & (1 << task) != 0 {
                    self.fail(format!("task {task} is done twice"));
                }
                self.done |= 1 << task;
                self.process(rank).done += 1;
                let children = self.tree[usize::from(task)];
                self.process(rank).tasks.extend(children);
                self.tell_load(rank);
            }
            Step::Timer(rank) => {
                self.process(rank).engine.handle_timeout(NOW);
                self.act(rank);
            }
        }
        self.process(rank).engine.reseed(0);
    }

    fn process(&mut self, rank: u32) -> &mut Process {
        &mut self.processes[rank as usize]
    }

    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    fn tell_load(&mut self, rank: u32) {
        let process = self.process(rank);
        let tasks = process.tasks.len() as u64;
        let running = u64::from(process.engine.runs_tasks() && !process.finishing && tasks > 0);
        process.engine.handle_load(NOW, Load { waiting: tasks - running, running, slots: 1 });
        self.act(rank);
    }

    fn act(&mut self, rank: u32) {
        while let Some(action) = self.process(rank).engine.poll_action() {
            match action {
                Action::Send { to, message } => {
                    self.channels.entry((rank, to.0)).or_default().push_back(message);
                }
                Action::Take { share, .. } => {
                    let process = self.process(rank);
                    let held = u64::from(process.engine.runs_tasks());
                    let count = share.of((process.tasks.len() as u64).saturating_sub(held));
                    let bytes: Vec<u8> = process.tasks.drain(..usize::try_from(count).unwrap()).collect();
                    let count = u32::try_from(count).unwrap();
                    process.engine.give(NOW, Tasks { count, bytes: bytes.into() });
                }
                Action::Accept { tasks, .. } => {
                    // As the oldest: what runs goes on running.
                    tasks.bytes.iter().rev().for_each(|task| self.process(rank).tasks.push_front(*task));
                    self.tell_load(rank);
                }
                Action::Finish(reason) => {
                    self.check_end(reason);
                    let process = self.process(rank);
                    process.finishing = true;
                    process.tasks.clear();
                    let done = Done(process.done);
                    process.engine.finish(NOW, done);
                }
                Action::Result(result) => self.result = Some(result),
                Action::Report | Action::Progress(_) | Action::Leave => {}
            }
        }
    }

    fn check_end(&mut self, reason: Reason) {
        let parcel = |message: &Message| matches!(message, Message::Parcel { .. });
        if reason != Reason::Done {
            return;
        }
        if self.done.count_ones() as usize != self.tree.len() {
            self.fail(format!("the end is announced, and only tasks {:b} are done", self.done));
        }
        if self.channels.values().flatten().any(parcel) {
            self.fail("the end is announced, and a parcel is under way".into());
        }
    }

    /// What is wrong where nothing can happen any more.
    fn check_last(&self) -> Option<String> {
        let left = self.processes.iter().all(|process| process.engine.has_ended());
        let counted = usize::from(self.result.map_or(0, |done| done.0));
        if !left {
            Some("nothing can happen, and somebody has not left".into())
        } else if counted != self.tree.len() {
            Some(format!("the totals are {counted} of {} tasks", self.tree.len()))
        } else {
            None
        }
    }

    fn key(&self) -> (u64, u64) {
        let mut one = DefaultHasher::new();
        let mut other = DefaultHasher::new();
        other.write_u64(1);
        self.hash(&mut one);
        self.hash(&mut other);
        (one.finish(), other.finish())
    }
}

/// A seed whose first draw among `choices` is `choice`, so that all of them are tried.
fn seed_for(choice: (u64, u64)) -> u64 {
    (0..).find(|seed| Random::new(*seed).below(choice.1) == choice.0).unwrap()
}

/// What was found.
struct Found {
    states: usize,
    wrong: Option<String>,
}

/// Visits all states, up to `most`; stops at the first that is wrong.
fn explore(world: World, choices: u64, most: usize) -> Found {
    let mut numbers = HashMap::from([(world.key(), 0_usize)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut last = Vec::new();
    let mut todo = vec![(0, world)];
    while let Some((number, world)) = todo.pop() {
        let steps = world.steps();
        if steps.is_empty() {
            if let Some(wrong) = world.wrong.clone().or_else(|| world.check_last()) {
                return Found { states: numbers.len(), wrong: Some(wrong) };
            }
            last.push(number);
        }
        for step in steps {
            for choice in 0..choices {
                let mut next = world.clone();
                next.apply(step, (choice, choices));
                let fresh = numbers.len();
                let key = *numbers.entry(next.key()).or_insert(fresh);
                if key == fresh {
                    before.push(Vec::new());
                    todo.push((fresh, next));
                }
                before[key].push(number);
            }
        }
        assert!(numbers.len() <= most, "more than {most} states");
    }
    Found { states: numbers.len(), wrong: unreached(&before, last) }
}

/// Whether some state has no way to an end.
fn unreached(before: &[Vec<usize>], mut todo: Vec<usize>) -> Option<String> {
    let mut reached = vec![false; before.len()];
    while let Some(state) = todo.pop() {
        if !std::mem::replace(&mut reached[state], true) {
            todo.extend(before[state].iter().filter(|earlier| !reached[**earlier]));
        }
    }
    let stuck = reached.iter().filter(|reached| !**reached).count();
    (stuck > 0).then(|| format!("{stuck} of {} states have no way to an end", before.len()))
}

fn config(schedule: ScheduleKind, termination: Termination) -> Config {
    Config {
        schedule,
        termination,
        split: Split::Equal,
        tree_width: 2,
        progress_interval: None,
        low_water: 0,
        pause_first: NOW,
        pause_most: NOW,
        quiet_interval: NOW,
        seed: 0,
        rules: Rules::default(),
    }
}

fn all(hosts: &[u32], tree: Tree, choices: u64, most: usize) {
    for schedule in ScheduleKind::ALL {
        for termination in Termination::ALL {
            let found = explore(World::new(config(schedule, termination), hosts, tree), choices, most);
            println!("{schedule}, {termination}, {} ranks: {} states", hosts.len(), found.states);
            assert_eq!(found.wrong, None, "{schedule}, {termination}, {} ranks", hosts.len());
        }
    }
}

#[test]
fn one_rank() {
    all(&[0], WIDE, 1, 1_000);
}

#[test]
fn two_ranks() {
    all(&[0, 1], WIDE, 1, 3_000_000);
}

#[test]
fn three_ranks() {
    all(&[0, 1, 1], FORK, 2, 3_000_000);
}

fn is_caught(rule: Rule, schedule: ScheduleKind, termination: Termination, hosts: &[u32], tree: Tree) {
    let config = Config { rules: Rules::without(rule), ..config(schedule, termination) };
    let found = explore(World::new(config, hosts, tree), 2, 5_000_000);
    println!("{rule:?}: {:?} after {} states", found.wrong, found.states);
    assert!(
        found.wrong.is_some(),
        "{rule:?} is switched off and nothing is noticed in {} states",
        found.states
    );
}

#[test]
fn a_rule_that_is_switched_off_is_noticed() {
    use ScheduleKind::Random;
    use Termination::{Counters, Token};
    is_caught(Rule::AwaitAcceptance, Random, Token, &[0, 1, 2], COMB);
    is_caught(Rule::SecondWave, Random, Counters, &[0, 1, 2], TWICE);
    is_caught(Rule::SumsAgree, Random, Counters, &[0, 1, 2], TWICE);
    is_caught(Rule::Blacken, Random, Token, &[0, 1, 2], TWICE);
    is_caught(Rule::AwaitAnswer, Random, Counters, &[0, 1, 2], FORK);
    is_caught(Rule::AwaitChildren, Random, Counters, &[0, 1], FORK);
}
