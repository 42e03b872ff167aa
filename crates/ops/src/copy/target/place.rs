//! A name in the target, an entry that is copied there, and one that was made there.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::{Errno, Kind, Metadata, Timestamp};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode};

use crate::copy::target::mirror::{CurrentSlice, Location, Mirror, Part};
use crate::digest::{Element, Hash};
use crate::file::error::{FileError, Step};
use crate::file::source::{Identity, Source};
use crate::file::version::Version;
use atta_sys::{self as sys, retry};

/// A name in the target.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) mirror: &'a Arc<Mirror>,
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) name: &'a CStr,
    /// The slice of the source directory that it belongs to, if known.
    pub(crate) slice: Option<&'a CurrentSlice<'a>>,
}

impl<'a> Place<'a> {
    /// The same place, in this slice.
    pub(crate) fn within(self, slice: Option<&'a CurrentSlice<'a>>) -> Self {
        Self { slice, ..self }
    }

    /// Whether the entry gets its final name at once: its directory stays invisible until this slice has been looked at.
    pub(crate) fn is_direct(&self) -> bool {
        self.slice.is_some_and(CurrentSlice::is_whole)
            && self.mirror.is_new()
            && !self.mirror.is_redone()
            && self.mirror.target.alias().is_some()
    }

    /// A part of its slice that ends elsewhere.
    pub(crate) fn part(&self) -> Option<Part> {
        self.slice.map(CurrentSlice::part)
    }

    /// A part that keeps the names of its slice from counting as all looked at.
    pub(crate) fn part_of_names(&self) -> Option<Part> {
        self.slice.map(CurrentSlice::part_of_names)
    }
}

/// An entry that is being copied: where it is, where it goes, and what it was when it was listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) at: &'a Location,
    pub(crate) from: Source<'a>,
    pub(crate) to: &'a Place<'a>,
    pub(crate) metadata: &'a Metadata,
}

/// An open file and its metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFile<'a> {
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) metadata: &'a Metadata,
}

impl<'a> OpenFile<'a> {
    pub(crate) fn new(file: &'a OwnedFd, metadata: &'a Metadata) -> Self {
        Self { file: file.as_fd(), metadata }
    }
}

/// A source and the existing file under the name of its copy, both open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) source: OpenFile<'a>,
    pub(crate) copy: OpenFile<'a>,
}

/// An entry that exists as a whole.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Its temporary name, if it does not have its final name.
    pub(crate) temporary: Option<CString>,
    /// Whether it is a regular file with bytes of its own.
    pub(crate) is_file: bool,
    pub(crate) bytes: u64,
    /// How long the copy took.
    pub(crate) elapsed: std::time::Duration,
    pub(crate) digest: Option<Hash>,
    /// Target of the link, if the entry is a symbolic link.
    pub(crate) target: Option<Vec<u8>>,
    /// The open copy, and device and inode of its source. For making links if it has several names, or for emptying a failed in-place
    /// copy.
    pub(crate) file: Option<(OwnedFd, (u64, u64))>,
    /// The version of its source, if the copy is to be read back.
    pub(crate) version: Option<Version>,
    /// The open copy and the version of its source, if it is synced individually before it gets its final name.
    pub(crate) unsynced: Option<(OwnedFd, Version)>,
    /// The access time it was given, if it is to be read back.
    pub(crate) atime: Option<Timestamp>,
    /// Whether it is another name of a copy that was made before.
    pub(crate) is_link: bool,
    /// Its identity, if it has a temporary name. It reveals a rename whose reply was lost.
    pub(crate) identity: Option<Identity>,
    /// The previous mode of a file that was written in place.
    pub(crate) in_place: Option<u32>,
    /// Number of failed syncs when the copy was started; for a link, when the linked copy was started.
    pub(crate) since: u64,
}

impl Made {
    /// As an element of the signature. `path`: below its root.
    pub(crate) fn element<'a>(&'a self, path: &'a [u8], kind: Kind) -> Element<'a> {
        let size = if kind == Kind::File { self.bytes } else { 0 };
        Element { path, kind, size, digest: self.digest.as_ref(), target: self.target.as_deref() }
    }

