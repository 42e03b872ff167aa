//! Resolves a path to a node of a simulated file system, as in `path_resolution(7)`. It changes nothing.

use atta_entry::Errno;

use super::files::{Files, Kind, Name, ROOT};
use crate::{Fd, Place};

/// The maximum number of symlinks in a path.
const LINKS_MOST: usize = 40;
/// The maximum size of a path, with its NUL.
const PATH_MOST: usize = 4096;
/// The maximum size of a name.
const NAME_MOST: usize = 255;

/// The result of a path resolution.
#[derive(Debug)]
pub(super) struct Found {
    /// The directory that has the name, or would have it.
    pub(super) directory: u64,
    /// The last name; empty for the root. It may be `.` or `..`.
    pub(super) name: Name,
    /// The node with this name.
    pub(super) node: Option<u64>,
    /// The path requires a directory.
    pub(super) is_directory_meant: bool,
}

impl Found {
    /// Whether it ends with a name, and not with a root, `.` or `..`.
    pub(super) fn has_name(&self) -> bool {
        !matches!(&self.name[..], b"" | b"." | b"..")
    }
}

impl Files {
    /// The node where a relative path starts.
    fn start(&self, fd: &Fd) -> Result<u64, Errno> {
        if fd.raw() == libc::AT_FDCWD {
            return Ok(ROOT);
        }
        let node = self.any_descriptor(fd)?.node;
        if self.is_directory(node) { Ok(node) } else { Err(Errno::NOTDIR) }
    }

    /// Resolves a path. If the last name is a symlink, `follow` resolves it, too.
    pub(super) fn find(&self, place: &Place, follow: bool) -> Result<Found, Errno> {
        let path = place.path.as_bytes();
        match path {
            [] => return Err(Errno::NOENT),
            _ if path.len() >= PATH_MOST => return Err(Errno(libc::ENAMETOOLONG)),
            _ => {}
        }
        let mut here = if path[0] == b'/' { ROOT } else { self.start(&place.dir)? };
        let mut is_directory_meant = path.ends_with(b"/");
        let mut rest = Vec::new();
        push(&mut rest, path);
        let (mut found, mut links) = ((Name::new(), Some(here)), 0);
        while let Some(name) = rest.pop() {
            let names = self.names(here)?;
            if matches!(&name[..], b"." | b"..") {
                here = if name.len() == 1 { here } else { self.parent(here)? };
                found = (name, Some(here));
                continue;
            }
            if name.len() > NAME_MOST {
                return Err(Errno(libc::ENAMETOOLONG));
            }
            let is_last = rest.is_empty();
            let node = names.get(&name).map(|entry| entry.node);
            let Some(node) = node else {
                if is_last {
                    return Ok(Found { directory: here, name, node, is_directory_meant });
                }
                return Err(Errno::NOENT);
            };
            match &self.node(node)?.kind {
                Kind::Link(target) if !is_last || follow || is_directory_meant => {
                    links += 1;
                    if links > LINKS_MOST {
                        return Err(Errno::LOOP);
                    }
                    is_directory_meant |= is_last && target.ends_with(b"/");
                    here = if target.starts_with(b"/") { ROOT } else { here };
                    push(&mut rest, target);
                    found = (Name::new(), Some(here));
                }
                _ if is_last => {
                    if is_directory_meant && !self.is_directory(node) {
                        return Err(Errno::NOTDIR);
                    }
                    return Ok(Found { directory: here, name, node: Some(node), is_directory_meant });
                }
                _ => here = node,
            }
        }
        let (name, node) = found;
        Ok(Found { directory: here, name, node, is_directory_meant: true })
    }

    /// The node of a place: that of the open file, or that of the path.
    pub(super) fn at(&self, place: &Place, flags: i32) -> Result<u64, Errno> {
        if place.is_file() {
            return match place.dir.raw() {
                libc::AT_FDCWD => Ok(ROOT),
                _ => Ok(self.any_descriptor(&place.dir)?.node),
            };
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        self.find(place, follow)?.node.ok_or(Errno::NOENT)
    }

    pub(super) fn parent(&self, directory: u64) -> Result<u64, Errno> {
        match self.node(directory)?.kind {
            Kind::Directory { parent, .. } => Ok(parent),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Whether a directory is another one, or below it.
    pub(super) fn is_within(&self, mut directory: u64, above: u64) -> Result<bool, Errno> {
        while directory != above {
            if directory == ROOT {
                return Ok(false);
            }
            directory = self.parent(directory)?;
        }
        Ok(true)
    }
}

/// Pushes the names of a path on a stack, the first one on top.
fn push(stack: &mut Vec<Name>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty());
    stack.extend(names.map(<[u8]>::to_vec));
}
