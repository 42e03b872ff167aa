//! Where a walk starts, and flags from a list of differences. No I/O.

pub(crate) mod begin;
pub(crate) mod root;
pub(crate) mod roots;

/// Where a walk starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// A path as the operator gave it. Symbolic links on the way to it are followed, the last name's only if the walk
    /// follows links or it ends in a slash.
    pub root: Vec<u8>,
    /// A path below the root, from a list. No link on the way to it is followed; only this path and entries below it are walked.
    pub below: Option<Vec<u8>>,
}

impl Start {
    /// Starts at a path.
    #[must_use]
    pub fn new(root: impl Into<Vec<u8>>) -> Self {
        Self { root: root.into(), below: None }
    }
}

/// Flags of a name in a list of differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// The target does not have it, so everything below it is included. Otherwise a directory stands for itself only.
    pub is_missing: bool,
    /// The bytes of the file were compared and differ, whatever size and times say.
    pub content: bool,
    /// It shares its file with another name on one side only.
    pub links: bool,
}

/// A start, with flags if it comes from a list of differences.
#[derive(Debug)]
pub(crate) struct Seed {
    pub(crate) start: Start,
    pub(crate) differs: Option<Differs>,
}

impl From<Start> for Seed {
    fn from(start: Start) -> Self {
        Self { start, differs: None }
    }
}

impl From<(Start, Differs)> for Seed {
    fn from((start, differs): (Start, Differs)) -> Self {
        Self { start, differs: Some(differs) }
    }
}
