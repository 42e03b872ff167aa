//! Tasks for the tests of their encoding, and a reader's root that reads no file system.

use std::ffi::CStr;
use std::sync::Arc;

use atta_entry::Kind;
use atta_ledger::SliceNumber;
use atta_sys::Place;

use super::{FindRoot, Packer};
use crate::tree::anchors::Anchor;
use crate::tree::debts::{Payment, Unit};
use crate::tree::directory::{Directory, chain_to};
use crate::tree::listing::names::Names;
use crate::tree::operation::{Of, Own};
use crate::tree::slice::{Part, Slice};
use crate::tree::start::Differs;
use crate::tree::task::{Paid, Task};
use crate::tree::units::Life;

/// A root with the index 7.
pub(crate) fn root() -> Arc<Directory> {
    let descriptor = std::fs::File::open("/").unwrap().into();
    Directory::root(c"/given".into(), 7, Arc::new(descriptor), Place { device: 1, inode: 1, mount: 1 })
}

/// Names of files.
pub(crate) fn names(names: &[&CStr]) -> Names {
    let mut batch = Names::default();
    names.iter().zip(3..).for_each(|(name, inode)| batch.push(name, Kind::File, inode));
    batch
}

/// A task of each kind that may leave.
pub(crate) fn tasks(root: &Arc<Directory>) -> Vec<Task> {
    let below = chain_to(root, &[c"a", c"b\n"]);
    vec![
        Task::Enter { parent: below.clone(), name: c"c".into(), target: Some(b"really/here".to_vec()) },
        Task::Look { slice: Slice::of_batch(below.clone(), 0), names: names(&[c"x"]) },
        Task::Own(Own { to: None, of: Of::Part(Part::alone(below, 0)), bytes: b"part".to_vec() }),
        Task::Own(Own { to: Some(3), of: Of::Nothing, bytes: b"own".to_vec() }),
        Task::Own(Own { to: None, of: Of::Directory(root.clone()), bytes: b"within".to_vec() }),
        Task::Enter { parent: root.clone(), name: c"d".into(), target: None },
        Task::Start {
            root: 7,
            below: Some(b"listed".to_vec()),
            differs: Some(Differs { content: true, ..Differs::default() }),
        },
        Task::Start { root: 7, below: None, differs: None },
    ]
}

/// Packs tasks one after another.
pub(crate) fn pack_all(tasks: &[Task], bytes: &mut Vec<u8>) {
    for (index, task) in tasks.iter().enumerate() {
        let last = index.checked_sub(1).map(|last| &tasks[last]);
        assert!(task.may_leave());
        let packer = Packer { root: |_| (b"/given".to_vec(), 1) };
        packer.pack((task, last), (None, None), bytes);
    }
}

/// Knows one root. It has lent units of it by the number 9, and keeps it in memory by the number 8.
pub(crate) struct One(pub(crate) Arc<Directory>);

impl FindRoot for One {
    fn intern(&self, path: &[u8]) -> Result<u32, &'static str> {
        if path == b"/given" { Ok(7) } else { Err("an unknown root") }
    }

    fn directory(&self, index: u32) -> Result<Arc<Directory>, &'static str> {
        if index == 7 { Ok(Arc::clone(&self.0)) } else { Err("an unknown root") }
    }

    fn directory_of_sent(&self, index: u32, _inode: u64) -> Result<Arc<Directory>, &'static str> {
        let root = if index == 7 { Directory::closed_root(b"/given", 7) } else { None };
        let root = root.and_then(Arc::into_inner).ok_or("an unknown root")?;
        Ok(Arc::new(root.with_life(Life::of_lent())))
    }

    fn anchor(&self, number: u64, unit: Unit) -> Result<Anchor, &'static str> {
        match (number, unit) {
            (8, Unit::Child | Unit::None) => Ok(Anchor::Directory(Arc::clone(&self.0))),
            (8, Unit::Part | Unit::Names) => Ok(Anchor::Slice(Slice::of_batch(Arc::clone(&self.0), 0))),
            _ => Err("nothing is kept"),
        }
    }

    fn may_be_slice(&self, number: Option<SliceNumber>) -> bool {
        number.is_none_or(|number| number.run == 1)
    }

    fn is_task(&self, bytes: &[u8], in_directory: bool) -> bool {
        !in_directory || bytes != b"unknown"
    }

    fn returned(&self, payment: Payment) -> Result<Paid, &'static str> {
        let anchor = Anchor::Directory(Arc::clone(&self.0));
        if payment.number == 9 { Ok(Paid { anchor, count: payment.count }) } else { Err("nothing is lent") }
    }
}
