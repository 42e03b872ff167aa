//! The simplest way to hand over, to compare with: a thread that does nothing but look for the next transfer and move it by a plain
//! call, and a caller that does nothing but look for the end. It takes two cores whole, which a library must not.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use super::BenchResult;
use super::port::{Port, Transfer};

/// See the head of this file.
pub(crate) struct Spinning {
    /// None: the thread is to end.
    sender: Option<Sender<Transfer>>,
    receiver: Receiver<BenchResult<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinning {
    /// Starts the thread, on the cores that the caller may use.
    pub(crate) fn new() -> Self {
        let (sender, transfers) = channel::<Transfer>();
        let (ends, receiver) = channel();
        let work = move || {
            while let Some(transfer) = look_for(&transfers) {
                if ends.send(transfer.perform()).is_err() {
                    return;
                }
            }
        };
        Self { sender: Some(sender), receiver, thread: Some(std::thread::spawn(work)) }
    }
}

/// The next item; none: there will be no more.
fn look_for<T>(receiver: &Receiver<T>) -> Option<T> {
    loop {
        match receiver.try_recv() {
            Ok(item) => return Some(item),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
}

impl Port for Spinning {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        let sender = self.sender.as_ref().ok_or("it has ended")?;
        sender.send(transfer).map_err(|error| error.to_string())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        look_for(&self.receiver).ok_or("the thread has ended")?
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // It panics only if a transfer does.
            let _ = thread.join();
        }
    }
}
