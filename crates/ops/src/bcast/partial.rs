//! A copy under its temporary name, beside a record of this run (`jobs.rs`): what a killed rank leaves, `atta clean` finds. It is removed when this is
//! dropped, unless it gets its name.

use std::ffi::CString;
use std::sync::Arc;

use atta_entry::{Errno, Timestamp, escape};
use atta_status::Facts;
use atta_sys::file_systems::{Durability, durability_of};
use atta_sys::{self as sys, Features, retry};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps};

use super::place::Place;
use crate::jobs::names::Namer;
use crate::jobs::record::{Makes, Record};
use crate::jobs::{self, Job};
use crate::metadata::inherited::create_file;

/// The bits of a mode that a copy keeps: it belongs to who writes it, so those of an owner mean nothing.
const MODE: u32 = 0o1777;

/// What the name of a partial file follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Of the session: only its ranks know it.
    pub(crate) job: u64,
    pub(crate) rank: u32,
    pub(crate) features: Features,
}

impl Setting {
    /// The number of the run of a rank: several may write in one directory.
    fn number(&self, rank: u32) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.job.to_le_bytes()).update(b"bcast").update(&rank.to_le_bytes());
        let number = hasher.finalize().as_bytes().first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(number)
    }

    /// The temporary name that a rank gives its copy.
    fn name_of(&self, rank: u32) -> CString {
        Namer::new(self.number(rank)).of_file(u64::from(rank) << 32)
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Partial {
    directory: Arc<OwnedFd>,
    setting: Setting,
    temporary: CString,
    name: CString,
    shown: Vec<u8>,
    file: OwnedFd,
    has_name: bool,
    // Dropped last.
    job: Job,
}

impl Partial {
    /// Makes the record of this run and an empty file.
    pub(crate) fn begin(place: &Place, setting: &Setting) -> Result<Self, String> {
        let Place { directory, name, shown, .. } = place;
        let cannot = |what: &str, errno: Errno| format!("cannot {what}: {}: {errno}", escape(shown));
        let number = setting.number(setting.rank);
        let namer = Namer::new(number);
        let found =
            sys::stat_descriptor(directory).map_err(|errno| cannot("look at the directory of", errno))?;
        let makes = vec![Makes { name: name.clone(), is_new: false }];
        let record = Record::of_this_process(number, (found.device, found.inode), false, makes);
        let beside = jobs::Setting {
            top: directory,
            namer: &namer,
            own_uid: None,
            is_alone: false,
            is_durable: false,
            features: setting.features,
        };
        let begun = jobs::begin(&beside, &record, |_| Ok::<(), std::convert::Infallible>(()));
        let begun = begun.unwrap_or_else(|never| match never {});
        let job = begun.map_err(|errno| cannot("write beside", errno))?.job;
        let temporary = setting.name_of(setting.rank);
        let file = create_file(directory, &temporary, OFlags::WRONLY, false)
            .map_err(|errno| cannot("create", errno))?;
        let (directory, setting) = (Arc::clone(directory), *setting);
        let (name, shown) = (name.clone(), shown.clone());
        Ok(Self { directory, setting, temporary, name, shown, file, has_name: false, job })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.setting.rank
    }

    /// Whether the partial file of another rank is in this directory.
    pub(crate) fn sees(&self, rank: u32) -> bool {
        sys::stat_at(&self.directory, &self.setting.name_of(rank), false).is_ok()
    }

    pub(crate) fn sink(&mut self) -> Sink<'_> {
        Sink { partial: self, at: 0, failed: None }
    }

    fn cannot(&self, what: &str, errno: Errno) -> String {
        format!("cannot {what}: {}: {errno}", escape(&self.shown))
    }

    /// Sets size, mode and times, and makes it durable.
    pub(crate) fn complete(&mut self, size: u64, facts: &Facts, syncs: bool) -> Result<(), String> {
        let file = &self.file;
        let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
        let times = Timestamps { last_access: time(facts.accessed), last_modification: time(facts.modified) };
        let done = retry(|| rustix::fs::ftruncate(file, size)).map_err(|errno| self.cannot("write", errno));
        done?;
        let done = retry(|| rustix::fs::fchmod(file, Mode::from_raw_mode(facts.mode & MODE)));
        done.map_err(|errno| self.cannot("set the mode of", errno))?;
        let done = retry(|| rustix::fs::futimens(file, &times));
        done.map_err(|errno| self.cannot("set the times of", errno))?;
        if syncs && self.is_durable() {
            retry(|| rustix::fs::fsync(file)).map_err(|errno| self.cannot("sync", errno))?;
        }
        Ok(())
    }

    fn is_durable(&self) -> bool {
        durability_of(&self.directory, self.setting.features) != Durability::Volatile
    }

    /// Gives it its name, and ends the run in this directory.
    pub(crate) fn publish(mut self, force: bool, syncs: bool) -> Result<(), String> {
        let renamed = if force { self.replace() } else { self.rename_new() };
        match renamed {
            Ok(()) => {}
            // The reply to the first request may have been lost.
            Err(_) if sys::is_name_of(&self.directory, &self.name, &self.file) => {}
            Err(Errno::EXIST) => {
                return Err(format!("TARGET exists since it was looked at: {}", escape(&self.shown)));
            }
            Err(errno) => return Err(self.cannot("rename", errno)),
        }
        self.has_name = true;
        if syncs && self.is_durable() {
            retry(|| rustix::fs::fsync(&self.directory))
                .map_err(|errno| self.cannot("sync the directory of", errno))?;
        }
        Ok(())
    }

    fn replace(&self) -> Result<(), Errno> {
        retry(|| rustix::fs::renameat(&self.directory, &self.temporary, &self.directory, &self.name))
    }

    fn rename_new(&self) -> Result<(), Errno> {
        let Self { directory, temporary, name, .. } = self;
        let flags = RenameFlags::NOREPLACE;
        match retry(|| rustix::fs::renameat_with(directory, temporary, directory, name, flags)) {
            // The file system or the kernel does not support rename flags. A link replaces nothing either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return renamed,
        }
        match retry(|| rustix::fs::linkat(directory, temporary, directory, name, AtFlags::empty())) {
            Ok(()) => {
                let _ = rustix::fs::unlinkat(directory, temporary, AtFlags::empty());
                Ok(())
            }
            Err(Errno::EXIST) => Err(Errno::EXIST),
            // It has no links: the name was free before, and is looked at once more.
            Err(_) => match sys::stat_at(directory, name, false) {
                Err(Errno::NOENT) => self.replace(),
                Err(errno) => Err(errno),
                Ok(_) => Err(Errno::EXIST),
            },
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.has_name {
            let _ = rustix::fs::unlinkat(&self.directory, &self.temporary, AtFlags::empty());
        }
        // A name that could not be removed is found by the record.
        if !self.has_name && sys::is_name_of(&self.directory, &self.temporary, &self.file) {
            self.job.keep();
        }
    }
}

/// Writes bytes as they come. After a failure it takes no more.
#[derive(Debug)]
pub(crate) struct Sink<'p> {
    partial: &'p mut Partial,
    at: u64,
    failed: Option<Errno>,
}

