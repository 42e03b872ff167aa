//! The queries, the descriptor and multicasts, on fabrics of one to 16 ranks.

use atta_mounts::MountTable;
use atta_sim::{Network, Topology, simulated};
use atta_status::{Answer, Collective, Distribution, Groups, Options, Status, StatusError};

use crate::ranks::{Knows, mounted, on_endpoints, on_ranks};
use Answer::{No, Unknown, Yes};

const PATH: &[u8] = b"/m/f";

/// Fully, well, poorly distributed, unique.
pub(crate) fn answers(found: &Distribution) -> [Answer; 4] {
    [
        found.is_fully_distributed(),
        found.is_well_distributed(),
        found.is_poorly_distributed(),
        found.is_unique(),
    ]
}

/// How `/m/f` is distributed: each rank has its own table. All ranks get the same answers, also from single queries.
pub(crate) fn distribution(
    ranks: u32,
    options: Options,
    table: impl Fn(u32) -> MountTable + Sync,
) -> Distribution {
    let mut found = on_ranks(ranks, |rank, session| {
        let table = table(rank);
        let status = Status::join(session, &table, options).unwrap();
        let found = status.distribution(session, PATH).unwrap();
        let single = [
            status.is_fully_distributed(session, PATH).unwrap(),
            status.is_well_distributed(session, PATH).unwrap(),
            status.is_poorly_distributed(session, PATH).unwrap(),
            status.is_unique(session, PATH).unwrap(),
        ];
        assert_eq!(single, answers(&found));
        found
    });
    let first = found.remove(0);
    for other in found {
        assert_eq!((other.list(), other.groups()), (first.list(), first.groups()));
        assert_eq!(answers(&other), answers(&first));
    }
    first
}

fn per_server(ranks_per_server: u32) -> Options {
    Options { ranks_per_server, ..Options::default() }
}

#[test]
fn one_export_is_one_file_for_all_ranks() {
    for ranks in [1, 2, 3, 7, 16] {
        let found = distribution(ranks, Options::default(), |rank| mounted(rank, "nfs4 10.0.0.5:/e rw"));
        assert_eq!(answers(&found), [No, No, Yes, Yes], "{ranks}");
        assert_eq!((found.groups().low, found.groups().high), (1, 1));
        assert_eq!((found.list()[0].size, found.list()[0].is_certain), (ranks, true));
    }
}

#[test]
fn local_files_are_fully_distributed() {
    for ranks in [2, 5, 16] {
        let found = distribution(ranks, Options::default(), |rank| mounted(rank, "tmpfs none rw"));
        assert_eq!(answers(&found), [Yes, Yes, No, No], "{ranks}");
        assert_eq!(found.list().len(), ranks as usize);
    }
    // Of more than 64 it is known that they differ.
    let many = distribution(80, Options::default(), |rank| mounted(rank, "tmpfs none rw")).groups();
    assert_eq!((many.low, many.high, many.is_estimate), (65, 80, false));
    // One host: each rank has it on its host, and all see one file.
    let found = distribution(4, Options::default(), |_| mounted(7, "tmpfs none rw"));
    assert_eq!(answers(&found), [Yes, Yes, No, Yes]);
}

// Defect 7: the answer for the threshold was inverted.
#[test]
fn threshold_divides_well_from_poorly() {
    let on_four = |rank: u32| mounted(rank, &format!("fuse.goofys b{} rw", rank % 4));
    // Up to 16 / 4 servers are few.
    for (ranks_per_server, expected) in [(1, Yes), (4, Yes), (5, No), (64, No), (0, Yes)] {
        let found = distribution(16, per_server(ranks_per_server), on_four);
        assert_eq!(answers(&found), [No, if expected == Yes { No } else { Yes }, expected, No]);
        assert_eq!(found.list().len(), 4);
    }
}

#[test]
fn one_remote_rank_is_enough_to_be_not_local() {
    let table = |rank| mounted(rank, if rank == 9 { "nfs4 10.0.0.5:/e rw" } else { "tmpfs none rw" });
    assert_eq!(answers(&distribution(16, Options::default(), table)), [No, Yes, No, No]);
}

