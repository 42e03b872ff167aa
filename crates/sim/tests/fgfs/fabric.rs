//! What the model sends, beside what real sessions send: the same messages and bytes. Times are not compared: sessions poll before they send, so
//! that the clock of the simulated fabric may move too early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use atta_fabric::{Endpoint, FabricError, Received, Wake, in_process};
use atta_runtime::{Limits, Session, Stop};
use atta_sim::RankTree;
use atta_status::{Options, Status};

use crate::ranks::{Asked, Job, RANKS_PER_HOST, ask, cluster, table};

const RANKS: u32 = 100;

/// Messages and bytes of all ranks.
#[derive(Debug, Default)]
struct Counts {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    fn now(&self) -> (u64, u64) {
        (self.messages.load(Ordering::SeqCst), self.bytes.load(Ordering::SeqCst))
    }
}

struct Counting<E> {
    inner: E,
    counts: Arc<Counts>,
}

impl<E: Endpoint> Endpoint for Counting<E> {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn neighbours(&self) -> &[u32] {
        self.inner.neighbours()
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        self.counts.messages.fetch_add(1, Ordering::SeqCst);
        self.counts.bytes.fetch_add(message.len() as u64, Ordering::SeqCst);
        self.inner.send(to, message)
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        self.inner.receive()
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.inner.on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.inner.unsent()
    }

    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Box::new(self.inner).leave()
    }

    fn abort(&mut self, exit_code: i32) {
        self.inner.abort(exit_code);
    }
}

/// Fewer classes than are listed, or more.
fn mount(rank: u32, classes: u32) -> String {
    cluster(rank % classes)
}

/// What sessions send for a question.
fn of_sessions(classes: u32) -> (u64, u64) {
    let (counts, barrier) = (Arc::new(Counts::default()), Barrier::new(RANKS as usize));
    std::thread::scope(|scope| {
        let rank = |(rank, inner): (u32, _)| {
            let mut endpoint = Counting { inner, counts: Arc::clone(&counts) };
            let (counts, barrier) = (&counts, &barrier);
            scope.spawn(move || {
                let mounts = format!("2 1 0:40 / /m rw - {}\n", mount(rank, classes));
                let table = table(rank / RANKS_PER_HOST, &mounts);
                let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                let mut session = joined.unwrap().unwrap();
                let status = Status::join(&mut session, &table, Options::default()).unwrap();
                barrier.wait();
                let before = counts.now();
                barrier.wait();
                status.distribution(&mut session, b"/m/f").unwrap();
                barrier.wait();
                let after = counts.now();
                barrier.wait();
                session.close((), |(), ()| ()).unwrap();
                Box::new(endpoint).leave().unwrap();
                (after.0 - before.0, after.1 - before.1)
            })
        };
        let threads: Vec<_> = (0..).zip(in_process(RANKS)).map(rank).collect();
        // All of them have the same.
        threads.into_iter().map(|thread| thread.join().unwrap()).next().unwrap()
    })
}

fn of_model(classes: u32) -> Asked<()> {
    ask(Job::mpi(RANKS, RankTree::SESSION), &|rank| mount(rank, classes), |status, seat| {
        status.distribution(seat, b"/m/f").map(|_| ())
    })
}

#[test]
fn model_sends_what_sessions_send() {
    for classes in [1, 5, 70] {
        let model = of_model(classes).traffic;
        assert_eq!(of_sessions(classes), (model.messages, model.bytes), "{classes}");
    }
}
