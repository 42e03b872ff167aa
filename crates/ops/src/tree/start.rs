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

impl Differs {
    const MISSING: u8 = 1;
    const CONTENT: u8 = 2;
    const LINKS: u8 = 4;

    /// As one byte, for tasks that become bytes.
    pub(crate) fn to_bits(self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.is_missing, Self::MISSING) | bit(self.content, Self::CONTENT) | bit(self.links, Self::LINKS)
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        let is_set = |bit: u8| bits & bit != 0;
        Self { is_missing: is_set(Self::MISSING), content: is_set(Self::CONTENT), links: is_set(Self::LINKS) }
    }
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
