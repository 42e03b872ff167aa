//! Large files that are being copied in chunks: their state, and what other ranks need to recognise them. No I/O: `large/run.rs` and its
//! neighbours copy them.

mod chunk;
pub(crate) mod plan;
mod run;

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use atta_entry::Metadata;
use rustix::fd::OwnedFd;

use crate::copy::target::mirror::Mirror;
use crate::copy::target::place::Made;
use crate::digest::PieceValue;
use crate::file::chunks::UnderWay;
use crate::file::error::FileError;
use crate::file::source::Identity;
use crate::file::version::Version;
use crate::jobs::names::PREFIX;
use crate::large;

/// What a rank needs to find and recognise both sides of a file that another rank planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Whether the file gets a digest.
    pub(crate) is_hashed: bool,
    pub(crate) version: Version,
    pub(crate) temporary: CString,
}

atta_entry::record!(Key { is_hashed, version, temporary } if is_of_program);

impl Key {
    /// Whether this program makes such a temporary name.
    fn is_of_program(&self) -> bool {
        let name = self.temporary.as_bytes();
        name.starts_with(PREFIX) && !name.contains(&b'/')
    }
}

/// A file with its chunks.
pub(crate) type LargeCopy = large::Large<Large, FileError, Arc<Mirror>>;
/// Files that are being copied in chunks.
pub(crate) type LargeCopies = UnderWay<LargeCopy>;

/// Chunks that are done, with their values.
pub(crate) type Done = HashMap<u64, Option<PieceValue>>;

/// A file that is being copied in chunks.
#[derive(Debug)]
pub(crate) struct Large {
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) name: CString,
    pub(crate) source: OwnedFd,
    pub(crate) file: OwnedFd,
    pub(crate) before: Metadata,
    pub(crate) key: Key,
    pub(crate) identity: Identity,
    pub(crate) began: std::time::Instant,
    /// How many threads are copying it.
    pub(crate) busy: AtomicUsize,
    /// Number of failed syncs at its start.
    pub(crate) since: u64,
}

impl Large {
    pub(crate) fn made(&self) -> Made {
        Made::temporary(self.key.temporary.clone())
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::Code as _;

    use super::*;

    #[test]
    fn keys_of_other_ranks_name_temporary_files_only() {
        let key = |temporary: &std::ffi::CStr| {
            let version = Version::of_copy(&Metadata::default(), u64::MAX);
            Key { is_hashed: true, version, temporary: temporary.to_owned() }
        };
        let good = key(c".atta.0123456789ab");
        assert_eq!(Key::decode_all(&good.encoded()), Some(good));
        for bad in [key(c"../passwd"), key(c".atta./../../x"), key(c"passwd")] {
            assert_eq!(Key::decode_all(&bad.encoded()), None);
        }
    }
}
