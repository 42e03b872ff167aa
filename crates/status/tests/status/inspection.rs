//! What ranks find under a path, who looks, and which of them find something else.

use std::collections::BTreeSet;
use std::sync::Mutex;

use atta_entry::Errno;
use atta_status::{Answer, Detail, Evidence, Inspection, Looks, Options, Sighting, Space, Status, inspect};

use crate::ranks::{mounted, on_ranks};
use Answer::{No, Unknown, Yes};

/// Ranks, and how closely they looked.
type Looked = BTreeSet<(u32, Detail)>;

struct Fake<'l> {
    rank: u32,
    find: &'l (dyn Fn(u32, Detail) -> Evidence + Sync),
    log: &'l Mutex<Looked>,
}

impl Looks for Fake<'_> {
    fn look(&self, _path: &[u8], detail: Detail) -> Sighting {
        self.log.lock().unwrap().insert((self.rank, detail));
        let available = 1000 - u64::from(self.rank);
        let space = Some(Space { total: 2000, available, is_read_only: self.rank == 8 });
        Sighting { evidence: (self.find)(self.rank, detail), space, mark: None }
    }
}

/// What twelve ranks find on so many servers, and who looked.
fn found(
    servers: u32,
    most: Detail,
    find: impl Fn(u32, Detail) -> Evidence + Sync,
) -> (Inspection, Vec<(u32, Detail)>) {
    let log = Mutex::default();
    let all = on_ranks(12, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{} rw", rank % servers));
        let fake = Fake { rank, find: &find, log: &log };
        let status = Status::join(session, &table, Options::default()).unwrap();
        inspect(&status, session, b"/m/f", (&fake, most)).unwrap()
    });
    let alike = |found: &Inspection| (found.findings.clone(), found.others, found.space);
    assert!(all.iter().all(|found| alike(found) == alike(&all[0])), "{all:?}");
    (all[0].clone(), log.into_inner().unwrap().into_iter().collect())
}

fn ranks_of(found: &Inspection, at: usize) -> Vec<u32> {
    found.findings[at].ranks.iter().collect()
}

#[test]
fn one_rank_looks_at_a_unique_file() {
    let (all, looked) = found(1, Detail::Contents, |_, _| Evidence::File(7, None));
    assert_eq!((all.is_consistent(), looked), (Yes, vec![(0, Detail::Kind)]));
    assert_eq!(ranks_of(&all, 0), (0..12).collect::<Vec<_>>());
    let (all, _) = found(1, Detail::Contents, |_, _| Evidence::NoAnswer);
    assert_eq!(all.is_consistent(), Unknown);
    let (all, _) = found(1, Detail::Contents, |_, _| Evidence::Absent);
    assert_eq!((all.is_consistent(), all.absent().map(atta_status::Ranks::len)), (Yes, Some(12)));
}

#[test]
fn ranks_with_another_file_are_named() {
    let digest = |rank: u32, detail| (detail == Detail::Contents).then_some([u8::from(rank == 2); 32]);
    let (all, looked) = found(4, Detail::Names, |rank, detail| Evidence::File(7, digest(rank, detail)));
    assert_eq!(all.is_consistent(), No);
    assert_eq!(ranks_of(&all, 0), [0, 1, 3, 4, 5, 7, 8, 9, 11]);
    assert_eq!(ranks_of(&all, 1), [2, 6, 10]);
    let by = |rank| [(rank, Detail::Names), (rank, Detail::Contents)];
    assert_eq!(looked, [by(0), by(1), by(2), by(3)].concat());
    // Sizes decide.
    let (all, looked) = found(4, Detail::Names, |rank, _| Evidence::File(u64::from(rank == 1), None));
    assert_eq!((all.is_consistent(), ranks_of(&all, 1)), (No, vec![1, 5, 9]));
    assert!(looked.iter().all(|(_, detail)| *detail == Detail::Names), "{looked:?}");
}

