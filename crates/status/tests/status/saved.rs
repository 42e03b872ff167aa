//! Maps in files, asked by a process without ranks.

use std::time::{Duration, SystemTime};

use atta_mounts::MountTable;
use atta_status::{Answer, MountMap, Options, SavedMap, SealedError, Status};
use atta_testkit::scratch::Scratch;

use crate::ranks::{Knows, on_ranks};
use Answer::{No, Unknown, Yes};

/// Two hosts with four ranks each.
fn table(rank: u32) -> MountTable {
    MountTable::from_bytes(TEXT, &Knows::on(rank / 4)).unwrap()
}

const TEXT: &[u8] = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
    2 1 0:40 / /home rw - nfs4 srv:/home rw\n\
    3 1 0:41 / /tmp rw - tmpfs none rw\n\
    4 1 0:42 / /fuse rw - fuse.something it rw\n\
    5 2 0:43 / /home/me rw - nfs4 10.0.0.7:/me rw,addr=10.0.0.7\n";

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// The map of eight ranks, as the first one gathers it. All get the same.
fn saved() -> SavedMap {
    let mut all = on_ranks(8, |rank, session| {
        // One rank knows the address of the server.
        let table = match rank {
            6 => MountTable::from_bytes(TEXT, &Knows::on(1).address("srv", &["10.0.0.5"])).unwrap(),
            rank => table(rank),
        };
        let status = Status::join(session, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, session).unwrap();
        SavedMap::gather(&status, session, &map, at(1000 + u64::from(rank))).unwrap()
    });
    let first = all.remove(0);
    assert!(all.iter().all(|other| *other == first));
    first
}

#[test]
fn a_process_without_ranks_gets_their_answers() {
    let scratch = Scratch::new("saved").unwrap();
    let path = scratch.join("map");
    saved().save(&path).unwrap();
    let saved = SavedMap::load(&path).unwrap();
    assert_eq!((saved.ranks(), saved.age(at(1090)).as_secs()), (8, 90));
    assert_eq!((saved.host(0), saved.host(4)), (Some(&b"node0"[..]), Some(&b"node1"[..])));
    assert_eq!(saved.host(1), None);
    let map = saved.map(&Knows::on(9).table(&[]));
    let answers =
        |path: &[u8]| [map.is_unique(path), map.is_fully_distributed(path), map.is_consistent(path)];
    assert_eq!(answers(b"/home/f"), [Yes, No, Yes]);
    assert_eq!(answers(b"/tmp/f"), [No, Yes, Unknown]);
    assert_eq!(answers(b"/fuse/f"), [Unknown; 3]);
    assert_eq!(map.groups(b"/tmp/f").unwrap().high, 2);
    assert_eq!(map.is_poorly_distributed(b"/home/f"), Yes);
}

#[test]
fn the_group_of_a_process_is_found_by_its_own_mounts() {
    let saved = saved();
    let group = |table: &MountTable, path: &str| {
        let found = saved.map(table).descriptor(path.as_bytes());
        found.map(|found| (found.representative, found.size, found.rank_in_group))
    };
    // A third host that mounts by the address.
    let login = Knows::on(9).table(&["0:99 / /home rw - nfs4 10.0.0.5:/home rw,addr=10.0.0.5"]);
    assert_eq!(group(&login, "/home/f"), Some((0, 8, None)));
    assert_eq!(group(&login, "/tmp/f"), None);
    // It knows no address. The map does.
    let by_name = Knows::on(9).table(&["0:99 / /home rw - nfs4 srv:/home rw"]);
    assert_eq!(group(&by_name, "/home/f"), Some((0, 8, None)));
    // The second host of the job.
    let second = table(4);
    assert_eq!(group(&second, "/tmp/f"), Some((4, 4, None)));
    assert_eq!(group(&second, "/f"), Some((4, 4, None)));
    // A mount that only this process has.
    let text = [TEXT, b"6 3 0:50 / /tmp/own rw - tmpfs own rw\n"].concat();
    let own = MountTable::from_bytes(&text, &Knows::on(1)).unwrap();
    assert_eq!((group(&own, "/tmp/f"), group(&own, "/tmp/own/f")), (Some((4, 4, None)), None));
    assert_eq!(saved.map(&own).is_fully_distributed(b"/tmp/own/f"), Yes, "as the ranks see it");
    // Nothing leads to one that another mount hides.
    let text = [TEXT, b"6 1 0:50 / /tmp/own rw - tmpfs own rw\n"].concat();
    let hidden = MountTable::from_bytes(&text, &Knows::on(1)).unwrap();
    assert_eq!(group(&hidden, "/tmp/own/f"), Some((4, 4, None)));
    // What the ranks have below is found there.
    assert_eq!(group(&second, "/home/me/f"), Some((0, 8, None)));
    assert_eq!(group(&login, "/home/me/f"), None);
}

#[test]
fn files_that_are_no_map_are_refused() {
    let scratch = Scratch::new("saved").unwrap();
    let path = scratch.join("map");
    assert_eq!(SavedMap::load(&path), Err(SealedError::Missing));
    let bytes = saved().to_bytes();
    for (bytes, expected) in [
        (&b"#!/bin/sh\n"[..], SealedError::Foreign),
        (&bytes[..bytes.len() - 1], SealedError::Damaged),
        (&[&bytes[..], b"\0"].concat(), SealedError::Damaged),
        (&atta_status::Speeds::default().to_bytes(), SealedError::Foreign),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = SavedMap::load(&path).unwrap_err();
        assert_eq!(error, expected);
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn ages_do_not_run_backwards() {
    assert_eq!(saved().age(at(10)), Duration::ZERO);
}
