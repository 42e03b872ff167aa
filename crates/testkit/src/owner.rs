//! The owner of a directory who tries to read the files that another user puts into it. The owner sets a default ACL once some names exist,
//! and keeps trying to open everything. Runs as a thread with only the owner's rights.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, Dir, Mode, OFlags, XattrFlags, fsetxattr, openat};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

const DEFAULT_LIST: &str = "system.posix_acl_default";

/// A running owner. [`HostileOwner::finish`] stops it.
#[derive(Debug)]
pub struct HostileOwner {
    state: Arc<State>,
    thread: JoinHandle<io::Result<BTreeSet<OsString>>>,
}

#[derive(Debug, Default)]
struct State {
    is_ending: AtomicBool,
    /// Number of names when the ACL was set, plus one. 0: it was not set.
    names: AtomicUsize,
}

/// Result of an owner's attempts.
#[derive(Debug)]
pub struct Achieved {
    /// Number of names in the directory when the default ACL was set. None: it was not set.
    pub names: Option<usize>,
    /// Names of the files that the owner could open for reading. Directories are not tried.
    pub opened: BTreeSet<OsString>,
}

impl HostileOwner {
    /// Starts with the rights of `uid`, which should own `directory`. `list` is the default ACL, as the kernel takes it; it
    /// is set when the directory has `names` names.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub fn start(directory: &Path, uid: u32, list: Vec<u8>, names: usize) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, directory, flags, Mode::empty())?;
        let builder = std::thread::Builder::new().name("hostile-owner".to_owned());
        let thread = builder.spawn(move || {
            set_thread_groups(&[Gid::from_raw(uid)])?;
            set_thread_gid(Gid::from_raw(uid))?;
            set_thread_uid(Uid::from_raw(uid))?;
            shared.run(&directory, &list, names)
        })?;
        Ok(Self { state, thread })
    }

    /// Stops the owner after a final pass over the whole directory.
    ///
    /// # Errors
    /// The error that ended it early.
    ///
    /// # Panics
    /// Panics if its thread panicked.
    pub fn finish(self) -> io::Result<Achieved> {
        self.state.is_ending.store(true, Ordering::Release);
        let opened = self.thread.join().expect("the owner's thread")?;
        Ok(Achieved { names: self.state.names.load(Ordering::Acquire).checked_sub(1), opened })
    }
}

impl State {
    fn run(&self, directory: &OwnedFd, list: &[u8], wanted: usize) -> io::Result<BTreeSet<OsString>> {
        let mut opened = BTreeSet::new();
        loop {
            // Read first, so that a final pass covers everything present at the end.
            let is_ending = self.is_ending.load(Ordering::Acquire);
            let names = names_in(directory)?;
            if self.names.load(Ordering::Acquire) == 0 && names.len() >= wanted {
                fsetxattr(directory, DEFAULT_LIST, list, XattrFlags::empty())?;
                self.names.store(names.len() + 1, Ordering::Release);
            }
            open_each(directory, names, &mut opened);
            if is_ending {
                return Ok(opened);
            }
            std::thread::yield_now();
        }
    }
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let names = Dir::read_from(directory)?
        .map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
    names.filter(|name| !matches!(name, Ok(name) if name == "." || name == "..")).collect()
}

/// Opens each name, and the names in each accessible directory.
fn open_each(directory: &OwnedFd, names: Vec<OsString>, opened: &mut BTreeSet<OsString>) {
    for name in names {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let below = openat(directory, &name, flags | OFlags::DIRECTORY, Mode::empty());
        match below.map_err(io::Error::from).and_then(|below| Ok((names_in(&below)?, below))) {
            Ok((names, below)) => open_each(&below, names, opened),
            Err(_not_a_directory) => {
                if openat(directory, &name, flags, Mode::empty()).is_ok() {
                    opened.insert(name);
                }
            }
        }
    }
}
