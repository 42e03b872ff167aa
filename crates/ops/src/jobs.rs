//! The private directory of a run that writes. It is beside the run's output, holds a record of the run, and is locked while the run
//! lives. So the record identifies leftovers of a killed run, and a second run sees the first one.
//!
//! ```text
//!   TOP/.atta.UID/             of one user, 0700; removed with the last run of that user
//!   TOP/.atta.UID/TAG/record   of one run; locked (flock) while it runs
//!   TOP/.atta.UID/TAG/links/   see copy/links.rs
//! ```
//!
//! Another user who owns TOP may have taken that name. Then the run's directory is `TOP/.atta.UID.TAG`, which the record proves as well,
//! but which no later run looks for. `copy/plan/beside.rs` and `clean.rs` decide how to handle other runs.

pub(crate) mod directory;
#[cfg(test)]
pub(crate) mod fuzz;
pub(crate) mod names;
pub(crate) mod others;
pub(crate) mod record;
pub(crate) mod sweep;
pub(crate) mod tree;

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, Timespec, Timestamps, UTIME_NOW};

use crate::metadata::inherited;
use atta_sys::{self as sys, Features, retry};
use directory::{create_record, open_private, remove_own};
use names::Namer;
use others::{Other, others_among, others_in};
use record::{GRANTED, Record};

/// How often a directory is made again if other runs remove it at the same time.
const TRIES: u32 = 16;
/// How long to wait for another run that has locked the directory of all runs.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The directory of this run, which is removed when this is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct Job {
    top: Arc<OwnedFd>,
    /// The directory of all runs of the user, and its name; none: the run's own is in TOP itself.
    home: Option<(OwnedFd, CString)>,
    name: CString,
    directory: Option<OwnedFd>,
    /// It is removed only by [`end`](Job::end): a later run of the same job may need it.
    stays: bool,
    /// The file of its record, until the directory is removed. Closing it releases the lock.
    file: Option<OwnedFd>,
    record: Record,
}

/// A run that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) job: Job,
    /// Other runs of this user in this place.
    pub(crate) others: Vec<Other>,
    /// Why the file system has no locks, if it has none.
    pub(crate) lockless: Option<Errno>,
}

/// Where a run's directory is to be.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) top: &'a Arc<OwnedFd>,
    pub(crate) namer: &'a Namer,
    /// The owner of what this process makes there, if that is known.
    pub(crate) own_uid: Option<u32>,
    /// The run makes an entry with the name of the directory of all runs.
    pub(crate) is_alone: bool,
    /// Whether the record is to outlive a power cut.
    pub(crate) is_durable: bool,
    pub(crate) features: Features,
}

/// Makes the private directory of a run. `refuses` sees the other runs first, and no other begins meanwhile. Where processes of other
/// hosts do not see the lock of a directory, it sees them once more when they see this run: of two that begin at the same time, both may
/// be refused.
///
/// # Errors
/// The error of `refuses`. The inner error is why the directory could not be made.
pub(crate) fn begin<E>(
    setting: &Setting<'_>,
    record: &Record,
    refuses: impl Fn(&[Other]) -> Result<(), E>,
) -> Result<Result<Begun, Errno>, E> {
    for _ in 0..TRIES {
        let home = match setting.is_alone {
            true => Ok(None),
            false => open_home(setting),
        };
        let home = match home {
            Ok(home) => home,
            Err(errno) => return Ok(Err(errno)),
        };
        let (mut others, lockless) = match &home {
            None => (Vec::new(), None),
            Some(home) => {
                let lockless = lock_home(home).err();
                if !is_there(setting, home) {
                    continue;
                }
                (others_in(home), lockless)
            }
        };
        refuses(&others)?;
        let (mut job, missing) = match make(setting, home.as_ref(), record) {
            // The last other run has ended, and has removed the directory of all runs.
            Err(Errno::NOENT | Errno::STALE) if home.is_some() => continue,
            Err(errno) => return Ok(Err(errno)),
            Ok(made) => made,
        };
        if let Some(home) = home.filter(|home| sys::locks::are_local_for_directories(home)) {
            // Locks that this process has taken of those that it knows would count as held by others.
            let is_known =
                |name: &CString| *name == job.name || others.iter().any(|other| other.name == *name);
            let new = others_among(&home, |name| !is_known(name));
            refuses(&new)?;
            others.extend(new);
        }
        job.stays = false;
        return Ok(Ok(Begun { job, others, lockless: lockless.or(missing) }));
    }
    Ok(Err(Errno::NOENT))
}

