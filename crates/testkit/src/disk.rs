//! A disk that fails on request. Needs root, FUSE and a loop device; reports a lack of these as `mounts.rs` does. The rules of
//! [`slow`](crate::slow) define the failures.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkdirat};

use crate::mounts::{Mount, make_image, mount_image, require_root};
use crate::scratch::Scratch;
use crate::slow::SlowFs;

/// A file system on a disk that fails on request. The disk is a loop device whose file is on a file system with faults. Without the
/// kernel's device mapper, this is the closest model of a failing disk. Dropping it unmounts all.
#[derive(Debug)]
pub struct DyingDisk {
    // Dropped in this order.
    mount: Option<Mount>,
    disk: SlowFs,
    scratch: Scratch,
}

impl DyingDisk {
    /// Creates an ext4 of this many megabytes on a disk with these rules. In rules, the disk is a file named `disk`. Rules should be
    /// `armed`, since the mount must come before the first failure.
    ///
    /// # Errors
    /// Same as [`loop_image`](crate::mounts::loop_image) and [`Builder::mount`](crate::slow::Builder::mount).
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

    /// Arms the rules.
    ///
    /// # Errors
    /// Fails if the process that serves the disk has ended.
    pub fn break_now(&mut self) -> io::Result<()> {
        self.disk.arm()
    }

    /// Removes the disk, and mounts its real contents.
    ///
    /// # Errors
    /// Fails if the file system can no longer be mounted.
    pub fn revive(&mut self) -> io::Result<()> {
        drop(self.mount.take());
        mount_image(&self.scratch.join("below/disk"), &self.path())?;
        self.mount = Some(Mount::at(&self.path()));
        Ok(())
    }
}
