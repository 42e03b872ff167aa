//! What ranks tell each other: who can write, what is in the way, what has failed. No I/O.

use std::collections::BTreeMap;

use atta_entry::{choice, record};
use atta_status::{Digest, Received};

use crate::jobs::record::host;

/// Bytes of a reason: paths may be long.
const REASON_BYTES_MAX: usize = 1024;

/// A node that gets no copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failed {
    /// The rank that was to write.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// Why.
    pub reason: String,
}

record!(Failed { rank, host, reason });

/// This rank and its host.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    rank: u32,
    host: String,
}

impl Here {
    pub(crate) fn new(rank: u32) -> Self {
        Self { rank, host: host() }
    }

    pub(crate) fn failed(&self, mut reason: String) -> Failed {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Failed { rank: self.rank, host: self.host.clone(), reason }
    }

    /// What exists here, for a refusal.
    pub(crate) fn named(&self, what: &str) -> String {
        format!("{what} on {}", self.host)
    }
}

/// Who can write for a group of ranks that see one directory: its lowest rank that can open it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) writer: Option<u32>,
    /// The lowest one that cannot.
    pub(crate) failed: Option<Failed>,
}

record!(Ready { writer, failed });

impl Ready {
    pub(crate) fn of(rank: u32, found: Result<(), String>) -> Self {
        match found {
            Ok(()) => Self { writer: Some(rank), failed: None },
            Err(reason) => Self { writer: None, failed: Some(Here::new(rank).failed(reason)) },
        }
    }

    fn merge(&mut self, other: Self) {
        self.writer = self.writer.into_iter().chain(other.writer).min();
        self.failed = self.failed.take().into_iter().chain(other.failed).min();
    }

    /// By the lowest rank of each group.
    pub(crate) fn merge_all(all: &mut BTreeMap<u32, Self>, more: BTreeMap<u32, Self>) {
        more.into_iter().for_each(|(group, ready)| all.entry(group).or_default().merge(ready));
    }
}

/// What a writer has found where its copy is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It can write.
    Writes,
    /// It is FILE itself.
    Itself,
    /// Something has that name: what and where.
    Exists(String),
    /// It cannot write.
    Failed(Failed),
}

choice!(Checked {
    0 => Writes,
    1 => Itself,
    2 => Exists(what),
    3 => Failed(failed),
});

/// What has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) stopped: bool,
    /// A digest and its reader; two if there are several.
    pub(crate) digests: Vec<(Digest, u32)>,
    pub(crate) failed: Vec<Failed>,
}

record!(Done { stopped, digests, failed });

impl Done {
    pub(crate) fn merge(&mut self, other: Self) {
        self.stopped |= other.stopped;
        self.failed.extend(other.failed);
        self.digests.extend(other.digests);
        // Of each digest the lowest reader, and of these the two lowest: the same in whatever order.
        let mut lowest: BTreeMap<Digest, u32> = BTreeMap::new();
        for (digest, reader) in self.digests.drain(..) {
            lowest.entry(digest).and_modify(|lowest| *lowest = reader.min(*lowest)).or_insert(reader);
        }
        self.digests = lowest.into_iter().collect();
        self.digests.sort_by_key(|(_, reader)| *reader);
        self.digests.truncate(2);
    }
}

/// What has its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) written: u64,
    /// Ascending.
    pub(crate) readers: Vec<u32>,
    pub(crate) file: Option<(u64, Digest)>,
    pub(crate) failed: Vec<Failed>,
}

record!(Ended { written, readers, file, failed });

impl Ended {
    pub(crate) fn of(received: &Received) -> Self {
        let Received { size, digest, reader } = *received;
        Self { written: 1, readers: vec![reader], file: Some((size, digest)), failed: Vec::new() }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.written += other.written;
        self.readers.extend(other.readers);
        self.readers.sort_unstable();
        self.readers.dedup();
        self.file = self.file.or(other.file);
        self.failed.extend(other.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_digests_do_not_depend_on_the_order() {
        let done = |digest, reader| Done { digests: vec![([digest; 32], reader)], ..Done::default() };
        let parts = [done(5, 3), done(1, 2), done(5, 1), done(9, 7), done(1, 9)];
        let merged = |order: &[usize]| {
            let mut all = Done::default();
            order.iter().for_each(|at| all.merge(parts[*at].clone()));
            all.digests
        };
        assert_eq!(merged(&[0, 1, 2, 3, 4]), [([5; 32], 1), ([1; 32], 2)]);
        assert_eq!(merged(&[4, 3, 2, 1, 0]), merged(&[2, 0, 3, 4, 1]));
        assert_eq!(merged(&[0, 2]), [([5; 32], 1)]);
    }

    #[test]
    fn lowest_rank_that_can_writes() {
        let mut all = BTreeMap::new();
        for (group, rank, can) in [(0, 2, true), (0, 0, false), (0, 1, true), (3, 4, false), (3, 3, false)] {
            let found = if can { Ok(()) } else { Err(format!("reason {rank}")) };
            Ready::merge_all(&mut all, BTreeMap::from([(group, Ready::of(rank, found))]));
        }
        assert_eq!((all[&0].writer, all[&3].writer), (Some(1), None));
        assert_eq!(all[&3].failed.as_ref().unwrap().reason, "reason 3");
    }
}
