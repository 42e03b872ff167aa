//! Copies the entries that a list names. Directories above a name may not exist yet, and the same directory may occur many times. So
//! directories are made under their final names and get their attributes at the very end. Existing directories get them again, because
//! new entries change their times.

use std::ffi::CStr;
use std::sync::Arc;

use atta_entry::{Errno, Metadata};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;

use crate::copy::handler::Copying;
use crate::copy::target::mirror::{Mirror, SourceDirectory};
use crate::copy::target::place::Place;
use crate::copy::thread::Worker;
use crate::file::error::{FileError, Step};
use crate::metadata::give::Attributes;
use crate::metadata::inherited::{disinherit, open_own};
use atta_sys::{self as sys, retry};

impl Copying<'_> {
    /// Makes a directory under its final name. Returns whether it is new.
    pub(crate) fn make_at_once(
        &self,
        above: &OwnedFd,
        name: &CStr,
        metadata: &Metadata,
        list: Option<&[u8]>,
    ) -> Result<bool, Errno> {
        // The directory is private until it gets its mode, if it gets one.
        let keep = &self.options.keep;
        let bits = keep.mode_of(metadata, list, false).filter(|_| !keep.mode).unwrap_or_default();
        match retry(|| rustix::fs::mkdirat(above, name, Mode::RWXU)) {
            Ok(()) => {
                let own = self.stores.own_uid(sys::stat_descriptor(above)?.device);
                let made = match open_own(above, name, own, self.features) {
                    // Another rank has finished its entries in it and has set its owner: the directory was made here all the same.
                    Err(Errno::STALE) if self.seat.ranks > 1 => return Ok(true),
                    opened => opened?.0,
                };
                disinherit(&made)?;
                match retry(|| rustix::fs::fchmod(&made, Mode::RWXU | Mode::from_raw_mode(bits))) {
                    // The file system does not support modes.
                    Ok(()) | Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(true),
                    Err(errno) => Err(errno),
                }
            }
            // If the name is not a directory, opening it reports that.
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the target place of a name in a source's directory. With a list, makes the directories above it if necessary.
    pub(crate) fn place_of<'a>(
        &self,
        worker: &mut Worker,
        source: Option<&Arc<SourceDirectory>>,
        mirror: &'a Arc<Mirror>,
        name: &'a CStr,
    ) -> Result<Place<'a>, FileError> {
        match (self.place(worker, mirror, name), source) {
            (Err(FileError::Failed(_, Errno::NOENT)), Some(source)) if self.is_listed => {
                self.make_above(worker, source)?;
                self.place(worker, mirror, name)
            }
            (Ok(to), Some(source)) if self.is_listed => {
                self.expect_above(worker, source)?;
                Ok(to)
            }
            (to, _) => to,
        }
        .inspect(|to| to.mirror.expect_names())
    }

    /// Records the final attributes of the copies of a source's directory and of those above it: new entries, and this job's own files,
    /// change their times.
    pub(crate) fn expect_above(
        &self,
        worker: &mut Worker,
        directory: &Arc<SourceDirectory>,
    ) -> Result<(), FileError> {
        let mut next = Some(directory);
        while let Some(directory) = next {
            match Mirror::of(directory) {
                Some(mirror) if !mirror.is_expecting() => {
                    mirror.will_have(self.attributes_of(worker, directory)?);
                }
                // The attributes of the directories above are recorded, too.
                _ => return Ok(()),
            }
            next = directory.parent();
        }
        Ok(())
    }

    /// The final attributes of the existing copy of a directory.
    fn attributes_of(
        &self,
        worker: &mut Worker,
        source: &Arc<SourceDirectory>,
    ) -> Result<Attributes, FileError> {
        let opened = source.descriptor(&mut worker.scratch.held, self.features);
        let opened = opened.map_err(|errno| FileError::new(Step::Open, errno))?;
        let metadata = sys::stat_descriptor(&opened);
        let metadata = metadata.map_err(|errno| FileError::new(Step::Read, errno))?;
        let extended = self.extended(worker, &opened)?;
        Ok(Attributes { metadata, extended, is_old: true })
    }

    /// Makes the missing copies of a source's directory and of those above it.
    fn make_above(&self, worker: &mut Worker, directory: &Arc<SourceDirectory>) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::MakeDirectory, errno);
        let mut chain = vec![directory];
        while let Some(above) = chain.last().and_then(|last| last.parent()) {
            chain.push(above);
        }
        for source in chain.into_iter().rev() {
            let Some(mirror) = Mirror::of(source) else { return Ok(()) };
            let attributes = self.attributes_of(worker, source)?;
            if let Some(above) = mirror.target.parent() {
                let above = above.descriptor(&mut worker.scratch.held, self.features).map_err(failed)?;
                let list = attributes.extended.access_list();
                let made = self.make_at_once(&above, mirror.target.name(), &attributes.metadata, list);
                if made.map_err(failed)? {
                    worker.results.totals.directories += 1;
                    mirror.wait_for_end();
                }
            }
            mirror.will_have(attributes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::lchown;
    use std::sync::atomic::{AtomicBool, Ordering};

    use atta_testkit::scratch::Scratch;
    use atta_testkit::skip;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};

    const TIMES: usize = 3000;

    // Another rank with entries in the same directory may finish at once.
    #[test]
    fn directory_with_an_owner_of_another_rank_is_made() {
        let test = "directory_with_an_owner_of_another_rank_is_made";
        if !skip::is_root() {
            return skip::skipped(test, "it needs root");
        }
        let scratch = Scratch::new("listed").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&target).unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let (options, path) = (Options::default(), target.as_os_str().as_bytes());
        let seat = Seat { ranks: 2, ..Seat::alone() };
        let Copy { copying, .. } = Copy::prepare(&sources, path, &options, &NothingFails, seat).unwrap();
        let metadata = sys::stat_path(&sources[0], false).unwrap();
        let (made, has_ended) = (target.join("made"), AtomicBool::new(false));
        let all = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let _ = lchown(&made, Some(1000), None);
                }
            });
            let make = || copying.make_at_once(&copying.top, c"made", &metadata, None);
            let all: Vec<_> = (0..TIMES).map(|_| (make(), fs::remove_dir(&made).is_ok())).collect();
            has_ended.store(true, Ordering::Relaxed);
            all
        });
        assert_eq!(all.iter().find(|made| **made != (Ok(true), true)), None);
    }
}
