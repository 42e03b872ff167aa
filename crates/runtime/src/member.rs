//! One rank of a job: the engine between the pool of this process and the fabric. It moves messages and tasks; whatever
//! is decided is decided by the engine.
//!
//! ```text
//!   other ranks ◀── fabric ──▶ Member ◀──▶ Engine
//!                                │
//!                                └── load, take, accept ──▶ the pool's deques
//! ```
//!
//! Only the supervising thread comes here, so only one thread speaks to the fabric. A fabric that tells of arrivals wakes
//! it; one that does not is polled, often while messages come, rarely while none do.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use atta_engine::{
    Action, Config, Counts, Engine, Load, Message, Place, ProtocolError, Rank, Reason, Reduce, WireError,
};
use atta_fabric::{Endpoint, FabricError, Received};

use crate::bell::Bell;
use crate::local::{Local, Peer};
use crate::meeting::{Meeting, is_of_meeting};
use crate::pool::run_with;
use crate::stream::{self, Outbox, Stream};
use crate::{Job, Options, Outcome, Status};

/// The first pause of polling after something has stirred. A sleep of 50 us takes some 100.
const POLL_FIRST: Duration = Duration::from_micros(50);
/// The longest, while this rank has work: a thief waits for it at most so long. It costs 1 % of a core with Open MPI, 3 %
/// with MPICH; so after a long silence it may be longer, a part of that silence.
const POLL_BUSY: Duration = Duration::from_millis(1);
const POLL_SILENT: Duration = Duration::from_millis(5);
const SILENCE_PART: u32 = 50;
/// The longest, while it has none. One poll costs some 40 us with Open MPI: every millisecond that was 4 % of a core.
const POLL_IDLE: Duration = Duration::from_millis(10);
/// The longest pause on a fabric that tells of arrivals.
const PAUSE: Duration = Duration::from_millis(25);
/// The exit code of ranks that are ended because one of them failed.
const ABORTED: i32 = 4;
/// Messages that are taken in before the workers' load is looked at again.
const MESSAGES_AT_ONCE: usize = 256;

/// Why a rank cannot go on. The job's other ranks must be ended, too: see [`Member::abort`].
#[derive(Debug)]
pub enum RankError {
    /// The fabric failed.
    Fabric(FabricError),
    /// A rank sent what is no message.
    Wire {
        /// Which rank.
        from: Rank,
        /// What is wrong with it.
        error: WireError,
    },
    /// A rank sent what makes no sense.
    Protocol(ProtocolError),
    /// A rank sent tasks that are none.
    Tasks {
        /// Which rank.
        from: Rank,
        /// What is wrong with them.
        why: String,
    },
    /// A task must leave this rank and cannot.
    Stuck(&'static str),
}

impl std::fmt::Display for RankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fabric(error) => write!(f, "{error}"),
            Self::Wire { from, error } => write!(f, "from rank {from}: {error}"),
            Self::Protocol(error) => write!(f, "{error}"),
            Self::Tasks { from, why } => write!(f, "rank {from} sent tasks that are none: {why}"),
            Self::Stuck(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RankError {}

impl From<FabricError> for RankError {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error)
    }
}

impl From<ProtocolError> for RankError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

/// What the root does with what a rank sends: its number, the stream, the bytes.
pub type Receiver<'r> = Box<dyn FnMut(u32, Stream, &[u8]) + 'r>;

/// One rank of a job that runs on several. `R` is what they add up.
pub struct Member<'e, 'r, R: Reduce> {
    endpoint: &'e mut dyn Endpoint,
    engine: Engine<R>,
    started: Instant,
    bell: Bell,
    /// Whether the fabric never rings, so that it must be polled.
    is_polled: bool,
    /// The next pause.
    poll: Duration,
    /// When something stirred last.
    stirred: Duration,
    /// Whether this rank has asked another one since the last pause: the answer may come soon.
    has_asked: bool,
    /// Messages that came before the engine was started.
    early: VecDeque<Received>,
    /// Messages of the meeting after the job, from ranks that are there already.
    later: VecDeque<Received>,
    /// Steps of meetings that have begun.
    step: u32,
    outbox: Outbox,
    receiver: Option<Receiver<'r>>,
    finishing: Option<Reason>,
    stop_told: bool,
    left: bool,
    progress: Option<R>,
    result: Option<R>,
    error: Option<RankError>,
    busy: Duration,
    /// Messages and bytes sent, by receiver.
    traffic: BTreeMap<u32, (u64, u64)>,
}

impl<R: Reduce + std::fmt::Debug> std::fmt::Debug for Member<'_, '_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("rank", &self.endpoint.rank()).field("engine", &self.engine).finish()
    }
}