impl Sink<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        // What is zero throughout becomes a hole: the size is set at the end.
        if bytes.iter().any(|byte| *byte != 0) {
            self.failed = sys::data::write_all_at(&self.partial.file, bytes, self.at).err();
        }
        self.at += bytes.len() as u64;
    }

    /// Why bytes could not be written.
    pub(crate) fn error(self) -> Option<String> {
        self.failed.map(|errno| self.partial.cannot("write", errno))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test looks at files that it made itself")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use atta_testkit::scratch::Scratch;

    use super::*;

    fn begun(scratch: &Scratch, rank: u32) -> Partial {
        let target = scratch.join("copy").into_os_string().into_encoded_bytes();
        let setting = Setting { job: 7, rank, features: Features::default() };
        Partial::begin(&Place::find(b"f", &target).unwrap(), &setting).unwrap()
    }

    fn written(scratch: &Scratch, rank: u32) -> Partial {
        let mut partial = begun(scratch, rank);
        let mut sink = partial.sink();
        [&b"ab"[..], &[0; 5], b"c"].into_iter().for_each(|bytes| sink.write(bytes));
        assert_eq!(sink.error(), None);
        let modified = Timestamp { seconds: -5, nanoseconds: 999_999_999 };
        let facts = Facts { mode: 0o6751, modified, ..Facts::default() };
        partial.complete(8, &facts, true).unwrap();
        partial
    }

    fn names(scratch: &Scratch) -> usize {
        fs::read_dir(scratch.path()).unwrap().count()
    }

    #[test]
    fn name_that_appears_meanwhile_is_kept() {
        let scratch = Scratch::new("bcast-partial").unwrap();
        let partial = written(&scratch, 0);
        fs::write(scratch.join("copy"), "other").unwrap();
        let reason = partial.publish(false, true).unwrap_err();
        assert!(reason.starts_with("TARGET exists since it was looked at: "), "{reason}");
        assert_eq!((fs::read(scratch.join("copy")).unwrap(), names(&scratch)), (b"other".to_vec(), 1));
        written(&scratch, 0).publish(true, true).unwrap();
        assert_eq!(
            (fs::read(scratch.join("copy")).unwrap(), names(&scratch)),
            (b"ab\0\0\0\0\0c".to_vec(), 1)
        );
        let found = sys::stat_path(scratch.join("copy").as_os_str().as_encoded_bytes(), false).unwrap();
        // Bits that act for the owner are not kept.
        assert_eq!((found.mode & 0o7777, found.mtime.seconds), (0o751, -5));
        fs::remove_file(scratch.join("copy")).unwrap();
        written(&scratch, 0).publish(false, false).unwrap();
        assert_eq!(names(&scratch), 1);
    }

    #[test]
    fn partial_files_of_ranks_are_seen_and_removed() {
        let scratch = Scratch::new("bcast-partial").unwrap();
        let (one, other) = (begun(&scratch, 0), begun(&scratch, 300));
        assert!(one.sees(300) && other.sees(0) && !one.sees(1));
        let mode = fs::metadata(scratch.join(one.temporary.to_str().unwrap())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner reads it before it is complete");
        drop(one);
        assert!(!other.sees(0) && other.sees(300));
        drop(other);
        assert_eq!(names(&scratch), 0);
    }
}
