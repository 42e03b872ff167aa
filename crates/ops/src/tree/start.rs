//! Where a walk starts, and what a list of differences says of it. No I/O.

pub(crate) mod begin;
pub(crate) mod roots;

/// Where a walk starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// A path as the operator gave it. Symbolic links on the way to it are followed, the last name's only if the walk
    /// follows links or it ends in a slash.
    pub root: Vec<u8>,
    /// A path below it, from a list: no link on the way to it is followed, and only it and what is below it is walked.
    pub below: Option<Vec<u8>>,
}

impl Start {
    /// Starts at a path.
    #[must_use]
    pub fn new(root: impl Into<Vec<u8>>) -> Self {
        Self { root: root.into(), below: None }
    }
}

/// What a list of differences says of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// The target does not have it: whatever is below it is meant too. Else a directory is meant alone.
    pub is_missing: bool,
    /// The bytes of the file were compared and differ, whatever size and times say.
    pub content: bool,
    /// It shares its file with another name on one side alone.
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

/// A start, and what a list of differences says of it, if it comes from one.
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
