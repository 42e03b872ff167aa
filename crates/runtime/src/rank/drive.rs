//! Drives one rank of a job: connects the engine, the pool of this process and the other ranks. It moves messages and tasks; the
//! engine makes all decisions.
//!
//! ```text
//!   other ranks ◀── Link ──▶ Drive ◀──▶ Engine
//!                              │
//!                              └── load, take, accept ──▶ the pool's deques
//! ```
//!
//! Only the supervising thread runs this code, so only one thread uses the fabric. A fabric that reports arrivals wakes it. Any
//! other fabric is polled, often while messages arrive, rarely otherwise.

use std::time::{Duration, Instant};

use atta_engine::{Action, Counts, Engine, Load, Message, Rank, Reason, Reduce};
use atta_fabric::Received;

use super::error::RankError;
use super::link::Link;
use super::local::{Local, Peer};
use super::outbox::Outbox;
use super::wait::{Limits, Wait};
use crate::bell::Bell;

/// The first polling pause after activity. A sleep of 50 us takes about 100.
const POLL_FIRST: Duration = Duration::from_micros(50);
/// The longest pause while this rank has work: the longest wait of a thief. It costs 1 % of a core with Open MPI, 3 % with
/// MPICH. So after a long silence it grows to a fraction of that silence.
const POLL_BUSY: Duration = Duration::from_millis(1);
const POLL_SILENT: Duration = Duration::from_millis(5);
const SILENCE_PART: u32 = 50;
/// The longest pause without work. A poll costs about 40 us with Open MPI: every millisecond that would be 4 % of a core.
const POLL_IDLE: Duration = Duration::from_millis(10);
/// The longest pause on a fabric that reports arrivals.
const PAUSE: Duration = Duration::from_millis(25);
/// Messages to take in before the workers' load is checked again.
const MESSAGES_AT_ONCE: usize = 256;

/// One rank of a job that runs on several ranks. `R` is the type of the totals.
pub(crate) struct Drive<'l, 'e, R: Reduce> {
    link: &'l mut Link<'e>,
    engine: Engine<R>,
    started: Instant,
    /// The next pause.
    poll: Duration,
    /// The time of the last activity.
    stirred: Duration,
    /// Whether this rank has sent a request since the last pause: the answer may arrive soon.
    has_asked: bool,
    limits: Limits,
    /// Waiting for the other ranks since the job was asked to end.
    stopping: Option<Wait>,
    finishing: Option<Reason>,
    left: bool,
    progress: Option<R>,
    result: Option<R>,
    /// Time spent on messages.
    busy: Duration,
}

impl<'l, 'e, R: Reduce> Drive<'l, 'e, R> {
    /// All ranks make their engines with the same configuration.
    pub(crate) fn new(link: &'l mut Link<'e>, engine: Engine<R>, limits: Limits) -> Self {
        Self {
            engine,
            link,
            started: Instant::now(),
            poll: POLL_FIRST,
            stirred: Duration::ZERO,
            has_asked: false,
            limits,
            stopping: None,
            finishing: None,
            left: false,
            progress: None,
            result: None,
            busy: Duration::ZERO,
        }
    }

    /// The engine's counts.
    pub(crate) fn counts(&self) -> Counts {
        self.engine.counts()
    }

    /// Time spent on messages.
    pub(crate) fn communication(&self) -> Duration {
        self.busy
    }

    /// Ends the job: hands in the last totals of this rank, and waits until all ranks have done so. All ranks get the reason of the
    /// end; the first one also gets the totals of all.
    pub(crate) fn close(&mut self, totals: R) -> Result<(Reason, Option<R>), RankError> {
        let now = self.now();
        self.engine.finish(now, totals);
        let mut wait = Wait::new(self.limits);
        while !(self.left && self.link.unsent()? == 0) {
            let pause = self.exchange(&Nothing, || None)?;
            wait.check(self.link, &self.awaited())?;
            self.link.wait(pause);
        }
        Ok((self.finishing.unwrap_or(Reason::Failed), self.result.take()))
    }

