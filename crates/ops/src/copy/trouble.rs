//! What went wrong with one entry, and while doing what. It reports nothing.

use atta_entry::{Errno, Operation};

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Open,
    Read,
    ReadExtended,
    ReadLink,
    Create,
    LookAtCopy,
    Write,
    Clone,
    SetOwner,
    SetExtended,
    SetMode,
    SetTimes,
    Sync,
    Rename,
    Link,
    MakeDirectory,
    OpenDirectory,
    MakeLink,
    MakeSpecial,
}

impl Doing {
    /// The words for it, as in `cannot WORDS: PATH`: the path is the source's.
    pub(crate) const fn operation(self) -> Operation {
        Operation::Custom(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::ReadExtended => "read extended attributes",
            Self::ReadLink => return Operation::ReadLink,
            Self::Create => "create the copy",
            Self::LookAtCopy => "look at what is in the place of the copy",
            Self::Write => "write the copy",
            Self::Clone => "share the bytes with the copy",
            Self::SetOwner => "set the owner of the copy",
            Self::SetExtended => "set extended attributes of the copy",
            Self::SetMode => "set the mode of the copy",
            Self::SetTimes => "set the times of the copy",
            Self::Sync => "make the copy durable",
            Self::Rename => "give the copy its name",
            Self::Link => "link the copy",
            Self::MakeDirectory => "make the directory",
            Self::OpenDirectory => "open the copied directory",
            Self::MakeLink => "make the link",
            Self::MakeSpecial => "make the special file",
        })
    }
}

/// Why an entry was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A call failed.
    Failed(Doing, Errno),
    /// The source was another one after it was read than before.
    Changed,
}

impl Trouble {
    pub(crate) fn new(doing: Doing, errno: Errno) -> Self {
        Self::Failed(doing, errno)
    }

    /// What is told of it.
    pub(crate) fn told(self) -> (Operation, Errno) {
        match self {
            Self::Failed(doing, errno) => (doing.operation(), errno),
            Self::Changed => (Operation::ReadUnchanged, Errno::AGAIN),
        }
    }
}
