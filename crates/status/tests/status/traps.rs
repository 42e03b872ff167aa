//! Where the original FGFS gives a wrong answer or dies: each of its defects that concerns queries. Unknown is an answer here.

use atta_mounts::MountTable;
use atta_status::{Answer, Options, Status};

use crate::queries::{answers, distribution};
use crate::ranks::{Knows, mounted, on_ranks};
use Answer::{No, Unknown, Yes};

fn found(ranks: u32, table: impl Fn(u32) -> MountTable + Sync) -> atta_status::Distribution {
    distribution(ranks, Options::default(), table)
}

/// Two mounts, on ranks with even and odd numbers, each on its own host: the answers, and the fewest and most files.
fn two(even: &str, odd: &str) -> ([Answer; 4], u32, u32) {
    let found = found(6, |rank| mounted(rank, if rank % 2 == 0 { even } else { odd }));
    (answers(&found), found.groups().low, found.groups().high)
}

// Defect 1: both exports were one "unique" file.
#[test]
fn two_exports_of_one_server_are_not_unique() {
    for (even, odd) in [
        ("nfs4 10.0.0.5:/exportA rw,addr=10.0.0.5", "nfs4 10.0.0.5:/exportB rw,addr=10.0.0.5"),
        ("nfs4 srv:/exportA rw", "nfs4 srv:/exportB rw"),
        ("cifs //srv/a rw", "cifs //srv/b rw"),
        ("lustre 10.0.0.5@tcp:/a rw", "lustre 10.0.0.5@tcp:/b rw"),
    ] {
        assert_eq!(two(even, odd), ([No, Yes, No, No], 2, 2), "{even}");
    }
}

// Defect 2: it crashed.
#[test]
fn names_that_do_not_resolve_are_unknown() {
    assert_eq!(two("nfs4 one:/e rw", "nfs4 two:/e rw"), ([No, Unknown, Unknown, Unknown], 1, 2));
    // One of them may export what it has from the other one.
    assert_eq!(two("nfs4 one:/e rw", "nfs4 two:/f rw"), ([No, Unknown, Unknown, Unknown], 1, 2));
    let found = found(4, |rank| mounted(rank, &format!("nfs4 s{}:/e rw", rank % 2)));
    assert!(found.list().iter().all(|group| !group.is_certain && group.size == 2));
    assert!(!found.descriptor().unwrap().is_certain);
}

// Three names of which two differ for certain are not one file, although each may be the third.
#[test]
fn unknown_names_do_not_join_different_ones() {
    let mounts = ["fuse.goofys a rw", "nfs4 srv:/e rw", "fuse.goofys b rw"];
    let found = found(6, |rank| mounted(rank, mounts[rank as usize % 3]));
    assert_eq!((found.groups().low, found.groups().high), (2, 3));
    assert_eq!(answers(&found), [No, Yes, No, No]);
}

// A name that each host has for itself, or for a tunnel, is no server that hosts share. Nor is one of which each host knows an address of another
// family.
#[test]
fn names_do_not_join_addresses_by_themselves() {
    for (even, odd) in [
        ("nfs4 data:/e rw,addr=127.0.0.1", "nfs4 data:/e rw,addr=127.0.0.1"),
        ("nfs4 nas:/e rw,addr=fe80::1", "nfs4 nas:/e rw,addr=fe80::1"),
        ("nfs4 nas:/e rw,addr=10.0.0.5", "nfs4 nas:/e rw,addr=fd00::9"),
    ] {
        assert_eq!(two(even, odd).0[3], Unknown, "{even}, {odd}");
    }
}

