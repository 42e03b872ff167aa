//! What a rank finds under a path: kind, size, digests and space. It is compared with what others find. Nothing is compared here.
//!
//! Each look may wait as long as the server does. A caller that cannot wait looks in another process ([`Looks`]).

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use atta_code::{Code as _, choice, record};
use atta_entry::{Errno, Kind, Metadata};
use atta_sys::{names_of, open_directory_path, stat_path};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfsMountFlags};

use crate::contents::{Contents, Digest, SystemContents};

/// The most names of a directory that are compared.
const NAMES_MAX: usize = 1 << 24;

/// What is under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// A regular file of this size in bytes, and the digest of its contents if it was read.
    File(u64, Option<Digest>),
    /// A directory, and the digest of its names, their types and, if files are read, of their contents. Directories below are not entered.
    Directory(Option<Digest>),
    /// Anything else: the type bits of its mode (`st_mode & S_IFMT`).
    Other(u32),
    /// Nothing.
    Absent,
    /// An automounter has it, and nothing is mounted there now. It was not looked at.
    NotMounted,
    /// It cannot be looked at.
    Failed(Errno),
    /// The file system does not answer within the deadline.
    NoAnswer,
}

choice!(Evidence {
    0 => File(size, digest),
    1 => Directory(digest),
    2 => Other(kind),
    3 => Absent,
    4 => NotMounted,
    5 => Failed(errno),
    6 => NoAnswer,
});

impl Evidence {
    /// Whether it says what is there, so that two of them can be compared.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::NotMounted | Self::Failed(_) | Self::NoAnswer)
    }

    /// Whether two that are equal mean equal contents, as far as was asked.
    pub(crate) const fn is_whole(&self) -> bool {
        matches!(self, Self::File(_, Some(_)) | Self::Directory(Some(_)) | Self::Absent)
    }
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What a user without privileges can still use.
    pub available: u64,
    /// The mount is read-only.
    pub is_read_only: bool,
}

record!(Space { total, available, is_read_only });

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// What kind it is, and its size. No directory is read.
    Kind,
    /// The names in a directory, too.
    Names,
    /// The contents of a file, or of the files in a directory, too.
    Contents,
}

choice!(Detail { 0 => Kind, 1 => Names, 2 => Contents });

/// What one look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// What is there.
    pub evidence: Evidence,
    /// The space of its file system, or of that of the closest directory above. None: it cannot be asked.
    pub space: Option<Space>,
    /// A hash of its kind, its inode, and when it was made or last changed: other files hardly have the same. None: it does not exist, or is the root
    /// of a file system without birth times, which may give all roots one inode and no time.
    pub mark: Option<u64>,
}

record!(Sighting { evidence, space, mark });

impl Sighting {
    /// A look that found out only this.
    #[must_use]
    pub const fn of(evidence: Evidence) -> Self {
        Self { evidence, space: None, mark: None }
    }
}

/// Who looks: this process, or another one that can be left behind.
pub trait Looks {
    /// Looks at a path without symbolic links.
    fn look(&self, path: &[u8], detail: Detail) -> Sighting;
}

/// Looks from this process, and waits as long as the system does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLooks;

impl Looks for SystemLooks {
    fn look(&self, path: &[u8], detail: Detail) -> Sighting {
        let found = match stat_path(path, false) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                return Sighting { space: space(path), ..Sighting::of(Evidence::Absent) };
            }
            Err(errno) => return Sighting::of(Evidence::Failed(errno)),
        };
        let evidence = evidence(path, &found, detail).unwrap_or_else(Evidence::Failed);
        Sighting { evidence, space: space(path), mark: mark(&found) }
    }
}

fn evidence(path: &[u8], found: &Metadata, detail: Detail) -> Result<Evidence, Errno> {
    Ok(match found.kind() {
        Kind::File => {
            let digest = (detail == Detail::Contents).then(|| SystemContents.digest(path, 0, None));
            Evidence::File(found.size, digest.transpose()?)
        }
        Kind::Directory if detail == Detail::Kind => Evidence::Directory(None),
        Kind::Directory => Evidence::Directory(Some(listing(path, detail)?)),
        _ => Evidence::Other(found.mode & !0o7777),
    })
}