/// The directory of all runs of this user, created if missing. None: the name is taken by an entry that is not private.
fn open_home(setting: &Setting<'_>) -> Result<Option<Arc<OwnedFd>>, Errno> {
    let name = setting.namer.home();
    for _ in 0..TRIES {
        match retry(|| rustix::fs::mkdirat(setting.top, &name, Mode::RWXU)) {
            Ok(()) => settle(setting, setting.top, &name)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        match open_private(setting.top, &name, setting.own_uid) {
            // The last run that was in it has removed it.
            Err(Errno::NOENT) => {}
            opened => return Ok(opened.ok().map(Arc::new)),
        }
    }
    Err(Errno::NOENT)
}

/// Removes inherited ACLs from a directory that was just created. If it was removed or replaced, opening it later shows that.
fn settle(setting: &Setting<'_>, above: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match inherited::open_private(above, name, setting.own_uid, setting.features) {
        Ok(_) | Err(Errno::NOENT | Errno::STALE | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Locks the directory of all runs. If another run holds the lock too long, goes on without it.
fn lock_home(home: &OwnedFd) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match retry(|| rustix::fs::flock(home, FlockOperation::NonBlockingLockExclusive)) {
            Err(Errno::AGAIN) if began.elapsed() < LOCK_WAIT => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::AGAIN) => return Ok(()),
            taken => return taken,
        }
    }
}

/// Whether it is still the directory of all runs: another run may have removed it before its lock was taken.
fn is_there(setting: &Setting<'_>, home: &OwnedFd) -> bool {
    sys::is_name_of(setting.top, &setting.namer.home(), home)
}

/// Makes the run's own directory and its record. Also returns why the file system has no locks, if it has none.
fn make(
    setting: &Setting<'_>,
    home: Option<&Arc<OwnedFd>>,
    record: &Record,
) -> Result<(Job, Option<Errno>), Errno> {
    let Setting { top, namer, own_uid, is_durable, .. } = *setting;
    let name = if home.is_some() { namer.tag() } else { namer.alone() };
    let above = home.unwrap_or(top);
    let made = retry(|| rustix::fs::mkdirat(above, &name, Mode::RWXU));
    let begun = match made {
        // No other process knows the name: an earlier run of the job has made it, or the first reply was lost.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        made => made,
    };
    let begun = begun
        .and_then(|()| settle(setting, above, &name))
        .and_then(|()| open_private(above, &name, own_uid))
        .and_then(|directory| Ok((create_record(&directory)?, directory)));
    let (file, directory) = begun.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(above, &name, AtFlags::REMOVEDIR);
        let _ = rustix::fs::unlinkat(top, namer.home(), AtFlags::REMOVEDIR);
    })?;
    let lockless = sys::locks::try_lock(&file).err();
    let home = home.map(|home| rustix::io::dup(home).map(|home| (home, namer.home())));
    let home = home.transpose().map_err(|error| Errno(error.raw_os_error()))?;
    let written = sys::data::write_all_at(&file, record.to_text().as_bytes(), 0);
    if is_durable || sys::file_systems::is_nfs(&file) {
        // Without this, the record still identifies leftovers of a killed run, but not those of a power cut; and other clients of NFS
        // do not see it.
        let _ = retry(|| rustix::fs::fsync(&file));
    }
    // From here on, dropping the job removes the directory.
    let (top, directory, file, record) = (Arc::clone(top), Some(directory), Some(file), record.clone());
    // What an earlier run has left stays if this run is refused.
    let job = Job { top, home, name, directory, stays: made.is_err(), file, record };
    written?;
    if let Some((home, _)) = &job.home {
        // Other runs may begin now.
        let _ = rustix::fs::flock(home, FlockOperation::Unlock);
    }
    Ok((job, lockless))
}

impl Job {
    /// The private directory.
    pub(crate) fn directory(&self) -> Option<&OwnedFd> {
        self.directory.as_ref()
    }

    /// The record of this run.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Removes it, if nothing but the record is left in it.
    ///
    /// # Errors
    /// Something is left.
    pub(crate) fn end(&mut self) -> Result<(), Errno> {
        let Some(directory) = self.directory.take() else { return Ok(()) };
        let above = self.home.as_ref().map_or(&*self.top, |(home, _)| home);
        let ended = remove_own(above, &directory, &self.name, &mut self.file);
        if let Some((_, name)) = &self.home {
            // Other runs may be in it.
            let _ = rustix::fs::unlinkat(&self.top, name, AtFlags::REMOVEDIR);
        }
        ended
    }

    /// Keeps it for a later run of the same job, unless this run comes to its end.
    pub(crate) fn stay(&mut self) {
        self.stays = true;
    }

    /// Notes in the record that the run has come to its end: no later run goes on with what it was asked for.
    pub(crate) fn note_end(&self) -> Result<(), Errno> {
        let Some((file, at)) = self.file.as_ref().zip(self.record.place_of_request()) else { return Ok(()) };
        retry(|| rustix::io::pwrite(file, GRANTED, at)).map(drop)
    }

