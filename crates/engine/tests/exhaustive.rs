//! All interleavings of two to four ranks on small trees: every order in which messages arrive (in order between two
//! ranks), tasks are done and timers fire, and every random choice.
//!
//! In every state: no task is done twice, the end is announced only when all is done and nothing is under way, and nobody
//! who has left is sent anything. Where nothing can happen any more, all tasks are done and all ranks have left; and from
//! every state such an end can be reached. In some runs a rank wants the job to stop at any moment, or one parcel comes
//! twice.
//!
//! # What is covered
//! A job of 3 tasks is the smallest in which one can be given while another runs; 5 tasks let work go on from a thief.
//!
//! | ranks | schedules | tasks | states |
//! | --- | --- | --- | --- |
//! | 2 | all, with both ways to notice the end | 5 | 45 to 1,108 |
//! | 3 | the same | 3 | 283 to 84 thousand |
//! | 4 | `centralized`, `centralized-keep` | 5 | 4 to 204 thousand |
//! | 4, two on a host | `proximity` | 4 | 46 and 91 thousand |
//! | 4, two on a host | `lifeline` | 3 | 1.1 and 1.9 million |
//! | 4, two on a host | `hybrid`, token | 3 | 1.9 million |
//! | 2, with a stop or a repeated parcel | all | 5 | 184 to 6,246 |
//! | 3, with a stop | `centralized`, `proximity`, `lifeline` | 3 | 10 to 729 thousand |
//! | 4, only if asked for | `hybrid` with counters; `proximity` of 4 hosts; `lifeline` of 4 hosts with the token | 3 | 0.3 to 4.6 million |
//!
//! Not covered with 4 ranks: `random`, and `hybrid` and `lifeline` with counters of 4 hosts. Each has more than 6 million states;
//! `crates/sim/tests/seeds.rs` draws from them.
//!
//! # Rules
//! Each rule that is switched off ([`Rule`]) is noticed here, in `a_rule_that_is_switched_off_is_noticed`, and by the checkers of
//! `crates/sim` in `seeds.rs`. `AcceptOnce` needs a parcel that comes twice, which no fabric does: it is tried with 2 ranks, since
//! with more the second acceptance may reach a rank that has left.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by panicking, and prints how much it explored"
)]

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use atta_engine::{
    Action, Config, Engine, Load, Message, Place, Random, Rank, Reason, Reduce, Rule, Rules, ScheduleKind,
    Split, Tasks, Termination,
};

/// Times are all zero: a timer that is set may fire at any moment.
const NOW: Duration = Duration::ZERO;

/// More states than any job here has; a job that has more is too large, or has no end.
const STATES_MOST: usize = 6_000_000;

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
}

atta_code::record!(Done { 0 });

/// One rank: its engine, and the tasks that it has; the newest one runs.
#[derive(Clone, Hash)]
struct Process {
    engine: Engine<Done>,
    tasks: VecDeque<u8>,
    done: u8,
    finishing: bool,
}

/// A part of a state and its hash. States share the parts in which they do not differ: a step changes one process and the
/// few channels that lead to it and from it.
#[derive(Clone)]
struct Part<T>(Rc<(T, u128)>);

impl<T: Clone + Hash> Part<T> {
    fn new(value: T) -> Self {
        let hash = fingerprint(&value);
        Self(Rc::new((value, hash)))
    }

    fn get(&self) -> &T {
        &self.0.0
    }

    /// Its hash is not right until [`settle`](Self::settle).
    fn change(&mut self) -> &mut T {
        &mut Rc::make_mut(&mut self.0).0
    }

    fn settle(&mut self) {
        let (value, hash) = Rc::make_mut(&mut self.0);
        *hash = fingerprint(value);
    }
}

#[derive(Clone)]
struct World {
    tree: Tree,
    processes: Vec<Part<Process>>,
    /// What is under way from rank to rank, at the sender's number times that of ranks plus the receiver's.
    channels: Vec<Part<VecDeque<Message>>>,
    done: u32,
    /// The violation that a checker found.
    wrong: Option<String>,
    result: Option<Done>,
    disturbance: Disturbance,
    was_stopped: bool,
}

