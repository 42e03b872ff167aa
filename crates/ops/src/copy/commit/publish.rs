//! Renames complete files and directories to their final names: at once, or once they are durable. The rename replaces the old content of
//! a name.
//!
//! With `--fsync batch` nothing is visible before it is on stable storage: complete entries wait in a batch until one `syncfs` has made
//! all of them durable, where `syncfs` is known to do that. Elsewhere each file is synced on its own before it is published
//! (`durable.rs`). A file system in memory has no stable storage and is not synced.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::Errno;
use rustix::fd::OwnedFd;

use crate::copy::commit::Committer;
use crate::copy::commit::batch::{Lost, Ready, Waiting};
use crate::copy::commit::checks::Check;
use crate::copy::options::Existing;

use crate::copy::target::mirror::{Location, Mirror};
use crate::copy::target::place::{Place, refuse_taken};
use crate::file::error::{FileError, Step};
use crate::file::retries::until_found;
use crate::file::source::{Identity, identity_of};
use atta_sys::{self as sys, retry};

impl Committer<'_> {
    /// Renames an entry to its final name as soon as the sync rule allows it. Then it is queued for reading back, if requested.
    pub(crate) fn publish(&mut self, ready: Ready, checks: Vec<Check>) {
        if !self.stores().waits_in(&ready.mirror) {
            if self.publish_now(&ready) {
                self.commit.checks.add(checks);
            } else {
                self.forget_checks(checks);
            }
            self.ended.parts.extend(ready.part);
            return;
        }
        let bytes = ready.bytes;
        if let Some(full) = self.commit.batch.add(Some(ready), bytes, checks) {
            self.publish_durable(full);
        }
    }

    /// Counts bytes in a directory that will be published.
    pub(crate) fn add_bytes(&mut self, mirror: &Mirror, bytes: u64, checks: Vec<Check>) {
        if !self.stores().waits_in(mirror) {
            self.commit.checks.add(checks);
        } else if let Some(full) = self.commit.batch.add(None, bytes, checks) {
            self.publish_durable(full);
        }
    }

    /// Publishes all waiting entries.
    pub(crate) fn publish_waiting(&mut self) {
        let waiting = self.commit.batch.take();
        if !(waiting.ready.is_empty() && waiting.checks.is_empty()) {
            self.publish_durable(waiting);
        }
    }

    /// Publishes all waiting entries after the last task.
    pub(crate) fn publish_rest(&mut self) {
        self.publish_waiting();
        // No file is written again from here on.
        self.commit.checks.add(self.commit.batch.take().checks);
    }

    fn publish_durable(&mut self, all: Waiting) {
        let is_synced = self.sync_stores().is_ok();
        let Waiting { ready, mut checks, results, .. } = all;
        let mut lost = Lost::default();
        for mut ready in ready {
            let part = ready.part.take();
            self.apart(part, |committer| committer.publish_synced(&ready, is_synced, &mut lost));
        }
        self.ended.add_results(results);
        self.forget_checks(lost.take_from(&mut checks));
        if !is_synced || self.stores().failed_syncs() > 0 {
            // A file in a directory without its final name may yet be written again: do not read it meanwhile.
            let is_hidden = |check: &mut Check| check.mirror.target.alias().is_some();
            let hidden: Vec<_> = checks.extract_if(.., is_hidden).collect();
            self.forget_checks(self.commit.batch.put_back(hidden, &lost));
        }
        self.commit.checks.add(checks);
    }

    /// Renames an entry after the sync of its batch.
    fn publish_synced(&mut self, ready: &Ready, is_synced: bool, lost: &mut Lost) {
        let is_sure = is_synced && ready.since == self.stores().failed_syncs();
        let names = if is_sure { Ok(Vec::new()) } else { self.write_again(ready) };
        match names {
            Ok(names) => {
                lost.add_names(&ready.mirror, names);
                if !self.publish_now(ready) {
                    lost.add(ready);
                }
            }
            Err(error) => {
                self.take_back(ready);
                self.maker.fail(&ready.origin, error);
                lost.add(ready);
            }
        }
    }

    /// Removes a file that cannot be published. A directory stays under its temporary name.
    fn take_back(&mut self, ready: &Ready) {
        if ready.names.is_none() {
            self.commit.leave();
            ready.mirror.set_foreign();
            self.maker.note_lost(&ready.mirror.target);
        }
        if let Some((temporary, _)) = &ready.names
            && let Ok(directory) =
                ready.mirror.target.descriptor(&mut self.maker.scratch.held, self.maker.target.features)
        {
            let _ = rustix::fs::unlinkat(&directory, temporary, rustix::fs::AtFlags::empty());
        }
    }

    /// Renames a root's directory to its final name, if it exists under a temporary one.
    pub(crate) fn name_root(&mut self, mirror: Arc<Mirror>) {
        if mirror.target.alias().is_none() || mirror.is_foreign() {
            return;
        }
        // No thread has entered the directory so far. If it cannot be opened, it cannot be renamed either.
        if !mirror.is_new() && self.maker.open_made(&mirror).is_err() && mirror.is_foreign() {
            self.maker.note_lost(&mirror.target);
            let at = Location::Root(self.maker.target.top.path.clone());
            return self.maker.fail(&at, FileError::new(Step::OpenDirectory, Errno::STALE));
        }
        let ready = Ready::directory(Location::Root(self.maker.target.top.path.clone()), mirror, None);
        let is_durable = !self.stores().waits_in(&ready.mirror) || self.stores().sync().is_ok();
        // Data whose sync failed is not written again any more.
        if is_durable && (!ready.mirror.is_new() || ready.since == self.stores().failed_syncs()) {
            if self.rename(&ready).is_err() {
                self.maker.note_lost(&ready.mirror.target);
            }
        } else {
            self.commit.leave();
            self.maker.note_lost(&ready.mirror.target);
            self.maker.fail(&ready.origin, FileError::new(Step::Sync, Errno::IO));
        }
    }

    /// Renames an entry now. Returns whether that succeeded.
    pub(crate) fn publish_now(&mut self, ready: &Ready) -> bool {
        let renamed = self.rename(ready);
        if let Err(error) = renamed {
            if ready.names.is_none() {
                self.commit.leave();
                self.maker.note_lost(&ready.mirror.target);
            }
            self.maker.fail(&ready.origin, error);
        }
        renamed.is_ok()
    }

    fn rename(&mut self, ready: &Ready) -> Result<(), FileError> {
        let target = &ready.mirror.target;
        let held = &mut self.maker.scratch.held;
        let mut open =
            |directory: &Arc<crate::tree::directory::Directory>| -> Result<Arc<OwnedFd>, FileError> {
                directory
                    .descriptor(held, self.maker.target.features)
                    .map_err(|errno| FileError::new(Step::OpenDirectory, errno))
            };
        let failed = |errno| FileError::new(Step::Rename, errno);
        match &ready.names {
            Some((temporary, name)) => {
                let directory = open(target)?;
                let mirror = &ready.mirror;
                let to = Place { mirror, directory: Arc::clone(&directory), name, slice: None };
                let renamed = self.rename_file(&to, temporary).or_else(|error| match error {
                    FileError::Failed(_, errno) if was_renamed(&to, ready.identity, errno) => Ok(()),
                    error => Err(error),
                });
                // `rename` does nothing if both names are links of the same file, as where a directory lists a name twice.
                let target = self.maker.target;
                if renamed.is_err() || target.private.is_used() || target.is_resumed() {
                    let _ = rustix::fs::unlinkat(&directory, temporary, rustix::fs::AtFlags::empty());
                }
                renamed
            }
            None => {
                // The directory existed before this job or has been renamed already: then it has no temporary name.
                let opened = open(target)?;
                let (Some(alias), Some(parent)) = (target.alias(), target.parent()) else { return Ok(()) };
                let parent = open(parent)?;
                // The rename replaces nothing but an empty directory.
                let is_there = || sys::stat_at(&parent, alias, false).is_ok();
                let rename = || retry(|| rustix::fs::renameat(&parent, alias, &parent, target.name()));
                match until_found(is_there, rename) {
                    // The directory lists a name twice, and the first task has renamed it.
                    Ok(()) | Err(Errno::NOENT) => target.end_alias(),
                    Err(errno) => return Err(failed(errno)),
                }
                // Another process may have replaced the directory after it was opened.
                let own = sys::stat_descriptor(&opened).map_err(failed)?;
                let named = sys::stat_at(&parent, target.name(), false).map_err(failed)?;
                if (own.device, own.inode) != (named.device, named.inode) {
                    return Err(failed(Errno::STALE));
                }
                Ok(())
            }
        }
    }

    fn rename_file(&self, to: &Place<'_>, temporary: &CStr) -> Result<(), FileError> {
        let failed = |errno| FileError::new(Step::Rename, errno);
        let Place { directory, name, .. } = to;
        let is_there = || sys::stat_at(directory, temporary, false).is_ok();
        let replace = || {
            until_found(is_there, || retry(|| rustix::fs::renameat(directory, temporary, directory, *name)))
                .map_err(failed)
        };
        let ignores = self.maker.target.options.existing == Existing::Ignore;
        if !ignores && !folds_case(to.mirror, directory, temporary) {
            return replace();
        }
        let renamed = match until_found(is_there, || rename_new(directory, temporary, name)) {
            // The file system or the kernel does not support rename flags.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                link_into_place(directory, temporary, name)
            }
            renamed => renamed,
        };
        match renamed {
            Ok(()) => Ok(()),
            Err(errno) if ignores => Err(failed(errno)),
            // An entry of exactly the same name is replaced; one of another spelling is not. File systems without hard links report
            // different errors; if the error has another cause, the rename reports it too.
            Err(_) => {
                refuse_taken(to, Step::Rename).and_then(|()| replace())?;
                // `rename` does nothing if both names are links of the same file: a link was made, and this name was not removed.
                let _ = rustix::fs::unlinkat(directory, temporary, rustix::fs::AtFlags::empty());
                Ok(())
            }
        }
    }
}