    /// Sets the times of the record: the run makes its names from now on.
    pub(crate) fn touch(&self) -> Result<(), Errno> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        self.file.as_ref().map_or(Ok(()), |file| retry(|| rustix::fs::futimens(file, &times)))
    }

    /// Keeps the directory for later runs, which need the record for leftovers.
    pub(crate) fn keep(&mut self) {
        self.directory = None;
    }
}

impl Drop for Job {
    /// Removes the private directory of this run, unless it is [kept](Job::keep) or [stays](Job::stay), as [`end`](Job::end) does. Errors are
    /// ignored.
    fn drop(&mut self) {
        if !self.stays {
            let _ = self.end();
        }
    }
}

/// Opens the private directory of a run that another rank has made.
pub(crate) fn open_of_another_rank(
    top: &OwnedFd,
    namer: &Namer,
    own_uid: Option<u32>,
) -> Result<OwnedFd, Errno> {
    let home = open_private(top, &namer.home(), own_uid);
    match home.and_then(|home| open_private(&home, &namer.tag(), own_uid)) {
        Err(Errno::NOENT | Errno::STALE | Errno::NOTDIR) => open_private(top, &namer.alone(), own_uid),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{DirBuilderExt, symlink};

    use atta_testkit::scratch::Scratch;

    use super::directory::{RECORD, read_record};
    use super::others::{State, namer_in, remove_other};
    use super::record::{BYTES_MAX, Makes};
    use super::*;

    fn top(scratch: &Scratch) -> Arc<OwnedFd> {
        Arc::new(sys::open_directory_path(scratch.path().as_os_str().as_bytes(), false).unwrap())
    }

    fn begun(top: &Arc<OwnedFd>, namer: &Namer) -> Begun {
        let features = Features::default();
        let setting = Setting { top, namer, own_uid: None, is_alone: false, is_durable: true, features };
        let makes = vec![Makes { name: c"new".to_owned(), is_new: true }];
        let record = Record::of_this_process(namer.job(), (1, 2), false, makes);
        begin(&setting, &record, |_| Ok::<(), ()>(())).unwrap().unwrap()
    }

    fn names(scratch: &Scratch) -> Vec<CString> {
        sys::names_of(top(scratch), 100).unwrap()
    }

    /// A run that has spent much time to remove what others left, and is killed as soon as it has made its name.
    #[test]
    fn name_is_known_to_be_made_after_long_preparations() {
        let scratch = Scratch::new("jobs").unwrap();
        let (top, namer) = (top(&scratch), Namer::new(1));
        let makes = vec![Makes { name: c"new".to_owned(), is_new: true }];
        let record =
            Record::of_this_process(namer.job(), (1, 2), false, makes).with_request(Some("job.x".to_owned()));
        let features = Features::default();
        let setting =
            Setting { top: &top, namer: &namer, own_uid: None, is_alone: false, is_durable: false, features };
        let mut begun = begin(&setting, &record, |_| Ok::<(), ()>(())).unwrap().unwrap();
        let file = begun.job.file.as_ref().unwrap();
        let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        rustix::fs::futimens(file, &times).unwrap();
        fs::create_dir(scratch.join("new")).unwrap();
        let born = || sys::stat_at(&top, c"new", true).unwrap().btime;
        if born().is_none() {
            return println!("skipped: the file system keeps no times of birth");
        }
        let home = || Arc::new(open_private(&*top, &namer.home(), None).unwrap());
        let made = |request: &str| others::made_since(&top, &home(), request, c"new");
        assert_eq!(made("job.x"), None);
        begun.job.touch().unwrap();
        fs::remove_dir(scratch.join("new")).unwrap();
        fs::create_dir(scratch.join("new")).unwrap();
        assert_eq!(made("job.x"), u64::try_from(born().unwrap().seconds).ok());
        assert_eq!(made("job.y"), None);
        // A run that came to its end and has left something keeps its record.
        begun.job.note_end().unwrap();
        assert_eq!(made("job.x"), None);
        let record = others_in(&home()).pop().unwrap().record;
        assert_eq!(record, Record { request: None, ..begun.job.record().clone() });
        begun.job.end().unwrap();
    }

    #[test]
    fn runs_see_each_other_while_they_live() {
        let scratch = Scratch::new("jobs").unwrap();
        let (top, one, other) = (top(&scratch), Namer::new(1), Namer::new(2));
        let mut first = begun(&top, &one);
        assert!(first.others.is_empty() && first.lockless.is_none());
        let second = begun(&top, &other);
        assert_eq!(second.others.len(), 1);
        assert!(matches!(second.others[0].state, State::Runs), "{second:?}");
        assert_eq!(second.others[0].record, *first.job.record());
        assert!(crate::resume::is_private_directory(&top, &one.home()));
        let name = one.of_file(0);
        let found = namer_in(&top, names::parse(name.to_bytes()).unwrap()).unwrap();
        assert!(found.gave(name.to_bytes()));
        // One that was killed leaves its record, whose lock is free.
        first.job.keep();
        drop(first);
        let third = begun(&top, &Namer::new(3));
        let states: Vec<_> =
            third.others.iter().map(|other| matches!(other.state, State::Ended { .. })).collect();
        assert_eq!(states.iter().filter(|ended| **ended).count(), 1);
        assert_eq!(states.len(), 2);
        let mut others = third.others.into_iter();
        let ended = others.find(|other| matches!(other.state, State::Ended { .. })).unwrap();
        let (stop, features) = (atta_runtime::Stop::new(), sys::Features::default());
        let manner = tree::Manner { removes: true, stop, features };
        remove_other(ended, &top, &manner).unwrap();
        drop((second, third.job));
        assert!(names(&scratch).is_empty(), "{:?}", names(&scratch));
    }

    #[test]
    fn directory_of_all_runs_may_be_removed_meanwhile() {
        let scratch = Scratch::new("jobs-meanwhile").unwrap();
        let (top, namer, features) = (top(&scratch), Namer::new(1), Features::default());
        let setting =
            Setting { top: &top, namer: &namer, own_uid: None, is_alone: false, is_durable: true, features };
        let makes = vec![Makes { name: c"new".to_owned(), is_new: true }];
        let record = Record::of_this_process(namer.job(), (0, 0), false, makes);
        let tries = std::cell::Cell::new(0);
        let begun = begin::<()>(&setting, &record, |_| {
            // The last other run ends.
            if tries.replace(tries.get() + 1) == 0 {
                fs::remove_dir(scratch.join(namer.home().to_str().unwrap())).unwrap();
            }
            Ok(())
        });
        let begun = begun.unwrap().unwrap();
        assert_eq!(tries.get(), 2);
        drop(begun);
        assert!(names(&scratch).is_empty());
    }

    #[test]
    fn run_that_has_just_ended_is_none() {
        let scratch = Scratch::new("jobs-ended").unwrap();
        let (top, namer) = (top(&scratch), Namer::new(1));
        let Begun { job, .. } = begun(&top, &namer);
        let directory = rustix::io::dup(job.directory().unwrap()).unwrap();
        let (opened, _) = read_record(&directory).unwrap().unwrap();
        assert!(sys::is_name_of(&directory, RECORD, &opened));
        drop(job);
        assert_eq!(sys::locks::try_lock(&opened), Ok(()));
        assert!(!sys::is_name_of(&directory, RECORD, &opened));
    }

    #[test]
    fn shared_job_directory_must_be_private() {
        let namer = Namer::new(1);
        for what in ["open", "link", "file"] {
            let scratch = Scratch::new("jobs-taken").unwrap();
            let (top, home) = (top(&scratch), scratch.join(namer.home().to_str().unwrap()));
            match what {
                "open" => fs::DirBuilder::new().mode(0o755).create(&home).unwrap(),
                "link" => symlink("/tmp", &home).unwrap(),
                _ => fs::write(&home, "data").unwrap(),
            }
            let run = begun(&top, &namer);
            assert_eq!(names(&scratch).len(), 2, "{what}");
            assert!(
                crate::resume::is_private_directory(&top, &namer.alone())
                    && !crate::resume::is_private_directory(&top, &namer.home())
            );
            let name = namer.of_directory(c"a");
            assert!(namer_in(&top, names::parse(name.to_bytes()).unwrap()).is_some());
            assert!(open_of_another_rank(&top, &namer, None).is_ok());
            drop(run);
            assert_eq!(names(&scratch).len(), 1, "{what}");
        }
    }

    #[test]
    fn untrusted_record_is_not_believed() {
        let scratch = Scratch::new("jobs-record").unwrap();
        let (top, namer) = (top(&scratch), Namer::new(1));
        let run = begun(&top, &namer);
        let directory = run.job.directory().unwrap();
        let path =
            scratch.join(namer.home().to_str().unwrap()).join(namer.tag().to_str().unwrap()).join("record");
        assert!(read_record(directory).unwrap().is_some());
        fs::hard_link(&path, scratch.join("second")).unwrap();
        assert!(read_record(directory).unwrap().is_none(), "it has another name");
        fs::remove_file(scratch.join("second")).unwrap();
        let text = fs::read(&path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(BYTES_MAX as u64 + 1).unwrap();
        assert!(read_record(directory).unwrap().is_none(), "it is too long");
        fs::remove_file(&path).unwrap();
        fs::write(scratch.join("elsewhere"), &text).unwrap();
        symlink(scratch.join("elsewhere"), &path).unwrap();
        assert!(read_record(directory).unwrap().is_none(), "it is a link");
    }
}
