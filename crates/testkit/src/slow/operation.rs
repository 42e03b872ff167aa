//! The kinds of requests that a file system is asked: what counts are kept of, and what rules of faults name. It serves nothing.

use std::str::FromStr;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A name was looked up in a directory: if that fails, nothing can be done with the entry.
    Lookup,
    /// Attributes were read.
    Stat,
    /// A symlink was read.
    Readlink,
    /// A file was opened.
    Open,
    /// Bytes were read.
    Read,
    /// A directory was opened.
    Opendir,
    /// A piece of a directory was read.
    Readdir,
    /// A file was made and opened.
    Create,
    /// Bytes were written.
    Write,
    /// A file was made durable.
    Fsync,
    /// A descriptor of a file was closed.
    Flush,
    /// An entry got another name.
    Rename,
    /// A directory was made.
    Mkdir,
    /// A file got one more name.
    Link,
    /// A symlink was made.
    Symlink,
    /// A file, a FIFO, a socket or a device was made without opening it.
    Mknod,
    /// A name of something that is no directory was removed.
    Unlink,
    /// A directory was removed.
    Rmdir,
    /// A mode was set.
    Chmod,
    /// An owner or a group was set.
    Chown,
    /// Times were set.
    Utimes,
    /// A size was set.
    Truncate,
    /// An extended attribute was set.
    Setxattr,
    /// An extended attribute was read.
    Getxattr,
    /// Names of extended attributes were listed.
    Listxattr,
    /// An extended attribute was removed.
    Removexattr,
    /// Data or a hole was looked for.
    Lseek,
    /// Space was set apart for a file.
    Fallocate,
    /// How much room there is was asked.
    Statfs,
}

use Operation as O;

/// All of them with their names, in the order of the numbers that they are counted under.
pub(super) const OPERATIONS: [(&str, Operation); 29] = [
    ("lookup", O::Lookup),
    ("stat", O::Stat),
    ("readlink", O::Readlink),
    ("open", O::Open),
    ("read", O::Read),
    ("opendir", O::Opendir),
    ("readdir", O::Readdir),
    ("create", O::Create),
    ("write", O::Write),
    ("fsync", O::Fsync),
    ("flush", O::Flush),
    ("rename", O::Rename),
    ("mkdir", O::Mkdir),
    ("link", O::Link),
    ("symlink", O::Symlink),
    ("mknod", O::Mknod),
    ("unlink", O::Unlink),
    ("rmdir", O::Rmdir),
    ("chmod", O::Chmod),
    ("chown", O::Chown),
    ("utimes", O::Utimes),
    ("truncate", O::Truncate),
    ("setxattr", O::Setxattr),
    ("getxattr", O::Getxattr),
    ("listxattr", O::Listxattr),
    ("removexattr", O::Removexattr),
    ("lseek", O::Lseek),
    ("fallocate", O::Fallocate),
    ("statfs", O::Statfs),
];

impl Operation {
    /// Its name in rules and in lines of counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        OPERATIONS[self as usize].0
    }
}

/// By its name.
impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = OPERATIONS.iter().find(|(name, _)| *name == text);
        found.map(|&(_, operation)| operation).ok_or_else(|| format!("no operation is called '{text}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (number, (name, operation)) in OPERATIONS.into_iter().enumerate() {
            assert_eq!((operation as usize, operation.name()), (number, name));
            assert_eq!(name.parse(), Ok(operation));
        }
        assert!("close".parse::<Operation>().is_err());
    }
}
