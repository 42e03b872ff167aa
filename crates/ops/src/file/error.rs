//! Errors of one file or entry: the failed step, the cause and, in comparisons, the side. It reports nothing.

use atta_entry::{Code, Errno, Operation, Side};

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Read,
    ReadToEnd,
    HashHoles,
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
    Close,
    Rename,
    Link,
    MakeDirectory,
    OpenDirectory,
    MakeLink,
    MakeSpecial,
    Clean,
    Verify,
    RemoveIncomplete,
}

/// All steps. A step's index is its number in encoded errors.
const ALL: [Step; 25] = [
    Step::Open,
    Step::Read,
    Step::ReadToEnd,
    Step::HashHoles,
    Step::ReadExtended,
    Step::ReadLink,
    Step::Create,
    Step::LookAtCopy,
    Step::Write,
    Step::Clone,
    Step::SetOwner,
    Step::SetExtended,
    Step::SetMode,
    Step::SetTimes,
    Step::Sync,
    Step::Close,
    Step::Rename,
    Step::Link,
    Step::MakeDirectory,
    Step::OpenDirectory,
    Step::MakeLink,
    Step::MakeSpecial,
    Step::Clean,
    Step::Verify,
    Step::RemoveIncomplete,
];

impl Code for Step {
    fn encode(&self, out: &mut Vec<u8>) {
        let at = ALL.iter().position(|step| step == self);
        at.and_then(|at| u8::try_from(at).ok()).unwrap_or_default().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        ALL.get(usize::from(u8::decode(bytes)?)).copied()
    }
}

impl Step {
    /// The words for it, as in `cannot WORDS: PATH`. The path is the source's, or the target's for a directory to be made.
    pub(crate) const fn operation(self) -> Operation {
        Operation::Custom(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::ReadToEnd => "read to the end within 64 MiB",
            Self::HashHoles => "hash all holes (see --max-holes)",
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
            Self::Close => "close the copy",
            Self::Rename => "give the copy its name",
            Self::Link => "link the copy",
            Self::MakeDirectory => "make the directory",
            Self::OpenDirectory => "open the copied directory",
            Self::MakeLink => "make the link",
            Self::MakeSpecial => "make the special file",
            Self::Clean => "remove the job's own directory in",
            Self::Verify => "verify the copy",
            Self::RemoveIncomplete => "remove what an earlier run has not completed in the copy of",
        })
    }
}

/// Why an entry was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// A call failed.
    Failed(Step, Errno),
    /// The source changed while it was read.
    Changed,
    /// The run is to end, and this entry would take long. This is not a failure and is not reported.
    Stopped,
}

impl Code for FileError {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Failed(step, errno) => Some((*step, *errno)).encode(out),
            Self::Changed | Self::Stopped => {
                None::<(Step, Errno)>.encode(out);
                (*self == Self::Changed).encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(match Option::<(Step, Errno)>::decode(bytes)? {
            Some((step, errno)) => Self::Failed(step, errno),
            None if bool::decode(bytes)? => Self::Changed,
            None => Self::Stopped,
        })
    }
}

impl FileError {
    pub(crate) fn new(step: Step, errno: Errno) -> Self {
        Self::Failed(step, errno)
    }

    /// Whether another copy from the beginning may succeed: the source changed, or written data may be lost. Repeating only the sync could
    /// report success although data is lost.
    pub(crate) fn is_worth_another_copy(self) -> bool {
        match self {
            Self::Changed => true,
            Self::Stopped => false,
            Self::Failed(step, errno) => {
                // A second copy would find no more space.
                matches!(step, Step::Sync | Step::Close) && !is_want_of_room(errno)
            }
        }
    }

    /// Whether the space is used up, probably for other entries too. For root a quota (EDQUOT) concerns only one of many users.
    pub(crate) fn is_for_want_of_room(self) -> bool {
        let is_one_of_many = |errno| errno == Errno::DQUOT && rustix::process::geteuid().is_root();
        matches!(self, Self::Failed(_, errno) if is_want_of_room(errno) && !is_one_of_many(errno))
    }

