//! Ranks within one process: each has an inbox, a channel that all others send into. A message is moved, not copied. This
//! module starts no threads: for concurrent ranks, the caller moves each endpoint to a thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};

use crate::{Endpoint, FabricError, Received, Wake};

/// State shared by all ranks. It grows with the number of ranks; the state of each rank does not.
struct Shared {
    inboxes: Vec<Inbox>,
    /// 0 while the job runs. 1 after a rank aborted; the exit code is set before.
    aborted: AtomicU32,
    exit_code: AtomicI32,
    /// A rank that is dropped and has not left is dead, and the others go on.
    survives: bool,
    /// The dead, in the order in which they died.
    dead: RwLock<Vec<u32>>,
}

/// The sending side of a rank's channel.
struct Inbox {
    sender: Sender<Received>,
    wake: RwLock<Option<Wake>>,
}

impl Inbox {
    /// Notifies the rank of a possible arrival. The lock is not held during the callback, which may send.
    fn wake(&self) {
        let wake = self.wake.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

impl Shared {
    fn is_dead(&self, rank: u32) -> bool {
        self.dead.read().unwrap_or_else(PoisonError::into_inner).contains(&rank)
    }

    fn running(&self) -> Result<(), FabricError> {
        match self.aborted.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(FabricError::Aborted { exit_code: self.exit_code.load(Ordering::Relaxed) }),
        }
    }
}

/// One rank of several within a process. See [`in_process`].
///
/// A message to a rank whose endpoint was dropped or has left fails with [`FabricError::Gone`]: within a process this is
/// certain, and a message after the end is an error in the agreement to end. Arrivals cause callbacks. Every message has gone
/// as soon as it is sent, so [`unsent`](Endpoint::unsent) is always zero.
pub struct InProcess {
    rank: u32,
    neighbours: Arc<[u32]>,
    inbox: Receiver<Received>,
    shared: Arc<Shared>,
    has_left: bool,
    /// So many of the dead were reported.
    reported: usize,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InProcess(rank {} of {})", self.rank, self.size())
    }
}

/// Endpoints of `size` ranks on one host, by rank.
#[must_use]
pub fn in_process(size: u32) -> Vec<InProcess> {
    in_process_on_hosts(&vec![0; size as usize])
}

/// The same, of ranks that may die: one that is dropped and has not left is [lost](Endpoint::lost), and the others go on.
#[must_use]
pub fn in_process_mortal(size: u32) -> Vec<InProcess> {
    endpoints(&vec![0; size as usize], true)
}

/// Endpoints of one rank per element of the argument, by rank. Ranks with equal numbers share a host.
///
/// # Panics
/// If there are 2^32 ranks or more.
#[must_use]
pub fn in_process_on_hosts(hosts: &[u32]) -> Vec<InProcess> {
    endpoints(hosts, false)
}

fn endpoints(hosts: &[u32], survives: bool) -> Vec<InProcess> {
    assert!(u32::try_from(hosts.len()).is_ok(), "a rank is a number of 32 bits");
    let mut by_host: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, host) in (0u32..).zip(hosts) {
        by_host.entry(*host).or_default().push(rank);
    }
    let by_host: BTreeMap<u32, Arc<[u32]>> =
        by_host.into_iter().map(|(host, ranks)| (host, ranks.into())).collect();

    let (inboxes, receivers): (Vec<_>, Vec<_>) = hosts
        .iter()
        .map(|_| {
            let (sender, receiver) = channel();
            (Inbox { sender, wake: RwLock::new(None) }, receiver)
        })
        .unzip();
    let (aborted, exit_code) = (AtomicU32::new(0), AtomicI32::new(0));
    let shared = Arc::new(Shared { inboxes, aborted, exit_code, survives, dead: RwLock::default() });
    let ranks = (0u32..).zip(hosts).zip(receivers);
    ranks
        .map(|((rank, host), inbox)| InProcess {
            rank,
            neighbours: Arc::clone(&by_host[host]),
            inbox,
            shared: Arc::clone(&shared),
            has_left: false,
            reported: 0,
        })
        .collect()
}

impl Endpoint for InProcess {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        // Checked when the ranks were made.
        self.shared.inboxes.len() as u32
    }

    fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        self.shared.running()?;
        let inbox = self
            .shared
            .inboxes
            .get(to as usize)
            .ok_or(FabricError::NoSuchRank { rank: to, size: self.size() })?;
        let received = Received { from: self.rank, message };
        match inbox.sender.send(received) {
            Ok(()) => inbox.wake(),
            Err(_) if self.shared.is_dead(to) => {}
            Err(_) => return Err(FabricError::Gone { rank: to }),
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        self.shared.running()?;
        // All senders live as long as `shared` does: an error means empty.
        Ok(self.inbox.try_recv().ok())
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        let place = &self.shared.inboxes[self.rank as usize].wake;
        *place.write().unwrap_or_else(PoisonError::into_inner) = Some(wake);
        true
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.shared.running()?;
        Ok(0)
    }

    fn survives(&self) -> bool {
        self.shared.survives
    }

    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        let dead = self.shared.dead.read().unwrap_or_else(PoisonError::into_inner);
        let mut new = dead[self.reported..].to_vec();
        self.reported = dead.len();
        new.sort_unstable();
        Ok(new)
    }

    fn leave(mut self: Box<Self>) -> Result<(), FabricError> {
        self.has_left = true;
        self.shared.running()
    }

    fn abort(&mut self, exit_code: i32) {
        // If two ranks abort at once, either code may win. The code must be set before the flag.
        self.shared.exit_code.store(exit_code, Ordering::Relaxed);
        self.shared.aborted.store(1, Ordering::Release);
        self.shared.inboxes.iter().for_each(Inbox::wake);
    }
}

