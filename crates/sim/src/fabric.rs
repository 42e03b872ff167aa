//! Endpoints whose messages travel through the simulator's network: for whatever runs over a fabric, on threads of its
//! own, and is to see other delays and other orders than a process gives. What ranks do costs no time here, and no rank
//! dies.
//!
//! # The clock
//! It moves when nobody can go on otherwise: when every rank that has not left has polled in vain since it last got a
//! message (or asks for nothing but whether its messages have gone). Then all that was sent since the last move is put on
//! its way, rank by rank, and what arrives first is delivered, with all that arrives before an answer to it could: less
//! than the shortest latency later (the window of a conservative simulation; Chandy and Misra, 1979). So what is delivered,
//! and in which order, depends on the seed and on what ranks send after which message, and not on how threads are
//! scheduled; as long as a rank that has polled in vain sends nothing before it gets a message. One that does, because its
//! threads work meanwhile, gets a right order too, but not always the same one. A rank that is done must leave, or the
//! others wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atta_fabric::{Endpoint, FabricError, Received, Wake};

use crate::network::Network;
use crate::setup::Disturbance;
use crate::traffic::Traffic;
use crate::tree::mix;

/// One rank of several that are threads of this process and hear of each other through a simulated network. See
/// [`simulated`].
///
/// Arrivals are told. A message has gone when it has arrived. One to a rank that has left fails with
/// [`FabricError::Gone`], or is lost if it was under way.
pub struct Simulated {
    rank: u32,
    neighbours: Vec<u32>,
    shared: Arc<Mutex<World>>,
}

/// Endpoints of `ranks` ranks, by rank. Each message takes up to `jitter_ns` longer than the network needs, as the `seed`
/// decides; those of a pair of ranks keep their order.
#[must_use]
pub fn simulated(network: Network, ranks: u32, jitter_ns: u64, seed: u64) -> Vec<Simulated> {
    let shared = Arc::new(Mutex::new(World::new(network, ranks, jitter_ns, seed)));
    let near = |rank| (0..ranks).filter(|other| network.host(*other) == network.host(rank)).collect();
    (0..ranks).map(|rank| Simulated { rank, neighbours: near(rank), shared: Arc::clone(&shared) }).collect()
}

/// Sees what happens between the ranks, and has no part in it.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<World>>);

impl Observer {
    /// A number that depends on every delivery so far, its time and its place in the order.
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
    /// What looks at the clock, also when this rank has left.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.shared))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to this rank's seat, and then moves the clock if that was what all were waiting for.
    fn with_seat<T>(&self, f: impl FnOnce(&mut Seat) -> T) -> T {
        let mut world = self.lock();
        let value = f(&mut world.seats[self.rank as usize]);
        let woken = world.advance();
        // A callback may send.
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

/// All ranks, what is under way between them, and the clock.
struct World {
    now: u64,
    traffic: Traffic,
    /// No message takes less.
    latency_least: u64,
    seats: Vec<Seat>,
    /// By time of arrival and number.
    under_way: BTreeMap<(u64, u64), Letter>,
    number: u64,
    aborted: Option<i32>,
    trace: u64,
}

/// A message that is under way.
struct Letter {
    from: u32,
    to: u32,
    message: Vec<u8>,
}

/// What a rank cannot go on without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// It polled in vain.
    Message,
    /// It asks again and again whether what it sent has gone.
    Gone,
}

/// One rank, as the others see it.
struct Seat {
    is_left: bool,
    waits: Waits,
    /// Whether the last call asked what has gone.
    has_asked: bool,
    /// Sent since the clock moved last.
    outgoing: VecDeque<(u32, Vec<u8>)>,
    /// Until when it copies what it sent: the next message leaves later.
    free_at: u64,
    /// Sent and not arrived.
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
        }
    }

    fn running(&self) -> Result<(), FabricError> {
        self.aborted.map_or(Ok(()), |exit_code| Err(FabricError::Aborted { exit_code }))
    }

    /// Moves the clock for as long as nobody can go on otherwise; whom to wake.
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

    /// Puts on its way what was sent since the clock moved last.
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
        // It may have been this call for which the clock was waiting.
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
            // Asked once it may be on its way to do something else.
            if seat.has_asked && seat.unsent > 0 && seat.waits == Waits::Nothing {
                seat.waits = Waits::Gone;
            }
            seat.has_asked = true;
        });
        Ok(self.lock().seats[self.rank as usize].unsent)
    }

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
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
    /// The others need not wait for this rank any more, and a callback of a rank that has left is not kept.
    fn drop(&mut self) {
        self.with_seat(|seat| {
            seat.is_left = true;
            seat.wake = None;
        });
    }
}
