//! Reads records and makes tasks of them, with the directories that they need. Bytes of another rank are not trusted: names lead nowhere
//! else, and ranks exist. It opens nothing itself: [`FindRoot`] knows the roots and what this process keeps.

use std::ffi::CString;
use std::sync::Arc;

use atta_entry::Code as _;
use atta_ledger::SliceNumber;
use atta_sys::Place;

use super::record::{Level, OwnOf, Record};
use super::{FindRoot, PackedBy};
use crate::tree::anchors::Anchor;
use crate::tree::debts::{Debt, Payment};
use crate::tree::directory::{Directory, State};
use crate::tree::life::release_maker;
use crate::tree::listing::names::{Names, is_name};
use crate::tree::operation::{Of, Own};
use crate::tree::slice::{Part, Slice};
use crate::tree::task::Task;
use crate::tree::units::Life;

/// Decodes the tasks in `bytes`.
pub(crate) fn unpack<S: State>(
    mut bytes: &[u8],
    by: PackedBy,
    roots: &impl FindRoot<S>,
) -> Result<Vec<Task<S>>, &'static str> {
    let (made, tasks) = (Vec::new(), Vec::new());
    let mut reader = Reader { by, roots, root: None, here: None, debt: None, number: None, made, tasks };
    while !bytes.is_empty() {
        let record = Record::decode(&mut bytes).ok_or("bytes that are no task")?;
        reader.add(record)?;
    }
    // The tasks hold units of their own.
    reader.made.iter().for_each(|directory| release_maker(directory));
    match (reader.debt, reader.number) {
        (None, None) => Ok(reader.tasks),
        (Some(_), _) => Err("a debt without a task"),
        (None, Some(_)) => Err("a number without names"),
    }
}

/// What the records so far amount to.
struct Reader<'r, F, S: State = ()> {
    by: PackedBy,
    roots: &'r F,
    /// The last root, and its inode on the rank that sent it, or 0.
    root: Option<(u32, u64)>,
    /// The directory or slice of the tasks that follow.
    here: Option<Anchor<S>>,
    /// What the next task holds of the rank that lent it.
    debt: Option<Debt>,
    /// The number of the next task's slice in the logs of the job.
    number: Option<SliceNumber>,
    /// Directories created for the tasks.
    made: Vec<Arc<Directory<S>>>,
    tasks: Vec<Task<S>>,
}

