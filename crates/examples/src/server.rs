//! A server of the tree: one on each rank. A request that it cannot answer goes up; the file comes down to those who asked, and stays. A rank
//! that waits for a file of its own serves the others meanwhile.
//!
//! ```text
//!   request ──▶ own cache ── none ──▶ parent ── none ──▶ root ──▶ open
//!                  │                                       │
//!   file or error ◀┴──────────── those who asked ◀─────────┘
//! ```
//!
//! It survives no failed rank, and forgets no file. Messages are trusted: all ranks run this program.

use std::thread;
use std::time::Duration;

use atta_code::{Code as _, choice, record};
use atta_fabric::{Endpoint, Received};

use crate::cache::{Cache, File, Step};
use crate::job::Failure;
use crate::reader::Reader;
use crate::routes::{Route, Routes};

/// How long to wait for a message before the next look, where the fabric reports none.
const POLL: Duration = Duration::from_micros(100);
/// The same where it does: in case a report is missed.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// A message between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A child asks for a file.
    Request { path: Vec<u8> },
    /// The answer.
    Answer { path: Vec<u8>, file: File },
    /// This rank and all below it have what they wanted.
    Done,
    /// All ranks have.
    End,
}

choice!(Message { 0 => Request { path }, 1 => Answer { path, file }, 2 => Done, 3 => End });

/// What a server has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests of children.
    pub requests: u64,
    /// Files and errors from its parent.
    pub answers: u64,
}

record!(Traffic { requests, answers });

/// A server.
pub struct Server<'s> {
    lane: &'s mut dyn Endpoint,
    routes: Routes<'s>,
    reader: Reader<'s>,
    cache: Cache,
    traffic: Traffic,
    /// Children in the tree of all ranks that have reported.
    done: usize,
    has_ended: bool,
    is_woken: bool,
}

impl std::fmt::Debug for Server<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Server").field("traffic", &self.traffic).finish_non_exhaustive()
    }
}

impl<'s> Server<'s> {
    /// The server of this rank. Nothing else may use the lane while it lives.
    pub fn new(lane: &'s mut dyn Endpoint, routes: Routes<'s>, reader: Reader<'s>) -> Self {
        let own = thread::current();
        let is_woken = lane.on_arrival(std::sync::Arc::new(move || own.unpark()));
        let (cache, traffic) = (Cache::default(), Traffic::default());
        Self { lane, routes, reader, cache, traffic, done: 0, has_ended: false, is_woken }
    }

    /// A file for this rank: from its cache, through its tree, or opened here if it is well distributed.
    ///
    /// # Errors
    /// The ranks cannot communicate. That the file cannot be opened is a value.
    pub fn get(&mut self, path: &[u8]) -> Result<File, Failure> {
        let route = self.routes.of(path);
        if route == Route::Direct {
            return Ok(self.reader.read(path));
        }
        self.request(path, self.lane.rank(), route)?;
        loop {
            if let Some(file) = self.cache.get(path) {
                return Ok(file.clone());
            }
            self.serve()?;
        }
    }

    /// Serves others until no rank wants a file any more: all ranks call this. Then they may ask again.
    ///
    /// # Errors
    /// The ranks cannot communicate.
    pub fn end_phase(&mut self) -> Result<(), Failure> {
        let (parent, children) = self.routes.of_all();
        while self.done < children.len() {
            self.serve()?;
        }
        self.done = 0;
        match parent {
            Some(parent) => self.send(parent, &Message::Done)?,
            None => self.has_ended = true,
        }
        while !self.has_ended {
            self.serve()?;
        }
        self.has_ended = false;
        for child in children {
            self.send(child, &Message::End)?;
        }
        while self.lane.unsent()? > 0 {
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// What it has received since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// What this rank has opened by itself.
    pub fn reader(&mut self) -> &mut Reader<'s> {
        &mut self.reader
    }

    /// Waits for a message, and does what it asks for.
    fn serve(&mut self) -> Result<(), Failure> {
        let Some(Received { from, message }) = self.lane.receive()? else {
            if self.is_woken {
                thread::park_timeout(WAIT_MAX);
            } else {
                thread::sleep(POLL);
            }
            return Ok(());
        };
        match Message::decode_all(&message) {
            Some(Message::Request { path }) => {
                self.traffic.requests += 1;
                self.request(&path, from, self.routes.of(&path))
            }
            Some(Message::Answer { path, file }) => {
                self.traffic.answers += 1;
                self.store(&path, &file)
            }
            Some(Message::Done) => {
                self.done += 1;
                Ok(())
            }
            Some(Message::End) => {
                self.has_ended = true;
                Ok(())
            }
            None => Err(Failure::new(format!("a message of rank {from} cannot be read"))),
        }
    }

    fn request(&mut self, path: &[u8], from: u32, route: Route) -> Result<(), Failure> {
        match self.cache.request(path, from, route) {
            Step::Answer(file) => {
                let file = file.clone();
                self.answer(from, path, file)
            }
            Step::Open => {
                let file = self.reader.read(path);
                self.store(path, &file)
            }
            Step::Ask(parent) => self.send(parent, &Message::Request { path: path.to_vec() }),
            Step::Wait => Ok(()),
        }
    }

    /// Keeps a file, and passes it on to those who asked.
    fn store(&mut self, path: &[u8], file: &File) -> Result<(), Failure> {
        for rank in self.cache.store(path.to_vec(), file.clone()) {
            self.answer(rank, path, file.clone())?;
        }
        Ok(())
    }

    fn answer(&mut self, to: u32, path: &[u8], file: File) -> Result<(), Failure> {
        if to == self.lane.rank() {
            return Ok(());
        }
        self.send(to, &Message::Answer { path: path.to_vec(), file })
    }

    fn send(&mut self, to: u32, message: &Message) -> Result<(), Failure> {
        Ok(self.lane.send(to, message.encoded())?)
    }
}

#[cfg(test)]
mod tests;
