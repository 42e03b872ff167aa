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
}

record!(Findings { by_evidence, others, space });

impl Findings {
    /// What one rank finds for its group.
    fn of(sighting: Sighting, group: Ranks) -> Self {
        let Sighting { evidence, space } = sighting;
        Self { by_evidence: [(evidence, group)].into(), others: 0, space }
    }

    /// The lowest findings stay, in whichever order ranks are merged.
    fn merge(&mut self, more: Self) {
        self.others += more.others;
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
}

impl Inspection {
    /// Whether what ranks find is equal. A path that is absent on all ranks is. Unknown: some ranks cannot say what there is; or the path
    /// is no file and no directory, of which nothing but the kind is compared.
    #[must_use]
    pub fn is_consistent(&self) -> Answer {
        let known = self.findings.iter().filter(|found| found.evidence.is_known()).count();
        match () {
            () if known > 1 || self.others > 0 => Answer::No,
            () if known < self.findings.len() => Answer::Unknown,
            () if self.distribution.is_unique() == Answer::Yes => Answer::Yes,
            () if self.findings.iter().any(|found| matches!(found.evidence, Evidence::Other(_))) => {
                Answer::Unknown
            }
            () => Answer::Yes,
        }
    }

    /// Ranks on which the path does not exist.
    #[must_use]
    pub fn absent(&self) -> Option<&Ranks> {
        self.findings.iter().find(|found| found.evidence == Evidence::Absent).map(|found| &found.ranks)
    }
}

/// Looks at a path on all ranks, which call this together, each with its own path. One rank of each group looks; of a unique path only one does, and
/// no file is read. Otherwise directories are compared by the names in them, and by the contents of the files in them if `contents`
/// says so; files by their sizes and contents.
///
/// # Errors
/// The ranks cannot communicate, or the path is below no mount on one of them.
pub fn inspect<C: Collective>(
    status: &Status<'_>,
    collective: &mut C,
    path: &[u8],
    (looks, contents): (&dyn Looks, bool),
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
    let mut found = find(if is_unique { Detail::Kind } else { Detail::Names })?;
    let reads = match found.only() {
        Some(Evidence::File(..)) => !is_unique,
        Some(Evidence::Directory(_)) => !is_unique && contents,
        _ => false,
    };
    if reads {
        found = find(Detail::Contents)?;
    }
    let findings = found.by_evidence.into_iter().map(|(evidence, ranks)| Finding { evidence, ranks });
    let mut findings: Vec<_> = findings.collect();
    findings.sort_by_key(|found| std::cmp::Reverse(found.ranks.len()));
    Ok(Inspection { distribution, findings, others: found.others, space: found.space })
}
