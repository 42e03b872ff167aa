//! Threads that change a tree while another program walks or copies it: a directory that alternates with a symlink to the outside, and
//! names that come and go. They stop and restore the tree on drop. They run at full speed: a test limits its own time and asks for a number
//! of rounds.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::fs::{mkdirat, mknodat, openat, renameat_with, symlinkat, unlinkat};

/// A running change. Dropping it stops the thread and restores the tree.
#[derive(Debug)]
pub struct Churn {
    state: Arc<State>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct State {
    is_ending: AtomicBool,
    rounds: AtomicU64,
}

impl Churn {
    /// Repeatedly exchanges the directory with a symlink to `outside`.
    ///
    /// The symlink is next to the directory, under the directory's name with `.swap` appended. A listing of the parent shows both names.
    ///
    /// # Errors
    /// Fails if the symlink cannot be made, or the file system cannot exchange two names.
    pub fn swap_directory_with_symlink(directory: &Path, outside: &Path) -> io::Result<Self> {
        let swap = Swap::new(directory, outside)?;
        // Tried once in both directions, so that an unsupported exchange fails here and not in a thread.
        for _ in 0..2 {
            swap.exchange()?;
        }
        Self::start(move |state| {
            while !state.is_ending.load(Ordering::Acquire) {
                swap.exchange()?;
                std::thread::yield_now();
                swap.exchange()?;
                state.rounds.fetch_add(1, Ordering::Release);
            }
            Ok(())
        })
    }

    /// Repeatedly makes eight files and eight directories (with a file in each) in `directory`, and removes them.
    ///
    /// Their names start with `vanish-`.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub fn vanish(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, directory, flags, Mode::empty())?;
        Self::start(move |state| {
            let mut round = 0;
            while !state.is_ending.load(Ordering::Acquire) {
                come(&directory, round)?;
                std::thread::yield_now();
                go(&directory, round)?;
                round = state.rounds.fetch_add(1, Ordering::Release) + 1;
            }
            Ok(())
        })
    }

    fn start(change: impl FnOnce(&State) -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let builder = std::thread::Builder::new().name("churn".to_owned());
        let thread = builder.spawn(move || change(&shared))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Number of rounds so far. A round changes the tree and restores it.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.state.rounds.load(Ordering::Acquire)
    }

    /// Waits for `rounds` more rounds. Returns false if an error ended the change before.
    #[must_use]
    pub fn wait(&self, rounds: u64) -> bool {
        let goal = self.rounds() + rounds;
        while self.rounds() < goal {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Stops the change, restores the tree, and returns the number of rounds.
    ///
    /// # Errors
    /// The error that ended the change early.
    pub fn finish(mut self) -> io::Result<u64> {
        self.stop()?;
        Ok(self.rounds())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.state.is_ending.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_panic)) => Err(io::Error::other("the churn's thread panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            crate::skip::note(&format!("churn ended early: {error}"));
        }
    }
}

/// The exchange. Dropping it removes the symlink, under either of the two names.
struct Swap {
    parent: OwnedFd,
    directory: OsString,
    partner: OsString,
}

impl Swap {
    fn new(directory: &Path, outside: &Path) -> io::Result<Self> {
        let directory = std::path::absolute(directory)?;
        let name = directory.file_name().map(OsStr::to_os_string);
        let (Some(name), Some(parent)) = (name, directory.parent()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(CWD, parent, flags, Mode::empty())?;
        let mut partner = name.clone();
        partner.push(".swap");
        let outside: PathBuf = std::path::absolute(outside)?;
        symlinkat(&outside, &parent, &partner)?;
        Ok(Self { parent, directory: name, partner })
    }

    fn exchange(&self) -> io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        Ok(renameat_with(&self.parent, &self.directory, &self.parent, &self.partner, flags)?)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        // The partner is the symlink unless an exchange failed half way through a round.
        if unlinkat(&self.parent, &self.partner, AtFlags::empty()).is_err() {
            let restored = self.exchange();
            let removed = unlinkat(&self.parent, &self.partner, AtFlags::empty());
            if restored.is_err() || removed.is_err() {
                crate::skip::note(&format!("churn left {} swapped", self.partner.display()));
            }
        }
    }
}

const VANISHING: u64 = 8;

fn come(directory: &OwnedFd, round: u64) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o644);
    for number in 0..VANISHING {
        mknodat(directory, vanishing('f', round, number), FileType::RegularFile, mode, 0)?;
        let inner = vanishing('d', round, number);
        mkdirat(directory, &inner, Mode::RWXU)?;
        mknodat(directory, format!("{inner}/file"), FileType::RegularFile, mode, 0)?;
    }
    Ok(())
}

/// Removes the oldest first, so that a reader in the middle of the directory loses names on both sides.
fn go(directory: &OwnedFd, round: u64) -> io::Result<()> {
    for number in 0..VANISHING {
        unlinkat(directory, vanishing('f', round, number), AtFlags::empty())?;
        let inner = vanishing('d', round, number);
        unlinkat(directory, format!("{inner}/file"), AtFlags::empty())?;
        unlinkat(directory, &inner, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn vanishing(kind: char, round: u64, number: u64) -> String {
    format!("vanish-{kind}-{round}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{oracle, scratch::Scratch};

    #[test]
    fn swap_shows_both_and_is_undone() {
        let scratch = Scratch::new("swap").unwrap();
        let (directory, outside) = (scratch.join("directory"), scratch.join("outside"));
        for each in [&directory, &outside] {
            mkdirat(CWD, each, Mode::RWXU).unwrap();
        }
        std::fs::write(directory.join("inner"), b"").unwrap();
        let before: Vec<_> = oracle::list(scratch.path()).unwrap().into_keys().collect();
        let churn = Churn::swap_directory_with_symlink(&directory, &outside).unwrap();
        let start = std::time::Instant::now();
        let mut seen = [0_u32; 2];
        // A busy machine may not run the other thread for a while. That is not a failure.
        while seen.iter().any(|&times| times < 10) {
            let is_link = rustix::fs::readlinkat(CWD, &directory, Vec::new()).is_ok();
            seen[usize::from(is_link)] += 1;
            assert!(start.elapsed() < Duration::from_secs(60), "{seen:?}");
        }
        assert!(churn.wait(100));
        assert!(churn.finish().unwrap() >= 100);
        let after: Vec<_> = oracle::list(scratch.path()).unwrap().into_keys().collect();
        assert_eq!(before, after);
    }

    #[test]
    fn vanishing_entries_leave_nothing() {
        let scratch = Scratch::new("vanish").unwrap();
        std::fs::write(scratch.join("stays"), b"").unwrap();
        let churn = Churn::vanish(scratch.path()).unwrap();
        assert!(churn.wait(20));
        drop(churn);
        let found = oracle::list(scratch.path()).unwrap();
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn swap_of_nothing_is_an_error_and_leaves_nothing() {
        let scratch = Scratch::new("nothing").unwrap();
        let outcome = Churn::swap_directory_with_symlink(&scratch.join("missing"), scratch.path());
        assert!(outcome.is_err());
        assert_eq!(oracle::list(scratch.path()).unwrap().len(), 1);
    }
}
