//! The trait [`Endpoint`]: one rank's end of a fabric. It says what every fabric promises; how it is kept is in the
//! fabrics.

use std::sync::Arc;

use crate::FabricError;

/// What is called when a message may have come, from whichever thread sent it. It must be short and must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A message that has come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received {
    /// The rank that sent it.
    pub from: u32,
    /// What it sent.
    pub message: Vec<u8>,
}

/// One rank's end of a fabric.
///
/// # What holds for every fabric
/// - No call blocks, but [`leave`](Self::leave).
/// - A message arrives whole, once, and at the rank that it was sent to. It may have any length, zero included, up to
///   the fabric's own limit (2 GiB less one byte under MPI).
/// - Messages from one rank to another arrive in the order in which they were sent. Nothing is said of the order
///   between messages of several ranks.
/// - A rank may send to itself.
/// - Messages move on only inside calls of `receive` and `unsent` where the fabric has no thread of its own: a rank
///   that stops calling them holds up what it sent, too.
///
/// One thread uses an endpoint. It may be handed to that thread, but an endpoint that has begun to speak to a library
/// for one thread (MPI) must stay there: its calls panic on any other.
pub trait Endpoint: Send {
    /// This rank: below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// How many ranks there are: 1 or more, and the same as long as the job lasts.
    fn size(&self) -> u32;

    /// The ranks on this rank's host, ascending, this one among them.
    fn neighbours(&self) -> &[u32];

    /// Queues a message. The endpoint owns it until it has gone.
    ///
    /// There is no limit on what waits: whoever sends must know how much it lets wait, by
    /// [`unsent`](Self::unsent) or by answers from the other side.
    ///
    /// # Errors
    /// [`NoSuchRank`](FabricError::NoSuchRank), [`TooLarge`](FabricError::TooLarge); [`Gone`](FabricError::Gone) where
    /// the fabric knows that the rank has left (in one process it always does, under MPI never); what the library says.
    /// After an error the message is gone and the endpoint can still be used.
    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError>;

    /// The next message that has come, if one has.
    ///
    /// # Errors
    /// [`Aborted`](FabricError::Aborted), or what the library says. No message is lost by it that had come whole.
    fn receive(&mut self) -> Result<Option<Received>, FabricError>;

    /// Sets what is called when a message may have come, in place of what was set before. Returns whether it ever will
    /// be: where it is `false`, arrivals are not told and [`receive`](Self::receive) must be polled.
    ///
    /// What came before this call is not told, so poll once after it. It may be called for nothing.
    fn on_arrival(&mut self, wake: Wake) -> bool;

    /// How many messages were sent and have not gone yet; also moves them on. A message that has gone does not need
    /// this rank any more, but may not have been received yet.
    ///
    /// # Errors
    /// What the library says of a message that was on its way. That message counts no more.
    fn unsent(&mut self) -> Result<usize, FabricError>;

    /// Leaves the fabric for good, after all ranks agreed to end and [`unsent`](Self::unsent) is zero. It may wait for
    /// the other ranks to leave, too. A rank that is dropped instead has not left: under MPI its launcher ends the job.
    ///
    /// # Errors
    /// [`Unsent`](FabricError::Unsent) if messages have not gone yet: the rank has not left then, and never can. What
    /// the library says.
    fn leave(self: Box<Self>) -> Result<(), FabricError>;

    /// Ends all ranks at once without agreement. Under MPI the processes are ended and this call may not return; within
    /// one process, which is not this crate's to end, later calls of all ranks fail with
    /// [`Aborted`](FabricError::Aborted).
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

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        (*self).leave()
    }

    fn abort(&mut self, exit_code: i32) {
        (**self).abort(exit_code);
    }
}
