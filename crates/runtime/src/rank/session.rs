//! A session: the ranks of one run of a program, from join to close. An operation uses it for everything that concerns other
//! ranks, so the same code runs alone and on thousands of ranks; alone is a session of one rank. The session starts no ranks and
//! ends no process; the program does.
//!
//! ```text
//!   join ──▶ agree ──▶ run ──▶ reduce, broadcast ──▶ close
//!   same     same      job     what is done           all output is written, the results
//!   program? files?            between jobs           of all are with the first rank
//! ```
//!
//! A wait ends when the message arrives, when a rank reports that it cannot continue, or when there is no sign of life for some
//! time after a request to end ([`Limits`]). A request to end on one rank becomes a request on all.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use atta_engine::{Config, Counts, Engine, Place, Reason, Reduce, Way};
use atta_entry::Code;
use atta_fabric::{Endpoint, in_process};

use super::agree::{Disagreement, agree};
use super::drive::{Attending, Drive};
use super::error::RankError;
use super::link::{End, Link};
use super::meet::Meeting;
use super::mirror::Mirror;
use super::network::look_around;
use super::outbox::{Outbox, Stream};
use super::relay::Shape;
use super::wait::{Limits, Wait};
use super::writer::writer;
use crate::cpu::{available_cores, cores};
use crate::job::Job;
use crate::log::LogLimits;
use crate::options::{Options, Outcome, Status};
use crate::pool::run_with;
use crate::stop::Stop;

/// The exit code of ranks that are ended because one of them failed.
const ABORTED: i32 = 4;
/// How long ranks wait for the report of the first one, after a request to end.
const REPORT_WITHIN: Duration = Duration::from_hours(24 * 365);
/// How long a failed rank waits for the first one to end all ranks.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Intervals between two checks of the other ranks during long work, first and later: a fraction of the elapsed time.
const LISTEN_FIRST: Duration = Duration::from_micros(50);
const LISTEN_LATER: Duration = Duration::from_millis(2);
const LISTEN_PART: u32 = 10;

/// A rank's place in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The number of the rank, from 0.
    pub rank: u32,
    /// The number of ranks, 1 or more.
    pub ranks: u32,
    /// A number shared by all ranks of this session and by no other session.
    pub job: u64,
    /// Cores for this rank: those that it may run on, divided among the ranks that share them.
    pub cores: usize,
}

impl Seat {
    /// The place in a session of one rank.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, ranks: 1, job: number(), cores: available_cores() }
    }

    /// Whether it is the first rank, which has the program's files, standard output and standard error.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }
}

/// A number unique to this session.
fn number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The input of one job.
#[derive(Debug)]
pub struct Work<'o, T> {
    /// The first tasks of this rank; mostly only the first rank has any.
    pub seeds: Vec<T>,
    /// The options of the run. The session's request to end replaces theirs.
    pub options: &'o Options<'o>,
}

/// The outcome of a job on one rank.
#[derive(Debug)]
pub struct Ran<W, R> {
    /// The outcome of its threads.
    pub outcome: Outcome<W>,
    /// The reason of the end, the same on all ranks.
    pub reason: Reason,
    /// The totals of all ranks. Only on the first one.
    pub sum: Option<R>,
    /// Traffic with other ranks.
    pub exchanged: Exchanged,
}

/// Traffic of a rank with others during a job.
#[derive(Clone, Debug, Default)]
pub struct Exchanged {
    /// The engine's counts.
    pub counts: Counts,
    /// Time that its communicating thread spent on messages.
    pub communication: Duration,
    /// Messages and bytes sent to each rank, in the order of ranks.
    pub traffic: Vec<(u32, u64, u64)>,
}

/// A session. See the module documentation.
pub struct Session<'e> {
    pub(super) meeting: Meeting<'e>,
    pub(super) seat: Seat,
    place: Place,
    pub(super) schedule: Config,
    pub(super) way: Way,
    goes_on: bool,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("seat", &self.seat).finish_non_exhaustive()
    }
}

