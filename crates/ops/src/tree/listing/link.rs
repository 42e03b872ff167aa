//! Follows symbolic links that stay below a root, one name at a time, with no help from the kernel's resolution.
//!
//! Every step opens one name with `O_PATH | O_NOFOLLOW` relative to the step before; a link is read and its names are walked in turn; `..`
//! goes back one step (from the root again) and never above the root. So nothing outside the root can be reached on any kernel, even if
//! names are swapped meanwhile. (`openat2` with `RESOLVE_BENEATH` would do the same in one call since 5.6, but refuses absolute links that
//! lead below the root, and would be a second mechanism.)

use std::collections::VecDeque;
use std::ffi::CString;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use atta_sys as sys;

/// Most links in one resolution; the kernel has the same limit.
const LINKS_MAX: u32 = 40;

/// The target of a link.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) metadata: Metadata,
    /// Its real place as names below the root, joined by `/`; empty for the root itself.
    pub(crate) target: Vec<u8>,
}

/// The names of a path, without empty ones and `.`.
pub(crate) fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// Opens a directory again by its real place below the root. No link is followed.
pub(crate) fn reopen(root: impl AsFd, target: &[u8]) -> Result<OwnedFd, Errno> {
    let mut opened: Option<OwnedFd> = None;
    for name in names(target) {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        opened = Some(match &opened {
            None => sys::open_name_at(&root, &name)?,
            Some(above) => sys::open_name_at(above, &name)?,
        });
    }
    match opened {
        None => sys::open_directory_at(&root, c"."),
        Some(directory) => sys::open_directory_at(&directory, c"."),
    }
}

/// Resolves `link` as it stands in the directory that is really at `place` (names below the root).
///
/// # Errors
/// `EXDEV` for a link that leads out of the root, `ELOOP` for more than 40 links, else the kernel's error.
pub(crate) fn resolve(
    root: BorrowedFd<'_>,
    root_path: Option<&[u8]>,
    place: Vec<Vec<u8>>,
    link: &[u8],
) -> Result<Found, Errno> {
    let mut ahead: VecDeque<Vec<u8>> = place.into();
    ahead.push_back(link.to_vec());
    let mut steps: Vec<Vec<u8>> = Vec::new();
    // Only the last step is open: a link may lie deeper than there are descriptors.
    let mut here: Option<OwnedFd> = None;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == b".." {
            steps.pop().ok_or(Errno::XDEV)?;
            if ahead.front().is_none_or(|next| next != b"..") {
                here = None;
                steps.drain(..).rev().for_each(|step| ahead.push_front(step));
            }
            continue;
        }
        let c_name = CString::new(name.clone()).map_err(|_| Errno::INVAL)?;
        let descriptor = sys::open_name_at(here.as_ref().map_or(root, AsFd::as_fd), &c_name)?;
        if sys::stat_of(&descriptor)?.kind() != Kind::Symlink {
            steps.push(name);
            here = Some(descriptor);
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        let target = sys::read_link_at(&descriptor, c"")?;
        let rest = if target.starts_with(b"/") {
            steps.clear();
            here = None;
            below(&target, root_path).ok_or(Errno::XDEV)?
        } else {
            &target
        };
        names(rest).rev().for_each(|name| ahead.push_front(name.to_vec()));
    }
    let metadata = sys::stat_of(here.as_ref().map_or(root, AsFd::as_fd))?;
    Ok(Found { metadata, target: steps.join(&b'/') })
}

/// The rest of an absolute target after the root's path, if it lies below the root.
fn below<'a>(target: &'a [u8], root_path: Option<&[u8]>) -> Option<&'a [u8]> {
    let root = root_path?;
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let rest = target.strip_prefix(root)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_targets_are_below_the_root_or_not() {
        assert_eq!(below(b"/data/a/b", Some(b"/data")), Some(b"/a/b".as_slice()));
        assert_eq!(below(b"/data", Some(b"/data")), Some(b"".as_slice()));
        assert_eq!(below(b"/database", Some(b"/data")), None);
        assert_eq!(below(b"/x", Some(b"/")), Some(b"/x".as_slice()));
        assert_eq!(below(b"/x", None), None);
    }

    #[test]
    fn empty_names_and_dots_are_no_steps() {
        let split: Vec<_> = names(b"//a/./b/../c/").collect();
        assert_eq!(split, [b"a".as_slice(), b"b", b"..", b"c"]);
    }
}
