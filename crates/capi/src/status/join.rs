//! A status: one rank of a set of ranks, with its mount table and what all ranks know of servers. It is joined once and then asked. An error of
//! the ranks' communication ends it: nobody knows then which message comes next.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use atta_entry::Errno;
use atta_mounts::MountTable;
use atta_status::{Status, StatusError};

use crate::arguments::{Given, Out, Text};
use crate::call::return_code;
use crate::sized;
use crate::status::mounts::{NO_MOUNT, absolute, table};
use crate::status::objects::{find, give};
use crate::status::ranks::functions::{AttaCollective, Functions};
use crate::status::ranks::links::{Failed, Links};
use crate::status::ranks::message::PROTOCOL;
use crate::status::values::AttaStatusOptions;

/// What ranks ask each other, as [`Query`](crate::status::values::Query) has the first numbers.
pub(crate) const JOIN: u32 = 10;
pub(crate) const DISTRIBUTION: u32 = 11;
pub(crate) const GROUPS: u32 = 12;
pub(crate) const MAP: u32 = 13;
pub(crate) const PLACES: u32 = 14;
pub(crate) const SAVED_MAP: u32 = 15;

/// A status of a program.
pub(crate) struct Joined {
    state: Mutex<State>,
    /// The rank of the last error, plus 1. 0: the last error is of no rank, or there was none.
    failed_rank: AtomicU64,
}

/// What belongs to one question at a time.
struct State {
    // Dropped before the table that it borrows.
    status: Status<'static>,
    links: Links,
    /// Why the ranks cannot communicate any more.
    broken: Option<Errno>,
    _table: Arc<MountTable>,
}

// SAFETY: the table and the functions may be used by any thread. The means to read files, which need not be so in general, are the system's
// here, and have no state.
unsafe impl Send for State {}

impl State {
    fn join(table: Arc<MountTable>, functions: Functions, options: AttaStatusOptions) -> Result<Self, Errno> {
        // SAFETY: the table is in memory of its own that stays where it is. The state holds it until after the status is dropped, and gives
        // nothing away that borrows from it.
        let borrowed: &'static MountTable = unsafe { &*Arc::as_ptr(&table) };
        let mut links = Links::new(functions);
        links.ask(JOIN);
        let status =
            Status::join(&mut links, borrowed, options.options()?).map_err(|error| errno_of(&error).0)?;
        Ok(Self { status, links, broken: None, _table: table })
    }
}

/// The error for the program, and the rank that has it.
fn errno_of(error: &StatusError<Failed>) -> (Errno, Option<u32>) {
    match error {
        StatusError::Collective(Failed(errno)) => (*errno, None),
        StatusError::NoMount { rank } => (NO_MOUNT, Some(*rank)),
        StatusError::Unreadable { rank, errno } => (*errno, Some(*rank)),
        // Also what a later version may add.
        _ => (PROTOCOL, None),
    }
}

impl Joined {
    /// Asks all ranks something. Of a wrong path they learn as of one that is below no mount, so that none of them waits for this one.
    pub(crate) fn ask<T>(
        &self,
        question: u32,
        path: Text,
        of: impl FnOnce(&Status<'static>, &mut Links, &[u8]) -> Result<T, StatusError<Failed>>,
    ) -> Result<T, Errno> {
        let path = absolute(path);
        let bytes = path.as_ref().map_or(&b""[..], |path| path.as_bytes());
        let answer = self.ask_all(question, |status, links| of(status, links, bytes));
        path.and(answer)
    }

    /// The same about no path.
    pub(crate) fn ask_all<T>(
        &self,
        question: u32,
        of: impl FnOnce(&Status<'static>, &mut Links) -> Result<T, StatusError<Failed>>,
    ) -> Result<T, Errno> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => return Err(Errno(libc::EBUSY)),
            Err(TryLockError::Poisoned(_)) => return Err(Errno::IO),
        };
        let State { status, links, broken, .. } = &mut *state;
        self.failed_rank.store(0, Ordering::Relaxed);
        if let Some(error) = *broken {
            return Err(error);
        }
        links.ask(question);
        of(status, links).map_err(|error| {
            let (errno, rank) = errno_of(&error);
            self.failed_rank.store(rank.map_or(0, |rank| u64::from(rank) + 1), Ordering::Relaxed);
            if rank.is_none() {
                *broken = Some(errno);
            }
            errno
        })
    }
}

/// Joins the ranks of a program.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_status_join(
    mounts: u64,
    collective: Given<AttaCollective>,
    options: Given<AttaStatusOptions>,
    status: Out<u64>,
) -> c_int {
    return_code(|| {
        give(status, || {
            let options =
                if options.is_null() { AttaStatusOptions::default() } else { sized::read(options)? };
            let state = State::join(table(mounts)?, Functions::of(collective)?, options)?;
            Ok(Joined { state: Mutex::new(state), failed_rank: AtomicU64::new(0) })
        })
    })
}

/// Returns the rank that had the last error.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_status_failed_rank(status: u64, rank: Out<u32>) -> c_int {
    return_code(|| {
        let rank = rank.there()?;
        let found = find::<Joined>(status)?.failed_rank.load(Ordering::Relaxed);
        rank.put(found.checked_sub(1).and_then(|rank| u32::try_from(rank).ok()).ok_or(Errno(libc::ENODATA))?);
        Ok(())
    })
}
