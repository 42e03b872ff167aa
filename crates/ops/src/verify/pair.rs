//! Two entries with one name: their locations, their metadata when read or opened, and the check that they are unchanged. It compares
//! nothing; see `compare.rs`.

use std::ffi::CStr;
use std::sync::Arc;

use atta_entry::{Change, Detail, Difference, Errno, Kind, Metadata, Operation, Side};
use atta_runtime::Stop;
use rustix::fd::{AsFd, OwnedFd};

use super::counterpart::{Counterpart, SourceDirectory};
use crate::digest::HOLE_BYTES_MAX;
use crate::file::compare::Two;
use crate::file::error::{PairError, failed, on};
use crate::file::holes::{self, may_have_holes};
use crate::file::source::{Source, is_fresh, is_same, look, open, settled};
use crate::metadata::extended::Holder;
use crate::tree::directory::Directory;
use crate::tree::listing::path::join;
use crate::tree::location::below;
use atta_sys as sys;

/// Errors from opening a file that was removed or replaced by an entry of another type.
const GONE: [Errno; 3] = [Errno::NOENT, Errno::LOOP, Errno::NXIO];

/// The location of an entry, for messages: its directories on both sides and its name. Without directories, it is the roots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) directories: Option<(&'a Arc<SourceDirectory>, &'a Arc<Directory>)>,
    pub(crate) name: &'a CStr,
}

/// The location of two entries, for system calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) target: Source<'a>,
}

/// A name that is compared.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) at: At<'a>,
    pub(crate) pair: Pair<'a>,
    /// TARGET's directory, which counts the names on both sides. None: the name is the roots.
    pub(crate) counterpart: Option<&'a Counterpart>,
}

/// The metadata of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Both {
    pub(crate) source: Metadata,
    pub(crate) target: Metadata,
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The entry does not exist in the target.
    Missing,
    /// The fields that differ, if any.
    Compared(Vec<Detail>),
}

/// The result for one entry, and its location and type.
#[derive(Debug)]
pub(crate) struct Finding<'a> {
    pub(crate) at: At<'a>,
    pub(crate) kind: Kind,
    pub(crate) verdict: Result<Verdict, PairError>,
}

/// Two open files.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) source: OwnedFd,
    pub(crate) target: OwnedFd,
    pub(crate) before: Both,
    /// The same metadata, with unreliable sizes replaced by the number of bytes read.
    pub(crate) read: Both,
}

impl At<'_> {
    /// The path below the roots.
    pub(crate) fn below(self) -> Vec<u8> {
        let Some((directory, _)) = self.directories else { return Vec::new() };
        let mut path = Vec::new();
        let root_bytes = directory.path_into(&mut path);
        join(&mut path, self.name.to_bytes());
        below(&path, root_bytes).to_vec()
    }

    /// A difference here.
    pub(crate) fn difference(self, kind: Kind, change: Change) -> Difference<'static> {
        Difference { path: self.below().into(), kind, change }
    }

    /// Returns the root and the full path on one side.
    pub(crate) fn root_and_path(self, side: Side, target: &CStr) -> (Vec<u8>, Vec<u8>) {
        let mut path = Vec::new();
        let root_bytes = match (self.directories, side) {
            (None, Side::Source) => return [self.name; 2].map(|path| path.to_bytes().to_vec()).into(),
            (None, Side::Target) => return [target; 2].map(|path| path.to_bytes().to_vec()).into(),
            (Some((directory, _)), Side::Source) => directory.path_into(&mut path),
            (Some((_, directory)), Side::Target) => directory.path_into(&mut path),
        };
        let root = path[..root_bytes].to_vec();
        join(&mut path, self.name.to_bytes());
        (root, path)
    }
}

