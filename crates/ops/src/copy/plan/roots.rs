//! What SOURCE... and TARGET mean: the target of each root, as for `cp -a SOURCE... TARGET`, and which combinations are refused.
//! Directories are identified by device and inode, never by path.
//!
//! | | TARGET is a directory | there is nothing at TARGET | TARGET is something else |
//! | --- | --- | --- | --- |
//! | one SOURCE | TARGET/NAME | TARGET | TARGET, replaced; not by a directory |
//! | several | TARGET/NAME each | refused | refused |
//! | one SOURCE, `-T` | TARGET, merged into | TARGET | as without |
//!
//! NAME is the last component of SOURCE. `SOURCE/.`, `.` and `/` have no NAME: their entries go to TARGET itself. A trailing slash of
//! SOURCE means what it means to the kernel: a symbolic link is followed. A trailing slash of a TARGET that does not exist asks for a
//! directory: only a directory is copied there.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::{Errno, Kind, Metadata, escape, shell_quote};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FlockOperation;

use crate::copy::target::mirror::{Mirror, Shared, SourceDirectory};
use crate::refused::Refused;
use crate::tree::directory::Directory;
use atta_sys::{self as sys, Features, Place};

/// The directory that a copy with the name TARGET is made in.
#[must_use]
pub fn parent_of(target: &[u8]) -> &[u8] {
    match split(trimmed(target)) {
        (parent, Some(_)) => parent,
        // A path that ends in `.` or `..` is a directory itself.
        (_, None) => target,
    }
}

/// One SOURCE.
#[derive(Debug)]
pub(crate) struct Root {
    /// The directory that gets it.
    pub(crate) parent: Arc<Mirror>,
    /// Its name there; `.` if only its entries are copied.
    pub(crate) name: CString,
    /// Its own copy, if it is a directory.
    pub(crate) mirror: Arc<Mirror>,
}

/// All roots, by their paths as given.
#[derive(Debug)]
pub(crate) struct Roots(HashMap<Vec<u8>, Arc<Root>>);

impl Roots {
    /// The directories that the roots become.
    pub(crate) fn mirrors(&self) -> Vec<Arc<Mirror>> {
        self.0.values().map(|root| Arc::clone(&root.mirror)).collect()
    }

    /// The names of the roots in TOP.
    pub(crate) fn names(&self) -> Vec<CString> {
        self.0.values().map(|root| root.name.clone()).collect()
    }

    /// Whether a directory is the copy of a root, or the parent of one.
    pub(crate) fn has(&self, mirror: &Arc<Mirror>) -> bool {
        let is_it = |other: &Arc<Mirror>| Arc::ptr_eq(mirror, other);
        self.0.values().any(|root| is_it(&root.mirror) || is_it(&root.parent))
    }

    /// The paths of the roots.
    pub(crate) fn paths(&self) -> Vec<Vec<u8>> {
        self.0.keys().cloned().collect()
    }

    /// Gives the directory of a root the state of its copy.
    pub(crate) fn set_state(&self, directory: &Arc<SourceDirectory>) {
        if let Some(root) = self.find(directory.name().to_bytes()) {
            directory.set_state(Arc::clone(&root.mirror));
        }
    }

    /// Finds the root with this path.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Arc<Root>> {
        self.0.get(path)
    }
}

/// TARGET, opened: the directory that is written to, and the name of a single SOURCE there.
pub(crate) struct Destination {
    pub(crate) top: Arc<OwnedFd>,
    pub(crate) path: Vec<u8>,
    features: Features,
    /// TARGET's own name, which one SOURCE gets. `.`: its entries go to TARGET itself. `None`: each SOURCE has its own name.
    name: Option<CString>,
    /// TARGET does not exist and ends in a slash: it is to be a directory.
    wants_directory: bool,
}

