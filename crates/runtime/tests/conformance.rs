//! The job that every fabric must carry, over ranks within this process and over simulated networks. Over real MPI it runs
//! in `crates/mpi-loader/tests/launch.rs`.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use atta_fabric::{Endpoint, in_process_on_hosts};
use atta_runtime::conformance::{abort_reaches_all, conformance};
use atta_sim::{Network, Topology, simulated};

/// Ranks on hosts: all on one, each on its own, and mixed.
const HOSTS: [&[u32]; 5] = [&[0], &[0, 1], &[0, 0, 0], &[0, 0, 1, 1, 2], &[0, 1, 2, 3, 4, 5, 5, 5]];

/// Simulated networks with so many ranks, so many of them on a host.
const NETWORKS: [(&str, u32, u32); 6] = [
    ("one-host", 1, 1),
    ("flat", 2, 1),
    ("one-host", 3, 3),
    ("fat-tree", 5, 2),
    ("dragonfly", 5, 1),
    ("torus", 8, 2),
];

/// Runs something on a thread for each rank.
fn on_threads<E: Endpoint>(endpoints: Vec<E>, run: impl Fn(E) + Sync) {
    std::thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = endpoints.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        ranks.into_iter().for_each(|rank| rank.join().unwrap());
    });
}

fn conform<E: Endpoint>(endpoints: Vec<E>, seed: u64) {
    on_threads(endpoints, |mut endpoint| {
        // The others would wait for a rank that is gone.
        conformance(&mut endpoint, seed).inspect_err(|_| endpoint.abort(4)).unwrap();
        Box::new(endpoint).leave().unwrap();
    });
}

fn networks() -> impl Iterator<Item = (Network, u32)> {
    NETWORKS.into_iter().map(|(topology, ranks, per_host)| {
        let topology = Topology::named(topology, ranks.div_ceil(per_host)).unwrap();
        (Network::interconnect(topology, per_host), ranks)
    })
}

#[test]
fn jobs_conform_within_a_process() {
    for (seed, hosts) in (1..).zip(HOSTS) {
        conform(in_process_on_hosts(hosts), seed * 100);
    }
}

#[test]
fn jobs_conform_over_simulated_networks() {
    for (seed, (network, ranks)) in (1..).zip(networks()) {
        conform(simulated(network, ranks, 50_000, seed), seed * 100);
    }
}

#[test]
fn an_abort_reaches_all_within_a_process() {
    for hosts in HOSTS {
        on_threads(in_process_on_hosts(hosts), |mut rank| abort_reaches_all(&mut rank).unwrap());
    }
}

#[test]
fn an_abort_reaches_all_over_simulated_networks() {
    for (seed, (network, ranks)) in (1..).zip(networks()) {
        let endpoints = simulated(network, ranks, 50_000, seed);
        on_threads(endpoints, |mut rank| abort_reaches_all(&mut rank).unwrap());
    }
}
