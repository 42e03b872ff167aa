//! Where is copied: a directory that was given, a fresh file system in an image, or one in memory. What was made and mounted
//! goes away with the place; a run that is killed leaves it, and has said where.

use std::fs::{DirBuilder, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use rustix::fs::statvfs;

use crate::contest::remove;
use crate::machine::Machine;
use crate::programs::{PACKAGE_DIRECTORY, succeed};
use crate::turns::BenchResult;

/// A file system that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// With its journal
    Ext4,
    /// As `mkfs.xfs` makes it
    Xfs,
}

/// What places are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// A directory that is there.
    Directory(PathBuf),
    /// A fresh file system in a file below this directory, on a loop device.
    Image(Kind, PathBuf),
    /// A tmpfs of its own, with as many inodes as are wanted, mounted below this directory.
    Memory(PathBuf),
}

/// A directory of this run's own, empty at first.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Its path.
    pub(crate) root: PathBuf,
    /// What the file system is called in tables.
    pub(crate) name: String,
    /// The same with its mount options, and what is below it.
    pub(crate) described: String,
    /// What a run leaves is to be synced.
    pub(crate) is_disk: bool,
    _made: Option<Made>,
}

/// What is to be removed when a place goes away.
#[derive(Debug)]
struct Made {
    root: PathBuf,
    /// Where a file system of its own is mounted, and the image it is in.
    mounted: Option<(PathBuf, Option<PathBuf>)>,
}

/// What must be left over beside two trees.
const SLACK_BYTES: u64 = 128 << 20;
/// mkfs.xfs makes nothing smaller than 300 MB, and a journal of a usual size wants some gigabytes around it.
const IMAGE_LEAST_BYTES: u64 = 4 << 30;

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The program that makes it, and what keeps the file system from finishing itself while others are measured.
    fn make(self) -> Command {
        match self {
            Self::Ext4 => {
                let mut command = Command::new("mkfs.ext4");
                command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
                command
            }
            Self::Xfs => {
                let mut command = Command::new("mkfs.xfs");
                command.args(["-q", "-f"]);
                command
            }
        }
    }
}

impl Ground {
    /// What it is called before there is a place.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Directory(path) => format!("a directory on {}", file_system(path)),
            Self::Image(kind, _) => format!("an image with {}", kind.word()),
            Self::Memory(_) => "a tmpfs of its own".to_owned(),
        }
    }

    /// A place with room for a tree of so many bytes, twice.
    ///
    /// # Errors
    ///
    /// Why there is none: no room, no rights, no program.
    pub(crate) fn prepare(&self, bytes: u64, log: &dyn Fn(&str)) -> BenchResult<Place> {
        let (Self::Directory(below) | Self::Image(_, below) | Self::Memory(below)) = self;
        let made = DirBuilder::new().recursive(true).create(below);
        made.map_err(|error| format!("making {}: {error}", below.display()))?;
        let wanted = bytes.saturating_mul(2).saturating_add(SLACK_BYTES);
        let free = statvfs(below).map_err(|error| format!("looking at {}: {error}", below.display()))?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        if free < wanted {
            return Err(format!("{} MiB are free of {} that are needed", free >> 20, wanted >> 20));
        }
        let own = below.join(format!("atta-bench-copy-{}", std::process::id()));
        let made = match self {
            Self::Directory(_) => {
                make_directory(&own)?;
                Made { root: own, mounted: None }
            }
            Self::Image(kind, _) => mounted_image(*kind, wanted, &own, log)?,
            Self::Memory(_) => mounted_memory(&own, log)?,
        };
        Ok(Place::new(made))
    }
}

impl Place {
    fn new(made: Made) -> Self {
        let described = file_system(&made.root);
        let kind = described.split(' ').next().unwrap_or("unknown").to_owned();
        let is_disk = !["tmpfs", "ramfs"].contains(&kind.as_str());
        let (name, described) = match &made.mounted {
            Some((_, Some(image))) => {
                let below = image.parent().map(file_system).unwrap_or_default();
                let described = format!("{described}, fresh on a loop device, its image on {below}");
                (format!("fresh {kind}"), described)
            }
            _ => (kind, described),
        };
        Self { root: made.root.clone(), name, described, is_disk, _made: Some(made) }
    }