/// See [`Sighting::mark`].
fn mark(found: &Metadata) -> Option<u64> {
    if found.btime.is_none() && found.inode <= 2 {
        return None;
    }
    let time = found.btime.unwrap_or(found.ctime);
    let text = (found.mode & !0o7777, found.inode, time.seconds, u64::from(time.nanoseconds)).encoded();
    let mut mark = [0; 8];
    mark.copy_from_slice(&blake3::hash(&text).as_bytes()[..8]);
    Some(u64::from_le_bytes(mark))
}

/// The digest of a directory's names and types, and of the contents of its files if these are read.
fn listing(path: &[u8], detail: Detail) -> Result<Digest, Errno> {
    let names = names_of(open_directory_path(path, true)?, NAMES_MAX + 1)?;
    if names.len() > NAMES_MAX {
        return Err(errno(rustix::io::Errno::FBIG));
    }
    let directory = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
    let directory = directory.map_err(errno)?;
    let mut all = BTreeMap::new();
    for name in names {
        let found = match rustix::fs::statat(directory.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            // It was removed meanwhile.
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(errno(error)),
        };
        let kind = FileType::from_raw_mode(found.st_mode);
        let reads = detail == Detail::Contents && kind == FileType::RegularFile;
        let whole = [path, b"/", name.as_bytes()].concat();
        let digest = reads.then(|| SystemContents.digest(&whole, 0, None)).transpose()?;
        all.insert(name.into_bytes(), (kind.as_raw_mode(), digest));
    }
    let mut hasher = blake3::Hasher::new();
    for (name, (kind, digest)) in all {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(&name);
        hasher.update(&kind.to_le_bytes());
        hasher.update(digest.as_ref().map_or(&[], |digest| &digest[..]));
    }
    Ok(*hasher.finalize().as_bytes())
}

/// The space at a path, or at the closest directory above that exists.
fn space(path: &[u8]) -> Option<Space> {
    let mut path = path;
    loop {
        match rustix::fs::statvfs(path) {
            Ok(found) => {
                let size = found.f_frsize.max(1);
                return Some(Space {
                    total: found.f_blocks.saturating_mul(size),
                    available: found.f_bavail.saturating_mul(size),
                    is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
                });
            }
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) if path.len() > 1 => {
                let end = path.iter().rposition(|byte| *byte == b'/')?;
                path = &path[..end.max(1)];
            }
            Err(_) => return None,
        }
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(path: &std::path::Path, detail: Detail) -> Evidence {
        SystemLooks.look(path.as_os_str().as_encoded_bytes(), detail).evidence
    }

    #[test]
    fn directories_with_equal_names_are_equal() {
        let scratch = atta_testkit::scratch::Scratch::new("evidence").unwrap();
        for directory in ["one", "two"] {
            std::fs::create_dir_all(scratch.join(directory).join("sub")).unwrap();
            std::fs::write(scratch.join(directory).join("file"), directory).unwrap();
        }
        let by = |detail| (look(&scratch.join("one"), detail), look(&scratch.join("two"), detail));
        assert_eq!(by(Detail::Kind).0, Evidence::Directory(None));
        assert_eq!(by(Detail::Names).0, by(Detail::Names).1);
        assert_ne!(by(Detail::Contents).0, by(Detail::Contents).1);
        std::fs::write(scratch.join("two").join("file"), "one").unwrap();
        assert_eq!(by(Detail::Contents).0, by(Detail::Contents).1);
        std::fs::remove_dir(scratch.join("two").join("sub")).unwrap();
        std::fs::write(scratch.join("two").join("sub"), "").unwrap();
        assert_ne!(by(Detail::Names).0, by(Detail::Names).1, "a directory and a file");
    }

    #[test]
    fn kinds_sizes_and_space_are_found() {
        let scratch = atta_testkit::scratch::Scratch::new("evidence").unwrap();
        std::fs::write(scratch.join("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", scratch.join("link")).unwrap();
        assert_eq!(look(&scratch.join("file"), Detail::Names), Evidence::File(5, None));
        assert!(matches!(look(&scratch.join("file"), Detail::Contents), Evidence::File(5, Some(_))));
        assert_eq!(look(&scratch.join("link"), Detail::Contents), Evidence::Other(0o120_000));
        let absent = scratch.join("none").join("below");
        let found = SystemLooks.look(absent.as_os_str().as_encoded_bytes(), Detail::Kind);
        assert_eq!(found.evidence, Evidence::Absent);
        let space = found.space.expect("that of the scratch directory");
        assert!(space.total >= space.available && space.available > 0, "{space:?}");
    }
}