#[test]
fn descriptor_places_each_rank_in_its_group() {
    // Groups 0, 3, 6, ... and 1, 4, 7, ... and 2, 5, 8, ...
    let descriptors = on_ranks(16, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{} rw", 9 - rank % 3));
        let status = Status::join(session, &table, Options::default()).unwrap();
        let found = status.groups(session, PATH).unwrap();
        let members: Vec<u32> = found.own_group().unwrap().members.iter().collect();
        assert_eq!(members, (0..16).filter(|other| other % 3 == rank % 3).collect::<Vec<_>>());
        found.descriptor().unwrap()
    });
    for (rank, found) in (0_u32..).zip(descriptors) {
        let size = if rank % 3 == 0 { 6 } else { 5 };
        assert_eq!((found.groups, found.group, found.size), (3, rank % 3, size));
        assert_eq!((found.representative, found.rank_in_group), (rank % 3, Some(u64::from(rank / 3))));
        assert!(found.is_certain);
    }
}

// Who sees a file with more than 64 others knows its place only if all members were asked for.
#[test]
fn members_of_large_groups_are_asked_for() {
    let places = on_ranks(80, |rank, session| {
        let table = mounted(rank, "nfs4 10.0.0.5:/e rw");
        let status = Status::join(session, &table, Options::default()).unwrap();
        let few = status.distribution(session, PATH).unwrap();
        assert_eq!((few.list()[0].size, few.list()[0].members.len()), (80, 64));
        let all = status.groups(session, PATH).unwrap();
        (few.descriptor().unwrap().rank_in_group, all.descriptor().unwrap().rank_in_group)
    });
    for (rank, places) in (0..).zip(places) {
        assert_eq!(places, ((rank < 64).then_some(rank), Some(rank)));
    }
}

#[test]
fn representatives_send_to_their_groups() {
    // The second group has 18 ranks, so that its tree is two levels high. Rank 3 is in none.
    let received = on_ranks(40, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{} rw", rank % 2));
        let status = Status::join(session, &table, Options::default()).unwrap();
        let found = status.groups(session, PATH).unwrap();
        let mut group = found.own_group().unwrap().members.clone();
        let others = atta_status::Ranks::of(3);
        if rank % 2 == 1 {
            let kept = group.iter().filter(|member| !others.contains(*member));
            group = kept.fold(atta_status::Ranks::default(), |mut all, member| {
                all.add(&atta_status::Ranks::of(member));
                all
            });
        }
        if rank == 3 {
            group = atta_status::Ranks::default();
        }
        let value = (group.first() == Some(rank)).then(|| format!("of {rank}"));
        let first = Collective::multicast(session, &group, value.clone()).unwrap();
        assert_eq!(Collective::multicast(session, &group, value).unwrap(), first);
        first
    });
    for (rank, received) in received.into_iter().enumerate() {
        let expected = (rank != 3).then(|| format!("of {}", rank % 2));
        assert_eq!(received, expected, "rank {rank}");
    }
}

#[test]
fn path_without_a_mount_is_an_error_on_all_ranks() {
    let errors = on_ranks(5, |rank, session| {
        let root = if [3, 4].contains(&rank) { "/other" } else { "/" };
        let text = format!("1 0 8:1 / {root} rw - ext4 /dev/sda1 rw\n");
        let table = MountTable::from_bytes(text.as_bytes(), &Knows::on(rank)).unwrap();
        let status = Status::join(session, &table, Options::default()).unwrap();
        matches!(status.is_unique(session, PATH), Err(StatusError::NoMount { rank: 3 }))
    });
    assert_eq!(errors, [true; 5]);
}

#[test]
fn options_of_the_first_rank_count() {
    let answers = on_ranks(4, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{rank} rw"));
        let options = if rank == 0 { per_server(1) } else { per_server(64) };
        let status = Status::join(session, &table, options).unwrap();
        status.is_poorly_distributed(session, PATH).unwrap()
    });
    assert_eq!(answers, [Yes; 4]);
}

// Defect 11: one static state for each process.
#[test]
fn several_tables_are_asked_side_by_side() {
    let found = on_ranks(3, |rank, session| {
        let (here, there) = (mounted(rank, "tmpfs none rw"), mounted(rank, "nfs4 10.0.0.5:/e rw"));
        let one = Status::join(session, &here, Options::default()).unwrap();
        let two = Status::join(session, &there, Options::default()).unwrap();
        [&one, &two, &one].map(|status| status.is_unique(session, PATH).unwrap())
    });
    assert_eq!(found, [[No, Yes, No]; 3]);
}

