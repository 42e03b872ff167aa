//! The conformance test of fabrics on which ranks may die, for tests: one body that each rank runs over its endpoint. The first and the
//! last rank die, the others go on. It kills nobody itself: the caller does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::{Endpoint, FabricError};

/// A wait this long means that something is lost. It only ends a test that has already failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages between two of the living, each way, while others die.
const MESSAGES: u64 = 500;
/// Every so many of them is large.
const LARGE_EACH: u64 = 50;
const LARGE_BYTES: usize = 300_000;

/// What becomes of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It dies now: the caller kills its process, or drops the endpoint.
    Dies,
    /// It has found all in order, and may leave.
    Lives,
}

/// Runs all checks, on three ranks or more. No messages may be in flight.
///
/// The deaths are reported to each rank, once; messages to the dead do no harm; and the living lose no message, before or after.
///
/// # Errors
/// The first failed check, with the rank that found it.
pub fn deaths(endpoint: &mut dyn Endpoint) -> Result<Fate, String> {
    let rank = endpoint.rank();
    let mut test = Deaths { endpoint, received: BTreeMap::new(), lost: Vec::new() };
    test.run().map_err(|reason| format!("rank {rank}: {reason}"))
}

struct Deaths<'a> {
    endpoint: &'a mut dyn Endpoint,
    /// Messages received from each rank.
    received: BTreeMap<u32, u64>,
    /// Ranks reported dead.
    lost: Vec<u32>,
}

impl Deaths<'_> {
    fn run(&mut self) -> Result<Fate, String> {
        let (rank, size) = (self.endpoint.rank(), self.endpoint.size());
        if !self.endpoint.survives() || size < 3 {
            return Err("ranks of this fabric cannot die, or are too few".to_owned());
        }
        let dead = [0, size - 1];
        let living: Vec<u32> = (1..size - 1).collect();
        // Each has heard from each, so all have begun.
        for to in 0..size {
            self.send(to, 0)?;
        }
        self.until("all ranks to begin", |test| Ok((0..size).all(|from| test.count(from) >= 1)))?;
        if dead.contains(&rank) {
            // What a rank has sent may be lost with it.
            self.until("the living to begin", |test| Ok(living.iter().all(|from| test.count(*from) > 1)))?;
            return Ok(Fate::Dies);
        }
        for number in 1..=MESSAGES {
            for to in living.iter().chain(&dead) {
                self.send(*to, number)?;
            }
            self.take()?;
        }
        self.until("two deaths", |test| Ok(test.lost.len() >= dead.len()))?;
        self.lost.sort_unstable();
        if self.lost != dead {
            return Err(format!("ranks {:?} were reported dead, not {dead:?}", self.lost));
        }
        for to in living.iter().chain(&dead) {
            self.send(*to, MESSAGES + 1)?;
        }
        let all = MESSAGES + 2;
        self.until("messages of the living", |test| Ok(living.iter().all(|from| test.count(*from) == all)))?;
        self.until("messages to go", Self::is_sent)?;
        let mut again = self.endpoint.lost().map_err(described)?;
        // One that has finished here may have left and exited, which looks like a death.
        again.retain(|rank| dead.contains(rank));
        match again.is_empty() {
            true => Ok(Fate::Lives),
            false => Err(format!("ranks {again:?} were reported dead again")),
        }
    }

    fn count(&self, from: u32) -> u64 {
        self.received.get(&from).copied().unwrap_or_default()
    }

    fn is_sent(&mut self) -> Result<bool, String> {
        self.endpoint.unsent().map(|unsent| unsent == 0).map_err(described)
    }

    fn send(&mut self, to: u32, number: u64) -> Result<(), String> {
        self.endpoint.send(to, message(number)).map_err(described)
    }

    /// Takes one message, and looks for deaths.
    fn take(&mut self) -> Result<bool, String> {
        self.lost.extend(self.endpoint.lost().map_err(described)?);
        let Some(received) = self.endpoint.receive().map_err(described)? else { return Ok(false) };
        let number = self.received.entry(received.from).or_default();
        if received.message != message(*number) {
            return Err(format!("message {number} from rank {} is another one", received.from));
        }
        *number += 1;
        Ok(true)
    }

    fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<(), String> {
        let began = Instant::now();
        while !is_so(self)? {
            if began.elapsed() > PATIENCE {
                return Err(format!("waited {} s for {what}", PATIENCE.as_secs()));
            }
            if !self.take()? {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        Ok(())
    }
}

/// Bytes that depend on the number.
fn message(number: u64) -> Vec<u8> {
    let length = if number % LARGE_EACH == LARGE_EACH - 1 { LARGE_BYTES } else { 8 };
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn described(error: FabricError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{in_process, in_process_mortal};

    #[test]
    fn ranks_of_one_process_may_die() {
        for size in 3..=5 {
            std::thread::scope(|scope| {
                let run = |mut endpoint: crate::InProcess| {
                    let fate = deaths(&mut endpoint);
                    // A rank that dies is dropped.
                    if fate == Ok(Fate::Lives) {
                        Box::new(endpoint).leave().unwrap();
                    }
                    fate
                };
                let ranks: Vec<_> =
                    in_process_mortal(size).into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
                let fates: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
                let of = |rank| if [0, size - 1].contains(&rank) { Fate::Dies } else { Fate::Lives };
                assert_eq!(fates, (0..size).map(of).collect::<Vec<_>>());
            });
        }
    }

    #[test]
    fn fabric_without_deaths_is_refused() {
        let reason = deaths(&mut in_process(3)[0]).unwrap_err();
        assert_eq!(reason, "rank 0: ranks of this fabric cannot die, or are too few");
    }
}
