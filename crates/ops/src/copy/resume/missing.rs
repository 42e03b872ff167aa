//! Whether a directory of the target lacks files that earlier runs of the job have copied: somebody has removed them since. Files are not looked into, and
//! directories do not count: one that is not begun yet has no copy. It changes nothing.

use std::collections::HashSet;
use std::ffi::{CStr, CString};

use atta_entry::{Errno, Kind};
use rustix::fd::OwnedFd;

use crate::tree::listing::path;
use crate::tree::listing::rules::Rules;
use atta_sys as sys;

/// What the names of temporary files and directories begin with. The copy leaves those in the source out.
const TEMPORARY: &[u8] = b".atta.";

/// Both sides of a directory.
pub(super) struct Sides<'a> {
    pub(super) source: &'a OwnedFd,
    pub(super) target: &'a OwnedFd,
    /// Its path below the root.
    pub(super) path: &'a [u8],
    /// What the copy leaves out.
    pub(super) rules: Option<&'a Rules>,
}

impl Sides<'_> {
    /// Whether a file of the source has no copy.
    pub(super) fn lack_any(&self) -> Result<bool, Errno> {
        let there: HashSet<_> = sys::names_of(self.target, usize::MAX)?.into_iter().collect();
        let mut names = sys::names_of(self.source, usize::MAX)?;
        names.retain(|name| !there.contains(name));
        Ok(self.lack(&names))
    }

    /// Whether one of these files has no copy.
    pub(super) fn lack(&self, names: &[CString]) -> bool {
        names.iter().any(|name| self.lacks(name))
    }

    fn lacks(&self, name: &CStr) -> bool {
        let is_gone = matches!(sys::stat_at(self.target, name, false), Err(Errno::NOENT));
        is_gone && !name.to_bytes().starts_with(TEMPORARY) && self.is_file(name) && !self.is_excluded(name)
    }

    fn is_file(&self, name: &CStr) -> bool {
        let found = sys::stat_at(self.source, name, false);
        found.is_ok_and(|found| found.kind() != Kind::Directory)
    }

    fn is_excluded(&self, name: &CStr) -> bool {
        self.rules.is_some_and(|rules| {
            let mut below = self.path.to_vec();
            path::join(&mut below, name.to_bytes());
            rules.exclude(&below, false)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use atta_testkit::scratch::Scratch;

    use super::*;
    use crate::tree::listing::rules::Rule;

    #[test]
    fn files_without_a_copy_are_missing() {
        let scratch = Scratch::new("missing").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        for tree in [&source, &target] {
            fs::create_dir(tree).unwrap();
            fs::write(tree.join("file"), "").unwrap();
        }
        let open =
            |path: &std::path::Path| sys::open_directory_path(path.as_os_str().as_bytes(), false).unwrap();
        let rules = Rules::new(&[Rule::Exclude("/d/*.o".to_owned())]).unwrap();
        let (opened, copied) = (open(&source), open(&target));
        let sides = Sides { source: &opened, target: &copied, path: b"d", rules: Some(&rules) };
        // None of these has to have a copy.
        fs::create_dir(source.join("directory")).unwrap();
        fs::write(source.join(".atta.0.x"), "").unwrap();
        fs::write(source.join("left.o"), "").unwrap();
        assert_eq!(sides.lack_any(), Ok(false));
        assert!(!sides.lack(&[c"file".into(), c"left.o".into(), c"gone".into()]));
        std::os::unix::fs::symlink("file", source.join("link")).unwrap();
        assert_eq!(sides.lack_any(), Ok(true));
        assert!(sides.lack(&[c"file".into(), c"link".into()]));
    }
}
