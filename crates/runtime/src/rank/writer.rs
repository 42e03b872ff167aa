//! The first rank's writing thread. It writes the output of other ranks, so that a slow disk or pipe does not delay messages. The
//! communicating thread hands messages over without waiting. A rank may send its next message when one was written.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::error::RankError;
use super::outbox::Stream;
use crate::bell::Bell;

/// A message of a stream: its rank, the stream, the bytes.
type Piece = (u32, Stream, Vec<u8>);

/// The writing thread panicked.
const ENDED: RankError = RankError::Stuck("the thread that writes what other ranks send has ended");

/// The communicating thread's side.
#[derive(Debug)]
pub(crate) struct Writer {
    pieces: Sender<Piece>,
    written: Receiver<u32>,
}

/// The writing thread's side.
#[derive(Debug)]
pub(crate) struct Writing {
    pieces: Receiver<Piece>,
    written: Sender<u32>,
    bell: Bell,
}

/// Both sides. `bell` wakes the communicating thread.
pub(crate) fn writer(bell: Bell) -> (Writer, Writing) {
    let (pieces, to_write) = channel();
    let (done, written) = channel();
    (Writer { pieces, written }, Writing { pieces: to_write, written: done, bell })
}

impl Writer {
    /// Hands a message over.
    ///
    /// # Errors
    /// The writing thread has ended.
    pub(crate) fn write(&self, from: u32, stream: Stream, bytes: &[u8]) -> Result<(), RankError> {
        self.pieces.send((from, stream, bytes.to_vec())).map_err(|_| ENDED)
    }

    /// The sender of a written message, once for each message.
    ///
    /// # Errors
    /// The writing thread has ended.
    pub(crate) fn written(&self) -> Result<Option<u32>, RankError> {
        match self.written.try_recv() {
            Ok(from) => Ok(Some(from)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ENDED),
        }
    }
}

impl Writing {
    /// Writes until the other side is dropped and all is written.
    pub(crate) fn run(self, mut write: impl FnMut(u32, Stream, &[u8])) {
        for (from, stream, bytes) in self.pieces {
            write(from, stream, &bytes);
            // No thread waits for it if the session has failed.
            let _ = self.written.send(from);
            self.bell.ring();
        }
    }
}
