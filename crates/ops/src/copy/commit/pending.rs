//! Files and directories that are being synced individually. No I/O.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use crate::copy::commit::checks::Check;
use crate::copy::target::mirror::{Location, Mirror, Part};
use crate::file::source::Identity;
use crate::file::version::Version;

/// A file or directory that is being synced.
#[derive(Debug)]
pub(crate) enum Pending {
    File(Box<PendingFile>),
    /// Its location, for messages.
    Directory(Location),
}

/// A complete file that is being synced.
#[derive(Debug)]
pub(crate) struct PendingFile {
    pub(crate) at: Location,
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) name: CString,
    /// Its present name, if that is not the final one.
    pub(crate) temporary: Option<CString>,
    pub(crate) bytes: u64,
    /// See [`Ready`](crate::copy::commit::batch::Ready).
    pub(crate) has_noted_chunks: bool,
    pub(crate) elapsed: Duration,
    pub(crate) checks: Vec<Check>,
    /// Identity of the file, if it does not have its final name.
    pub(crate) identity: Option<Identity>,
    /// Version of its source.
    pub(crate) version: Version,
    /// The slice that the file is in.
    pub(crate) part: Option<Part>,
}