impl<'e> Session<'e> {
    /// A session of one: no messages, no engine.
    #[must_use]
    pub fn alone(stop: Stop) -> Self {
        let endpoint = in_process(1).remove(0);
        let meeting = Meeting::new(Link::new(End::Alone(endpoint), stop), Limits::default());
        let place = meeting.link.place();
        Self {
            meeting,
            seat: Seat::alone(),
            place,
            schedule: Config::default(),
            way: Way::Ends,
            goes_on: false,
        }
    }

    /// Joins the other ranks of a fabric. All must run the same program: `program` is its name and versions.
    ///
    /// All ranks then take the same steps in the same order. An inner `Err` means that they run different programs. All ranks get
    /// the same answer and may leave.
    ///
    /// # Errors
    /// The fabric fails, or another rank takes another step or sends another message.
    pub fn join(
        endpoint: &'e mut dyn Endpoint,
        program: &str,
        stop: Stop,
        limits: Limits,
    ) -> Result<Result<Self, Disagreement>, RankError> {
        let mut meeting = Meeting::new(Link::new(End::Lent(endpoint), stop), limits);
        if let Some(differs) = agree(&mut meeting, vec![program.to_owned()])? {
            return Ok(Err(differs));
        }
        let (rank, ranks) = (meeting.link.rank(), meeting.link.ranks());
        let job = meeting.broadcast((rank == 0).then(number))?;
        let seat = Seat { rank, ranks, job, cores: cores_of_this_rank(&mut meeting)? };
        let place = meeting.link.place();
        Ok(Ok(Self { meeting, seat, place, schedule: Config::default(), way: Way::Ends, goes_on: false }))
    }

    /// Sets the schedule of jobs. It must be the same on all ranks.
    #[must_use]
    pub fn with_schedule(self, schedule: Config) -> Self {
        Self { schedule, ..self }
    }

