//! Paths in normal form: absolute, without `.`, `..`, empty names and a slash at the end. Only text is looked at, except in [`resolved`],
//! which opens the path.

use std::borrow::Cow;
use std::os::unix::ffi::OsStringExt as _;

use atta_entry::Errno;
use atta_sys::{real_path, retry};
use rustix::fs::{Mode, OFlags};

/// An absolute path in normal form. `..` removes the name before it, also where that is a symbolic link: whoever wants links followed
/// calls [`resolved`] first. `..` at the root stays there, as in the kernel. None: the path is relative or empty; [`absolute`] takes those.
#[must_use]
pub fn normal(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    if is_normal(path) {
        return Some(Cow::Borrowed(path));
    }
    if path.first() != Some(&b'/') {
        return None;
    }
    let mut out = Vec::with_capacity(path.len() + 1);
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => out.truncate(out.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    Some(Cow::Owned(out))
}

/// Whether a path is in normal form.
fn is_normal(path: &[u8]) -> bool {
    let Some((b'/', names)) = path.split_first() else { return false };
    names.is_empty() || names.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// The same for a path that may be relative to the working directory, which is asked for only then.
///
/// # Errors
/// The working directory is gone or cannot be reached, or the path is empty.
pub fn absolute(path: &[u8]) -> Result<Cow<'_, [u8]>, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if let Some(path) = normal(path) {
        return Ok(path);
    }
    let directory = std::env::current_dir();
    let directory = directory.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
    let mut whole = directory.into_os_string().into_vec();
    whole.push(b'/');
    whole.extend_from_slice(path);
    // The kernel gives `(unreachable)` for a directory outside the root.
    normal(&whole).map(|path| Cow::Owned(path.into_owned())).ok_or(Errno::NOENT)
}

/// The path without symbolic links, as the kernel finds it. It opens the path without reading it, which may wait for a server, and may
/// mount what an automounter has there.
///
/// # Errors
/// It does not exist or may not be reached; ENOENT also if it was removed meanwhile or lies outside the root directory of this process.
pub fn resolved(path: &[u8]) -> Result<Vec<u8>, Errno> {
    let opened = retry(|| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))?;
    let found = real_path(&opened).filter(|found| is_normal(found)).ok_or(Errno::NOENT)?;
    // The kernel marks what was removed, and a name may end so.
    if found.ends_with(b" (deleted)") {
        let (opened, found) =
            (retry(|| rustix::fs::fstat(&opened))?, retry(|| rustix::fs::lstat(&found[..]))?);
        if (opened.st_dev, opened.st_ino) != (found.st_dev, found.st_ino) {
            return Err(Errno::NOENT);
        }
    }
    Ok(found)
}

/// What is left of a path after a prefix of whole names: empty, or with a slash at its begin. The root is an empty prefix.
pub(crate) fn below<'a>(path: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

/// A path in which the root is empty, so that names can be appended with a slash.
pub(crate) fn without_root_slash(path: &[u8]) -> &[u8] {
    if path == b"/" { b"" } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_paths_have_names_only() {
        for (given, expected) in [
            (&b"/"[..], &b"/"[..]),
            (b"/r/../nfs/x", b"/nfs/x"),
            (b"/nfs//x", b"/nfs/x"),
            (b"/nfs/./x/", b"/nfs/x"),
            (b"//", b"/"),
            (b"/../..", b"/"),
            (b"/a/b/../..", b"/"),
            (b"/a/...", b"/a/..."),
            (b"/\xff/..b", b"/\xff/..b"),
        ] {
            let found = normal(given).unwrap();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(given));
            assert_eq!(is_normal(given), given == expected);
            assert!(matches!(normal(&found), Some(Cow::Borrowed(_))));
        }
    }

    #[test]
    fn relative_paths_have_no_normal_form() {
        for path in [&b""[..], b"a", b"./a", b"../a", b"."] {
            assert_eq!(normal(path), None);
        }
        assert_eq!(absolute(b""), Err(Errno::NOENT));
    }

    #[test]
    fn names_may_end_as_the_kernel_marks_what_is_removed() {
        let scratch = atta_testkit::scratch::Scratch::new("deleted").unwrap();
        std::fs::write(scratch.join("a (deleted)"), "").unwrap();
        let path = scratch.join("a (deleted)").into_os_string().into_vec();
        assert!(resolved(&path).unwrap().ends_with(b"/a (deleted)"));
        // Removed while it is open.
        std::fs::create_dir(scratch.join("b")).unwrap();
        let opened = std::fs::File::open(scratch.join("b")).unwrap();
        std::fs::remove_dir(scratch.join("b")).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        assert_eq!(resolved(path.as_bytes()), Err(Errno::NOENT));
        std::fs::create_dir(scratch.join("b (deleted)")).unwrap();
        assert_eq!(resolved(path.as_bytes()), Err(Errno::NOENT), "another one");
    }

    #[test]
    fn whole_names_are_below_a_prefix() {
        assert_eq!(below(b"/a/b", b"/a"), Some(&b"/b"[..]));
        assert_eq!((below(b"/ab", b"/a"), below(b"/a", b"/a")), (None, Some(&b""[..])));
        assert_eq!(below(b"/a", b""), Some(&b"/a"[..]));
    }

    #[test]
    fn links_are_followed_only_on_request() {
        let scratch = atta_testkit::scratch::Scratch::new("links").unwrap();
        std::fs::create_dir(scratch.join("directory")).unwrap();
        std::os::unix::fs::symlink("directory", scratch.join("link")).unwrap();
        let bytes = |name: &str| scratch.join(name).into_os_string().into_vec();
        let top = resolved(&bytes("")).unwrap();
        assert_eq!(resolved(&bytes("link")).unwrap(), [&top[..], b"/directory"].concat());
        assert_eq!(normal(&bytes("link")).unwrap(), bytes("link"));
        assert_eq!(resolved(&bytes("none")), Err(Errno::NOENT));
        let here = absolute(b"x/../y").unwrap().into_owned();
        assert_eq!(
            here,
            [std::env::current_dir().unwrap().into_os_string().into_vec(), b"/y".to_vec()].concat()
        );
    }
}
