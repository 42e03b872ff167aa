//! Whether ranks may share the work of a path.

use atta_status::{Differing, Options, Sameness, Status, sameness};

use crate::ranks::{Knows, on_ranks};

/// What eight ranks conclude: rank `rank` has this mount, and finds this.
fn judged(mount: impl Fn(u32) -> String + Sync, fact: impl Fn(u32) -> String + Sync) -> Sameness {
    let mut all = on_ranks(8, |rank, session| {
        let line = format!("0:40 / /m rw - {}", mount(rank));
        let table = Knows::on(rank / 2).table(&[&line]);
        let status = Status::join(session, &table, Options::default()).unwrap();
        sameness(&status, session, b"/m/f", fact(rank)).unwrap()
    });
    let first = all.remove(0);
    assert!(all.iter().all(|other| *other == first), "{all:?}");
    first
}

fn ranks_of(differing: &Differing) -> (u32, u32) {
    (differing.first.rank, differing.other.rank)
}

const NFS: &str = "nfs 10.0.0.1:/e rw,addr=10.0.0.1";

#[test]
fn equal_names_and_facts_are_the_same() {
    let same = judged(|_| NFS.to_owned(), |_| "inode 5".to_owned());
    assert_eq!(same, Sameness::Same);
}

// Each host has a disk, and the root of each has inode 2.
#[test]
fn local_file_systems_with_equal_inodes_differ() {
    let found = judged(|_| "tmpfs tmpfs rw".to_owned(), |_| "inode 2".to_owned());
    let Sameness::Different(differing) = found else { panic!("{found:?}") };
    assert_eq!(ranks_of(&differing), (0, 2));
    let said = differing.to_string();
    let expected =
        "on rank 0 (node0) inode 2, tmpfs://0:40@node0/f; on rank 2 (node1) inode 2, tmpfs://0:40@node1/f";
    assert_eq!(said, expected);
}

#[test]
fn facts_decide_where_names_do_not() {
    let unknown = |rank: u32| format!("fuse.sshfs user@host{}:/d rw", rank % 3);
    assert_eq!(judged(unknown, |_| "inode 5".to_owned()), Sameness::Same);
    // The ranks before have as many names as views are kept.
    let names = |rank: u32| format!("fuse.sshfs user@host{rank}:/d rw");
    let found = judged(names, |rank| format!("inode {}", rank / 7));
    let Sameness::Undecided(differing) = found else { panic!("{found:?}") };
    assert_eq!(ranks_of(&differing), (0, 7));
}

// Clients that number inodes by themselves, or keep old ones.
#[test]
fn equal_names_with_other_facts_are_undecided() {
    let found = judged(|_| NFS.to_owned(), |rank| format!("inode {}", rank / 4));
    let Sameness::Undecided(differing) = found else { panic!("{found:?}") };
    assert_eq!(ranks_of(&differing), (0, 4));
}
