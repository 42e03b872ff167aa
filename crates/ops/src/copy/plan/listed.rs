//! Copies the entries that a list names. Directories above a name may not exist yet, and the same directory may occur many times. So
//! directories are made under their final names. Each name of the list gives the directories above it their attributes when nothing is left
//! to do for it, since new entries change their times: the last name gives them for good. Directories whose mode denies their owner access get
//! them at the end of the copy.

use std::ffi::CStr;
use std::sync::Arc;

use atta_entry::{Errno, Metadata};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;

use crate::copy::target::mirror::{Mirror, SourceDirectory};
use crate::copy::target::place::Place;
use crate::copy::target::{Maker, Target};
use crate::file::error::{FileError, Step};
use crate::metadata::give::Attributes;
use crate::metadata::inherited::{disinherit, open_own};
use atta_sys::{self as sys, retry};

impl Target<'_> {
    /// The mode that a directory gets when it is made under its final name, beside its owner's rights. It is private until it gets the mode
    /// of its source, if it gets that. `list`: the source's access list.
    pub(crate) fn mode_at_once(&self, metadata: &Metadata, list: Option<&[u8]>) -> Mode {
        let keep = &self.options.keep;
        let bits = keep.mode_of(metadata, list, false).filter(|_| !keep.mode);
        Mode::from_raw_mode(bits.unwrap_or_default())
    }

    /// Makes a directory under its final name. Returns whether it is new.
    pub(crate) fn make_at_once(&self, above: &OwnedFd, name: &CStr, mode: Mode) -> Result<bool, Errno> {
        match retry(|| rustix::fs::mkdirat(above, name, Mode::RWXU)) {
            Ok(()) => {
                let own = self.stores.own_uid(sys::stat_descriptor(above)?.device);
                let made = match open_own(above, name, own, self.features) {
                    // Another thread or rank has finished its entries in it and has set its owner. The directory was made here all
                    // the same. If another user has replaced it, it is used like one that existed before.
                    Err(Errno::STALE) => return Ok(true),
                    opened => opened?.0,
                };
                disinherit(&made)?;
                match retry(|| rustix::fs::fchmod(&made, Mode::RWXU | mode)) {
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
}

impl Maker<'_> {
    /// Returns the target place of a name in a source's directory. With a list, makes the directories above it if necessary.
    pub(crate) fn place_of<'a>(
        &mut self,
        source: Option<&Arc<SourceDirectory>>,
        mirror: &'a Arc<Mirror>,
        name: &'a CStr,
    ) -> Result<Place<'a>, FileError> {
        match (self.place(mirror, name), source) {
            (Err(FileError::Failed(_, Errno::NOENT)), Some(source)) if self.target.is_listed => {
                self.make_above(source)?;
                self.place(mirror, name)
            }
            (Ok(to), Some(source)) if self.target.is_listed => {
                self.expect_above(source)?;
                Ok(to)
            }
            (to, _) => to,
        }
        .inspect(|to| to.mirror.expect_names())
    }

    /// Records the final attributes of the copies of a source's directory and of those above it: new entries, and this job's own files,
    /// change their times.
    pub(crate) fn expect_above(&mut self, directory: &Arc<SourceDirectory>) -> Result<(), FileError> {
        let mut next = Some(directory);
        while let Some(directory) = next {
            match Mirror::of(directory) {
                Some(mirror) if !mirror.is_expecting() => {
                    mirror.will_have(self.attributes_of(directory)?);
                }
                // The attributes of the directories above are recorded, too.
                _ => return Ok(()),
            }
            next = directory.parent();
        }
        Ok(())
    }

    /// The final attributes of the existing copy of a directory.
    fn attributes_of(&mut self, source: &Arc<SourceDirectory>) -> Result<Attributes, FileError> {
        let opened = source.descriptor(&mut self.scratch.held, self.target.features);
        let opened = opened.map_err(|errno| FileError::new(Step::Open, errno))?;
        let metadata = sys::stat_descriptor(&opened);
        let metadata = metadata.map_err(|errno| FileError::new(Step::Read, errno))?;
        let extended = self.extended(&opened)?;
        Ok(Attributes { metadata, extended, is_old: true })
    }

    /// Makes the missing copies of a source's directory and of those above it.
    fn make_above(&mut self, directory: &Arc<SourceDirectory>) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::MakeDirectory, errno);
        let mut chain = vec![directory];
        while let Some(above) = chain.last().and_then(|last| last.parent()) {
            chain.push(above);
        }
        for source in chain.into_iter().rev() {
            let Some(mirror) = Mirror::of(source) else { return Ok(()) };
            let attributes = self.attributes_of(source)?;
            if let Some(above) = mirror.target.parent() {
                let above = above.descriptor(&mut self.scratch.held, self.target.features).map_err(failed)?;
                let list = attributes.extended.access_list();
                let mode = self.target.mode_at_once(&attributes.metadata, list);
                let made = self.target.make_at_once(&above, mirror.target.name(), mode);
                if made.map_err(failed)? {
                    self.results.totals.directories += 1;
                    self.note_directory(&mirror.target);
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

    // Another thread or rank with entries in the same directory may finish at once.
    #[test]
    fn directory_with_an_owner_set_meanwhile_is_made() {
        let test = "directory_with_an_owner_set_meanwhile_is_made";
        if !skip::is_root() {
            return skip::skipped(test, "it needs root");
        }
        let scratch = Scratch::new("listed").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&target).unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let (options, path) = (Options::default(), target.as_os_str().as_bytes());
        let prepared = Copy::prepare(&sources, path, &options, &NothingFails, Seat::alone());
        let Copy { operation, .. } = prepared.unwrap();
        let metadata = sys::stat_path(&sources[0], false).unwrap();
        let mode = operation.target.mode_at_once(&metadata, None);
        let top = &operation.target.top.directory;
        let (made, has_ended) = (target.join("made"), AtomicBool::new(false));
        let all = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let _ = lchown(&made, Some(1000), None);
                }
            });
            let make = || operation.target.make_at_once(top, c"made", mode);
            let all: Vec<_> = (0..TIMES).map(|_| (make(), fs::remove_dir(&made).is_ok())).collect();
            has_ended.store(true, Ordering::Relaxed);
            all
        });
        assert_eq!(all.iter().find(|made| **made != (Ok(true), true)), None);
    }
}