impl Drop for InProcess {
    /// Drops the callback of a rank that has left: it may hold the rank's own state, and must not be called any more. Reports a death.
    fn drop(&mut self) {
        let place = &self.shared.inboxes[self.rank as usize].wake;
        *place.write().unwrap_or_else(PoisonError::into_inner) = None;
        if self.shared.survives && !self.has_left {
            self.shared.dead.write().unwrap_or_else(PoisonError::into_inner).push(self.rank);
            self.shared.inboxes.iter().for_each(Inbox::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::conformance;

    /// Runs the conformance test on one thread per rank and checks every result.
    fn conform<E: Endpoint>(endpoints: Vec<E>) {
        std::thread::scope(|scope| {
            let ranks: Vec<_> = endpoints
                .into_iter()
                .map(|mut endpoint| {
                    scope.spawn(move || {
                        conformance(&mut endpoint)?;
                        Box::new(endpoint).leave().map_err(|error| error.to_string())
                    })
                })
                .collect();
            for rank in ranks {
                assert_eq!(rank.join().unwrap(), Ok(()));
            }
        });
    }

    #[test]
    fn one_to_five_ranks_conform() {
        for size in 1..=5 {
            conform(in_process(size));
        }
    }

    #[test]
    fn ranks_of_several_hosts_conform_in_slow_order() {
        let ranks = in_process_on_hosts(&[7, 3, 7, 3]);
        let boxed = ranks.into_iter().map(|rank| crate::Counted::new(Box::new(rank) as Box<dyn Endpoint>));
        conform(boxed.collect());
    }

    #[test]
    fn neighbours_are_the_ranks_of_one_host() {
        let ranks = in_process_on_hosts(&[7, 3, 7]);
        assert_eq!(ranks[0].neighbours(), [0, 2]);
        assert_eq!(ranks[1].neighbours(), [1]);
        assert_eq!(ranks[2].neighbours(), [0, 2]);
        assert!(in_process(0).is_empty());
    }

    #[test]
    fn sending_to_nobody_fails_and_does_no_harm() {
        let mut ranks = in_process(2);
        let error = ranks[0].send(2, vec![1]).unwrap_err();
        assert_eq!(error, FabricError::NoSuchRank { rank: 2, size: 2 });
        drop(ranks.pop());
        let mut left = ranks.pop().unwrap();
        assert_eq!(left.send(1, vec![1]), Err(FabricError::Gone { rank: 1 }));
        left.send(0, vec![5]).unwrap();
        assert_eq!(left.receive().unwrap(), Some(Received { from: 0, message: vec![5] }));
    }

    #[test]
    fn what_a_rank_sent_before_it_left_arrives() {
        let mut ranks = in_process(2);
        ranks[0].send(1, vec![1, 2]).unwrap();
        let mut other = ranks.pop().unwrap();
        Box::new(ranks.pop().unwrap()).leave().unwrap();
        assert_eq!(other.receive().unwrap(), Some(Received { from: 0, message: vec![1, 2] }));
    }

    #[test]
    fn every_message_is_reported_by_the_latest_callback() {
        let mut ranks = in_process(2);
        let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        for count in &counts {
            let count = Arc::clone(count);
            let wake: Wake = Arc::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert!(ranks[1].on_arrival(wake));
        }
        for to in [1, 1, 0] {
            ranks[0].send(to, vec![]).unwrap();
        }
        let calls = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(calls, [0, 2]);
        drop(ranks);
        assert_eq!(Arc::strong_count(&counts[1]), 1, "the rank dropped its callback");
    }

    #[test]
    fn abort_reaches_all_ranks_and_wakes_them() {
        let mut ranks = in_process(3);
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        ranks[2].on_arrival(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        ranks[0].send(1, vec![1]).unwrap();
        ranks[1].abort(9);
        let aborted = FabricError::Aborted { exit_code: 9 };
        assert_eq!(ranks[2].receive(), Err(aborted.clone()));
        assert_eq!(ranks[0].send(1, vec![]), Err(aborted.clone()));
        assert_eq!(ranks[1].unsent(), Err(aborted.clone()));
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(Box::new(ranks.pop().unwrap()).leave(), Err(aborted));
    }
}
