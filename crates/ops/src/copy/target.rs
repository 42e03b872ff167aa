//! What the copy creates in the target: directories, files and special files, and how existing entries are treated. [`Target`] is the state
//! that all threads share, [`Maker`] makes entries on one thread. When an entry gets its final name and becomes durable is not decided
//! here: see `commit.rs`.

pub(crate) mod data;
pub(crate) mod directories;
pub(crate) mod existing;
pub(crate) mod file;
pub(crate) mod grants;
pub(crate) mod mirror;
pub(crate) mod noted;
pub(crate) mod place;
pub(crate) mod special;
pub(crate) mod stripe;

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use crate::copy::Seat;
use crate::copy::commit::stores::Stores;
use crate::copy::failures::{Failed, Failures};
use crate::copy::links::private::PrivateDirectory;
use crate::copy::options::{Fsync, Options};
use crate::copy::plan::roots::Roots;
use crate::copy::results::Results;
use crate::copy::thread::Scratch;
use crate::file::error::{FileError, Step};
use crate::file::source::{Identity, Source};
use crate::metadata::extended::{Extended, Holder};
use crate::metadata::give::Manner;
use atta_sys::Features;
use data::Data;
use grants::Grants;
use mirror::{Location, Mirror, Shared};
use place::Place;

/// Where the copy goes, and what is known of it.
pub(crate) struct Target<'a> {
    pub(crate) options: &'a Options<'a>,
    pub(crate) features: Features,
    pub(crate) seat: Seat,
    /// The number of the run, from 1, if the copy has a log of its job.
    pub(crate) run_of_job: Option<u32>,
    /// Whether the entries come from a list.
    pub(crate) is_listed: bool,
    /// Whether directories must not be renamed while others work below them, so that they are made under their final names.
    pub(crate) has_fragile_renames: bool,
    pub(crate) top: Top,
    pub(crate) roots: Roots,
    /// The paths of the roots, in the order of the command.
    pub(crate) sources: &'a [Vec<u8>],
    pub(crate) shared: Arc<Shared>,
    /// The file systems that entries are written to.
    pub(crate) stores: Stores,
    /// The rights that this process can give to files there.
    pub(crate) grants: Grants,
    pub(crate) private: PrivateDirectory,
    pub(crate) data: Data<'a>,
    pub(crate) failures: Failures<'a>,
}

/// TARGET, or the directory that TARGET is made in.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) directory: Arc<OwnedFd>,
    /// Path of TARGET, for messages.
    pub(crate) path: Vec<u8>,
    /// Must not be copied into itself.
    pub(crate) identity: Identity,
}

/// Makes entries in the target, on one thread.
pub(crate) struct Maker<'w> {
    pub(crate) target: &'w Target<'w>,
    pub(crate) scratch: &'w mut Scratch,
    /// What the thread has gathered.
    pub(crate) results: &'w mut Results,
}

impl Maker<'_> {
    /// Opens the target directory that a name goes to.
    pub(crate) fn place<'a>(
        &mut self,
        mirror: &'a Arc<Mirror>,
        name: &'a CStr,
    ) -> Result<Place<'a>, FileError> {
        let directory = mirror.target.descriptor(&mut self.scratch.held, self.target.features);
        let directory = directory.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        if mirror.is_foreign() {
            return Err(FileError::new(Step::OpenDirectory, Errno::STALE));
        }
        mirror.store.get_or_init(|| self.target.stores.note(&directory));
        Ok(Place { mirror, directory, name, slice: None })
    }

    /// Calls `act` with a source entry, by its name in its directory.
    pub(crate) fn with_source<T>(
        &mut self,
        at: &Location,
        act: impl FnOnce(&mut Self, Source<'_>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let failed = |errno| FileError::new(Step::Open, errno);
        match at {
            Location::In(directory, name) => {
                let opened = directory.descriptor(&mut self.scratch.held, self.target.features);
                let opened = opened.map_err(failed)?;
                act(self, Source { directory: opened.as_fd(), name })
            }
            Location::Root(path) => {
                let name = CString::new(path.as_slice()).unwrap_or_default();
                act(self, Source { directory: CWD, name: &name })
            }
            Location::Itself(_) | Location::Target(_) => Err(failed(Errno::STALE)),
        }
    }

    /// Reads the extended attributes of the source.
    pub(crate) fn extended(&mut self, source: impl AsFd) -> Result<Extended, FileError> {
        let keep = &self.target.options.keep;
        let holder = Holder::Open(source.as_fd());
        let read = self.scratch.extended(holder, |name| keep.reads(name), &mut self.results.totals.not_kept);
        read.map_err(|errno| FileError::new(Step::ReadExtended, errno))
    }

    /// Reads the extended attributes of an existing file or directory.
    pub(crate) fn extended_there(&mut self, file: impl AsFd) -> Result<Extended, FileError> {
        let keep = &self.target.options.keep;
        let holder = Holder::Open(file.as_fd());
        let read = self.scratch.extended(holder, |name| keep.gives(name), &mut self.results.totals.not_kept);
        read.map_err(|errno| FileError::new(Step::SetExtended, errno))
    }

    /// Counts and reports the failure of an entry. Stops the copy if the target is full.
    pub(crate) fn fail(&mut self, at: &Location, error: FileError) {
        if error == FileError::Stopped {
            return;
        }
        self.note_failed(at);
        let Target { failures, roots, features, .. } = self.target;
        let failed = Failed { at, error, roots, features: *features };
        failures.report_entry(&mut self.results.totals, &mut self.scratch.held, &failed);
    }
}

impl Target<'_> {
    /// Whether directories are made under their final names.
    pub(crate) fn names_at_once(&self) -> bool {
        self.is_listed || self.has_fragile_renames
    }

    /// Whether what is written outlives the machine, and is synced.
    pub(crate) fn is_durable(&self) -> bool {
        self.options.fsync != Fsync::None && !self.stores.are_volatile()
    }

    /// The copy of a directory, by the number of its root and its path below that.
    pub(crate) fn mirror_of(&self, root: u32, path: &[u8]) -> Option<Arc<Mirror>> {
        let source = self.sources.get(usize::try_from(root).ok()?)?;
        let root = &self.roots.find(source)?.mirror;
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names
            .map(|name| CString::new(name).ok())
            .try_fold(Arc::clone(root), |above, name| Some(above.below(&name?)))
    }

    /// Whether earlier runs of the job may have copied something.
    pub(crate) fn is_resumed(&self) -> bool {
        self.run_of_job.is_some_and(|run| run > 1)
    }

    /// How new entries of this job get their attributes.
    pub(crate) fn manner(&self) -> Manner<'_> {
        Manner { keep: &self.options.keep, is_old: false }
    }
}
