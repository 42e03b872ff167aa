//! The plug-in's functions as safe methods: it owns every buffer that MPI holds, and sees to it that one thread alone
//! calls. What is sent when is not decided here.
//!
//! What MPI still holds when this is dropped is leaked: MPI may read or write it for as long as the process lives.
#![expect(unsafe_code, reason = "the plug-in is C")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt;
use std::mem;
use std::thread::{self, ThreadId};

use atta_fabric::{FabricError, Received};

use crate::OpenError;
use crate::abi::Table;

/// The longest message: MPI 3 counts bytes in an `int`.
pub(crate) const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;
/// The longest text that is asked for; MPIs say 256 to 8192 at most, and cut what is longer.
const TEXT_BYTES: u32 = 8192;
/// Messages that are looked after at once; the plug-in has the same number.
const WINDOW: usize = 256;

/// A plug-in whose MPI has not been begun.
#[derive(Clone, Copy)]
pub(crate) struct Shim(&'static Table);

/// What MPI said when it was begun.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct World {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) neighbours: Vec<u32>,
}

/// An MPI that has been begun, and what it said.
pub(crate) struct Begun {
    pub(crate) shim: Calls,
    pub(crate) world: World,
}

/// The calls that one thread may make between begin and leave.
pub(crate) struct Calls {
    table: &'static Table,
    thread: ThreadId,
    /// What MPI sends from, by ticket, with the receiver.
    outgoing: BTreeMap<u64, (u32, Vec<u8>)>,
    next_ticket: u64,
    /// What MPI receives into: the message that has been matched and has not come whole.
    incoming: Option<Received>,
}

/// A message that MPI does not hold any more.
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

    /// What the MPI calls itself: the first line of it, and of that what comes before a comma.
    pub(crate) fn library_version(self) -> String {
        let text = read_text(|place| {
            // SAFETY: the place has as many bytes as are said; MPI allows this call before it is begun.
            unsafe { (self.0.library_version)(place, TEXT_BYTES) };
        });
        let line = text.split(['\n', ',']).next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Begins MPI on this thread.
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
            incoming: None,
        };
        Ok(Begun { shim, world: World { rank, size, neighbours } })
    }
}

impl Calls {
    /// Begins to send. The message is kept until [`sent`](Self::sent) gives it up.
    pub(crate) fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        self.on_own_thread();
        let ticket = self.next_ticket;
        // SAFETY: the message's heap memory stays in place, and is neither written nor freed, as long as `outgoing`
        // holds it: until the plug-in gives the ticket back. Its length was checked against MESSAGE_BYTES_MAX.
        let code = unsafe { (self.table.send)(to, message.as_ptr().cast(), message.len() as u64, ticket) };
        self.check("MPI_Isend", code)?;
        self.next_ticket += 1;
        self.outgoing.insert(ticket, (to, message));
        Ok(())
    }

    /// Moves messages on; gives some of those that have gone or failed, none if there are none at present.
    pub(crate) fn sent(&mut self) -> Result<Vec<Sent>, FabricError> {
        self.on_own_thread();
        if self.outgoing.is_empty() {
            return Ok(Vec::new());
        }
        let (mut tickets, mut codes, mut count) = ([0; WINDOW], [0; WINDOW], 0);
        // SAFETY: both places have room for WINDOW items, and the third is of this frame.
        let code = unsafe {
            (self.table.sent)(tickets.as_mut_ptr(), codes.as_mut_ptr(), WINDOW as u32, &raw mut count)
        };
        self.check("MPI_Testsome", code)?;
        let done = tickets.iter().zip(codes).take(count as usize);
        let mut sent = Vec::with_capacity(count as usize);
        for (ticket, code) in done {
            let (to, _message) = self.outgoing.remove(ticket).expect("a ticket comes back once");
            sent.push(Sent { to, outcome: self.check("MPI_Isend", code) });
        }
        Ok(sent)
    }

    /// Takes the next message that has come, if one has come whole.
    pub(crate) fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        self.on_own_thread();
        let mut done = 0;
        let code = if self.incoming.is_some() {
            // SAFETY: the place is of this frame; a message has been matched and begun.
            let code = unsafe { (self.table.taken)(&raw mut done) };
            ("MPI_Test", code)
        } else {
            let Some((from, bytes)) = self.matched()? else { return Ok(None) };
            let incoming = self.incoming.insert(Received { from, message: vec![0; bytes] });
            // SAFETY: the place has as many bytes as are said. Its heap memory stays where it is, and is neither read
            // nor freed, as long as `incoming` holds it: until the plug-in says that it is done or failed.
            let code = unsafe {
                (self.table.take)(incoming.message.as_mut_ptr().cast(), bytes as u64, &raw mut done)
            };
            ("MPI_Imrecv", code)
        };
        if code.1 != 0 || done != 0 {
            let whole = self.incoming.take();
            return self.check(code.0, code.1).map(|()| whole);
        }
        Ok(None)
    }

    /// The sender and length of the next message, if one has come.
    fn matched(&mut self) -> Result<Option<(u32, usize)>, FabricError> {
        let (mut found, mut from, mut bytes) = (0, 0, 0);
        // SAFETY: the three places are of this frame; no message is matched and not taken.
        let code = unsafe { (self.table.matched)(&raw mut found, &raw mut from, &raw mut bytes) };
        self.check("MPI_Improbe", code)?;
        // MPI counts in an `int`, so the length fits.
        Ok((found != 0).then_some((from, bytes as usize)))
    }

    /// Leaves MPI. Nothing may be called after it.
    pub(crate) fn leave(&mut self) -> Result<(), FabricError> {
        self.on_own_thread();
        // SAFETY: MPI was begun by this thread, and callers give `self` up afterwards.
        let code = unsafe { (self.table.leave)() };
        if code == 0 {
            return Ok(());
        }
        // MPI cannot be asked for the words any more.
        let text = "it did not say why".to_owned();
        Err(FabricError::Transport { operation: "MPI_Finalize", code, text })
    }

    /// Ends all ranks, and this process with them.
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

    /// MPI was begun for one thread alone (`MPI_THREAD_FUNNELED`).
    fn on_own_thread(&self) {
        assert_eq!(thread::current().id(), self.thread, "only the thread that began MPI may call it");
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        mem::forget(mem::take(&mut self.outgoing));
        mem::forget(self.incoming.take());
    }
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
