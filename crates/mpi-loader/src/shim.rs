//! The plug-in's functions as safe methods. This module owns every buffer that MPI holds, and ensures that only one thread
//! makes the calls. It does not decide what to send when.
//!
//! MPI may use a buffer until it reports success of the operation. After an error its state is unknown, so the buffer is
//! leaked. The buffers of all unfinished operations are leaked on drop, too.
#![expect(unsafe_code, reason = "the plug-in is C")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt;
use std::mem;
use std::thread::{self, ThreadId};

use atta_fabric::{FabricError, Received};

use crate::OpenError;
use crate::abi::{LOST, Table};
use crate::inbox::Inbox;

/// The longest message: MPI 3 counts bytes in an `int`.
pub(crate) const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;
/// The size of the buffer for texts. MPIs return 256 to 8192 bytes at most and cut longer texts.
const TEXT_BYTES: u32 = 8192;
/// Operations checked at once. The plug-in uses the same number.
const WINDOW: usize = 256;

/// A plug-in whose MPI is not initialised.
#[derive(Clone, Copy)]
pub(crate) struct Shim(&'static Table);

/// The world that MPI reported on initialisation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct World {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) neighbours: Vec<u32>,
    /// Whether the others go on when a rank dies.
    pub(crate) survives: bool,
}

/// An initialised MPI, and the world that it reported.
pub(crate) struct Begun {
    pub(crate) shim: Calls,
    pub(crate) world: World,
}

/// The calls that one thread may make between begin and leave.
pub(crate) struct Calls {
    table: &'static Table,
    thread: ThreadId,
    /// Buffers that MPI sends from, by ticket, with the receiver.
    outgoing: BTreeMap<u64, (u32, Vec<u8>)>,
    next_ticket: u64,
    /// Buffers that MPI receives into, and complete messages that were not returned yet.
    inbox: Inbox,
}

/// A function of the table that returns tickets of finished operations.
type Ended = unsafe extern "C" fn(tickets: *mut u64, codes: *mut i32, capacity: u32, count: *mut u32) -> i32;

/// A message that MPI no longer holds.
pub(crate) struct Sent {
    pub(crate) to: u32,
    pub(crate) outcome: Result<(), FabricError>,
}

impl fmt::Debug for Shim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shim(version {})", self.0.header.version)
    }
}

impl Shim {
    pub(crate) fn new(table: &'static Table) -> Self {
        Self(table)
    }

    /// The name of the MPI: the first line of its version text, up to a comma.
    pub(crate) fn library_version(self) -> String {
        let text = read_text(|place| {
            // SAFETY: the place has as many bytes as are said; MPI allows this call before it is begun.
            unsafe { (self.0.library_version)(place, TEXT_BYTES) };
        });
        let line = text.split(['\n', ',']).next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Initialises MPI on this thread.
    pub(crate) fn begin(self) -> Result<Begun, OpenError> {
        let (mut rank, mut size, mut near, mut code) = (0, 0, 0, 0);
        let operation = read_text(|at| {
            // SAFETY: the three places are of this frame, the text has as many bytes as are said.
            code = unsafe { (self.0.begin)(&raw mut rank, &raw mut size, &raw mut near, at, TEXT_BYTES) };
        });
        if code != 0 {
            return Err(OpenError::Begin { operation, code, text: error_text(self.0, code) });
        }
        let mut neighbours = vec![0; near as usize];
        // SAFETY: the place has room for as many ranks as are said; MPI has been begun.
        let code = unsafe { (self.0.neighbours)(neighbours.as_mut_ptr(), near) };
        if code != 0 {
            let operation = "MPI_Group_translate_ranks".to_owned();
            return Err(OpenError::Begin { operation, code, text: error_text(self.0, code) });
        }
        let shim = Calls {
            table: self.0,
            thread: thread::current().id(),
            outgoing: BTreeMap::new(),
            next_ticket: 0,
            inbox: Inbox::default(),
        };
        // SAFETY: MPI has been begun.
        let survives = unsafe { (self.0.survives)() } != 0;
        Ok(Begun { shim, world: World { rank, size, neighbours, survives } })
    }
}

impl Calls {
    /// Starts to send. The message is kept until [`sent`](Self::sent) releases it.
    pub(crate) fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        self.on_own_thread();
        let ticket = self.next_ticket;
        // SAFETY: the message's heap memory stays in place, and is neither written nor freed, as long as `outgoing`
        // holds it: until the plug-in gives the ticket back. Its length was checked against MESSAGE_BYTES_MAX.
        let code = unsafe { (self.table.send)(to, message.as_ptr().cast(), message.len() as u64, ticket) };
        if let Err(error) = self.check("MPI_Isend", code) {
            return Err(leak(message, error, (code, to)));
        }
        self.next_ticket += 1;
        self.outgoing.insert(ticket, (to, message));
        Ok(())
    }

