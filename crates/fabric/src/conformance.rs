//! The conformance test of every fabric, for tests: one body that each rank runs over its endpoint. It does not test how
//! ranks start, leave or die.
//!
//! Messages carry no header, so that lengths of zero and one are real. Both sides of a pair follow the same script. Since
//! messages of a pair keep their order, a receiver knows the next message of each sender. Messages that arrive before their
//! turn (a fast peer is ahead in the script) wait in a queue per sender. A lost, duplicated, changed or reordered message
//! shows as a length or content that differs from the script.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Endpoint, FabricError};

/// Lengths around which fabrics change how they carry a message: nothing, less than a word, a page, 64 KiB, large.
const LENGTHS: [usize; 8] = [0, 1, 7, 4096, 65_535, 65_536, 65_537, 1 << 20];
/// More than any fabric holds in its own buffers.
const FLOOD_MESSAGES: u64 = 10_000;
/// Enough to mix messages that go at once with others that wait for their receiver.
const ORDER_MESSAGES: u64 = 200;
/// A wait this long means that a message is lost. It only ends a test that has already failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Polls without a message before a rank sleeps between polls.
const SPINS: u32 = 100;

/// Runs all checks. Every rank of the job must call it with its own endpoint.
///
/// No messages may be in flight to the rank. Afterwards the endpoint can be left. To use it further, wait until all ranks have
/// returned, and set [`on_arrival`](Endpoint::on_arrival) again. Each pair of ranks exchanges about 2 MB: use some tens of
/// ranks at most.
///
/// # Errors
/// The first failed check, with the rank that found it.
pub fn conformance(endpoint: &mut dyn Endpoint) -> Result<(), String> {
    let rank = endpoint.rank();
    let mut script =
        Script { endpoint, early: BTreeMap::new(), sent: BTreeMap::new(), received: BTreeMap::new() };
    script.run().map_err(|reason| format!("rank {rank}: {reason}"))
}

/// The position of one rank in the script.
struct Script<'a> {
    endpoint: &'a mut dyn Endpoint,
    /// Messages that arrived before their turn, by sender.
    early: BTreeMap<u32, VecDeque<Vec<u8>>>,
    /// Messages sent so far, by receiver.
    sent: BTreeMap<u32, u64>,
    /// Messages consumed so far, by sender.
    received: BTreeMap<u32, u64>,
}

