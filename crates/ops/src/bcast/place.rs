//! Where a copy goes on this rank: the directory, the name in it, what has that name, and whether there is room. It writes nothing.

use std::ffi::CString;
use std::sync::Arc;

use atta_entry::{Errno, Kind, escape};
use atta_status::Facts;
use rustix::fd::OwnedFd;

use super::rows::{Checked, Here};
use atta_sys as sys;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) name: CString,
    /// The path of the directory without links.
    pub(crate) path: Vec<u8>,
    /// The path of the copy, as the user named it.
    pub(crate) shown: Vec<u8>,
}

impl Place {
    /// Finds the place of a copy of FILE. The error is for people.
    pub(crate) fn find(file: &[u8], target: &[u8]) -> Result<Self, String> {
        let (directory, name, shown) = match sys::open_directory_path(target, true) {
            Ok(directory) if !target.is_empty() => {
                let name = last_name(file)
                    .ok_or_else(|| format!("FILE has no name for a copy in TARGET: {}", escape(file)))?;
                (directory, name.to_vec(), joined(target, name))
            }
            Ok(_) => return Err("TARGET is empty".to_owned()),
            Err(Errno::NOENT | Errno::NOTDIR) => {
                let (directory, name) = beside(target)?;
                (directory, name, target.to_vec())
            }
            Err(errno) => return Err(format!("cannot open TARGET: {}: {errno}", escape(target))),
        };
        let name = CString::new(name).map_err(|_| "TARGET has a zero byte in it".to_owned())?;
        let path = sys::real_path(&directory).filter(|path| path.starts_with(b"/"));
        let path = path.ok_or_else(|| format!("the directory of TARGET has no path: {}", escape(&shown)))?;
        Ok(Self { directory: Arc::new(directory), name, path, shown })
    }

    /// Looks at what has the name, and whether there is room.
    pub(crate) fn check(&self, file: &[u8], facts: &Facts, force: bool, here: &Here) -> Checked {
        let failed = |reason| Checked::Failed(here.failed(reason));
        let shown = escape(&self.shown);
        match sys::stat_at(&self.directory, &self.name, false) {
            Err(Errno::NOENT) => {}
            Err(errno) => return failed(format!("cannot look at TARGET: {shown}: {errno}")),
            Ok(found) => {
                let is_itself = sys::stat_path(file, true)
                    .is_ok_and(|source| (source.device, source.inode) == (found.device, found.inode));
                match found.kind() {
                    _ if is_itself => return Checked::Itself,
                    Kind::Directory => return failed(format!("TARGET is a directory: {shown}")),
                    _ if !force => return Checked::Exists(here.named(&shown)),
                    _ => {}
                }
            }
        }
        match self.lacks(facts) {
            Ok(None) => Checked::Writes,
            Ok(Some((needs, free))) => {
                failed(format!("no space for {shown}: it takes {needs} bytes, and {free} are free"))
            }
            Err(errno) => failed(format!("cannot look at the file system of {shown}: {errno}")),
        }
    }

    /// Bytes that a copy needs, and those that are free, if these are fewer. A file with holes needs as much as it takes.
    fn lacks(&self, facts: &Facts) -> Result<Option<(u64, u64)>, Errno> {
        let found = sys::retry(|| rustix::fs::fstatvfs(&self.directory))?;
        let blocks = if rustix::process::geteuid().is_root() { found.f_bfree } else { found.f_bavail };
        let free = blocks.saturating_mul(found.f_frsize);
        let taken = facts.blocks.saturating_mul(512);
        let needs = if taken > 0 { facts.size.min(taken) } else { facts.size };
        // Some report no sizes at all.
        Ok((found.f_blocks > 0 && needs > free).then_some((needs, free)))
    }
}

/// The directory of a name, and the name.
fn beside(target: &[u8]) -> Result<(OwnedFd, Vec<u8>), String> {
    let at = target.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (above, name) = target.split_at(at);
    if name.is_empty() || name == b"." || name == b".." {
        return Err(format!("TARGET is no directory: {}", escape(target)));
    }
    match sys::open_directory_path(above, true) {
        Ok(directory) => Ok((directory, name.to_vec())),
        Err(Errno::NOENT) => Err(format!("the directory of TARGET does not exist: {}", escape(above))),
        Err(errno) => Err(format!("cannot open the directory of TARGET: {}: {errno}", escape(above))),
    }
}

/// The last name of a path. None: it has none.
fn last_name(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte != b'/')? + 1;
    let name = path[..end].rsplit(|byte| *byte == b'/').next()?;
    (name != b"." && name != b"..").then_some(name)
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, separator, name].concat()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test looks at files that it made itself")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use atta_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn last_names_of_paths() {
        for (path, name) in [("a", "a"), ("/x/y", "y"), ("x//", "x"), ("./f", "f")] {
            assert_eq!(last_name(path.as_bytes()), Some(name.as_bytes()), "{path}");
        }
        for path in ["", "/", ".", "x/..", "x/./"] {
            assert_eq!(last_name(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn targets_are_found_or_refused() {
        let scratch = Scratch::new("bcast-place").unwrap();
        fs::create_dir(scratch.join("dir")).unwrap();
        fs::write(scratch.join("there"), "old").unwrap();
        symlink(scratch.join("dir"), scratch.join("link")).unwrap();
        let path = |name: &str| scratch.join(name).into_os_string().into_encoded_bytes();
        let find = |name: &str| Place::find(b"/any/f", &path(name));
        let canonical = fs::canonicalize(scratch.path()).unwrap().into_os_string().into_encoded_bytes();
        for (target, shown) in
            [("dir", "dir/f"), ("link", "link/f"), ("dir/", "dir/f"), ("new", "new"), ("there", "there")]
        {
            let place = find(target).unwrap();
            assert_eq!(place.shown, path(shown), "{target}");
            let in_dir = shown.ends_with('f');
            assert_eq!(place.name.as_bytes(), if in_dir { "f" } else { target }.as_bytes());
            assert_eq!(
                place.path,
                if in_dir { [&canonical[..], b"/dir"].concat() } else { canonical.clone() }
            );
        }
        for (target, reason) in [
            ("none/f", "the directory of TARGET does not exist"),
            ("new/", "TARGET is no directory"),
            ("there/f", "cannot open the directory of TARGET"),
        ] {
            let refused = find(target).unwrap_err();
            assert!(refused.starts_with(reason), "{target}: {refused}");
        }
        assert!(Place::find(b"/any/..", &path("dir")).unwrap_err().starts_with("FILE has no name"));
        assert_eq!(Place::find(b"f", b"").unwrap_err(), "TARGET is empty");
    }
}
