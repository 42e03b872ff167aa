//! What the first rank concludes from what all ranks see, and sends to all: groups of ranks, and how many there are for certain. Names that may mean one
//! file stay apart, and bound the number from above; what is known to differ bounds it from below.

use atta_code::record;
use atta_mounts::{Relation, Uri};

use crate::class::{Class, Key, Run};
use crate::filter::Estimate;
use crate::ranks::Ranks;
use crate::seen::{Reaches, Seen, is_nfs};

/// Names are compared pair by pair if that takes no more comparisons, of some 100 ns each.
const COMPARISONS_MAX: usize = 1 << 20;

/// The number of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// There are at least so many.
    pub low: u32,
    /// There are at most so many.
    pub high: u32,
    /// The numbers are estimated, within some percent.
    pub is_estimate: bool,
}

record!(Groups { low, high, is_estimate });

/// Ranks that see one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub(crate) key: Key,
    /// How many ranks.
    pub size: u32,
    /// All of them, if groups were asked for; else the lowest ones. The first one is the representative.
    pub members: Ranks,
    /// No other group may see the same file. Where this is false, ranks have to try it out.
    pub is_certain: bool,
}

record!(Group { key, size, members, is_certain } if is_valid);

impl Group {
    fn is_valid(&self) -> bool {
        !self.members.is_empty() && self.members.len() <= u64::from(self.size)
    }
}

/// What all ranks get to know of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) missing: Option<u32>,
    pub(crate) reaches: Reaches,
    pub(crate) groups: Groups,
    /// By their lowest ranks. Empty: there are too many.
    pub(crate) list: Vec<Group>,
    /// Different names are different files.
    pub(crate) all_differ: bool,
}

record!(Verdict { missing, reaches, groups, list, all_differ });

impl Verdict {
    /// `do_servers_differ`: see [`Options::assume_servers_differ`](crate::Options::assume_servers_differ).
    pub(crate) fn of(seen: Seen, ranks: u32, do_servers_differ: bool) -> Self {
        let Seen { missing, reaches, kinds, run } = seen;
        let all_differ = kinds.all_differ(do_servers_differ);
        let compared = Compared::of(&run, do_servers_differ);
        let mut low = compared.low();
        if run.cut.is_some() && all_differ {
            // One more was left out. There may be no other.
            low = low.max(u32::try_from(run.classes.len()).unwrap_or(u32::MAX).saturating_add(1));
        }
        let (groups, list) = if run.cut.is_some() {
            (Groups { low, high: ranks, is_estimate: false }, Vec::new())
        } else {
            let high = u32::try_from(run.classes.len()).unwrap_or(u32::MAX);
            (Groups { low, high, is_estimate: false }, list(run, &compared))
        };
        Self { missing, reaches, groups, list, all_differ }
    }

    /// Takes in an estimate of the number of names, where there are too many.
    pub(crate) fn estimate(&mut self, estimate: Estimate) {
        let Groups { low, high, .. } = self.groups;
        let number = estimate.number.clamp(low, high.max(low));
        // Names that may mean one file may be fewer files. That there is only one, an estimate does not show.
        let low = if self.all_differ { number } else { low };
        let high = if estimate.is_full { high } else { number.max(2).min(high.max(low)) };
        self.groups = Groups { low, high, is_estimate: true };
    }
}

fn list(run: Run, compared: &Compared) -> Vec<Group> {
    let group = |((key, class), is_certain): ((Key, Class), bool)| Group {
        key,
        size: class.size,
        members: class.members,
        is_certain,
    };
    let certain = compared.is_doubtful.iter().map(|is_doubtful| !is_doubtful);
    let mut list: Vec<_> = run.classes.into_iter().zip(certain).map(group).collect();
    list.sort_by_key(|group| group.members.first());
    list
}

/// All classes of a run, compared with each other.
struct Compared {
    /// Those whose relation to another one is unknown.
    is_doubtful: Vec<bool>,
    /// The number of sets, between which all relations are known.
    sets: usize,
    /// Those that are all different from each other.
    definite: usize,
    has_different: bool,
}

