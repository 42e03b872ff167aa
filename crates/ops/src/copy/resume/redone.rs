//! Target directories of which something is done again, since an earlier run of the job has not done it: made if they are gone, and cleared of what
//! that run had not completed. It copies nothing.
//!
//! A file that has a temporary name of an earlier run is not complete. In a directory under a temporary name, files may have their final names
//! although they are not complete: the log says which are.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode};

use crate::copy::resume::large::temporary_of;
use crate::copy::target::mirror::{Here, Mirror};
use crate::copy::target::place::Place;
use crate::copy::target::{Maker, Target};
use crate::file::error::{FileError, Step};
use crate::jobs::names::Namer;
use crate::tree::directory::Directory;
use crate::tree::operation::Again;
use atta_sys::{self as sys, retry};

impl Maker<'_> {
    /// Prepares the copy of a directory of which something is done again. If only its closing is left, it gets its attributes at the end.
    pub(crate) fn begin_again(&mut self, here: Here<'_>, again: &Again<'_>) -> Result<(), FileError> {
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(()) };
        mirror.set_redone();
        let failed = |errno| FileError::new(Step::OpenDirectory, errno);
        let opened = match mirror.target.descriptor(&mut self.scratch.held, self.target.features) {
            // A root is read when it was looked at.
            Err(Errno::NOENT) if !again.is_read || here.directory.parent().is_none() => {
                self.make_lost(&mirror.target)?;
                mirror.target.descriptor(&mut self.scratch.held, self.target.features)
            }
            opened => opened,
        };
        let opened = opened.map_err(failed)?;
        self.admit_again(&opened)?;
        let is_complete = |name: &[u8]| again.is_read || (again.is_given)(name);
        let begun: HashSet<_> = again.plans.iter().filter_map(|plan| temporary_of(plan)).collect();
        let is_kept = |name: &[u8]| begun.iter().any(|temporary| temporary.as_bytes() == name);
        self.target.remove_incomplete(&mirror, &opened, (&is_kept, &is_complete))?;
        if again.is_read { self.enter(here) } else { Ok(()) }
    }

    /// Makes a directory that the log knows, if it is gone, and counts it. A task of its own may make it at the same time, and give it its name.
    pub(crate) fn make_known(&mut self, to: &Place<'_>) -> Result<(), FileError> {
        let target = Arc::clone(&to.mirror.below(to.name).target);
        // Whoever enters it reports what else is wrong.
        if let Err(Errno::NOENT) = target.descriptor(&mut self.scratch.held, self.target.features) {
            self.make_lost(&target)?;
        }
        self.count_directory();
        Ok(())
    }

    /// Prepares the copy of a directory that the log does not know: an earlier run may have begun it, and the log has lost that.
    pub(crate) fn begin_unknown(&mut self, mirror: &Arc<Mirror>) -> Result<(), FileError> {
        if !self.target.is_resumed() || mirror.is_redone() {
            return Ok(());
        }
        let opened = mirror.target.descriptor(&mut self.scratch.held, self.target.features);
        let opened = opened.map_err(|errno| FileError::new(Step::OpenDirectory, errno))?;
        self.target.remove_incomplete(mirror, &opened, (&|_| false, &|_| false))
    }

    /// Removes what earlier runs have not completed of a directory whose source is gone. What cannot be removed stays.
    pub(crate) fn forget_gone(&mut self, (root, path): (u32, &[u8])) {
        let Some(mirror) = self.target.mirror_of(root, path) else { return };
        if let Ok(opened) = mirror.target.descriptor(&mut self.scratch.held, self.target.features) {
            let _ = remove_temporary(&self.target.shared.namer, &opened, (&|_| false, &|_| false));
        }
    }

    /// Lets this user write to a directory of its own that was closed, although the log does not say so. It gets its mode again at the end.
    fn admit_again(&self, opened: &Arc<OwnedFd>) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::SetMode, errno);
        let found = sys::stat_descriptor(opened).map_err(failed)?;
        let is_own = found.uid == rustix::process::geteuid().as_raw();
        if is_own && found.mode & 0o700 != 0o700 {
            let mode = Mode::from_raw_mode(found.mode & 0o7777) | Mode::RWXU;
            retry(|| rustix::fs::fchmod(opened, mode)).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes a directory and those above it that are gone: a power cut may have taken them, or somebody else.
    fn make_lost(&mut self, target: &Arc<Directory>) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::MakeDirectory, errno);
        // One thread at a time. Another one may make a directory and give it its name between a look for both of its names here and `mkdir`,
        // which would then make it a second time.
        let shared = Arc::clone(&self.target.shared);
        let _alone = shared.making_lost.lock().unwrap_or_else(PoisonError::into_inner);
        // Without recursion: the chain may be 10^5 levels long.
        let (mut lost, mut next) = (Vec::new(), Some(target));
        while let Some(directory) = next {
            match directory.descriptor(&mut self.scratch.held, self.target.features) {
                Ok(_) => break,
                Err(Errno::NOENT) => lost.push(directory),
                Err(errno) => return Err(failed(errno)),
            }
            next = directory.parent();
        }
        for directory in lost.into_iter().rev() {
            let Some(above) = directory.parent() else { continue };
            let above = above.descriptor(&mut self.scratch.held, self.target.features).map_err(failed)?;
            let make = || match directory.alias().filter(|_| !self.target.names_at_once()) {
                Some(alias) => retry(|| rustix::fs::mkdirat(&above, alias, Mode::RWXU)),
                None => self.target.make_at_once(&above, directory.name(), Mode::empty()).map(drop),
            };
            let made = make().or_else(|errno| match errno {
                // It was closed before this was gone.
                Errno::ACCES => self.admit_again(&above).map_or(Err(errno), |()| make()),
                _ => Err(errno),
            });
            match made {
                // Another thread does something again below it.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }
}

impl Target<'_> {
    /// Removes files that an earlier run has not completed. `is_begun`: whether a file with a temporary name is one that the copy goes on with;
    /// `is_complete`: whether one with its final name is complete.
    fn remove_incomplete(
        &self,
        mirror: &Arc<Mirror>,
        opened: &Arc<OwnedFd>,
        (is_begun, is_complete): (Is<'_>, Is<'_>),
    ) -> Result<(), FileError> {
        let is_hidden = mirror.target.alias().is_some();
        let unwanted = |name: &[u8]| is_hidden && !is_complete(name);
        remove_temporary(&self.shared.namer, opened, (is_begun, &unwanted))
            .map_err(|errno| FileError::new(Step::RemoveIncomplete, errno))
    }
}

