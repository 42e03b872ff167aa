//! Slices of a directory: all its names where they are few, a run of names that were read together where they are many. No I/O.
//!
//! A slice has *batches* of names that wait or are looked at, and *parts* that end elsewhere: a file that waits for its final name,
//! one that is read back. When its last batch has been looked at the operation gets `looked`; when the last part has ended, too, the
//! slice has ended (`life.rs`).
//!
//! It costs nothing before somebody else gets a part of it: [`AtHand`] is on the stack, and moves into an `Arc` only then.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::tree::directory::Directory;
use crate::tree::life::Count;

/// Which names of its directory a slice has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them.
    Whole,
    /// The first of several.
    First,
    /// Others.
    Later,
}

/// A slice of which parts are held in several places.
#[derive(Debug)]
pub(crate) struct Slice {
    directory: Arc<Directory>,
    extent: Extent,
    /// Batches of names that have not been looked at.
    pub(crate) names: Count,
    /// One for `names`, and one for each part.
    pub(crate) parts: Count,
}

impl Slice {
    /// A batch of names, by itself.
    pub(crate) fn of_batch(directory: Arc<Directory>) -> Arc<Self> {
        directory.life().add_slice();
        let (names, parts) = (Count::new(1), Count::new(1));
        Arc::new(Self { directory, extent: Extent::Later, names, parts })
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// Something of a slice that ends elsewhere. Whoever holds it ends it with [`end_part`](crate::tree::life::end_part); one that is
/// only dropped leaves its directory open.
#[derive(Debug)]
#[must_use]
pub(crate) struct Part {
    slice: Arc<Slice>,
    holds_names: bool,
}

impl Part {
    /// A slice that has nothing but this part.
    pub(crate) fn alone(directory: Arc<Directory>) -> Self {
        Self { slice: Slice::of_batch(directory), holds_names: true }
    }

    pub(crate) fn slice(&self) -> &Arc<Slice> {
        &self.slice
    }

    /// Whether the slice's names have not all been looked at before it ends.
    pub(crate) fn holds_names(&self) -> bool {
        self.holds_names
    }

    /// Another part of the same slice.
    pub(crate) fn again(&self) -> Self {
        self.slice.parts.add();
        Self { slice: Arc::clone(&self.slice), holds_names: false }
    }

    /// The part that a packed task had.
    pub(crate) fn of(slice: Arc<Slice>, holds_names: bool) -> Self {
        Self { slice, holds_names }
    }
}

/// The slice that a thread is at: names that it looks at, or a part.
#[derive(Debug)]
pub(crate) struct AtHand<'a> {
    directory: &'a Arc<Directory>,
    extent: Extent,
    /// It is looking at names of it.
    looks: bool,
    shared: OnceCell<Arc<Slice>>,
}

impl<'a> AtHand<'a> {
    /// A new slice, whose names are all at hand.
    pub(crate) fn new(directory: &'a Arc<Directory>, extent: Extent) -> Self {
        Self { directory, extent, looks: true, shared: OnceCell::new() }
    }

    /// A batch of names of a slice.
    pub(crate) fn of_batch(slice: &'a Arc<Slice>) -> Self {
        let shared = OnceCell::from(Arc::clone(slice));
        Self { directory: &slice.directory, extent: slice.extent, looks: true, shared }
    }

    /// A part of a slice.
    pub(crate) fn of_part(part: &'a Part) -> Self {
        Self { looks: false, ..Self::of_batch(&part.slice) }
    }

    pub(crate) fn directory(&self) -> &'a Arc<Directory> {
        self.directory
    }

    /// Whether nothing is put into the directory but by those who look at the names of this slice, of whom this thread is one.
    pub(crate) fn is_whole(&self) -> bool {
        self.looks && self.extent == Extent::Whole
    }

    /// Whether it is the first slice of its directory, or the only one.
    pub(crate) fn is_first(&self) -> bool {
        self.extent != Extent::Later
    }

    /// A batch of its names for somebody else.
    pub(crate) fn batch(&self) -> Arc<Slice> {
        let slice = self.share();
        slice.names.add();
        Arc::clone(slice)
    }

    /// A part of it that ends elsewhere.
    pub(crate) fn part(&self) -> Part {
        let slice = self.share();
        slice.parts.add();
        Part { slice: Arc::clone(slice), holds_names: false }
    }

    /// A part of it without which its names have not all been looked at.
    pub(crate) fn part_of_names(&self) -> Part {
        Part { slice: self.batch(), holds_names: true }
    }

    fn share(&self) -> &Arc<Slice> {
        self.shared.get_or_init(|| {
            let (names, parts) = (Count::new(1), Count::new(1));
            Arc::new(Slice { directory: Arc::clone(self.directory), extent: self.extent, names, parts })
        })
    }

    /// The names at hand have been looked at. Whether they were the last.
    pub(crate) fn release_names(&self) -> bool {
        self.shared.get().is_none_or(|slice| slice.names.release())
    }

    /// After the last names. Whether the slice has ended.
    pub(crate) fn release_part_of_names(&self) -> bool {
        self.shared.get().is_none_or(|slice| slice.parts.release())
    }
}
