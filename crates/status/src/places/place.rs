//! What a search returns of each mount point. Plain values; `ranking.rs` makes them.

use std::fmt;

use atta_code::{choice, record};
use atta_entry::Errno;

/// Speed of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceSpeed {
    /// Bytes a second that a rank measured, the lowest of all ranks that know one. None: nothing was measured.
    pub measured: Option<u64>,
    /// That of the table of file-system types, relative to a small NFS server (1).
    pub rating: u32,
}

record!(PlaceSpeed { measured, rating });

/// Why a mount point does not suit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The ranks of one source need more space than there is; which one, [`Place::tightest`] says.
    Space,
    /// It is slower than required.
    Speed,
    /// It is on more or fewer servers than required.
    Distribution,
    /// Names do not decide on how many servers it is.
    DistributionUnknown,
    /// It serves one process at full speed.
    Scalability,
    /// It is mounted read-only on a rank.
    ReadOnly {
        /// The lowest such rank.
        rank: u32,
    },
    /// A rank cannot make a file there.
    NotWritable {
        /// The lowest such rank.
        rank: u32,
        /// Why.
        errno: Errno,
    },
    /// Its space cannot be read. It may be no directory.
    Unreadable {
        /// The lowest such rank.
        rank: u32,
        /// Why.
        errno: Errno,
    },
    /// Its server does not answer in time.
    NoAnswer {
        /// The lowest such rank.
        rank: u32,
    },
}

choice!(Unmet {
    0 => Space,
    1 => Speed,
    2 => Distribution,
    3 => DistributionUnknown,
    4 => Scalability,
    5 => ReadOnly { rank },
    6 => NotWritable { rank, errno },
    7 => Unreadable { rank, errno },
    8 => NoAnswer { rank },
});

impl Unmet {
    /// One word for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Speed => "speed",
            Self::Distribution => "distribution",
            Self::DistributionUnknown => "distribution_unknown",
            Self::Scalability => "scalability",
            Self::ReadOnly { .. } => "read_only",
            Self::NotWritable { .. } => "not_writable",
            Self::Unreadable { .. } => "unreadable",
            Self::NoAnswer { .. } => "no_answer",
        }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space => out.write_str("not enough space"),
            Self::Speed => out.write_str("too slow"),
            Self::Distribution => out.write_str("distribution"),
            Self::DistributionUnknown => out.write_str("distribution is unknown"),
            Self::Scalability => out.write_str("scalability"),
            Self::ReadOnly { rank } => write!(out, "read-only on rank {rank}"),
            Self::NotWritable { rank, errno } => write!(out, "not writable on rank {rank}: {errno}"),
            Self::Unreadable { rank, errno } => write!(out, "cannot read its space on rank {rank}: {errno}"),
            Self::NoAnswer { rank } => write!(out, "no answer on rank {rank}"),
        }
    }
}

/// The source with the least space beside its need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tightest {
    /// The lowest rank that shares it.
    pub rank: u32,
    /// Bytes that the ranks that share it need. With sources that may be one: those of all of them.
    pub need: u64,
    /// Bytes that are available to this user.
    pub available: u64,
}

record!(Tightest { rank, need, available });

impl Tightest {
    /// Available less needed bytes.
    pub(crate) fn surplus(self) -> i128 {
        i128::from(self.available) - i128::from(self.need)
    }

    pub(crate) fn fits(self) -> bool {
        self.surplus() >= 0
    }
}

/// A mount point that all ranks have.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The mount point.
    pub point: Vec<u8>,
    /// Type of the mount, as the first rank has it.
    pub kind: Vec<u8>,
    /// URI of the mount point for people, as the first rank has it.
    pub uri: String,
    /// How many file systems the ranks see there. Those that may be one count as one.
    pub sources: u32,
    /// The source with the least space beside its need. None: no rank could look.
    pub tightest: Option<Tightest>,
    /// Whether the quota of the user was read on all sources, so that the space respects it.
    pub is_quota_read: bool,
    /// Speed of one process.
    pub speed: PlaceSpeed,
    /// How many processes get that speed at once.
    pub scalability: u32,
    /// From 0 to 1; higher is better. Only comparable within one search.
    pub score: f64,
    /// What does not suit. Empty: it is suitable.
    pub unmet: Vec<Unmet>,
}

record!(Place { point, kind, uri, sources, tightest, is_quota_read, speed, scalability, score, unmet });

impl Place {
    /// Whether it meets all requirements.
    #[must_use]
    pub const fn is_suitable(&self) -> bool {
        self.unmet.is_empty()
    }

    /// How many processes share a source, on average.
    #[must_use]
    pub fn ranks_per_source(&self, ranks: u32) -> f64 {
        f64::from(ranks) / f64::from(self.sources.max(1))
    }
}
