//! The service of the process: `atta_init` or the first operation starts it, `atta_shutdown` ends it. In a forked copy of the
//! process that started it, every call is refused before it takes a lock, since another thread may have held the lock.

use std::os::fd::RawFd;
use std::sync::{OnceLock, PoisonError, RwLock, mpsc};
use std::time::Duration;

use atta_aio::{Options, Process, Service};
use atta_entry::Errno;

use crate::options::AttaOptions;
use crate::position::{Known, Positions};

/// The service and its state.
pub(crate) struct Face {
    pub(crate) service: Service,
    pub(crate) positions: Positions,
    /// Continuations run on the progress thread.
    pub(crate) is_inline: bool,
    /// The grace period of a cancelled operation.
    grace: Duration,
}

enum Life {
    /// The first operation starts the service.
    New,
    Up(Face),
    /// The service was shut down; only `atta_init` starts it.
    Down,
}

/// The outcome of a shutdown.
pub(crate) enum Farewell {
    /// All operations ended by themselves.
    Drained,
    /// Some were cancelled, and have ended.
    Cancelled,
    /// Some cannot be interrupted and continue, with their memory.
    Left,
}

static LIFE: RwLock<Life> = RwLock::new(Life::New);

/// The process that started the first service.
static HOME: OnceLock<Process> = OnceLock::new();

/// The time that a shutdown waits for an uninterruptible operation beyond the grace period.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns an error in a forked copy of the process.
pub(crate) fn at_home() -> Result<(), Errno> {
    match HOME.get() {
        Some(home) if !home.is_here() => Err(Errno(libc::EOWNERDEAD)),
        _ => Ok(()),
    }
}

/// Calls `f` with the service; starts the service at the first use.
pub(crate) fn with<T>(f: impl FnOnce(&Face) -> Result<T, Errno>) -> Result<T, Errno> {
    at_home()?;
    let life = LIFE.read().unwrap_or_else(PoisonError::into_inner);
    match &*life {
        Life::Up(face) => return f(face),
        Life::Down => return Err(Errno(libc::ESHUTDOWN)),
        Life::New => drop(life),
    }
    match start(&AttaOptions::default()) {
        // Another thread may have started it first.
        Ok(()) | Err(Errno(libc::EALREADY)) => {}
        Err(error) => return Err(error),
    }
    match &*LIFE.read().unwrap_or_else(PoisonError::into_inner) {
        Life::Up(face) => f(face),
        Life::New | Life::Down => Err(Errno(libc::ESHUTDOWN)),
    }
}

/// Calls `f` with the service, if there is one.
pub(crate) fn with_running<T>(f: impl FnOnce(&Face) -> T) -> Option<T> {
    at_home().ok()?;
    match &*LIFE.read().unwrap_or_else(PoisonError::into_inner) {
        Life::Up(face) => Some(f(face)),
        Life::New | Life::Down => None,
    }
}

/// Starts the service.
pub(crate) fn start(options: &AttaOptions) -> Result<(), Errno> {
    at_home()?;
    let made: Options = options.read()?;
    let mut life = LIFE.write().unwrap_or_else(PoisonError::into_inner);
    if matches!(*life, Life::Up(_)) {
        return Err(Errno(libc::EALREADY));
    }
    HOME.get_or_init(Process::here);
    let grace = made.limits.grace.unwrap_or_default();
    let service = Service::new(&made).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
    let is_inline = options.is_inline();
    *life = Life::Up(Face { service, positions: Positions::default(), is_inline, grace });
    Ok(())
}

/// Ends the service: waits for pending operations for at most `within`, then cancels them.
pub(crate) fn stop(within: Option<Duration>) -> Result<Farewell, Errno> {
    at_home()?;
    let life = {
        let mut life = LIFE.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *life, Life::Down)
    };
    let Life::Up(Face { service, grace, .. }) = life else { return Ok(Farewell::Drained) };
    let (sender, receiver) = mpsc::sync_channel(1);
    // A separate thread, which is left behind with uninterruptible operations.
    let thread = std::thread::Builder::new().name("atta-shutdown".to_owned());
    let thread = thread.spawn(move || {
        let is_drained = service.shutdown(within);
        // The caller may have continued.
        let _ = sender.send(is_drained);
    });
    let thread = thread.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
    let is_drained = match within {
        None => receiver.recv().ok(),
        Some(within) => receiver.recv_timeout(within + grace + PATIENCE).ok(),
    };
    let Some(is_drained) = is_drained else { return Ok(Farewell::Left) };
    // The thread has sent its result and ends. It cannot have panicked after that.
    let _ = thread.join();
    Ok(if is_drained { Farewell::Drained } else { Farewell::Cancelled })
}

/// Removes a position whose descriptor has been closed.
pub(crate) fn end_position(known: Known) {
    with_running(|face| Positions::end(Some(known), &face.service));
}

/// Keeps the position of a descriptor that was not closed.
pub(crate) fn keep_position(fd: RawFd, known: Known) {
    with_running(|face| face.positions.put_back(fd, known, &face.service));
}

/// Removes the position of a descriptor.
pub(crate) fn forget_position(fd: RawFd) {
    with_running(|face| face.positions.forget(fd, &face.service));
}
