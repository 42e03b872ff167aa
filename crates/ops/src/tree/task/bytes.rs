//! Tasks as bytes, for the spill file and for other ranks. No I/O.
//!
//! Inside a process a task holds its directory. It is encoded only when it leaves for the spill file or for another rank, as records
//! (`record.rs`) one after another:
//!
//! ```text
//!   to another rank   Root  Directory  Lent  Enter   Lent  Enter   Directory  Lent  Listed  Look   Own   Paid ...
//!   to the spill file Anchor  Enter   Anchor  Look ...
//! ```
//!
//! `Root` and `Directory` hold for all tasks that follow. `Lent` and `Listed` hold for the next one.

#[cfg(test)]
pub(crate) mod fuzz;
mod packer;
pub(crate) mod reader;
pub(crate) mod record;
#[cfg(test)]
pub(crate) mod samples;

use std::sync::Arc;

use atta_ledger::SliceNumber;

use crate::tree::anchors::Anchor;
use crate::tree::debts::{Payment, Unit};
use crate::tree::directory::{Directory, State};
use crate::tree::task::Paid;
pub(crate) use packer::{Packer, pack_payments, pack_with_anchor};
pub(crate) use reader::unpack;

/// Maps the roots of packed tasks, and what they hold, to those of this rank.
pub(crate) trait FindRoot<S: State = ()> {
    /// The index of the root with this path.
    fn intern(&self, path: &[u8]) -> Result<u32, &'static str>;

    /// Its directory, opened or not.
    fn directory(&self, index: u32) -> Result<Arc<Directory<S>>, &'static str>;

    /// A directory of a root for tasks that another rank has sent, not opened. `inode`: as that rank saw it, or 0.
    fn directory_of_sent(&self, index: u32, inode: u64) -> Result<Arc<Directory<S>>, &'static str>;

    /// The directory or slice of a task that was spilled.
    fn anchor(&self, number: u64, unit: Unit) -> Result<Anchor<S>, &'static str>;

    /// Whether these bytes are a task of the operation; see [`is_task`](crate::tree::operation::Handler::is_task).
    fn is_task(&self, bytes: &[u8], in_directory: bool) -> bool;

    /// Whether another rank may send names as a slice with this number in the logs of the job.
    fn may_be_slice(&self, number: Option<SliceNumber>) -> bool;

    /// The directory or slice whose units another rank returns.
    fn returned(&self, payment: Payment) -> Result<Paid<S>, &'static str>;
}

/// Who packed the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedBy {
    /// This process.
    Itself,
    /// Another rank of so many, maybe on another host.
    Another { ranks: u32 },
}
