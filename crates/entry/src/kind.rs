//! The kind of an entry, as in `d_type` and the type bits of a mode. No I/O.

use crate::Code;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File = 0,
    /// A directory.
    Directory = 1,
    /// A symbolic link (itself, not what it points to).
    Symlink = 2,
    /// A named pipe.
    Fifo = 3,
    /// A Unix-domain socket.
    Socket = 4,
    /// A character device; an overlay file system's whiteout is one, too.
    CharDevice = 5,
    /// A block device.
    BlockDevice = 6,
    /// A type unknown to this program (`DT_UNKNOWN`, and `statx` did not identify it either).
    Unknown = 7,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::Socket,
        Self::CharDevice,
        Self::BlockDevice,
        Self::Unknown,
    ];

    /// The kind in the type bits (`S_IFMT`) of a mode. Source: `inode(7)`.
    #[must_use]
    pub const fn from_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::File,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o020_000 => Self::CharDevice,
            0o060_000 => Self::BlockDevice,
            _ => Self::Unknown,
        }
    }

    /// The word for it in records: `file`, `directory`, `symlink`, `fifo`, `socket`, `char`, `block`, `unknown`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::CharDevice => "char",
            Self::BlockDevice => "block",
            Self::Unknown => "unknown",
        }
    }

    /// The kind with this [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The letter that `ls -l` shows for it; `?` for an unknown one.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::File => '-',
            Self::Directory => 'd',
            Self::Symlink => 'l',
            Self::Fifo => 'p',
            Self::Socket => 's',
            Self::CharDevice => 'c',
            Self::BlockDevice => 'b',
            Self::Unknown => '?',
        }
    }
}

impl Code for Kind {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::ALL.get(usize::from(u8::decode(bytes)?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_back_and_forth() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(Kind::from_name("folder"), None);
    }

    #[test]
    fn the_permission_bits_do_not_matter() {
        assert_eq!(Kind::from_mode(0o100_644), Kind::File);
        assert_eq!(Kind::from_mode(0o041_777), Kind::Directory);
        assert_eq!(Kind::from_mode(0o120_777), Kind::Symlink);
        assert_eq!(Kind::from_mode(0o000_644), Kind::Unknown);
    }
}
