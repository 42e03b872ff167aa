//! One face for all who move bytes: submit a transfer, wait for the oldest. How each does it, is here or in a module of its
//! own; what is measured, is the cases' business.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::{At, Backend, Call, Done, Fd, Limits, Op, Options, Pending, Proactor, Service, Terms, Work};

use super::BenchResult;
use super::block_on::block_on;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the file.
    Read,
    /// Into the file, over what is there.
    Write,
}

impl Direction {
    /// Both.
    pub(crate) const BOTH: [Self; 2] = [Self::Read, Self::Write];

    /// The word in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One block of a file, and the memory for it.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// The file.
    pub(crate) file: Arc<File>,
    /// Which way.
    pub(crate) direction: Direction,
    /// Where in the file.
    pub(crate) offset: u64,
    /// As long as the block.
    pub(crate) buffer: Vec<u8>,
}

impl Transfer {
    /// The buffer, if all of it was moved.
    pub(crate) fn ended(self, moved: BenchResult<u64>) -> BenchResult<Vec<u8>> {
        all_moved(moved, self.buffer)
    }

    fn op(self) -> Op {
        let fd = Fd::Raw(self.file.as_raw_fd());
        let (buffer, at) = (self.buffer.into(), At::Offset(self.offset));
        match self.direction {
            Direction::Read => Op::Read { fd, buffer, at },
            Direction::Write => Op::Write { fd, buffer, at },
        }
    }

    /// Submits it with a continuation, on the executor of the service.
    pub(crate) fn submit_then(
        self,
        service: &Service,
        then: impl FnOnce(BenchResult<Vec<u8>>) + Send + 'static,
    ) -> BenchResult<()> {
        let submitted = service.submit_then(self.op(), Call::default(), move |done| then(outcome_of(done)));
        submitted.map_err(|refused| format!("refused: {:?}", refused.errno()))
    }

    /// Moves the bytes by one plain call.
    pub(crate) fn perform(mut self) -> BenchResult<Vec<u8>> {
        let moved = match self.direction {
            Direction::Read => self.file.read_at(&mut self.buffer, self.offset),
            Direction::Write => self.file.write_at(&self.buffer, self.offset),
        };
        self.ended(moved.map(|moved| moved as u64).map_err(|error| error.to_string()))
    }
}

fn all_moved(moved: BenchResult<u64>, buffer: Vec<u8>) -> BenchResult<Vec<u8>> {
    match moved? {
        moved if moved == buffer.len() as u64 => Ok(buffer),
        moved => Err(format!("{moved} bytes of {} were moved", buffer.len())),
    }
}

fn outcome_of(done: Done) -> BenchResult<Vec<u8>> {
    let (outcome, buffer) = done.into_buffer();
    all_moved(outcome.map_err(|errno| format!("{errno:?}")), buffer.into_vec())
}

/// Somebody who moves bytes. The file must stay open until the transfer has ended: the caller keeps it.
pub(crate) trait Port {
    /// Begins a transfer, or puts it in a queue.
    ///
    /// # Errors
    ///
    /// It could not.
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()>;

    /// Waits for a transfer, and gives its buffer.
    ///
    /// # Errors
    ///
    /// It failed.
    fn wait(&mut self) -> BenchResult<Vec<u8>>;
}

/// Plain calls: all is done when `submit` returns.
#[derive(Default)]
pub(crate) struct Plain(VecDeque<Vec<u8>>);

impl Port for Plain {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        self.0.push_back(transfer.perform()?);
        Ok(())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        self.0.pop_front().ok_or_else(|| "nothing runs".to_owned())
    }
}

/// Longer than any transfer.
const FOREVER: Duration = Duration::from_secs(3600);

/// How results of a service are waited for.
#[derive(Clone, Copy)]
enum Wait {
    /// As futures.
    Future,
    /// By [`Pending::wait`]: the waiter carries out an operation that has not been started.
    Helping,
    /// By [`Pending::wait_timeout`], which leaves all to the service.
    Leaving,
}

/// A service, with the way that results are waited for.
pub(crate) struct ServicePort {
    service: Arc<Service>,
    pending: VecDeque<Pending>,
    wait: Wait,
}

impl ServicePort {
    fn new(service: &Arc<Service>, wait: Wait) -> Self {
        Self { service: Arc::clone(service), pending: VecDeque::new(), wait }
    }

    /// Results are futures.
    pub(crate) fn futures(service: &Arc<Service>) -> Self {
        Self::new(service, Wait::Future)
    }

    /// Results are waited for by [`Pending::wait`].
    pub(crate) fn helping(service: &Arc<Service>) -> Self {
        Self::new(service, Wait::Helping)
    }

    /// Results are waited for, and the service carries everything out.
    pub(crate) fn leaving(service: &Arc<Service>) -> Self {
        Self::new(service, Wait::Leaving)
    }
}

