//! Endpoints over the simulator's network, for programs that run over a fabric on their own threads. They show such programs
//! other delays and other orders than one process produces. Work on the ranks costs no simulated time.
//!
//! # The clock
//! The clock moves when no rank can continue otherwise: every rank that has not left has polled without success since its last
//! message (or asks only whether its messages have gone). Then all messages sent since the last move depart, rank by rank. The
//! earliest arrival is delivered, with all arrivals that precede any possible answer to it: those less than the shortest
//! latency later (the window of a conservative simulation; Chandy and Misra, 1979). So the deliveries and their order depend on
//! the seed and on what ranks send after which message, and not on thread scheduling. This holds as long as a rank that has
//! polled without success sends nothing before its next message. A rank that does so, because its threads work meanwhile, gets
//! a valid order, but not always the same one. A rank that is done must leave, or the others wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_fabric::{Endpoint, FabricError, Received, Wake};

use crate::network::Network;
use crate::setup::Disturbance;
use crate::traffic::Traffic;
use crate::tree::mix;

/// One of several ranks in this process that are connected by a simulated network. See [`simulated`].
///
/// Arrivals cause callbacks. A message has gone when it has arrived. A message to a rank that has left fails with
/// [`FabricError::Gone`], or is lost if it was in flight.
pub struct Simulated {
    rank: u32,
    neighbours: Vec<u32>,
    shared: Arc<Mutex<World>>,
    has_left: bool,
    /// So many of the dead were reported.
    reported: usize,
}

/// Endpoints of `ranks` ranks, by rank. Each message takes up to `jitter_ns` longer than the network needs, as decided by
/// `seed`. Messages of a pair of ranks keep their order.
#[must_use]
pub fn simulated(network: Network, ranks: u32, jitter_ns: u64, seed: u64) -> Vec<Simulated> {
    endpoints(World::new(network, ranks, jitter_ns, seed), network)
}

/// The same, of ranks that may die: one that is dropped and has not left is [lost](Endpoint::lost), and the others go on. What it has sent and
/// has not arrived is lost from some message on, as decided by `seed`.
#[must_use]
pub fn simulated_mortal(network: Network, ranks: u32, jitter_ns: u64, seed: u64) -> Vec<Simulated> {
    endpoints(World { survives: true, ..World::new(network, ranks, jitter_ns, seed) }, network)
}

fn endpoints(world: World, network: Network) -> Vec<Simulated> {
    let ranks = world.seats.len() as u32;
    let shared = Arc::new(Mutex::new(world));
    let near = |rank| (0..ranks).filter(|other| network.host(*other) == network.host(rank)).collect();
    let endpoint = |rank| Simulated {
        rank,
        neighbours: near(rank),
        shared: Arc::clone(&shared),
        has_left: false,
        reported: 0,
    };
    (0..ranks).map(endpoint).collect()
}

/// An observer of the traffic between the ranks. It does not influence them.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<World>>);

impl Observer {
    /// A hash of every delivery so far, with its time and position.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).trace
    }

    /// The time on the clock, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observer(at {} ns)", self.now_ns())
    }
}

impl Simulated {
    /// A handle to the clock. It remains valid after this rank has left.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.shared))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on this rank's seat, then moves the clock if all ranks were waiting for that.
    fn with_seat<T>(&self, f: impl FnOnce(&mut Seat) -> T) -> T {
        let mut world = self.lock();
        let value = f(&mut world.seats[self.rank as usize]);
        let woken = world.advance();
        // A callback may send, so release the lock first.
        drop(world);
        woken.iter().for_each(|wake| wake());
        value
    }
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulated(rank {} of {})", self.rank, self.size())
    }
}

/// All ranks, the messages in flight, and the clock.
struct World {
    now: u64,
    traffic: Traffic,
    /// The shortest latency of any message.
    latency_least: u64,
    seats: Vec<Seat>,
    /// By arrival time and number.
    under_way: BTreeMap<(u64, u64), Letter>,
    number: u64,
    aborted: Option<i32>,
    trace: u64,
    /// A rank that is dropped and has not left is dead, and the others go on.
    survives: bool,
    /// The dead, in the order in which they died.
    dead: Vec<u32>,
}

/// A message in flight.
struct Letter {
    from: u32,
    to: u32,
    message: Vec<u8>,
}

/// What a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// It polled without success.
    Message,
    /// It asks repeatedly whether its messages have gone.
    Gone,
}

/// The shared state of one rank.
struct Seat {
    is_left: bool,
    waits: Waits,
    /// Whether the last call asked for the number of unsent messages.
    has_asked: bool,
    /// Sent since the clock last moved.
    outgoing: VecDeque<(u32, Vec<u8>)>,
    /// The time until which it copies sent messages. The next message leaves later.
    free_at: u64,
    /// Messages sent but not arrived.
    unsent: usize,
    inbox: VecDeque<Received>,
    wake: Option<Wake>,
}

impl World {
    fn new(network: Network, ranks: u32, jitter_ns: u64, seed: u64) -> Self {
        let seat = || Seat {
            is_left: false,
            waits: Waits::Nothing,
            has_asked: false,
            outgoing: VecDeque::new(),
            free_at: 0,
            unsent: 0,
            inbox: VecDeque::new(),
            wake: None,
        };
        let disturbance = Disturbance { jitter_ns, ..Disturbance::default() };
        Self {
            now: 0,
            traffic: Traffic::new(network, disturbance, ranks, false, seed),
            latency_least: network.shared_ns.min(network.base_ns).max(1),
            seats: (0..ranks).map(|_| seat()).collect(),
            under_way: BTreeMap::new(),
            number: 0,
            aborted: None,
            trace: 0,
            survives: false,
            dead: Vec::new(),
        }
    }

