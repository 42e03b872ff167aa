//! Metadata of simulated files: mode, owner, times, extended attributes.

use atta_entry::Errno;

use super::files::{Files, Kind, Node, Time};
use crate::{Op, Outcome, Place};

/// The maximum size of an attribute's name, and of its value.
const ATTRIBUTE_MOST: [usize; 2] = [255, 1 << 16];
/// The size of a block in `stat`.
const BLOCK: u64 = 512;

impl Files {
    pub(super) fn carry_attribute(&mut self, op: &mut Op) -> Outcome {
        match op {
            Op::Stat { place, flags, mask, out } => {
                let known = libc::AT_SYMLINK_NOFOLLOW
                    | libc::AT_EMPTY_PATH
                    | libc::AT_NO_AUTOMOUNT
                    | libc::AT_STATX_SYNC_TYPE;
                if *flags & !known != 0 || *mask & (1 << 31) != 0 {
                    return Err(Errno::INVAL);
                }
                let node = self.at(place, *flags)?;
                self.stat(node, out)
            }
            Op::StatFs { place, out } => {
                self.at(place, 0)?;
                (out.f_bsize, out.f_namelen) = (4096, 255);
                out.f_blocks = self.room / 4096;
                out.f_bfree = (self.room - self.used) / 4096;
                out.f_bavail = out.f_bfree;
                Ok(0)
            }
            Op::SetMode { place, mode } => {
                let mode = *mode & 0o7777;
                self.change(place, 0, |node| node.mode = mode)
            }
            Op::SetOwner { place, owner, group, flags } => self.change(place, *flags, |node| {
                node.owner = if *owner == u32::MAX { node.owner } else { *owner };
                node.group = if *group == u32::MAX { node.group } else { *group };
            }),
            Op::SetTimes { place, times, flags } => {
                let now = self.time();
                let [accessed, modified] = [time_to_set(times[0], now)?, time_to_set(times[1], now)?];
                self.change(place, *flags, |node| {
                    node.accessed = accessed.unwrap_or(node.accessed);
                    node.modified = modified.unwrap_or(node.modified);
                })
            }
            Op::Access { place, mode, flags } => self.access(place, *mode, *flags),
            _ => self.carry_extended(op),
        }
    }

    /// The node of a place, for the use of its attributes: a descriptor opened with `O_PATH` is refused.
    fn usable(&self, place: &Place, flags: i32) -> Result<u64, Errno> {
        if place.is_file() {
            return Ok(self.descriptor(&place.dir)?.node);
        }
        self.at(place, flags)
    }

    fn change(&mut self, place: &Place, flags: i32, f: impl FnOnce(&mut Node)) -> Outcome {
        let (node, time) = (self.usable(place, flags)?, self.time());
        let node = self.node_mut(node)?;
        f(node);
        node.changed = time;
        Ok(0)
    }

    fn access(&self, place: &Place, mode: i32, flags: i32) -> Outcome {
        if mode & !7 != 0 {
            return Err(Errno::INVAL);
        }
        let node = self.node(self.at(place, flags)?)?;
        let runs = node.mode & 0o111 != 0 || !matches!(node.kind, Kind::File(_));
        if mode & libc::X_OK != 0 && !runs { Err(Errno::ACCES) } else { Ok(0) }
    }

    fn stat(&self, number: u64, out: &mut libc::statx) -> Outcome {
        let kept = self.kept(number)?;
        let node = &kept.now;
        let (kind, bytes) = match &node.kind {
            Kind::File(data) => (libc::S_IFREG, data.len()),
            Kind::Directory { names, .. } => (libc::S_IFDIR, names.len()),
            Kind::Link(target) => (libc::S_IFLNK, target.len()),
        };
        out.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
        out.stx_blksize = 4096;
        out.stx_nlink = self.links(number)?;
        (out.stx_uid, out.stx_gid) = (node.owner, node.group);
        out.stx_mode = (kind | node.mode) as u16;
        out.stx_ino = number;
        out.stx_size = bytes as u64;
        out.stx_blocks = (bytes as u64).div_ceil(BLOCK);
        (out.stx_dev_major, out.stx_dev_minor) = (0, node.device);
        for (place, time) in [
            (&mut out.stx_atime, node.accessed),
            (&mut out.stx_mtime, node.modified),
            (&mut out.stx_ctime, node.changed),
            (&mut out.stx_btime, node.created),
        ] {
            (place.tv_sec, place.tv_nsec) = time;
        }
        Ok(0)
    }

