//! What ranks find under a path, compared: one rank of each group looks, and all learn which ranks find something else. It looks as
//! closely as it must. It does not decide which files are one; names do that (`status.rs`).
//!
//! ```text
//!   groups ──▶ first rank of each: Looks ──▶ reduce: evidence ▶ ranks ──▶ broadcast ──▶ all equal files? digests, in the same way
//! ```

use std::collections::BTreeMap;

use atta_code::record;

use crate::collective::{Collective, concluded};
use crate::distribution::{Answer, Distribution};
use crate::error::StatusError;
use crate::evidence::{Detail, Evidence, Looks, Sighting, Space};
use crate::ranks::Ranks;
use crate::status::Status;

/// Different findings that are named. Of more, the ranks are counted.
const FINDINGS_MAX: usize = 64;

/// Ranks that find the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What they find.
    pub evidence: Evidence,
    /// All of them.
    pub ranks: Ranks,
}

record!(Finding { evidence, ranks });

/// What all ranks find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) by_evidence: BTreeMap<Evidence, Ranks>,
    /// Ranks with a finding that is not named.
    pub(crate) others: u64,
    /// The least available space of all groups, in bytes, with the total of the same.
    pub(crate) space: Option<Space>,
    /// The mark of some group.
    pub(crate) mark: Option<u64>,
    /// A group has another mark, or none.
    pub(crate) marks_differ: bool,
}

record!(Findings { by_evidence, others, space, mark, marks_differ });

impl Findings {
    /// What one rank finds for its group.
    fn of(sighting: Sighting, group: Ranks) -> Self {
        let Sighting { evidence, space, mark } = sighting;
        Self { by_evidence: [(evidence, group)].into(), others: 0, space, mark, marks_differ: mark.is_none() }
    }

    /// The lowest findings stay, in whichever order ranks are merged.
    fn merge(&mut self, more: Self) {
        self.others += more.others;
        self.marks_differ |=
            more.marks_differ || self.mark.zip(more.mark).is_some_and(|(one, two)| one != two);
        self.mark = self.mark.or(more.mark);
        self.space = match (self.space, more.space) {
            (Some(one), Some(two)) => Some(lesser(one, two)),
            (one, two) => one.or(two),
        };
        for (evidence, ranks) in more.by_evidence {
            self.by_evidence.entry(evidence).or_default().add(&ranks);
        }
        while self.by_evidence.len() > FINDINGS_MAX {
            self.others += self.by_evidence.pop_last().map_or(0, |(_, ranks)| ranks.len());
        }
    }

    fn only(&self) -> Option<Evidence> {
        let mut all = self.by_evidence.keys();
        all.next().filter(|_| all.next().is_none()).copied()
    }
}

/// The space that is less, the same in whichever order.
fn lesser(one: Space, two: Space) -> Space {
    let least = if (one.available, one.total) <= (two.available, two.total) { one } else { two };
    Space { is_read_only: one.is_read_only || two.is_read_only, ..least }
}

/// A path as all ranks find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// How it is distributed, with all groups and all of their members.
    pub distribution: Distribution,
    /// What ranks find, the most frequent first. At most 64.
    pub findings: Vec<Finding>,
    /// How many ranks find something that is not among these.
    pub others: u64,
    /// The least space of all groups: on a local file system, that of the host with the least. None: it cannot be asked. Read-only where any is.
    pub space: Option<Space>,
    /// All groups found the same inode, made or changed at the same time.
    is_one_inode: bool,
}

impl Inspection {
    /// Whether all ranks see one file. Where names do not decide, inodes and times do, if they are equal: clients that mount one volume by
    /// different servers. Times and numbers that are not equal say nothing, since clients keep old ones.
    #[must_use]
    pub fn is_unique(&self) -> Answer {
        match self.distribution.is_unique() {
            Answer::Unknown if self.is_one_inode => Answer::Yes,
            answer => answer,
        }
    }

    /// Whether what ranks find is equal. A path that is absent on all ranks is. Unknown: some ranks cannot say what there is, or no more was
    /// compared than kinds and sizes: of what is no file and no directory nothing else can be.
    #[must_use]
    pub fn is_consistent(&self) -> Answer {
        let count =
            |is: fn(&Evidence) -> bool| self.findings.iter().filter(|found| is(&found.evidence)).count();
        let known = count(Evidence::is_known);
        match () {
            () if known > 1 || self.others > 0 => Answer::No,
            () if known < self.findings.len() => Answer::Unknown,
            () if self.is_unique() == Answer::Yes || count(Evidence::is_whole) == known => Answer::Yes,
            () => Answer::Unknown,
        }
    }

    /// Ranks on which the path does not exist.
    #[must_use]
    pub fn absent(&self) -> Option<&Ranks> {
        self.findings.iter().find(|found| found.evidence == Evidence::Absent).map(|found| &found.ranks)
    }
}

/// Looks at a path on all ranks, which call this together, each with its own path. One rank of each group looks; of a unique path only one does, and
/// no file is read. `most`: how closely to compare others. Kind: kinds and sizes. Names: files by their contents, directories by the names in them.
/// Contents: directories by the contents of the files in them, too.
///
/// # Errors
/// The ranks cannot communicate, or the path is below no mount on one of them.
pub fn inspect<C: Collective>(
    status: &Status<'_>,
    collective: &mut C,
    path: &[u8],
    (looks, most): (&dyn Looks, Detail),
) -> Result<Inspection, StatusError<C::Error>> {
    let distribution = status.groups(collective, path)?;
    let rank = collective.rank();
    let group = distribution.own_group().map(|group| group.members.clone());
    let represents = group.filter(|members| members.first() == Some(rank));
    let mut find = |detail| {
        let own = represents.clone().map(|group| Findings::of(looks.look(path, detail), group));
        concluded(collective, own.unwrap_or_default(), Findings::merge, |all| all)
    };
    let is_unique = distribution.is_unique() == Answer::Yes;
    let mut found = find(if is_unique { Detail::Kind } else { most.min(Detail::Names) })?;
    let reads = match found.only() {
        Some(Evidence::File(..)) => !is_unique && most >= Detail::Names,
        Some(Evidence::Directory(_)) => !is_unique && most == Detail::Contents,
        _ => false,
    };
    if reads {
        found = find(Detail::Contents)?;
    }
    let findings = found.by_evidence.into_iter().map(|(evidence, ranks)| Finding { evidence, ranks });
    let mut findings: Vec<_> = findings.collect();
    findings.sort_by_key(|found| std::cmp::Reverse(found.ranks.len()));
    let is_one_inode = found.mark.is_some() && !found.marks_differ;
    Ok(Inspection { distribution, findings, others: found.others, space: found.space, is_one_inode })
}