#[test]
fn directories_are_compared_by_their_names() {
    let same = |_, detail| Evidence::Directory((detail != Detail::Kind).then_some([0; 32]));
    let (all, looked) = found(2, Detail::Names, same);
    assert_eq!((all.is_consistent(), looked), (Yes, vec![(0, Detail::Names), (1, Detail::Names)]));
    let by_contents =
        |rank, detail| Evidence::Directory(Some([u8::from(detail == Detail::Contents && rank == 1); 32]));
    assert_eq!(found(2, Detail::Names, by_contents).0.is_consistent(), Yes);
    assert_eq!(found(2, Detail::Contents, by_contents).0.is_consistent(), No);
}

#[test]
fn ranks_that_cannot_say_leave_it_unknown() {
    let mixed = |other| move |rank, _| if rank == 1 { other } else { Evidence::Directory(Some([0; 32])) };
    for other in [Evidence::NoAnswer, Evidence::Failed(Errno::IO), Evidence::NotMounted] {
        assert_eq!(found(4, Detail::Names, mixed(other)).0.is_consistent(), Unknown, "{other:?}");
    }
    let (all, _) = found(4, Detail::Names, mixed(Evidence::Absent));
    assert_eq!(all.is_consistent(), No);
    assert_eq!(all.absent().unwrap().iter().collect::<Vec<_>>(), [1, 5, 9]);
    assert_eq!(found(4, Detail::Names, |_, _| Evidence::Other(0o120_000)).0.is_consistent(), Unknown);
}

/// Finds what the server of a rank has, as two clients of one volume do that mount it by different servers.
struct Inodes(u64);

impl Looks for Inodes {
    fn look(&self, _path: &[u8], _detail: Detail) -> Sighting {
        let evidence = Evidence::File(7, Some([0; 32]));
        Sighting { evidence, space: None, mark: Some(self.0).filter(|mark| *mark > 0) }
    }
}

// Names of servers leave it unknown.
#[test]
fn equal_inodes_and_times_are_one_file() {
    let unique = |kind: &str, marks: [u64; 2]| {
        let all = on_ranks(4, |rank, session| {
            let at = rank as usize % 2;
            let table = mounted(rank, &format!("{kind} {} rw", ["10.0.0.1:/v", "10.0.0.2:/v"][at]));
            let status = Status::join(session, &table, Options::default()).unwrap();
            let found = inspect(&status, session, b"/m/f", (&Inodes(marks[at]), Detail::Names)).unwrap();
            found.is_unique()
        });
        all[0]
    };
    assert_eq!(unique("fuse.glusterfs", [5, 5]), Yes);
    assert_eq!(unique("fuse.glusterfs", [5, 6]), Unknown);
    assert_eq!(unique("fuse.glusterfs", [5, 0]), Unknown);
    // What names decide stays.
    assert_eq!(unique("ext4", [5, 5]), No);
}

#[test]
fn kinds_alone_do_not_decide() {
    let (all, looked) = found(4, Detail::Kind, |_, _| Evidence::Directory(None));
    assert_eq!((all.is_consistent(), looked.len()), (Unknown, 4));
    assert!(looked.iter().all(|(_, detail)| *detail == Detail::Kind), "{looked:?}");
    assert_eq!(found(4, Detail::Kind, |_, _| Evidence::File(7, None)).0.is_consistent(), Unknown);
}

#[test]
fn least_space_of_all_groups_is_found() {
    let (all, _) = found(12, Detail::Names, |_, _| Evidence::Directory(None));
    assert_eq!(all.space, Some(Space { total: 2000, available: 989, is_read_only: true }));
}

#[test]
fn findings_beyond_64_are_counted() {
    let log = Mutex::default();
    let find = |rank: u32, _| Evidence::File(u64::from(rank), None);
    let all = on_ranks(100, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{rank} rw"));
        let status = Status::join(session, &table, Options::default()).unwrap();
        inspect(&status, session, b"/m/f", (&Fake { rank, find: &find, log: &log }, Detail::Names)).unwrap()
    });
    assert_eq!((all[0].findings.len(), all[0].others, all[0].is_consistent()), (64, 36, No));
    assert!(all.iter().all(|found| found.findings == all[0].findings));
}
