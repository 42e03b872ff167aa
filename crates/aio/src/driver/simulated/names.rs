//! Names of simulated files: creates, moves, removes and lists them. Other modules handle their nodes.

use atta_entry::Errno;

use super::files::{Files, Kind, ROOT, directory};
use super::paths::Found;
use crate::{Fd, Outcome, Place};

/// The size of an entry before its name, in `linux_dirent64`.
const ENTRY_HEAD: usize = 19;

impl Files {
    /// The place of a new name.
    fn find_free(&self, place: &Place) -> Result<Found, Errno> {
        let found = self.find(place, false)?;
        if found.node.is_some() || !found.has_name() {
            return Err(Errno(libc::EEXIST));
        }
        Ok(found)
    }

    fn add_named(&mut self, found: &Found, kind: Kind, mode: u32) -> Outcome {
        let device = self.node(found.directory)?.device;
        let node = self.add(kind, mode, device);
        let added = self.add_name(found.directory, &found.name, node);
        if added.is_err() {
            self.forget(node);
        }
        added.map(|()| 0)
    }

    pub(super) fn make_directory(&mut self, place: &Place, mode: u32) -> Outcome {
        let found = self.find_free(place)?;
        self.add_named(&found, directory(found.directory), mode & 0o1777)
    }

    pub(super) fn symlink(&mut self, target: &[u8], place: &Place) -> Outcome {
        if target.is_empty() {
            return Err(Errno::NOENT);
        }
        let found = self.find_free(place)?;
        if found.is_directory_meant {
            return Err(Errno::NOENT);
        }
        self.add_named(&found, Kind::Link(target.to_vec()), 0o777)
    }

    pub(super) fn link(&mut self, from: &Place, to: &Place, flags: i32) -> Outcome {
        let known = libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH;
        if flags & !known != 0 {
            return Err(Errno::INVAL);
        }
        let no_follow = if flags & libc::AT_SYMLINK_FOLLOW == 0 { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
        let node = self.at(from, no_follow)?;
        let found = self.find_free(to)?;
        if found.is_directory_meant || self.kept(node)?.links == 0 {
            return Err(Errno::NOENT);
        }
        if self.node(node)?.device != self.node(found.directory)?.device {
            return Err(Errno::XDEV);
        }
        if self.is_directory(node) {
            return Err(Errno(libc::EPERM));
        }
        self.add_name(found.directory, &found.name, node).map(|()| 0)
    }

    /// Whether a node is the root of a file system.
    fn is_mount(&self, directory: u64, node: u64) -> Result<bool, Errno> {
        Ok(node == ROOT || self.node(directory)?.device != self.node(node)?.device)
    }

    pub(super) fn unlink(&mut self, place: &Place, flags: i32) -> Outcome {
        if flags & !libc::AT_REMOVEDIR != 0 {
            return Err(Errno::INVAL);
        }
        let removes_directory = flags != 0;
        let found = self.find(place, false)?;
        match &found.name[..] {
            b"" if removes_directory => return Err(Errno(libc::EBUSY)),
            b"." if removes_directory => return Err(Errno::INVAL),
            b".." if removes_directory => return Err(Errno(libc::ENOTEMPTY)),
            _ => {}
        }
        let node = found.node.ok_or(Errno::NOENT)?;
        match (removes_directory, self.is_directory(node)) {
            (false, true) => return Err(Errno(libc::EISDIR)),
            (true, false) => return Err(Errno::NOTDIR),
            (true, true) if self.is_mount(found.directory, node)? => return Err(Errno(libc::EBUSY)),
            (true, true) if !self.names(node)?.is_empty() => return Err(Errno(libc::ENOTEMPTY)),
            _ => {}
        }
        let node = self.remove_name(found.directory, &found.name)?;
        self.forget(node);
        Ok(0)
    }

    pub(super) fn rename(&mut self, from: &Place, to: &Place, flags: u32) -> Outcome {
        let (no_replace, exchange) =
            (flags & libc::RENAME_NOREPLACE != 0, flags & libc::RENAME_EXCHANGE != 0);
        if flags & !(libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE) != 0 || no_replace && exchange {
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.find(from, false)?, self.find(to, false)?);
        if self.node(from.directory)?.device != self.node(to.directory)?.device {
            return Err(Errno::XDEV);
        }
        if !from.has_name() || !to.has_name() {
            return Err(Errno(libc::EBUSY));
        }
        let node = from.node.ok_or(Errno::NOENT)?;
        match to.node {
            Some(_) if no_replace => return Err(Errno(libc::EEXIST)),
            None if exchange => return Err(Errno::NOENT),
            _ => {}
        }
        let is_directory = self.is_directory(node);
        if !is_directory && to.is_directory_meant && !exchange {
            return Err(Errno::NOTDIR);
        }
        if is_directory && self.is_within(to.directory, node)? {
            return Err(Errno::INVAL);
        }
        if let Some(other) = to.node {
            if self.is_directory(other) && self.is_within(from.directory, other)? {
                return Err(if exchange { Errno::INVAL } else { Errno(libc::ENOTEMPTY) });
            }
            if node == other {
                return Ok(0);
            }
            if self.is_mount(from.directory, node)? || self.is_mount(to.directory, other)? {
                return Err(Errno(libc::EBUSY));
            }
            if exchange {
                return self.exchange(&from, &to);
            }
            self.may_replace(is_directory, other)?;
            self.remove_name(to.directory, &to.name)?;
            self.forget(other);
        } else if self.is_mount(from.directory, node)? {
            return Err(Errno(libc::EBUSY));
        }
        // Add the new name first: it may be refused.
        self.add_name(to.directory, &to.name, node)?;
        self.remove_name(from.directory, &from.name)?;
        Ok(0)
    }

    fn may_replace(&self, is_directory: bool, other: u64) -> Result<(), Errno> {
        match (is_directory, self.names(other)) {
            (true, Err(_)) => Err(Errno::NOTDIR),
            (false, Ok(_)) => Err(Errno(libc::EISDIR)),
            (true, Ok(names)) if !names.is_empty() => Err(Errno(libc::ENOTEMPTY)),
            _ => Ok(()),
        }
    }

    fn exchange(&mut self, from: &Found, to: &Found) -> Outcome {
        let here = self.remove_name(from.directory, &from.name)?;
        let there = self.remove_name(to.directory, &to.name)?;
        self.add_name(from.directory, &from.name, there)?;
        self.add_name(to.directory, &to.name, here)?;
        Ok(0)
    }

    pub(super) fn read_link(&mut self, place: &Place, buffer: &mut [u8]) -> Outcome {
        if buffer.is_empty() {
            return Err(Errno::INVAL);
        }
        let node = self.at(place, libc::AT_SYMLINK_NOFOLLOW)?;
        let Kind::Link(target) = &self.node(node)?.kind else {
            return Err(if place.is_file() { Errno::NOENT } else { Errno::INVAL });
        };
        let bytes = target.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&target[..bytes]);
        Ok(bytes as u64)
    }