impl<'e, 'r, R: Reduce> Member<'e, 'r, R> {
    /// The rank at this end of a fabric. All ranks make theirs with the same `config`.
    pub fn new(endpoint: &'e mut dyn Endpoint, config: Config) -> Self {
        Self::after(Meeting::new(endpoint), config)
    }

    /// The same, after a meeting of all.
    pub fn after(meeting: Meeting<'e>, config: Config) -> Self {
        let Meeting { endpoint, step, early, .. } = meeting;
        let neighbours = endpoint.neighbours().iter().copied().map(Rank).collect();
        let place = Place::new(Rank(endpoint.rank()), endpoint.size(), neighbours);
        let bell = Bell::default();
        let ringer = bell.clone();
        let is_polled = !endpoint.on_arrival(std::sync::Arc::new(move || ringer.ring()));
        Self {
            engine: Engine::new(config, &place),
            endpoint,
            started: Instant::now(),
            bell: bell.clone(),
            is_polled,
            poll: POLL_FIRST,
            stirred: Duration::ZERO,
            has_asked: false,
            early,
            later: VecDeque::new(),
            step,
            outbox: Outbox::new(bell.clone()),
            receiver: None,
            finishing: None,
            stop_told: false,
            left: false,
            progress: None,
            result: None,
            error: None,
            busy: Duration::ZERO,
            traffic: BTreeMap::new(),
        }
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.endpoint.rank()
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// What sends to the root, for the workers of this rank. On the root it leads nowhere.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Sets what the root does with what the others send: on the supervising thread, which must not be held up for long.
    pub fn on_stream(&mut self, receiver: Receiver<'r>) {
        self.receiver = Some(receiver);
    }

    /// Whether this rank runs tasks at all: the one that hands them out in a centralized job does not.
    #[must_use]
    pub fn runs_tasks(&self) -> bool {
        self.engine.runs_tasks()
    }

    /// The newest totals of all ranks that the root knows, once.
    pub fn take_progress(&mut self) -> Option<R> {
        self.progress.take()
    }

    /// What the engine counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.engine.counts()
    }

    /// To whom this rank has sent how many messages and bytes so far, in the order of ranks.
    #[must_use]
    pub fn traffic(&self) -> Vec<(u32, u64, u64)> {
        self.traffic.iter().map(|(to, (messages, bytes))| (*to, *messages, *bytes)).collect()
    }

    /// Time spent on messages.
    #[must_use]
    pub fn communication(&self) -> Duration {
        self.busy
    }

    /// Ends the job: hands in the last totals of this rank, waits until all ranks have done so, and leaves. The root gets
    /// the totals of all, and everybody the reason for which the job ended.
    ///
    /// # Errors
    /// The fabric or another rank fails.
    pub fn close(&mut self, totals: R) -> Result<(Reason, Option<R>), RankError> {
        // Totals are the last thing that a rank sends: when the root has them, it has the rest.
        while self.rank() != Rank::ROOT.0 && !self.outbox.is_empty() {
            let pause = self.exchange(&Nothing, || None)?;
            self.bell.wait(pause);
        }
        let now = self.now();
        self.engine.finish(now, totals);
        while !(self.left && self.endpoint.unsent()? == 0) {
            let pause = self.exchange(&Nothing, || None)?;
            self.bell.wait(pause);
        }
        Ok((self.finishing.unwrap_or(Reason::Failed), self.result.take()))
    }