    /// Whether its name is taken already: EEXIST, ENOTEMPTY.
    pub(crate) fn is_taken(self) -> bool {
        matches!(self, Self::Failed(_, Errno::EXIST | Errno::NOTEMPTY))
    }

    /// Whether the existing entry is of another type: one is a directory, the other is not.
    fn is_of_another_type(self) -> bool {
        matches!(
            self,
            Self::Failed(Step::MakeDirectory, Errno::NOTDIR)
                | Self::Failed(Step::Rename, Errno::ISDIR | Errno::NOTDIR)
        )
    }

    /// Whether its message names the path to be made instead of the source.
    pub(crate) fn is_of_target(self) -> bool {
        matches!(self, Self::Failed(Step::MakeDirectory, _))
    }

    /// The words for the failed step, and the error number.
    pub(crate) fn described(self) -> (Operation, Errno) {
        match self {
            Self::Failed(step, errno) if self.is_of_another_type() => {
                (Operation::Replace(step.operation().name()), errno)
            }
            Self::Failed(step, errno) => (step.operation(), errno),
            Self::Changed => (Operation::ReadUnchanged, Errno::AGAIN),
            Self::Stopped => (Step::Read.operation(), Errno::INTR),
        }
    }
}

/// Why two files or entries could not be compared, and on which side. As bytes for other ranks, an operation that is no [`Step`] is a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairError {
    /// A call failed on one side.
    Failed(Side, Operation, Errno),
    /// One side changed meanwhile.
    Changed,
    /// The run is to end. There is no result and nothing to report.
    Stopped,
}

impl Code for PairError {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Failed(side, operation, errno) => {
                let step = ALL.into_iter().find(|step| step.operation() == *operation);
                out.push(if *side == Side::Source { b'S' } else { b'T' });
                (step.unwrap_or(Step::Read), *errno).encode(out);
            }
            Self::Changed => out.push(b'C'),
            Self::Stopped => out.push(b'E'),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let side = match u8::decode(bytes)? {
            b'S' => Side::Source,
            b'T' => Side::Target,
            b'C' => return Some(Self::Changed),
            b'E' => return Some(Self::Stopped),
            _ => return None,
        };
        let (step, errno) = <(Step, Errno)>::decode(bytes)?;
        Some(Self::Failed(side, step.operation(), errno))
    }
}

/// Turns an error of one side into one of a pair.
pub(crate) fn on(side: Side, error: FileError) -> PairError {
    match (error, error.described()) {
        (FileError::Changed, _) => PairError::Changed,
        (FileError::Stopped, _) => PairError::Stopped,
        (FileError::Failed(..), (operation, errno)) => PairError::Failed(side, operation, errno),
    }
}

/// A call that failed on one side.
pub(crate) fn failed(side: Side, operation: Operation) -> impl Fn(Errno) -> PairError {
    move |errno| PairError::Failed(side, operation, errno)
}

/// Whether space is used up, of a file system (ENOSPC) or of a user (EDQUOT).
fn is_want_of_room(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_pairs_survive_being_bytes() {
        let failed = |side, step: Step| PairError::Failed(side, step.operation(), Errno::IO);
        let failed =
            ALL.into_iter().flat_map(|step| [failed(Side::Source, step), failed(Side::Target, step)]);
        for error in failed.chain([PairError::Changed, PairError::Stopped]) {
            assert_eq!(PairError::decode_all(&error.encoded()), Some(error));
        }
        assert_eq!(PairError::decode_all(b"X"), None);
    }

    #[test]
    fn what_was_tried_survives_being_a_number() {
        for step in ALL {
            assert_eq!(Step::decode_all(&step.encoded()), Some(step));
        }
        assert_eq!(ALL.len(), Step::RemoveIncomplete as usize + 1, "each is there");
        assert_eq!(Step::decode_all(&[ALL.len() as u8]), None);
    }
}
