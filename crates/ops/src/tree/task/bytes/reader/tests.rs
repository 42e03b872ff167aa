//! Tests of reading tasks: what survives, and what is refused.

use super::super::samples::{One, names, pack_all, root, tasks};
use super::*;
use crate::tree::debts::Unit;
use crate::tree::directory::chain_to;
use crate::tree::start::Differs;
use atta_ledger::SliceNumber;
use atta_sys::Features;
use std::borrow::Cow;
use std::ffi::CStr;

const ANOTHER: PackedBy = PackedBy::Another { ranks: 4 };

#[test]
fn tasks_survive_being_bytes() {
    let root = root();
    let mut bytes = Vec::new();
    pack_all(&tasks(&root), &mut bytes);
    let back = unpack(&bytes, PackedBy::Itself, &One(root.clone())).unwrap();
    let mut path = Vec::new();
    let [
        Task::Enter { parent, name, target },
        Task::Look { names, .. },
        Task::Own(part),
        Task::Own(own),
        Task::Own(within),
        Task::Enter { .. },
        Task::Start { differs: Some(Differs { is_missing: false, content: true, links: false }), .. },
        Task::Start { differs: None, .. },
    ] = back.as_slice()
    else {
        panic!("{back:?}");
    };
    assert_eq!(parent.path_into(&mut path), 6);
    assert_eq!((path.as_slice(), name.as_c_str()), (b"/given/a/b\n".as_slice(), c"c"));
    assert_eq!(target.as_deref(), Some(b"really/here".as_slice()));
    assert_eq!((names.len(), own.bytes.as_slice()), (1, b"own".as_slice()));
    assert!(matches!(part.of, Of::Part(_)) && part.bytes == b"part");
    assert!(own.directory().is_none() && within.directory().is_some() && within.bytes == b"within");
    assert_eq!((own.to, within.to), (Some(3), None));
}

#[test]
fn tasks_of_a_lost_root_fail_with_their_paths() {
    let root = root();
    let mut bytes = Vec::new();
    pack_all(&tasks(&root), &mut bytes);
    let gone = Directory::closed_root(b"/given", 7).unwrap();
    let back = unpack(&bytes, PackedBy::Itself, &One(gone)).unwrap();
    assert_eq!(back.len(), 8);
    let mut held = crate::tree::listing::descriptor_cache::DescriptorCache::new(4);
    let mut path = Vec::new();
    for directory in back.iter().filter_map(Task::directory) {
        directory.path_into(&mut path);
        assert!(path.starts_with(b"/given"));
        let opened = directory.descriptor(&mut held, Features::default());
        assert_eq!(opened.unwrap_err(), atta_entry::Errno::STALE);
    }
}

#[test]
fn damaged_bytes_are_an_error_and_never_a_crash() {
    let root = root();
    let mut bytes = Vec::new();
    pack_all(&tasks(&root), &mut bytes);
    let find = One(root.clone());
    for cut in 1..bytes.len() {
        let _whole_tasks_may_remain = unpack(&bytes[..cut], ANOTHER, &find);
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x5a;
        let _any_answer = unpack(&damaged, ANOTHER, &find);
    }
    assert!(unpack(b"E\x01x\0", PackedBy::Itself, &find).is_err());
    assert!(unpack(b"R\x01/", PackedBy::Itself, &find).is_err());
}

#[test]
fn names_of_another_rank_that_lead_elsewhere_fail() {
    let root = root();
    let looked = |name: &CStr| Task::Look { slice: Slice::of_batch(root.clone(), 0), names: names(&[name]) };
    let followed = |target: &[u8]| Task::Enter {
        parent: root.clone(),
        name: c"c".into(),
        target: Some(target.to_vec()),
    };
    let bad = [looked(c"/etc"), looked(c".."), looked(c"a/b"), looked(c""), followed(b"a/../../b")];
    for task in bad {
        let mut bytes = Vec::new();
        pack_all(std::slice::from_ref(&task), &mut bytes);
        assert!(unpack(&bytes, ANOTHER, &One(root.clone())).is_err(), "{task:?}");
    }
}

