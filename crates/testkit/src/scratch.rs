//! A temporary directory that goes away with the value, whatever a test put into it: unreadable directories, chains of
//! 10^5 levels, mounts. Not a sandbox: a test that follows a link out of it is not held back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, mkdirat};

use crate::{mounts, removal, skip};

/// A directory of mode 0700, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// False once it was closed.
    is_open: bool,
}

impl Scratch {
    /// A new directory under `$TMPDIR`, or in the target directory where that is not set; `label` is part of its name.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(label: &str) -> io::Result<Self> {
        let parent = std::env::var_os("TMPDIR").map_or_else(crate::target::directory, PathBuf::from);
        Self::below(&std::path::absolute(parent)?, label)
    }

    /// A new directory below another one, for a test that needs it on a certain file system.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn below(parent: &Path, label: &str) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("atta-{label}-{process}-{number}"));
            match mkdirat(CWD, &path, Mode::RWXU) {
                Ok(()) => return Ok(Self { path, is_open: true }),
                // Left over from a killed process that had this number.
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A directory that is a tmpfs of its own, with room for `bytes`.
    ///
    /// # Errors
    /// `PermissionDenied` without root, else what mounting said.
    pub fn on_tmpfs(bytes: u64) -> io::Result<Self> {
        let scratch = Self::new("tmpfs")?;
        mounts::Mount::tmpfs(&scratch.path, bytes)?.leak();
        Ok(scratch)
    }

    /// Where it is; absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of something in it.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Removes it now and says whether that worked.
    ///
    /// # Errors
    /// When something in it could not be unmounted or removed.
    pub fn close(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> io::Result<()> {
        self.is_open = false;
        // A test that panicked may have left a mount; removing through it would be another file system's loss.
        mounts::detach_below(&self.path)?;
        removal::remove(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        if let Err(error) = self.remove() {
            skip::note(&format!("not removed: {}: {error}", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lock::Lock, trees};

    #[test]
    fn directory_is_private_and_goes_away() {
        let scratch = Scratch::new("plain").unwrap();
        let mode = rustix::fs::stat(scratch.path()).unwrap().st_mode & 0o7777;
        assert_eq!(mode & 0o077, 0);
        std::fs::write(scratch.join("file"), b"x").unwrap();
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn deep_chain_goes_away() {
        let scratch = Scratch::new("deep").unwrap();
        trees::chain(&scratch.join("chain"), 20_000, b"level").unwrap();
        let path = scratch.path().to_path_buf();
        scratch.close().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn unreadable_and_odd_entries_go_away() {
        let scratch = Scratch::new("odd").unwrap();
        trees::unreadable(&scratch.join("unreadable")).unwrap();
        trees::hostile_names(&scratch.join("names")).unwrap();
        trees::kinds(&scratch.join("kinds"), &scratch.join("outside")).unwrap();
        scratch.close().unwrap();
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let kept = Scratch::new("kept").unwrap();
        std::fs::write(kept.join("file"), b"x").unwrap();
        let scratch = Scratch::new("links").unwrap();
        rustix::fs::symlinkat(kept.path(), CWD, scratch.join("link")).unwrap();
        scratch.close().unwrap();
        assert!(kept.join("file").exists());
    }

    #[test]
    fn tmpfs_has_its_size_and_goes_away() {
        let _lock = Lock::for_mounts().unwrap();
        let name = "tmpfs_has_its_size_and_goes_away";
        let Some(scratch) = skip::unless_available(name, Scratch::on_tmpfs(1 << 20)) else {
            return;
        };
        assert!(std::fs::write(scratch.join("small"), vec![1; 1 << 16]).is_ok());
        let full = std::fs::write(scratch.join("large"), vec![1; 2 << 20]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let path = scratch.path().to_path_buf();
        scratch.close().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn forgotten_mount_is_detached() {
        let _lock = Lock::for_mounts().unwrap();
        let scratch = Scratch::new("forgotten").unwrap();
        let inner = scratch.join("new\nline");
        mkdirat(CWD, &inner, Mode::RWXU).unwrap();
        let mount = mounts::Mount::tmpfs(&inner, 1 << 20);
        if let Some(mount) = skip::unless_available("forgotten_mount_is_detached", mount) {
            mount.leak();
        }
        scratch.close().unwrap();
    }
}
