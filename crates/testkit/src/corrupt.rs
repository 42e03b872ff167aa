//! Changes bytes in the files of a tree as a broken disk or memory would: sizes and times stay the same, and only the caller gets the list
//! of changes. A seed determines the changes. Times of change (`ctime`) cannot be set back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps, fstat, futimens, openat};
use rustix::io::{pread, pwrite};

use crate::oracle;
use crate::random::Random;
use crate::slow::glob;

/// The files to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// This many files, chosen by the seed.
    Some(u64),
    /// All matching files: by name, or by path below the root if the pattern contains a slash.
    Matching(String),
}

/// The change to each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Flips this many bits, each at a different position.
    Bits(u64),
    /// Changes every byte of an aligned block of this size, or of the part within the file.
    Block(u64),
}

/// A change in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path below the root.
    pub path: Vec<u8>,
    /// The first changed byte.
    pub offset: u64,
    /// Number of changed bytes.
    pub bytes: u64,
    /// The flipped bit of a single byte. None: whole bytes changed.
    pub bit: Option<u8>,
}

/// `a/b: bit 3 of byte 1234`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, bytes, bit } = self;
        match bit {
            Some(bit) => write!(f, "{}: bit {bit} of byte {offset}", path.escape_ascii()),
            None => write!(f, "{}: {bytes} bytes from byte {offset}", path.escape_ascii()),
        }
    }
}

/// Changes files below `root`, and returns the changes. Empty files are ignored. A file with several names counts once.
///
/// # Errors
/// Fails if the tree cannot be listed or a file cannot be written. `InvalidInput` if there are too few files or bits.
pub fn corrupt(root: &Path, seed: u64, files: &Files, damage: Damage) -> io::Result<Vec<Change>> {
    let mut random = Random::new(seed);
    let mut changes = Vec::new();
    for path in choose(root, &mut random, files)? {
        changes.extend(change(root, &path, &mut random, damage)?);
    }
    Ok(changes)
}

fn choose(root: &Path, random: &mut Random, files: &Files) -> io::Result<Vec<Vec<u8>>> {
    let start = root.as_os_str().len();
    // The first name of each file, in the order of names.
    let mut firsts = BTreeMap::new();
    for (path, record) in oracle::list(root)? {
        if record.kind == 'f' && record.size > 0 {
            let below = path[start..].strip_prefix(b"/").unwrap_or(&path[start..]).to_vec();
            firsts.entry(record.ino).or_insert(below);
        }
    }
    let mut paths: Vec<_> = firsts.into_values().collect();
    paths.sort();
    match files {
        Files::Matching(pattern) => paths.retain(|path| glob::matches_path(pattern.as_bytes(), path)),
        Files::Some(count) => {
            if *count > paths.len() as u64 {
                return Err(too_few(&format!("{count} files wanted, there are {}", paths.len())));
            }
            while paths.len() as u64 > *count {
                paths.remove(random.index(paths.len()));
            }
        }
    }
    if paths.is_empty() { Err(too_few("no file with bytes in it matches")) } else { Ok(paths) }
}