impl Script<'_> {
    fn run(&mut self) -> Result<(), String> {
        let notifications = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&notifications);
        let notifies = self.endpoint.on_arrival(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        self.ranks()?;
        self.neighbours()?;
        self.lengths()?;
        self.order()?;
        self.flood_next()?;
        self.flood_first()?;
        self.end()?;
        if notifies && notifications.load(Ordering::Relaxed) == 0 {
            return Err("messages arrived without a notification".to_owned());
        }
        Ok(())
    }

    /// Rank numbers are below the size, and a send to a rank beyond it fails.
    fn ranks(&mut self) -> Result<(), String> {
        let (rank, size) = (self.endpoint.rank(), self.endpoint.size());
        if rank >= size {
            return Err(format!("is not below the size {size}"));
        }
        for absent in [size, u32::MAX] {
            let outcome = self.endpoint.send(absent, vec![1]);
            if outcome != Err(FabricError::NoSuchRank { rank: absent, size }) {
                return Err(format!("sending to rank {absent} of {size} gave {outcome:?}"));
            }
        }
        Ok(())
    }

    /// Neighbours ascend, include this rank, and are the same on all of them.
    fn neighbours(&mut self) -> Result<(), String> {
        let (rank, size) = (self.endpoint.rank(), self.endpoint.size());
        let own = self.endpoint.neighbours().to_vec();
        if !own.is_sorted_by(|a, b| a < b) || !own.contains(&rank) || own.iter().any(|each| *each >= size) {
            return Err(format!("neighbours {own:?} of {size} ranks"));
        }
        let bytes: Vec<u8> = own.iter().flat_map(|each| each.to_le_bytes()).collect();
        for to in 0..size {
            self.send_raw(to, bytes.clone())?;
        }
        for from in 0..size {
            let theirs = self.next_from(from)?;
            let same = theirs == bytes;
            let met = theirs.chunks(4).any(|each| each == rank.to_le_bytes());
            if same != own.contains(&from) || met != same {
                return Err(format!("neighbours {own:?}, but those of rank {from} are {theirs:?}"));
            }
        }
        Ok(())
    }

    /// Every length between every pair, this rank with itself included.
    fn lengths(&mut self) -> Result<(), String> {
        let size = self.endpoint.size();
        for length in LENGTHS {
            for to in 0..size {
                self.send(to, length)?;
            }
        }
        for from in 0..size {
            for length in LENGTHS {
                self.expect(from, length)?;
            }
        }
        Ok(())
    }

    /// Small and large messages, mixed, between every pair arrive in the order in which they were sent.
    fn order(&mut self) -> Result<(), String> {
        let size = self.endpoint.size();
        for number in 0..ORDER_MESSAGES {
            for to in 0..size {
                self.send(to, order_length(number))?;
            }
        }
        for number in 0..ORDER_MESSAGES {
            for from in 0..size {
                self.expect(from, order_length(number))?;
            }
        }
        Ok(())
    }

    /// Every rank sends many small messages to the next one before it receives anything: a send must not wait for a
    /// receiver.
    fn flood_next(&mut self) -> Result<(), String> {
        let (rank, size) = (self.endpoint.rank(), self.endpoint.size());
        for _ in 0..FLOOD_MESSAGES {
            self.send((rank + 1) % size, 24)?;
        }
        let before = (rank + size - 1) % size;
        (0..FLOOD_MESSAGES).try_for_each(|_| self.expect(before, 24))
    }

    /// All ranks send to the first one, which only then starts to receive.
    fn flood_first(&mut self) -> Result<(), String> {
        let (rank, size) = (self.endpoint.rank(), self.endpoint.size());
        for _ in 0..FLOOD_MESSAGES {
            self.send(0, 100)?;
        }
        if rank == 0 {
            for from in 0..size {
                (0..FLOOD_MESSAGES).try_for_each(|_| self.expect(from, 100))?;
            }
        }
        Ok(())
    }

    /// Checks that every rank got here and all messages have gone. A surplus message would arrive in place of the expected one.
    fn end(&mut self) -> Result<(), String> {
        let size = self.endpoint.size();
        for to in 0..size {
            self.send(to, 8)?;
        }
        for from in 0..size {
            self.expect(from, 8)?;
        }
        let mut quiet = Quiet::new();
        while self.endpoint.unsent().map_err(|error| error.to_string())? > 0 {
            quiet.wait("what was sent to go")?;
        }
        Ok(())
    }

    /// Sends the next message of the script to a rank.
    fn send(&mut self, to: u32, length: usize) -> Result<(), String> {
        let number = next(&mut self.sent, to);
        let message = content(self.endpoint.rank(), to, number, length);
        self.endpoint.send(to, message).map_err(|error| error.to_string())
    }

    fn send_raw(&mut self, to: u32, message: Vec<u8>) -> Result<(), String> {
        next(&mut self.sent, to);
        self.endpoint.send(to, message).map_err(|error| error.to_string())
    }

    /// Waits for the next message of a rank and compares it with the script.
    fn expect(&mut self, from: u32, length: usize) -> Result<(), String> {
        let number = self.received.get(&from).copied().unwrap_or(0);
        let message = self.next_from(from)?;
        if message.len() != length {
            let got = message.len();
            return Err(format!("message {number} from rank {from} has {got} bytes, not {length}"));
        }
        if message != content(from, self.endpoint.rank(), number, length) {
            return Err(format!("message {number} from rank {from}, {length} bytes: not what was sent"));
        }
        Ok(())
    }

    /// Waits for the next message of a rank, whatever its content.
    fn next_from(&mut self, from: u32) -> Result<Vec<u8>, String> {
        let number = next(&mut self.received, from);
        let mut quiet = Quiet::new();
        loop {
            if let Some(message) = self.early.get_mut(&from).and_then(VecDeque::pop_front) {
                return Ok(message);
            }
            if self.take()? {
                quiet = Quiet::new();
            } else {
                quiet.wait(&format!("message {number} from rank {from}"))?;
            }
        }
    }

    /// Takes at most one message: anything after a rank's last message of the script belongs to the caller.
    fn take(&mut self) -> Result<bool, String> {
        let Some(received) = self.endpoint.receive().map_err(|error| error.to_string())? else {
            return Ok(false);
        };
        if received.from >= self.endpoint.size() {
            return Err(format!("a message from rank {}, which there is not", received.from));
        }
        self.early.entry(received.from).or_default().push_back(received.message);
        Ok(true)
    }
}

