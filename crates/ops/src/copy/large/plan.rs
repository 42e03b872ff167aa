//! Which files are copied in chunks, and how such a file is opened on both sides. It copies no chunk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use atta_entry::Metadata;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;

use crate::copy::commit::batch::BATCH_BYTES;
use crate::copy::large::{Done, Key, Large, LargeCopies};
use crate::copy::resume;
use crate::copy::target::place::{Item, Made, OpenFile, remove};
use crate::copy::target::{Maker, Target};
use crate::digest::HOLE_BYTES_MAX;
use crate::file::chunks::Cut;
use crate::file::direct::bypass_cache;
use crate::file::error::{FileError, Step};
use crate::file::holes::{self, may_have_holes};
use crate::file::source::{Identity, identity_of};
use crate::file::version::Version;
use crate::tree::progress::Live;
use atta_sys::{self as sys, retry};

/// How a large file is to be copied.
pub(crate) enum Planned {
    /// The existing entry is kept.
    Left,
    /// As a whole: it is too small for its transfer rate, or exceeds the number of large files.
    Whole,
    Chunks(Box<Cuttable>),
}

/// A file that was opened on both sides.
pub(crate) struct Cuttable {
    pub(crate) large: Large,
    /// Bytes per chunk.
    pub(crate) chunk: u64,
    /// The copy shares the bytes of its source: nothing is left to copy.
    pub(crate) is_cloned: bool,
    /// Chunks that an earlier run of the job has copied.
    pub(crate) done: Done,
}

/// Opens large files on both sides, on one thread.
pub(crate) struct Planner<'w> {
    pub(crate) maker: Maker<'w>,
    pub(crate) copies: &'w LargeCopies,
    pub(crate) live: &'w Live,
}

/// A copy that exists under a temporary name.
struct Begun {
    identity: Identity,
    /// Whether it shares the bytes of its source.
    is_cloned: bool,
}

impl Target<'_> {
    /// Whether a file is copied in chunks.
    pub(crate) fn is_large(&self, metadata: &Metadata, live: &Live) -> bool {
        let is_alone = metadata.nlink == 1 || !self.options.keep.links;
        // Only one thread writes into an existing file.
        is_alone && !self.options.in_place && self.how_to_cut(live).is_large(metadata.size)
    }

    fn how_to_cut(&self, live: &Live) -> Cut {
        let under_way = self.options.run_of_job.map(|_| BATCH_BYTES);
        let cut = Cut::new(self.options.chunk, &self.options.walk, self.seat.ranks);
        cut.at_rate(live.rate()).with_under_way(under_way)
    }
}

