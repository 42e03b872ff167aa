//! The engine of one rank: takes events, returns actions. The parts: `work.rs` finds and gives work, `close.rs` ends the job,
//! `termination.rs` detects termination, `reduction.rs` adds up totals.
//!
//! # How a job ends
//! The root detects that the job is over, or receives a request to stop. It sends [`Message::Finish`] down the tree. Each rank
//! then starts no more tasks. A rank sends its last totals up when its workers have stopped, its own request has been
//! answered, all parcels that it gave have been accepted, and its children's last totals have arrived. When the root has all
//! totals, no request, answer, parcel or acceptance is in flight. The root then sends [`Message::Farewell`] down the tree. A
//! rank that has forwarded it is done: no rank sends to it any more.

//!
//! # How fast totals climb
//! While the job runs, a rank sends totals up once per interval, but only after its parent has taken the previous ones
//! ([`Message::TotalsTaken`]). Without this rule, totals would pile up at a parent that is slower than the interval and delay
//! all other messages to it.
//!
//! # When parcels are acknowledged
//! The token needs an immediate acknowledgement of each parcel ([`Message::Accepted`]). The counters need none: when they
//! detect the end, all parcels have been accepted. If a job ends early, each rank acknowledges when it receives the order to
//! finish: it sends every giver the number of the last parcel accepted from it, and then acknowledges each late parcel.

mod close;
mod work;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use crate::message::{Message, Tasks};
use crate::parcels::Parcels;
use crate::reduction::{Reduce, Reduction};
use crate::schedule::Schedule;
use crate::termination::{Detector, Findings, Idleness};
use crate::{Place, Random, Rank, Rules, ScheduleKind, Share, Split, Termination, Tree};

/// The settings that all ranks of a job share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Which ranks a rank asks for work.
    pub schedule: ScheduleKind,
    /// How much work the asked rank gives.
    pub split: Split,
    /// How termination is detected.
    pub termination: Termination,
    /// Children of each rank in the tree of ranks.
    pub tree_width: u32,
    /// How often totals climb while the job runs. None: only at the end.
    pub progress_interval: Option<Duration>,
    /// A rank asks for work when fewer tasks than this wait. 0: when no task waits and none runs. A rank with one thread always
    /// uses 0.
    pub low_water: u64,
    /// The first pause after all requests were refused. It doubles each time.
    pub pause_first: Duration,
    /// The longest such pause of a rank without work. A rank that still has some work pauses up to ten times as long.
    pub pause_most: Duration,
    /// How long a rank is idle before it reports so, and the minimum interval between two reports.
    pub quiet_interval: Duration,
    /// The seed of all random choices.
    pub seed: u64,
    /// A rule to switch off, to test the checkers.
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            schedule: ScheduleKind::default(),
            split: Split::default(),
            termination: Termination::default(),
            tree_width: 16,
            progress_interval: None,
            low_water: 1,
            pause_first: Duration::from_micros(50),
            pause_most: Duration::from_millis(10),
            quiet_interval: Duration::from_millis(1),
            seed: 0,
            rules: Rules::default(),
        }
    }
}

/// How much work a rank has, as reported by its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Load {
    /// Tasks that wait.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
    /// Tasks that can run at once: the number of threads.
    pub slots: u64,
}

/// Why a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// All tasks are done.
    Done,
    /// A caller asked the job to end early.
    Stopped,
    /// A rank cannot continue.
    Failed,
}

atta_code::choice!(Reason {
    0 => Done,
    1 => Stopped,
    2 => Failed,
});

