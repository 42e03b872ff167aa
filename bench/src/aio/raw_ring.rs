//! The limit: a loop on io_uring as fio has it, with nothing between the loop and the ring.

#![expect(unsafe_code, reason = "the kernel uses buffers by their addresses")]

use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use super::BenchResult;
use super::port::{Direction, Port, Transfer};

/// A ring, and the buffers that it uses.
pub(crate) struct RawRing {
    ring: IoUring,
    slots: Vec<Option<Transfer>>,
    free: Vec<usize>,
    running: usize,
    ended: Vec<Vec<u8>>,
    depth: usize,
    /// Whether each submission goes to the kernel at once.
    is_eager: bool,
}

impl RawRing {
    /// A ring that runs `depth` transfers at a time.
    ///
    /// # Errors
    ///
    /// The kernel has no rings.
    pub(crate) fn new(depth: u32, is_eager: bool) -> BenchResult<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
        let ring = builder.build(depth).map_err(|error| format!("io_uring: {error}"))?;
        let depth = depth as usize;
        let slots = (0..depth).map(|_| None).collect();
        Ok(Self { ring, slots, free: (0..depth).collect(), running: 0, ended: Vec::new(), depth, is_eager })
    }

    fn enter(&mut self, wait_for: usize) -> BenchResult<()> {
        self.ring.submit_and_wait(wait_for).map_err(|error| format!("io_uring: {error}"))?;
        for entry in self.ring.completion() {
            let slot = usize::try_from(entry.user_data()).map_err(|error| error.to_string())?;
            let transfer = self.slots[slot].take().ok_or("an end without a beginning")?;
            self.free.push(slot);
            self.running -= 1;
            let moved = u64::try_from(entry.result()).map_err(|_| format!("errno {}", -entry.result()));
            self.ended.push(transfer.ended(moved)?);
        }
        Ok(())
    }
}

impl Port for RawRing {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        while self.running == self.depth {
            self.enter(1)?;
        }
        let slot = self.free.pop().ok_or("no free slot")?;
        let transfer = self.slots[slot].insert(transfer);
        let (fd, start) = (Fd(transfer.file.as_raw_fd()), transfer.buffer.as_mut_ptr());
        let bytes = u32::try_from(transfer.buffer.len()).map_err(|error| error.to_string())?;
        let entry = match transfer.direction {
            Direction::Read => opcode::Read::new(fd, start, bytes).offset(transfer.offset).build(),
            Direction::Write => opcode::Write::new(fd, start, bytes).offset(transfer.offset).build(),
        };
        // SAFETY: the buffer is in its slot until the entry has ended.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        pushed.map_err(|error| error.to_string())?;
        self.running += 1;
        if self.is_eager {
            self.ring.submit().map_err(|error| format!("io_uring: {error}"))?;
        }
        Ok(())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        loop {
            if let Some(buffer) = self.ended.pop() {
                return Ok(buffer);
            }
            self.enter(1)?;
        }
    }
}

impl Drop for RawRing {
    fn drop(&mut self) {
        while self.running > 0 {
            if self.enter(1).is_err() {
                // The kernel may still write to them.
                self.slots.drain(..).for_each(std::mem::forget);
                return;
            }
        }
    }
}
