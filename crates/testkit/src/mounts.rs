//! Real file systems of a given size and type for one test, unmounted on drop. Needs root and otherwise returns `PermissionDenied`. A
//! missing program or file system returns `Unsupported`. It enters no mount namespace: every process can see these mounts.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkdirat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use crate::scratch::Scratch;
use crate::skip;

/// A mounted file system. Dropping it unmounts.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    is_mounted: bool,
}

impl Mount {
    /// Mounts a tmpfs with room for `bytes` on an existing directory.
    ///
    /// # Errors
    /// `PermissionDenied` without root; otherwise the error from mounting.
    pub fn tmpfs(path: &Path, bytes: u64) -> io::Result<Self> {
        let options = CString::new(format!("size={bytes},mode=0700"))?;
        Self::over("tmpfs", path, "tmpfs", &options)
    }

    /// Mounts a tmpfs with room for this many entries, including the directory itself.
    ///
    /// # Errors
    /// Same as [`Mount::tmpfs`].
    pub fn tmpfs_of_entries(path: &Path, entries: u64) -> io::Result<Self> {
        let options = CString::new(format!("size=64m,nr_inodes={entries},mode=0700"))?;
        Self::over("tmpfs", path, "tmpfs", &options)
    }

    /// Resizes a tmpfs to this many bytes.
    ///
    /// # Errors
    /// The error from mounting.
    pub fn resize(&self, bytes: u64) -> io::Result<()> {
        let options = CString::new(format!("size={bytes}"))?;
        Ok(mount_remount(&self.path, MountFlags::NODEV | MountFlags::NOSUID, options.as_c_str())?)
    }

    /// Bind-mounts the directory `source` at `path`.
    ///
    /// # Errors
    /// `PermissionDenied` without root; otherwise the error from mounting.
    pub fn bind(source: &Path, path: &Path) -> io::Result<Self> {
        require_root()?;
        mount_bind(source, path)?;
        Ok(Self::at(path))
    }

    fn over(source: &str, path: &Path, kind: &str, options: &CString) -> io::Result<Self> {
        require_root()?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        match mount(source, path, kind, flags, options.as_c_str()) {
            Ok(()) => Ok(Self::at(path)),
            Err(Errno::NODEV) => Err(unsupported(&format!("the kernel has no {kind}"))),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf(), is_mounted: true }
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it mounted; another part unmounts it.
    pub(crate) fn leak(mut self) {
        self.is_mounted = false;
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_mounted {
            // The directory's owner detaches the rest, and reports a failure.
            let _left = unmount_at(&self.path);
        }
    }
}

/// A file system in a sparse image file on a loop device; dropping it unmounts and removes the image.
#[derive(Debug)]
pub struct LoopImage {
    // Dropped in this order: nothing can be removed while it is mounted.
    mount: Mount,
    _scratch: Scratch,
}

impl LoopImage {
    /// The root of the file system.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.path()
    }
}

/// Makes and mounts a file system of `kind` (`ext4`, `xfs`, `btrfs`, or `ext4-seconds`: an ext4 with small inodes, which keeps whole
/// seconds of times). xfs wants 300 megabytes at least, btrfs 110; the image is sparse, so they cost nothing.
///
/// # Errors
/// `PermissionDenied` without root, `Unsupported` without the programs, `InvalidInput` for another kind, else what
/// they said.
pub fn loop_image(kind: &str, megabytes: u64) -> io::Result<LoopImage> {
    require_root()?;
    let scratch = Scratch::new(kind)?;
    let (image, path) = (scratch.join("image"), scratch.join("mount"));
    make_image(kind, megabytes, &image)?;
    mkdirat(CWD, &path, Mode::RWXU)?;
    mount_image(&image, &path)?;
    Ok(LoopImage { mount: Mount::at(&path), _scratch: scratch })
}

/// Makes a file system in a sparse file.
pub(crate) fn make_image(kind: &str, megabytes: u64, image: &Path) -> io::Result<()> {
    let (make, options): (_, &[&str]) = match kind {
        "ext4" => ("mkfs.ext4", &[]),
        "ext4-seconds" => ("mkfs.ext4", &["-I", "128"]),
        "xfs" => ("mkfs.xfs", &[]),
        "btrfs" => ("mkfs.btrfs", &[]),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no images of {kind}"))),
    };
    File::create_new(image)?.set_len(megabytes << 20)?;
    run(Command::new(make).arg("-q").args(options).arg(image))
}

pub(crate) fn mount_image(image: &Path, path: &Path) -> io::Result<()> {
    mount_image_with(image, path, "loop")
}

/// `options` of the mount, `loop` among them.
pub(crate) fn mount_image_with(image: &Path, path: &Path, options: &str) -> io::Result<()> {
    // Loop devices are taken through ioctls, which need unsafe code; the program frees them on unmounting as well.
    run(Command::new("mount").args(["-o", options]).arg(image).arg(path))
}

/// An overlay mount with its own upper layer; dropping it unmounts and removes that layer.
#[derive(Debug)]
pub struct Overlay {
    mount: Mount,
    scratch: Scratch,
}

impl Overlay {
    /// The merged view.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The layer that takes the changes, with its whiteouts.
    #[must_use]
    pub fn upper(&self) -> PathBuf {
        self.scratch.join("upper")
    }
}