    /// One that is nowhere, for tests of words.
    #[cfg(test)]
    pub(crate) fn named(name: &str, is_disk: bool) -> Self {
        Self { name: name.to_owned(), is_disk, ..Self::default() }
    }

    /// Whether files are in memory only.
    pub(crate) fn is_memory(&self) -> bool {
        !self.is_disk
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let removed = match &self.mounted {
            None => remove(&self.root).map_err(|error| error.to_string()),
            Some((point, image)) => unmount(point).and_then(|()| {
                let removed = image.iter().try_for_each(std::fs::remove_file);
                removed.and_then(|()| std::fs::remove_dir(point)).map_err(|error| error.to_string())
            }),
        };
        if let Err(error) = removed {
            complain(&self.root, &error);
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a mount that stays behind must be reported, and no caller can do it"
)]
fn complain(root: &Path, error: &str) {
    eprintln!("atta-bench: {} stays: {error}", root.display());
}

fn mounted_image(kind: Kind, bytes: u64, own: &Path, log: &dyn Fn(&str)) -> BenchResult<Made> {
    require_root()?;
    let image = own.with_extension(kind.word());
    let size = bytes.saturating_mul(2).max(IMAGE_LEAST_BYTES);
    let made = File::create_new(&image).and_then(|file| file.set_len(size));
    made.map_err(|error| format!("making {}: {error}", image.display()))?;
    let place = succeed(kind.make().arg(&image)).and_then(|()| {
        mounted(Command::new("mount").args(["-o", "loop"]).arg(&image), own, Some(image.clone()), log)
    });
    if place.is_err() {
        std::fs::remove_file(&image).map_err(|error| format!("removing {}: {error}", image.display()))?;
    }
    place
}

fn mounted_memory(own: &Path, log: &dyn Fn(&str)) -> BenchResult<Made> {
    require_root()?;
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "nr_inodes=0,size=90%,mode=0700", "atta-bench"]);
    mounted(&mut command, own, None, log)
}

/// Mounts something at `own`. The place is a directory in it: the root of a fresh file system is not empty.
fn mounted(mount: &mut Command, own: &Path, image: Option<PathBuf>, log: &dyn Fn(&str)) -> BenchResult<Made> {
    make_directory(own)?;
    if let Err(reason) = succeed(mount.arg(own)) {
        std::fs::remove_dir(own).map_err(|error| format!("removing {}: {error}", own.display()))?;
        return Err(reason);
    }
    log(&format!("mounted {}; unmount it if this run is killed", own.display()));
    let root = own.join("place");
    let made = Made { root, mounted: Some((own.to_owned(), image)) };
    make_directory(&made.root)?;
    Ok(made)
}

/// One that must not be there: what is there is not ours to remove later.
fn make_directory(path: &Path) -> BenchResult<()> {
    DirBuilder::new().create(path).map_err(|error| format!("making {}: {error}", path.display()))
}

/// Programs that examine new mounts, such as desktops, may keep them busy for a moment.
fn unmount(point: &Path) -> BenchResult<()> {
    let patient = || succeed(Command::new("umount").arg(point).stderr(Stdio::null()));
    patient().or_else(|_| {
        std::thread::sleep(std::time::Duration::from_secs(1));
        succeed(Command::new("umount").arg(point))
    })
}

fn require_root() -> BenchResult<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err("mounting it takes root".to_owned()) }
}

fn file_system(path: impl AsRef<Path>) -> String {
    Machine::describe(path.as_ref(), Path::new(PACKAGE_DIRECTORY)).file_system
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_made_and_goes_away_and_must_have_room() {
        let below = std::env::temp_dir().join(format!("atta-bench-place-{}", std::process::id()));
        let ground = Ground::Directory(below.clone());
        let place = ground.prepare(1, &|_| {}).unwrap();
        let root = place.root.clone();
        std::fs::write(root.join("file"), "x").unwrap();
        assert!(!place.name.is_empty() && place.described.starts_with(&place.name), "{place:?}");
        drop(place);
        assert!(!root.exists());
        let refused = ground.prepare(u64::MAX, &|_| {}).unwrap_err();
        assert!(refused.contains("that are needed"), "{refused}");
        std::fs::remove_dir(below).unwrap();
    }
}
