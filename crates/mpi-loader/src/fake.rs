//! A plug-in's table without an MPI, for tests. It is one rank whose messages come back to it when it checks them. A test adds
//! messages of other ranks and makes calls fail on request. After a failure it still uses the memory that it was given, as an
//! MPI may. The state belongs to the calling thread, as that of MPI does here.
#![expect(unsafe_code, reason = "it stands in for C")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{c_char, c_void};

use crate::abi::{Header, LOST, Table, VERSION};
use crate::shim::{Begun, Shim};
use crate::{Mpi, OpenError};

/// The behaviour that a test requests of the calls.
#[derive(Default)]
pub(crate) struct Fake {
    /// Messages started but not checked yet: address, length, ticket.
    begun: VecDeque<(usize, usize, u64)>,
    /// Messages that have arrived, with their senders.
    come: VecDeque<(u32, Vec<u8>)>,
    /// The matched message.
    matched: Option<Vec<u8>>,
    /// Messages being received, in the order in which they were matched.
    taking: Vec<Taking>,
    /// Buffers given for a receive that failed: address and length.
    failed_places: Vec<(usize, usize)>,
    /// Messages whose sends failed: address and length.
    failed_messages: Vec<(usize, usize)>,
    /// The maximum number of messages received at once.
    pub(crate) taking_max: usize,
    /// Messages of this many bytes or more do not complete. 0: all complete.
    pub(crate) slow_bytes: usize,
    /// Messages received until one fails. 0: none fails.
    pub(crate) taken_fails_in: u32,
    /// The maximum number of messages started at once.
    pub(crate) begun_max: usize,
    /// Calls of `send` until one fails. 0: none fails.
    pub(crate) send_fails_in: u32,
    /// Messages that have gone until one fails. 0: none fails.
    pub(crate) sent_fails_in: u32,
    /// Whether to hold all outgoing messages.
    pub(crate) holds: bool,
    /// Whether `begin` fails.
    pub(crate) begin_fails: bool,
    /// Ranks that have died. Messages to them and from them fail, as an MPI says.
    pub(crate) dead: Vec<u32>,
    /// The code of failing calls, in place of [`CODE`].
    pub(crate) says_lost: bool,
}

/// A message being received.
struct Taking {
    place: usize,
    message: Vec<u8>,
    ticket: u64,
    /// Large messages complete at the second check.
    looks: u32,
}

/// The error code of each failing call.
pub(crate) const CODE: i32 = 17;

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::default();
}

/// Changes the behaviour of this thread's calls.
pub(crate) fn with<R>(change: impl FnOnce(&mut Fake) -> R) -> R {
    FAKE.with_borrow_mut(change)
}

/// The endpoint of a single rank.
pub(crate) fn mpi() -> Result<Mpi, OpenError> {
    let Begun { shim, world } = Shim::new(&TABLE).begin()?;
    Ok(Mpi::new(shim, world))
}

/// Moves messages on without an endpoint, as another thread of an MPI may. Returns those that have arrived.
pub(crate) fn move_on() -> Vec<Vec<u8>> {
    let (mut tickets, mut codes, mut count) = ([0; 8], [0; 8], 0);
    // SAFETY: the places have room for 8 items; what was sent must be kept, which the test of it is about.
    let code = unsafe { sent(tickets.as_mut_ptr(), codes.as_mut_ptr(), 8, &raw mut count) };
    assert_eq!(code, 0);
    with(|fake| fake.come.drain(..).map(|(_, message)| message).collect())
}

/// Adds a message from another rank.
pub(crate) fn arrive(from: u32, message: Vec<u8>) {
    with(|fake| fake.come.push_back((from, message)));
}

/// Writes to all buffers of failed receives, as an MPI may that still holds them.
pub(crate) fn write_late() {
    for (place, bytes) in with(|fake| fake.failed_places.clone()) {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(place);
        // SAFETY: who received must keep the place for ever after a failure, which the test of it is about.
        unsafe { std::ptr::write_bytes(place, 0xEE, bytes) };
    }
}

/// Reads all messages whose sends failed.
pub(crate) fn read_late() -> Vec<Vec<u8>> {
    let read = |(message, bytes)| {
        let message = std::ptr::with_exposed_provenance::<u8>(message);
        // SAFETY: who sent must keep the message for ever after a failure, which the test of it is about.
        unsafe { std::slice::from_raw_parts(message, bytes) }.to_vec()
    };
    with(|fake| fake.failed_messages.clone()).into_iter().map(read).collect()
}

static TABLE: Table = Table {
    header: Header { version: VERSION, bytes: size_of::<Table>() as u32, built: 1, reserved: 0 },
    library_version,
    begin,
    neighbours,
    send,
    sent,
    matched,
    take,
    taken,
    survives,
    lost,
    leave,
    abort,
    error_text,
};

impl Fake {
    /// The code of a failing call.
    fn code(&self) -> i32 {
        if self.says_lost { LOST } else { CODE }
    }
}

/// Counts down to a failure.
fn fails(count: &mut u32) -> bool {
    let now = *count == 1;
    *count = count.saturating_sub(1);
    now
}

fn write_text(text: &str, place: *mut c_char, capacity: u32) {
    assert!(text.len() < capacity as usize);
    // SAFETY: the place has as many bytes as are said, and they are more than the text has.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len()) };
}