/// Whether a directory of the target folds case.
///
/// `made` is an entry of this job in it. If the target finds `made` in capital letters, it folds case.
fn folds_case(mirror: &Mirror, directory: &OwnedFd, made: &CStr) -> bool {
    *mirror.folds_case.get_or_init(|| {
        let capitals = CString::new(made.to_bytes().to_ascii_uppercase()).unwrap_or_default();
        sys::stat_at(directory, &capitals, false).is_ok()
    })
}

/// Whether a rename that failed was carried out. If the reply was lost and the request is sent again, a server finds nothing under the
/// old name, or an entry under the new one. Only the same file counts.
fn was_renamed(to: &Place<'_>, identity: Option<Identity>, errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::EXIST)
        && identity.is_some()
        && sys::stat_at(&to.directory, to.name, false).ok().as_ref().map(identity_of) == identity
}

/// Renames an entry and replaces nothing.
fn rename_new(directory: &OwnedFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    retry(|| rustix::fs::renameat_with(directory, from, directory, to, flags))
}

/// Renames a file by link and unlink, which never replaces anything.
fn link_into_place(directory: &OwnedFd, temporary: &CStr, name: &CStr) -> Result<(), Errno> {
    let none = rustix::fs::AtFlags::empty();
    let identity =
        |name: &CStr| sys::stat_at(directory, name, false).ok().map(|found| (found.device, found.inode));
    let is_there = || identity(temporary).is_some();
    match until_found(is_there, || retry(|| rustix::fs::linkat(directory, temporary, directory, name, none)))
    {
        // The link was made, and the reply was lost.
        Err(Errno::EXIST) if identity(temporary).is_some() && identity(temporary) == identity(name) => {}
        linked => linked?,
    }
    retry(|| rustix::fs::unlinkat(directory, temporary, none))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    use atta_testkit::lock::Lock;
    use atta_testkit::scratch::Scratch;
    use atta_testkit::skip;
    use atta_testkit::slow::SlowFs;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};
    use crate::tree::operation::Handler;

    // Row 19: another thread may have created the other spelling after this one has looked for it.
    #[test]
    fn other_spelling_of_a_name_is_not_replaced() {
        let test = "other_spelling_of_a_name_is_not_replaced";
        let _lock = Lock::for_mounts().unwrap();
        for rules in [&["rename:*:EINVAL:times=1"][..], &["rename:*:EINVAL:times=1", "link:*:EPERM"]] {
            let scratch = Scratch::new("spelling").unwrap();
            let (source, target) = (scratch.join("source"), scratch.join("target"));
            for directory in [&source, &target] {
                fs::create_dir(directory).unwrap();
            }
            let builder = SlowFs::builder().latency(Duration::ZERO).over(&target).fold_case();
            let builder = rules.iter().fold(builder, |builder, rule| builder.fail(rule));
            let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
            let sources = [source.join(".").as_os_str().as_bytes().to_vec()];
            let (options, to) = (Options::default(), shown.path().as_os_str().as_bytes());
            let Copy { operation, .. } =
                Copy::prepare(&sources, to, &options, &NothingFails, Seat::alone()).unwrap();
            let mut worker = operation.worker(0);
            let mirror = &operation.target.roots.find(&sources[0]).unwrap().parent;
            fs::write(target.join("name"), "first").unwrap();
            for (name, outcome, found) in [
                (c"NAME", Err(FileError::new(Step::Rename, Errno::EXIST)), "first"),
                // The file system refuses the first rename.
                (c"free", Ok(()), "first"),
                (c"name", Ok(()), "second"),
            ] {
                fs::write(target.join("temporary"), "second").unwrap();
                let to = Place {
                    mirror,
                    directory: Arc::clone(&operation.target.top.directory),
                    name,
                    slice: None,
                };
                let renamed = operation.committer(&mut worker).rename_file(&to, c"temporary");
                assert_eq!(renamed, outcome, "{name:?} {rules:?}");
                assert_eq!(fs::read_to_string(target.join("name")).unwrap(), found, "{name:?} {rules:?}");
            }
        }
    }

    // Hazard 35.
    #[test]
    fn new_name_is_not_replaced_without_renameat2() {
        let test = "new_name_is_not_replaced_without_renameat2";
        let _lock = Lock::for_mounts().unwrap();
        let scratch = Scratch::new("no-replace").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        for directory in [&source, &target] {
            fs::create_dir(directory).unwrap();
        }
        for rule in ["rename:*:EINVAL:times=2", "rename:*:ENOSYS:times=2"] {
            let builder = SlowFs::builder().latency(Duration::ZERO).over(&target).fail(rule);
            let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
            let sources = [source.join(".").as_os_str().as_bytes().to_vec()];
            let options = Options { existing: Existing::Ignore, ..Options::default() };
            let to = shown.path().as_os_str().as_bytes();
            let Copy { operation, .. } =
                Copy::prepare(&sources, to, &options, &NothingFails, Seat::alone()).unwrap();
            let mut worker = operation.worker(0);
            let mirror = &operation.target.roots.find(&sources[0]).unwrap().parent;
            for (name, is_there) in [("there", true), ("free", false)] {
                fs::write(target.join("temporary"), "new").unwrap();
                if is_there {
                    fs::write(target.join(name), "old").unwrap();
                }
                let new_name = CString::new(name).unwrap();
                let to = Place {
                    mirror,
                    directory: Arc::clone(&operation.target.top.directory),
                    name: &new_name,
                    slice: None,
                };
                let named = operation.committer(&mut worker).rename_file(&to, c"temporary");
                let found = fs::read_to_string(target.join(name)).unwrap();
                if is_there {
                    let expected = Err(FileError::new(Step::Rename, Errno::EXIST));
                    assert_eq!((named, found.as_str()), (expected, "old"), "{rule}");
                } else {
                    assert_eq!((named, found.as_str()), (Ok(()), "new"), "{rule}");
                    assert!(!target.join("temporary").exists(), "{rule}");
                }
                fs::remove_file(target.join(name)).unwrap();
            }
        }
    }
}
