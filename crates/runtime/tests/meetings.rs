//! Ranks that meet before and after a job, while farewells of the job are late: the trees of the job and of the meeting
//! differ, so that a rank gets messages of the meeting while it still waits for the end of the job.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::VecDeque;
use std::iter::successors;
use std::num::NonZeroUsize;

use atta_engine::{Config, Message, Rank, Reason, Reduce, Tree};
use atta_fabric::{Endpoint, FabricError, InProcess, Received, Wake, in_process};
use atta_runtime::{Job, Limits, Options, Queue, RankError, Session, Stop, Threads, Work};

const RANKS: u32 = 40;

/// A rank and one that reports to it in a meeting, and to which nobody reports there.
const PAIRS: [(u32, u32); 2] = [(1, 32), (2, 33)];

/// A rank that gets the farewell of a job only after the first message of the next meeting from another rank.
struct Late {
    inner: InProcess,
    /// The other rank, on the one rank that is late.
    awaits: Option<u32>,
    /// Messages of the other rank that are not the engine's: the first belongs to the meeting before the job.
    of_meetings: u32,
    held: VecDeque<Received>,
}

impl Late {
    /// Whether a message must wait: the farewell, and what its sender has sent since, for messages of a rank keep their order.
    fn must_wait(&self, received: &Received) -> bool {
        let is_farewell = Message::decode(&received.message) == Ok(Message::Farewell);
        is_farewell || self.held.iter().any(|held| held.from == received.from)
    }
}

impl Endpoint for Late {
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
        self.inner.send(to, message)
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        let Some(other) = self.awaits.filter(|_| self.of_meetings < 2) else {
            let held = self.held.pop_front();
            return if held.is_some() { Ok(held) } else { self.inner.receive() };
        };
        while let Some(received) = self.inner.receive()? {
            if self.must_wait(&received) {
                self.held.push_back(received);
                continue;
            }
            let is_of_meeting = received.from == other && Message::decode(&received.message).is_err();
            self.of_meetings += u32::from(is_of_meeting);
            return Ok(Some(received));
        }
        Ok(None)
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.inner.on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.inner.unsent()
    }

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Box::new(self.inner).leave()
    }

    fn abort(&mut self, exit_code: i32) {
        self.inner.abort(exit_code);
    }
}

/// Halves a number until it is one, and counts the ones.
struct Halves;

impl Job for Halves {
    type Task = u32;
    type Worker = Ones;

    fn worker(&self, _index: usize) -> Ones {
        Ones(0)
    }

    fn run(&self, ones: &mut Ones, task: u32, queue: &mut Queue<'_, Self>) {
        match task {
            1 => ones.0 += 1,
            more => [more / 2, more - more / 2].into_iter().for_each(|half| queue.push(half)),
        }
    }

    fn pack(&self, task: &u32, _last: Option<&u32>, out: &mut Vec<u8>) -> bool {
        out.extend(task.to_le_bytes());
        true
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u32>, &'static str> {
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).map_err(|_| "cut short");
        bytes.chunks(4).map(number).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Ones(u64);

impl Reduce for Ones {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }
}

atta_entry::record!(Ones { 0 });

/// All ranks meet; the first one gets their number.
fn meet(session: &mut Session<'_>) -> Result<(), RankError> {
    let count = session.reduce(1, |sum, more: u32| *sum += more)?;
    assert_eq!(count, session.is_first().then_some(RANKS));
    session.broadcast(count)?;
    Ok(())
}

/// A session of this test.
fn join(endpoint: &mut dyn Endpoint) -> Result<Session<'_>, RankError> {
    Ok(Session::join(endpoint, "test", Stop::new(), Limits::default())?.unwrap())
}

/// One rank's part of a job between two meetings.
fn job_between_meetings(session: Session<'_>, tree_width: u32) -> Result<Session<'_>, RankError> {
    let mut session = session.with_schedule(Config { tree_width, ..Config::default() });
    meet(&mut session)?;
    let seeds = if session.is_first() { vec![200] } else { Vec::new() };
    let options = Options { threads: Threads::Fixed(NonZeroUsize::MIN), ..Options::default() };
    let totals = |workers: Option<&[Ones]>| Ones(workers.unwrap_or(&[]).iter().map(|ones| ones.0).sum());
    let ran = session.run(&Halves, Work { seeds, options: &options }, totals, |_, _| {})?;
    assert_eq!((ran.reason, ran.sum), (Reason::Done, session.is_first().then_some(Ones(200))));
    meet(&mut session)?;
    Ok(session)
}

/// Runs a part of each rank on a thread. One that fails ends the others, which would wait for it.
fn on_ranks<E: Endpoint>(endpoints: Vec<E>, part: impl Fn(&mut E) -> Result<(), RankError> + Sync) {
    let failed: Vec<_> = std::thread::scope(|scope| {
        let begin = |mut endpoint: E| {
            let part = &part;
            scope.spawn(move || {
                let outcome = part(&mut endpoint);
                outcome.map_err(|error| {
                    endpoint.abort(4);
                    format!("rank {}: {error}", endpoint.rank())
                })
            })
        };
        let ranks: Vec<_> = endpoints.into_iter().map(begin).collect();
        ranks.into_iter().filter_map(|rank| rank.join().unwrap().err()).collect()
    });
    assert!(failed.is_empty(), "{failed:?}");
}

/// Whether a rank ends the job without waiting for another one.
fn ends_without(rank: u32, other: u32, tree_width: u32) -> bool {
    let parent = |rank: &Rank| Tree::new(*rank, RANKS, tree_width).parent();
    successors(Some(Rank(rank)), parent).all(|above| above.0 != other)
}

#[test]
fn early_messages_of_the_next_meeting_are_kept() {
    let widths = (1..=64).flat_map(|width| PAIRS.map(|(late, early)| (width, late, early)));
    let cases: Vec<_> = widths.filter(|(width, late, early)| ends_without(*early, *late, *width)).collect();
    assert!(cases.len() > 64, "most widths differ from that of a meeting");
    for (width, late, early) in cases {
        let late = |inner: InProcess| {
            let awaits = (inner.rank() == late).then_some(early);
            Late { inner, awaits, of_meetings: 0, held: VecDeque::new() }
        };
        on_ranks(in_process(RANKS).into_iter().map(late).collect(), |endpoint| {
            job_between_meetings(join(endpoint)?, width)?;
            assert!(endpoint.held.is_empty(), "width {width}");
            Ok(())
        });
    }
}

#[test]
fn jobs_of_every_tree_width_follow_each_other() {
    on_ranks(in_process(RANKS), |endpoint| {
        (1..=64).try_fold(join(endpoint)?, job_between_meetings).map(|_| ())
    });
}
