//! What is known of a path over all ranks, and the answers that follow from it. Every rank has the same, so that answers need no message.

use crate::class::Key;
use crate::options::Options;
use crate::seen::Reaches;
use crate::verdict::{Group, Groups, Verdict};

/// An answer. Unknown is not a failure: what mount tables say does not decide, and ranks have to try it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is so.
    Yes,
    /// It is not so.
    No,
    /// It may be so.
    Unknown,
}

impl Answer {
    pub(crate) fn of(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }
}

/// The place of a rank among those that see the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The number of groups.
    pub groups: u32,
    /// The number of this rank's group, from 0. Groups are in the order of their lowest ranks.
    pub group: u32,
    /// The number of its ranks.
    pub size: u32,
    /// Its lowest rank.
    pub representative: u32,
    /// How many of its ranks are lower than this one. None: only the lowest ranks of groups are known.
    pub rank_in_group: Option<u64>,
    /// No other group may see the same file.
    pub is_certain: bool,
}

/// A path as all ranks see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    pub(crate) verdict: Verdict,
    /// The key and number of this rank.
    pub(crate) own: (Option<Key>, u32),
    /// The most groups of a poorly distributed file.
    pub(crate) poor_max: u32,
}

impl Distribution {
    pub(crate) fn new(verdict: Verdict, own: (Option<Key>, u32), options: &Options, ranks: u32) -> Self {
        Self { verdict, own, poor_max: options.poor_max(ranks) }
    }

    /// The number of different files that ranks see.
    #[must_use]
    pub fn groups(&self) -> Groups {
        self.verdict.groups
    }

    /// The ranks that see the same file, for each file. Empty: there are more than the options allow. Members are all ranks of a group only where
    /// [`Status::groups`](crate::Status::groups) asked for them.
    #[must_use]
    pub fn list(&self) -> &[Group] {
        &self.verdict.list
    }

    /// Whether all ranks have it on their own hosts.
    #[must_use]
    pub fn is_fully_distributed(&self) -> Answer {
        let Reaches { remote, unknown, .. } = self.verdict.reaches;
        match () {
            () if remote > 0 => Answer::No,
            () if unknown > 0 || self.is_missing() => Answer::Unknown,
            () => Answer::Yes,
        }
    }

    /// Whether it is on many servers, or on all hosts: ranks may read it by themselves.
    #[must_use]
    pub fn is_well_distributed(&self) -> Answer {
        self.is_poorly_distributed().not()
    }

    /// Whether many ranks share a server: fewer of them should read it, and pass it on. The options say how many are many.
    #[must_use]
    pub fn is_poorly_distributed(&self) -> Answer {
        let Groups { low, high, .. } = self.groups();
        let has_few = match () {
            () if self.is_missing() => Answer::Unknown,
            () if high <= self.poor_max => Answer::Yes,
            () if low > self.poor_max => Answer::No,
            () => Answer::Unknown,
        };
        match self.is_fully_distributed() {
            Answer::Yes => Answer::No,
            Answer::Unknown if has_few == Answer::Yes => Answer::Unknown,
            _ => has_few,
        }
    }

    /// Whether all ranks see one file. Ranks of one host see one file also where that is local.
    #[must_use]
    pub fn is_unique(&self) -> Answer {
        let Groups { low, high, .. } = self.groups();
        match () {
            () if self.is_missing() => Answer::Unknown,
            () if high == 1 => Answer::Yes,
            () if low > 1 => Answer::No,
            () => Answer::Unknown,
        }
    }

    /// This rank among those that see the same file. None: there are too many groups, or the path is below no mount here.
    #[must_use]
    pub fn descriptor(&self) -> Option<Descriptor> {
        let (key, rank) = self.own;
        let at = self.list().iter().position(|group| Some(group.key) == key)?;
        let group = &self.list()[at];
        Some(Descriptor {
            groups: self.list().len() as u32,
            group: at as u32,
            size: group.size,
            representative: group.members.first()?,
            rank_in_group: group.members.position(rank),
            is_certain: group.is_certain,
        })
    }

    /// The group of this rank. None: as for the descriptor.
    #[must_use]
    pub fn own_group(&self) -> Option<&Group> {
        self.list().iter().find(|group| Some(group.key) == self.own.0)
    }

    /// Whether an estimate of the number of groups may decide something.
    pub(crate) fn needs_estimate(&self) -> bool {
        let Groups { low, high, .. } = self.groups();
        let may_decide = low <= self.poor_max && high > self.poor_max && self.list().is_empty();
        may_decide && self.is_fully_distributed() != Answer::Yes
    }

    fn is_missing(&self) -> bool {
        self.verdict.missing.is_some()
    }
}
