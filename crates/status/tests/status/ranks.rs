//! Ranks on threads, their mount tables, and a fabric that counts: messages, bytes, and rounds, which are the messages of the longest chain in
//! which each was sent after the one before had come.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use atta_fabric::{Endpoint, FabricError, Received, Wake, in_process};
use atta_mounts::{Host, MountTable, Probes};
use atta_runtime::{Limits, Session, Stop};

/// A host with the addresses of some names, and no other answers.
#[derive(Clone, Debug)]
pub(crate) struct Knows {
    host: Host,
    addresses: BTreeMap<Vec<u8>, Vec<IpAddr>>,
}

impl Knows {
    /// Hosts of one number share a kernel.
    pub(crate) fn on(host: u32) -> Self {
        let (boot, name) = (format!("boot-{host}"), format!("node{host}"));
        Self { host: Host::new(boot.as_bytes(), name.as_bytes()), addresses: BTreeMap::new() }
    }

    pub(crate) fn address(mut self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|each| each.parse().unwrap()).collect();
        self.addresses.insert(name.as_bytes().to_vec(), addresses);
        self
    }

    /// A local root, and mounts on it: each line without its first two fields.
    pub(crate) fn table(&self, lines: &[&str]) -> MountTable {
        let root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n".to_owned();
        let numbered = (2..).zip(lines).map(|(id, line)| format!("{id} 1 {line}\n"));
        let text: String = std::iter::once(root).chain(numbered).collect();
        MountTable::from_bytes(text.as_bytes(), self).unwrap()
    }
}

/// The table of a host with one mount at `/m`.
pub(crate) fn mounted(host: u32, what: &str) -> MountTable {
    Knows::on(host).table(&[&format!("0:40 / /m rw - {what}")])
}

impl Probes for Knows {
    fn host(&self) -> Host {
        self.host.clone()
    }

    fn addresses(&self, server: &[u8]) -> Vec<IpAddr> {
        self.addresses.get(server).cloned().unwrap_or_default()
    }
}

/// Runs something on a session of each rank, and returns the results in order of rank.
pub(crate) fn on_endpoints<E: Endpoint, T: Send>(
    endpoints: Vec<E>,
    run: impl Fn(u32, &mut Session<'_>) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let run = &run;
        let one = |(rank, mut endpoint): (u32, E)| {
            scope.spawn(move || {
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                    let mut session = joined.unwrap().unwrap();
                    let value = run(rank, &mut session);
                    session.close((), |(), ()| ()).unwrap();
                    value
                }));
                // The others would wait for a rank that has failed.
                let value = ended.unwrap_or_else(|panic| {
                    endpoint.abort(4);
                    std::panic::resume_unwind(panic)
                });
                Box::new(endpoint).leave().unwrap();
                value
            })
        };
        let threads: Vec<_> = (0..).zip(endpoints).map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The same on so many ranks within this process.
pub(crate) fn on_ranks<T: Send>(ranks: u32, run: impl Fn(u32, &mut Session<'_>) -> T + Sync) -> Vec<T> {
    on_endpoints(in_process(ranks), run)
}

/// What went between ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) longest: usize,
    pub(crate) rounds: u32,
}

#[derive(Debug, Default)]
struct Counts {
    messages: AtomicU64,
    bytes: AtomicU64,
    longest: AtomicUsize,
    rounds: AtomicU32,
}

/// An endpoint whose messages begin with the length of the chain that led to them.
struct Counting<E> {
    inner: E,
    chain: Arc<AtomicU32>,
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
        let chain = self.chain.load(Ordering::SeqCst) + 1;
        self.counts.messages.fetch_add(1, Ordering::SeqCst);
        self.counts.bytes.fetch_add(message.len() as u64, Ordering::SeqCst);
        self.counts.longest.fetch_max(message.len(), Ordering::SeqCst);
        self.counts.rounds.fetch_max(chain, Ordering::SeqCst);
        self.inner.send(to, [&chain.to_le_bytes()[..], &message].concat())
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        let Some(Received { from, message }) = self.inner.receive()? else { return Ok(None) };
        let (chain, message) = message.split_first_chunk::<4>().unwrap();
        self.chain.fetch_max(u32::from_le_bytes(*chain), Ordering::SeqCst);
        Ok(Some(Received { from, message: message.to_vec() }))
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

/// Runs something on each rank, and then something else whose traffic is counted. What the first returns goes to the second.
pub(crate) fn counted<P, T: Send>(
    ranks: u32,
    prepare: impl Fn(u32, &mut Session<'_>) -> P + Sync,
    run: impl Fn(P, &mut Session<'_>) -> T + Sync,
) -> (Vec<T>, Traffic) {
    let (counts, barrier) = (Arc::new(Counts::default()), Barrier::new(ranks as usize));
    let chains: Vec<_> = (0..ranks).map(|_| Arc::new(AtomicU32::new(0))).collect();
    let counting = |(inner, chain): (_, &Arc<AtomicU32>)| Counting {
        inner,
        chain: Arc::clone(chain),
        counts: Arc::clone(&counts),
    };
    let endpoints = in_process(ranks).into_iter().zip(&chains).map(counting).collect();
    let traffic = std::sync::Mutex::new(Traffic::default());
    let values = on_endpoints(endpoints, |rank, session| {
        let prepared = prepare(rank, session);
        // Nothing is under way: each rank has all that it was sent.
        barrier.wait();
        chains[rank as usize].store(0, Ordering::SeqCst);
        if rank == 0 {
            counts.messages.store(0, Ordering::SeqCst);
            counts.bytes.store(0, Ordering::SeqCst);
            counts.longest.store(0, Ordering::SeqCst);
            counts.rounds.store(0, Ordering::SeqCst);
        }
        barrier.wait();
        let value = run(prepared, session);
        barrier.wait();
        if rank == 0 {
            *traffic.lock().unwrap() = Traffic {
                messages: counts.messages.load(Ordering::SeqCst),
                bytes: counts.bytes.load(Ordering::SeqCst),
                longest: counts.longest.load(Ordering::SeqCst),
                rounds: counts.rounds.load(Ordering::SeqCst),
            };
        }
        barrier.wait();
        value
    });
    (values, traffic.into_inner().unwrap())
}
