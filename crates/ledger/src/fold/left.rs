//! The last reading: results, and what is left to do. No I/O.

use crate::fold::known::{Incomplete, Known};
use crate::fold::walk::{Here, Read, Steps};
use crate::fold::{Item, Left, Logs, Stage};
use crate::frame::sections;
use crate::id::{Id, Key};
use crate::record::{At, Fact, Record, Seen};

pub(super) struct Reading<'r> {
    key: &'r Key,
    known: Known,
    each: &'r mut dyn FnMut(Left<'_>),
    /// The number of the record.
    record: u64,
}

impl<'r> Reading<'r> {
    pub(super) fn new(key: &'r Key, known: Known, each: &'r mut dyn FnMut(Left<'_>)) -> Self {
        Self { key, known, each, record: 0 }
    }

    pub(super) fn read<L: Logs>(mut self, logs: &mut L) -> Result<(), L::Error> {
        let key = *self.key;
        let mut steps = Steps::new(&key);
        logs.each(&mut |at, frame| {
            let is_void = at.voided_by.is_some();
            sections(frame, &mut |section| self.section(&mut steps, section, is_void))
        })
    }

    fn section(&mut self, steps: &mut Steps<'_>, section: &[u8], is_void: bool) -> bool {
        steps.read(section, &mut |read| match read {
            Read::Fact(here, fact) => self.note(here, fact, is_void),
            Read::Other(_) if is_void => {}
            Read::Other(Record::Results(bytes)) => (self.each)(Left::Results(bytes)),
            Read::Other(Record::Part(bytes)) => (self.each)(Left::Part(bytes)),
            Read::Other(_) => {}
        })
    }

    fn note(&mut self, here: Here<'_>, fact: &Fact<'_>, is_void: bool) {
        self.record += 1;
        here.added().for_each(|(at, id)| self.directory(at, id));
        let (at, id) = (here.at, here.id());
        match fact {
            Fact::Found { name, mark } => {
                let found = here.named(name);
                let incomplete = self.known.incomplete.get(&found);
                if *mark != 0 || incomplete.is_some_and(|directory| !directory.is_over) {
                    let slash: &[u8] = if at.path.is_empty() { b"" } else { b"/" };
                    let path = [at.path, slash, name].concat();
                    let at = At { root: at.root, path: &path };
                    self.directory(at, found);
                    if *mark != 0 {
                        self.marked(at, *mark, found);
                    }
                }
            }
            Fact::Marked { mark } => self.marked(at, *mark, id),
            Fact::Listed { slice, names } => {
                let Some(directory) = self.known.incomplete.get(&id) else { return };
                if !directory.is_read {
                    (self.each)(Left::Given(at, names));
                }
                let is_done = directory.is_done;
                match self.known.open.get_mut(&(id, *slice)).map(|is_over| std::mem::replace(is_over, true)) {
                    Some(false) => (self.each)(Left::Slice(at, *slice, names)),
                    None if !is_done => (self.each)(Left::Names(at, names)),
                    _ => {}
                }
            }
            Fact::Done { .. } if is_void => {}
            Fact::Done { slice, seen } => self.done(&here, slice.is_none(), *seen),
            Fact::Failed { name, row } => {
                if self.known.failed.get(&here.named(name)) == Some(&self.record) {
                    (self.each)(Left::Failed(at, name, row));
                }
            }
            Fact::Planned { name, plan } if self.is_open(id) => (self.each)(Left::Planned(at, name, plan)),
            Fact::Chunk { name, index, value } if self.is_open(id) => {
                (self.each)(Left::Chunk(at, name, *index, value));
            }
            Fact::Planned { .. } | Fact::Chunk { .. } | Fact::Closed | Fact::Mended { .. } => {}
        }
    }

    fn marked(&mut self, at: At<'_>, mark: u32, id: Id) {
        let stage = self.stage(id);
        (self.each)(Left::Marked(at, mark, stage));
    }

    fn stage(&self, id: Id) -> Stage {
        match self.known.incomplete.get(&id) {
            None => Stage::Complete,
            Some(directory) if directory.is_done => Stage::Done,
            Some(_) => Stage::Begun,
        }
    }

    fn is_open(&self, id: Id) -> bool {
        self.known.incomplete.get(&id).is_some_and(|directory| !directory.is_done)
    }

    /// Hands over a directory that is not complete.
    fn directory(&mut self, at: At<'_>, id: Id) {
        if let Some(directory) = self.known.incomplete.get_mut(&id).filter(|directory| !directory.is_over) {
            directory.is_over = true;
            let Incomplete { is_read, is_done, was_closed, .. } = *directory;
            (self.each)(Left::Directory(at, Item { id, is_read, is_done, was_closed }));
        }
    }

    fn done(&mut self, here: &Here<'_>, is_read: bool, seen: Option<Seen>) {
        let (id, stage) = (here.id(), self.stage(here.id()));
        if is_read && stage == Stage::Complete && here.above().is_none_or(|above| self.is_open(above)) {
            (self.each)(Left::Complete(id));
        }
        if let Some(seen) = seen {
            (self.each)(Left::Seen(here.at, seen, stage));
        }
    }
}