    /// The meeting of all ranks after [`close`](Self::close). Ranks that have closed before this one may have sent to it
    /// already: only this gets what they have sent.
    #[must_use]
    pub fn into_meeting(self) -> Meeting<'e> {
        let Self { endpoint, step, early, mut later, .. } = self;
        later.extend(early);
        Meeting { endpoint, step, early: later, passing: None }
    }

    /// Ends all ranks at once, because this one cannot go on.
    pub fn abort(&mut self, exit_code: i32) {
        self.endpoint.abort(exit_code);
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes in what has come and does what follows from it. Returns for how long to wait.
    fn exchange(&mut self, local: &dyn Local, totals: impl Fn() -> Option<R>) -> Result<Duration, RankError> {
        let began = Instant::now();
        let (mut came, mut asked) = (0, 0);
        // What comes after the farewell belongs to whatever the ranks do next over this fabric.
        while came < MESSAGES_AT_ONCE
            && !self.left
            && let Some(Received { from, message }) = self.next_message()?
        {
            came += 1;
            if is_of_meeting(&message) {
                self.later.push_back(Received { from, message });
                continue;
            }
            if self.stream(from, &message)? {
                continue;
            }
            let from = Rank(from);
            let message = Message::decode(&message).map_err(|error| RankError::Wire { from, error })?;
            asked += usize::from(matches!(message, Message::Request { .. }));
            let now = self.now();
            self.engine.handle_message(now, from, message)?;
            self.act(local, &totals)?;
        }
        while let Some(message) = self.outbox.next() {
            self.send(Rank::ROOT.0, message)?;
        }
        while let Some((to, tasks)) = local.next_addressed().map_err(RankError::Stuck)? {
            let now = self.now();
            // Else the job ends, and nobody does them.
            let _ = self.engine.address(now, Rank(to), tasks);
            self.act(local, &totals)?;
        }
        let now = self.now();
        self.engine.handle_load(now, local.load());
        self.act(local, &totals)?;
        let waits = self.endpoint.unsent()? > 0;
        self.busy += began.elapsed();
        let Load { waiting, running, .. } = local.load();
        let is_idle = waiting == 0 && running == 0;
        // Who has nothing to give has said so: that another rank asked tells of nothing to come.
        let meaningless = if is_idle { asked } else { 0 };
        let asks = std::mem::take(&mut self.has_asked);
        Ok(self.pause(came > meaningless || asks || waits, is_idle))
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), RankError> {
        let (messages, bytes) = self.traffic.entry(to).or_default();
        *messages += 1;
        *bytes += message.len() as u64;
        Ok(self.endpoint.send(to, message)?)
    }

    /// Takes a message that is not for the engine. False: it is.
    fn stream(&mut self, from: u32, message: &[u8]) -> Result<bool, RankError> {
        if message == [stream::TAKEN] {
            if from != Rank::ROOT.0 || !self.outbox.taken() {
                return Err(RankError::Wire { from: Rank(from), error: WireError::Value });
            }
            return Ok(true);
        }
        let Some((stream, bytes)) = stream::open(message) else { return Ok(false) };
        let Some(receiver) = self.receiver.as_mut() else {
            return Err(RankError::Wire { from: Rank(from), error: WireError::Value });
        };
        receiver(from, stream, bytes);
        self.send(from, vec![stream::TAKEN])?;
        Ok(true)
    }

    fn next_message(&mut self) -> Result<Option<Received>, RankError> {
        match self.early.pop_front() {
            Some(early) => Ok(Some(early)),
            None => Ok(self.endpoint.receive()?),
        }
    }

    fn act(&mut self, local: &dyn Local, totals: &impl Fn() -> Option<R>) -> Result<(), RankError> {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Send { to, message } => {
                    match message {
                        Message::Nothing => local.set_wanted(true),
                        Message::Parcel { .. } => local.set_wanted(false),
                        Message::Request { .. } => self.has_asked = true,
                        _ => {}
                    }
                    self.send(to.0, message.encode())?;
                }
                Action::Take { share, .. } => {
                    let tasks = local.take(share).map_err(RankError::Stuck)?;
                    let now = self.now();
                    self.engine.give(now, tasks);
                }
                Action::Accept { from, tasks } => {
                    local.accept(&tasks).map_err(|why| RankError::Tasks { from, why })?;
                    let now = self.now();
                    self.engine.handle_load(now, local.load());
                }
                Action::Report => {
                    if let Some(totals) = totals() {
                        let now = self.now();
                        self.engine.report(now, totals);
                    }
                }
                Action::Progress(totals) => self.progress = Some(totals),
                Action::Finish(reason) => self.finishing = Some(reason),
                Action::Result(totals) => self.result = Some(totals),
                Action::Leave => self.left = true,
            }
        }
        Ok(())
    }

    /// How long to wait for the next message or timer.
    fn pause(&mut self, stirs: bool, is_idle: bool) -> Duration {
        let now = self.now();
        if stirs {
            self.stirred = now;
        }
        let silence = now.saturating_sub(self.stirred);
        let most = match (self.is_polled, is_idle) {
            (false, _) => PAUSE,
            (true, false) => (silence / SILENCE_PART).clamp(POLL_BUSY, POLL_SILENT),
            (true, true) => POLL_IDLE,
        };
        self.poll = if stirs { POLL_FIRST } else { (self.poll * 2).min(most) };
        let pause = if self.is_polled { self.poll } else { PAUSE };
        match self.engine.poll_timeout() {
            Some(at) => pause.min(at.saturating_sub(now)),
            None => pause,
        }
    }
}

