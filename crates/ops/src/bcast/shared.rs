//! Nodes whose directories may be one, for all that their names tell: each has made a partial file, and looks for those of the others.

use std::collections::BTreeSet;

use atta_status::Group;

use super::partial::Partial;

/// The writers whose directory may be that of another one.
pub(crate) fn doubtful(groups: &[Group], writers: &BTreeSet<u32>) -> BTreeSet<u32> {
    let doubtful = groups.iter().filter(|group| !group.is_certain).flat_map(|group| group.members.iter());
    doubtful.filter(|rank| writers.contains(rank)).collect()
}

/// The lowest other writer below this one whose partial file is in the directory of this one. No other process knows its name, and nobody has looked for
/// it here before, so that no client of a server remembers that it was missing.
pub(crate) fn lowest_seen(own: &Partial, doubtful: &BTreeSet<u32>) -> Option<u32> {
    doubtful.iter().copied().take_while(|rank| *rank < own.rank()).find(|rank| own.sees(*rank))
}
