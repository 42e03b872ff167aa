//! Builders of hostile trees. Each makes its directory where it does not exist, works through directory descriptors
//! alone (so no depth is too deep), and returns how many entries it made below that directory. None changes or removes
//! what is there already: a name that exists is an error.

mod kinds;
mod mixture;
mod names;
mod times;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, mkdirat, mknodat, openat};

pub use kinds::{kinds, unreadable};
pub use mixture::random;
pub use names::{HOSTILE_NAMES, hostile_names};
pub use times::{TIMES, times};

/// A chain of `levels` directories below `directory`, each called `name`, with nothing else in them.
///
/// # Errors
/// What making or opening a directory said.
pub fn chain(directory: &Path, levels: u64, name: &[u8]) -> io::Result<u64> {
    let mut deepest = open_or_make(directory)?;
    for _ in 0..levels {
        deepest = make_directory(&deepest, name)?;
    }
    Ok(levels)
}

/// `files` empty files in one directory, called `f0000000` and on.
///
/// # Errors
/// What making a file said.
pub fn flat(directory: &Path, files: u64) -> io::Result<u64> {
    let directory = open_or_make(directory)?;
    for number in 0..files {
        let name = format!("f{number:07}");
        // One call where opening and closing take two.
        mknodat(&directory, name, FileType::RegularFile, Mode::from_raw_mode(0o644), 0)?;
    }
    Ok(files)
}

fn open_or_make(path: &Path) -> io::Result<OwnedFd> {
    match mkdirat(CWD, path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => open_directory(CWD, path),
        Err(error) => Err(error.into()),
    }
}

fn open_directory<Fd: AsFd, P: rustix::path::Arg>(at: Fd, name: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

fn make_directory(at: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    mkdirat(at, name, Mode::from_raw_mode(0o755))?;
    open_directory(at, name)
}

/// Makes a file with these bytes and returns it open for writing.
fn make_file(at: &OwnedFd, name: &[u8], bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(at, name, flags, Mode::from_raw_mode(0o644))?;
    write_at(&file, bytes, 0)?;
    Ok(file)
}

fn write_at(file: &OwnedFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut offset) = (bytes, offset);
    while !rest.is_empty() {
        let written = rustix::io::pwrite(file, rest, offset)?;
        rest = &rest[written..];
        offset += u64::try_from(written).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Sets a mode past the umask. For entries that are no links.
fn set_mode(at: &OwnedFd, name: &[u8], mode: u32) -> io::Result<()> {
    Ok(chmodat(at, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{oracle, scratch::Scratch};

    #[test]
    fn chain_has_its_levels() {
        let scratch = Scratch::new("chain").unwrap();
        let root = scratch.join("chain");
        assert_eq!(chain(&root, 3000, b"0123456789").unwrap(), 3000);
        let mut longest = 0;
        let seen = oracle::visit(&root, &mut |path, record| {
            assert_eq!(record.kind, 'd');
            longest = longest.max(path.len());
        });
        assert_eq!(seen.unwrap(), 3001);
        // Longer than any path that a system call takes.
        assert!(longest > 30_000, "{longest}");
    }

    #[test]
    fn flat_directory_has_its_files() {
        let scratch = Scratch::new("flat").unwrap();
        assert_eq!(flat(scratch.path(), 1000).unwrap(), 1000);
        let found = oracle::list(scratch.path()).unwrap();
        assert_eq!(found.len(), 1001);
        assert_eq!(found.values().filter(|record| record.kind == 'f').count(), 1000);
        assert!(flat(scratch.path(), 1).is_err(), "a name that exists is an error");
    }
}