impl Destination {
    /// Opens TARGET. `is_name`: TARGET is the name of the copy even if it is a directory (`-T`).
    pub(crate) fn open(path: &[u8], is_name: bool, features: Features) -> Result<Self, Refused> {
        let hint = "TARGET must be a directory, or a new name in one";
        let opened = |path: &[u8]| sys::open_directory_path(path, true).map(Arc::new);
        // A path that ends in a slash, `.` or `..` can only be a directory.
        if !is_name || split(path).1.is_none() {
            let name = is_name.then(|| c".".to_owned());
            match opened(path) {
                Ok(top) => {
                    return Ok(Self { top, path: path.to_vec(), features, name, wants_directory: false });
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(Refused::failed("open TARGET", path, errno, hint)),
            }
        }
        let bare = trimmed(path);
        let wants_directory = bare.len() < path.len();
        if wants_directory && sys::stat_path(bare, true).is_ok() {
            return Err(Refused::failed("open TARGET", path, Errno::NOTDIR, hint));
        }
        let (parent, name) = split(bare);
        let Some(name) = name.and_then(|name| CString::new(name).ok()) else {
            return Err(Refused::failed("open TARGET", path, Errno::NOENT, hint));
        };
        let top = opened(parent).map_err(|errno| {
            let hint = format!("make it first: mkdir -p -- {}", shell_quote(parent));
            Refused::failed("open the directory of TARGET", path, errno, hint)
        })?;
        Ok(Self { top, path: parent.to_vec(), features, name: Some(name), wants_directory })
    }

    /// Whether TARGET is the name of the copy, and not a directory that the copy is put into.
    pub(crate) fn is_name(&self) -> bool {
        self.name.is_some()
    }

    /// Whether the copy is put into TARGET under its own name.
    pub(crate) fn is_into(&self) -> bool {
        self.name.is_none()
    }

    /// Whether another process holds the lock of TARGET's directory, as far as the file system reports. Otherwise this copy takes the
    /// lock and holds it until it ends.
    pub(crate) fn is_taken(&self) -> bool {
        let lock = || rustix::fs::flock(&self.top, FlockOperation::NonBlockingLockExclusive);
        self.name.is_none() && lock() == Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// Finds the target of each SOURCE.
    pub(crate) fn roots(&self, sources: &[Vec<u8>], shared: &Arc<Shared>) -> Result<Roots, Refused> {
        if let Some(name) = self.name.as_ref().filter(|_| sources.len() > 1) {
            let what = "several SOURCEs, and TARGET is not a directory that they are put into".to_owned();
            let path = shell_quote(&[self.path.as_slice(), name.as_bytes()].join(&b'/'));
            let hint = format!("make the directory first: mkdir -- {path}");
            return Err(Refused::usage(what, hint));
        }
        let cannot = |errno| Refused::failed("open TARGET", &self.path, errno, "see the error above");
        let place = sys::place_of(&self.top, self.features).map_err(cannot)?;
        let path = CString::new(self.path.clone()).unwrap_or_default();
        let top = Mirror::new(Directory::root(path, 0, Arc::clone(&self.top), place), shared);
        let mut roots = HashMap::new();
        for source in sources {
            let root = self.root(source, &top)?;
            let same = roots.values().any(|other: &Arc<Root>| other.name == root.name);
            if same {
                let what = format!("two SOURCEs would become {}", escape(root.name.as_bytes()));
                return Err(Refused::usage(what, "copy them to directories of their own"));
            }
            roots.insert(source.clone(), Arc::new(root));
        }
        refuse_meeting(&roots)?;
        Ok(Roots(roots))
    }

    fn root(&self, source: &[u8], top: &Arc<Mirror>) -> Result<Root, Refused> {
        let follow = source.ends_with(b"/");
        let found = sys::stat_path(source, follow).map_err(|errno| {
            Refused::failed("stat SOURCE", source, errno, "every SOURCE must be there; nothing was copied")
        })?;
        let own = split(trimmed(source)).1.and_then(|name| CString::new(name).ok());
        let name = match (&self.name, own) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) => name,
            (None, None) => c".".to_owned(),
        };
        if self.wants_directory && found.kind() != Kind::Directory {
            let path = [self.path.as_slice(), name.as_bytes(), b""].join(&b'/');
            let hint = "SOURCE is not a directory: leave out the slash at the end of TARGET, or make the directory first";
            return Err(Refused::failed("make TARGET", &path, Errno::NOTDIR, hint));
        }
        self.refuse(source, &found, &name)?;
        let mirror = if name.as_c_str() == c"." { Arc::clone(top) } else { top.below(&name) };
        Ok(Root { parent: Arc::clone(top), name, mirror })
    }

