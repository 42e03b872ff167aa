//! One of every kind of entry, with the modes and links that copy and walk programs get wrong. Makes devices only as
//! root. Sets no times, attributes or lists of access rights.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, ftruncate, linkat, makedev, mknodat, symlinkat};

use super::{make_directory, make_file, open_or_make, set_mode, write_at};
use crate::skip;

/// A file, sparse files, hard links, directories, symlinks of every sort, a fifo, a socket, odd modes and (as root)
/// both sorts of device. `outside` is a second directory, not below `directory` but on the same file system: it gets
/// `linked` (a second name of a file in the tree), `secret` and `directory/secret`, which symlinks in the tree lead
/// to; those are not counted.
///
/// # Errors
/// What making an entry said.
pub fn kinds(directory: &Path, outside: &Path) -> io::Result<u64> {
    let (top, beyond) = (open_or_make(directory)?, open_or_make(outside)?);
    let outside = std::path::absolute(outside)?;
    make_file(&beyond, b"secret", b"secret")?;
    make_file(&make_directory(&beyond, b"directory")?, b"secret", b"secret")?;
    let counts = [
        files(&top)?,
        hard_links(&top, &beyond)?,
        directories(&top)?,
        symlinks(&top, &outside)?,
        specials(&top)?,
        modes(&top)?,
    ];
    Ok(counts.iter().sum())
}

/// A directory without any right (`closed`), one that can be listed but not entered (`listed`), and one that can be
/// entered but not listed (`entered`), each with a file in it. They stop everybody but root.
///
/// # Errors
/// What making an entry said.
pub fn unreadable(directory: &Path) -> io::Result<u64> {
    let top = open_or_make(directory)?;
    let rights: [(&[u8], u32); 3] = [(b"closed", 0), (b"listed", 0o444), (b"entered", 0o111)];
    for (name, mode) in rights {
        make_file(&make_directory(&top, name)?, b"file", b"")?;
        set_mode(&top, name, mode)?;
    }
    Ok(6)
}

fn files(top: &OwnedFd) -> io::Result<u64> {
    make_file(top, b"file", b"content\n")?;
    make_file(top, b"file-empty", b"")?;
    // Data at the start and in the middle, a hole between them and one at the end.
    let sparse = make_file(top, b"file-sparse", &[1; 4096])?;
    write_at(&sparse, &[2; 4096], 512 << 20)?;
    ftruncate(&sparse, 1 << 30)?;
    ftruncate(make_file(top, b"file-hole", b"")?, 1 << 30)?;
    // Zeros that are allocated: the same bytes as a hole, and not the same file.
    make_file(top, b"file-zeros", &[0; 8192])?;
    Ok(5)
}

fn hard_links(top: &OwnedFd, beyond: &OwnedFd) -> io::Result<u64> {
    make_file(top, b"hard-one", b"hard")?;
    linkat(top, "hard-one", top, "hard-two", AtFlags::empty())?;
    let below = make_directory(top, b"hard-below")?;
    linkat(top, "hard-one", &below, "hard-three", AtFlags::empty())?;
    make_file(top, b"hard-outside", b"hard")?;
    linkat(top, "hard-outside", beyond, "linked", AtFlags::empty())?;
    // What is no file may have several names, too.
    symlinkat("hard-one", top, "hard-link")?;
    linkat(top, "hard-link", &below, "hard-link", AtFlags::empty())?;
    mknodat(top, "hard-fifo", FileType::Fifo, Mode::from(0o640), 0)?;
    linkat(top, "hard-fifo", &below, "hard-fifo", AtFlags::empty())?;
    Ok(9)
}

fn directories(top: &OwnedFd) -> io::Result<u64> {
    make_directory(top, b"directory-empty")?;
    let full = make_directory(top, b"directory")?;
    make_file(&full, b"file", b"inner")?;
    make_directory(&full, b"directory")?;
    Ok(4)
}