/// Waits between polls: spins first, then short sleeps, up to a limit.
struct Quiet {
    polls: u32,
    since: Instant,
}

impl Quiet {
    fn new() -> Self {
        Self { polls: 0, since: Instant::now() }
    }

    fn wait(&mut self, what: &str) -> Result<(), String> {
        self.polls = self.polls.saturating_add(1);
        if self.polls < SPINS {
            std::thread::yield_now();
            return Ok(());
        }
        if self.since.elapsed() > PATIENCE {
            return Err(format!("waited {} s for {what}", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_micros(100));
        Ok(())
    }
}

/// Counts the next message and returns its number.
fn next(counts: &mut BTreeMap<u32, u64>, rank: u32) -> u64 {
    let count = counts.entry(rank).or_default();
    *count += 1;
    *count - 1
}

/// Mostly small messages, every fifth a large one, each of another length.
fn order_length(number: u64) -> usize {
    let number = number as usize;
    if number % 5 == 4 { 8000 + number * 37 } else { number % 60 }
}

/// Bytes that depend on sender, receiver and message number, so that no two messages look alike.
fn content(from: u32, to: u32, number: u64, length: usize) -> Vec<u8> {
    // SplitMix64 (Steele, Lea and Flood 2014): each step gives a well mixed word.
    let mut state = (u64::from(from) << 48) ^ (u64::from(to) << 32) ^ number;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InProcess, Received, Wake, in_process};

    /// The fault that a broken fabric applies to received messages.
    #[derive(Clone, Copy, Debug)]
    enum Fault {
        Swap,
        Double,
        Flip,
        Cut,
    }

    /// A rank that spoils its hundredth message, or the first one after it that it can spoil.
    struct Broken {
        inner: InProcess,
        fault: Fault,
        count: u32,
        held: VecDeque<Received>,
    }

    impl Endpoint for Broken {
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
            self.inner.send(to, message)
        }

        fn receive(&mut self) -> Result<Option<Received>, FabricError> {
            if let Some(held) = self.held.pop_front() {
                return Ok(Some(held));
            }
            let Some(mut received) = self.inner.receive()? else { return Ok(None) };
            self.count += 1;
            if self.count == 100 {
                match self.fault {
                    Fault::Swap => {
                        self.held.push_back(received);
                        return self.inner.receive();
                    }
                    Fault::Double => self.held.push_back(received.clone()),
                    Fault::Flip if received.message.is_empty() => self.count -= 1,
                    Fault::Cut if received.message.is_empty() => self.count -= 1,
                    Fault::Flip => received.message[0] ^= 1,
                    Fault::Cut => received.message.truncate(received.message.len() - 1),
                }
            }
            Ok(Some(received))
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

    // A single rank: its own messages suffice to spoil one, and no other rank waits for it afterwards.
    #[test]
    fn every_fault_of_a_fabric_is_found() {
        for fault in [Fault::Swap, Fault::Double, Fault::Flip, Fault::Cut] {
            let inner = in_process(1).pop().unwrap();
            let mut broken = Broken { inner, fault, count: 0, held: VecDeque::new() };
            let reason = conformance(&mut broken).unwrap_err();
            assert!(reason.starts_with("rank 0: message "), "{fault:?}: {reason}");
        }
    }

    #[test]
    fn contents_differ_by_sender_receiver_and_number() {
        let base = content(1, 2, 3, 9);
        assert_eq!(base.len(), 9);
        assert!(content(0, 0, 0, 0).is_empty());
        for other in [content(2, 2, 3, 9), content(1, 1, 3, 9), content(1, 2, 4, 9)] {
            assert_ne!(base, other);
        }
    }
}
