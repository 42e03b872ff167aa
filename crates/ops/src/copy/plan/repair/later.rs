//! Names of files with several names that a repair makes after all other entries: see `repair.rs`. They are kept by file, in bounded memory and
//! then in a file without a name. Nothing is linked here.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atta_entry::Code as _;

use crate::file::source::Identity;
use crate::sorted::{Sorter, key_of_file};
use crate::tree::location::below;
use crate::tree::start::{Differs, Seed, Start};

/// Bytes of a file in the maps of a search.
const IN_MAPS: usize = 256;

/// A name of SOURCE that was put off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PutOff {
    /// Its file.
    pub(crate) file: Identity,
    /// The number of names that the file has.
    pub(crate) names: u64,
    /// The file in TARGET that it is to replace.
    pub(crate) replaced: Option<Identity>,
    pub(crate) root: Vec<u8>,
    pub(crate) path: Vec<u8>,
}

atta_entry::record!(PutOff { file, names, replaced, root, path });

impl PutOff {
    /// The memory that it takes while its partners are searched for: it is there twice, and its file may be in a map and two sets.
    fn bytes(&self) -> u64 {
        (2 * (size_of::<Self>() + self.path.len()) + self.root.len() + IN_MAPS) as u64
    }
}

impl From<PutOff> for Seed {
    /// The name as a list has it. Its bytes are compared if it has lost its other names by then.
    fn from(PutOff { root, path, .. }: PutOff) -> Self {
        let below = (path != root).then(|| below(&path, root.len()).to_vec());
        let differs = Differs { is_missing: false, content: true, links: true };
        Self { start: Start { root, below }, differs: Some(differs) }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Later {
    names: Mutex<Names>,
    /// Names are put off. Otherwise they are made at once.
    is_open: AtomicBool,
    has_some: AtomicBool,
}

#[derive(Debug)]
struct Names {
    sorter: Sorter,
    /// The key of the last name that was taken.
    last: Option<Vec<u8>>,
}

impl Later {
    /// Keeps this many bytes in memory, and makes its file in `directory`.
    pub(crate) fn new(memory: u64, directory: &Path) -> Self {
        let names = Names { sorter: Sorter::new(memory, directory), last: None };
        Self { names: Mutex::new(names), is_open: AtomicBool::new(true), has_some: AtomicBool::new(false) }
    }

    /// Whether names are put off.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Whether there is a name to take.
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Puts a name off.
    ///
    /// # Errors
    /// The name does not fit in memory, and the file cannot be written.
    pub(crate) fn push(&self, name: &PutOff) -> io::Result<()> {
        let key = [&key_of_file(name.file)[..], &name.path].concat();
        self.lock().sorter.push(&key, &name.encoded())?;
        self.has_some.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes names of some files, each with all of its names: as many as fit into this many bytes, but at least those of one file. No name is put
    /// off from now on.
    ///
    /// # Errors
    /// The names cannot be read back. No name is left then.
    pub(crate) fn take(&self, most: u64) -> io::Result<Vec<PutOff>> {
        self.is_open.store(false, Ordering::Release);
        self.has_some.store(false, Ordering::Release);
        let mut names = self.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let Names { sorter, last } = &mut *names;
        for record in sorter.sorted()? {
            let (key, value) = record?;
            if last.as_ref().is_some_and(|last| key <= *last) {
                continue;
            }
            let name = PutOff::decode_all(&value).ok_or(io::ErrorKind::InvalidData)?;
            let is_other = taken.last().is_some_and(|last: &PutOff| last.file != name.file);
            if is_other && bytes >= most {
                self.has_some.store(true, Ordering::Release);
                return Ok(taken);
            }
            bytes += name.bytes();
            taken.push(name);
            *last = Some(key);
        }
        Ok(taken)
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(inode: u64, path: &str) -> PutOff {
        let path = path.as_bytes().to_vec();
        PutOff { file: (1, inode), names: 2, replaced: None, root: b"r".to_vec(), path }
    }

    #[test]
    fn files_are_taken_with_all_their_names() {
        let later = Later::new(1, &std::env::temp_dir());
        assert!(later.is_open() && !later.has_some());
        for (inode, path) in [(2, "r/b"), (1, "r/a"), (256, "r/e"), (2, "r/d"), (1, "r/c"), (2, "r/a2")] {
            later.push(&name(inode, path)).unwrap();
        }
        assert!(later.has_some());
        assert_eq!(later.take(1).unwrap(), [name(1, "r/a"), name(1, "r/c")]);
        assert!(!later.is_open() && later.has_some());
        assert_eq!(later.take(1).unwrap(), [name(2, "r/a2"), name(2, "r/b"), name(2, "r/d")]);
        assert_eq!(later.take(u64::MAX).unwrap(), [name(256, "r/e")]);
        assert!(!later.has_some());
        assert_eq!(later.take(1).unwrap(), []);
    }

    #[test]
    fn name_is_listed_below_its_root() {
        let seed = Seed::from(name(1, "r/a/b"));
        assert_eq!(seed.start, Start { root: b"r".to_vec(), below: Some(b"a/b".to_vec()) });
        assert!(seed.differs.is_some_and(|differs| differs.links && !differs.is_missing));
        assert_eq!(Seed::from(name(1, "r")).start, Start::new("r"));
    }
}