fn symlinks(top: &OwnedFd, outside: &Path) -> io::Result<u64> {
    let inside: [(&str, &str); 11] = [
        ("link-file", "file"),
        ("link-directory", "directory"),
        ("link-slash", "directory/"),
        ("link-chain", "link-file"),
        ("link-dangling", "no such file"),
        ("link-absolute", "/etc/hostname"),
        ("link-root", "/"),
        ("link-self", "link-self"),
        ("link-there", "link-back"),
        ("link-back", "link-there"),
        ("link-parent", ".."),
    ];
    for (name, target) in inside {
        symlinkat(target, top, name)?;
    }
    symlinkat(".", top, "link-here")?;
    symlinkat(outside, top, "link-outside")?;
    symlinkat(outside.join("secret"), top, "link-outside-file")?;
    symlinkat("x".repeat(4095), top, "link-long")?;
    Ok(15)
}

fn specials(top: &OwnedFd) -> io::Result<u64> {
    let private = Mode::from_raw_mode(0o600);
    mknodat(top, "fifo", FileType::Fifo, private, 0)?;
    // A socket without a process behind it; bind(2) would limit the length of its path.
    mknodat(top, "socket", FileType::Socket, private, 0)?;
    if !skip::is_root() {
        return Ok(2);
    }
    mknodat(top, "device-character", FileType::CharacterDevice, private, makedev(1, 3))?;
    // No driver has this number, so that nothing happens if something opens it in spite of everything.
    mknodat(top, "device-block", FileType::BlockDevice, private, makedev(240, 300))?;
    Ok(4)
}

fn modes(top: &OwnedFd) -> io::Result<u64> {
    let of_files: [(&[u8], u32); 6] = [
        (b"mode-setuid", 0o4755),
        (b"mode-setgid", 0o2755),
        (b"mode-sticky", 0o1644),
        (b"mode-all", 0o7777),
        (b"mode-none", 0),
        (b"mode-write", 0o222),
    ];
    let of_directories: [(&[u8], u32); 3] = [
        (b"mode-directory-setgid", 0o2775),
        (b"mode-directory-sticky", 0o1777),
        (b"mode-directory-all", 0o7777),
    ];
    for (name, mode) in of_files {
        make_file(top, name, b"mode")?;
        set_mode(top, name, mode)?;
    }
    for (name, mode) in of_directories {
        make_directory(top, name)?;
        set_mode(top, name, mode)?;
    }
    Ok(9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{oracle, scratch::Scratch};

    #[test]
    fn every_kind_is_there() {
        let scratch = Scratch::new("kinds").unwrap();
        let tree = scratch.join("tree");
        let made = kinds(&tree, &scratch.join("outside")).unwrap();
        let found = oracle::list(&tree).unwrap();
        assert_eq!(u64::try_from(found.len()).unwrap(), made + 1);
        for kind in "fdlps".chars().chain(if skip::is_root() { "cb" } else { "" }.chars()) {
            assert!(found.values().any(|record| record.kind == kind), "{kind}");
        }
        let record = |name: &str| &found[tree.join(name).as_os_str().as_encoded_bytes()];
        assert_eq!(record("mode-setuid").mode, 0o4755);
        assert_eq!(record("mode-directory-sticky").mode, 0o1777);
        assert_eq!(record("hard-one").nlink, 3);
        assert_eq!(record("hard-one").ino, record("hard-below/hard-three").ino);
        assert_eq!(record("hard-outside").nlink, 2);
        assert_eq!(record("file-sparse").size, 1 << 30);
        assert!(record("file-sparse").blocks < 1 << 20);
    }

    #[test]
    fn unreadable_directories_have_their_modes() {
        let scratch = Scratch::new("unreadable").unwrap();
        assert_eq!(unreadable(scratch.path()).unwrap(), 6);
        let found = oracle::list(scratch.path()).unwrap();
        let closed = &found[scratch.join("closed").as_os_str().as_encoded_bytes()];
        assert_eq!(closed.mode, 0);
        assert_eq!(closed.unread.is_none(), skip::is_root());
        // A directory that can be listed but not entered shows names and nothing else.
        let listed = &found[scratch.join("listed/file").as_os_str().as_encoded_bytes()];
        assert_eq!(listed.kind, if skip::is_root() { 'f' } else { '?' });
    }
}