// Round robin, which mounts elsewhere show: ranks that have nothing but the name may have other servers than each other.
#[test]
fn name_of_several_servers_is_no_server() {
    for mount in ["9p filers rw,trans=tcp,aname=/e", r"fuse mfs\043filers:9421 rw", "nfs4 filers:/e rw"] {
        let found = found(6, |rank| {
            let elsewhere = format!("0:41 / /n rw - nfs4 filers:/x rw,addr=10.0.0.{}", rank % 2 + 1);
            // Two ranks on each host.
            Knows::on(rank / 2).table(&[&format!("0:40 / /m rw - {mount}"), &elsewhere])
        });
        assert_eq!(answers(&found), [No, Unknown, Unknown, Unknown], "{mount}");
        let sizes: Vec<_> = found.list().iter().map(|group| (group.size, group.is_certain)).collect();
        assert_eq!(sizes, [(2, false); 3], "{mount}");
    }
}

// Stacks of any depth: one rank with a name that others cannot decode made the query fail on all.
#[test]
fn deep_stacks_on_one_rank_are_unknown() {
    let overlay = |at: u32| format!("0:{} / /o{at} ro - overlay o ro,lowerdir=/o{}", 50 + at, at - 1);
    let found = found(3, |rank| {
        let top = if rank == 1 {
            "0:40 / /m ro - overlay o ro,lowerdir=/o9"
        } else {
            "0:40 / /m rw - nfs4 srv:/e rw"
        };
        let lines: Vec<_> = (1..10).map(overlay).chain([top.to_owned()]).collect();
        Knows::on(rank).table(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    });
    assert_eq!((found.is_unique(), found.groups().high), (Unknown, 2));
}

// Defect 3: ranks died where a name and an address of one server were found. Only two names were compared, and only IPv4.
#[test]
fn aliases_of_all_ranks_are_joined() {
    let table = |rank: u32| match rank % 5 {
        0 => mounted(rank, "nfs4 srv:/e rw"),
        1 => mounted(rank, "nfs4 10.0.0.5:/e rw"),
        2 => mounted(rank, "nfs4 [fd00::5]:/e rw"),
        3 => Knows::on(rank).address("srv", &["fd00::5"]).table(&["0:40 / /m rw - nfs4 srv:/e rw"]),
        _ => mounted(rank, "nfs4 srv.example.org:/e rw,addr=10.0.0.5"),
    };
    // Nobody knows that 10.0.0.5 is srv.
    let apart = found(16, table);
    assert_eq!((apart.groups().low, apart.groups().high, apart.is_unique()), (1, 2, Unknown));
    // A mount elsewhere on one rank shows it.
    let joined = found(16, |rank| match rank {
        11 => Knows::on(rank)
            .address("srv", &["10.0.0.5", "fd00::5"])
            .table(&["0:40 / /m rw - nfs4 10.0.0.5:/e rw", "0:41 / /n rw - nfs4 srv:/other rw"]),
        rank => table(rank),
    });
    assert_eq!(answers(&joined), [No, No, Yes, Yes]);
}

#[test]
fn loopback_addresses_are_unknown_between_hosts() {
    let mount = "nfs4 127.0.0.1:/e rw,addr=127.0.0.1";
    assert_eq!(two(mount, mount).0[3], Unknown);
    // `localhost` and 127.0.0.1 of one host are one server.
    let found =
        found(4, |rank| mounted(1, if rank == 0 { mount } else { "nfs4 localhost:/e rw,addr=127.0.0.1" }));
    assert_eq!(found.is_unique(), Yes);
}

// Defect 4: the first mount on a directory counted.
#[test]
fn last_mount_of_a_stack_counts() {
    let (hidden, top) = ("0:40 / /m rw - tmpfs a rw", "0:41 / /m rw - nfs4 10.0.0.5:/e rw");
    // As the kernel writes it, the second one is mounted on the first.
    let table = |rank: u32| {
        let text = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 {hidden}\n3 2 {top}\n");
        MountTable::from_bytes(text.as_bytes(), &Knows::on(rank)).unwrap()
    };
    assert_eq!(answers(&found(4, table)), [No, No, Yes, Yes]);
}

// Defect 5: a bind mount was a device of its own.
#[test]
fn bind_mount_is_the_directory_that_it_shows() {
    let table = |rank: u32| match rank % 2 {
        0 => mounted(rank, "nfs4 10.0.0.5:/e rw"),
        _ => Knows::on(rank).table(&["0:40 /d /m rw - nfs4 10.0.0.5:/e rw"]),
    };
    let unique = |path: &'static str| {
        on_ranks(4, |rank, session| {
            let table = table(rank);
            let status = Status::join(session, &table, Options::default()).unwrap();
            let path = if rank % 2 == 0 { path } else { "/m/f" };
            status.is_unique(session, path.as_bytes()).unwrap()
        })
    };
    assert_eq!(unique("/m/d/f"), [Yes; 4]);
    assert_eq!(unique("/m/f"), [No; 4]);
}