impl<S: State, F: FindRoot<S>> Reader<'_, F, S> {
    fn add(&mut self, record: Record<'_>) -> Result<(), &'static str> {
        match record {
            Record::Root { path, inode } => {
                self.root = Some((self.roots.intern(&path)?, inode));
                self.here = None;
                return Ok(());
            }
            Record::Directory { shared, levels } => return self.go_to(shared, levels),
            Record::Anchor { number, unit } => {
                if self.by != PackedBy::Itself {
                    return Err("a task of another process");
                }
                self.here = Some(self.roots.anchor(number, unit)?);
                return Ok(());
            }
            Record::Lent(debt) => return self.lend(debt),
            Record::Listed(number) => return self.list(number),
            Record::Paid(payments) => self.pay(payments)?,
            Record::Start { below, differs } => {
                let ((root, _), below) = (self.root()?, below.map(Into::into));
                self.tasks.push(Task::Start { root, below, differs });
            }
            Record::Enter { name, target } => self.enter(name.into_owned(), target.map(Into::into))?,
            Record::Look(names) => self.look(names.into_owned())?,
            Record::Own { to, of, bytes } => self.own(to, of, bytes.into())?,
        }
        Ok(())
    }

    fn root(&self) -> Result<(u32, u64), &'static str> {
        self.root.ok_or("a task without a root")
    }

    fn here(&self) -> Result<Anchor<S>, &'static str> {
        self.here.clone().ok_or("a task without a directory")
    }

    fn here_directory(&self) -> Result<Arc<Directory<S>>, &'static str> {
        match self.here()? {
            Anchor::Directory(directory) => Ok(directory),
            Anchor::Slice(_) => Err("a task of a slice that is none"),
        }
    }

    /// Makes a directory that shares some levels with the last one, or with the root.
    fn go_to(&mut self, shared: u32, levels: Vec<Level<'_>>) -> Result<(), &'static str> {
        let mut directory = match self.here.take() {
            Some(Anchor::Directory(last)) => last,
            Some(Anchor::Slice(_)) => return Err("a directory below a slice"),
            None => self.directory_of_root()?,
        };
        while directory.depth() > shared {
            directory = directory.parent().cloned().ok_or("levels that are not there")?;
        }
        if directory.depth() != shared {
            return Err("levels that are not there");
        }
        for level in levels {
            directory = self.below(&directory, level)?;
            self.made.push(Arc::clone(&directory));
        }
        self.here = Some(Anchor::Directory(directory));
        Ok(())
    }

    /// The directory of the root, for tasks in it or below it.
    fn directory_of_root(&mut self) -> Result<Arc<Directory<S>>, &'static str> {
        let (index, inode) = self.root()?;
        if self.by == PackedBy::Itself {
            return self.roots.directory(index);
        }
        let directory = self.roots.directory_of_sent(index, inode)?;
        if directory.life().owed().is_some() {
            self.made.push(Arc::clone(&directory));
        }
        Ok(directory)
    }

    fn below(&self, parent: &Arc<Directory<S>>, level: Level<'_>) -> Result<Arc<Directory<S>>, &'static str> {
        let Level { name, place, target } = level;
        is_name(&name).then_some(()).ok_or(NO_NAME)?;
        let target = self.link_target(target.map(Into::into))?;
        // File systems do not use inode 0.
        let place = place.filter(|(_, inode, _)| *inode != 0);
        Ok(Arc::new(match self.by {
            PackedBy::Itself => {
                let place = place.map(|(device, inode, mount)| Place { device, inode, mount });
                Directory::below(parent, &name, target).with_life(Life::of_sent()).with_place(place)
            }
            PackedBy::Another { .. } => {
                let inode = place.map(|(_, inode, _)| inode);
                Directory::below(parent, &name, target).with_life(Life::of_lent()).with_inode(inode)
            }
        }))
    }

    /// The target of a followed link: names below the root. From another rank none may be `..`.
    fn link_target(&self, target: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, &'static str> {
        let climbs = |target: &Vec<u8>| target.split(|byte| *byte == b'/').any(|name| name == b"..");
        if self.by != PackedBy::Itself && target.as_ref().is_some_and(climbs) {
            return Err("a target that climbs");
        }
        Ok(target)
    }

    /// Notes what the next task holds of the rank that lent it.
    fn lend(&mut self, debt: Debt) -> Result<(), &'static str> {
        if !self.exists(debt.rank) {
            return Err("a debt to a rank that does not exist");
        }
        match self.debt.replace(debt) {
            Some(_) => Err("a debt without a task"),
            None => Ok(()),
        }
    }

    /// Notes the number of the next task's slice.
    fn list(&mut self, number: SliceNumber) -> Result<(), &'static str> {
        match self.number.replace(number) {
            Some(_) => Err("a number without names"),
            None => Ok(()),
        }
    }

    /// Whether another rank may name this one.
    fn exists(&self, rank: u32) -> bool {
        matches!(self.by, PackedBy::Another { ranks } if rank < ranks)
    }

    /// Adds the debt of the next task to those of its directory. Returns the number of its slice on the rank that lent it.
    fn owe(&mut self, directory: &Directory<S>) -> Result<u64, &'static str> {
        let Some(debt) = self.debt.take() else { return Ok(0) };
        let owed = directory.life().owed().ok_or("a directory that was not lent")?;
        owed.add(debt).map(|()| debt.slice)
    }

    fn pay(&mut self, payments: Vec<Payment>) -> Result<(), &'static str> {
        if self.by == PackedBy::Itself {
            return Err("a payment to this process");
        }
        let paid: Result<_, _> = payments.into_iter().map(|payment| self.roots.returned(payment)).collect();
        self.tasks.push(Task::Paid(paid?));
        Ok(())
    }

    /// A task from the spill file still holds its unit; a task from another rank gets a new one.
    fn enter(&mut self, name: CString, target: Option<Vec<u8>>) -> Result<(), &'static str> {
        let parent = self.here_directory()?;
        is_name(&name).then_some(()).ok_or(NO_NAME)?;
        let target = self.link_target(target)?;
        if self.by != PackedBy::Itself {
            parent.life().add_child();
            self.owe(&parent)?;
        }
        self.tasks.push(Task::Enter { parent, name, target });
        Ok(())
    }

    fn look(&mut self, names: Names) -> Result<(), &'static str> {
        let here = self.here()?;
        if self.by != PackedBy::Itself && !names.iter().all(|name| is_name(name.name)) {
            return Err(NO_NAME);
        }
        let number = self.number.take();
        if self.by != PackedBy::Itself && !self.roots.may_be_slice(number) {
            return Err("names with a number of the log that they cannot have");
        }
        let slice = match (here, number) {
            (Anchor::Slice(slice), _) => slice,
            (Anchor::Directory(directory), None) => {
                let owed = self.owe(&directory)?;
                Slice::of_batch(directory, owed)
            }
            (Anchor::Directory(directory), Some(number)) => {
                let owed = self.owe(&directory)?;
                Slice::of_numbered(directory, number, owed)
            }
        };
        self.tasks.push(Task::Look { slice, names });
        Ok(())
    }

    fn own(&mut self, to: Option<u32>, of: OwnOf, bytes: Vec<u8>) -> Result<(), &'static str> {
        if self.by != PackedBy::Itself && to.is_some_and(|to| !self.exists(to)) {
            return Err("a task for a rank that does not exist");
        }
        if self.by != PackedBy::Itself && !self.roots.is_task(&bytes, of != OwnOf::Nothing) {
            return Err("a task that the operation does not know");
        }
        let of = match of {
            OwnOf::Nothing => Of::Nothing,
            OwnOf::Directory => Of::Directory(self.here_directory()?),
            OwnOf::Part(holds_names) => Of::Part(match self.here()? {
                Anchor::Slice(slice) => Part::of(slice, holds_names),
                Anchor::Directory(directory) => {
                    let owed = self.owe(&directory)?;
                    Part::alone(directory, owed)
                }
            }),
        };
        self.tasks.push(Task::Own(Own { to, of, bytes }));
        Ok(())
    }
}

const NO_NAME: &str = "a name that is none";

#[cfg(test)]
mod tests;