/// A disturbance that may occur once, at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Disturbance {
    None,
    /// The last rank wants the job to stop.
    Stop,
    /// A parcel is delivered twice.
    Repeat,
    /// An idle rank appears busy for a moment: one of its threads was woken without work.
    Flash,
    /// This rank appears busy now.
    Flashing(u32),
    /// A rank has no task left to give, since its threads took them all.
    Empty,
    /// This happens at the next request.
    Emptied,
}

/// Two hashes of 64 bits in one pass. Of 10^7 states two look alike with a chance of 10^-24.
struct Fingerprint(u64, u64);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        for (state, factor) in [(&mut self.0, 0x9E37_79B9_7F4A_7C15), (&mut self.1, 0xC2B2_AE3D_27D4_EB4F)] {
            let mixed = (*state ^ number).wrapping_mul(factor);
            *state = (mixed ^ (mixed >> 29)).rotate_left(23).wrapping_add(factor);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn fingerprint(value: &impl Hash) -> u128 {
    let mut hasher = Fingerprint(1, 2);
    value.hash(&mut hasher);
    u128::from(hasher.0) << 64 | u128::from(hasher.1)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver(u32, u32),
    Run(u32),
    Timer(u32),
    /// The last rank wants the job to stop.
    Stop(u32),
    /// The next message of a channel comes, and will come again.
    Repeat(u32, u32),
    /// A rank without work looks as if it had some; and no longer.
    Flash(u32),
    Calm(u32),
    /// The next time that tasks are to be given away there are none.
    Empty,
}

impl World {
    fn new(config: Config, hosts: &[u32], tree: Tree, disturbance: Disturbance) -> Self {
        let size = u32::try_from(hosts.len()).unwrap();
        let process = |rank: u32| {
            let host = hosts[rank as usize];
            let neighbours = (0..size).filter(|other| hosts[*other as usize] == host).map(Rank).collect();
            let engine = Engine::new(config, &Place::new(Rank(rank), size, neighbours));
            let tasks = if rank == 0 { VecDeque::from([0]) } else { VecDeque::new() };
            Process { engine, tasks, done: 0, finishing: false }
        };
        let processes = (0..size).map(|rank| Part::new(process(rank))).collect();
        let channels = (0..size * size).map(|_| Part::new(VecDeque::new())).collect();
        let mut world = Self {
            tree,
            processes,
            channels,
            done: 0,
            wrong: None,
            result: None,
            disturbance,
            was_stopped: false,
        };
        for rank in 0..size {
            world.report_load(rank);
            world.settle(rank);
        }
        world
    }

    fn steps(&self) -> Vec<Step> {
        if self.wrong.is_some() {
            return Vec::new();
        }
        let size = self.processes.len() as u32;
        let deliver = (0..).zip(&self.channels).filter(|(_, channel)| !channel.get().is_empty());
        let mut steps: Vec<Step> = deliver.map(|(at, _)| Step::Deliver(at / size, at % size)).collect();
        for (rank, process) in (0..).zip(self.processes.iter().map(Part::get)) {
            if !process.tasks.is_empty() && process.engine.runs_tasks() && !process.finishing {
                steps.push(Step::Run(rank));
            }
            if process.engine.poll_timeout().is_some() {
                steps.push(Step::Timer(rank));
            }
        }
        match self.disturbance {
            Disturbance::None => {}
            Disturbance::Stop => steps.push(Step::Stop(size - 1)),
            Disturbance::Repeat => steps.extend(self.repeats()),
            Disturbance::Flash => steps.extend((0..size).filter(|rank| self.is_idle(*rank)).map(Step::Flash)),
            Disturbance::Flashing(rank) => steps.push(Step::Calm(rank)),
            Disturbance::Empty => steps.push(Step::Empty),
            Disturbance::Emptied => {}
        }
        steps
    }

    /// Whether a rank that runs tasks has none, in a job that goes on.
    fn is_idle(&self, rank: u32) -> bool {
        let process = self.processes[rank as usize].get();
        process.tasks.is_empty() && process.engine.runs_tasks() && !process.finishing
    }

