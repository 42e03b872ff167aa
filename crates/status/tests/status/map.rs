//! The map of mount points: it answers as a query of all ranks does.

use atta_mounts::MountTable;
use atta_status::{Alone, Answer, MountMap, Options, Status};

use crate::queries::answers;
use crate::ranks::{Knows, on_ranks};
use Answer::{Unknown, Yes};

/// Ranks with mounts of all kinds, some of them on some ranks only.
fn table(rank: u32) -> MountTable {
    let mut text = format!(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
         2 1 0:40 / /one rw - nfs4 10.0.0.5:/e rw\n\
         3 1 0:41 / /many rw - fuse.goofys b{rank} rw\n\
         4 1 0:43 / /fuse rw - fuse.something it rw\n\
         5 1 0:44 / /s\\040p rw - ceph me@aaaa-01.fs=/ rw\n"
    );
    if rank == 2 {
        text += "6 2 0:42 / /one/below rw - tmpfs none rw\n";
    }
    MountTable::from_bytes(text.as_bytes(), &Knows::on(rank)).unwrap()
}

const PATHS: [&str; 12] = [
    "/",
    "/etc/passwd",
    "/one",
    "/one/f",
    "/one/below",
    "/one/below/f",
    "/one/belo",
    "/many/f",
    "/fuse/f",
    "/s p/f",
    "/one/../many//f",
    "/onetwo",
];

#[test]
fn map_answers_as_all_ranks_do() {
    for options in [Options::default(), Options { classes_max: 2, ranks_per_server: 2, ..Options::default() }]
    {
        on_ranks(12, |rank, session| {
            let table = table(rank);
            let status = Status::join(session, &table, options).unwrap();
            let map = MountMap::build(&status, session).unwrap();
            for path in PATHS {
                let found = status.distribution(session, path.as_bytes()).unwrap();
                let path = path.as_bytes();
                let from_map = [
                    map.is_fully_distributed(path),
                    map.is_well_distributed(path),
                    map.is_poorly_distributed(path),
                    map.is_unique(path),
                ];
                assert_eq!(from_map, answers(&found), "{}", String::from_utf8_lossy(path));
                assert_eq!(map.descriptor(path), found.descriptor());
                let sizes = |found: &atta_status::Distribution| {
                    found.list().iter().map(|group| (group.size, group.is_certain)).collect::<Vec<_>>()
                };
                assert_eq!(sizes(map.distribution(path).unwrap()), sizes(&found));
            }
        });
    }
}

#[test]
fn mount_of_another_rank_is_known() {
    let found = on_ranks(4, |rank, session| {
        let table = table(rank);
        let status = Status::join(session, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, session).unwrap();
        [&b"/one/f"[..], b"/one/below/f", b"/one/belo"].map(|path| map.is_unique(path))
    });
    // The server may be the host of rank 2, and export what is mounted there.
    assert_eq!(found, [[Yes, Unknown, Yes]; 4]);
}

#[test]
fn map_knows_nothing_of_contents() {
    let found = on_ranks(4, |rank, session| {
        let table = table(rank);
        let status = Status::join(session, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, session).unwrap();
        [&b"/one/f"[..], b"/many/f", b"/fuse/f"].map(|path| map.is_consistent(path))
    });
    assert_eq!(found, [[Yes, Unknown, Unknown]; 4]);
}

#[test]
fn ranks_without_a_mount_leave_it_open() {
    let found = on_ranks(2, |rank, session| {
        let text = if rank == 0 {
            "1 0 8:1 / /a rw - ext4 /dev/sda1 rw\n"
        } else {
            "1 0 8:1 / /b rw - ext4 /dev/sda1 rw\n"
        };
        let table = MountTable::from_bytes(text.as_bytes(), &Knows::on(rank)).unwrap();
        let status = Status::join(session, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, session).unwrap();
        assert!(map.distribution(b"/c/f").is_none() && map.distribution(b"/").is_none());
        [map.is_unique(b"/a/f"), map.is_fully_distributed(b"/a/f"), map.is_well_distributed(b"/c/f")]
    });
    assert_eq!(found, [[Unknown; 3]; 2]);
}

#[test]
fn too_many_mount_points_have_no_answer() {
    for (mounts, expected) in [(1000, Yes), (17_000, Unknown)] {
        let lines: Vec<_> = (0..mounts).map(|at| format!("0:{at} / /m{at} rw - tmpfs none rw")).collect();
        let table = Knows::on(1).table(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let status = Status::join(&mut Alone, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, &mut Alone).unwrap();
        assert_eq!(map.is_unique(b"/m5/f"), expected);
    }
}

// A later mount hides them, so that no path leads to them.
#[test]
fn hidden_mount_points_do_not_count() {
    let hidden = |at: u32| format!("{} 2 0:{at} / /data/m{at} rw - tmpfs none rw\n", at + 10);
    let mut text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /data rw - tmpfs none rw\n".to_owned();
    text.extend((0..17_000).map(hidden));
    text += "3 2 0:3 / /data rw - tmpfs none rw\n";
    let table = MountTable::from_bytes(text.as_bytes(), &Knows::on(1)).unwrap();
    let status = Status::join(&mut Alone, &table, Options::default()).unwrap();
    let map = MountMap::build(&status, &mut Alone).unwrap();
    assert_eq!(map.is_unique(b"/data/m5/f"), Yes);
}
