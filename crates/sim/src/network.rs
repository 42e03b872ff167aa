//! The network between hosts: hops and latencies. Ranks of a host are consecutive. `traffic.rs` models the waiting for
//! interfaces. Links between switches are never busy.

use atta_engine::{Place, Rank};

/// How hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A single host.
    OneHost,
    /// One switch for all hosts.
    Flat,
    /// A tree of switches whose links have more capacity towards the root.
    FatTree {
        /// Hosts or switches below each switch.
        arity: u32,
    },
    /// A grid in three dimensions with wrap-around.
    Torus {
        /// Hosts in each dimension.
        sides: [u32; 3],
    },
    /// Groups of routers. Each router is linked to all of its group, each group to all others.
    Dragonfly {
        /// Hosts at each router.
        hosts: u32,
        /// Routers in each group.
        routers: u32,
    },
}

impl Topology {
    /// The torus closest to a cube that has room for `hosts`.
    #[must_use]
    pub fn torus(hosts: u32) -> Self {
        let side = (1..).find(|side: &u32| side.pow(3) >= hosts).unwrap_or(1);
        let second = (1..=side).find(|second| side * second * side >= hosts).unwrap_or(side);
        let third = hosts.div_ceil(side * second).max(1);
        Self::Torus { sides: [side, second, third] }
    }

    /// A topology by name, for a number of hosts: `one-host`, `flat`, `fat-tree`, `torus` or `dragonfly`.
    #[must_use]
    pub fn named(name: &str, hosts: u32) -> Option<Self> {
        match name {
            "one-host" => Some(Self::OneHost),
            "flat" => Some(Self::Flat),
            "fat-tree" => Some(Self::FatTree { arity: 32 }),
            "torus" => Some(Self::torus(hosts)),
            "dragonfly" => Some(Self::Dragonfly { hosts: 16, routers: 32 }),
            _ => None,
        }
    }

    /// The number of links between two hosts. 0 from a host to itself.
    #[must_use]
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        if from == to {
            return 0;
        }
        match *self {
            Self::OneHost => 0,
            Self::Flat => 2,
            Self::FatTree { arity } => {
                let (mut from, mut to, mut hops) = (from, to, 0);
                while from != to {
                    (from, to, hops) = (from / arity.max(2), to / arity.max(2), hops + 2);
                }
                hops
            }
            Self::Torus { sides } => {
                let (mut from, mut to, mut hops) = (from, to, 0);
                for side in sides.map(|side| side.max(1)) {
                    let apart = (from % side).abs_diff(to % side);
                    hops += apart.min(side - apart);
                    (from, to) = (from / side, to / side);
                }
                hops + from.abs_diff(to)
            }
            Self::Dragonfly { hosts, routers } => {
                let (from, to) = (from / hosts.max(1), to / hosts.max(1));
                let (same_router, same_group) = (from == to, from / routers.max(1) == to / routers.max(1));
                2 + u32::from(!same_router) + 2 * u32::from(!same_group)
            }
        }
    }
}

/// The network, and the placement of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// How hosts are connected.
    pub topology: Topology,
    /// Ranks on each host.
    pub ranks_per_host: u32,
    /// Time from host to host without the hops: the interfaces on both sides.
    pub base_ns: u64,
    /// Time per hop.
    pub hop_ns: u64,
    /// Bytes per microsecond that leave a host.
    pub bytes_per_us: u64,
    /// Time from rank to rank on one host.
    pub shared_ns: u64,
    /// Bytes per microsecond for copies within a host.
    pub shared_bytes_per_us: u64,
}

impl Network {
    /// The interconnect of a large machine: 1 us for the interfaces, 100 ns per hop, 5 GB/s out of a host. Within a host: half a
    /// microsecond and 8 GB/s.
    #[must_use]
    pub fn interconnect(topology: Topology, ranks_per_host: u32) -> Self {
        Self {
            topology,
            ranks_per_host: ranks_per_host.max(1),
            base_ns: 1_000,
            hop_ns: 100,
            bytes_per_us: 5_000,
            shared_ns: 500,
            shared_bytes_per_us: 8_000,
        }
    }

    /// The host of a rank.
    #[must_use]
    pub fn host(&self, rank: u32) -> u32 {
        rank / self.ranks_per_host
    }

    /// Time from rank to rank, without the part that depends on the length.
    #[must_use]
    pub fn latency_ns(&self, from: u32, to: u32) -> u64 {
        let (from, to) = (self.host(from), self.host(to));
        if from == to {
            self.shared_ns
        } else {
            self.base_ns + self.hop_ns * u64::from(self.topology.hops(from, to))
        }
    }

    /// The place of a rank, for its engine. `with_distances`: includes the order of the other ranks by distance, a list of all.
    #[must_use]
    pub fn place(&self, rank: u32, ranks: u32, with_distances: bool) -> Place {
        let host = self.host(rank);
        let first = host * self.ranks_per_host;
        let end = (first + self.ranks_per_host).min(ranks);
        let place = Place::new(Rank(rank), ranks, (first..end).map(Rank).collect());
        if !with_distances {
            return place;
        }
        // Equally near ranks keep the order of a ring, so that not all ranks begin with the same one.
        let mut outward: Vec<u32> = (1..ranks).map(|step| (rank + step) % ranks).collect();
        outward.retain(|other| self.host(*other) != host);
        outward.sort_by_key(|other| self.topology.hops(host, self.host(*other)));
        place.with_outward(outward.into_iter().map(Rank).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_symmetric_and_zero_to_oneself() {
        for name in ["flat", "fat-tree", "torus", "dragonfly"] {
            let topology = Topology::named(name, 1000).unwrap();
            for (from, to) in [(0, 1), (0, 999), (37, 530), (998, 999)] {
                assert_eq!(topology.hops(from, from), 0);
                assert_eq!(topology.hops(from, to), topology.hops(to, from));
                assert!(topology.hops(from, to) > 0, "{name}");
            }
        }
    }

    #[test]
    fn a_torus_has_room_for_all_and_its_ends_meet() {
        for hosts in [1, 2, 7, 20, 1000, 100_000] {
            let Topology::Torus { sides } = Topology::torus(hosts) else { panic!() };
            assert!(sides.iter().product::<u32>() >= hosts, "{sides:?} for {hosts}");
        }
        let torus = Topology::Torus { sides: [4, 4, 4] };
        assert_eq!(torus.hops(0, 3), 1);
        assert_eq!(torus.hops(0, 2), 2);
        assert_eq!(torus.hops(0, 2 + 4 * 2 + 16 * 2), 6);
    }

    #[test]
    fn the_nearest_hosts_are_asked_first() {
        let network = Network::interconnect(Topology::Torus { sides: [3, 3, 1] }, 2);
        let place = network.place(0, 18, true);
        let hops =
            (0..16).map(|index| network.topology.hops(0, network.host(place.outward(index).unwrap().0)));
        assert!(hops.is_sorted());
    }
}
