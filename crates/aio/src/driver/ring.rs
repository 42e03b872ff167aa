//! A driver on the kernel's ring (io_uring). Operations without an opcode in the running kernel go to a thread pool; long reads
//! of cached data go to a second one. Results of all arrive at the same place. One thread creates and uses the ring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atta_entry::Errno;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::event::EventfdFlags;

use super::cached::Cached;
use super::threads::Threads;
use super::{Driver, Ended, Token, Wake};
use crate::op::{At, Op, Sync};
use crate::perform::empty;

/// Marks the read of the bell's eventfd.
const BELL: u64 = u64::MAX;
/// Marks entries whose completion is ignored: cancellations.
const SILENT: u64 = u64::MAX - 1;
/// The kernel's maximum per transfer.
const TRANSFER_MOST: usize = 0x7fff_f000;

/// Reads of at least this size go to threads if their data is cached and other operations run. Otherwise the submitting thread
/// would copy them, one after the other. Kernel threads would copy them too, but often only one of them at a time.
const COPIED_APART: usize = 128 << 10;

/// The options of a ring.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// The maximum number of running operations; also the size of the submission queue.
    pub depth: u32,
    /// The maximum number of threads for operations without an opcode. Long reads have their own: this number or four per
    /// processor, whichever is more.
    pub threads: usize,
    /// The maximum number of kernel threads for blocking operations: on regular files, and on anything else. Zero keeps the
    /// kernel's choice, four times the number of processors.
    pub kernel_threads: [u32; 2],
    /// Opcodes, by number, not to use even if the kernel supports them: this emulates an older kernel.
    pub without: Vec<u8>,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { depth: 256, threads: 16, kernel_threads: [0; 2], without: Vec::new() }
    }
}

/// The ring and its running operations.
pub struct Ring {
    // Dropped first: it unmaps the memory that the kernel writes to, and cancels running operations.
    ring: IoUring,
    known: [bool; 256],
    /// Operations in the kernel, by the number in their entries.
    slots: Vec<Option<(Token, Box<Op>)>>,
    free: Vec<usize>,
    /// Threads for operations without an opcode.
    threads: Threads,
    /// Threads for long reads, separate so that a file that hangs blocks nothing else.
    readers: Threads,
    /// The number of operations in either pool.
    on_threads: usize,
    /// The range that is known to be cached.
    cached: Cached,
    bell: Arc<Bell>,
    /// The buffer into which the kernel reads the bell.
    rung: Box<[u8; 8]>,
    is_bell_armed: bool,
    depth: usize,
    started: Instant,
}

/// An eventfd that the ring reads.
struct Bell(OwnedFd);

impl Wake for Bell {
    fn wake(&self) {
        // It fails only when the counter is full: then the bell has rung already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Ring {
    /// Creates a ring.
    ///
    /// # Errors
    /// The kernel has no rings or forbids them (`ENOSYS`, `EPERM`), is too old to report its opcodes, or memory or descriptors
    /// run out.
    pub fn new(options: &RingOptions) -> io::Result<Self> {
        let ring = build(options.depth.max(1))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let mut known = [false; 256];
        for (opcode, known) in (0_u8..=255).zip(&mut known) {
            *known = probe.is_supported(opcode) && !options.without.contains(&opcode);
        }
        if options.kernel_threads != [0; 2] {
            ring.submitter().register_iowq_max_workers(&mut options.kernel_threads.clone())?;
        }
        let bell = Arc::new(Bell(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?));
        let threads = |most| Threads::with_bell(most, Some(Arc::clone(&bell) as Arc<dyn Wake>));
        let readers = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            ring,
            known,
            slots: Vec::new(),
            free: Vec::new(),
            threads: threads(options.threads),
            readers: threads(readers.max(options.threads)),
            on_threads: 0,
            cached: Cached::default(),
            bell,
            rung: Box::new([0; 8]),
            is_bell_armed: false,
            depth: options.depth.max(1) as usize,
            started: Instant::now(),
        })
    }

    /// Whether the kernel has an opcode for this operation, as far as known before a try.
    #[must_use]
    pub fn takes(&self, op: &Op) -> bool {
        code(op).is_some_and(|code| self.known[usize::from(code)])
    }

    fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        loop {
            // SAFETY: the entry points to memory of an operation in a box in `slots`, or to the word that the bell is read
            // into; either stays in place until the entry has ended.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            // The queue is full: submit it and try again.
            match self.ring.submit() {
                Ok(0) => return Err(Errno(libc::EBUSY)),
                Ok(_) => {}
                Err(error) => return Err(errno_of(&error)),
            }
        }
    }

    fn arm_bell(&mut self) {
        if self.is_bell_armed {
            return;
        }
        let fd = Fd(self.bell.0.as_raw_fd());
        let entry = opcode::Read::new(fd, self.rung.as_mut_ptr(), 8).build().user_data(BELL);
        self.is_bell_armed = self.push(&entry).is_ok();
    }

    /// Takes completions. Returns whether the bell has rung.
    fn reap(&mut self, ended: &mut Vec<Ended>) -> bool {
        let mut has_rung = false;
        for entry in self.ring.completion() {
            match entry.user_data() {
                BELL => {
                    has_rung = true;
                    self.is_bell_armed = false;
                }
                SILENT => {}
                slot => {
                    let at = slot as usize;
                    if let Some((token, op)) = self.slots.get_mut(at).and_then(Option::take) {
                        self.free.push(at);
                        let outcome = u64::try_from(entry.result()).map_err(|_| Errno(-entry.result()));
                        ended.push(Ended::new(token, op, outcome));
                    }
                }
            }
        }
        if self.on_threads > 0 {
            let before = ended.len();
            self.threads.reap(ended);
            self.readers.reap(ended);
            self.on_threads -= ended.len() - before;
        }
        has_rung
    }

    /// Submits started operations, and waits for a completion if `at_most` is not zero.
    fn enter(&mut self, at_most: Option<Duration>) {
        if at_most == Some(Duration::ZERO) {
            let queue = self.ring.submission();
            if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
                return;
            }
        }
        let entered = match at_most {
            Some(Duration::ZERO) => self.ring.submit(),
            None => self.ring.submit_and_wait(1),
            Some(at_most) => {
                let time = Timespec::from(at_most);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        // Timed out, interrupted, or too many completions are pending: the caller checks again in any case.
        if let Err(error) = entered {
            let known = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
            debug_assert!(error.raw_os_error().is_some_and(|errno| known.contains(&errno)), "{error}");
        }
    }
}

