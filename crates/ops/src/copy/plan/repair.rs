//! Repairs the entries that a list of differences names. Both sides of each name are looked at again; differences are repaired, and
//! nothing else is changed.
//!
//! | TARGET has | what happens |
//! | --- | --- |
//! | nothing | the entry is copied, a directory with all that is below it |
//! | a directory, as SOURCE | it gets its attributes; its entries are left alone, unless the list says that it was missing |
//! | a file with the same bytes | it keeps them and gets what else differs |
//! | anything else | it is replaced, as by any copy |
//!
//! Bytes count as equal if size and modification time are, unless the list says that they differ. In that case, and if only the times
//! differ, the bytes are compared. A file keeps its bytes only if that gives no rights to data whose writer did not have them.
//!
//! A hard link waits until all other entries are done: its file may exist under a name that the list does not have. Such names are put off
//! (`later.rs`). When no task is left, SOURCE is walked for the other names of their files (*partners*), until each is found (`partners.rs`); then
//! they are looked at again, like rows of the list. Names that do not fit into memory together are taken file by file, with one such walk for each
//! part of them.
//!
//! This module does not choose the entries of the list, and removes nothing.

mod apply;
pub(crate) mod later;
mod partners;

use std::sync::Arc;

use crate::copy::links::Links;
use crate::copy::target::Maker;
use crate::copy::target::mirror::SourceDirectory;

/// What is left to do for an entry of the list.
pub(crate) enum Repaired {
    /// Nothing.
    Done,
    /// It has to be copied.
    Copy,
    /// The directory may be closed: no entry is made in it for this row.
    Directory(Arc<SourceDirectory>),
}

/// Repairs entries, on one thread.
pub(crate) struct Repairer<'w> {
    pub(crate) links: &'w Links,
    pub(crate) maker: Maker<'w>,
}