// Defect 6: `..` and double slashes led to another file.
#[test]
fn spellings_of_a_path_are_one() {
    let paths = ["/m/f", "/r/../m/f", "/m//f", "/m/./f/"];
    let answers = on_ranks(4, |rank, session| {
        let table = mounted(rank, "nfs4 10.0.0.5:/e rw");
        let status = Status::join(session, &table, Options::default()).unwrap();
        status.is_unique(session, paths[rank as usize].as_bytes()).unwrap()
    });
    assert_eq!(answers, [Yes; 4]);
}

// A.3: file systems that were not known were taken for local ones, the reverse of the truth.
#[test]
fn shared_file_systems_are_not_taken_for_local() {
    for mount in [
        "ceph me@aaaa-01.fs=/ rw",
        "fuse.glusterfs g1:v1 rw",
        "beegfs beegfs_nodev rw,cfgFile=/e,sysMgmtdHost=10.0.0.7",
        "gpfs gpfs1 rw,dev=a:b",
    ] {
        assert_eq!(two(mount, mount).0[0], No, "{mount}");
    }
    assert_eq!(two("ceph me@aaaa-01.fs=/ rw", "ceph you@aaaa-01.fs=/ rw").0, [No, No, Yes, Yes]);
}

// Any server of a pool can be named.
#[test]
fn servers_of_a_pool_may_lead_to_one_volume() {
    let found = two("fuse.glusterfs 10.0.0.5:v1 rw", "fuse.glusterfs 10.0.0.6:v1 rw");
    assert_eq!(found, ([No, Unknown, Unknown, Unknown], 1, 2));
}

#[test]
fn unknown_file_systems_have_no_sure_answer() {
    let mount = "fuse.something it rw";
    assert_eq!(two("fuse.s3fs s3fs rw", "fuse.s3fs s3fs rw"), ([No, Unknown, Unknown, Unknown], 1, 6));
    assert_eq!(two(mount, mount), ([Unknown; 4], 1, 6));
    // What one kernel mounts with one number is one file system.
    let found = found(4, |_| mounted(1, mount));
    assert_eq!(answers(&found), [Unknown, Unknown, Unknown, Yes]);
}

// A false merge: what one host cannot tell apart is not one file for all.
#[test]
fn equal_local_devices_are_different_files() {
    assert_eq!(two("ext4 /dev/sdb1 rw", "ext4 /dev/sdb1 rw").0, [Yes, Yes, No, No]);
    // A local source that looks like an export.
    assert_eq!(two("tmpfs 10.0.0.1:/export rw", "tmpfs 10.0.0.1:/export rw").0, [Yes, Yes, No, No]);
}

// The list of classes is cut, and some may be one: nothing is certain.
#[test]
fn cut_list_of_unknown_names_decides_nothing() {
    let options = Options { classes_max: 2, ranks_per_server: 4, ..Options::default() };
    let found = distribution(16, options, |rank| mounted(rank, &format!("nfs4 s{rank}:/e rw")));
    assert_eq!(answers(&found), [No, Unknown, Unknown, Unknown]);
}
