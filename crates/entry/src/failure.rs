//! The error of one entry: data for the report. It never stops a run. No I/O.

use std::borrow::Cow;
use std::fmt;

use crate::{Errno, escape};

/// The operation that failed on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Asking for the metadata (`statx`).
    Stat,
    /// Opening a directory.
    OpenDirectory,
    /// Reading a directory (`getdents64`).
    ReadDirectory,
    /// Reading the target of a symbolic link.
    ReadLink,
    /// Following a symbolic link.
    FollowLink,
    /// Reading a file from beginning to end while it does not change.
    ReadUnchanged,
    /// Comparing two entries while neither changes.
    CompareUnchanged,
    /// Trying again what several ranks have died at.
    AfterDeaths,
    /// Replacing an entry by one of another type; the words describe the attempt.
    Replace(&'static str),
    /// A task of the caller's own operation.
    Custom(&'static str),
}

impl Operation {
    /// The words for it, as in `cannot WORDS`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::OpenDirectory => "open directory",
            Self::ReadDirectory => "read directory",
            Self::ReadLink => "read link",
            Self::FollowLink => "follow link",
            Self::ReadUnchanged => "copy",
            Self::CompareUnchanged => "compare",
            Self::AfterDeaths => "try again",
            Self::Replace(name) | Self::Custom(name) => name,
        }
    }
}

/// The class of an errno for a reader of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// It existed when the directory was read and is gone now, or another server forgot it.
    Vanished,
    /// It changed while it was read.
    Changed,
    /// Not allowed.
    Permission,
    /// A link that leads out of the tree, in a loop, or nowhere.
    Link,
    /// The file system does not accept the name or the path.
    Name,
    /// The device, the server or the network failed.
    Io,
    /// Descriptors, memory or space ran out here.
    Resource,
    /// The target's entry of this name has another type, which a copy does not replace.
    Conflict,
    /// Anything else.
    Other,
}

impl Class {
    /// The word for it in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vanished => "vanished",
            Self::Changed => "changed",
            Self::Permission => "permission",
            Self::Link => "link",
            Self::Name => "name",
            Self::Io => "io",
            Self::Resource => "resource",
            Self::Conflict => "conflict",
            Self::Other => "other",
        }
    }
}

/// One entry that failed: the operation, the place and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The operation that failed.
    pub operation: Operation,
    /// The root that contains it, as it was given.
    pub root: Cow<'a, [u8]>,
    /// The whole path, beginning with the root.
    pub path: Cow<'a, [u8]>,
    /// The reason.
    pub errno: Errno,
    /// The other name that has its place in a copy, if the target takes both names for one.
    pub spelled: Option<Cow<'a, [u8]>>,
    /// The path of the entry to be made for it, if that failed: messages name it instead of the entry's own path.
    pub at: Option<Cow<'a, [u8]>>,
}

impl Failure<'_> {
    /// The class of the failure.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self.operation {
            Operation::FollowLink => Class::Link,
            Operation::ReadUnchanged | Operation::CompareUnchanged => Class::Changed,
            Operation::Replace(_) => Class::Conflict,
            _ => self.errno.class(),
        }
    }
}

impl Failure<'_> {
    /// The reason as text; for a link that was not followed, what the errno means there.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match (self.operation, self.errno) {
            (Operation::FollowLink, Errno::XDEV) => "it leads out of the tree",
            (Operation::FollowLink, Errno::LOOP) => "it leads back to a directory above it, or in a loop",
            (Operation::ReadUnchanged, _) => "it changed each time it was read",
            (Operation::CompareUnchanged, _) => "it changed each time it was compared",
            (Operation::AfterDeaths, _) => "several ranks have died at it, so it is left out",
            (_, errno) => errno.message(),
        }
    }
}

/// `cannot open directory: a/b: permission denied (EACCES)`, with the path escaped.
impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, label) = (self.reason(), self.errno.label());
        let path = self.at.as_ref().unwrap_or(&self.path);
        write!(f, "cannot {}: {}: {reason} ({label})", self.operation.name(), escape(path))?;
        match &self.spelled {
            Some(spelled) => write!(f, ", in another spelling: {}", escape(spelled)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_where_and_why() {
        let failure = Failure {
            operation: Operation::OpenDirectory,
            root: b"a".into(),
            path: b"a/\x1b[31mb".into(),
            errno: Errno(13),
            spelled: None,
            at: None,
        };
        assert_eq!(failure.to_string(), "cannot open directory: a/\\x1b[31mb: permission denied (EACCES)");
        assert_eq!(failure.class(), Class::Permission);
    }

    #[test]
    fn taken_name_is_reported_with_its_spelling() {
        let failure = Failure {
            operation: Operation::Custom("create the copy"),
            root: b"a".into(),
            path: b"a/name".into(),
            errno: Errno::EXIST,
            spelled: Some(b"N\x1bme".into()),
            at: None,
        };
        let expected = "cannot create the copy: a/name: file exists (EEXIST), in another spelling: N\\x1bme";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn entry_of_another_type_is_a_conflict() {
        let operation = Operation::Replace("make the directory");
        let (root, path) = (b"a".into(), b"a/d".into());
        let failure = Failure { operation, root, path, errno: Errno::NOTDIR, spelled: None, at: None };
        assert_eq!((failure.class(), failure.class().name()), (Class::Conflict, "conflict"));
        assert_eq!(failure.to_string(), "cannot make the directory: a/d: not a directory (ENOTDIR)");
    }

    #[test]
    fn what_could_not_be_made_is_named_by_its_own_path() {
        let failure = Failure {
            operation: Operation::Custom("make the directory"),
            root: b"a".into(),
            path: b"a/d".into(),
            errno: Errno(13),
            spelled: None,
            at: Some(b"copy/d".into()),
        };
        assert_eq!(failure.to_string(), "cannot make the directory: copy/d: permission denied (EACCES)");
    }

    #[test]
    fn a_link_that_leaves_the_tree_is_a_link_problem() {
        let failure = Failure {
            operation: Operation::FollowLink,
            root: b"a".into(),
            path: b"a/l".into(),
            errno: Errno(18),
            spelled: None,
            at: None,
        };
        assert_eq!(failure.class(), Class::Link);
        assert_eq!(failure.to_string(), "cannot follow link: a/l: it leads out of the tree (EXDEV)");
    }
}