    /// Refuses a copy of an entry onto itself, or of a directory into itself.
    fn refuse(&self, source: &[u8], found: &Metadata, name: &CStr) -> Result<(), Refused> {
        let features = self.features;
        let refused = |why: &str| {
            let what = format!("SOURCE {}: {why}", escape(source));
            Err(Refused::usage(what, "nothing was copied; choose another TARGET"))
        };
        let identity = (found.device, found.inode);
        let there = if name == c"." {
            sys::stat_of(&self.top).ok()
        } else {
            sys::stat_at(&self.top, name, false).ok()
        };
        if there.is_some_and(|there| (there.device, there.inode) == identity) {
            return refused("it is the same file as its copy would be");
        }
        if found.kind() != Kind::Directory {
            return match there {
                Some(there) if there.kind() == Kind::Directory => {
                    refused("it is no directory, and a directory is where its copy would be")
                }
                _ => Ok(()),
            };
        }
        if let Some(there) = there
            && there.kind() != Kind::Directory
        {
            return refused("it is a directory, and something else is where its copy would be");
        }
        match above(&self.top, features, identity) {
            Some(false) => {}
            Some(true) => return refused("TARGET is in it"),
            None => return refused("whether TARGET is in it cannot be found out"),
        }
        let within = |there: Metadata| {
            let opened = sys::open_directory_path(source, true).ok()?;
            above(&opened, features, (there.device, there.inode))
        };
        if there.and_then(within).unwrap_or(false) {
            return refused("it is in the directory that its copy would be");
        }
        Ok(())
    }
}

/// Refuses a SOURCE with the same target as an entry of `SOURCE/.`.
fn refuse_meeting(roots: &HashMap<Vec<u8>, Arc<Root>>) -> Result<(), Refused> {
    for all in roots.iter().filter(|(_, root)| root.name.as_c_str() == c".").map(|(path, _)| path) {
        for (source, root) in roots.iter().filter(|(source, _)| *source != all) {
            let name = root.name.as_bytes();
            if sys::stat_path(&[all, name].join(&b'/'), false).is_ok() {
                let (source, all) = (escape(source), escape(all));
                let what = format!("{source} and what is in {all} would become {}", escape(name));
                return Err(Refused::usage(what, "copy them to directories of their own"));
            }
        }
    }
    Ok(())
}

/// Whether a directory has this identity or is below one that has it. `None`: this cannot be found out.
fn above(directory: &OwnedFd, features: Features, identity: (u64, u64)) -> Option<bool> {
    let is_it = |place: Place| (place.device, place.inode) == identity;
    let mut here = rustix::io::dup(directory.as_fd()).ok()?;
    let mut place = sys::place_of(&here, features).ok()?;
    loop {
        if is_it(place) {
            return Some(true);
        }
        here = sys::open_path_at(&here, c"..").ok()?;
        let parent = sys::place_of(&here, features).ok()?;
        if parent == place {
            return Some(false);
        }
        place = parent;
    }
}

/// A path without trailing slashes, except for the root.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len().min(1), |last| last + 1);
    &path[..end]
}

/// The parent directory of a path, and its last component if it has one.
fn split(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&path[..1], &path[1..]),
        Some(at) => (trimmed(&path[..at]), &path[at + 1..]),
        None => (&b"."[..], path),
    };
    let is_name = !matches!(name, b"" | b"." | b"..");
    (parent, is_name.then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_the_kernel_would() {
        type Case<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);
        let cases: [Case<'_>; 9] = [
            (b"a", b".", Some(b"a")),
            (b"a/b", b"a", Some(b"b")),
            (b"a//b//", b"a", Some(b"b")),
            (b"/a", b"/", Some(b"a")),
            (b"/", b"/", None),
            (b"//", b"/", None),
            (b".", b".", None),
            (b"a/.", b"a", None),
            (b"a/..", b"a", None),
        ];
        for (path, parent, name) in cases {
            assert_eq!(split(trimmed(path)), (parent, name), "{}", escape(path));
        }
    }
}
