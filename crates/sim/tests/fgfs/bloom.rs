//! Servers that are too many to list are estimated, in messages of a bounded length.

use atta_sim::RankTree;
use atta_status::Answer;

use crate::ranks::{Job, ask, cluster};

/// The goal for the estimate.
const ERROR_MAX: f64 = 0.02;

/// Estimates how many clusters ranks have, and returns the bytes of the longest message. Each cluster serves ranks that follow each other.
fn estimate(ranks: u32, clusters: u32) -> u64 {
    let of = |rank: u32| (u64::from(rank) * u64::from(clusters) / u64::from(ranks)) as u32;
    let asked = ask(Job::mpi(ranks, RankTree::Binomial), &|rank| cluster(of(rank)), |status, seat| {
        let found = status.distribution(seat, b"/m/f")?;
        Ok((found.groups(), found.is_well_distributed()))
    });
    let (groups, is_well) = *asked.common();
    let error = f64::from(groups.high.abs_diff(clusters)) / f64::from(clusters);
    println!(
        "{ranks} ranks, {clusters} clusters: {groups:?}, {:.2} % off, {:.1} us, {:?}",
        error * 100.0,
        asked.us,
        asked.traffic
    );
    assert!(groups.is_estimate && groups.low == groups.high, "{groups:?}");
    assert!(error <= ERROR_MAX, "{groups:?}");
    assert_eq!(is_well, Answer::Yes);
    assert_eq!(asked.traffic.messages, 4 * u64::from(ranks - 1), "a run of classes, and a filter");
    asked.traffic.longest
}

#[test]
fn many_servers_are_estimated() {
    // 64 classes of a run take as much as the filter.
    assert!(estimate(8192, 3280) < 8192);
}

#[test]
#[ignore = "takes a minute"]
fn servers_of_a_million_ranks_are_estimated() {
    assert!(estimate(1 << 20, 420_000) <= 150 * 1024);
}