    /// Parcels that may come now and later again.
    fn repeats(&self) -> Vec<Step> {
        let size = self.processes.len() as u32;
        let parcel = |channel: &VecDeque<Message>| matches!(channel.front(), Some(Message::Parcel { .. }));
        let found = (0..).zip(&self.channels).filter(|(_, channel)| parcel(channel.get()));
        found.map(|(at, _)| Step::Repeat(at / size, at % size)).collect()
    }

    /// Does a step with this seed for what is drawn in it. Whether anything was drawn.
    fn apply(&mut self, step: Step, seed: u64) -> bool {
        let rank = match step {
            Step::Deliver(_, rank) | Step::Repeat(_, rank) => rank,
            Step::Run(rank) | Step::Timer(rank) | Step::Stop(rank) | Step::Flash(rank) | Step::Calm(rank) => {
                rank
            }
            Step::Empty => 0,
        };
        self.process(rank).engine.reseed(seed);
        match step {
            Step::Deliver(from, to) => {
                let message = self.channel(from, to).change().pop_front().unwrap();
                self.channel(from, to).settle();
                self.deliver(from, to, message);
            }
            Step::Repeat(from, to) => {
                self.disturbance = Disturbance::None;
                let message = self.channel(from, to).get().front().cloned().unwrap();
                self.deliver(from, to, message);
            }
            Step::Flash(rank) => {
                self.disturbance = Disturbance::Flashing(rank);
                self.process(rank).engine.handle_load(NOW, Load { waiting: 0, running: 1, slots: 1 });
                self.act(rank);
            }
            Step::Calm(rank) => {
                self.disturbance = Disturbance::None;
                if !self.process(rank).finishing {
                    self.report_load(rank);
                }
            }
            Step::Empty => self.disturbance = Disturbance::Emptied,
            Step::Stop(rank) => {
                self.disturbance = Disturbance::None;
                self.process(rank).engine.stop(NOW, Reason::Stopped);
                self.act(rank);
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
                self.report_load(rank);
            }
            Step::Timer(rank) => {
                self.process(rank).engine.handle_timeout(NOW);
                self.act(rank);
            }
        }
        let drawn = fingerprint(&self.process(rank).engine);
        self.process(rank).engine.reseed(seed);
        let has_drawn = drawn != fingerprint(&self.process(rank).engine);
        self.process(rank).engine.reseed(0);
        self.settle(rank);
        has_drawn
    }

    fn deliver(&mut self, from: u32, to: u32, message: Message) {
        if self.process(to).engine.has_ended() {
            self.fail(format!("rank {to} has left, and {from} sends it {message:?}"));
        } else if let Err(error) = self.process(to).engine.handle_message(NOW, Rank(from), message) {
            self.fail(error.to_string());
        }
        self.act(to);
    }

    fn process(&mut self, rank: u32) -> &mut Process {
        self.processes[rank as usize].change()
    }

    fn channel(&mut self, from: u32, to: u32) -> &mut Part<VecDeque<Message>> {
        let size = self.processes.len();
        &mut self.channels[from as usize * size + to as usize]
    }

    /// Takes the hash of a rank anew.
    fn settle(&mut self, rank: u32) {
        self.processes[rank as usize].settle();
    }

    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    fn report_load(&mut self, rank: u32) {
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
                    self.channel(rank, to.0).change().push_back(message);
                    self.channel(rank, to.0).settle();
                }
                Action::Take { share, .. } => {
                    let finds_none = self.disturbance == Disturbance::Emptied;
                    if finds_none {
                        self.disturbance = Disturbance::None;
                    }
                    let process = self.process(rank);
                    let held = u64::from(process.engine.runs_tasks());
                    let waiting = (process.tasks.len() as u64).saturating_sub(held);
                    let count = if finds_none { 0 } else { share.of(waiting) };
                    let bytes: Vec<u8> = process.tasks.drain(..usize::try_from(count).unwrap()).collect();
                    let count = u32::try_from(count).unwrap();
                    process.engine.give(NOW, Tasks { count, bytes: bytes.into() });
                }
                Action::Accept { tasks, .. } => {
                    // As the oldest: what runs goes on running.
                    tasks.bytes.iter().rev().for_each(|task| self.process(rank).tasks.push_front(*task));
                    self.report_load(rank);
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
        self.was_stopped |= reason != Reason::Done;
        let parcel = |message: &Message| matches!(message, Message::Parcel { .. });
        if reason != Reason::Done {
            return;
        }
        if self.done.count_ones() as usize != self.tree.len() {
            self.fail(format!("the end is announced, and only tasks {:b} are done", self.done));
        }
        if self.channels.iter().flat_map(Part::get).any(parcel) {
            self.fail("the end is announced, and a parcel is under way".into());
        }
    }