    /// `getdents64`: entries of `linux_dirent64`, each padded to a multiple of eight bytes.
    pub(super) fn read_directory(&mut self, fd: &Fd, buffer: &mut [u8]) -> Outcome {
        let open = self.descriptor(fd)?;
        let (node, position) = (open.node, open.position);
        let names = self.names(node)?;
        if self.kept(node)?.links == 0 {
            return Err(Errno::NOENT);
        }
        let parent = self.parent(node)?;
        let dots = [(0, &b"."[..], node), (1, &b".."[..], parent)];
        let named = names.iter().map(|(name, entry)| (entry.place, &name[..], entry.node));
        let mut entries: Vec<_> = dots.into_iter().chain(named).filter(|(at, ..)| *at >= position).collect();
        entries.sort_unstable();
        let (mut bytes, mut next) = (0, position);
        for &(at, name, node) in &entries {
            let length = (ENTRY_HEAD + name.len() + 1).next_multiple_of(8);
            let Some(room) = buffer.get_mut(bytes..bytes + length) else {
                if bytes == 0 {
                    return Err(Errno::INVAL);
                }
                break;
            };
            room.fill(0);
            room[..8].copy_from_slice(&node.to_ne_bytes());
            room[8..16].copy_from_slice(&(at + 1).to_ne_bytes());
            room[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
            room[18] = match self.node(node)?.kind {
                Kind::File(_) => libc::DT_REG,
                Kind::Directory { .. } => libc::DT_DIR,
                Kind::Link(_) => libc::DT_LNK,
            };
            room[ENTRY_HEAD..ENTRY_HEAD + name.len()].copy_from_slice(name);
            (bytes, next) = (bytes + length, at + 1);
        }
        self.set_position(fd, next);
        Ok(bytes as u64)
    }
}
