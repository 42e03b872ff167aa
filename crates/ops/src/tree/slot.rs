//! The slot of a thread in the file of its rank that says what its threads are at (`underway.rs`). It decides nothing: `at.rs` says what is noted and when.

use atta_ledger::{Id, Key, PathIds};

use crate::underway::{Doing, Underway};

/// What a thread is at, as its rank has it in a file, and the identities that it needs for that.
#[derive(Debug, Default)]
pub(crate) struct Slot<'a> {
    ids: Option<PathIds<'a>>,
    /// None: it is at nothing.
    last: Option<Doing>,
}

impl<'a> Slot<'a> {
    /// The identity of a directory.
    pub(crate) fn id(&mut self, key: &'a Key, root: u32, path: &[u8]) -> Id {
        self.ids.get_or_insert_with(|| PathIds::new(key)).id(root, path)
    }

    /// Writes what the thread is at, unless that is there already. None: nothing.
    pub(crate) fn set(&mut self, (underway, thread): (&Underway, usize), doing: Option<Doing>) {
        if self.last != doing {
            underway.note(thread, doing);
            self.last = doing;
        }
    }
}