    /// What is wrong where nothing can happen any more.
    fn check_last(&self) -> Option<String> {
        let left = self.processes.iter().all(|process| process.get().engine.has_ended());
        let counted = usize::from(self.result.map_or(0, |done| done.0));
        if !left {
            Some("nothing can happen, and somebody has not left".into())
        } else if counted != self.done.count_ones() as usize {
            Some(format!("the totals are {counted}, and tasks {:b} are done", self.done))
        } else if counted != self.tree.len() && !self.was_stopped {
            Some(format!("the totals are {counted} of {} tasks", self.tree.len()))
        } else {
            None
        }
    }

    fn key(&self) -> u128 {
        let processes = self.processes.iter().map(|part| part.0.1);
        let channels = self.channels.iter().map(|part| part.0.1);
        let hashes: Vec<u128> = processes.chain(channels).collect();
        fingerprint(&(
            hashes,
            self.done,
            self.wrong.is_some(),
            self.result,
            self.disturbance,
            self.was_stopped,
        ))
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
    let seeds: Vec<u64> = (0..choices).map(|choice| seed_for((choice, choices))).collect();
    let mut numbers = HashMap::from([(world.key(), 0_u32)]);
    let mut steps_back = Vec::new();
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
            for seed in &seeds {
                let mut next = world.clone();
                let has_drawn = next.apply(step, *seed);
                let fresh = numbers.len() as u32;
                let found = *numbers.entry(next.key()).or_insert(fresh);
                if found == fresh {
                    todo.push((fresh, next));
                }
                steps_back.push((found, number));
                if !has_drawn {
                    break;
                }
            }
        }
        assert!(numbers.len() <= most, "more than {most} states");
    }
    Found { states: numbers.len(), wrong: unreached(numbers.len(), steps_back, last) }
}

