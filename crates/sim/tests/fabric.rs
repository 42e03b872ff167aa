//! The simulated fabric: it conforms whatever the network and the seed, and one seed gives one course of events.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;

use atta_fabric::{Endpoint, FabricError, Fate, conformance, deaths};
use atta_sim::{Network, Simulated, Topology, simulated, simulated_mortal};

/// A network for so many ranks, two on a host, with a delay that mixes what different pairs send.
fn network(topology: &str, ranks: u32) -> (Network, u64) {
    let topology = Topology::named(topology, ranks.div_ceil(2)).unwrap();
    (Network::interconnect(topology, 2), 20_000)
}

/// Runs the conformance test on a thread for each rank; gives the trace and the time of its end.
fn conform(endpoints: Vec<Simulated>) -> (u64, u64) {
    let observer = endpoints[0].observer();
    std::thread::scope(|scope| {
        let run = |mut endpoint: Simulated| {
            conformance(&mut endpoint).unwrap();
            Box::new(endpoint).leave().unwrap();
        };
        let ranks: Vec<_> =
            endpoints.into_iter().map(|endpoint| scope.spawn(move || run(endpoint))).collect();
        ranks.into_iter().for_each(|rank| rank.join().unwrap());
    });
    (observer.trace(), observer.now_ns())
}

#[test]
fn every_network_conforms() {
    let cases = [("one-host", 1), ("flat", 2), ("fat-tree", 5), ("torus", 4), ("dragonfly", 3)];
    for (seed, (topology, ranks)) in (0..).zip(cases) {
        let (network, jitter_ns) = network(topology, ranks);
        conform(simulated(network, ranks, jitter_ns, seed));
        conform(simulated(network, ranks, 0, seed));
    }
}

#[test]
fn ranks_of_every_network_may_die() {
    let cases = [("one-host", 3), ("flat", 4), ("fat-tree", 5), ("torus", 6), ("dragonfly", 3)];
    for (seed, (topology, ranks)) in (0..).zip(cases) {
        let (network, jitter_ns) = network(topology, ranks);
        let run = |mut endpoint: Simulated| {
            let fate = deaths(&mut endpoint).unwrap();
            // A rank that dies is dropped.
            if fate == Fate::Lives {
                Box::new(endpoint).leave().unwrap();
            }
            fate
        };
        let fates: Vec<Fate> = std::thread::scope(|scope| {
            let endpoints = simulated_mortal(network, ranks, jitter_ns, seed).into_iter();
            let running: Vec<_> = endpoints.map(|endpoint| scope.spawn(move || run(endpoint))).collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert_eq!(fates.iter().filter(|fate| **fate == Fate::Dies).count(), 2, "{topology}");
    }
}

// What is delivered when must not depend on how the threads of the ranks are scheduled.
#[test]
fn a_seed_decides_the_course_of_events() {
    let (network, jitter_ns) = network("torus", 3);
    let course = |seed| conform(simulated(network, 3, jitter_ns, seed));
    assert_eq!(course(1), course(1));
    assert_ne!(course(1).0, course(2).0);
}

/// Two ranks send one message each to a third: who comes first?
fn first_of_two(seed: u64) -> u32 {
    let (network, jitter_ns) = network("flat", 6);
    let mut ranks = simulated(network, 6, jitter_ns, seed);
    ranks[2].send(0, vec![2]).unwrap();
    ranks[4].send(0, vec![4]).unwrap();
    let polled = |rank: &mut Simulated| rank.receive().unwrap();
    assert!(ranks.iter_mut().all(|rank| polled(rank).is_none()), "nothing comes before all have polled");
    let from = polled(&mut ranks[0]).unwrap().from;
    assert!(polled(&mut ranks[0]).is_some_and(|other| other.from == 6 - from));
    from
}

#[test]
fn messages_of_two_pairs_come_in_either_order() {
    let seen: BTreeSet<u32> = (0..64).map(first_of_two).collect();
    assert_eq!(seen, BTreeSet::from([2, 4]));
}

#[test]
fn message_travels_while_its_sender_polls() {
    let (network, jitter_ns) = network("flat", 2);
    let mut ranks = simulated(network, 2, jitter_ns, 0);
    assert_eq!(ranks[1].receive().unwrap(), None);
    ranks[0].send(1, vec![7; 10]).unwrap();
    assert_eq!(ranks[0].unsent().unwrap(), 1);
    assert_eq!(ranks[0].unsent().unwrap(), 0, "all wait: the clock moves");
    assert!(ranks[0].observer().now_ns() > 0);
    assert_eq!(ranks[1].receive().unwrap().unwrap().message, [7; 10]);
}

#[test]
fn leaving_and_aborting_are_seen_by_all() {
    let (network, jitter_ns) = network("flat", 3);
    let mut ranks = simulated(network, 3, jitter_ns, 0);
    let mut last = ranks.pop().unwrap();
    last.send(0, vec![1]).unwrap();
    assert_eq!(Box::new(last).leave(), Err(FabricError::Unsent { messages: 1 }));
    assert_eq!(ranks[0].send(2, vec![1]), Err(FabricError::Gone { rank: 2 }));
    assert_eq!(ranks[1].receive().unwrap(), None);
    assert_eq!(ranks[0].receive().unwrap().unwrap().message, [1], "sent before its sender was gone");
    ranks[0].abort(9);
    let aborted = FabricError::Aborted { exit_code: 9 };
    assert_eq!(ranks[1].receive(), Err(aborted.clone()));
    assert_eq!(ranks[1].send(0, vec![]), Err(aborted.clone()));
    assert_eq!(ranks[1].unsent(), Err(aborted.clone()));
    assert_eq!(Box::new(ranks.pop().unwrap()).leave(), Err(aborted));
}