fn too_few(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn change(root: &Path, path: &[u8], random: &mut Random, damage: Damage) -> io::Result<Vec<Change>> {
    let whole =
        if path.is_empty() { root.to_path_buf() } else { root.join(std::ffi::OsStr::from_bytes(path)) };
    let file = openat(CWD, &whole, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let changed = |offset, bytes, bit| Change { path: path.to_vec(), offset, bytes, bit };
    let mut changes = Vec::new();
    match damage {
        Damage::Bits(count) => {
            if count > size.saturating_mul(8) {
                return Err(too_few(&format!("{count} bits wanted of {size} bytes")));
            }
            let mut bits = BTreeSet::new();
            while (bits.len() as u64) < count {
                bits.insert(random.below(size * 8));
            }
            for at in bits {
                let (offset, bit) = (at / 8, (at % 8) as u8);
                flip(&file, offset, &[1 << bit])?;
                changes.push(changed(offset, 1, Some(bit)));
            }
        }
        Damage::Block(bytes) => {
            let bytes = bytes.max(1);
            let offset = random.below(size.div_ceil(bytes)) * bytes;
            let length = bytes.min(size - offset);
            let mask: Vec<u8> = (0..length).map(|_| (random.below(255) + 1) as u8).collect();
            flip(&file, offset, &mask)?;
            changes.push(changed(offset, length, None));
        }
    }
    let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    futimens(&file, &times)?;
    Ok(changes)
}

/// Flips the bits of a mask.
fn flip(file: &rustix::fd::OwnedFd, offset: u64, mask: &[u8]) -> io::Result<()> {
    let mut bytes = vec![0; mask.len()];
    if pread(file, &mut bytes[..], offset)? < mask.len() {
        return Err(io::Error::other("the file is shorter than it was"));
    }
    bytes.iter_mut().zip(mask).for_each(|(byte, bits)| *byte ^= bits);
    if pwrite(file, &bytes, offset)? < mask.len() {
        return Err(io::Error::other("not all was written"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const NAMES: [&str; 4] = ["a", "b.dat", "c", "d.dat"];

    fn tree() -> Scratch {
        let scratch = Scratch::new("corrupt").unwrap();
        for name in NAMES {
            std::fs::write(scratch.join(name), [0; 1000]).unwrap();
        }
        std::fs::write(scratch.join("empty"), "").unwrap();
        std::fs::hard_link(scratch.join("a"), scratch.join("z")).unwrap();
        scratch
    }

    /// Number of set bits, and the unchanged data: size and times.
    fn look(scratch: &Scratch, name: &str) -> (u32, usize, rustix::fs::Stat) {
        let stat = rustix::fs::stat(scratch.join(name)).unwrap();
        let bytes = std::fs::read(scratch.join(name)).unwrap();
        (bytes.iter().map(|byte| byte.count_ones()).sum(), bytes.len(), stat)
    }

    #[test]
    fn chosen_bits_are_turned_and_nothing_else_shows() {
        let scratch = tree();
        let before = NAMES.map(|name| look(&scratch, name).2);
        let changes = corrupt(scratch.path(), 3, &Files::Some(2), Damage::Bits(5)).unwrap();
        assert_eq!(changes.len(), 10);
        let changed: BTreeSet<_> = changes.iter().map(|change| change.path.clone()).collect();
        for (name, before) in NAMES.into_iter().zip(before) {
            let (bits, length, after) = look(&scratch, name);
            assert_eq!(
                (bits, length),
                (if changed.contains(name.as_bytes()) { 5 } else { 0 }, 1000),
                "{name}"
            );
            assert_eq!((after.st_mtime, after.st_mtime_nsec), (before.st_mtime, before.st_mtime_nsec));
        }
        for change in &changes {
            let bytes =
                std::fs::read(scratch.path().join(std::ffi::OsStr::from_bytes(&change.path))).unwrap();
            assert_ne!(bytes[change.offset as usize] & 1 << change.bit.unwrap(), 0, "{change}");
        }
        // A second run restores the files.
        assert_eq!(corrupt(scratch.path(), 3, &Files::Some(2), Damage::Bits(5)).unwrap(), changes);
        assert!(NAMES.iter().all(|name| look(&scratch, name).0 == 0));
        assert_ne!(corrupt(scratch.path(), 4, &Files::Some(2), Damage::Bits(5)).unwrap(), changes);
    }

    #[test]
    fn matching_blocks_are_rewritten_in_every_byte() {
        let scratch = tree();
        let changes =
            corrupt(scratch.path(), 1, &Files::Matching("*.dat".into()), Damage::Block(300)).unwrap();
        let paths: Vec<_> = changes.iter().map(|change| change.path.as_slice()).collect();
        assert_eq!(paths, [b"b.dat", b"d.dat"]);
        for Change { path, offset, bytes, .. } in &changes {
            let content = std::fs::read(scratch.path().join(std::ffi::OsStr::from_bytes(path))).unwrap();
            let (start, end) = (*offset as usize, (offset + bytes) as usize);
            assert!(start % 300 == 0 && end - start <= 300 && content.len() == 1000);
            assert!(content[start..end].iter().all(|byte| *byte != 0));
            assert!(content[..start].iter().chain(&content[end..]).all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let scratch = tree();
        let refused = |files, damage| corrupt(scratch.path(), 1, &files, damage).unwrap_err().kind();
        for (files, damage) in [
            (Files::Some(5), Damage::Bits(1)),
            (Files::Some(1), Damage::Bits(8001)),
            (Files::Matching("none".into()), Damage::Bits(1)),
        ] {
            assert_eq!(refused(files, damage), io::ErrorKind::InvalidInput);
        }
    }
}