    /// The ranks that this one waits for at the end.
    fn awaited(&self) -> Vec<u32> {
        self.engine.waits_for().into_iter().map(|rank| rank.0).collect()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes in arrivals and acts on them. Returns how long to wait.
    fn exchange(&mut self, local: &dyn Local, totals: impl Fn() -> Option<R>) -> Result<Duration, RankError> {
        let began = Instant::now();
        let (mut taken, mut asked, before) = (0, 0, self.link.arrived);
        // Messages after the farewell belong to the next step of the ranks over this fabric.
        while taken < MESSAGES_AT_ONCE
            && !self.left
            && let Some(Received { from, message }) = self.link.next_of_engine()?
        {
            taken += 1;
            let from = Rank(from);
            let message = Message::decode(&message).map_err(|error| RankError::Wire { from, error })?;
            asked += u64::from(matches!(message, Message::Request { .. }));
            let now = self.now();
            self.engine.handle_message(now, from, message)?;
            self.act(local, &totals)?;
        }
        self.link.serve()?;
        if let Some(failed) = self.link.failure() {
            return Err(failed);
        }
        while let Some((to, tasks)) = local.next_addressed().map_err(RankError::Stuck)? {
            let now = self.now();
            // Otherwise the job ends, and no rank runs them.
            let _ = self.engine.address(now, Rank(to), tasks);
            self.act(local, &totals)?;
        }
        let now = self.now();
        self.engine.handle_load(now, local.load());
        self.act(local, &totals)?;
        let waits = self.link.unsent()? > 0;
        self.busy += began.elapsed();
        let Load { waiting, running, .. } = local.load();
        let is_idle = waiting == 0 && running == 0;
        // An idle rank refuses every request, so a request then announces no further messages.
        let meaningless = if is_idle { asked } else { 0 };
        let asks = std::mem::take(&mut self.has_asked);
        let arrived = self.link.arrived - before;
        Ok(self.pause(arrived > meaningless || asks || waits, is_idle))
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
                    self.link.send(to.0, message.encode())?;
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
        let most = match (self.link.is_polled, is_idle) {
            (false, _) => PAUSE,
            (true, false) => (silence / SILENCE_PART).clamp(POLL_BUSY, POLL_SILENT),
            (true, true) => POLL_IDLE,
        };
        self.poll = if stirs { POLL_FIRST } else { (self.poll * 2).min(most) };
        let pause = if self.link.is_polled { self.poll } else { PAUSE };
        match self.engine.poll_timeout() {
            Some(at) => pause.min(at.saturating_sub(now)),
            None => pause,
        }
    }
}

/// A rank during the run of its pool.
pub(crate) struct Attending<'a, 'l, 'e, R: Reduce, T> {
    pub(crate) drive: &'a mut Drive<'l, 'e, R>,
    /// Returns the totals of this rank so far.
    pub(crate) totals: T,
    /// The newest totals of all ranks, on the first one.
    pub(crate) progress: &'a std::cell::Cell<Option<R>>,
    /// The error that stops it.
    pub(crate) error: Option<RankError>,
}

impl<R: Reduce, T: Fn() -> R> Attending<'_, '_, '_, R, T> {
    fn look(&mut self, local: &dyn Local, stopping: bool) -> Result<Duration, RankError> {
        let drive = &mut *self.drive;
        if stopping && drive.stopping.is_none() {
            drive.stopping = Some(Wait::new(drive.limits));
            let now = drive.now();
            drive.engine.stop(now, Reason::Stopped);
        }
        let pause = drive.exchange(local, || Some((self.totals)()))?;
        if let Some(progress) = drive.progress.take() {
            self.progress.set(Some(progress));
        }
        if stopping {
            drive.link.send_alive(local.is_at_work(), drive.limits.period())?;
        }
        if drive.finishing.is_none()
            && let Some(mut wait) = drive.stopping.take()
        {
            let awaited = drive.awaited();
            let checked = wait.check(drive.link, &awaited);
            drive.stopping = Some(wait);
            checked?;
        }
        Ok(pause)
    }
}

impl<R: Reduce, T: Fn() -> R> Peer for Attending<'_, '_, '_, R, T> {
    fn bell(&self) -> Bell {
        self.drive.link.bell.clone()
    }

    fn outbox(&self) -> Outbox {
        self.drive.link.outbox.clone()
    }

    fn runs_tasks(&self) -> bool {
        self.drive.engine.runs_tasks()
    }

    fn kept(&self) -> Option<usize> {
        self.drive.engine.hands_in().map(|kept| usize::try_from(kept).unwrap_or(usize::MAX))
    }

    fn attend(&mut self, local: &dyn Local, stopping: bool) -> Duration {
        self.look(local, stopping).unwrap_or_else(|error| {
            // Workers that wait for room would otherwise wait forever.
            self.drive.link.outbox.close();
            if error.goes_on_elsewhere() {
                self.drive.link.stop.set_lost();
            }
            self.error.get_or_insert(error);
            PAUSE
        })
    }

    fn has_finished(&self) -> bool {
        self.drive.finishing.is_some() || self.error.is_some()
    }

    fn was_stopped(&self) -> bool {
        self.error.is_some() || self.drive.finishing.is_some_and(|reason| reason != Reason::Done)
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

    fn is_at_work(&self) -> bool {
        false
    }
}
