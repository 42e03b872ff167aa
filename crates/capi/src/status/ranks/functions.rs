//! The table of function pointers with which a program brings its own ranks, as `struct atta_collective`. It is checked here once; what a function
//! returns is turned into an error here.

use std::ffi::{c_int, c_void};

use atta_entry::Errno;

use crate::arguments::{Data, Given};
use crate::sized::{self, Plain};
use crate::status::ranks::message::{FRAME_BYTES, length};
use crate::status::ranks::total::{Total, Value};

type Send = extern "C" fn(Data, u32, *const c_void, usize) -> c_int;
type Receive = extern "C" fn(Data, u32, *mut c_void, usize) -> c_int;
type Broadcast = extern "C" fn(Data, *mut c_void, usize) -> c_int;
type Reduce = extern "C" fn(Data, Value) -> c_int;

/// `struct atta_collective`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttaCollective {
    size: usize,
    data: Data,
    rank: u32,
    ranks: u32,
    send: Option<Send>,
    receive: Option<Receive>,
    broadcast: Option<Broadcast>,
    reduce: Option<Reduce>,
}

// SAFETY: it is `repr(C)`, begins with its size, and takes any values that the header allows.
unsafe impl Plain for AttaCollective {}

/// The header asserts this size, too.
const _: () = assert!(size_of::<AttaCollective>() == 56);

/// Both functions between two ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    data: Data,
    send: Send,
    receive: Receive,
}

/// A table that can carry all queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    data: Data,
    /// None: `broadcast` and `reduce` are there, or there is one rank.
    pub(crate) pair: Option<Pair>,
    broadcast: Option<Broadcast>,
    reduce: Option<Reduce>,
}

/// What a function of the program returned: 0, or the number of an error.
fn checked(returned: c_int) -> Result<(), Errno> {
    match returned {
        0 => Ok(()),
        error if error > 0 => Err(Errno(error)),
        _ => Err(Errno::IO),
    }
}

impl Functions {
    /// The table of a program. NULL: it is alone.
    ///
    /// # Errors
    /// EINVAL: functions are missing, or there is no such rank.
    pub(crate) fn of(given: Given<AttaCollective>) -> Result<Self, Errno> {
        if given.is_null() {
            let data = Data(std::ptr::null_mut());
            return Ok(Self { rank: 0, ranks: 1, data, pair: None, broadcast: None, reduce: None });
        }
        let AttaCollective { data, rank, ranks, send, receive, broadcast, reduce, .. } = sized::read(given)?;
        let pair = send.zip(receive).map(|(send, receive)| Pair { data, send, receive });
        let has_half = send.is_some() != receive.is_some();
        let is_complete = pair.is_some() || (broadcast.is_some() && reduce.is_some()) || ranks == 1;
        if rank >= ranks || has_half || !is_complete {
            return Err(Errno::INVAL);
        }
        Ok(Self { rank, ranks, data, pair, broadcast, reduce })
    }

    /// Whether the program broadcasts by itself.
    pub(crate) const fn broadcasts(&self) -> bool {
        self.broadcast.is_some()
    }

    /// Whether the program reduces by itself.
    pub(crate) const fn reduces(&self) -> bool {
        self.reduce.is_some()
    }

    /// Lets the program broadcast a message of the first rank. Returns it on all.
    pub(crate) fn broadcast(&self, own: Option<Vec<u8>>) -> Result<Vec<u8>, Errno> {
        let broadcast = self.broadcast.ok_or(Errno(libc::ENOSYS))?;
        let pass = |bytes: &mut [u8]| checked(broadcast(self.data, bytes.as_mut_ptr().cast(), bytes.len()));
        let mut frame = own.unwrap_or_default();
        // The others have no more before they know how much there is.
        let mut rest = frame.split_off(frame.len().min(FRAME_BYTES));
        frame.resize(FRAME_BYTES, 0);
        pass(&mut frame)?;
        let whole = length(&frame)?;
        if whole <= FRAME_BYTES {
            frame.truncate(whole);
            return Ok(frame);
        }
        grow(&mut rest, whole - FRAME_BYTES)?;
        pass(&mut rest)?;
        frame.append(&mut rest);
        Ok(frame)
    }

    /// Lets the program reduce a value to the first rank.
    pub(crate) fn reduce(&self, total: &mut Total<'_>) -> Result<(), Errno> {
        let reduce = self.reduce.ok_or(Errno(libc::ENOSYS))?;
        checked(reduce(self.data, Value::of(total)))
    }
}

impl Pair {
    /// Sends a message to a rank.
    pub(crate) fn send(&self, to: u32, message: &[u8]) -> Result<(), Errno> {
        let pass = |bytes: &[u8]| checked((self.send)(self.data, to, bytes.as_ptr().cast(), bytes.len()));
        let (first, rest) = message.split_at(message.len().min(FRAME_BYTES));
        let mut frame = [0; FRAME_BYTES];
        frame[..first.len()].copy_from_slice(first);
        pass(&frame)?;
        if rest.is_empty() { Ok(()) } else { pass(rest) }
    }

    /// Receives a message of a rank.
    pub(crate) fn receive(&self, from: u32) -> Result<Vec<u8>, Errno> {
        let pass = |bytes: &mut [u8]| {
            checked((self.receive)(self.data, from, bytes.as_mut_ptr().cast(), bytes.len()))
        };
        let mut message = vec![0; FRAME_BYTES];
        pass(&mut message)?;
        let whole = length(&message)?;
        if whole <= FRAME_BYTES {
            message.truncate(whole);
            return Ok(message);
        }
        grow(&mut message, whole)?;
        pass(&mut message[FRAME_BYTES..])?;
        Ok(message)
    }
}

/// Makes room for bytes of which another rank says how many they are.
fn grow(bytes: &mut Vec<u8>, count: usize) -> Result<(), Errno> {
    let more = count.saturating_sub(bytes.len());
    bytes.try_reserve_exact(more).map_err(|_| Errno(libc::ENOMEM))?;
    bytes.resize(count, 0);
    Ok(())
}