    /// Moves messages on. Returns some of those that have gone or failed, none if there are none now.
    pub(crate) fn sent(&mut self) -> Result<Vec<Sent>, FabricError> {
        self.on_own_thread();
        if self.outgoing.is_empty() {
            return Ok(Vec::new());
        }
        let ended = self.ended(self.table.sent)?;
        let mut sent = Vec::with_capacity(ended.len());
        for (ticket, code) in ended {
            let (to, message) = self.outgoing.remove(&ticket).expect("a ticket comes back once");
            let outcome = self.check("MPI_Isend", code).map_err(|error| leak(message, error, (code, to)));
            sent.push(Sent { to, outcome });
        }
        Ok(sent)
    }

    /// Takes the next complete message, if any. Starts to receive all messages that have arrived, within the bounds of the inbox:
    /// a large, slow message must not hold up those of other ranks.
    pub(crate) fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        self.on_own_thread();
        loop {
            self.complete()?;
            let next = self.inbox.next();
            if next.is_some() || !self.inbox.has_room() {
                return Ok(next);
            }
            let Some((from, bytes)) = self.matched()? else { return Ok(None) };
            self.take(from, bytes)?;
        }
    }

    /// Records complete messages. Returns the first error after recording all others.
    fn complete(&mut self) -> Result<(), FabricError> {
        if !self.inbox.is_receiving() {
            return Ok(());
        }
        let mut first = Ok(());
        for (ticket, code) in self.ended(self.table.taken)? {
            match self.check("MPI_Imrecv", code) {
                Ok(()) => self.inbox.complete(ticket),
                Err(error) => {
                    let Received { from, message } = self.inbox.fail(ticket);
                    // What a rank did not send whole before it died never comes.
                    match leak(message, error, (code, from)) {
                        FabricError::Gone { .. } => self.inbox.give_up(from),
                        error => first = first.and(Err(error)),
                    }
                }
            }
        }
        first
    }

    /// Starts to receive the matched message.
    fn take(&mut self, from: u32, bytes: usize) -> Result<(), FabricError> {
        let (ticket, place) = self.inbox.add(from, bytes);
        // SAFETY: the place has as many bytes as are said. Its heap memory stays where it is, and is neither read nor
        // freed, as long as the inbox holds the message as one that is not whole: until the plug-in gives the ticket back.
        let code = unsafe { (self.table.take)(place.as_mut_ptr().cast(), bytes as u64, ticket) };
        let Err(error) = self.check("MPI_Imrecv", code) else { return Ok(()) };
        match leak(self.inbox.fail(ticket).message, error, (code, from)) {
            FabricError::Gone { .. } => {
                self.inbox.give_up(from);
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Tickets and codes of finished operations.
    fn ended(&self, of: Ended) -> Result<Vec<(u64, i32)>, FabricError> {
        let (mut tickets, mut codes, mut count) = ([0; WINDOW], [0; WINDOW], 0);
        // SAFETY: both places have room for WINDOW items, and the third is of this frame; MPI has been begun.
        let code = unsafe { of(tickets.as_mut_ptr(), codes.as_mut_ptr(), WINDOW as u32, &raw mut count) };
        self.check("MPI_Testsome", code)?;
        Ok(tickets.into_iter().zip(codes).take(count as usize).collect())
    }

    /// The sender and length of the next message, if one has arrived.
    fn matched(&mut self) -> Result<Option<(u32, usize)>, FabricError> {
        let (mut found, mut from, mut bytes) = (0, 0, 0);
        // SAFETY: the three places are of this frame; no message is matched and not taken.
        let code = unsafe { (self.table.matched)(&raw mut found, &raw mut from, &raw mut bytes) };
        self.check("MPI_Improbe", code)?;
        // MPI counts in an `int`, so the length fits.
        Ok((found != 0).then_some((from, bytes as usize)))
    }

    /// Gives nothing more of a rank that has died.
    pub(crate) fn give_up(&mut self, rank: u32) {
        self.inbox.give_up(rank);
    }

    /// All ranks that have died so far, in no order.
    pub(crate) fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        self.on_own_thread();
        let mut ranks = Vec::new();
        loop {
            let mut count = 0;
            // SAFETY: the place has room for as many ranks as are said; MPI has been begun.
            let code = unsafe { (self.table.lost)(ranks.as_mut_ptr(), ranks.len() as u32, &raw mut count) };
            self.check("MPIX_Comm_failure_get_acked", code)?;
            let is_whole = count as usize <= ranks.len();
            ranks.resize(count as usize, 0);
            if is_whole {
                return Ok(ranks);
            }
        }
    }

    /// Finalises MPI. No call may follow.
    pub(crate) fn leave(&mut self) -> Result<(), FabricError> {
        self.on_own_thread();
        // SAFETY: MPI was begun by this thread, and callers give `self` up afterwards.
        let code = unsafe { (self.table.leave)() };
        if code == 0 {
            return Ok(());
        }
        // MPI cannot return the error text any more.
        let text = "it did not say why".to_owned();
        Err(FabricError::Transport { operation: "MPI_Finalize", code, text })
    }

    /// Ends all ranks, including this process.
    pub(crate) fn abort(&mut self, exit_code: i32) {
        self.on_own_thread();
        // SAFETY: MPI was begun by this thread.
        unsafe { (self.table.abort)(exit_code) };
    }

    fn check(&self, operation: &'static str, code: i32) -> Result<(), FabricError> {
        if code == 0 {
            return Ok(());
        }
        Err(FabricError::Transport { operation, code, text: error_text(self.table, code) })
    }

    /// MPI was initialised for one thread only (`MPI_THREAD_FUNNELED`).
    fn on_own_thread(&self) {
        assert_eq!(thread::current().id(), self.thread, "only the thread that began MPI may call it");
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        mem::forget(mem::take(&mut self.outgoing));
        mem::take(&mut self.inbox).into_buffers().for_each(mem::forget);
    }
}

/// Leaks a buffer that MPI may still use after a failed operation. Returns the error, given the call's code and the other rank.
fn leak(buffer: Vec<u8>, error: FabricError, (code, rank): (i32, u32)) -> FabricError {
    mem::forget(buffer);
    if code == LOST { FabricError::Gone { rank } } else { error }
}

fn error_text(table: &'static Table, code: i32) -> String {
    read_text(|place| {
        // SAFETY: the place has as many bytes as are said. MPI allows this call whenever it has been begun.
        unsafe { (table.error_text)(code, place, TEXT_BYTES) };
    })
}

/// The text that a C function writes into a place of TEXT_BYTES, up to its NUL.
fn read_text(write: impl FnOnce(*mut c_char)) -> String {
    let mut place = vec![0_u8; TEXT_BYTES as usize];
    write(place.as_mut_ptr().cast());
    let text = place.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}
