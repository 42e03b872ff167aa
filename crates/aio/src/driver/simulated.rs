//! A driver over an in-memory file system with its own clock, for tests. A seed alone determines what happens, and when.
//!
//! Operations take time, fall short, fail, hang, and win or lose the race with a cancellation, as its options define. It never
//! sleeps, starts no threads and makes no system calls. An operation takes effect at the moment when it ends.
//!
//! Every caller is root: modes are stored and returned, and forbid nothing.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atta_entry::Errno;

use self::files::Files;
use self::random::Random;
use super::{Close, Driver, Ended, Token, Wake};
use crate::{Op, Outcome};

mod attributes;
mod carry;
mod crash;
mod data;
mod files;
mod names;
mod paths;
mod random;

/// The effect of a fault on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It fails without an effect, except that a close closes the descriptor, as on Linux.
    Fails(Errno),
    /// It fails after it has taken effect.
    FailsAfter(Errno),
    /// It never ends, unless it is cancelled.
    Hangs,
    /// It never ends, even if it is cancelled.
    HangsForGood,
}

/// A fault that occurs at random.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The operations that it may hit, by their [names](Op::name); empty: all.
    pub names: Vec<&'static str>,
    /// The number of operations that it hits, out of 1000.
    pub per_mille: u32,
    /// The effect on these operations.
    pub kind: FaultKind,
}

/// The behaviour of a simulated file system.
#[derive(Clone, Debug)]
pub struct SimulatedOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// The shortest and the longest duration of an operation.
    pub latency: [Duration; 2],
    /// The number of reads, writes and copies, out of 1000, that move fewer bytes than possible.
    pub short_per_mille: u32,
    /// The number of cancellations, out of 1000, that are in time.
    pub cancelled_per_mille: u32,
    /// The faults; the first that hits an operation counts.
    pub faults: Vec<Fault>,
    /// The maximum number of data bytes in all files; holes count.
    pub room: u64,
    /// The maximum size of a file (`EFBIG`); files are in memory.
    pub file_bytes_most: u64,
    /// The preferred number of concurrent operations.
    pub depth: usize,
}

impl Default for SimulatedOptions {
    /// No faults.
    fn default() -> Self {
        Self {
            seed: 0,
            latency: [Duration::from_micros(10), Duration::from_micros(200)],
            short_per_mille: 0,
            cancelled_per_mille: 500,
            faults: Vec::new(),
            room: 1 << 30,
            file_bytes_most: 1 << 30,
            depth: 64,
        }
    }
}

/// The end of an operation: its time, then a random number that orders operations with the same time.
type When = (Duration, u64, Token);

/// An operation that has started.
struct Running {
    op: Box<Op>,
    /// `None`: it never ends.
    when: Option<When>,
    fate: Fate,
}

/// How an operation will end.
#[derive(Clone, Copy)]
enum Fate {
    /// By itself, after it moved at most this many bytes.
    Ends(usize),
    Faulty(FaultKind),
    Cancelled,
}

/// See the head of this file.
pub struct Simulated {
    options: SimulatedOptions,
    files: Files,
    random: Random,
    running: HashMap<Token, Running>,
    queue: BTreeMap<When, Token>,
    bell: Arc<Bell>,
    orphans: Arc<Orphans>,
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Descriptors that were opened and not taken.
#[derive(Default)]
struct Orphans(Mutex<Vec<RawFd>>);

impl Close for Orphans {
    fn close(&self, fd: RawFd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fd);
    }
}

impl Simulated {
    /// An empty file system, with a root directory that is also the working directory.
    #[must_use]
    pub fn new(options: SimulatedOptions) -> Self {
        let files = Files::new(options.room, options.file_bytes_most);
        Self::with_files(options, files)
    }

    fn with_files(options: SimulatedOptions, files: Files) -> Self {
        let random = Random::new(options.seed);
        Self {
            options,
            files,
            random,
            running: HashMap::new(),
            queue: BTreeMap::new(),
            bell: Arc::new(Bell(AtomicBool::new(false))),
            orphans: Arc::default(),
        }
    }

