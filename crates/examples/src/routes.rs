//! Who reads a path for whom. It follows from the map of mount points, without a message, and each rank computes the same trees.
//!
//! ```text
//!   well distributed: each rank reads      unique: one tree       poorly distributed: a tree for each group
//!          0 1 2 3 4                               0                       0       1
//!                                                 / \                     / \     / \
//!                                                1   2                   2   4   3   5
//! ```

use atta_status::{Answer, MountMap};

/// What a server does with a path that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Each rank opens it for itself, and no server keeps it: it is on many servers, or on each host.
    Direct,
    /// This rank is the root of its tree: it opens it for all ranks below.
    Open,
    /// Ask this rank, the parent in the tree.
    Ask(u32),
}

/// The trees of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'m> {
    map: &'m MountMap,
    rank: u32,
    ranks: u32,
    degree: u32,
}

impl<'m> Routes<'m> {
    /// Trees in which each rank has up to `degree` children, at least one.
    #[must_use]
    pub fn new(map: &'m MountMap, (rank, ranks): (u32, u32), degree: u32) -> Self {
        Self { map, rank, ranks, degree: degree.max(1) }
    }

    /// The route of a path.
    #[must_use]
    pub fn of(&self, path: &[u8]) -> Route {
        let Some(found) = self.map.distribution(path) else { return Route::Direct };
        if found.is_well_distributed() == Answer::Yes {
            return Route::Direct;
        }
        // Too many groups to be listed, and not known to be well distributed: nobody else is known to have this rank's file.
        let Some(group) = found.own_group() else { return Route::Open };
        if group.size == self.ranks {
            return self.at(self.rank.into(), |place| place as u32);
        }
        let Some(root) = group.members.first() else { return Route::Open };
        match group.members.position(self.rank) {
            Some(place) => self.at(place, |place| group.members.iter().nth(place as usize).unwrap_or(root)),
            // The map lists the lowest members of large groups only.
            None => Route::Ask(root),
        }
    }

    /// The parent in the tree of all ranks, none for rank 0, and the number of children.
    #[must_use]
    pub fn of_all(&self) -> (Option<u32>, std::ops::Range<u32>) {
        let parent = self.rank.checked_sub(1).map(|before| before / self.degree);
        let first = self.rank.saturating_mul(self.degree).saturating_add(1).min(self.ranks);
        (parent, first..first.saturating_add(self.degree).min(self.ranks))
    }

    fn at(&self, place: u64, rank_at: impl Fn(u64) -> u32) -> Route {
        place
            .checked_sub(1)
            .map_or(Route::Open, |before| Route::Ask(rank_at(before / u64::from(self.degree))))
    }
}

#[cfg(test)]
mod tests {
    use atta_status::{Options, Status};

    use super::*;
    use crate::hosts::{Site, host_table};
    use crate::job::{Fabric, join, shared};

    const RANKS: u32 = 150;

    /// The routes of all ranks to a file on so many servers, and how many steps each rank is from the one that opens.
    fn routes(servers: u32) -> Vec<(u32, u32)> {
        let ended = Fabric::Threads.run(RANKS, |endpoint| {
            let rank = endpoint.rank();
            let mut session = join(endpoint, "test")?;
            let site = Site::share(&mut session, "routes", |_| Ok(()))?;
            let server = 5 + rank % servers;
            let table = host_table(&site, rank, &[("m", format!("nfs4 10.0.0.{server}:/e rw"))])?;
            let options = Options { ranks_per_server: 50, ..Options::default() };
            let map = MountMap::build(&Status::join(&mut session, &table, options)?, &mut session)?;
            let own = match Routes::new(&map, (rank, RANKS), 4).of(&site.path("m/f")) {
                Route::Direct => None,
                Route::Open => Some(rank),
                Route::Ask(parent) => Some(parent),
            };
            let all = shared(&mut session, own)?;
            session.close((), |(), ()| ())?;
            Ok(all)
        });
        let parents: Vec<u32> =
            ended.expect("no rank fails").into_iter().map(|own| own.expect("a tree")).collect();
        let steps = |rank: u32| {
            let (mut at, mut steps) = (rank, 0);
            while parents[at as usize] != at {
                at = parents[at as usize];
                steps += 1;
                assert!(steps < RANKS, "rank {rank} asks in a circle");
            }
            (at, steps)
        };
        (0..RANKS).map(steps).collect()
    }

    #[test]
    fn unique_file_has_one_tree_of_all_ranks() {
        let found = routes(1);
        assert!(found.iter().all(|(root, _)| *root == 0), "{found:?}");
        // 1 + 4 + 16 + 64 ranks have three levels below the root.
        assert_eq!((found[84].1, found[85].1, found[149].1), (3, 4, 4));
    }

    /// Each group has 75 ranks, of which the map lists 64.
    #[test]
    fn each_rank_asks_within_its_own_group() {
        let found = routes(2);
        assert!((0..).zip(&found).all(|(rank, (root, _))| *root == rank % 2), "{found:?}");
        assert_eq!((found[127].1, found[128].1, found[149].1), (3, 1, 1));
    }
}