    /// A rank dies. Returns the callbacks to run.
    fn die(&mut self, rank: u32) -> Vec<Wake> {
        self.dead.push(rank);
        self.seats[rank as usize].outgoing.clear();
        // Messages of a pair keep their order, so they are lost from one on.
        let keep = mix(self.trace ^ u64::from(rank)) % 8;
        let of_rank = self.under_way.iter().filter(|(_, letter)| letter.from == rank).map(|(key, _)| *key);
        let lost: Vec<_> = of_rank.skip(keep as usize).collect();
        lost.iter().for_each(|key| drop(self.under_way.remove(key)));
        self.seats.iter().filter_map(|seat| seat.wake.clone()).collect()
    }

    fn running(&self) -> Result<(), FabricError> {
        self.aborted.map_or(Ok(()), |exit_code| Err(FabricError::Aborted { exit_code }))
    }

    /// Moves the clock while no rank can continue otherwise. Returns the callbacks to run.
    fn advance(&mut self) -> Vec<Wake> {
        let mut woken = Vec::new();
        while self.seats.iter().all(|seat| seat.is_left || seat.waits != Waits::Nothing) {
            self.send_off();
            let Some((&(first, _), _)) = self.under_way.first_key_value() else { break };
            let later = self.under_way.split_off(&(first + self.latency_least, 0));
            for ((time, _), letter) in std::mem::replace(&mut self.under_way, later) {
                self.now = time;
                woken.extend(self.deliver(letter));
            }
        }
        woken
    }

    /// Starts the messages sent since the clock last moved.
    fn send_off(&mut self) {
        for (from, seat) in (0..).zip(&mut self.seats) {
            for (to, message) in seat.outgoing.drain(..) {
                let starts = self.now.max(seat.free_at);
                let (free_at, arrives) = self.traffic.travel(starts, from, to, message.len() as u64);
                seat.free_at = free_at;
                self.number += 1;
                self.under_way.insert((arrives, self.number), Letter { from, to, message });
            }
        }
    }

    fn deliver(&mut self, letter: Letter) -> Option<Wake> {
        let Letter { from, to, message } = letter;
        let what = u64::from(from) << 48 ^ u64::from(to) << 32 ^ message.len() as u64;
        self.trace = mix(mix(self.trace ^ self.now) ^ what);
        let sender = &mut self.seats[from as usize];
        sender.unsent -= 1;
        if sender.unsent == 0 && sender.waits == Waits::Gone {
            sender.waits = Waits::Nothing;
        }
        let seat = &mut self.seats[to as usize];
        if seat.is_left {
            return None;
        }
        seat.inbox.push_back(Received { from, message });
        if seat.waits == Waits::Message {
            seat.waits = Waits::Nothing;
        }
        seat.wake.clone()
    }
}

impl Seat {
    fn next(&mut self) -> Option<Received> {
        let received = self.inbox.pop_front();
        self.has_asked = false;
        self.waits = if received.is_some() { Waits::Nothing } else { Waits::Message };
        received
    }
}

impl Endpoint for Simulated {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.lock().seats.len() as u32
    }

    fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        {
            let world = self.lock();
            world.running()?;
            let size = world.seats.len() as u32;
            let seat = world.seats.get(to as usize).ok_or(FabricError::NoSuchRank { rank: to, size })?;
            if seat.is_left && world.dead.contains(&to) {
                return Ok(());
            }
            if seat.is_left {
                return Err(FabricError::Gone { rank: to });
            }
        }
        self.with_seat(|seat| {
            seat.outgoing.push_back((to, message));
            seat.unsent += 1;
            seat.has_asked = false;
        });
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        self.lock().running()?;
        let received = self.with_seat(Seat::next);
        // The clock may have been waiting for this very call.
        if received.is_none() && !self.lock().seats[self.rank as usize].inbox.is_empty() {
            return Ok(self.with_seat(Seat::next));
        }
        Ok(received)
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.with_seat(|seat| seat.wake = Some(wake));
        true
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.lock().running()?;
        self.with_seat(|seat| {
            // After a single question the rank may go on to other work.
            if seat.has_asked && seat.unsent > 0 && seat.waits == Waits::Nothing {
                seat.waits = Waits::Gone;
            }
            seat.has_asked = true;
        });
        Ok(self.lock().seats[self.rank as usize].unsent)
    }

    fn survives(&self) -> bool {
        self.lock().survives
    }

    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        let mut new = self.lock().dead[self.reported..].to_vec();
        self.reported += new.len();
        new.sort_unstable();
        Ok(new)
    }

    fn leave(mut self: Box<Self>) -> Result<(), FabricError> {
        self.has_left = true;
        let world = self.lock();
        world.running()?;
        match world.seats[self.rank as usize].unsent {
            0 => Ok(()),
            messages => Err(FabricError::Unsent { messages }),
        }
    }

    fn abort(&mut self, exit_code: i32) {
        let mut world = self.lock();
        world.aborted.get_or_insert(exit_code);
        let woken: Vec<Wake> = world.seats.iter().filter_map(|seat| seat.wake.clone()).collect();
        drop(world);
        woken.iter().for_each(|wake| wake());
    }
}

impl Drop for Simulated {
    /// Releases the others from waiting for this rank, and drops its callback. Reports a death.
    fn drop(&mut self) {
        let woken = {
            let mut world = self.lock();
            let dies = world.survives && !self.has_left;
            let seat = &mut world.seats[self.rank as usize];
            (seat.is_left, seat.wake) = (true, None);
            if dies { world.die(self.rank) } else { Vec::new() }
        };
        self.with_seat(|_| ());
        woken.iter().for_each(|wake| wake());
    }
}