    /// Returns the state after a loss of power, on a machine that has started again.
    ///
    /// Data that was not synced by [`Op::Sync`] is lost, or there in part: each block of 4 KiB is old or new. Names whose
    /// directory was not synced are in their old state. Nothing is open, and nothing runs. This file system continues
    /// undisturbed.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let files = self.files.crash(&mut Random::new(seed));
        Self::with_files(SimulatedOptions { seed, ..self.options.clone() }, files)
    }

    /// Creates a directory that is a file system of its own, in the root directory.
    ///
    /// # Errors
    /// The name is taken, or is invalid.
    pub fn mount(&mut self, name: &str) -> Result<(), Errno> {
        self.files.mount(name.as_bytes())
    }

    /// Sets new options and their seed; started operations keep their fate. The maximum number of data bytes stays as it was.
    pub fn set_options(&mut self, options: SimulatedOptions) {
        self.random = Random::new(options.seed);
        self.options = options;
    }

    /// Removes all faults, except those of started operations.
    pub fn heal(&mut self) {
        self.options.faults.clear();
        self.options.short_per_mille = 0;
    }

    /// The number of open descriptors.
    #[must_use]
    pub fn open_descriptors(&self) -> usize {
        self.files.descriptors() - self.orphans.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The number of operations that have started and not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    fn close_orphans(&mut self) {
        let orphans = std::mem::take(&mut *self.orphans.0.lock().unwrap_or_else(PoisonError::into_inner));
        for fd in orphans {
            // It is open: nothing else had its number.
            let _ = self.files.close(fd);
        }
    }

    /// Chooses how an operation will end.
    fn fate(&mut self, op: &Op) -> Fate {
        let name = op.name();
        for fault in &self.options.faults {
            let is_meant = fault.names.is_empty() || fault.names.contains(&name);
            if is_meant && self.random.hits(fault.per_mille) {
                return Fate::Faulty(fault.kind);
            }
        }
        let bytes = data::bytes(op);
        if bytes > 1 && self.random.hits(self.options.short_per_mille) {
            return Fate::Ends(1 + self.random.below(bytes as u64 - 1) as usize);
        }
        Fate::Ends(usize::MAX)
    }

    /// Chooses the time when an operation ends.
    fn later(&mut self, token: Token) -> When {
        let [least, most] = self.options.latency;
        let spread = most.saturating_sub(least).as_nanos() as u64;
        let latency = least + Duration::from_nanos(self.random.below(spread.saturating_add(1)));
        (self.files.now + latency, self.random.draw(), token)
    }

    fn end(&mut self, op: &mut Op, fate: Fate) -> Outcome {
        match fate {
            Fate::Ends(most) => self.files.carry(op, most),
            Fate::Cancelled => Err(Errno(libc::ECANCELED)),
            Fate::Faulty(FaultKind::Fails(errno)) => {
                if let Op::Close { fd } = op {
                    self.files.close(*fd)?;
                }
                Err(errno)
            }
            Fate::Faulty(FaultKind::FailsAfter(errno)) => {
                let outcome = self.files.carry(op, usize::MAX)?;
                if let Op::Open { .. } = op {
                    self.files.close(outcome as RawFd)?;
                }
                Err(errno)
            }
            // Cancelled operations have another fate, and others never end.
            Fate::Faulty(FaultKind::Hangs | FaultKind::HangsForGood) => Err(Errno::IO),
        }
    }

    /// Ends operations that are due.
    fn reap(&mut self, ended: &mut Vec<Ended>) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > self.files.now {
                return;
            }
            let token = entry.remove();
            let Some(Running { mut op, fate, .. }) = self.running.remove(&token) else { continue };
            let outcome = self.end(&mut op, fate);
            ended.push(Ended::with_closer(token, op, outcome, self.closer()));
        }
    }
}

impl Driver for Simulated {
    fn start(&mut self, token: Token, op: Box<Op>) {
        self.close_orphans();
        let fate = self.fate(&op);
        let hangs = matches!(fate, Fate::Faulty(FaultKind::Hangs | FaultKind::HangsForGood));
        let when = if hangs { None } else { Some(self.later(token)) };
        if let Some(when) = when {
            self.queue.insert(when, token);
        }
        self.running.insert(token, Running { op, when, fate });
    }

    fn cancel(&mut self, token: Token) {
        let when = self.later(token);
        let is_in_time = self.random.hits(self.options.cancelled_per_mille);
        let Some(running) = self.running.get_mut(&token) else { return };
        match running.fate {
            Fate::Faulty(FaultKind::HangsForGood) | Fate::Cancelled => return,
            Fate::Faulty(FaultKind::Hangs) => {}
            _ if !is_in_time => return,
            _ => {}
        }
        running.fate = Fate::Cancelled;
        if let Some(old) = running.when.replace(when) {
            self.queue.remove(&old);
        }
        self.queue.insert(when, token);
    }

    /// Moves the clock to the next end instead of sleeping. Without a next end, it moves the clock by `at_most`, or returns as
    /// after a wake-up.
    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>) {
        self.close_orphans();
        let is_woken = self.bell.0.swap(false, Ordering::Relaxed);
        let next = self.queue.first_key_value().map(|((at, ..), _)| *at);
        if !is_woken {
            let until = at_most.map(|at_most| self.files.now + at_most);
            let to = match (next, until) {
                (Some(next), Some(until)) => next.min(until),
                (next, until) => next.or(until).unwrap_or(self.files.now),
            };
            self.files.now = self.files.now.max(to);
        }
        self.reap(ended);
    }

    fn is_kernel(&self) -> bool {
        false
    }

    fn depth(&self) -> usize {
        self.options.depth
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::clone(&self.bell) as Arc<dyn Wake>
    }

    fn now(&self) -> Duration {
        self.files.now
    }

    fn closer(&self) -> Option<Arc<dyn Close>> {
        Some(Arc::clone(&self.orphans) as Arc<dyn Close>)
    }
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulated")
            .field("seed", &self.options.seed)
            .field("now", &self.files.now)
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}