/// Reads records of another rank of four.
fn read(records: &[Record<'_>]) -> Result<Vec<Task>, &'static str> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    unpack(&bytes, ANOTHER, &One(root()))
}

fn lent(rank: u32) -> [Record<'static>; 4] {
    let level = Level { name: c"d".into(), place: None, target: None };
    [
        Record::Root { path: b"/given".into(), inode: 0 },
        Record::Directory { shared: 0, levels: vec![level] },
        Record::Lent(Debt { rank, directory: 5, slice: 0 }),
        Record::Enter { name: c"e".into(), target: None },
    ]
}

#[test]
fn debts_to_ranks_that_do_not_exist_are_refused() {
    let tasks = read(&lent(3)).unwrap();
    let [Task::Enter { parent, .. }] = tasks.as_slice() else { panic!("{tasks:?}") };
    let owed = parent.life().owed().unwrap().debt(0);
    assert_eq!(owed, Some(Debt { rank: 3, directory: 5, slice: 0 }));
    for rank in [4, u32::MAX] {
        assert_eq!(read(&lent(rank)).unwrap_err(), "a debt to a rank that does not exist");
    }
    let [root, directory, debt, _] = lent(3);
    assert_eq!(read(&[root.clone(), debt.clone()]).unwrap_err(), "a debt without a task");
    assert_eq!(read(&[root, directory, debt.clone(), debt]).unwrap_err(), "a debt without a task");
}

#[test]
fn names_keep_the_number_of_their_slice() {
    let listed = |run| Record::Listed(SliceNumber { run, rank: 2, number: 9 });
    let look = || Record::Look(Cow::Owned(names(&[c"x"])));
    let [root, directory, debt, _] = lent(3);
    let tasks = read(&[root.clone(), directory.clone(), debt, listed(1), look(), look()]).unwrap();
    let [Task::Look { slice, .. }, Task::Look { slice: other, .. }] = tasks.as_slice() else {
        panic!("{tasks:?}")
    };
    assert_eq!(slice.number(), Some(SliceNumber { run: 1, rank: 2, number: 9 }));
    assert!(slice.is_waiting() && slice.begin() && !slice.begin() && !slice.is_waiting());
    assert!(other.number().is_none() && !other.begin());
    let refused = "names with a number of the log that they cannot have";
    assert_eq!(read(&[root.clone(), directory.clone(), listed(2), look()]).unwrap_err(), refused);
    assert_eq!(read(&[root.clone(), directory.clone(), listed(1)]).unwrap_err(), "a number without names");
    let twice = [root, directory, listed(1), listed(1), look()];
    assert_eq!(read(&twice).unwrap_err(), "a number without names");
}

#[test]
fn tasks_for_ranks_that_do_not_exist_are_refused() {
    let own = |to| Record::Own { to: Some(to), of: OwnOf::Nothing, bytes: b"x".into() };
    assert_eq!(read(&[own(3)]).unwrap().len(), 1);
    assert_eq!(read(&[own(4)]).unwrap_err(), "a task for a rank that does not exist");
}

#[test]
fn unknown_tasks_of_the_operation_are_refused() {
    let own = |bytes: &'static [u8]| Record::Own { to: None, of: OwnOf::Directory, bytes: bytes.into() };
    let [root, directory, ..] = lent(3);
    assert_eq!(read(&[root.clone(), directory.clone(), own(b"known")]).unwrap().len(), 1);
    let refused = read(&[root, directory, own(b"unknown")]).unwrap_err();
    assert_eq!(refused, "a task that the operation does not know");
}

#[test]
fn payments_of_units_that_were_not_lent_are_refused() {
    let pay = |number| Payment {
        to: 0,
        number,
        unit: Unit::Child,
        count: 2,
        report: Vec::new(),
        has_failed: false,
    };
    let paid = |numbers: &[u64]| Record::Paid(numbers.iter().copied().map(pay).collect());
    assert!(matches!(read(&[paid(&[9])]).unwrap().as_slice(), [Task::Paid(paid)] if paid[0].count == 2));
    assert_eq!(read(&[paid(&[9, 10])]).unwrap_err(), "nothing is lent");
}

#[test]
fn records_of_this_process_are_refused_from_another() {
    let anchor = Record::Anchor { number: 8, unit: Unit::Child };
    assert_eq!(read(&[anchor]).unwrap_err(), "a task of another process");
    let debt = lent(3)[2].encoded();
    assert!(unpack(&debt, PackedBy::Itself, &One(root())).is_err());
}

#[test]
fn deep_chain_is_dropped_without_recursion() {
    let names = vec![c"level"; 100_000];
    let deep = chain_to(&root(), &names);
    let mut path = Vec::new();
    deep.path_into(&mut path);
    assert_eq!(path.len(), 6 + 100_000 * 6);
    drop(deep);
}