/// Builds a ring with all fast setup flags, or without them if the kernel does not support them.
fn build(depth: u32) -> io::Result<IoUring> {
    let mut quick = IoUring::builder();
    // Without the taskrun flag, a caller that polls without waiting would not notice pending completions.
    quick.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_taskrun_flag();
    match quick.build(depth) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::builder().build(depth),
        made => made,
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Driver for Ring {
    fn start(&mut self, token: Token, op: Box<Op>) {
        if !self.takes(&op) {
            self.on_threads += 1;
            return self.threads.start(token, op);
        }
        if self.running() > 0 && self.is_copied_apart(&op) {
            self.on_threads += 1;
            return self.readers.start(token, op);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        // Store it in its slot, where it does not move, before the kernel gets it.
        let (_, op) = self.slots[slot].insert((token, op));
        let pushed = entry(op).is_some_and(|entry| self.push(&entry.user_data(slot as u64)).is_ok());
        if !pushed {
            self.hand_to_threads(slot);
        }
    }

    fn cancel(&mut self, token: Token) {
        let found =
            self.slots.iter().position(|slot| slot.as_ref().is_some_and(|(running, _)| *running == token));
        match found {
            Some(slot) => {
                let entry = opcode::AsyncCancel::new(slot as u64).build().user_data(SILENT);
                // If the cancellation cannot be submitted, the operation ends by itself.
                let _ = self.push(&entry);
            }
            None => {
                self.threads.cancel(token);
                self.readers.cancel(token);
            }
        }
    }

    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>) {
        let before = ended.len();
        let has_rung = self.reap(ended);
        let mut is_done = ended.len() > before || has_rung || at_most == Some(Duration::ZERO);
        if !is_done {
            self.arm_bell();
            let nothing_ended = |ring: &Self| ring.threads.will_wait() && ring.readers.will_wait();
            is_done = self.on_threads > 0 && !nothing_ended(self);
        }
        self.enter(if is_done { Some(Duration::ZERO) } else { at_most });
        self.reap(ended);
    }

    fn is_kernel(&self) -> bool {
        true
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Ring {
    /// The number of operations that have started and not ended.
    fn running(&self) -> usize {
        self.slots.len() - self.free.len() + self.on_threads
    }

    /// Whether the operation is a long read of cached data, which is a large copy.
    fn is_copied_apart(&mut self, op: &Op) -> bool {
        match op {
            Op::Read { fd, buffer, at: At::Offset(offset) } if buffer.len() >= COPIED_APART => {
                self.cached.has(fd.raw(), *offset, buffer.len())
            }
            _ => false,
        }
    }

    /// Moves an operation that the ring cannot take to the threads.
    fn hand_to_threads(&mut self, slot: usize) {
        if let Some((token, op)) = self.slots[slot].take() {
            self.free.push(slot);
            self.on_threads += 1;
            self.threads.start(token, op);
        }
    }
}

impl Drop for Ring {
    /// Cancels the operations in the kernel, which must not outlive their memory, and waits for them for up to a second. The
    /// memory of those that hang nevertheless is leaked.
    fn drop(&mut self) {
        self.readers.forget_queued();
        let running: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_some()).collect();
        for &slot in &running {
            let entry = opcode::AsyncCancel::new(slot as u64).build().user_data(SILENT);
            let _ = self.push(&entry);
        }
        if self.is_bell_armed {
            self.bell.wake();
        }
        let until = Instant::now() + Duration::from_secs(1);
        let mut ended = Vec::new();
        let runs = |ring: &Self| ring.is_bell_armed || running.iter().any(|slot| ring.slots[*slot].is_some());
        while runs(self) && Instant::now() < until {
            self.enter(Some(Duration::from_millis(10)));
            self.reap(&mut ended);
        }
        self.slots.drain(..).flatten().for_each(std::mem::forget);
        if self.is_bell_armed {
            std::mem::forget(std::mem::replace(&mut self.rung, Box::new([0; 8])));
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// The opcode of an operation; `None`: no kernel has one, or not for these arguments.
fn code(op: &Op) -> Option<u8> {
    let fits = |bytes: u64| u32::try_from(bytes).is_ok();
    let is_absolute =
        |path: &std::ffi::CStr, dir: RawFd| dir == libc::AT_FDCWD || path.to_bytes().starts_with(b"/");
    Some(match op {
        Op::Nop => opcode::Nop::CODE,
        Op::Open { .. } => opcode::OpenAt::CODE,
        Op::Close { .. } => opcode::Close::CODE,
        Op::Read { at, .. }
        | Op::ReadVectors { at, .. }
        | Op::Write { at, .. }
        | Op::WriteVectors { at, .. }
            if matches!(at, At::Offset(offset) if i64::try_from(*offset).is_err()) =>
        {
            // The kernel would read the offset as "current position".
            return None;
        }
        Op::Read { .. } => opcode::Read::CODE,
        Op::Write { .. } => opcode::Write::CODE,
        Op::ReadVectors { .. } => opcode::Readv::CODE,
        Op::WriteVectors { .. } => opcode::Writev::CODE,
        Op::Stat { .. } => opcode::Statx::CODE,
        Op::Sync { .. } => opcode::Fsync::CODE,
        // The ring has only 32 bits for the length.
        Op::SyncRange { bytes, .. } if fits(*bytes) => opcode::SyncFileRange::CODE,
        Op::Advise { bytes, .. } if fits(*bytes) => opcode::Fadvise::CODE,
        // `fallocate` must not shorten a file: see `perform`.
        Op::Allocate { mode, .. } if *mode & libc::FALLOC_FL_COLLAPSE_RANGE != 0 => return None,
        Op::Allocate { .. } => opcode::Fallocate::CODE,
        Op::Truncate { .. } => opcode::Ftruncate::CODE,
        Op::Rename { .. } => opcode::RenameAt::CODE,
        Op::Unlink { .. } => opcode::UnlinkAt::CODE,
        Op::MakeDirectory { .. } => opcode::MkDirAt::CODE,
        Op::Symlink { .. } => opcode::SymlinkAt::CODE,
        Op::Link { .. } => opcode::LinkAt::CODE,
        Op::GetAttribute { place, flags: 0, .. } => match place.is_file() {
            true => opcode::FGetXattr::CODE,
            false if is_absolute(&place.path, place.dir.raw()) => opcode::GetXattr::CODE,
            false => return None,
        },
        Op::SetAttribute { place, flags: 0, .. } => match place.is_file() {
            true => opcode::FSetXattr::CODE,
            false if is_absolute(&place.path, place.dir.raw()) => opcode::SetXattr::CODE,
            false => return None,
        },
        _ => return None,
    })
}

/// Builds the ring entry of an operation that has an opcode.
fn entry(op: &mut Op) -> Option<squeue::Entry> {
    Some(match op {
        Op::Nop => opcode::Nop::new().build(),
        Op::Open { place, flags, mode } => {
            opcode::OpenAt::new(Fd(place.dir.raw()), place.path.as_ptr()).flags(*flags).mode(*mode).build()
        }
        Op::Close { fd } => opcode::Close::new(Fd(*fd)).build(),
        Op::Read { .. } | Op::Write { .. } | Op::ReadVectors { .. } | Op::WriteVectors { .. } => {
            transfer(op)?
        }
        Op::Stat { place, flags, mask, out } => {
            let out = (&raw mut **out).cast();
            let stat = opcode::Statx::new(Fd(place.dir.raw()), place.path.as_ptr(), out);
            stat.flags(*flags | empty(place)).mask(*mask).build()
        }
        Op::Sync { fd, what } => {
            let flags = if *what == Sync::Data { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
            opcode::Fsync::new(Fd(fd.raw())).flags(flags).build()
        }
        Op::SyncRange { fd, offset, bytes, flags } => {
            let bytes = u32::try_from(*bytes).ok()?;
            opcode::SyncFileRange::new(Fd(fd.raw()), bytes).offset(*offset).flags(*flags).build()
        }
        Op::Advise { fd, offset, bytes, advice } => {
            let bytes = i64::try_from(*bytes).ok()?;
            opcode::Fadvise::new(Fd(fd.raw()), bytes, *advice).offset(*offset).build()
        }
        Op::Allocate { fd, mode, offset, bytes } => {
            opcode::Fallocate::new(Fd(fd.raw()), *bytes).offset(*offset).mode(*mode).build()
        }
        Op::Truncate { fd, bytes } => opcode::Ftruncate::new(Fd(fd.raw()), *bytes).build(),
        _ => name(op)?,
    })
}

fn transfer(op: &mut Op) -> Option<squeue::Entry> {
    let place = |at: &At| match at {
        At::Offset(offset) => *offset,
        At::Position => u64::MAX,
    };
    let length = |bytes: usize| bytes.min(TRANSFER_MOST) as u32;
    Some(match op {
        Op::Read { fd, buffer, at } => {
            let bytes = length(buffer.len());
            opcode::Read::new(Fd(fd.raw()), buffer.as_mut_ptr(), bytes).offset(place(at)).build()
        }
        Op::Write { fd, buffer, at } => {
            let bytes = length(buffer.len());
            opcode::Write::new(Fd(fd.raw()), buffer.as_ptr(), bytes).offset(place(at)).build()
        }
        Op::ReadVectors { fd, vectors, at } => {
            let (table, count) = (vectors.table().as_ptr(), u32::try_from(vectors.table().len()).ok()?);
            opcode::Readv::new(Fd(fd.raw()), table, count).offset(place(at)).build()
        }
        Op::WriteVectors { fd, vectors, at } => {
            let (table, count) = (vectors.table().as_ptr(), u32::try_from(vectors.table().len()).ok()?);
            opcode::Writev::new(Fd(fd.raw()), table, count).offset(place(at)).build()
        }
        _ => return None,
    })
}

/// Entries for names and extended attributes.
fn name(op: &mut Op) -> Option<squeue::Entry> {
    Some(match op {
        Op::Rename { from, to, flags } => {
            let (here, there) = (Fd(from.dir.raw()), Fd(to.dir.raw()));
            opcode::RenameAt::new(here, from.path.as_ptr(), there, to.path.as_ptr()).flags(*flags).build()
        }
        Op::Unlink { place, flags } => {
            opcode::UnlinkAt::new(Fd(place.dir.raw()), place.path.as_ptr()).flags(*flags).build()
        }
        Op::MakeDirectory { place, mode } => {
            opcode::MkDirAt::new(Fd(place.dir.raw()), place.path.as_ptr()).mode(*mode).build()
        }
        Op::Symlink { target, place } => {
            opcode::SymlinkAt::new(Fd(place.dir.raw()), target.as_ptr(), place.path.as_ptr()).build()
        }
        Op::Link { from, to, flags } => {
            let (here, there) = (Fd(from.dir.raw()), Fd(to.dir.raw()));
            let link = opcode::LinkAt::new(here, from.path.as_ptr(), there, to.path.as_ptr());
            link.flags(*flags | empty(from)).build()
        }
        Op::GetAttribute { place, name, buffer, .. } => {
            let (name, start) = (name.as_ptr(), buffer.as_mut_ptr().cast());
            let bytes = u32::try_from(buffer.len()).ok()?;
            match place.is_file() {
                true => opcode::FGetXattr::new(Fd(place.dir.raw()), name, start, bytes).build(),
                false => opcode::GetXattr::new(name, start, place.path.as_ptr(), bytes).build(),
            }
        }
        Op::SetAttribute { place, name, value, create, .. } => {
            let (name, start) = (name.as_ptr(), value.as_ptr().cast());
            let bytes = u32::try_from(value.len()).ok()?;
            match place.is_file() {
                true => {
                    opcode::FSetXattr::new(Fd(place.dir.raw()), name, start, bytes).flags(*create).build()
                }
                false => {
                    opcode::SetXattr::new(name, start, place.path.as_ptr(), bytes).flags(*create).build()
                }
            }
        }
        _ => return None,
    })
}
