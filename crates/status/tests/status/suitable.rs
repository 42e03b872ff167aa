//! Scores of mount points, and requirements of speed, scalability and distribution.

use std::collections::BTreeSet;
use std::time::SystemTime;

use atta_mounts::MountTable;
use atta_status::{
    DistributionRequirement, Requirements, ScalabilityRequirement, Speed, SpeedRequirement, Speeds, Unmet,
    candidates, mount_name,
};

use crate::places::{Job, NOTHING, names};
use crate::ranks::Knows;

/// Speeds in MB/s that a rank knows of mount points.
fn speeds(table: &MountTable, of: &[(&str, u64)]) -> Speeds {
    let mut speeds = Speeds::default();
    for (point, write) in of {
        let root = candidates(table).find(|(mount, _)| mount.point == point.as_bytes()).unwrap().1;
        let speed = Speed { write: write * 1_000_000, read: 1 };
        speeds.insert(mount_name(root), speed, SystemTime::UNIX_EPOCH);
    }
    speeds
}

// A.4, checked on the original: 0.25 and 0.05 for memory and disk of one node with 4 ranks.
#[test]
fn scores_are_those_of_the_paper() {
    let score = |point| Job { ranks: 4, ..Job::PLAIN }.at(point).score;
    for (point, expected) in [("/dev/shm", 0.25), ("/", 0.05), ("/home", 0.025), ("/work", 0.1)] {
        assert!((score(point) - expected).abs() < 1e-9, "{point}: {}", score(point));
    }
    // With more ranks for each server a parallel one wins over a disk, and at last over memory of one host.
    assert_eq!(names(&Job { ranks: 4, ..Job::PLAIN }.order())[..3], ["/dev/shm", "/work", "/"]);
    assert_eq!(names(&Job { ranks: 16, ..Job::PLAIN }.order())[..3], ["/dev/shm", "/", "/work"]);
}

// Defect 7: requirements of the distribution were inverted, and FULL was never met.
#[test]
fn distribution_is_as_required() {
    use DistributionRequirement::{Full, High, Low, Unique};
    let suitable = |level| {
        let wanted = move |_| Requirements { distribution: Some(level), ..NOTHING };
        let order = Job { wanted: &wanted, ..Job::PLAIN }.order();
        let (good, bad): (Vec<_>, Vec<_>) = order.into_iter().partition(|(_, unmet)| unmet.is_empty());
        assert!(bad.iter().all(|(_, unmet)| *unmet == [Unmet::Distribution]), "{bad:?}");
        good.into_iter().map(|(point, _)| point).collect::<BTreeSet<_>>()
    };
    let local = BTreeSet::from(["/".to_owned(), "/dev/shm".to_owned()]);
    let shared = BTreeSet::from(["/home".to_owned(), "/images".to_owned(), "/work".to_owned()]);
    assert_eq!((suitable(Unique), suitable(Low)), (shared.clone(), shared));
    assert_eq!((suitable(High), suitable(Full)), (local.clone(), local));
    // Nobody can say whether two hosts see one file system.
    let fuse = |rank| Knows::on(rank).table(&["0:40 / /m rw - fuse.something it rw"]);
    let wanted = |_| Requirements { distribution: Some(Unique), ..NOTHING };
    let found = Job { table: &fuse, wanted: &wanted, ..Job::PLAIN }.at("/m");
    assert_eq!(found.unmet, [Unmet::DistributionUnknown]);
}

#[test]
fn speed_and_scalability_are_as_required() {
    let order = |wanted: Requirements| Job { wanted: &move |_| wanted, ..Job::PLAIN }.order();
    let fast = order(Requirements { speed: Some(SpeedRequirement::High), ..NOTHING });
    assert_eq!(names(&fast)[..2], ["/dev/shm", "/"]);
    assert!(fast[2..].iter().all(|(_, unmet)| *unmet == [Unmet::Speed]));
    let many = order(Requirements { scalability: Some(ScalabilityRequirement::Multi), ..NOTHING });
    assert_eq!(many[0], ("/work".to_owned(), vec![]));
    assert!(many[1..].iter().all(|(_, unmet)| *unmet == [Unmet::Scalability]));
    let any = Requirements {
        speed: Some(SpeedRequirement::Low),
        scalability: Some(ScalabilityRequirement::Single),
        ..NOTHING
    };
    assert!(order(any).iter().all(|(_, unmet)| unmet.is_empty()));
}

#[test]
fn measured_speeds_count_before_those_of_the_table() {
    let known = |rank: u32, table: &MountTable| match rank {
        3 => speeds(table, &[("/home", 400), ("/", 300)]),
        5 => speeds(table, &[("/home", 500), ("/", 250)]),
        _ => Speeds::default(),
    };
    let wanted = |_| Requirements { speed: Some(SpeedRequirement::High), ..NOTHING };
    let (found, _) = Job { speeds: &known, wanted: &wanted, ..Job::PLAIN }.found();
    let place = |point: &[u8]| found.iter().find(|place| place.point == point).unwrap();
    // The slowest that any rank knows.
    assert_eq!(place(b"/home").speed.measured, Some(400_000_000));
    assert_eq!(place(b"/").speed.measured, Some(250_000_000));
    assert_eq!(place(b"/work").speed.measured, None);
    assert!(place(b"/home").is_suitable() && place(b"/").is_suitable());
    assert_eq!(place(b"/work").unmet, [Unmet::Speed], "the table calls it as slow as a small server");
    // 1 of the table is sqrt(400 * 250 / 2) MB/s, so the memory is the fastest with 10 of these.
    let unit = (400.0_f64 * 125.0).sqrt();
    assert!((place(b"/").score - 250.0 / (10.0 * unit) / 4.0).abs() < 1e-9);
    assert!((place(b"/home").score - 400.0 / (10.0 * unit) / 8.0).abs() < 1e-9);
}
