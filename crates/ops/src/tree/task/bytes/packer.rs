//! Writes tasks as records. A task that follows another one names only the levels of its directory that the other one has not: in a deep
//! tree whole paths would take more room than the tasks. It reads no records and no directories.

use std::borrow::Cow;
use std::sync::Arc;

use atta_entry::Code as _;
use atta_ledger::SliceNumber;

use super::record::{Level, OwnOf, Record};
use crate::tree::debts::{Debt, Payment, Unit};
use crate::tree::directory::{Directory, State};
use crate::tree::operation::{Of, Own};
use crate::tree::task::Task;

/// Encodes tasks whose directories the reader does not have in memory.
pub(crate) struct Packer<P> {
    /// The path of a root by its index, and its inode or 0.
    pub(crate) root: P,
}

impl<P: Fn(u32) -> (Vec<u8>, u64)> Packer<P> {
    /// Appends a task that [may leave](Task::may_leave), as its difference from the one that was packed before it.
    pub(crate) fn pack<S: State>(
        &self,
        (task, last): (&Task<S>, Option<&Task<S>>),
        (debt, number): (Option<Debt>, Option<SliceNumber>),
        out: &mut Vec<u8>,
    ) {
        let root = task.root_index();
        // A task that the caller added may have no root. The reader's last root is then that of an earlier task, which is not known here.
        let same_index = root.is_some() && last.and_then(Task::root_index) == root;
        let both = task.directory().zip(last.filter(|_| same_index).and_then(Task::directory));
        let shared = both.map(|(one, other)| shared_levels(other, one));
        // Two directories may have different objects for one root, which count for themselves. After a task without a directory the reader
        // may be at any of them.
        let same_root = same_index && (task.directory().is_none() || shared.flatten().is_some());
        if let (Some(root), false) = (root, same_root) {
            let (path, inode) = (self.root)(root);
            Record::Root { path: path.into(), inode }.encode(out);
        }
        if let Some(directory) = task.directory()
            && !both.is_some_and(|(_, last)| Arc::ptr_eq(last, directory))
        {
            difference(directory, shared.flatten().unwrap_or(0)).encode(out);
        }
        if let Some(debt) = debt {
            Record::Lent(debt).encode(out);
        }
        if let Some(number) = number {
            Record::Listed(number).encode(out);
        }
        pack_itself(task, out);
    }
}

/// Appends payments to one rank.
pub(crate) fn pack_payments(payments: Vec<Payment>, out: &mut Vec<u8>) {
    Record::Paid(payments).encode(out);
}

/// Appends a task as bytes for the spill file. Its directory or slice stays in memory and is referred to by number.
pub(crate) fn pack_with_anchor<S: State>(task: &Task<S>, (number, unit): (u64, Unit), out: &mut Vec<u8>) {
    Record::Anchor { number, unit }.encode(out);
    pack_itself(task, out);
}

fn pack_itself<S: State>(task: &Task<S>, out: &mut Vec<u8>) {
    let record = match task {
        Task::Enter { name, target, .. } => {
            Record::Enter { name: name.as_c_str().into(), target: borrowed(target.as_deref()) }
        }
        Task::Look { names, .. } => Record::Look(Cow::Borrowed(names)),
        Task::Own(Own { to, of, bytes }) => {
            let of = match of {
                Of::Nothing => OwnOf::Nothing,
                Of::Directory(_) => OwnOf::Directory,
                Of::Part(part) => OwnOf::Part(part.holds_names()),
            };
            Record::Own { to: *to, of, bytes: bytes.into() }
        }
        Task::Start { below, differs, .. } => {
            Record::Start { below: borrowed(below.as_deref()), differs: *differs }
        }
        Task::Feed | Task::ReadOn { .. } | Task::Ended(_) | Task::EndSent => {
            return debug_assert!(task.may_leave());
        }
        Task::Pay(_) | Task::Paid(_) | Task::Settle(_) | Task::Redo(_) => {
            return debug_assert!(task.may_leave());
        }
    };
    record.encode(out);
}

/// A directory as its difference from the last one, with which it shares so many levels.
fn difference<S: State>(directory: &Arc<Directory<S>>, shared: u32) -> Record<'_> {
    let own = (directory.depth() - shared) as usize;
    let mut levels: Vec<_> = directory.lineage().take(own).map(level).collect();
    levels.reverse();
    Record::Directory { shared, levels }
}

fn level<S: State>(directory: &Directory<S>) -> Level<'_> {
    let place = directory.known_place().map(|place| (place.device, place.inode, place.mount));
    Level { name: directory.name().into(), place, target: borrowed(directory.link_target()) }
}

fn borrowed(target: Option<&[u8]>) -> Option<Cow<'_, [u8]>> {
    target.map(Cow::Borrowed)
}

/// Levels below the root that two directories share. Climbs only as far as their common directory. None: they share not even that.
fn shared_levels<S: State>(one: &Arc<Directory<S>>, other: &Arc<Directory<S>>) -> Option<u32> {
    let (mut one, mut other): (&Directory<S>, &Directory<S>) = (one, other);
    while !std::ptr::eq(one, other) {
        let climb_one = one.depth() >= other.depth();
        let climb_other = other.depth() >= one.depth();
        if climb_one {
            one = one.parent()?;
        }
        if climb_other {
            other = other.parent()?;
        }
    }
    Some(one.depth())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::super::samples::{One, pack_all, root};
    use super::super::{PackedBy, unpack};
    use super::*;
    use crate::tree::directory::chain_to;

    fn enter(parent: &Arc<Directory>, name: &CStr) -> Task {
        Task::Enter { parent: Arc::clone(parent), name: name.into(), target: None }
    }

    #[test]
    fn only_the_first_deep_path_is_written_whole() {
        let root = root();
        let deep = chain_to(&root, &vec![c"a level with a long name"; 5000]);
        // From the deepest level up, as a depth-first walk leaves them, plus two that branch off.
        let mut level = Arc::clone(&deep);
        let mut tasks = Vec::new();
        while let Some(parent) = level.parent().cloned() {
            tasks.push(enter(&level, c"side"));
            level = parent;
        }
        tasks.push(enter(&chain_to(&deep, &[c"x", c"y"]), c"last"));
        tasks.push(enter(&chain_to(&root, &[c"x"]), c"other"));
        let mut bytes = Vec::new();
        pack_all(&tasks, &mut bytes);
        assert!(bytes.len() < 500_000, "{} bytes", bytes.len());
        let back = unpack(&bytes, PackedBy::Itself, &One(root.clone())).unwrap();
        assert_eq!(back.len(), tasks.len());
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for (task, back) in tasks.iter().zip(&back).step_by(500).chain(tasks.iter().zip(&back).skip(4999)) {
            task.directory().unwrap().path_into(&mut one);
            back.directory().unwrap().path_into(&mut other);
            assert_eq!(one, other);
        }
    }
}
