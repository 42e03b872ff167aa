//! The tasks of a walk. No I/O.
//!
//! Inside a process a task holds its directory or its slice. `task/bytes.rs` encodes it when it leaves for the spill file or for another rank.

pub(crate) mod bytes;

use std::ffi::CString;
use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::tree::anchors::Anchor;
use crate::tree::debts::{Debt, Unit};
use crate::tree::directory::{Directory, State};
use crate::tree::journal::earlier::Redo;
use crate::tree::listing::names::Names;
use crate::tree::listing::reading::Reading;
use crate::tree::operation::{Of, Own};
use crate::tree::slice::{Part, Slice};
use crate::tree::start::Differs;

/// One unit of work of a walk.
#[derive(Debug)]
pub(crate) enum Task<S: State = ()> {
    /// Take more starts from the caller's list.
    Feed,
    /// Look at a root or at a listed name below it. `differs` holds the flags from a list of differences, if it comes from one.
    Start { root: u32, below: Option<Vec<u8>>, differs: Option<Differs> },
    /// Open and read a subdirectory. `target` is its real place if a followed link leads to it.
    Enter { parent: Arc<Directory<S>>, name: CString, target: Option<Vec<u8>> },
    /// Continue reading a large directory. The position is that of the descriptor.
    ReadOn { directory: Arc<Directory<S>>, descriptor: Arc<OwnedFd>, reading: Reading },
    /// Look at a batch of names of a slice.
    Look { slice: Arc<Slice<S>>, names: Names },
    /// A task that the caller added.
    Own(Own<S>),
    /// Parts of slices that have ended.
    Ended(Vec<Part<S>>),
    /// End the names of tasks that were sent to other ranks.
    EndSent,
    /// Carries payments to this rank.
    Pay(u32),
    /// Units that another rank has returned.
    Paid(Vec<Paid<S>>),
    /// End what waits on this rank. The flag: help with it.
    Settle(bool),
    /// Do again what an earlier run of the job has not done.
    Redo(Box<Redo>),
}

/// A directory or slice, and how many units of it were returned.
#[derive(Debug)]
pub(crate) struct Paid<S: State = ()> {
    pub(crate) anchor: Anchor<S>,
    pub(crate) count: u32,
}

/// Approximate size of a waiting task's share in its directory, with the allocator's overhead.
const OVERHEAD_BYTES: usize = 64;

impl<S: State> Task<S> {
    /// Bytes of memory that the task holds.
    pub(crate) fn weigh(&self) -> usize {
        let own = match self {
            Self::Feed | Self::ReadOn { .. } | Self::EndSent | Self::Pay(_) | Self::Settle(_) => 0,
            Self::Paid(paid) => size_of_val(paid.as_slice()),
            Self::Ended(parts) => size_of_val(parts.as_slice()),
            Self::Start { below, .. } => below.as_ref().map_or(0, Vec::len),
            Self::Enter { name, target, .. } => name.as_bytes().len() + target.as_ref().map_or(0, Vec::len),
            Self::Look { names, .. } => names.bytes().len(),
            Self::Own(own) => own.bytes.len(),
            Self::Redo(redo) => redo.weigh(),
        };
        size_of::<Self>() + OVERHEAD_BYTES + own
    }
}

impl<S: State> Task<S> {
    /// Counts the names and directories that it looks at.
    pub(crate) fn steps(&self) -> u64 {
        match self {
            Self::Own(_) | Self::Ended(_) | Self::EndSent => 0,
            Self::Pay(_) | Self::Paid(_) | Self::Settle(_) => 0,
            Self::Look { names, .. } => names.len() as u64,
            Self::Feed | Self::Start { .. } | Self::Enter { .. } | Self::ReadOn { .. } => 1,
            Self::Redo(redo) => redo.steps(),
        }
    }

    /// The directory that the task belongs to.
    pub(crate) fn directory(&self) -> Option<&Arc<Directory<S>>> {
        match self {
            Self::Enter { parent: directory, .. } => Some(directory),
            Self::Look { slice, .. } => Some(slice.directory()),
            Self::Own(own) => own.directory(),
            Self::ReadOn { .. } | Self::Feed | Self::Start { .. } | Self::Ended(_) | Self::EndSent => None,
            Self::Pay(_) | Self::Paid(_) | Self::Settle(_) | Self::Redo(_) => None,
        }
    }

    /// The directory or slice that it belongs to, and the unit of it that it holds, where units are counted.
    pub(crate) fn anchor(&self) -> Option<(Anchor<S>, Unit)> {
        let of_slice = |slice, holds_names| {
            (Anchor::Slice(Arc::clone(slice)), if holds_names { Unit::Names } else { Unit::Part })
        };
        match self {
            Self::Look { slice, .. } => Some(of_slice(slice, true)),
            Self::Own(Own { of: Of::Part(part), .. }) => Some(of_slice(part.slice(), part.holds_names())),
            Self::Enter { parent, .. } => Some((Anchor::Directory(Arc::clone(parent)), Unit::Child)),
            _ => self.directory().map(|directory| (Anchor::Directory(Arc::clone(directory)), Unit::None)),
        }
    }

    /// Whether it can be encoded: it holds no position in an open directory, and it is not about this process.
    pub(crate) fn may_leave(&self) -> bool {
        matches!(self, Self::Enter { .. } | Self::Look { .. } | Self::Own(_) | Self::Start { .. })
    }

    /// What it holds of the rank that lent it.
    pub(crate) fn debt(&self) -> Option<Debt> {
        let slice = match self {
            Self::Look { slice, .. } => slice.owed(),
            Self::Own(Own { of: Of::Part(part), .. }) => part.slice().owed(),
            Self::Enter { .. } => 0,
            _ => return None,
        };
        self.directory()?.life().owed()?.debt(slice)
    }

    /// The root that the task belongs to, if it can be encoded and has one.
    fn root_index(&self) -> Option<u32> {
        match self {
            Self::Start { root, .. } => Some(*root),
            _ => self.directory().map(|directory| directory.root_index()),
        }
    }
}
