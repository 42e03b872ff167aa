//! A disk that dies when a test wants it to. Needs root, FUSE and a loop device, and says so as `mounts.rs` does. Breaks nothing by
//! itself: what goes wrong the rules of [`slow`](crate::slow) say.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkdirat};

use crate::mounts::{Mount, make_image, mount_image, require_root};
use crate::scratch::Scratch;
use crate::slow::SlowFs;

/// A file system on a disk that breaks on request: a loop device whose file lies on a file system with faults. Where the kernel has no
/// device mapper it is the nearest thing to a disk that dies. Dropping it unmounts all.
#[derive(Debug)]
pub struct DyingDisk {
    // Dropped in this order.
    mount: Option<Mount>,
    disk: SlowFs,
    scratch: Scratch,
}

impl DyingDisk {
    /// An ext4 of so many megabytes on a disk that obeys these rules; to them the disk is a file called `disk`. It must be
    /// mounted before anything fails: let rules be `armed`.
    ///
    /// # Errors
    /// As [`loop_image`](crate::mounts::loop_image), and as [`Builder::mount`](crate::slow::Builder::mount).
    pub fn new(megabytes: u64, rules: &[&str]) -> io::Result<Self> {
        require_root()?;
        let scratch = Scratch::new("disk")?;
        let (below, path) = (scratch.join("below"), scratch.join("mount"));
        mkdirat(CWD, &below, Mode::RWXU)?;
        mkdirat(CWD, &path, Mode::RWXU)?;
        make_image("ext4", megabytes, &below.join("disk"))?;
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&below);
        let disk = rules.iter().fold(builder, |builder, rule| builder.fail(rule)).mount()?;
        mount_image(&disk.path().join("disk"), &path)?;
        Ok(Self { mount: Some(Mount::at(&path)), disk, scratch })
    }

    /// The root of the file system.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.scratch.join("mount")
    }

    /// From here on its rules count.
    ///
    /// # Errors
    /// When the process that serves the disk has ended.
    pub fn break_now(&mut self) -> io::Result<()> {
        self.disk.arm()
    }

    /// Takes the disk out, and mounts what is really on it.
    ///
    /// # Errors
    /// When it cannot be mounted any more.
    pub fn revive(&mut self) -> io::Result<()> {
        drop(self.mount.take());
        mount_image(&self.scratch.join("below/disk"), &self.path())?;
        self.mount = Some(Mount::at(&self.path()));
        Ok(())
    }
}