impl Compared {
    fn of(run: &Run, do_servers_differ: bool) -> Self {
        let classes: Vec<&Class> = run.classes.values().collect();
        let is_indefinite = |at: &usize| !classes[*at].uri.identity().is_definite();
        let indefinite: Vec<usize> = (0..classes.len()).filter(is_indefinite).collect();
        let definite = classes.len() - indefinite.len();
        let nfs = indefinite.iter().filter(|at| is_nfs(classes[**at].uri.identity())).count();
        let definite = if do_servers_differ { definite.max(nfs) } else { definite };
        if indefinite.len().saturating_mul(classes.len()) > COMPARISONS_MAX {
            let is_doubtful = vec![true; classes.len()];
            return Self { is_doubtful, sets: 1, definite, has_different: definite > 1 };
        }
        let mut sets = Sets::new(classes.len());
        let mut has_different = definite > 1;
        for one in indefinite {
            for other in (0..classes.len()).filter(|other| *other != one) {
                match relation(&classes[one].uri, &classes[other].uri, do_servers_differ) {
                    Relation::Different => has_different = true,
                    // Names of one file have one key, if their servers are known by the same names: that they are the same is not expected.
                    Relation::Unknown | Relation::Same => sets.join(one, other),
                }
            }
        }
        let is_doubtful = sets.is_joined.clone();
        Self { is_doubtful, sets: sets.count(), definite, has_different }
    }

    /// How many files there are at least.
    fn low(&self) -> u32 {
        let different = if self.has_different { 2 } else { 1 };
        u32::try_from(self.sets.max(self.definite).max(different)).unwrap_or(u32::MAX)
    }
}

fn relation(one: &Uri, other: &Uri, do_servers_differ: bool) -> Relation {
    match one.relation(other) {
        Relation::Unknown if do_servers_differ && is_nfs(one.identity()) && is_nfs(other.identity()) => {
            Relation::Different
        }
        relation => relation,
    }
}

/// Sets of classes that may be one file.
struct Sets {
    parents: Vec<usize>,
    is_joined: Vec<bool>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self { parents: (0..count).collect(), is_joined: vec![false; count] }
    }

    fn top(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        (self.is_joined[one], self.is_joined[other]) = (true, true);
        let (one, other) = (self.top(one), self.top(other));
        self.parents[one.max(other)] = one.min(other);
    }

    fn count(&self) -> usize {
        self.parents.iter().enumerate().filter(|(at, parent)| at == *parent).count()
    }
}

#[cfg(test)]
mod tests {
    use atta_mounts::{Aliases, Host, MountTable, Silent};

    use super::*;
    use crate::class::Wanted;
    use crate::seen::named;

    /// What ranks see of which the first have buckets, and the others servers with names that nobody can resolve.
    fn seen(buckets: u32, names: u32, classes_max: u32) -> Verdict {
        let server = |rank: u32| match rank < buckets {
            true => format!("fuse.goofys b{rank}"),
            false => format!("nfs s{rank}:/e"),
        };
        let line = |rank: u32| format!("{} 1 0:{rank} / /m{rank} rw - {} rw\n", rank + 2, server(rank));
        let text: String = (0..buckets + names).map(line).collect();
        let text = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{text}");
        let table =
            MountTable::from_bytes(text.as_bytes(), &Silent::on(Host::new(b"boot", b"node"))).unwrap();
        let aliases = Aliases::of(&table);
        let mut all = Seen::default();
        let wanted = Wanted { classes_max, members_max: 1, ..Wanted::ALL };
        for rank in 0..buckets + names {
            let named = named(&table, &aliases, format!("/m{rank}").as_bytes());
            all.merge(Seen::of(named, rank, wanted), wanted);
        }
        Verdict::of(all, buckets + names, false)
    }

    fn bounds(verdict: &Verdict) -> (u32, u32) {
        (verdict.groups.low, verdict.groups.high)
    }

    #[test]
    fn definite_names_bound_the_number_from_below() {
        assert_eq!(bounds(&seen(5, 0, 100)), (5, 5));
        assert_eq!(bounds(&seen(5, 3, 100)), (5, 8));
        assert_eq!(bounds(&seen(0, 3, 100)), (1, 3));
        assert_eq!(bounds(&seen(1, 3, 100)), (1, 4));
        // One more is left out.
        assert_eq!(bounds(&seen(5, 0, 4)), (5, 5));
        assert_eq!(bounds(&seen(9, 0, 4)), (5, 9));
        assert_eq!(bounds(&seen(0, 9, 4)), (1, 9));
    }

    #[test]
    fn too_many_names_are_not_compared() {
        let many = seen(1000, 1100, u32::MAX);
        assert_eq!(bounds(&many), (1000, 2100));
        assert!(many.list.len() == 2100 && many.list.iter().all(|group| !group.is_certain));
        let few = seen(1000, 0, u32::MAX);
        assert!(few.list.iter().all(|group| group.is_certain));
    }
}