impl Planner<'_> {
    /// Makes the copy of an open source under a temporary name, and determines its chunks. `earlier`: the copy that an earlier run has begun, if it
    /// is to be hashed or not.
    pub(crate) fn plan(
        &mut self,
        item: Item<'_>,
        source: OwnedFd,
        earlier: impl FnOnce(bool) -> Option<resume::large::Begun>,
    ) -> Result<Planned, FileError> {
        let (target, Item { to, metadata, .. }) = (self.maker.target, item);
        if self.maker.is_left(item)? {
            return Ok(Planned::Left);
        }
        let open = OpenFile::new(&source, metadata);
        // If the stated size is not reliable, the end of a chunk is unknown.
        let is_stated = self.maker.scratch.mover.sizes.is_stated(&source, metadata);
        let is_hashed = is_stated && target.data.is_hashed(open)?;
        let chunk = if is_stated { self.chunk_of(open, is_hashed)? } else { metadata.size };
        if metadata.size <= chunk || !self.copies.has_room() {
            return Ok(Planned::Whole);
        }
        if let Some(begun) = earlier(is_hashed) {
            return self.go_on(item, source, begun);
        }
        let layout = target.data.striping.layout_of(&source, metadata);
        let since = target.stores.failed_syncs();
        let (file, temporary) = self.maker.create_temporary(to, layout.as_deref())?;
        let begun = self.begin(open, &file);
        let Begun { identity, is_cloned } =
            begun.inspect_err(|_| remove(to, &Made::temporary(temporary.clone())))?;
        self.live.large_found.fetch_add(metadata.size, Ordering::Relaxed);
        let key = Key { is_hashed, version: Version::of_copy(metadata, identity.1), temporary };
        let (mirror, name, before) = (Arc::clone(to.mirror), to.name.to_owned(), *metadata);
        let (began, busy) = (Instant::now(), AtomicUsize::new(0));
        let large = Large { mirror, name, source, file, before, key, identity, began, busy, since };
        // A cloned file is one chunk that needs no further work.
        let chunk = if is_cloned { metadata.size } else { chunk };
        Ok(Planned::Chunks(Box::new(Cuttable { large, chunk, is_cloned, done: Done::default() })))
    }

    /// Goes on with a copy that an earlier run has begun.
    fn go_on(
        &mut self,
        item: Item<'_>,
        source: OwnedFd,
        begun: resume::large::Begun,
    ) -> Result<Planned, FileError> {
        let Item { to, metadata, .. } = item;
        let resume::large::Begun { file, key, identity, chunk, done, is_whole } = begun;
        if !is_whole {
            // A power cut may have taken its size, which no chunk of holes restores.
            let cut = retry(|| rustix::fs::ftruncate(&file, metadata.size));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        let is_direct = self.maker.target.options.direct;
        if is_direct && !bypass_cache(&source, &file, metadata.size, key.version.has_holes) {
            self.maker.results.totals.not_direct += 1;
        }
        self.live.large_found.fetch_add(metadata.size, Ordering::Relaxed);
        let (mirror, name, before) = (Arc::clone(to.mirror), to.name.to_owned(), *metadata);
        let (began, busy, since) =
            (Instant::now(), AtomicUsize::new(0), self.maker.target.stores.failed_syncs());
        let large = Large { mirror, name, source, file, before, key, identity, began, busy, since };
        Ok(Planned::Chunks(Box::new(Cuttable { large, chunk, is_cloned: false, done })))
    }

    /// Chunk size of an open file, in bytes. Holes that are not hashed do not count as work.
    fn chunk_of(&self, source: OpenFile<'_>, is_hashed: bool) -> Result<u64, FileError> {
        let OpenFile { file, metadata } = source;
        let target = self.maker.target;
        let (cut, stop) = (target.how_to_cut(self.live), &target.options.walk.stop);
        Ok(match is_hashed || !holes::exceed(file, metadata, HOLE_BYTES_MAX, stop)? {
            true => cut.chunk_of(metadata.size),
            false => cut.chunk_of_sparse(metadata.size, metadata.allocated_bytes()),
        })
    }

    /// Prepares a new file for its chunks, or clones it as a whole where it can share the bytes of its source.
    fn begin(&mut self, source: OpenFile<'_>, file: &OwnedFd) -> Result<Begun, FileError> {
        let OpenFile { file: from, metadata } = source;
        let is_cloned = self.maker.clone_bytes(source, file)?;
        let has_holes = may_have_holes(metadata);
        let is_direct = self.maker.target.options.direct;
        if !is_cloned && is_direct && !bypass_cache(from, file, metadata.size, has_holes) {
            self.maker.results.totals.not_direct += 1;
        }
        // A default ACL of the directory may deny write access to the owner, and other ranks open the file by its name.
        let _ = retry(|| rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR));
        // Chunks of other ranks may end it, and a client of NFS may know an older size for some seconds.
        if has_holes || self.maker.target.seat.ranks > 1 {
            let cut = retry(|| rustix::fs::ftruncate(file, metadata.size));
            cut.map_err(|errno| FileError::new(Step::Write, errno))?;
        }
        let found = sys::stat_descriptor(file).map_err(|errno| FileError::new(Step::Create, errno))?;
        Ok(Begun { identity: identity_of(&found), is_cloned })
    }
}
