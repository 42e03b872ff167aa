//! The endpoint of one rank under MPI: decides what to send when, and returns received messages. `shim.rs` makes the calls.

use std::collections::BTreeSet;
use std::fmt;

use atta_fabric::{Endpoint, FabricError, Received, Wake};

use crate::outbox::Outbox;
use crate::shim::{Calls, MESSAGE_BYTES_MAX, World};

/// Messages to receive in a row before outgoing messages get a turn.
const RECEIVED_IN_A_ROW_MAX: u32 = 32;

/// One rank under MPI. See [`Plugin::begin`](crate::Plugin::begin).
///
/// Arrivals cause no callbacks: poll [`receive`](Endpoint::receive). Only the thread that initialised MPI may use it; its
/// calls panic on another thread. Each message is one MPI message on a communicator of its own, so its maximum length is
/// 2^31 - 1 bytes. MPI does not report which ranks have left: sending to one is no error. Where it reports which ranks have
/// died (Open MPI 5, launched with `--with-ft ulfm`), a message to one of them is dropped.
///
/// Dropping it does not finalise MPI: the launcher then ends the job when this process ends.
pub struct Mpi {
    shim: Calls,
    world: World,
    outbox: Outbox,
    received_in_a_row: u32,
    /// Ranks that have died, as far as was asked.
    dead: BTreeSet<u32>,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi(rank {} of {})", self.world.rank, self.world.size)
    }
}

impl Mpi {
    pub(crate) fn new(shim: Calls, world: World) -> Self {
        Self { shim, world, outbox: Outbox::default(), received_in_a_row: 0, dead: BTreeSet::new() }
    }

    /// Moves outgoing messages on, and hands more to MPI while some complete. Returns the first error after all other work.
    fn push(&mut self) -> Result<(), FabricError> {
        let mut first = Ok(());
        loop {
            let sent = self.shim.sent()?;
            if sent.is_empty() {
                return first;
            }
            for each in sent {
                if self.dead.contains(&each.to) {
                    continue;
                }
                first = first.and(unless_dead(each.outcome));
                let mut next = self.outbox.gone(each.to);
                while let Some(message) = next.take() {
                    if let Err(error) = self.shim.send(each.to, message) {
                        first = first.and(unless_dead(Err(error)));
                        next = self.outbox.gone(each.to);
                    }
                }
            }
        }
    }
}

impl Endpoint for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank
    }

    fn size(&self) -> u32 {
        self.world.size
    }

    fn neighbours(&self) -> &[u32] {
        &self.world.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        if to >= self.world.size {
            return Err(FabricError::NoSuchRank { rank: to, size: self.world.size });
        }
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(FabricError::TooLarge { bytes: message.len(), bytes_max: MESSAGE_BYTES_MAX });
        }
        if self.dead.contains(&to) {
            return Ok(());
        }
        let Some(message) = self.outbox.offer(to, message) else { return Ok(()) };
        unless_dead(self.shim.send(to, message).inspect_err(|_| {
            // Fewer than the limit were with MPI, so nothing waits behind this one.
            let _none = self.outbox.gone(to);
        }))
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        if self.received_in_a_row >= RECEIVED_IN_A_ROW_MAX {
            self.received_in_a_row = 0;
            self.push()?;
        }
        let received = self.shim.receive()?;
        if received.is_some() {
            self.received_in_a_row += 1;
        } else {
            self.received_in_a_row = 0;
            self.push()?;
        }
        Ok(received)
    }

    fn on_arrival(&mut self, _wake: Wake) -> bool {
        false
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        self.push()?;
        Ok(self.outbox.unsent())
    }

    fn survives(&self) -> bool {
        self.world.survives
    }

    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        if !self.world.survives {
            return Ok(Vec::new());
        }
        let mut new: Vec<u32> =
            self.shim.lost()?.into_iter().filter(|rank| self.dead.insert(*rank)).collect();
        for rank in &new {
            self.outbox.forget(*rank);
            self.shim.give_up(*rank);
        }
        new.sort_unstable();
        Ok(new)
    }

    fn leave(mut self: Box<Self>) -> Result<(), FabricError> {
        self.lost()?;
        match self.unsent()? {
            // MPI may wait for the dead, and the launcher for no rank that has ended.
            _ if !self.dead.is_empty() => Ok(()),
            0 => self.shim.leave(),
            messages => Err(FabricError::Unsent { messages }),
        }
    }

    fn abort(&mut self, exit_code: i32) {
        self.shim.abort(exit_code);
    }
}

