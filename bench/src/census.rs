//! How many entries of each kind lie in a tree, and how many bytes: whether a copy is complete. It looks at no contents, and
//! shares no code with what it judges.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io;

/// What is below a directory, which is not counted itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Names of files; two names of one file are two.
    pub(crate) files: u64,
    /// Their sizes.
    pub(crate) bytes: u64,
    /// Directories.
    pub(crate) directories: u64,
    /// Everything else.
    pub(crate) others: u64,
}

impl Census {
    /// Counts.
    ///
    /// # Errors
    ///
    /// What the file system says. One descriptor is open for each level.
    pub(crate) fn of(root: &Path) -> io::Result<Self> {
        let mut census = Self::default();
        census.add(&open_directory(CWD, root)?)?;
        Ok(census)
    }

    fn add(&mut self, directory: &OwnedFd) -> io::Result<()> {
        for name in Dir::read_from(directory)? {
            let name = name?;
            let name = name.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    self.files += 1;
                    self.bytes += u64::try_from(stat.st_size).unwrap_or(0);
                }
                FileType::Directory => {
                    self.directories += 1;
                    self.add(&open_directory(directory, name)?)?;
                }
                _ => self.others += 1,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, bytes, directories, others } = self;
        write!(f, "{files} files with {bytes} bytes, {directories} directories")?;
        if *others > 0 { write!(f, ", {others} others") } else { Ok(()) }
    }
}

fn open_directory(parent: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test made this tree itself")]
    fn everything_is_counted_once() {
        let place = std::env::temp_dir().join(format!("atta-bench-census-{}", std::process::id()));
        std::fs::create_dir_all(place.join("a/b")).unwrap();
        std::fs::write(place.join("a/b/file"), "12345").unwrap();
        std::fs::hard_link(place.join("a/b/file"), place.join("name")).unwrap();
        std::os::unix::fs::symlink("a", place.join("link")).unwrap();
        let census = Census::of(&place).unwrap();
        assert_eq!(census, Census { files: 2, bytes: 10, directories: 2, others: 1 });
        assert_eq!(census.to_string(), "2 files with 10 bytes, 2 directories, 1 others");
        assert!(Census::of(&place.join("link")).is_err(), "no link is followed");
        std::fs::remove_dir_all(place).unwrap();
    }
}