impl Port for ServicePort {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        let pending = self.service.submit(transfer.op(), Call::default());
        self.pending.push_back(pending.map_err(|refused| format!("refused: {:?}", refused.errno()))?);
        Ok(())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        let pending = self.pending.pop_front().ok_or("nothing runs")?;
        outcome_of(match self.wait {
            Wait::Future => block_on(pending),
            Wait::Helping => pending.wait(),
            Wait::Leaving => pending.wait_timeout(FOREVER).map_err(|_| "a transfer hangs")?,
        })
    }
}

/// A service with continuations, on its executor or on its progress thread.
pub(crate) struct ThenPort {
    service: Arc<Service>,
    is_inline: bool,
    sender: Sender<BenchResult<Vec<u8>>>,
    receiver: Receiver<BenchResult<Vec<u8>>>,
}

impl ThenPort {
    /// Continuations that send the buffer back.
    pub(crate) fn new(service: &Arc<Service>, is_inline: bool) -> Self {
        let (sender, receiver) = channel();
        Self { service: Arc::clone(service), is_inline, sender, receiver }
    }
}

impl Port for ThenPort {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        let sender = self.sender.clone();
        // The receiver is gone only when nobody asks any more.
        let then = move |done| drop(sender.send(outcome_of(done)));
        let submitted = match self.is_inline {
            true => self.service.submit_inline(transfer.op(), Call::default(), then),
            false => self.service.submit_then(transfer.op(), Call::default(), then),
        };
        submitted.map_err(|refused| format!("refused: {:?}", refused.errno()))
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        self.receiver.recv().map_err(|error| error.to_string())?
    }
}

/// A proactor of this thread's own.
pub(crate) struct ProactorPort {
    proactor: Proactor<Ring, ()>,
    ended: VecDeque<BenchResult<Vec<u8>>>,
    /// Whether each submission goes to the kernel at once.
    is_eager: bool,
}

impl ProactorPort {
    /// On a ring.
    ///
    /// # Errors
    ///
    /// The kernel has no rings.
    pub(crate) fn new(is_eager: bool) -> BenchResult<Self> {
        let ring = Ring::new(&RingOptions::default()).map_err(|error| format!("io_uring: {error}"))?;
        Ok(Self { proactor: Proactor::new(ring, Limits::default()), ended: VecDeque::new(), is_eager })
    }

    fn advance(&mut self, at_most: Option<Duration>) {
        self.proactor.advance(at_most, |(), done| self.ended.push_back(outcome_of(done)));
    }
}

impl Port for ProactorPort {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        let work = Work::from(transfer.op());
        self.proactor.submit(work, Terms::default(), ()).map_err(|_| "refused".to_owned())?;
        if self.is_eager {
            self.advance(Some(Duration::ZERO));
        }
        Ok(())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return ended;
            }
            self.advance(None);
        }
    }
}

/// tokio: plain calls on its threads for what blocks, as its `fs` module does it.
pub(crate) struct Tokio {
    runtime: Arc<tokio::runtime::Runtime>,
    running: VecDeque<tokio::task::JoinHandle<BenchResult<Vec<u8>>>>,
}

impl Tokio {
    /// On a runtime.
    pub(crate) fn new(runtime: &Arc<tokio::runtime::Runtime>) -> Self {
        Self { runtime: Arc::clone(runtime), running: VecDeque::new() }
    }
}

impl Port for Tokio {
    fn submit(&mut self, transfer: Transfer) -> BenchResult<()> {
        self.running.push_back(self.runtime.spawn_blocking(move || transfer.perform()));
        Ok(())
    }

    fn wait(&mut self) -> BenchResult<Vec<u8>> {
        let running = self.running.pop_front().ok_or("nothing runs")?;
        self.runtime.block_on(running).map_err(|error| error.to_string())?
    }
}

/// A runtime with as many workers as there are cores, and tokio's own bound on threads that block.
///
/// # Errors
///
/// Threads run out.
pub(crate) fn tokio_runtime() -> BenchResult<Arc<tokio::runtime::Runtime>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build();
    runtime.map(Arc::new).map_err(|error| format!("tokio: {error}"))
}

/// A service on the ring, or on so many threads.
///
/// # Errors
///
/// There is no ring, or threads run out.
pub(crate) fn service(
    threads: Option<usize>,
    change: impl FnOnce(&mut Options),
) -> BenchResult<Arc<Service>> {
    let backend = match threads {
        Some(threads) => Backend::Threads(threads),
        None => Backend::Best(RingOptions::default()),
    };
    let mut options = Options { backend, ..Options::default() };
    change(&mut options);
    Service::new(&options).map(Arc::new).map_err(|error| format!("service: {error}"))
}

/// Threads that each take the next block and move it by plain calls; `give_back` gets its buffer.
///
/// # Errors
///
/// A transfer failed.
pub(crate) fn by_threads(
    threads: usize,
    transfers: &[Mutex<Option<Transfer>>],
    give_back: impl Fn(Vec<u8>) + Sync,
) -> BenchResult<()> {
    let next = AtomicUsize::new(0);
    let work = || -> BenchResult<()> {
        while let Some(slot) = transfers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let transfer = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            give_back(transfer.ok_or("a block was taken twice")?.perform()?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })
}