    pub(crate) fn temporary(name: CString) -> Self {
        Self { temporary: Some(name), ..Self::default() }
    }
}

/// How many new names to try if the server reports each of them as taken.
pub(crate) const NAMES_TRIED: u32 = 4;
/// Empties an in-place copy that failed.
///
/// A later run must not take it for a copy by its size and time. A second attempt must not write over pages that a sync failed to write.
pub(crate) fn spoil(file: &OwnedFd) {
    let _ = retry(|| rustix::fs::ftruncate(file, 0));
    let _ = retry(|| rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR));
}

/// Removes a new entry, or empties it if it was written in place.
pub(crate) fn remove(to: &Place<'_>, made: &Made) {
    if made.in_place.is_some() {
        // The previous content is already gone.
        return made.file.iter().for_each(|(file, _)| spoil(file));
    }
    let name = made.temporary.as_deref().unwrap_or(to.name);
    // A file that cannot be removed has a temporary name that shows its origin, or is in a directory that is not visible.
    let _ = rustix::fs::unlinkat(&to.directory, name, AtFlags::empty());
}

/// Refuses a name that exists with a different spelling.
pub(crate) fn refuse_taken(to: &Place<'_>, step: Step) -> Result<(), FileError> {
    let failed = |errno| FileError::new(step, errno);
    match sys::stat_at(&to.directory, to.name, false) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno)),
        Ok(_) if sys::has_name(&to.directory, to.name).map_err(failed)? => Ok(()),
        Ok(_) => Err(failed(Errno::EXIST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::target::mirror::Mirror;
    use crate::copy::target::mirror::Shared;
    use crate::jobs::names::Namer;
    use crate::tree::directory::Directory;
    use crate::tree::slice::Extent;
    use std::sync::Arc;

    #[test]
    fn files_of_a_new_directory_get_final_names() {
        let opened: Arc<OwnedFd> = Arc::new(std::fs::File::open("/").unwrap().into());
        let place = sys::Place { device: 1, inode: 1, mount: 1 };
        let source = Directory::root(c"/from".into(), 0, Arc::clone(&opened), place);
        let target = Directory::root(c"/to".into(), 0, Arc::clone(&opened), place);
        source.set_state(Mirror::new(target, &Shared::new(Namer::new(1))));
        let directory = Arc::new(Directory::below(&source, c"new", None));
        let mirror = Mirror::of(&directory).unwrap();
        let is_direct = |slice: Option<&CurrentSlice<'_>>| {
            let directory = Arc::clone(&opened);
            Place { mirror: &mirror, directory, name: c"file", slice }.is_direct()
        };
        let whole = CurrentSlice::new(&directory, Extent::Whole);
        assert!(!is_direct(Some(&whole)), "it may have been there");
        mirror.set_new(0);
        assert!(is_direct(Some(&whole)));
        let (batch, part) = (whole.batch(), whole.part());
        assert!(is_direct(Some(&CurrentSlice::of_batch(&batch))), "also on another thread");
        assert!(!is_direct(Some(&CurrentSlice::of_part(&part))), "the directory may have its name by then");
        assert!(
            !is_direct(Some(&CurrentSlice::new(&directory, Extent::First))),
            "nobody waits for the other slices"
        );
        assert!(!is_direct(None));
        mirror.target.end_alias();
        assert!(!is_direct(Some(&whole)), "it has its name");

        let redone = Mirror::of(&Arc::new(Directory::below(&source, c"redone", None))).unwrap();
        redone.set_new(0);
        let place = |opened: &Arc<OwnedFd>| {
            Place { mirror: &redone, directory: Arc::clone(opened), name: c"file", slice: Some(&whole) }
                .is_direct()
        };
        assert!(place(&opened));
        redone.set_redone();
        assert!(!place(&opened), "another task may give it its name");
    }
}
