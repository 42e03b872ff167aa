//! Counts of requests, by type, and the peak number in flight. It keeps no times: tests compare counts.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::operation::{OPERATIONS, Operation};

const KINDS: usize = OPERATIONS.len();

/// Counts while they grow.
#[derive(Debug, Default)]
pub(super) struct Counts {
    served: [AtomicU64; KINDS],
    in_flight: AtomicU64,
    peak: AtomicU64,
}

impl Counts {
    /// Counts a request until the guard is dropped, which must happen before its answer is sent. After the answer the client may send the
    /// next request, and the count in flight would be one too high.
    pub(super) fn enter(&self, operation: Operation) -> InFlight<'_> {
        self.served[operation as usize].fetch_add(1, Ordering::Relaxed);
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    pub(super) fn served(&self) -> Served {
        let served = self.served.each_ref().map(|count| count.load(Ordering::Relaxed));
        Served { served, peak: self.peak.load(Ordering::Relaxed) }
    }
}

pub(super) struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Requests served since mounting, including failed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    served: [u64; KINDS],
    /// The most requests that were in flight at one time.
    pub peak: u64,
}

impl Served {
    /// Number of requests of one type.
    #[must_use]
    pub const fn of(&self, operation: Operation) -> u64 {
        self.served[operation as usize]
    }
}

/// `served lookup=1 stat=2 ... peak=3`, the last line of `atta-slow-fs`.
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "served")?;
        for (operation, count) in OPERATIONS.iter().zip(self.served) {
            write!(f, " {}={count}", operation.0)?;
        }
        write!(f, " peak={}", self.peak)
    }
}

/// Parses the output of its `Display`.
impl FromStr for Served {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("no line of counts: '{line}'");
        let mut words = line.strip_prefix("served ").ok_or_else(wrong)?.split(' ');
        let mut count = |name: &str| {
            let (key, value) = words.next().and_then(|word| word.split_once('=')).ok_or_else(wrong)?;
            let value = value.parse().map_err(|_| wrong())?;
            if key == name { Ok(value) } else { Err(wrong()) }
        };
        let mut served = [0; KINDS];
        for (operation, place) in OPERATIONS.iter().zip(&mut served) {
            *place = count(operation.0)?;
        }
        Ok(Self { served, peak: count("peak")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_the_most_at_once() {
        let counts = Counts::default();
        let first = counts.enter(Operation::Lookup);
        let second = counts.enter(Operation::Read);
        drop(first);
        let third = counts.enter(Operation::Readdir);
        drop((second, third));
        let served = counts.served();
        let of = [Operation::Lookup, Operation::Read, Operation::Readdir, Operation::Write];
        assert_eq!((served.peak, of.map(|operation| served.of(operation))), (2, [1, 1, 1, 0]));
    }

    #[test]
    fn line_is_read_back() {
        let counts = Counts::default();
        drop((counts.enter(Operation::Statfs), counts.enter(Operation::Stat)));
        let served = counts.served();
        assert_eq!(served.to_string().parse(), Ok(served));
        assert!("served lookup=1".parse::<Served>().is_err());
        assert!("ready".parse::<Served>().is_err());
    }
}