/// What the driver must do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action<R> {
    /// Send a message. Messages from one rank to another must arrive in the order in which they were sent.
    Send {
        /// The receiver.
        to: Rank,
        /// The message.
        message: Message,
    },
    /// Take this share of the waiting tasks, oldest first, and call [`Engine::give`] with them before any other method.
    /// Fewer tasks, or none, are allowed.
    Take {
        /// The rank that receives them.
        to: Rank,
        /// How many.
        share: Share,
    },
    /// Add these tasks to the waiting ones.
    Accept {
        /// The rank that gave them.
        from: Rank,
        /// The tasks.
        tasks: Tasks,
    },
    /// Call [`Engine::report`] with the totals of this rank so far.
    Report,
    /// The totals of all ranks so far, as far as the root knows them. Only on the root.
    Progress(R),
    /// Start no more tasks. When no task runs any more, call [`Engine::finish`] with the last totals of this rank.
    Finish(Reason),
    /// The last totals of all ranks. Only on the root.
    Result(R),
    /// No rank sends to this one any more: leave when all its own messages have left.
    Leave,
}

/// Statistics of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests for work sent.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Parcels given.
    pub parcels_given: u64,
    /// Tasks in them.
    pub tasks_given: u64,
    /// Parcels accepted.
    pub parcels_accepted: u64,
    /// Tasks in them.
    pub tasks_accepted: u64,
    /// Pauses after all requests were refused.
    pub rests: u64,
}

/// Counts influence no decision, so engines that differ only in them hash alike.
impl Hash for Counts {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// A message that is not valid in the current state: a bug, or a foreign program at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// The sender.
    pub from: Rank,
    /// The message.
    pub message: Box<Message>,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} sent a message that makes no sense here: {:?}", self.from, self.message)
    }
}

impl core::error::Error for ProtocolError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Running,
    /// The rank must finish; its last totals have not been sent yet.
    Finishing(Reason),
    /// The last totals have been sent.
    Waiting,
    Ended,
}

/// The protocol of one rank.
#[derive(Clone, Debug, Hash)]
pub struct Engine<R> {
    config: Config,
    here: Rank,
    alone: bool,
    tree: Tree,
    phase: Phase,
    random: Random,
    schedule: Box<dyn Schedule>,
    detector: Detector,
    reduction: Reduction<R>,
    parcels: Parcels,
    load: Load,
    /// Shares that the driver has not taken yet: the receiver, whether it answers a request, whether the receiver waits.
    taking: VecDeque<(Rank, bool, bool)>,
    /// The rank that this one has asked and that has not answered yet.
    asked: Option<Rank>,
    /// Ranks that wait for work from this one, in order of service.
    registered: VecDeque<Rank>,
    /// The same ranks, for look-ups.
    is_registered: BTreeSet<Rank>,
    retry_at: Option<Duration>,
    /// Whether that pause began while tasks ran here.
    rests_at_work: bool,
    pauses: u32,
    progress_at: Duration,
    /// Whether the parent has not taken the newest totals yet.
    totals_under_way: bool,
    has_asked_to_stop: bool,
    counts: Counts,
    actions: VecDeque<Action<R>>,
}

impl<R: Reduce> Engine<R> {
    /// The engine of one rank, at time zero and without work. The driver of the root holds the first tasks.
    #[must_use]
    pub fn new(config: Config, place: &Place) -> Self {
        let here = place.here();
        let tree = Tree::new(here, place.size(), config.tree_width);
        let schedule = config.schedule.start(place);
        let registered: VecDeque<Rank> = schedule.waiting_at_start().into();
        Self {
            config,
            here,
            alone: place.size() == 1,
            tree,
            phase: Phase::Running,
            random: Random::stream(config.seed, u64::from(here.0)),
            detector: Detector::new(config.termination, place, tree, config.quiet_interval, config.rules),
            reduction: Reduction::new(&tree),
            parcels: Parcels::default(),
            load: Load { waiting: 0, running: 1, slots: 1 },
            taking: VecDeque::new(),
            asked: None,
            is_registered: registered.iter().copied().collect(),
            registered,
            schedule,
            retry_at: None,
            rests_at_work: false,
            pauses: 0,
            progress_at: config.progress_interval.unwrap_or_default(),
            totals_under_way: false,
            has_asked_to_stop: false,
            counts: Counts::default(),
            actions: VecDeque::new(),
        }
    }