/// A question about a name.
type Is<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Removes files that have a temporary name of an earlier run of the job, unless they are `kept`, and others that are `unwanted`.
pub(crate) fn remove_temporary(
    namer: &Namer,
    directory: &OwnedFd,
    (kept, unwanted): (Is<'_>, Is<'_>),
) -> Result<(), Errno> {
    for name in sys::names_of(directory, usize::MAX)? {
        let bytes = name.to_bytes();
        if namer.gave_earlier(bytes) && !kept(bytes) || !namer.gave(bytes) && unwanted(bytes) {
            match retry(|| rustix::fs::unlinkat(directory, &name, AtFlags::empty())) {
                // A directory stays: it may be complete.
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::DirBuilderExt as _;

    use atta_ledger::{Key, SliceNumber};
    use atta_testkit::scratch::Scratch;
    use rustix::fs::CWD;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::{Fsync, Options};
    use crate::copy::target::mirror::Location;
    use crate::copy::target::place::Item;
    use crate::copy::thread::Worker;
    use crate::copy::{Copy, CopyOperation, Seat};
    use crate::file::source::Source;
    use crate::tree::operation::Handler;
    use crate::tree::slice::{CurrentSlice, Slice};

    /// The second run of a job: its copy, a thread of it, and where the copy goes.
    fn second_run(
        fsync: Fsync,
        act: impl FnOnce(&mut CopyOperation<'_>, &mut Worker, &Arc<Mirror>, &Scratch),
    ) {
        let scratch = Scratch::new("redone").unwrap();
        let [source, target] = ["source", "target"].map(|name| scratch.join(name));
        [&source, &target].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let options = Options { run_of_job: Some(2), fsync, ..Options::default() };
        let (target, seat) = (target.as_os_str().as_bytes(), Seat { job: 7, ..Seat::alone() });
        let mut copy = Copy::prepare(&sources, target, &options, &NothingFails, seat).unwrap();
        let above = Arc::clone(&copy.operation.target.roots.find(&sources[0]).unwrap().parent);
        let mut worker = copy.operation.worker(0);
        act(&mut copy.operation, &mut worker, &above, &scratch);
    }

    #[test]
    fn incomplete_files_of_unknown_directories_go() {
        second_run(Fsync::default(), |operation, worker, above, scratch| {
            let target = scratch.join("target");
            let of_run = |run| {
                let name = Namer::new(7).with_run(run).of_file(0);
                String::from_utf8(name.into_bytes()).unwrap()
            };
            let (earlier, now) = (of_run(1), of_run(2));
            for (is_hidden, is_redone, stays) in [
                (true, false, vec![now.clone()]),
                (false, false, vec![now.clone(), "whole".into()]),
                (true, true, vec![earlier.clone(), now.clone(), "whole".into()]),
            ] {
                let mirror = above.below(c"d");
                let alias = mirror.target.alias().unwrap().to_owned();
                let path = target.join(if is_hidden { alias.to_str().unwrap() } else { "d" });
                fs::create_dir(&path).unwrap();
                for name in [&earlier, &now, "whole"] {
                    fs::write(path.join(name), "x").unwrap();
                }
                if !is_hidden {
                    mirror.target.end_alias();
                }
                if is_redone {
                    mirror.set_redone();
                }
                operation.maker(worker).begin_unknown(&mirror).unwrap();
                let opened = sys::open_directory_path(path.as_os_str().as_bytes(), false).unwrap();
                let names = sys::names_of(&opened, 10).unwrap();
                let names: BTreeSet<_> = names.into_iter().map(|name| name.into_string().unwrap()).collect();
                assert_eq!(names, stays.into_iter().collect(), "{is_hidden} {is_redone}");
                names.iter().for_each(|name| fs::remove_file(path.join(name)).unwrap());
                fs::remove_dir(&path).unwrap();
            }
        });
    }

    /// What this process makes has nothing of an earlier run, so it is not looked at.
    #[test]
    fn directories_of_this_run_are_known() {
        second_run(Fsync::None, |operation, worker, above, scratch| {
            let metadata = sys::stat_path(scratch.join("source").as_os_str().as_bytes(), false).unwrap();
            let directory = Arc::clone(&operation.target.top.directory);
            let alias = scratch.join("target").join(above.alias(c"d").to_str().unwrap());
            let to = Place { mirror: above, directory, name: c"d", slice: None };
            let from = Source { directory: CWD, name: c"d" };
            for is_there in [false, true] {
                if is_there {
                    fs::DirBuilder::new().mode(0o700).create(&alias).unwrap();
                }
                let item = Item { at: &Location::Root(Vec::new()), from, to: &to, metadata: &metadata };
                operation.maker(worker).make_directory(item).unwrap();
                assert_eq!([above.take_made(c"d"), above.take_made(c"d")], [!is_there, false]);
                fs::remove_dir(&alias).unwrap();
            }
        });
    }

    #[test]
    fn lost_directory_is_made_under_its_final_name() {
        second_run(Fsync::None, |operation, worker, above, scratch| {
            let target = scratch.join("target");
            for (name, has_fragile_renames) in [(c"later", false), (c"at once", true)] {
                let mirror = above.below(name);
                let alias = mirror.target.alias().unwrap().to_str().unwrap().to_owned();
                operation.target.has_fragile_renames = has_fragile_renames;
                operation.maker(worker).make_lost(&mirror.target).unwrap();
                let there = [name.to_str().unwrap(), &alias].map(|name| target.join(name).is_dir());
                assert_eq!(there, [has_fragile_renames, !has_fragile_renames], "{name:?}");
            }
        });
    }

    /// Its end is noted by another rank, which does not know whether the directory has its name.
    #[test]
    fn slices_that_have_left_name_no_directory() {
        second_run(Fsync::None, |operation, worker, above, scratch| {
            let target = scratch.join("target");
            let (opened, place) = (
                fs::File::open(scratch.join("source")).unwrap().into(),
                sys::Place { device: 1, inode: 1, mount: 1 },
            );
            let root = Directory::root(c"/from".into(), 0, Arc::new(opened), place);
            for (name, has_left) in [(c"left", true), (c"stayed", false)] {
                let mirror = above.below(name);
                let alias = mirror.target.alias().unwrap().to_owned();
                fs::create_dir(target.join(alias.to_str().unwrap())).unwrap();
                let directory = Arc::new(Directory::below(&root, name, None));
                directory.set_state(mirror);
                directory.set_again(Key::of_job(&[1; 16]).of_path(0, name.to_bytes()));
                let slice = Slice::of_numbered(directory, SliceNumber { run: 1, rank: 0, number: 0 }, 0);
                if has_left {
                    slice.leave();
                }
                operation.looked(worker, &CurrentSlice::of_batch(&slice));
                assert_eq!(target.join(name.to_str().unwrap()).exists(), !has_left, "{name:?}");
            }
        });
    }
}
