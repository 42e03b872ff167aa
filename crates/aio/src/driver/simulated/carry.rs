//! Carries out operations on a simulated file system: selects the function of the modules beside this one. Opening is here,
//! since it uses several of them.

use atta_entry::Errno;

use super::files::{Files, Kind};
use crate::{Op, Outcome, Place};

impl Files {
    /// Carries out an operation; it moves at most `most` bytes.
    pub(super) fn carry(&mut self, op: &mut Op, most: usize) -> Outcome {
        match op {
            Op::Nop => Ok(0),
            Op::Open { place, flags, mode } => self.open_place(place, *flags, *mode),
            Op::Close { fd } => self.close(*fd),
            Op::Read { .. }
            | Op::Write { .. }
            | Op::ReadVectors { .. }
            | Op::WriteVectors { .. }
            | Op::Seek { .. }
            | Op::SyncRange { .. }
            | Op::Allocate { .. }
            | Op::Truncate { .. }
            | Op::Advise { .. }
            | Op::CopyRange { .. } => self.carry_data(op, most),
            Op::Sync { fd, what } => {
                let node = self.descriptor(fd)?.node;
                self.sync(node, *what)
            }
            Op::Rename { from, to, flags } => self.rename(from, to, *flags),
            Op::Unlink { place, flags } => self.unlink(place, *flags),
            Op::MakeDirectory { place, mode } => self.make_directory(place, *mode),
            Op::Symlink { target, place } => self.symlink(target.as_bytes(), place),
            Op::Link { from, to, flags } => self.link(from, to, *flags),
            Op::ReadLink { place, buffer } => self.read_link(place, buffer.as_mut_slice()),
            Op::ReadDirectory { fd, buffer } => self.read_directory(fd, buffer.as_mut_slice()),
            _ => self.carry_attribute(op),
        }
    }

    fn open_place(&mut self, place: &Place, flags: i32, mode: u32) -> Outcome {
        let has = |flag| flags & flag == flag;
        if has(libc::O_TMPFILE) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if has(libc::O_CREAT) && has(libc::O_DIRECTORY) {
            return Err(Errno::INVAL);
        }
        let is_new = has(libc::O_CREAT) && has(libc::O_EXCL);
        let found = self.find(place, !is_new && !has(libc::O_NOFOLLOW))?;
        let Some(node) = found.node else {
            if !has(libc::O_CREAT) {
                return Err(Errno::NOENT);
            }
            if found.is_directory_meant {
                return Err(Errno(libc::EISDIR));
            }
            let device = self.node(found.directory)?.device;
            let node = self.add(Kind::File(Vec::new()), mode, device);
            if let Err(errno) = self.add_name(found.directory, &found.name, node) {
                self.forget(node);
                return Err(errno);
            }
            return self.open(node, flags);
        };
        if is_new {
            return Err(Errno(libc::EEXIST));
        }
        self.open_node(node, flags)
    }

    fn open_node(&mut self, node: u64, flags: i32) -> Outcome {
        let has = |flag| flags & flag == flag;
        let wants_writing = flags & libc::O_ACCMODE != libc::O_RDONLY || has(libc::O_TRUNC);
        match &self.node(node)?.kind {
            Kind::Link(_) if !has(libc::O_PATH) => {
                return Err(if has(libc::O_DIRECTORY) { Errno::NOTDIR } else { Errno::LOOP });
            }
            Kind::Directory { .. } if has(libc::O_PATH) => {}
            Kind::Directory { .. } if wants_writing || has(libc::O_CREAT) => {
                return Err(Errno(libc::EISDIR));
            }
            Kind::Directory { .. } => {}
            _ if has(libc::O_DIRECTORY) => return Err(Errno::NOTDIR),
            _ => {}
        }
        let fd = self.open(node, flags)?;
        if has(libc::O_TRUNC) && !has(libc::O_PATH) {
            self.resize(node, 0)?;
        }
        Ok(fd)
    }
}