    /// Whether this rank runs tasks at all. The master of a centralized job does not.
    #[must_use]
    pub fn runs_tasks(&self) -> bool {
        self.schedule.runs_tasks()
    }

    /// Whether this rank returns new tasks to the master. If so: how many of them each worker keeps.
    #[must_use]
    pub fn hands_in(&self) -> Option<u64> {
        if self.alone { None } else { self.schedule.hands_in().map(|(_, kept)| kept) }
    }

    /// The statistics of this engine.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether this rank has left the job.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Takes in the current load. An exact zero ends a job: `waiting` and `running` may be zero only if no task waits or runs,
    /// and no accepted task is still on its way to the workers.
    pub fn handle_load(&mut self, now: Duration, load: Load) {
        self.load = load;
        self.react(now);
    }

    /// Takes in a message.
    ///
    /// # Errors
    /// The message is not valid in the current state. Nothing was changed, but the job cannot be trusted any more.
    pub fn handle_message(
        &mut self,
        now: Duration,
        from: Rank,
        message: Message,
    ) -> Result<(), ProtocolError> {
        let accepted = match message {
            Message::Request { idle, wait } => self.requested(from, idle, wait),
            Message::Nothing => self.refused(from),
            Message::Parcel { sequence, answer, ref tasks } => {
                self.receive_parcel(from, sequence, answer, tasks)
            }
            Message::Accepted { sequence } => self.parcels.accepted(from, sequence),
            Message::Quiet(_) | Message::Probe { .. } | Message::Census { .. } | Message::Token { .. } => {
                self.detect(now, |detector, findings| detector.handle(now, from, &message, findings))
            }
            Message::Totals { last, ref value } => self.totals(from, last, value),
            Message::Stop(reason) => self.tree.child_index(from).is_some() && self.stop_wanted(now, reason),
            Message::Finish(reason) => self.tree.parent() == Some(from) && self.finish_all(now, reason),
            Message::Farewell => self.tree.parent() == Some(from) && self.farewell(),
            Message::TotalsTaken => self.tree.parent() == Some(from) && self.totals_taken(),
        };
        if !accepted {
            return Err(ProtocolError { from, message: Box::new(message) });
        }
        self.react(now);
        Ok(())
    }

    /// Takes in that time has passed. Call it at [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Duration) {
        self.react(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) if no other event comes first.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.phase != Phase::Running {
            return None;
        }
        let retry = self.retry_at.filter(|_| self.asked.is_none() && self.wants_work());
        let progress =
            self.config.progress_interval.filter(|_| !self.totals_under_way).map(|_| self.progress_at);
        [retry, progress, self.detector.timeout()].into_iter().flatten().min()
    }

    /// Makes random choices depend on `seed` from now on. For the state-space explorer.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// The next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action<R>> {
        self.actions.pop_front()
    }

    /// Runs every decision that depends on the whole state. Called after each change.
    fn react(&mut self, now: Duration) {
        if self.phase == Phase::Running {
            self.hand_in();
            self.serve();
            self.seek(now);
            let idle = self.idleness();
            self.detect(now, |detector, findings| {
                detector.set_idle(now, idle, findings);
                true
            });
            self.ask_for_report(now);
        }
        self.close();
    }

    fn idleness(&self) -> Idleness {
        Idleness {
            no_tasks: self.load.waiting == 0 && self.load.running == 0 && self.taking.is_empty(),
            settled: self.parcels.is_settled() || self.config.rules.is_broken(crate::Rule::AwaitAcceptance),
        }
    }

    fn detect(&mut self, now: Duration, f: impl FnOnce(&mut Detector, &mut Findings) -> bool) -> bool {
        let mut findings = Findings::default();
        let accepted = f(&mut self.detector, &mut findings);
        for (to, message) in findings.messages {
            self.send(to, message);
        }
        if findings.terminated && self.phase == Phase::Running {
            let _ = self.finish_all(now, Reason::Done);
        }
        accepted
    }

    fn send(&mut self, to: Rank, message: Message) {
        self.actions.push_back(Action::Send { to, message });
    }
}
