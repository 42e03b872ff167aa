//! The endpoint of one rank under MPI: what is sent when, and what comes. The calls themselves are in `shim.rs`.

use std::fmt;

use atta_fabric::{Endpoint, FabricError, Received, Wake};

use crate::outbox::Outbox;
use crate::shim::{Calls, MESSAGE_BYTES_MAX, World};

/// Messages that may come before those on their way out are looked after, too.
const RECEIVED_IN_A_ROW_MAX: u32 = 32;

/// One rank under MPI. See [`Plugin::begin`](crate::Plugin::begin).
///
/// Arrivals are not told: [`receive`](Endpoint::receive) must be polled. Only the thread that began MPI may use it; its
/// calls panic on another. A message is carried as one MPI message, on a communicator of its own, so it may have 2^31 - 1
/// bytes at most. MPI does not say which ranks have left: sending to one is no error.
///
/// Dropping it leaves MPI begun: the launcher then ends the job when this process ends.
pub struct Mpi {
    shim: Calls,
    world: World,
    outbox: Outbox,
    received_in_a_row: u32,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi(rank {} of {})", self.world.rank, self.world.size)
    }
}

impl Mpi {
    pub(crate) fn new(shim: Calls, world: World) -> Self {
        Self { shim, world, outbox: Outbox::default(), received_in_a_row: 0 }
    }

    /// Moves on what is on its way, and hands more to MPI as long as something goes. The first error is told after
    /// everything else is done.
    fn push(&mut self) -> Result<(), FabricError> {
        let mut first = Ok(());
        loop {
            let sent = self.shim.sent()?;
            if sent.is_empty() {
                return first;
            }
            for each in sent {
                first = first.and(each.outcome);
                let mut next = self.outbox.gone(each.to);
                while let Some(message) = next.take() {
                    if let Err(error) = self.shim.send(each.to, message) {
                        first = first.and(Err(error));
                        next = self.outbox.gone(each.to);
                    }
                }
            }
        }
    }
}

impl Endpoint for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank
    }

    fn size(&self) -> u32 {
        self.world.size
    }

    fn neighbours(&self) -> &[u32] {
        &self.world.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        if to >= self.world.size {
            return Err(FabricError::NoSuchRank { rank: to, size: self.world.size });
        }
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(FabricError::TooLarge { bytes: message.len(), bytes_max: MESSAGE_BYTES_MAX });
        }
        let Some(message) = self.outbox.offer(to, message) else { return Ok(()) };
        self.shim.send(to, message).inspect_err(|_| {
            // Fewer than the limit were with MPI, so nothing waits behind this one.
            let _none = self.outbox.gone(to);
        })
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        if self.received_in_a_row >= RECEIVED_IN_A_ROW_MAX {
            self.received_in_a_row = 0;
            self.push()?;
        }
        let received = self.shim.receive()?;
        if received.is_some() {
            self.received_in_a_row += 1;
        } else {
            self.received_in_a_row = 0;
            self.push()?;
        }
        Ok(received)
    }

    fn on_arrival(&mut self, _wake: Wake) -> bool {
        false
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.push()?;
        Ok(self.outbox.unsent())
    }

    fn leave(mut self: Box<Self>) -> Result<(), FabricError> {
        match self.unsent()? {
            0 => self.shim.leave(),
            messages => Err(FabricError::Unsent { messages }),
        }
    }

    fn abort(&mut self, exit_code: i32) {
        self.shim.abort(exit_code);
    }
}
