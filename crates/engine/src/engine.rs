//! The engine of one rank: takes what happened, says what to do. The parts: `work.rs` finds and gives work, `close.rs` ends
//! the job, `termination.rs` notices that it is over, `reduction.rs` adds up.
//!
//! # How a job ends
//! The root learns that the job is over, or that somebody wants it to stop, and tells everybody down the tree
//! ([`Message::Finish`]). Each rank then starts no more tasks, and sends its last totals up when its workers have stopped,
//! its own request has been answered, all it gave has been accepted, and its children's last totals are there. So when the
//! root has the totals of all, no request, answer, parcel or acceptance is under way; [`Message::Farewell`] comes down the
//! tree, and a rank that has passed it on is done: nothing will be sent to it any more.

//!
//! # How fast totals climb
//! While the job runs, totals climb once in each interval, but the next ones only after the parent has taken the last
//! ([`Message::TotalsTaken`]): a parent that is slower than the interval would else have more and more of them to read, and
//! everything else that it is sent behind them.
//!
//! # When parcels are acknowledged
//! The token needs an acknowledgement of each parcel at once ([`Message::Accepted`]). The counters need none: when they
//! have found the job to be over, all that was given has been accepted. Only where a job ends early does each rank, when it
//! is told so, tell all from whom it ever accepted parcels the number of the last, and then of each that still comes.

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

/// What is the same on all ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Whom a rank asks for work.
    pub schedule: ScheduleKind,
    /// How much it gets.
    pub split: Split,
    /// How the end is noticed.
    pub termination: Termination,
    /// Children of each rank in the tree of ranks.
    pub tree_width: u32,
    /// How often totals climb while the job runs; none: only at the end.
    pub progress_interval: Option<Duration>,
    /// Work is asked for when fewer tasks than this wait; 0: when none waits and none runs. A rank of one thread always does
    /// as with 0.
    pub low_water: u64,
    /// The first pause after all were asked in vain; it doubles each time.
    pub pause_first: Duration,
    /// The longest such pause of a rank that has no work; one that has, but little, makes ten times as long ones.
    pub pause_most: Duration,
    /// How long a rank is idle before it tells, and between two times that it does.
    pub quiet_interval: Duration,
    /// What random choices depend on.
    pub seed: u64,
    /// Rules that are switched off, to test the checkers.
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

/// How much work a rank has, as its driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Load {
    /// Tasks that wait.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
    /// Tasks that could run at once: the number of threads.
    pub slots: u64,
}

/// Why a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// All tasks are done.
    Done,
    /// Somebody asked it to end early.
    Stopped,
    /// A rank cannot go on.
    Failed,
}

impl Reason {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Stopped => 1,
            Self::Failed => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [Self::Done, Self::Stopped, Self::Failed].into_iter().find(|reason| reason.code() == code)
    }
}

/// What the driver is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action<R> {
    /// Send a message. Messages from one rank to another must arrive in the order in which they were sent.
    Send {
        /// To whom.
        to: Rank,
        /// What.
        message: Message,
    },
    /// Take this share of the waiting tasks, oldest first, and call [`Engine::give`] with them before anything else.
    /// Fewer, or none, are fine.
    Take {
        /// Who will have them.
        to: Rank,
        /// How many.
        share: Share,
    },
    /// Put these tasks among those that wait.
    Accept {
        /// Who gave them.
        from: Rank,
        /// What.
        tasks: Tasks,
    },
    /// Call [`Engine::report`] with the totals of this rank so far.
    Report,
    /// The totals of all ranks so far, as far as they are known. Only on the root.
    Progress(R),
    /// Start no more tasks; when none runs any more, call [`Engine::finish`] with the last totals of this rank.
    Finish(Reason),
    /// The last totals of all ranks. Only on the root.
    Result(R),
    /// Nothing more will be sent to this rank: leave when what it sent has left.
    Leave,
}

/// What an engine counted of its own doings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests for work that it sent.
    pub requests: u64,
    /// Of them, those that were refused.
    pub refused: u64,
    /// Parcels that it gave.
    pub parcels_given: u64,
    /// Tasks in them.
    pub tasks_given: u64,
    /// Parcels that it accepted.
    pub parcels_accepted: u64,
    /// Tasks in them.
    pub tasks_accepted: u64,
    /// Pauses after all were asked in vain.
    pub rests: u64,
}

/// Counts decide nothing: two engines that differ in them alone do the same.
impl Hash for Counts {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// A message that makes no sense here: a bug or a foreign program on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// Who sent it.
    pub from: Rank,
    /// What it says.
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
    /// Told to end; the last totals have not gone up yet.
    Finishing(Reason),
    /// The last totals have gone up.
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
    /// Shares that the driver has not taken yet, and whether each answers a request.
    taking: VecDeque<(Rank, bool, bool)>,
    /// Whom this rank has asked and not heard of yet.
    asked: Option<Rank>,
    /// Ranks that wait for work from here, the next first.
    registered: VecDeque<Rank>,
    /// The same, to find one.
    is_registered: BTreeSet<Rank>,
    retry_at: Option<Duration>,
    /// Whether the pause until then was begun while tasks ran here.
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
    /// The engine of one rank, at time zero and without work: the root's driver has the first tasks.
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

    /// Whether this rank runs tasks at all: the one that hands them out in a centralized job does not.
    #[must_use]
    pub fn runs_tasks(&self) -> bool {
        self.schedule.runs_tasks()
    }

    /// Whether this rank returns what its tasks lead to; then its workers keep so many of them each.
    #[must_use]
    pub fn hands_in(&self) -> Option<u64> {
        if self.alone { None } else { self.schedule.hands_in().map(|(_, kept)| kept) }
    }

    /// What this engine counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether all is over for this rank.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Takes in how much work there is now. An exact zero is what ends a job: `waiting` and `running` may be zero only if
    /// no task waits or runs, and none that was accepted is on its way to the workers.
    pub fn handle_load(&mut self, now: Duration, load: Load) {
        self.load = load;
        self.react(now);
    }

    /// Takes in a message.
    ///
    /// # Errors
    /// It makes no sense here. The job cannot be trusted any more; nothing was changed.
    pub fn handle_message(
        &mut self,
        now: Duration,
        from: Rank,
        message: Message,
    ) -> Result<(), ProtocolError> {
        let accepted = match message {
            Message::Request { idle, wait } => self.requested(from, idle, wait),
            Message::Nothing => self.refused(from),
            Message::Parcel { sequence, answer, ref tasks } => self.came(from, sequence, answer, tasks),
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

    /// Takes in that time has passed: to be called at [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Duration) {
        self.react(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) if nothing else happens before.
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

    /// Makes random choices depend on `seed` from now on: for whoever explores all that may happen.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action<R>> {
        self.actions.pop_front()
    }

    /// Everything that depends on the whole state, after each change of it.
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