/// Whether some state has no way to an end. `steps_back`: for each step where it leads and where it comes from.
fn unreached(states: usize, mut steps_back: Vec<(u32, u32)>, mut todo: Vec<u32>) -> Option<String> {
    steps_back.sort_unstable();
    let mut reached = vec![false; states];
    while let Some(state) = todo.pop() {
        if !std::mem::replace(&mut reached[state as usize], true) {
            let first = steps_back.partition_point(|(to, _)| *to < state);
            let before = steps_back[first..].iter().take_while(|(to, _)| *to == state);
            todo.extend(before.map(|(_, from)| *from).filter(|from| !reached[*from as usize]));
        }
    }
    let stuck = reached.iter().filter(|reached| !**reached).count();
    (stuck > 0).then(|| format!("{stuck} of {states} states have no way to an end"))
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

/// Visits all states of one job, with every rank that may be drawn.
fn visit(
    schedule: ScheduleKind,
    termination: Termination,
    hosts: &[u32],
    tree: Tree,
    disturbance: Disturbance,
) {
    let choices = (hosts.len() as u64).saturating_sub(1).max(1);
    let world = World::new(config(schedule, termination), hosts, tree, disturbance);
    let found = explore(world, choices, STATES_MOST);
    let what = format!("{schedule}, {termination}, hosts {hosts:?}, {} tasks, {disturbance:?}", tree.len());
    println!("{what}: {} states", found.states);
    assert_eq!(found.wrong, None, "{what}");
}

fn all(hosts: &[u32], tree: Tree, disturbance: Disturbance) {
    for schedule in ScheduleKind::ALL {
        for termination in Termination::ALL {
            visit(schedule, termination, hosts, tree, disturbance);
        }
    }
}

#[test]
fn one_rank() {
    all(&[0], WIDE, Disturbance::None);
}

#[test]
fn two_ranks() {
    for disturbance in [Disturbance::None, Disturbance::Stop, Disturbance::Repeat, Disturbance::Flash] {
        all(&[0, 1], WIDE, disturbance);
    }
}

#[test]
fn ranks_that_find_nothing_to_give() {
    for schedule in
        [ScheduleKind::Random, ScheduleKind::Proximity, ScheduleKind::Hybrid, ScheduleKind::Lifeline]
    {
        for termination in Termination::ALL {
            visit(schedule, termination, &[0, 1], WIDE, Disturbance::Empty);
        }
    }
}

#[test]
fn three_ranks_of_which_one_looks_busy_for_a_moment() {
    for schedule in [ScheduleKind::Proximity, ScheduleKind::Lifeline] {
        visit(schedule, Termination::Counters, &[0, 1, 1], FORK, Disturbance::Flash);
    }
}

#[test]
fn three_ranks() {
    all(&[0, 1, 1], FORK, Disturbance::None);
}

#[test]
fn three_ranks_and_a_stop() {
    for schedule in [ScheduleKind::Centralized, ScheduleKind::Proximity, ScheduleKind::Lifeline] {
        for termination in Termination::ALL {
            visit(schedule, termination, &[0, 1, 1], FORK, Disturbance::Stop);
        }
    }
}

/// All on hosts of their own, and two on each of two.
const FOUR_HOSTS: &[u32] = &[0, 1, 2, 3];
const TWO_HOSTS: &[u32] = &[0, 0, 1, 1];

#[test]
fn four_ranks_with_a_master_or_a_request_vector() {
    for termination in Termination::ALL {
        visit(ScheduleKind::Centralized, termination, FOUR_HOSTS, TWICE, Disturbance::None);
        visit(ScheduleKind::CentralizedKeep, termination, FOUR_HOSTS, TWICE, Disturbance::None);
        visit(ScheduleKind::Proximity, termination, TWO_HOSTS, COMB, Disturbance::None);
    }
}

#[test]
fn four_ranks_with_lifelines_and_counters() {
    visit(ScheduleKind::Lifeline, Termination::Counters, TWO_HOSTS, FORK, Disturbance::None);
}

#[test]
fn four_ranks_with_lifelines_and_a_token() {
    visit(ScheduleKind::Lifeline, Termination::Token, TWO_HOSTS, FORK, Disturbance::None);
}

#[test]
fn four_ranks_that_draw_their_victims_and_a_token() {
    visit(ScheduleKind::Hybrid, Termination::Token, TWO_HOSTS, FORK, Disturbance::None);
}

#[test]
#[ignore = "minutes: ./check long"]
fn four_ranks_more() {
    visit(ScheduleKind::Hybrid, Termination::Counters, TWO_HOSTS, FORK, Disturbance::None);
    visit(ScheduleKind::Lifeline, Termination::Token, FOUR_HOSTS, FORK, Disturbance::None);
    for termination in Termination::ALL {
        visit(ScheduleKind::Proximity, termination, FOUR_HOSTS, FORK, Disturbance::None);
    }
}

/// Whether it is noticed that a rule is switched off.
fn is_caught(rule: Rule, schedule: ScheduleKind, termination: Termination, hosts: &[u32], tree: Tree) {
    let config = Config { rules: Rules::without(rule), ..config(schedule, termination) };
    let disturbance = if rule == Rule::AcceptOnce { Disturbance::Repeat } else { Disturbance::None };
    let found = explore(World::new(config, hosts, tree, disturbance), 2, STATES_MOST);
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
    for rule in Rule::ALL {
        match rule {
            Rule::AwaitAcceptance => is_caught(rule, Random, Token, &[0, 1, 2], COMB),
            Rule::AcceptOnce => is_caught(rule, Random, Counters, &[0, 1], FORK),
            Rule::SecondWave | Rule::SumsAgree => is_caught(rule, Random, Counters, &[0, 1, 2], TWICE),
            Rule::Blacken => is_caught(rule, Random, Token, &[0, 1, 2], TWICE),
            Rule::AwaitAnswer => is_caught(rule, Random, Counters, &[0, 1, 2], FORK),
            Rule::AwaitChildren => is_caught(rule, Random, Counters, &[0, 1], FORK),
        }
    }
}
