//! Repairs one entry after another: see `repair.rs`. Names of files with several names are made later (`later.rs`).

use std::ffi::CString;
use std::sync::Arc;

use atta_entry::{Entry, Kind, Metadata};
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags};

use crate::copy::plan::repair::{Repaired, Repairer};
use crate::copy::target::existing::{is_alike, there};
use crate::copy::target::mirror::{Here, Location, Mirror};
use crate::copy::target::place::{Item, OpenFile, Pair};
use crate::file::compare::{Blocks, Two};
use crate::file::error::{FileError, Step};
use crate::file::source::{Source, is_same, look, open, settled};
use crate::metadata::give::Attributes;
use crate::tree::Differs;
use crate::tree::directory::Directory;
use atta_sys::{self as sys, retry};

impl Repairer<'_> {
    /// Repairs an entry.
    pub(crate) fn repair(
        &mut self,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let name = CString::new(entry.name).unwrap_or_default();
        match here {
            Some(here) => self.repair_below(here, (entry, &name), differs),
            None => self.repair_root((entry, &name), differs),
        }
    }

    /// Repairs a name below a root.
    fn repair_below(
        &mut self,
        here: Here<'_>,
        (entry, name): (&Entry<'_>, &CString),
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(Repaired::Done) };
        if mirror.is_new() {
            return Ok(Repaired::Copy);
        }
        let to = &self.maker.place_of(Some(here.directory), &mirror, name)?.within(here.slice);
        let metadata = &entry.metadata.copied().unwrap_or_default();
        let Some(found) = there(to)? else { return Ok(Repaired::Copy) };
        if (metadata.kind(), found.kind()) == (Kind::Directory, Kind::Directory) {
            if differs.is_missing {
                return Ok(Repaired::Copy);
            }
            let directory = Arc::new(Directory::below(here.directory, name, None));
            self.maker.expect_above(&directory)?;
            self.maker.results.totals.repaired += 1;
            return Ok(Repaired::Directory(directory));
        }
        let from = Source { directory: here.descriptor.as_fd(), name };
        let at = &Location::In(Arc::clone(here.directory), name.clone());
        self.repair_file(Item { at, from, to, metadata }, &found, differs)
    }

    /// Repairs a root itself.
    fn repair_root(
        &mut self,
        (entry, path): (&Entry<'_>, &CString),
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let found = self.maker.target.roots.find(entry.name).cloned();
        let Some(root) = found else { return Ok(Repaired::Done) };
        let to = &self.maker.place_of(None, &root.parent, &root.name)?;
        let metadata = &entry.metadata.copied().unwrap_or_default();
        let Some(found) = there(to)? else { return Ok(Repaired::Copy) };
        if (metadata.kind(), found.kind()) != (Kind::Directory, Kind::Directory) {
            let from = Source { directory: CWD, name: path };
            let at = &Location::Root(entry.name.to_vec());
            return self.repair_file(Item { at, from, to, metadata }, &found, differs);
        }
        if differs.is_missing {
            return Ok(Repaired::Copy);
        }
        let opened = sys::open_directory_path(entry.name, true);
        let opened = opened.map_err(|errno| FileError::new(Step::Open, errno))?;
        let metadata = look(&opened)?;
        let extended = self.maker.extended(&opened)?;
        root.mirror.will_have(Attributes { metadata, extended, is_old: true });
        self.maker.results.totals.repaired += 1;
        Ok(Repaired::Done)
    }

    /// Repairs an entry that is not a directory on both sides.
    fn repair_file(
        &mut self,
        item: Item<'_>,
        found: &Metadata,
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let metadata = item.metadata;
        if (metadata.kind(), found.kind()) != (Kind::File, Kind::File) {
            return Ok(Repaired::Copy);
        }
        let may_be_link = metadata.nlink > 1 && self.maker.target.options.keep.links;
        if differs.links && may_be_link {
            return Ok(if self.links.put_off(item)? { Repaired::Done } else { Repaired::Copy });
        }
        // A file with one name must not be shared with another name.
        if (found.nlink > 1 && !may_be_link) || metadata.size != found.size {
            return Ok(Repaired::Copy);
        }
        Ok(if self.keep_bytes(item, differs)? { Repaired::Done } else { Repaired::Copy })
    }

    /// Sets the differing attributes of a file with the bytes of its source. Returns whether the file keeps its bytes.
    fn keep_bytes(&mut self, item: Item<'_>, differs: Differs) -> Result<bool, FileError> {
        let (target, Item { from, to, .. }) = (self.maker.target, item);
        let source = open(from)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = retry(|| rustix::fs::openat(&to.directory, to.name, flags, Mode::empty())) else {
            // A file that cannot be opened can be replaced.
            return Ok(false);
        };
        // A file that keeps changing is copied like any such file.
        let (Ok(before), Ok(found)) = (settled(&source), settled(&file)) else { return Ok(false) };
        if (before.kind(), found.kind()) != (Kind::File, Kind::File) || before.size != found.size {
            return Ok(false);
        }
        let is_alike = is_alike(&before, &found, target.stores.granularity(found.device));
        let pair = Pair { source: OpenFile::new(&source, &before), copy: OpenFile::new(&file, &found) };
        if differs.content || !is_alike {
            let is_equal = self.has_equal_bytes(pair);
            if target.options.walk.stop.is_set() {
                return Ok(true);
            }
            if !is_equal || !is_same(&before, &look(&source)?) || !is_same(&found, &look(&file)?) {
                return Ok(false);
            }
        }
        let counted = self.maker.results.totals.not_kept;
        let is_mended = self.maker.mend(to, pair, !is_alike)?;
        if is_mended {
            self.maker.results.totals.repaired += 1;
        } else {
            // The copy will count it.
            self.maker.results.totals.not_kept = counted;
        }
        Ok(is_mended)
    }

    /// Whether two files of the same size have equal bytes. False if this cannot be found out.
    fn has_equal_bytes(&self, pair: Pair<'_>) -> bool {
        let Pair { source: OpenFile { file: source, metadata: from }, copy } = pair;
        let has_holes = |metadata: &Metadata| metadata.allocated_bytes() < metadata.size;
        let two = Two {
            source,
            target: copy.file,
            sizes: [from.size, copy.metadata.size],
            have_holes: has_holes(from) && has_holes(copy.metadata),
        };
        let stop = &self.maker.target.options.walk.stop;
        let mut wanted = |_| !stop.is_set();
        // A file that reports a size of zero may have data and is copied anew.
        from.size > 0 && matches!(Blocks::default().compare(two, 0..from.size, &mut wanted), Ok(None))
    }

    /// Records the final attributes of roots that no row led to: this job makes its own files in TARGET.
    pub(crate) fn expect_roots(&mut self) {
        let target = self.maker.target;
        for path in target.roots.paths() {
            let Some(root) = target.roots.find(&path).filter(|root| !root.mirror.is_expecting()) else {
                continue;
            };
            if root.mirror.target.descriptor(&mut self.maker.scratch.held, target.features).is_err() {
                continue;
            }
            let Ok(opened) = sys::open_directory_path(&path, true) else { continue };
            let extended = self.maker.extended(&opened);
            if let (Ok(metadata), Ok(extended)) = (look(&opened), extended) {
                root.mirror.will_have(Attributes { metadata, extended, is_old: true });
            }
        }
    }
}
