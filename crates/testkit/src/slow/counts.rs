//! How many requests were served, of which kinds, and how many at once. Counts; keeps no times: tests compare counts.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A name was looked up in a directory.
    Lookup,
    /// Attributes were read.
    Getattr,
    /// A symlink was read.
    Readlink,
    /// A file was opened.
    Open,
    /// Bytes were read.
    Read,
    /// A directory was opened.
    Opendir,
    /// A piece of a directory was read.
    Readdir,
}

const NAMES: [&str; 8] = ["lookup", "getattr", "readlink", "open", "read", "opendir", "readdir", "peak"];

/// Counts while they grow.
#[derive(Debug, Default)]
pub(super) struct Counts {
    served: [AtomicU64; 7],
    in_flight: AtomicU64,
    peak: AtomicU64,
}

impl Counts {
    /// Counts a request from here until the guard is dropped, which must happen before its answer is sent: after that
    /// the client may send the next, and would seem to have one more in flight than it has.
    pub(super) fn enter(&self, operation: Operation) -> InFlight<'_> {
        self.served[operation as usize].fetch_add(1, Ordering::Relaxed);
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    pub(super) fn served(&self) -> Served {
        let count = |operation: Operation| self.served[operation as usize].load(Ordering::Relaxed);
        Served {
            lookup: count(Operation::Lookup),
            getattr: count(Operation::Getattr),
            readlink: count(Operation::Readlink),
            open: count(Operation::Open),
            read: count(Operation::Read),
            opendir: count(Operation::Opendir),
            readdir: count(Operation::Readdir),
            peak: self.peak.load(Ordering::Relaxed),
        }
    }
}

pub(super) struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Requests served since mounting, those that failed among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Names looked up.
    pub lookup: u64,
    /// Attributes read.
    pub getattr: u64,
    /// Symlinks read.
    pub readlink: u64,
    /// Files opened.
    pub open: u64,
    /// Pieces of files read.
    pub read: u64,
    /// Directories opened.
    pub opendir: u64,
    /// Pieces of directories read.
    pub readdir: u64,
    /// The most requests that were in flight at one time.
    pub peak: u64,
}

impl Served {
    const fn fields(self) -> [u64; 8] {
        let Self { lookup, getattr, readlink, open, read, opendir, readdir, peak } = self;
        [lookup, getattr, readlink, open, read, opendir, readdir, peak]
    }
}

/// `served lookup=1 getattr=2 ... peak=3`, the last line of `atta-slow-fs`.
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "served")?;
        for (name, count) in NAMES.iter().zip(self.fields()) {
            write!(f, " {name}={count}")?;
        }
        Ok(())
    }
}

/// Reads what its `Display` writes.
impl FromStr for Served {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("no line of counts: '{line}'");
        let rest = line.strip_prefix("served ").ok_or_else(wrong)?;
        let mut counts = [0; 8];
        let mut words = rest.split(' ');
        for (name, count) in NAMES.iter().zip(&mut counts) {
            let (key, value) = words.next().and_then(|word| word.split_once('=')).ok_or_else(wrong)?;
            if key != *name {
                return Err(wrong());
            }
            *count = value.parse().map_err(|_| wrong())?;
        }
        let [lookup, getattr, readlink, open, read, opendir, readdir, peak] = counts;
        Ok(Self { lookup, getattr, readlink, open, read, opendir, readdir, peak })
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
        assert_eq!((served.peak, served.lookup, served.read, served.readdir), (2, 1, 1, 1));
    }

    #[test]
    fn line_is_read_back() {
        let served = Served { lookup: 1, getattr: 2, readdir: 7, peak: 9, ..Served::default() };
        assert_eq!(served.to_string().parse(), Ok(served));
        assert!("served lookup=1".parse::<Served>().is_err());
        assert!("ready".parse::<Served>().is_err());
    }
}
