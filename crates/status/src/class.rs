//! Classes of ranks that see one file, as runs sorted by the hash of its name. Runs are merged on the way up the tree of ranks. Whether two
//! classes may be one file is not decided here.

use std::collections::BTreeMap;

use atta_code::{Code as _, record};
use atta_mounts::Uri;

use crate::ranks::Ranks;

/// The hash of a name: equal on all ranks for one file, as far as its servers are known.
pub(crate) type Key = [u8; 16];

/// Ranks that see one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// The name, as the lowest rank has it.
    pub(crate) uri: Uri,
    /// The bytes of the name on the rank where it takes most.
    pub(crate) bytes: u32,
    pub(crate) size: u32,
    /// The lowest ones, as many as are wanted.
    pub(crate) members: Ranks,
}

record!(Class { uri, bytes, size, members } if is_valid);

impl Class {
    fn is_valid(&self) -> bool {
        !self.members.is_empty() && self.members.len() <= u64::from(self.size)
    }

    fn merge(&mut self, other: Self, members_max: u32) {
        if other.members.first() < self.members.first() {
            self.uri = other.uri;
        }
        self.bytes = self.bytes.max(other.bytes);
        self.size = self.size.saturating_add(other.size);
        self.members.add(&other.members);
        self.members.truncate(members_max);
    }
}

/// Bytes of a class in a message besides its name and members: key, numbers, and a margin.
const CLASS_BYTES: u64 = 40;
/// Bytes of a member: a range of one.
const MEMBER_BYTES: u64 = 6;

/// How much of all classes is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The most bytes of a run in a message, about.
    pub(crate) bytes_max: u64,
    /// The most classes of a run.
    pub(crate) classes_max: u32,
    /// The most members that are named of each.
    pub(crate) members_max: u32,
}

impl Wanted {
    /// All classes with all members.
    pub(crate) const ALL: Self = Self { bytes_max: u64::MAX, classes_max: u32::MAX, members_max: u32::MAX };
}

/// Classes by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) classes: BTreeMap<Key, Class>,
    /// There were more than wanted: this key and all higher ones are left out.
    pub(crate) cut: Option<Key>,
}

record!(Run { classes, cut });

impl Run {
    /// The class of one rank.
    pub(crate) fn of(uri: Uri, rank: u32, wanted: Wanted) -> Self {
        let bytes = u32::try_from(uri.encoded().len()).unwrap_or(u32::MAX);
        let class = Class { size: 1, members: Ranks::of(rank), bytes, uri };
        let mut run = Self { classes: [(class.uri.hash(), class)].into(), cut: None };
        run.bound(wanted);
        run
    }

    /// Adds another run. What is left out of one run is left out of all that it is merged into, so the result does not depend on the order.
    pub(crate) fn merge(&mut self, other: Self, wanted: Wanted) {
        for (key, class) in other.classes {
            match self.classes.get_mut(&key) {
                Some(own) => own.merge(class, wanted.members_max),
                None => {
                    self.classes.insert(key, class);
                }
            }
        }
        self.cut = self.cut.into_iter().chain(other.cut).min();
        self.bound(wanted);
    }

    /// Leaves out what is more than wanted. Numbers only grow when runs are merged, so that no later run would keep it.
    fn bound(&mut self, wanted: Wanted) {
        if let Some(cut) = self.cut {
            self.classes.split_off(&cut);
        }
        let (mut classes, mut bytes) = (0_u32, 0_u64);
        let is_too_much = |(_, class): &(&Key, &Class)| {
            let members = u64::from(class.size.min(wanted.members_max));
            classes = classes.saturating_add(1);
            bytes = bytes.saturating_add(CLASS_BYTES + u64::from(class.bytes) + MEMBER_BYTES * members);
            classes > wanted.classes_max || bytes > wanted.bytes_max
        };
        if let Some(key) = self.classes.iter().find(is_too_much).map(|(key, _)| *key) {
            self.classes.split_off(&key);
            self.cut = Some(key);
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
            let wanted = Wanted { bytes_max: u64::MAX, classes_max, members_max };
            let runs = (0..).zip(&servers).map(|(rank, server)| Run::of(uri(*server, rank), rank, wanted)).collect();
            let found = merged(runs, &orders, wanted);
            let mut expected: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
            for (rank, server) in (0_u32..).zip(&servers) {
                expected.entry(uri(*server, rank).hash()).or_default().push(rank);
            }
            prop_assert_eq!(found.cut.is_some(), expected.len() > classes_max as usize);
            prop_assert_eq!(found.classes.len(), expected.len().min(classes_max as usize));
            for ((key, class), (expected_key, members)) in found.classes.iter().zip(&expected) {
                prop_assert_eq!(key, expected_key);
                prop_assert_eq!(&class.uri, &uri(servers[members[0] as usize], members[0]));
                prop_assert_eq!(class.size as usize, members.len());
                let lowest: Vec<u32> = members.iter().copied().take(members_max as usize).collect();
                prop_assert_eq!(class.members.iter().collect::<Vec<_>>(), lowest);
            }
        }

        // The names of one class have other lengths on other ranks, and the last merges may be of many runs that were cut.
        #[test]
        fn cut_runs_do_not_depend_on_the_tree(servers in prop::collection::vec(0_u8..12, 1..60), bytes_max in 0_u64..4000,
                                              orders in prop::collection::vec(any::<prop::sample::Index>(), 1..50)) {
            let wanted = Wanted { bytes_max, classes_max: 8, members_max: 3 };
            let runs: Vec<_> =
                (0..).zip(&servers).map(|(rank, server)| Run::of(uri(*server, rank * 7919), rank, wanted)).collect();
            let found = merged(runs.clone(), &orders, wanted);
            let in_order = runs.into_iter().reduce(|mut all, more| {
                all.merge(more, wanted);
                all
            });
            prop_assert_eq!(Some(&found), in_order.as_ref());
            prop_assert!(found.encoded().len() as u64 <= bytes_max + 24, "{} of {}", found.encoded().len(), bytes_max);
        }
    }
}
