//! A file of this rank that is read for others: opened, read in parts, and checked for changes meanwhile. It sends nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use atta_code::record;
use atta_entry::{Errno, Timestamp};

use crate::contents::{State, opened, state_of};

/// What a copy of a file keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes. 0 for files that the kernel makes while they are read.
    pub size: u64,
    /// Units of 512 bytes that it takes.
    pub blocks: u64,
    /// Permission bits, with those of owners: 12 bits.
    pub mode: u32,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of its contents.
    pub modified: Timestamp,
}

record!(Facts { size, blocks, mode, accessed, modified });

/// An open file.
pub trait SourceFile: Send {
    /// What it was when it was opened.
    fn facts(&self) -> Facts;

    /// Reads from an offset: as many bytes as it likes, and none at the end of the file only.
    ///
    /// # Errors
    /// Any error of the system.
    fn read_at(&mut self, bytes: &mut [u8], at: u64) -> Result<usize, Errno>;

    /// Whether it is as it was when it was opened.
    ///
    /// # Errors
    /// Any error of the system.
    fn is_unchanged(&self) -> Result<bool, Errno>;
}

/// How files are opened. A trait, so that tests count.
pub trait Files {
    /// Opens a file. Symbolic links are followed.
    ///
    /// # Errors
    /// It cannot be opened; EISDIR: it is a directory; EINVAL: it is another special file.
    fn open(&self, path: &[u8]) -> Result<Box<dyn SourceFile>, Errno>;
}

/// Files of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

struct Opened {
    file: File,
    facts: Facts,
    state: State,
}

impl Files for SystemFiles {
    fn open(&self, path: &[u8]) -> Result<Box<dyn SourceFile>, Errno> {
        let file = opened(path)?;
        let state = state_of(&file)?;
        let found = atta_sys::stat_descriptor(&file)?;
        let facts = Facts {
            size: state.size,
            blocks: found.blocks,
            mode: found.mode & 0o7777,
            accessed: found.atime,
            modified: found.mtime,
        };
        Ok(Box::new(Opened { file, facts, state }))
    }
}

impl SourceFile for Opened {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn read_at(&mut self, bytes: &mut [u8], at: u64) -> Result<usize, Errno> {
        loop {
            match self.file.read_at(bytes, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0))),
            }
        }
    }

    fn is_unchanged(&self) -> Result<bool, Errno> {
        Ok(state_of(&self.file)? == self.state)
    }
}
