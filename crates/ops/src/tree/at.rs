//! What a thread is at, for `underway.rs`: noted before it opens a directory, looks at names or processes a chunk, in a launch in which a rank has
//! died. What too many ranks have died at is left out. It handles nothing itself.

use std::ffi::CStr;
use std::sync::Arc;

use atta_ledger::{Id, Key};

use crate::tree::job::{TreeJob, Worker};
use crate::tree::listing::names::Name;
use crate::tree::operation::{DirectoryOf, Handler, Own};
use crate::tree::slot::Slot;
use crate::underway::{Doing, Underway, What};

/// A directory whose names are handled.
#[derive(Clone, Copy)]
pub(crate) struct Noted<'a> {
    underway: &'a Underway,
    key: &'a Key,
    id: Id,
    thread: usize,
    /// Its names are handled one by one.
    pub(crate) is_suspected: bool,
}

impl<'a> Noted<'a> {
    fn name(&self, name: &[u8]) -> Id {
        self.key.below(self.id, name)
    }

    fn set(&self, slot: &mut Slot<'a>, doing: Doing) {
        slot.set((self.underway, self.thread), Some(doing));
    }

    /// Notes that a thread is about to handle these names.
    pub(crate) fn note(&self, slot: &mut Slot<'a>, names: &[Name<'_>]) {
        let doing = match names {
            [name] => {
                let name = self.name(name.bytes());
                Doing::new(What::Name, (name, name), self.id)
            }
            _ => Doing::new(What::Many, (self.id, self.id), self.id),
        };
        self.set(slot, doing);
    }

    /// Notes that a thread is about to open or read a directory. Returns whether it is left out.
    fn note_directory(&self, slot: &mut Slot<'a>, directory: Id, turn: u64) -> bool {
        // Each turn is another thing: a large directory that is read on makes progress.
        let of = if turn == 0 { directory } else { self.key.below(directory, &turn.to_le_bytes()) };
        self.set(slot, Doing::new(What::Directory, (of, directory), directory));
        self.underway.suspects().leave_unread(directory)
    }

    /// Whether a name is left out, as ranks have died at it.
    pub(crate) fn leaves_out(&self, name: &[u8]) -> bool {
        self.underway.suspects().leave_unseen(self.name(name))
    }
}

impl<'a, V: Handler> TreeJob<'a, V> {
    /// A directory whose names are about to be handled; none: nothing is noted in this run.
    pub(crate) fn noted(
        &self,
        worker: &mut Worker<'a, V>,
        directory: &Arc<DirectoryOf<V>>,
    ) -> Option<Noted<'a>> {
        let journal = self.journal?;
        let underway = journal.underway()?;
        worker.noter.path.set(directory);
        let path = worker.noter.path.below_root();
        let id = worker.slot.id(journal.key(), directory.root_index(), path);
        let is_suspected = underway.suspects().has_directory(id);
        Some(Noted { underway, key: journal.key(), id, thread: worker.index, is_suspected })
    }

    /// Notes that a thread is about to open a directory in another one. Returns whether it is left out.
    pub(crate) fn is_left_out(
        &self,
        worker: &mut Worker<'a, V>,
        parent: &Arc<DirectoryOf<V>>,
        name: &CStr,
    ) -> bool {
        self.noted(worker, parent)
            .is_some_and(|noted| noted.note_directory(&mut worker.slot, noted.name(name.to_bytes()), 0))
    }

    /// The same of a root.
    pub(crate) fn is_root_left_out(&self, worker: &mut Worker<'a, V>, root: u32) -> bool {
        let Some((journal, underway)) = self.journal.and_then(|journal| Some((journal, journal.underway()?)))
        else {
            return false;
        };
        let (key, thread) = (journal.key(), worker.index);
        let id = key.root(root);
        Noted { underway, key, id, thread, is_suspected: false }.note_directory(&mut worker.slot, id, 0)
    }

    /// Notes that a thread is about to read names of a directory, the first ones or later ones.
    pub(crate) fn note_reading(
        &self,
        worker: &mut Worker<'a, V>,
        directory: &Arc<DirectoryOf<V>>,
        turn: u64,
    ) {
        if let Some(noted) = self.noted(worker, directory) {
            noted.note_directory(&mut worker.slot, noted.id, turn);
        }
    }

    /// Notes that a thread is about to run a task of the operation, if that is a step of a large file.
    pub(crate) fn note_own(&self, worker: &mut Worker<'a, V>, own: &Own<V::State>) {
        if self.journal.is_none_or(|journal| journal.underway().is_none()) {
            return;
        }
        let (Some(directory), Some((name, chunk))) = (own.directory(), self.visit.file_of(&own.bytes)) else {
            return;
        };
        if let Some(noted) = self.noted(worker, directory) {
            let file = noted.name(&name);
            let doing = match chunk {
                Some(from) => {
                    Doing::new(What::Chunk, (noted.key.below(file, &from.to_le_bytes()), file), noted.id)
                }
                None => Doing::new(What::Name, (file, file), noted.id),
            };
            noted.set(&mut worker.slot, doing);
        }
    }

    /// Notes that a thread is at nothing: what it syncs or names between two tasks is not the doing of the last one.
    pub(crate) fn note_nothing(&self, worker: &mut Worker<'a, V>) {
        if let Some(underway) = self.journal.and_then(|journal| journal.underway()) {
            worker.slot.set((underway, worker.index), None);
        }
    }
}