/// Merges `lowers` (the first one on top) below a new upper layer that lies in `space`, which must be on a file
/// system that an upper layer may lie on (ext4, xfs, tmpfs).
///
/// # Errors
/// `PermissionDenied` without root, `InvalidInput` for a path that the mount options cannot carry, else what mounting
/// said.
pub fn overlay(lowers: &[&Path], space: &Path) -> io::Result<Overlay> {
    overlay_with(lowers, space, "")
}

/// The same with one more option of the mount, unless it is empty.
///
/// # Errors
/// As [`overlay`].
pub fn overlay_with(lowers: &[&Path], space: &Path, option: &str) -> io::Result<Overlay> {
    require_root()?;
    let scratch = Scratch::below(space, "overlay")?;
    let mut options = b"lowerdir=".to_vec();
    for (index, lower) in lowers.iter().enumerate() {
        if index > 0 {
            options.push(b':');
        }
        options.extend_from_slice(option_path(lower)?);
    }
    for (option, name) in [(",upperdir=", "upper"), (",workdir=", "work")] {
        let path = scratch.join(name);
        mkdirat(CWD, &path, Mode::RWXU)?;
        options.extend_from_slice(option.as_bytes());
        options.extend_from_slice(option_path(&path)?);
    }
    if !option.is_empty() {
        options.extend([b",", option.as_bytes()].concat());
    }
    let merged = scratch.join("merged");
    mkdirat(CWD, &merged, Mode::RWXU)?;
    let mount = Mount::over("overlay", &merged, "overlay", &CString::new(options)?)?;
    Ok(Overlay { mount, scratch })
}

/// Commas and colons separate options and layers, a backslash escapes.
fn option_path(path: &Path) -> io::Result<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().any(|byte| b",:\\".contains(byte)) {
        let message = format!("no mount option can carry {}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(bytes)
}

pub(crate) fn require_root() -> io::Result<()> {
    if skip::is_root() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "mounting needs root"))
}

fn unsupported(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, message)
}

fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unsupported(&format!("{program} is not installed")),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}: {}", output.status, said.trim())))
}

/// Unmounts; what is still busy after 200 ms is detached, so that no later test meets it.
pub(crate) fn unmount_at(path: &Path) -> io::Result<()> {
    for _ in 0..10 {
        match unmount(path, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?)
}

/// Detaches every mount at or below `path`, the latest first.
pub(crate) fn detach_below(path: &Path) -> io::Result<()> {
    let mut found = mounted()?;
    found.retain(|each| each.starts_with(path));
    for each in found.iter().rev() {
        // FUSE servers of other users and their helpers may have unmounted it in between.
        match unmount(each, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The mount points of this mount namespace, in the order of mounting.
///
/// # Errors
/// When `/proc/self/mountinfo` cannot be read.
pub fn mounted() -> io::Result<Vec<PathBuf>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    let lines = table.split(|&byte| byte == b'\n');
    // Field 5 is the mount point: 36 35 98:0 /root /point options...
    let points = lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    Ok(points.map(unescape).collect())
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;

    #[test]
    fn octal_escapes_are_undone() {
        assert_eq!(unescape(br"/a\040b\134\012"), Path::new("/a b\\\n"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
    }

    #[test]
    fn images_are_mounted_and_leave_nothing() {
        let _lock = Lock::for_mounts().unwrap();
        for (kind, megabytes) in [("ext4", 16), ("xfs", 320), ("btrfs", 128)] {
            let name = format!("images_are_mounted_and_leave_nothing ({kind})");
            let Some(image) = skip::unless_available(&name, loop_image(kind, megabytes)) else {
                continue;
            };
            std::fs::write(image.path().join("file"), b"x").unwrap();
            let path = image.path().to_path_buf();
            assert!(mounted().unwrap().contains(&path));
            drop(image);
            assert!(!mounted().unwrap().contains(&path), "{kind}");
            assert!(!path.exists(), "{kind}");
        }
    }

    #[test]
    fn overlay_merges_and_keeps_the_lower_layer() {
        let _lock = Lock::for_mounts().unwrap();
        let name = "overlay_merges_and_keeps_the_lower_layer";
        // The scratch directory itself may lie on an overlay, which cannot be an upper layer.
        let Some(space) = skip::unless_available(name, Scratch::on_tmpfs(1 << 20)) else {
            return;
        };
        let lower = space.join("lower");
        mkdirat(CWD, &lower, Mode::RWXU).unwrap();
        std::fs::write(lower.join("file"), b"lower").unwrap();
        let Some(merged) = skip::unless_available(name, overlay(&[&lower], space.path())) else {
            return;
        };
        std::fs::write(merged.path().join("file"), b"upper").unwrap();
        assert_eq!(std::fs::read(lower.join("file")).unwrap(), b"lower");
        assert_eq!(std::fs::read(merged.upper().join("file")).unwrap(), b"upper");
    }

    #[test]
    fn busy_mount_is_detached() {
        let _lock = Lock::for_mounts().unwrap();
        let scratch = Scratch::new("busy").unwrap();
        let mount = Mount::tmpfs(scratch.path(), 1 << 20);
        let Some(mount) = skip::unless_available("busy_mount_is_detached", mount) else {
            return;
        };
        let _busy = File::create(mount.path().join("file")).unwrap();
        drop(mount);
        assert!(!mounted().unwrap().iter().any(|each| each == scratch.path()));
    }

    #[test]
    fn unknown_kind_is_refused() {
        if skip::is_root() {
            assert_eq!(loop_image("ufs", 8).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