    /// Adds the network, if the launcher knows it. `switches` are those above this host, from the top, as in `core.row3.rack7`.
    ///
    /// Only the schedule `proximity` needs distances. All ranks call this, or none. It keeps 4 bytes for each rank.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn add_network(&mut self, switches: Option<&str>) -> Result<(), RankError> {
        self.place = look_around(&mut self.meeting, self.place.clone(), switches)?;
        Ok(())
    }

    /// This rank's place.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// Whether this is the first rank, which has the program's files, standard output and standard error.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.seat.is_first()
    }

    /// Whether it started as a session of one, without any fabric.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.meeting.link.is_alone()
    }

    /// The request to end the session early.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.meeting.link.stop.clone()
    }

    /// From now on the logs of each rank are kept by so many others, too. All ranks call this, before any of them begins a log.
    pub fn mirror_logs(&mut self, copies: u32) {
        let Seat { rank, ranks, .. } = self.seat;
        let link = &mut self.meeting.link;
        link.mirror = Some(Mirror::new(link.bell.clone(), (rank, ranks), link.neighbours(), copies));
    }

    /// What keeps them.
    #[must_use]
    pub fn mirror(&self) -> Option<Mirror> {
        self.meeting.link.mirror.clone()
    }

    /// The outbox that sends output of this rank to the first one. On the first rank it has no receiver.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        self.meeting.link.outbox.clone()
    }

    /// Whether this rank runs tasks at all. The master of a centralized job does not.
    #[must_use]
    pub fn runs_tasks(&self) -> bool {
        self.seat.ranks == 1 || Engine::<()>::new(self.schedule, &self.place).runs_tasks()
    }

    /// Runs a part of the session during which the first rank takes the output of others, sent by their [`outbox`](Self::outbox).
    ///
    /// `receive` gets the rank, the stream and the bytes, on its own thread. [`close`](Self::close) belongs to that part.
    pub fn receiving<T>(
        &mut self,
        receive: impl FnMut(u32, Stream, &[u8]) + Send,
        part: impl FnOnce(&mut Self) -> T,
    ) -> T {
        /// Ends the writing thread, which the scope waits for.
        struct Taking<'s, 'e>(&'s mut Session<'e>);

        impl Drop for Taking<'_, '_> {
            fn drop(&mut self) {
                self.0.meeting.link.set_writer(None);
            }
        }

        if self.seat.rank > 0 || self.seat.ranks == 1 {
            return part(self);
        }
        std::thread::scope(|scope| {
            let (writer, writing) = writer(self.meeting.link.bell.clone());
            self.meeting.link.set_writer(Some(writer));
            scope.spawn(move || writing.run(receive));
            part(Taking(self).0)
        })
    }

    /// Combines a value of each rank. The first rank gets the result. `merge` adds one part to another; its result must not depend
    /// on the order. Where the result has rows of each rank, it grows with the number of ranks, so a rank's part must have a bound.
    ///
    /// # Errors
    /// Those of [`join`](Self::join); or the wait was given up.
    pub fn reduce<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<Option<T>, RankError> {
        self.meeting.reduce(own, merge)
    }

    /// Sends a value of the first rank to all. The other ranks pass none.
    ///
    /// # Errors
    /// Those of [`reduce`](Self::reduce); or the first rank passes none.
    pub fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, RankError> {
        self.meeting.broadcast(value)
    }

    /// Sends a value of the first rank of each group of ranks to the others of that group. `members` are all ranks of this rank's group,
    /// ascending; ranks without a group pass none and get none. All ranks call this together, and no rank is in two groups.
    ///
    /// # Errors
    /// Those of [`reduce`](Self::reduce); or the first rank of a group passes none.
    pub fn multicast<T: Code>(&mut self, members: &[u32], value: Option<T>) -> Result<Option<T>, RankError> {
        self.meeting.multicast(members, value)
    }

    /// Sends parts of any number from the first rank of each group to all of it, that rank included. There `next` makes the parts and returns
    /// none at the end; elsewhere it is not called. Each rank passes a part on as it comes, and `take` gets it, in order. Both run on threads of
    /// their own, and a rank keeps a few parts at most, however slow another one is. `members` are all ranks of this rank's group, in the same
    /// order on each of them, which is that of a chain. All ranks call this together; those without a group pass none and return at once. No
    /// rank is in two groups.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce). A rank whose `take` cannot use the parts goes on, and keeps to itself why.
    ///
    /// # Panics
    /// A panic of `next` or `take` is passed on.
    pub fn multicast_parts(
        &mut self,
        members: &[u32],
        shape: Shape,
        next: impl FnMut() -> Option<Vec<u8>> + Send,
        take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), RankError> {
        self.meeting.relay((members, shape), next, take)
    }

    /// Combines a value of each rank, and sends the result to all.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn all_reduce<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<T, RankError> {
        let whole = self.reduce(own, merge)?;
        self.broadcast(whole)
    }

    /// Compares facts, in the same order on all ranks. All ranks get the same answer. None: they agree.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn agree(&mut self, facts: Vec<String>) -> Result<Option<Disagreement>, RankError> {
        agree(&mut self.meeting, facts)
    }

    /// Checks whether another rank asks to end or cannot continue, and sends waiting messages. Does not block. Call it now and then
    /// during long work between two meetings.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn listen(&mut self) -> Result<(), RankError> {
        self.meeting.listen()
    }

    /// Runs long work between two meetings on its own thread. Meanwhile this rank receives messages. After a request to end it
    /// reports that it is at work, so that the others wait for it.
    ///
    /// # Errors
    /// Those of [`reduce`](Self::reduce). The work still completes, with the request to end made.
    ///
    /// # Panics
    /// A panic of the work is passed on.
    pub fn beside<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, RankError> {
        if self.seat.ranks == 1 {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let (working, began) = (scope.spawn(work), Instant::now());
            let mut listened = Ok(());
            while listened.is_ok() && !working.is_finished() {
                std::thread::sleep((began.elapsed() / LISTEN_PART).clamp(LISTEN_FIRST, LISTEN_LATER));
                listened = self.listen();
            }
            match &listened {
                Ok(()) => {}
                Err(error) if error.goes_on_elsewhere() => self.meeting.link.stop.set_lost(),
                Err(_) => self.meeting.link.stop.set(),
            }
            let done = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            listened.map(|()| done)
        })
    }

    /// Runs this rank's part of a job.
    ///
    /// Returns when the job is over on all ranks, or was stopped on one. All ranks must meet between two jobs
    /// ([`all_reduce`](Self::all_reduce)): otherwise a rank that is done could ask another one for work of a job that is over.
    ///
    /// `totals` returns the totals of this rank so far and, at the end, the final ones from the state of its threads. `observe` also
    /// gets the newest sum of all ranks, on the first one. Tasks must be encodable ([`Job::pack`], [`Job::arrive`]). Other tasks
    /// stay on their rank, except on a master that runs none (a centralized schedule): there they are an error.
    ///
    /// If a rank has died and the others [go on](crate::Group), the job ends as if it was stopped, so that the caller keeps what is done. The
    /// next meeting fails then.
    ///
    /// # Errors
    /// The fabric or another rank fails, or the wait was given up. All threads have ended by then.
    ///
    /// # Panics
    /// As [`run`](crate::run).
    pub fn run<J: Job, R: Reduce>(
        &mut self,
        job: &J,
        work: Work<'_, J::Task>,
        totals: impl Fn(Option<&[J::Worker]>) -> R,
        mut observe: impl FnMut(&Status, Option<R>),
    ) -> Result<Ran<J::Worker, R>, RankError> {
        let Work { seeds, options } = work;
        if self.seat.ranks == 1 {
            let mut observe = |status: &Status| observe(status, Some(totals(None)));
            let outcome = run_with(job, seeds, options, None, &mut observe);
            let reason = if outcome.stopped { Reason::Stopped } else { Reason::Done };
            let sum = Some(totals(Some(&outcome.workers)));
            return Ok(Ran { outcome, reason, sum, exchanged: Exchanged::default() });
        }
        let outbox = self.outbox();
        outbox.set_bounded(true);
        self.meeting.link.take_traffic();
        let engine = Engine::new(self.schedule, &self.place);
        let mut drive = Drive::new(&mut self.meeting.link, engine, self.meeting.limits);
        let progress = std::cell::Cell::new(None);
        let mut attending =
            Attending { drive: &mut drive, totals: || totals(None), progress: &progress, error: None };
        let mut observed = |status: &Status| observe(status, progress.take());
        let mut outcome = run_with(job, seeds, options, Some(&mut attending), &mut observed);
        let closed = match attending.error.take() {
            Some(error) => Err(error),
            None => {
                outbox.set_bounded(false);
                drive.close(totals(Some(&outcome.workers)))
            }
        };
        let (reason, sum) = match closed {
            // The caller keeps what is done. The next meeting fails.
            Err(error) if error.goes_on_elsewhere() => {
                outcome.stopped = true;
                (Reason::Failed, None)
            }
            closed => closed?,
        };
        let (counts, communication) = (drive.counts(), drive.communication());
        let exchanged = Exchanged { counts, communication, traffic: self.meeting.link.take_traffic() };
        Ok(Ran { outcome, reason, sum, exchanged })
    }

    /// Whether another rank has begun a job, for tests of the fabric. The message is lost.
    pub(crate) fn has_come_for_job(&mut self) -> Result<bool, RankError> {
        Ok(self.meeting.link.next_of_engine()?.is_some())
    }

    /// Ends the session: writes all output of all ranks and combines their results, which the first rank gets. No rank returns
    /// before the first one has them. No messages are sent to this rank afterwards.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn close<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<Option<T>, RankError> {
        if let Some(mirror) = &self.meeting.link.mirror {
            mirror.end();
        }
        self.listen()?;
        let Meeting { link, limits, .. } = &mut self.meeting;
        let mut wait = Wait::new(*limits);
        while link.rank() != 0 && !link.outbox.is_empty() {
            while link.take_in()? {}
            link.serve()?;
            link.unsent()?;
            wait.check(link, &[0])?;
            wait.rest(link);
        }
        link.keep_stop_to_itself();
        let whole = self.meeting.reduce(own, merge)?;
        self.meeting.broadcast(whole.as_ref().map(|_| ()))?;
        Ok(whole)
    }

    /// Waits until all ranks have ended their part, and sends them what the first one says of the end. Then no rank needs another one any more.
    /// Without it, a rank that leaves would look dead to those that still have something to do, where the others [go on](crate::Group) without
    /// the dead. The last step of a session. From the time when a rank knows that all have ended, its [way](Self::way) is [`Way::Over`].
    ///
    /// # Errors
    /// Those of [`reduce`](Self::reduce). [`RankError::Lost`]: a rank has died before all knew of the end, or has left since.
    pub fn finish(&mut self, end: Vec<u8>) -> Result<(), RankError> {
        if self.is_first() {
            self.way = Way::Over(end.clone());
        }
        self.meeting.link.may_leave = false;
        // The first rank may write its report for long, also after a request to end.
        self.meeting.limits.give_up = REPORT_WITHIN;
        let end = self.meeting.reduce((), |(), ()| ())?.map(|()| end);
        self.way = Way::Over(self.meeting.broadcast(end)?);
        // A rank leaves when all know that.
        let all_know = self.meeting.reduce((), |(), ()| ())?;
        self.meeting.broadcast(all_know)
    }

    /// Sets whether the ranks that are left go on when one dies. They do not unless this is set.
    pub fn let_go_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on && self.survives();
    }

    /// Whether the ranks that are left go on when one dies, if the [way](Self::way) says how.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// When a rank writes the log of a job.
    #[must_use]
    pub fn log_limits(&self) -> LogLimits {
        if self.goes_on { LogLimits::where_ranks_survive() } else { LogLimits::default() }
    }

    /// Whether the other ranks notice when one dies.
    #[must_use]
    pub fn survives(&self) -> bool {
        self.meeting.link.survives
    }

    /// How a later session goes on if a rank dies in this one: see [`Group::regroup`](crate::Group::regroup). [`Way::Ends`] unless it is set.
    #[must_use]
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Sets how a later session goes on.
    pub fn set_way(&mut self, way: Way) {
        self.meeting.link.may_leave = self.goes_on && matches!(way, Way::From(_));
        self.way = way;
    }

    /// Reports that this rank cannot continue. A rank other than the first notifies the first one, then waits some seconds for it to
    /// write its results and end all ranks. Then the caller ends them ([`Endpoint::abort`]).
    pub fn fail(&mut self, why: &str) {
        let link = &mut self.meeting.link;
        if link.rank() == 0 || link.fail(why).is_err() {
            return;
        }
        let began = Instant::now();
        let sends = |link: &mut Link<'_>| link.unsent().is_ok() && link.take_in().is_ok();
        while began.elapsed() < LAST_WORD && sends(link) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The cores for this rank: its affinity mask, divided among the ranks with the same one.
fn cores_of_this_rank(meeting: &mut Meeting<'_>) -> Result<usize, RankError> {
    let cores = cores();
    let masks = meeting.among_neighbours(&cores)?;
    let overlaps = |mask: &Vec<u32>| mask.iter().any(|core| cores.contains(core));
    let sharing = masks.iter().filter(|mask| overlaps(mask)).count().max(1);
    Ok((cores.len() / sharing).max(1))
}

/// The sum of the state of all workers.
fn sum_of<W: Reduce + Default>(workers: Option<&[W]>) -> W {
    let mut sum = W::default();
    workers.into_iter().flatten().for_each(|worker| sum.merge(worker));
    sum
}

/// Runs a whole job on all ranks of a fabric and leaves the fabric: the short way for simple programs.
///
/// `first` are the first tasks; only those of rank 0 count. Tasks must be encodable, as for [`Session::run`]. Rank 0 gets the sum
/// of the state of all threads of all ranks, the others get none.
///
/// # Errors
/// The fabric or another rank fails. All ranks are ended then.
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
    let done = run_whole(job, first, &mut *endpoint, config);
    match done {
        Ok(sum) => endpoint.leave().map(|()| sum).map_err(RankError::Fabric),
        Err(error) => {
            endpoint.abort(ABORTED);
            Err(error)
        }
    }
}

fn run_whole<J: Job<Worker: Reduce + Default>>(
    job: &J,
    first: Vec<J::Task>,
    endpoint: &mut dyn Endpoint,
    config: Config,
) -> Result<Option<J::Worker>, RankError> {
    let joined = Session::join(endpoint, std::any::type_name::<J>(), Stop::new(), Limits::default())?;
    let session = joined.map_err(|_| RankError::Stuck("ranks run different programs"))?;
    let mut session = session.with_schedule(config);
    let options = Options { stop: session.stop(), ..Options::default() };
    let seeds = if session.is_first() { first } else { Vec::new() };
    let ran = session.run(job, Work { seeds, options: &options }, sum_of, |_, _| {})?;
    session.close((), |(), ()| ())?;
    Ok(ran.sum)
}