    /// The number of links: a directory has one from its parent, its own, and one from each subdirectory.
    fn links(&self, number: u64) -> Result<u32, Errno> {
        let kept = self.kept(number)?;
        match &kept.now.kind {
            Kind::Directory { .. } if kept.links == 0 => Ok(0),
            Kind::Directory { names, .. } => {
                Ok(2 + names.values().filter(|entry| self.is_directory(entry.node)).count() as u32)
            }
            _ => Ok(kept.links),
        }
    }

    fn carry_extended(&mut self, op: &mut Op) -> Outcome {
        match op {
            Op::GetAttribute { place, name, buffer, flags } => {
                let node = self.node(self.usable(place, *flags)?)?;
                check(name.as_bytes())?;
                let value = node.attributes.get(name.as_bytes()).ok_or(Errno(libc::ENODATA))?;
                give(value, buffer.as_mut_slice())
            }
            Op::SetAttribute { place, name, value, create, flags } => {
                let number = self.usable(place, *flags)?;
                check(name.as_bytes())?;
                if value.len() > ATTRIBUTE_MOST[1] {
                    return Err(Errno(libc::E2BIG));
                }
                self.may_set(number, name.as_bytes())?;
                let node = self.node_mut(number)?;
                let (name, is_there) = (name.as_bytes(), node.attributes.contains_key(name.as_bytes()));
                match *create {
                    0 => {}
                    libc::XATTR_CREATE if is_there => return Err(Errno(libc::EEXIST)),
                    libc::XATTR_REPLACE if !is_there => return Err(Errno(libc::ENODATA)),
                    libc::XATTR_CREATE | libc::XATTR_REPLACE => {}
                    _ => return Err(Errno::INVAL),
                }
                node.attributes.insert(name.to_vec(), value.as_slice().to_vec());
                self.touch(number)
            }
            Op::ListAttributes { place, buffer, flags } => {
                let node = self.node(self.usable(place, *flags)?)?;
                let names: Vec<u8> =
                    node.attributes.keys().flat_map(|name| name.iter().chain(&[0])).copied().collect();
                give(&names, buffer.as_mut_slice())
            }
            Op::RemoveAttribute { place, name, flags } => {
                let number = self.usable(place, *flags)?;
                check(name.as_bytes())?;
                self.may_set(number, name.as_bytes())?;
                let removed = self.node_mut(number)?.attributes.remove(name.as_bytes());
                removed.ok_or(Errno(libc::ENODATA))?;
                self.touch(number)
            }
            _ => Err(Errno(libc::ENOSYS)),
        }
    }

    /// User attributes exist only for files and directories.
    fn may_set(&self, node: u64, name: &[u8]) -> Result<(), Errno> {
        let is_link = matches!(self.node(node)?.kind, Kind::Link(_));
        if is_link && name.starts_with(b"user.") { Err(Errno(libc::EPERM)) } else { Ok(()) }
    }

    fn touch(&mut self, node: u64) -> Outcome {
        let time = self.time();
        self.node_mut(node)?.changed = time;
        Ok(0)
    }
}

/// Checks the name of an attribute.
fn check(name: &[u8]) -> Result<(), Errno> {
    let spaces = [&b"user."[..], b"trusted.", b"security."];
    if name.is_empty() || name.len() > ATTRIBUTE_MOST[0] {
        return Err(Errno(libc::ERANGE));
    }
    match spaces.iter().find(|space| name.starts_with(space)) {
        None => Err(Errno(libc::EOPNOTSUPP)),
        Some(space) if space.len() == name.len() => Err(Errno::INVAL),
        Some(_) => Ok(()),
    }
}

/// Copies a value to a buffer; an empty buffer asks for the size.
fn give(value: &[u8], buffer: &mut [u8]) -> Outcome {
    if !buffer.is_empty() {
        buffer.get_mut(..value.len()).ok_or(Errno(libc::ERANGE))?.copy_from_slice(value);
    }
    Ok(value.len() as u64)
}

/// A time to set; `None`: unchanged.
fn time_to_set(time: libc::timespec, now: Time) -> Result<Option<Time>, Errno> {
    match time.tv_nsec {
        libc::UTIME_OMIT => Ok(None),
        libc::UTIME_NOW => Ok(Some(now)),
        nanoseconds @ 0..=999_999_999 => Ok(Some((time.tv_sec, nanoseconds as u32))),
        _ => Err(Errno::INVAL),
    }
}
