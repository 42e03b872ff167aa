//! How the list of classes grows with their number.

use atta_sim::{Fit, RankTree};
use atta_status::Distribution;

use crate::ranks::{Asked, Job, Merged, ask, cluster};

/// The list of `classes` classes, of consecutive ranks each.
fn groups(job: Job, classes: u32) -> Asked<u64> {
    let of = |rank: u32| (u64::from(rank) * u64::from(classes) / u64::from(job.ranks)) as u32;
    let checked = |found: Distribution, rank: u32| {
        let own = found.own_group().unwrap();
        assert_eq!(found.list().len(), classes as usize);
        assert!(own.members.contains(rank) && own.members.len() == u64::from(own.size));
        found.list().iter().map(|group| u64::from(group.size)).sum()
    };
    ask(job, &|rank| cluster(of(rank)), |status, seat| {
        Ok(checked(status.groups(seat, b"/m/f")?, atta_status::Collective::rank(seat)))
    })
}

fn compare(ranks: u32, classes_max: u32) {
    let mut points = Vec::new();
    let mut classes = 1;
    while classes <= classes_max {
        let asked = groups(Job::mpi(ranks, RankTree::Binomial), classes);
        assert_eq!(*asked.common(), u64::from(ranks), "each rank is in one class");
        println!("{ranks} ranks, {classes} classes: {:.1} us, {:?}", asked.us, asked.traffic);
        points.push((f64::from(classes), asked.us));
        classes *= 4;
    }
    let fit = Fit::line(&points).unwrap();
    println!(
        "{ranks} ranks: {:.1} us + {:.3} us for each class, R^2 {:.4}",
        fit.constant, fit.slope, fit.r_squared
    );
    assert!(fit.slope > 0.0 && fit.r_squared > 0.99, "{fit:?}");
}

#[test]
fn lists_grow_with_the_number_of_classes() {
    compare(1024, 1024);
}

#[test]
#[ignore = "takes minutes"]
fn lists_of_32768_ranks() {
    compare(32_768, 4096);
}

/// What decoding, merging and encoding takes on this machine: the source of [`atta_sim::StepCosts::QUERIES`]. It judges nothing.
#[test]
#[ignore = "measures"]
fn time_of_merges() {
    for classes in [1, 4, 16, 64, 256, 1024] {
        let asked = groups(Job::mpi(1024, RankTree::Binomial), classes);
        let Merged { messages, bytes, took, .. } = asked.merged;
        println!(
            "{classes} classes: {messages} messages of {} bytes, {:.0} ns each, {:.0} bytes/us",
            bytes / messages,
            took.as_nanos() as f64 / messages as f64,
            bytes as f64 / took.as_secs_f64() / 1e6
        );
    }
}