// As FGFS has it: NFS from several servers may be well distributed.
#[test]
fn servers_may_be_taken_for_different_ones() {
    let assumed = Options { ranks_per_server: 5, assume_servers_differ: true, ..Options::default() };
    let on_four = |rank: u32| mounted(rank, &format!("nfs4 10.0.0.{}:/e rw", rank % 4));
    let unknown = Options { assume_servers_differ: false, ..assumed };
    assert_eq!(answers(&distribution(16, unknown, on_four)), [No, Unknown, Unknown, Unknown]);
    let found = distribution(16, assumed, on_four);
    assert_eq!((answers(&found), found.list().len()), ([No, Yes, No, No], 4));
    assert!(found.list().iter().all(|group| group.is_certain));
    // More than are listed.
    let few = Options { classes_max: 2, ..assumed };
    let found = distribution(40, few, |rank| mounted(rank, &format!("nfs4 10.0.0.{}:/e rw", rank % 12)));
    assert_eq!((answers(&found), found.groups().is_estimate), ([No, Yes, No, No], true));
    // One server by its name and address stays one, and others stay unknown.
    for (even, odd, expected) in [
        ("nfs4 srv:/e rw,addr=10.0.0.1", "nfs4 10.0.0.1:/e rw", Yes),
        ("nfs4 srv:/e rw", "cifs //srv/e rw", Unknown),
        ("nfs4 srv:/e rw", "tmpfs none rw", Unknown),
        ("nfs4 localhost:/e rw", "nfs4 localhost:/e rw", Unknown),
        ("fuse.glusterfs g1:v rw", "fuse.glusterfs g2:v rw", Unknown),
    ] {
        let table = |rank: u32| mounted(rank % 2, if rank.is_multiple_of(2) { even } else { odd });
        assert_eq!(distribution(4, assumed, table).is_unique(), expected, "{even}, {odd}");
        // With more than are listed, none is known to differ.
        let cut = distribution(4, Options { classes_max: 1, ..assumed }, table);
        assert_eq!(cut.is_unique(), expected, "{even}, {odd}");
    }
}

#[test]
fn queries_run_over_simulated_networks() {
    for (topology, ranks, per_host) in [("flat", 5, 1), ("fat-tree", 12, 2), ("torus", 8, 2)] {
        let topology = Topology::named(topology, u32::div_ceil(ranks, per_host)).unwrap();
        let network = Network::interconnect(topology, per_host);
        let found = on_endpoints(simulated(network, ranks, 50_000, 7), |rank, session| {
            let table = mounted(rank, &format!("fuse.goofys b{} rw", rank % 2));
            let status = Status::join(session, &table, Options::default()).unwrap();
            let found = status.groups(session, PATH).unwrap();
            (answers(&found), found.descriptor().unwrap().rank_in_group)
        });
        for (rank, found) in (0_u64..).zip(found) {
            assert_eq!(found, ([No, Yes, No, No], Some(rank / 2)), "{topology:?}");
        }
    }
}

#[test]
fn too_many_groups_are_estimated() {
    // 12 servers; more than 3 are not counted exactly, and up to 20 are few.
    let options = Options { ranks_per_server: 2, classes_max: 3, ..Options::default() };
    let table = |rank: u32| mounted(rank, &format!("fuse.goofys b{} rw", rank % 12));
    let found = distribution(40, options, table);
    let groups = found.groups();
    assert!(groups.is_estimate && (11..=13).contains(&groups.high), "{groups:?}");
    assert_eq!(groups.low, groups.high);
    assert_eq!(answers(&found), [No, No, Yes, No]);
    assert!(found.list().is_empty() && found.descriptor().is_none());
    // Up to 8 are few.
    let found = distribution(40, Options { ranks_per_server: 5, ..options }, table);
    assert_eq!((found.groups().is_estimate, answers(&found)), (true, [No, Yes, No, No]));
    // All may be few.
    let found = distribution(40, Options { ranks_per_server: 1, ..options }, table);
    assert_eq!((found.groups().is_estimate, answers(&found)), (false, [No, No, Yes, No]));
    // Few enough to know without an estimate: up to 2 are few, and there are more than 3.
    let found = distribution(40, Options { ranks_per_server: 16, ..options }, table);
    assert_eq!((found.groups().is_estimate, found.groups().low), (false, 4));
    assert_eq!(answers(&found), [No, Yes, No, No]);
}

// Defect 9: a filter without a free bit.
#[test]
fn full_filter_leaves_the_number_open() {
    // 32 bits for 200 servers. It can count up to 55, and up to 100 are few.
    let options = Options { ranks_per_server: 2, classes_max: 1, servers_max: 1, ..Options::default() };
    let found = distribution(200, options, |rank| mounted(rank, &format!("fuse.goofys b{rank} rw")));
    let Groups { low, high, is_estimate } = found.groups();
    assert_eq!((low, high, is_estimate), (55, 200, true));
    assert_eq!(answers(&found), [No, Unknown, Unknown, No]);
}