/// Writes a result of a call.
fn give<T>(place: *mut T, value: T) {
    // SAFETY: callers pass places of their own frames or of arrays that are long enough.
    unsafe { place.write(value) };
}

unsafe extern "C" fn library_version(text: *mut c_char, capacity: u32) -> i32 {
    write_text("Fake\tMPI  v1.0, package: none\nmore", text, capacity);
    0
}

unsafe extern "C" fn begin(
    rank: *mut u32,
    size: *mut u32,
    neighbours: *mut u32,
    at: *mut c_char,
    room: u32,
) -> i32 {
    if with(|fake| fake.begin_fails) {
        write_text("MPI_Comm_dup", at, room);
        return CODE;
    }
    give(rank, 0);
    give(size, 1);
    give(neighbours, 1);
    0
}

unsafe extern "C" fn neighbours(ranks: *mut u32, count: u32) -> i32 {
    assert_eq!(count, 1);
    give(ranks, 0);
    0
}

unsafe extern "C" fn send(to: u32, message: *const c_void, bytes: u64, ticket: u64) -> i32 {
    assert_eq!(to, 0);
    with(|fake| {
        // The address alone would lose its provenance.
        let address = message.expose_provenance();
        if fails(&mut fake.send_fails_in) {
            fake.failed_messages.push((address, bytes as usize));
            return fake.code();
        }
        fake.begun.push_back((address, bytes as usize, ticket));
        fake.begun_max = fake.begun_max.max(fake.begun.len());
        0
    })
}

unsafe extern "C" fn sent(tickets: *mut u64, codes: *mut i32, capacity: u32, count: *mut u32) -> i32 {
    with(|fake| {
        // Not all at once, so that some stay in flight from check to check.
        let number = if fake.holds { 0 } else { fake.begun.len().min(capacity as usize).min(5) };
        for slot in 0..number {
            let (address, bytes, ticket) = fake.begun.pop_front().unwrap();
            let failed = fails(&mut fake.sent_fails_in);
            if failed {
                fake.failed_messages.push((address, bytes));
            } else {
                let message = std::ptr::with_exposed_provenance::<u8>(address);
                // SAFETY: the caller keeps the message until its ticket comes back, which it does here.
                let message = unsafe { std::slice::from_raw_parts(message, bytes) };
                fake.come.push_back((0, message.to_vec()));
            }
            give(tickets.wrapping_add(slot), ticket);
            give(codes.wrapping_add(slot), if failed { fake.code() } else { 0 });
        }
        give(count, number as u32);
        0
    })
}

unsafe extern "C" fn matched(found: *mut i32, from: *mut u32, bytes: *mut u64) -> i32 {
    with(|fake| {
        assert!(fake.matched.is_none(), "only while none is matched");
        let Some((sender, message)) = fake.come.pop_front() else {
            give(found, 0);
            return 0;
        };
        give(found, 1);
        give(from, sender);
        give(bytes, message.len() as u64);
        fake.matched = Some(message);
        0
    })
}

unsafe extern "C" fn take(place: *mut c_void, bytes: u64, ticket: u64) -> i32 {
    with(|fake| {
        let message = fake.matched.take().unwrap();
        assert_eq!(message.len() as u64, bytes);
        fake.taking.push(Taking { place: place.expose_provenance(), message, ticket, looks: 0 });
        fake.taking_max = fake.taking_max.max(fake.taking.len());
        0
    })
}

/// The newest first: MPI promises no order here.
unsafe extern "C" fn taken(tickets: *mut u64, codes: *mut i32, capacity: u32, count: *mut u32) -> i32 {
    with(|fake| {
        let mut ended = 0;
        for at in (0..fake.taking.len()).rev() {
            fake.taking[at].looks += 1;
            let Taking { message, looks, .. } = &fake.taking[at];
            let is_slow = fake.slow_bytes > 0 && message.len() >= fake.slow_bytes;
            if is_slow || (message.len() > 8192 && *looks < 2) || ended == capacity {
                continue;
            }
            let Taking { place: address, message, ticket, .. } = fake.taking.remove(at);
            let failed = fails(&mut fake.taken_fails_in);
            if failed {
                fake.failed_places.push((address, message.len()));
            } else {
                let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
                // SAFETY: the caller keeps the place, of the message's length, until its ticket comes back, as it does here.
                unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), place, message.len()) };
            }
            give(tickets.wrapping_add(ended as usize), ticket);
            give(codes.wrapping_add(ended as usize), if failed { fake.code() } else { 0 });
            ended += 1;
        }
        give(count, ended);
        0
    })
}

unsafe extern "C" fn survives() -> i32 {
    1
}

unsafe extern "C" fn lost(ranks: *mut u32, capacity: u32, count: *mut u32) -> i32 {
    with(|fake| {
        for (slot, rank) in fake.dead.iter().take(capacity as usize).enumerate() {
            give(ranks.wrapping_add(slot), *rank);
        }
        give(count, fake.dead.len() as u32);
        0
    })
}

unsafe extern "C" fn leave() -> i32 {
    assert!(with(|fake| fake.dead.is_empty()), "not after a rank has died");
    0
}

unsafe extern "C" fn abort(_exit_code: i32) {}

unsafe extern "C" fn error_text(code: i32, text: *mut c_char, capacity: u32) {
    write_text(&format!("fake error {code}"), text, capacity);
}
