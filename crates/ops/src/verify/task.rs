//! Tasks of a comparison beside those of the walk, encoded as bytes because the walk stores them so. No I/O.

use crate::file::chunks::LargeTask;

/// A task, which can be encoded as bytes.
pub(crate) enum Task<'a> {
    /// A step of a large file.
    Large(LargeTask<'a>),
    /// Reads the names of the target's directory.
    Names,
    /// Looks up a batch of these names in the source.
    LookUp(&'a [u8]),
}

impl<'a> Task<'a> {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Large(task) => task.to_bytes(),
            Self::Names => b"N".to_vec(),
            Self::LookUp(names) => [b"L", *names].concat(),
        }
    }

    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        Some(match bytes.split_first()? {
            (b'N', _) => Self::Names,
            (b'L', names) => Self::LookUp(names),
            _ => Self::Large(LargeTask::parse(bytes)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_survive_being_bytes_and_damaged_ones_are_none() {
        for task in [
            LargeTask::Plan { name: b"a\xff", is_again: true },
            LargeTask::Chunk { file: 1, index: u64::MAX },
        ] {
            let bytes = Task::Large(task).bytes();
            assert!(matches!(Task::from_bytes(&bytes), Some(Task::Large(came)) if came == task));
        }
        assert!(matches!(Task::from_bytes(&Task::Names.bytes()), Some(Task::Names)));
        assert!(matches!(Task::from_bytes(&Task::LookUp(b"x").bytes()), Some(Task::LookUp(b"x"))));
        for damaged in [&b""[..], b"P", b"C", b"C12345678", b"X"] {
            assert!(Task::from_bytes(damaged).is_none(), "{damaged:?}");
        }
    }
}
