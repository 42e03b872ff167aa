//! Classes of ranks that see one file, as runs sorted by the hash of its name. Runs are merged on the way up the tree of ranks. Whether two
//! classes may be one file is not decided here.

use std::collections::BTreeMap;

use atta_code::record;
use atta_mounts::Uri;

use crate::ranks::Ranks;

/// The hash of a name: equal on all ranks for one file, as far as its servers are known.
pub(crate) type Key = [u8; 16];

/// Ranks that see one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// The name, as the lowest rank has it.
    pub(crate) uri: Uri,
    pub(crate) size: u32,
    /// The lowest ones, as many as are wanted.
    pub(crate) members: Ranks,
}

record!(Class { uri, size, members } if is_valid);

impl Class {
    fn is_valid(&self) -> bool {
        !self.members.is_empty() && self.members.len() <= u64::from(self.size)
    }

    fn merge(&mut self, other: Self, members_max: u32) {
        if other.members.first() < self.members.first() {
            self.uri = other.uri;
        }
        self.size = self.size.saturating_add(other.size);
        self.members.add(&other.members);
        self.members.truncate(members_max);
    }
}

/// How much of all classes is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The most classes of a run.
    pub(crate) classes_max: u32,
    /// The most members that are named of each.
    pub(crate) members_max: u32,
}

impl Wanted {
    /// All classes with all members.
    pub(crate) const ALL: Self = Self { classes_max: u32::MAX, members_max: u32::MAX };
}

/// Classes by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) classes: BTreeMap<Key, Class>,
    /// There were more than wanted: those with the highest keys are left out.
    pub(crate) is_cut: bool,
}

record!(Run { classes, is_cut });

impl Run {
    /// The class of one rank.
    pub(crate) fn of(uri: Uri, rank: u32) -> Self {
        let class = Class { size: 1, members: Ranks::of(rank), uri };
        Self { classes: [(class.uri.hash(), class)].into(), is_cut: false }
    }

    /// Adds another run. Each of the lowest keys of both is among the lowest of its run, so the result does not depend on the order.
    pub(crate) fn merge(&mut self, other: Self, wanted: Wanted) {
        for (key, class) in other.classes {
            match self.classes.get_mut(&key) {
                Some(own) => own.merge(class, wanted.members_max),
                None => {
                    self.classes.insert(key, class);
                }
            }
        }
        self.is_cut |= other.is_cut;
        while self.classes.len() > wanted.classes_max as usize {
            self.classes.pop_last();
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_mounts::{Host, MountTable, Silent};
    use proptest::prelude::*;

    use super::*;

    /// The name of a file on one of some servers, for which each rank has another name.
    fn uri(server: u8, rank: u32) -> Uri {
        let text = format!("1 0 0:4 / / rw - nfs s{rank}:/e rw,addr=10.0.0.{server}\n");
        let table =
            MountTable::from_bytes(text.as_bytes(), &Silent::on(Host::new(b"boot", b"node"))).unwrap();
        table.uri_of(b"/f").unwrap()
    }

    fn merged(mut runs: Vec<Run>, orders: &[prop::sample::Index], wanted: Wanted) -> Run {
        let mut orders = orders.iter().cycle();
        while runs.len() > 1 {
            let other = runs.swap_remove(orders.next().unwrap().index(runs.len()));
            let at = orders.next().unwrap().index(runs.len());
            runs[at].merge(other, wanted);
        }
        runs.remove(0)
    }

    proptest! {
        // Trees of any shape give the classes that a list of all ranks gives.
        #[test]
        fn runs_do_not_depend_on_the_tree(servers in prop::collection::vec(0_u8..12, 1..60), classes_max in 1_u32..14,
                                          members_max in 1_u32..5, orders in prop::collection::vec(any::<prop::sample::Index>(), 1..50)) {
            let wanted = Wanted { classes_max, members_max };
            let runs = (0..).zip(&servers).map(|(rank, server)| Run::of(uri(*server, rank), rank)).collect();
            let found = merged(runs, &orders, wanted);
            let mut expected: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
            for (rank, server) in (0_u32..).zip(&servers) {
                expected.entry(uri(*server, rank).hash()).or_default().push(rank);
            }
            prop_assert_eq!(found.is_cut, expected.len() > classes_max as usize);
            prop_assert_eq!(found.classes.len(), expected.len().min(classes_max as usize));
            for ((key, class), (expected_key, members)) in found.classes.iter().zip(&expected) {
                prop_assert_eq!(key, expected_key);
                prop_assert_eq!(&class.uri, &uri(servers[members[0] as usize], members[0]));
                prop_assert_eq!(class.size as usize, members.len());
                let lowest: Vec<u32> = members.iter().copied().take(members_max as usize).collect();
                prop_assert_eq!(class.members.iter().collect::<Vec<_>>(), lowest);
            }
        }
    }
}