impl Pair<'_> {
    /// Reads the metadata of both. None: the entry does not exist in the target.
    pub(crate) fn look(self) -> Result<Option<Both>, PairError> {
        let Source { directory, name } = self.source;
        let source = sys::stat_at(directory, name, false);
        let source = source.map_err(failed(Side::Source, Operation::Stat))?;
        let Source { directory, name } = self.target;
        match sys::stat_at(directory, name, false) {
            Ok(target) => Ok(Some(Both { source, target })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(Side::Target, Operation::Stat)(errno)),
        }
    }

    /// Opens both files, and waits until they have been unchanged for a moment.
    pub(crate) fn open(self) -> Result<Opened, PairError> {
        let opened = |side, from| match open(from) {
            Err(crate::file::error::FileError::Failed(_, errno)) if GONE.contains(&errno) => {
                Err(PairError::Changed)
            }
            opened => opened.map_err(|error| on(side, error)),
        };
        let (source, target) = (opened(Side::Source, self.source)?, opened(Side::Target, self.target)?);
        let before = Both {
            source: settled(&source).map_err(|error| on(Side::Source, error))?,
            target: settled(&target).map_err(|error| on(Side::Target, error))?,
        };
        // A file that changes constantly has also changed since the clock's last tick. A later check would miss that.
        if before.kinds() != (Kind::File, Kind::File) || is_fresh(&before.source) || is_fresh(&before.target)
        {
            return Err(PairError::Changed);
        }
        Ok(Opened { source, target, before, read: before })
    }
}

impl Both {
    pub(crate) fn kinds(&self) -> (Kind, Kind) {
        (self.source.kind(), self.target.kind())
    }

    /// Whether both are unchanged.
    pub(crate) fn is_unchanged(&self, after: &Self) -> bool {
        let same = |one: &Metadata, other: &Metadata| {
            is_same(one, other) && (one.device, one.inode) == (other.device, other.inode)
        };
        same(&self.source, &after.source) && same(&self.target, &after.target)
    }

    /// Device and inode of both.
    pub(crate) fn identities(&self) -> [(u64, u64); 2] {
        [&self.source, &self.target].map(|metadata| (metadata.device, metadata.inode))
    }

    /// Number of bytes that both have.
    pub(crate) fn common_bytes(&self) -> u64 {
        self.source.size.min(self.target.size)
    }
}

impl Opened {
    /// Fails if either file has changed since it was opened.
    pub(crate) fn check(&self) -> Result<(), PairError> {
        let after = Both {
            source: look(&self.source).map_err(|error| on(Side::Source, error))?,
            target: look(&self.target).map_err(|error| on(Side::Target, error))?,
        };
        if self.before.is_unchanged(&after) { Ok(()) } else { Err(PairError::Changed) }
    }

    pub(crate) fn two(&self) -> Two<'_> {
        let Both { source, target } = &self.read;
        Two {
            source: self.source.as_fd(),
            target: self.target.as_fd(),
            sizes: [source.size, target.size],
            // Files with unreliable sizes have no holes either.
            have_holes: self.read == self.before && may_have_holes(source) && may_have_holes(target),
        }
    }

    /// Whether both sides have so many holes that chunks of the usual size would be too many.
    pub(crate) fn are_sparse(&self, stop: &Stop) -> Result<bool, PairError> {
        let Both { source, target } = &self.read;
        let exceed = |side, file: &OwnedFd, metadata| {
            holes::exceed(file, metadata, HOLE_BYTES_MAX, stop).map_err(|error| on(side, error))
        };
        Ok(self.two().have_holes
            && exceed(Side::Source, &self.source, source)?
            && exceed(Side::Target, &self.target, target)?)
    }

    pub(crate) fn holders(&self) -> [Holder<'_>; 2] {
        [Holder::Open(self.source.as_fd()), Holder::Open(self.target.as_fd())]
    }
}

impl Both {
    /// Returns the difference between two files whose common bytes differ first at this offset, or are equal.
    pub(crate) fn content(&self, first: Option<u64>) -> Option<Detail> {
        let is_longer = self.source.size != self.target.size;
        first.or_else(|| is_longer.then(|| self.common_bytes())).map(Detail::Content)
    }
}
