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
        Sighting { evidence: (self.find)(self.rank, detail), space }
    }
}

/// What twelve ranks find on so many servers, and who looked.
fn found(
    servers: u32,
    contents: bool,
    find: impl Fn(u32, Detail) -> Evidence + Sync,
) -> (Inspection, Vec<(u32, Detail)>) {
    let log = Mutex::default();
    let all = on_ranks(12, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{} rw", rank % servers));
        let fake = Fake { rank, find: &find, log: &log };
        let status = Status::join(session, &table, Options::default()).unwrap();
        inspect(&status, session, b"/m/f", (&fake, contents)).unwrap()
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
    let (all, looked) = found(1, true, |_, _| Evidence::File(7, None));
    assert_eq!((all.is_consistent(), looked), (Yes, vec![(0, Detail::Kind)]));
    assert_eq!(ranks_of(&all, 0), (0..12).collect::<Vec<_>>());
    let (all, _) = found(1, true, |_, _| Evidence::NoAnswer);
    assert_eq!(all.is_consistent(), Unknown);
    let (all, _) = found(1, true, |_, _| Evidence::Absent);
    assert_eq!((all.is_consistent(), all.absent().map(atta_status::Ranks::len)), (Yes, Some(12)));
}

#[test]
fn ranks_with_another_file_are_named() {
    let digest = |rank: u32, detail| (detail == Detail::Contents).then_some([u8::from(rank == 2); 32]);
    let (all, looked) = found(4, false, |rank, detail| Evidence::File(7, digest(rank, detail)));
    assert_eq!(all.is_consistent(), No);
    assert_eq!(ranks_of(&all, 0), [0, 1, 3, 4, 5, 7, 8, 9, 11]);
    assert_eq!(ranks_of(&all, 1), [2, 6, 10]);
    let by = |rank| [(rank, Detail::Names), (rank, Detail::Contents)];
    assert_eq!(looked, [by(0), by(1), by(2), by(3)].concat());
    // Sizes decide.
    let (all, looked) = found(4, false, |rank, _| Evidence::File(u64::from(rank == 1), None));
    assert_eq!((all.is_consistent(), ranks_of(&all, 1)), (No, vec![1, 5, 9]));
    assert!(looked.iter().all(|(_, detail)| *detail == Detail::Names), "{looked:?}");
}

#[test]
fn directories_are_compared_by_their_names() {
    let same = |_, detail| Evidence::Directory((detail != Detail::Kind).then_some([0; 32]));
    let (all, looked) = found(2, false, same);
    assert_eq!((all.is_consistent(), looked), (Yes, vec![(0, Detail::Names), (1, Detail::Names)]));
    let by_contents =
        |rank, detail| Evidence::Directory(Some([u8::from(detail == Detail::Contents && rank == 1); 32]));
    assert_eq!(found(2, false, by_contents).0.is_consistent(), Yes);
    assert_eq!(found(2, true, by_contents).0.is_consistent(), No);
}

#[test]
fn ranks_that_cannot_say_leave_it_unknown() {
    let mixed = |other| move |rank, _| if rank == 1 { other } else { Evidence::Directory(Some([0; 32])) };
    for other in [Evidence::NoAnswer, Evidence::Failed(Errno::IO), Evidence::NotMounted] {
        assert_eq!(found(4, false, mixed(other)).0.is_consistent(), Unknown, "{other:?}");
    }
    let (all, _) = found(4, false, mixed(Evidence::Absent));
    assert_eq!(all.is_consistent(), No);
    assert_eq!(all.absent().unwrap().iter().collect::<Vec<_>>(), [1, 5, 9]);
    assert_eq!(found(4, false, |_, _| Evidence::Other(0o120_000)).0.is_consistent(), Unknown);
}

#[test]
fn least_space_of_all_groups_is_found() {
    let (all, _) = found(12, false, |_, _| Evidence::Directory(None));
    assert_eq!(all.space, Some(Space { total: 2000, available: 989, is_read_only: true }));
}

#[test]
fn findings_beyond_64_are_counted() {
    let log = Mutex::default();
    let find = |rank: u32, _| Evidence::File(u64::from(rank), None);
    let all = on_ranks(100, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{rank} rw"));
        let status = Status::join(session, &table, Options::default()).unwrap();
        inspect(&status, session, b"/m/f", (&Fake { rank, find: &find, log: &log }, false)).unwrap()
    });
    assert_eq!((all[0].findings.len(), all[0].others, all[0].is_consistent()), (64, 36, No));
    assert!(all.iter().all(|found| found.findings == all[0].findings));
}