/// A message to a rank that has died is dropped.
fn unless_dead(sent: Result<(), FabricError>) -> Result<(), FabricError> {
    if matches!(sent, Err(FabricError::Gone { .. })) { Ok(()) } else { sent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenError, fake};

    fn failed(operation: &'static str) -> FabricError {
        FabricError::Transport { operation, code: fake::CODE, text: "fake error 17".to_owned() }
    }

    #[test]
    fn rank_alone_conforms_with_bounded_messages() {
        let mut mpi = fake::mpi().unwrap();
        assert_eq!(atta_fabric::conformance(&mut mpi), Ok(()));
        assert_eq!(fake::with(|fake| fake.begun_max), 64);
        Box::new(mpi).leave().unwrap();
    }

    #[test]
    fn failed_sends_are_reported_once() {
        let mut mpi = fake::mpi().unwrap();
        fake::with(|fake| fake.send_fails_in = 1);
        assert_eq!(mpi.send(0, vec![1]), Err(failed("MPI_Isend")));
        fake::with(|fake| fake.sent_fails_in = 2);
        for number in 2..=5 {
            mpi.send(0, vec![number]).unwrap();
        }
        assert_eq!(mpi.unsent(), Err(failed("MPI_Isend")));
        assert_eq!(mpi.unsent(), Ok(0));
        let come: Vec<_> =
            std::iter::from_fn(|| mpi.receive().unwrap()).map(|each| each.message[0]).collect();
        assert_eq!(come, [2, 4, 5]);
    }

    #[test]
    fn failed_message_lets_the_others_go() {
        let mut mpi = fake::mpi().unwrap();
        for number in 0..100 {
            mpi.send(0, vec![number]).unwrap();
        }
        fake::with(|fake| fake.send_fails_in = 3);
        assert_eq!(mpi.unsent(), Err(failed("MPI_Isend")));
        assert_eq!(mpi.unsent(), Ok(0));
        assert_eq!(std::iter::from_fn(|| mpi.receive().unwrap()).count(), 99);
    }

    #[test]
    fn messages_of_dead_ranks_are_dropped() {
        let mut mpi = fake::mpi().unwrap();
        assert!(mpi.survives());
        assert_eq!(mpi.lost(), Ok(vec![]));
        fake::with(|fake| (fake.says_lost, fake.send_fails_in) = (true, 1));
        assert_eq!(mpi.send(0, vec![1]), Ok(()));
        fake::with(|fake| fake.sent_fails_in = 1);
        mpi.send(0, vec![2]).unwrap();
        assert_eq!(mpi.unsent(), Ok(0));
        fake::arrive(0, vec![3; 100]);
        fake::with(|fake| fake.taken_fails_in = 1);
        fake::arrive(1, vec![4]);
        let come: Vec<_> = (0..4).filter_map(|_| mpi.receive().unwrap()).collect();
        assert_eq!(come.len(), 1);
        fake::with(|fake| fake.dead = vec![5, 3]);
        assert_eq!(mpi.lost(), Ok(vec![3, 5]));
        assert_eq!(mpi.lost(), Ok(vec![]));
        fake::with(|fake| fake.dead = vec![5, 3, 0]);
        (0..100).for_each(|number| mpi.send(0, vec![number]).unwrap());
        assert_eq!(mpi.lost(), Ok(vec![0]));
        assert_eq!(mpi.send(0, vec![1]), Ok(()));
        while mpi.unsent().unwrap() > 0 {}
        Box::new(mpi).leave().unwrap();
    }

    /// Allocates memory of the same size: it would reuse a buffer that was freed too early.
    fn fill_what_is_free(bytes: usize) -> Vec<Vec<u8>> {
        (0..64).map(|_| vec![1; bytes]).collect()
    }

    #[test]
    fn mpi_writes_after_a_failed_receive_are_harmless() {
        for bytes in [100, 1000, 100_000] {
            let mut mpi = fake::mpi().unwrap();
            fake::with(|fake| fake.taken_fails_in = 1);
            fake::arrive(0, vec![7; bytes]);
            assert_eq!(
                std::iter::repeat_with(|| mpi.receive()).find(Result::is_err),
                Some(Err(failed("MPI_Imrecv")))
            );
            let others = fill_what_is_free(bytes);
            fake::write_late();
            assert!(others.iter().all(|other| *other == vec![1; bytes]), "{bytes} bytes");
        }
    }

    #[test]
    fn message_of_a_failed_send_stays_as_it_is() {
        for bytes in [100, 1000, 100_000] {
            for at_once in [true, false] {
                let mut mpi = fake::mpi().unwrap();
                fake::with(|fake| {
                    *fake = fake::Fake::default();
                    let fails_in = if at_once { &mut fake.send_fails_in } else { &mut fake.sent_fails_in };
                    *fails_in = 1;
                });
                let sent = mpi.send(0, vec![7; bytes]).and_then(|()| mpi.unsent());
                assert_eq!(sent, Err(failed("MPI_Isend")));
                let others = fill_what_is_free(bytes);
                assert_eq!(fake::read_late(), [vec![7; bytes]], "{at_once}");
                drop(others);
            }
        }
    }

    #[test]
    fn slow_large_message_blocks_no_other_rank() {
        let mut mpi = fake::mpi().unwrap();
        fake::with(|fake| fake.slow_bytes = 100_000);
        fake::arrive(1, vec![1; 100_000]);
        (0..50).for_each(|number| fake::arrive(2 + number % 2, vec![number as u8]));
        fake::arrive(1, vec![99]);
        let come = |mpi: &mut Mpi| -> Vec<(u32, usize, u8)> {
            let come = std::iter::from_fn(|| mpi.receive().unwrap());
            come.map(|each| (each.from, each.message.len(), each.message[0])).collect()
        };
        let small: Vec<_> = (0..50).map(|number| (2 + number % 2, 1, number as u8)).collect();
        assert_eq!(come(&mut mpi), small);
        fake::with(|fake| fake.slow_bytes = 0);
        assert_eq!(come(&mut mpi), [(1, 100_000, 1), (1, 1, 99)], "in the order of their rank");
    }

    #[test]
    fn receives_at_once_are_bounded() {
        let mut mpi = fake::mpi().unwrap();
        fake::with(|fake| fake.slow_bytes = 1);
        (0..1000).for_each(|_| fake::arrive(1, vec![1]));
        assert_eq!(mpi.receive(), Ok(None));
        assert_eq!(fake::with(|fake| fake.taking_max), crate::inbox::MESSAGES_MAX);
        fake::with(|fake| fake.slow_bytes = 0);
        assert_eq!(std::iter::from_fn(|| mpi.receive().unwrap()).count(), 1000);
        assert_eq!(fake::with(|fake| fake.taking_max), crate::inbox::MESSAGES_MAX);
    }

    #[test]
    fn failed_receive_loses_no_other_message() {
        let mut mpi = fake::mpi().unwrap();
        fake::with(|fake| fake.slow_bytes = 1);
        (0..5).for_each(|number| fake::arrive(1, vec![number]));
        assert_eq!(mpi.receive(), Ok(None));
        // The newest is checked first.
        fake::with(|fake| (fake.slow_bytes, fake.taken_fails_in) = (0, 2));
        assert_eq!(mpi.receive(), Err(failed("MPI_Imrecv")));
        let come: Vec<_> =
            std::iter::from_fn(|| mpi.receive().unwrap()).map(|each| each.message[0]).collect();
        assert_eq!(come, [0, 1, 2, 4]);
    }

    #[test]
    fn rank_beyond_the_last_is_refused() {
        let mut mpi = fake::mpi().unwrap();
        assert_eq!(mpi.send(1, vec![]), Err(FabricError::NoSuchRank { rank: 1, size: 1 }));
        assert_eq!(mpi.unsent(), Ok(0));
    }

    #[test]
    fn dropping_leaves_to_mpi_what_it_holds() {
        let mut mpi = fake::mpi().unwrap();
        mpi.send(0, vec![7; 10]).unwrap();
        drop(mpi);
        assert_eq!(fake::move_on(), [vec![7; 10]]);
    }

    #[test]
    fn rank_with_messages_on_their_way_cannot_leave() {
        let mut mpi = fake::mpi().unwrap();
        fake::with(|fake| fake.holds = true);
        mpi.send(0, vec![1]).unwrap();
        assert_eq!(mpi.unsent(), Ok(1));
        assert_eq!(Box::new(mpi).leave(), Err(FabricError::Unsent { messages: 1 }));
    }

    #[test]
    fn other_thread_is_refused() {
        let mut mpi = fake::mpi().unwrap();
        let outcome = std::thread::spawn(move || mpi.receive()).join();
        assert!(outcome.is_err());
    }

    #[test]
    fn failed_begin_names_its_call() {
        fake::with(|fake| fake.begin_fails = true);
        let error = fake::mpi().unwrap_err();
        let OpenError::Begin { operation, code, text } = error else { panic!("{error}") };
        assert_eq!((operation.as_str(), code, text.as_str()), ("MPI_Comm_dup", fake::CODE, "fake error 17"));
    }
}
