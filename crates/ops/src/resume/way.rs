//! Finds directories by their paths below a root, one after another, and keeps the directories open that lead to the last one. No link is followed.

use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::OwnedFd;

use atta_sys as sys;

/// Directories that a way keeps open.
pub(crate) const OPEN_MOST: usize = 16;

pub(crate) fn open(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    sys::open_directory_at(above, name)
}

/// The other name that a directory may have.
pub(crate) type Alias<'a> = &'a dyn Fn(&CStr) -> CString;

/// The names that directories may have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Names<'a> {
    pub(crate) alias: Option<Alias<'a>>,
    /// The last one has its own.
    pub(crate) is_named: bool,
}

/// Does something with a name, or with the other name that a directory may have.
pub(crate) fn either<T>(
    name: &CStr,
    alias: Option<Alias<'_>>,
    act: impl Fn(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    match (act(name), alias) {
        (Err(Errno::NOENT), Some(alias)) => act(&alias(name)),
        (done, _) => done,
    }
}

/// How a directory is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// A directory on which a file system is to be mounted when it is used is not what it was when it was open.
    ByName,
    Opened,
}

/// The directories that lead to the last one that was looked at. Only the deepest are open.
#[derive(Debug, Default)]
pub(crate) struct Way {
    root: u32,
    names: Vec<(Vec<u8>, Option<OwnedFd>)>,
}

impl Way {
    /// Looks at a directory. `top`: its root.
    pub(crate) fn look(
        &mut self,
        top: &OwnedFd,
        place: (u32, &[u8]),
        (names, how): (Names<'_>, How),
    ) -> Result<Metadata, Errno> {
        let found = self.find(top, place, names, |above, name| match how {
            How::ByName => sys::stat_at(above, name, false),
            How::Opened => open(above, name).and_then(|opened| sys::stat_descriptor(&opened)),
        })?;
        if found.kind() == Kind::Directory { Ok(found) } else { Err(Errno::NOTDIR) }
    }

    /// Does something with the name of a directory and the directory that it is in. `top`: its root, which is itself in place of that.
    pub(crate) fn find<T>(
        &mut self,
        top: &OwnedFd,
        (root, path): (u32, &[u8]),
        Names { alias, is_named }: Names<'_>,
        act: impl Fn(&OwnedFd, &CStr) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if self.root != root {
            self.names.clear();
            self.root = root;
        }
        let mut names: Vec<_> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some(last) = names.pop() else { return act(top, c".") };
        let is_same = |((known, _), name): &(&(Vec<u8>, Option<OwnedFd>), &&[u8])| known == *name;
        let shared = self.names.iter().zip(&names).take_while(is_same).count();
        self.names.truncate(shared);
        while matches!(self.names.last(), Some((_, None))) {
            self.names.pop();
        }
        for name in &names[self.names.len()..] {
            let c_name = CString::new(*name).map_err(|_| Errno::INVAL)?;
            let opened = either(&c_name, alias, |name| sys::open_directory_at(self.above(top), name))?;
            self.names.push((name.to_vec(), Some(opened)));
            // A deep tree must not take all descriptors.
            if let Some(at) = self.names.len().checked_sub(OPEN_MOST + 1) {
                self.names[at].1 = None;
            }
        }
        let last = CString::new(last).map_err(|_| Errno::INVAL)?;
        let alias = alias.filter(|_| !is_named);
        either(&last, alias, |name| act(self.above(top), name))
    }

    /// The last directory on the way.
    fn above<'a>(&'a self, top: &'a OwnedFd) -> &'a OwnedFd {
        self.names.last().and_then(|(_, opened)| opened.as_ref()).unwrap_or(top)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use atta_testkit::{scratch::Scratch, trees};

    use super::*;

    #[test]
    fn directories_are_found_in_any_order_with_few_open() {
        let scratch = Scratch::new("finished").unwrap();
        let tree = scratch.join("tree");
        trees::chain(&tree, 300, b"level").unwrap();
        fs::create_dir_all(tree.join("a/.other")).unwrap();
        fs::write(tree.join("file"), "").unwrap();
        let top = sys::open_directory_path(tree.as_os_str().as_bytes(), false).unwrap();
        let alias = |name: &CStr| CString::new([b".", name.to_bytes()].concat()).unwrap();
        let names = Names { alias: Some(&alias), is_named: false };
        let deep = |levels: usize| vec!["level"; levels].join("/");
        let mut way = Way::default();
        for levels in [300, 1, 299, 150, 2, 0, 300] {
            let found = way.look(&top, (0, deep(levels).as_bytes()), (names, How::ByName)).unwrap();
            let path = tree.join(deep(levels));
            let expected = sys::stat_path(path.as_os_str().as_bytes(), false).unwrap();
            assert_eq!(found.inode, expected.inode, "{levels} levels");
            assert!(way.names.iter().filter(|(_, opened)| opened.is_some()).count() <= OPEN_MOST);
        }
        for how in [How::ByName, How::Opened] {
            let mut look =
                |path: &str| way.look(&top, (0, path.as_bytes()), (names, how)).map(|found| found.inode);
            assert!(look("a/other").is_ok(), "under its other name");
            let named = Names { is_named: true, ..names };
            let found = Way::default().look(&top, (0, b"a/other"), (named, how));
            assert_eq!(found.map(|found| found.inode), Err(Errno::NOENT), "it has its own name");
            assert_eq!(look("a/none"), Err(Errno::NOENT));
            assert_eq!(look("file"), Err(Errno::NOTDIR));
            assert_eq!(look("file/below"), Err(Errno::NOTDIR));
        }
    }
}