/// Runs one rank's part of a job. Returns when the job is over on all ranks, or was stopped on one; then
/// [`Member::close`] must be called with the last totals of this rank.
///
/// `seeds` are this rank's first tasks; mostly only the root has any. `totals` gives what this rank did so far, for
/// progress. Tasks must be able to become bytes ([`Job::pack`], [`Job::arrive`]); those that cannot stay where they are, but
/// for a rank that hands out tasks and runs none (a centralized schedule): there they are an error.
///
/// # Errors
/// The fabric or another rank fails. All threads have ended then.
///
/// # Panics
/// As [`run`](crate::run).
pub fn run_on_ranks<J: Job, R: Reduce>(
    job: &J,
    seeds: Vec<J::Task>,
    options: &Options<'_>,
    member: &mut Member<'_, '_, R>,
    totals: impl Fn() -> R,
    mut observe: impl FnMut(&Status, Option<R>),
) -> Result<Outcome<J::Worker>, RankError> {
    let progress = std::cell::Cell::new(None);
    let mut attending = Attending { member, totals, progress: &progress };
    let outcome = run_with(job, seeds, options, Some(&mut attending), &mut |status: &Status| {
        observe(status, progress.take());
    });
    match member.error.take() {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}

/// Runs a whole job on all ranks of a fabric and leaves it: the short way for a program of one's own.
///
/// `first` are the first tasks; those of rank 0 count. Tasks must be able to become bytes, as for [`run_on_ranks`]. Rank 0 gets the sum of what all threads of all ranks gathered, the
/// others nothing.
///
/// # Errors
/// The fabric or another rank fails; all ranks are ended then.
///
/// # Panics
/// As [`run`](crate::run).
pub fn run_and_reduce<J: Job<Worker: Reduce + Default>>(
    job: &J,
    first: Vec<J::Task>,
    mut endpoint: Box<dyn Endpoint>,
    config: Config,
) -> Result<Option<J::Worker>, RankError> {
    let config = Config { progress_interval: None, ..config };
    let mut member = Member::new(&mut *endpoint, config);
    let first = if member.rank() == Rank::ROOT.0 { first } else { Vec::new() };
    let done = run_on_ranks(job, first, &Options::default(), &mut member, J::Worker::default, |_, _| {});
    let closed = done.and_then(|done| {
        let mut sum = J::Worker::default();
        done.workers.iter().for_each(|worker| sum.merge(worker));
        member.close(sum)
    });
    drop(member);
    match closed {
        Ok((_, sum)) => endpoint.leave().map(|()| sum).map_err(RankError::Fabric),
        Err(error) => {
            endpoint.abort(ABORTED);
            Err(error)
        }
    }
}

/// A rank while its pool runs.
struct Attending<'a, 'e, 'r, R: Reduce, T> {
    member: &'a mut Member<'e, 'r, R>,
    totals: T,
    progress: &'a std::cell::Cell<Option<R>>,
}

impl<R: Reduce, T: Fn() -> R> Peer for Attending<'_, '_, '_, R, T> {
    fn bell(&self) -> Bell {
        self.member.bell.clone()
    }

    fn outbox(&self) -> Outbox {
        self.member.outbox()
    }

    fn runs_tasks(&self) -> bool {
        self.member.engine.runs_tasks()
    }

    fn kept(&self) -> Option<usize> {
        self.member.engine.hands_in().map(|kept| usize::try_from(kept).unwrap_or(usize::MAX))
    }

    fn attend(&mut self, local: &dyn Local, stopping: bool) -> Duration {
        let member = &mut *self.member;
        if stopping && !member.stop_told {
            member.stop_told = true;
            let now = member.now();
            member.engine.stop(now, Reason::Stopped);
        }
        match member.exchange(local, || Some((self.totals)())) {
            Ok(pause) => {
                if let Some(progress) = member.progress.take() {
                    self.progress.set(Some(progress));
                }
                pause
            }
            Err(error) => {
                // Workers that wait for room would wait for ever.
                member.outbox.close();
                member.error.get_or_insert(error);
                PAUSE
            }
        }
    }

    fn has_finished(&self) -> bool {
        self.member.finishing.is_some() || self.member.error.is_some()
    }

    fn was_stopped(&self) -> bool {
        self.member.error.is_some() || self.member.finishing.is_some_and(|reason| reason != Reason::Done)
    }
}

/// A rank whose workers have ended.
struct Nothing;

impl Local for Nothing {
    fn load(&self) -> Load {
        Load::default()
    }

    fn take(&self, _share: atta_engine::Share) -> Result<atta_engine::Tasks, &'static str> {
        Ok(atta_engine::Tasks { count: 0, bytes: Vec::new().into() })
    }

    fn next_addressed(&self) -> Result<Option<(u32, atta_engine::Tasks)>, &'static str> {
        Ok(None)
    }

    fn accept(&self, _tasks: &atta_engine::Tasks) -> Result<(), String> {
        Err("the job is over".to_owned())
    }

    fn set_wanted(&self, _wanted: bool) {}
}
