//! The structures of `atta.h`: options and counters. Each holds its own size, so that programs that were compiled with an older
//! or a newer header work.

use std::ffi::c_void;
use std::time::Duration;

use atta_aio::driver::ring::RingOptions;
use atta_aio::{Backend, Limits, Options};
use atta_entry::Errno;

use crate::arguments::{FAULT, Given, Out};

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

/// The maximum size of a structure of options: a greater size means that the field was not set.
const SIZE_MOST: usize = 4096;

/// The backend for programs that do not name one.
const VARIABLE: &str = "ATTA_AIO";

impl AttaOptions {
    /// Copies the options of a program; returns the default for NULL.
    pub(crate) fn of(given: Given<Self>) -> Result<Self, Errno> {
        if given.is_null() {
            return Ok(Self::default());
        }
        let from = given.as_ptr();
        // SAFETY: the header asks for a structure that begins with its size.
        let size = unsafe { from.cast::<usize>().read() };
        if size < size_of::<Self>() {
            return Err(Errno::INVAL);
        }
        if size > SIZE_MOST {
            return Err(Errno(libc::E2BIG));
        }
        let known = size_of::<Self>();
        // SAFETY: the header asks for as many bytes as the size says, and it is at least that of this structure.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
        // A newer program requests something unknown here.
        if bytes[known..].iter().any(|byte| *byte != 0) {
            return Err(Errno(libc::E2BIG));
        }
        // SAFETY: as above; all values of the fields are allowed.
        Ok(unsafe { from.read_unaligned() })
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
    pub(crate) fn put(mut self, out: Out<Self>) -> Result<(), Errno> {
        let to = out.there().map_err(|_| FAULT)?.as_ptr();
        // SAFETY: the header asks for a structure that begins with its size.
        let size = unsafe { to.cast::<usize>().read() };
        if size < size_of::<usize>() {
            return Err(Errno::INVAL);
        }
        self.size = size;
        let bytes = size.min(size_of::<Self>());
        // SAFETY: the header asks for as many bytes as the size says; both structures are plain numbers.
        unsafe { libc::memcpy(to.cast::<c_void>(), (&raw const self).cast(), bytes) };
        Ok(())
    }
}
