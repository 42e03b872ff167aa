//! The structures of `atta.h`: options and counters. Each holds its own size, so that programs that were compiled with an older
//! or a newer header work.

use std::time::Duration;

use atta_aio::driver::ring::RingOptions;
use atta_aio::{Backend, Limits, Options};
use atta_entry::Errno;

use crate::arguments::{Given, Out};
use crate::sized::{self, Plain};

/// `struct atta_options`. Zero selects the default in every field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttaOptions {
    size: usize,
    backend: u32,
    flags: u32,
    threads: u32,
    depth: u32,
    continuation_threads: u32,
    kernel_threads: u32,
    spin_us: u32,
    grace_ms: u32,
    pending: u64,
}

/// `struct atta_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttaCounts {
    /// The size of the structure.
    pub size: usize,
    /// Submitted operations.
    pub submitted: u64,
    /// Operations that have not ended.
    pub pending: u64,
    /// Submissions that had to wake the progress thread.
    pub woken: u64,
    /// Operations that the waiting thread carried out itself.
    pub run_by_waiter: u64,
}

// SAFETY: it is `repr(C)`, begins with its size, and takes any values.
unsafe impl Plain for AttaOptions {}
// SAFETY: as above.
unsafe impl Plain for AttaCounts {}

/// The headers assert these sizes, too.
const _: () = assert!(size_of::<AttaOptions>() == 48);
const _: () = assert!(size_of::<AttaCounts>() == 40);

/// `ATTA_RING` and `ATTA_THREADS`; zero is `ATTA_BEST`.
const RING: u32 = 1;
const THREADS: u32 = 2;
/// `ATTA_INLINE`.
const INLINE: u32 = 1;
/// `ATTA_NO_SPIN`.
const NO_SPIN: u32 = 2;

/// The backend for programs that do not name one.
const VARIABLE: &str = "ATTA_AIO";

impl AttaOptions {
    /// Copies the options of a program; returns the default for NULL.
    pub(crate) fn of(given: Given<Self>) -> Result<Self, Errno> {
        if given.is_null() { Ok(Self::default()) } else { sized::read(given) }
    }

    /// Whether continuations run on the progress thread.
    pub(crate) fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    /// The same options for the service.
    pub(crate) fn read(&self) -> Result<Options, Errno> {
        if self.flags & !(INLINE | NO_SPIN) != 0 {
            return Err(Errno::INVAL);
        }
        let mut options = Options { backend: self.backend()?, ..Options::default() };
        if self.flags & NO_SPIN != 0 {
            options.spin = Duration::ZERO;
        } else if self.spin_us > 0 {
            options.spin = Duration::from_micros(self.spin_us.into());
        }
        if self.continuation_threads > 0 {
            options.continuation_threads = self.continuation_threads as usize;
        }
        if self.grace_ms > 0 {
            let grace = Some(Duration::from_millis(self.grace_ms.into()));
            options.limits = Limits { grace, ..options.limits };
        }
        if self.pending > 0 {
            options.pending = Some(usize::try_from(self.pending).map_err(|_| Errno::INVAL)?);
        }
        Ok(options)
    }

    fn backend(&self) -> Result<Backend, Errno> {
        let mut ring = RingOptions::default();
        if self.depth > 0 {
            ring.depth = self.depth;
        }
        if self.threads > 0 {
            ring.threads = self.threads as usize;
        }
        ring.kernel_threads = [self.kernel_threads; 2];
        match self.backend {
            0 => match std::env::var(VARIABLE).as_deref() {
                Err(_) | Ok("" | "best") => Ok(Backend::Best(ring)),
                Ok("ring") => Ok(Backend::Ring(ring)),
                Ok("threads") => Ok(Backend::Threads(ring.threads)),
                Ok(_) => Err(Errno::INVAL),
            },
            RING => Ok(Backend::Ring(ring)),
            THREADS => Ok(Backend::Threads(ring.threads)),
            _ => Err(Errno::INVAL),
        }
    }
}

impl AttaCounts {
    /// Copies as much as the program has room for.
    pub(crate) fn put(self, out: Out<Self>) -> Result<(), Errno> {
        sized::write(out, self)
    }
}
