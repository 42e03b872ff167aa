//! The trait [`Endpoint`]: one rank's end of a fabric. It states the guarantees of every fabric; each fabric implements them.

use std::sync::Arc;

use crate::FabricError;

/// A callback for a possible arrival, called from the sending thread. It must be short and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A message that has arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received {
    /// The rank that sent it.
    pub from: u32,
    /// The bytes.
    pub message: Vec<u8>,
}

/// One rank's end of a fabric.
///
/// # Guarantees of every fabric
/// - No call blocks, but [`leave`](Self::leave).
/// - A message arrives whole, once, and at the rank that it was sent to. It may have any length, zero included, up to
///   the fabric's own limit (2 GiB less one byte under MPI).
/// - Messages from one rank to another arrive in the order in which they were sent. The order between messages of several
///   ranks is not defined.
/// - A rank may send to itself.
/// - Where the fabric has no thread of its own, messages move only inside calls of `receive` and `unsent`. A rank that stops
///   calling them also holds up its own messages.
///
/// One thread uses an endpoint. The endpoint may be moved to that thread. Once it has called a library that is bound to one
/// thread (MPI), it must stay there: its calls panic on any other thread.
pub trait Endpoint: Send {
    /// This rank: below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// The number of ranks: 1 or more, constant for the whole job.
    fn size(&self) -> u32;

    /// The ranks on this rank's host, ascending, including this one.
    fn neighbours(&self) -> &[u32];

    /// Queues a message. The endpoint owns it until it has gone.
    ///
    /// The queue has no limit: the sender must bound it, by [`unsent`](Self::unsent) or by answers from the receiver.
    ///
    /// # Errors
    /// [`NoSuchRank`](FabricError::NoSuchRank), [`TooLarge`](FabricError::TooLarge); [`Gone`](FabricError::Gone) where the
    /// fabric knows that the rank has left (in one process always, under MPI never); errors of the library. After an error
    /// the message is lost and the endpoint remains usable.
    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError>;

    /// The next message that has arrived, if any.
    ///
    /// # Errors
    /// [`Aborted`](FabricError::Aborted), or an error of the library. No complete message is lost.
    fn receive(&mut self) -> Result<Option<Received>, FabricError>;

    /// Sets the callback for possible arrivals, in place of the previous one.
    ///
    /// Returns whether the fabric calls it. If `false`, poll [`receive`](Self::receive). Messages that arrived before this call
    /// cause no callback, so poll once after it. Spurious calls are possible.
    fn on_arrival(&mut self, wake: Wake) -> bool;

    /// The number of messages that were sent and have not gone yet; also moves them on. A message that has gone does not need
    /// this rank any more, but the receiver may not have taken it yet.
    ///
    /// # Errors
    /// An error of the library for a message in flight. That message does not count any more.
    fn unsent(&mut self) -> Result<usize, FabricError>;

    /// Whether the other ranks go on when one dies: then look at [`lost`](Self::lost). Otherwise its death ends all ranks.
    fn survives(&self) -> bool {
        false
    }

    /// The ranks that were found dead since the last call, ascending. Messages to them are dropped without an error.
    /// Messages that they sent before may still arrive, or be lost, also if they had gone. Nothing else reports a death, so call it often: it takes about a microsecond.
    ///
    /// # Errors
    /// An error of the library.
    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        Ok(Vec::new())
    }

    /// Leaves the fabric for good, after all ranks agreed to end and [`unsent`](Self::unsent) is zero. It may wait for the
    /// other ranks to leave. A rank that is dropped instead has not left: under MPI its launcher ends the job.
    ///
    /// # Errors
    /// [`Unsent`](FabricError::Unsent) if messages have not gone yet: the rank has not left and never can. Errors of the library.
    fn leave(self: Box<Self>) -> Result<(), FabricError>;

    /// Ends all ranks at once without agreement. Under MPI this ends the processes and may not return. Within one process the
    /// process lives on, and later calls of all ranks fail with [`Aborted`](FabricError::Aborted).
    fn abort(&mut self, exit_code: i32);
}

impl<E: Endpoint + ?Sized> Endpoint for Box<E> {
    fn rank(&self) -> u32 {
        (**self).rank()
    }

    fn size(&self) -> u32 {
        (**self).size()
    }

    fn neighbours(&self) -> &[u32] {
        (**self).neighbours()
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        (**self).send(to, message)
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        (**self).receive()
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        (**self).on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        (**self).unsent()
    }

    fn survives(&self) -> bool {
        (**self).survives()
    }

    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        (**self).lost()
    }

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        (*self).leave()
    }

    fn abort(&mut self, exit_code: i32) {
        (**self).abort(exit_code);
    }
}
