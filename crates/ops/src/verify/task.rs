//! Tasks of a comparison beside those of the walk, encoded as bytes because the walk stores them so. No I/O.

use atta_entry::Code as _;

use super::handler::Comparing;
use crate::large::TaskOf;

/// A task, which can be encoded as bytes.
pub(crate) enum Task<'a> {
    /// A step of a large file.
    Large(TaskOf<Comparing<'a>>),
    /// Reads names of the target's directory, from this position on.
    Names(u64),
    /// Looks up a batch of these names in the source.
    LookUp(&'a [u8]),
}

impl<'a> Task<'a> {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Large(task) => task.encoded(),
            Self::Names(from) => [b"N".as_slice(), &from.encoded()].concat(),
            Self::LookUp(names) => [b"L", *names].concat(),
        }
    }

    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        Some(match bytes.split_first()? {
            (b'N', from) => Self::Names(u64::decode_all(from)?),
            (b'L', names) => Self::LookUp(names),
            _ => Self::Large(TaskOf::<Comparing<'a>>::decode_all(bytes)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::large::{LargeTask, Plan};

    #[test]
    fn tasks_survive_encoding() {
        for task in [
            LargeTask::Plan(Plan { name: c"a\xff".into(), is_again: true, bytes: 7 }),
            LargeTask::Ended { file: 1, chunk: u64::MAX, result: Ok(Some(9)) },
        ] {
            let bytes = Task::Large(task.clone()).bytes();
            assert!(matches!(Task::from_bytes(&bytes), Some(Task::Large(read)) if read == task));
        }
        assert!(matches!(Task::from_bytes(&Task::Names(7).bytes()), Some(Task::Names(7))));
        assert!(matches!(Task::from_bytes(&Task::LookUp(b"x").bytes()), Some(Task::LookUp(b"x"))));
        for damaged in [&b""[..], b"N", b"P", b"C", b"C12345678", b"X"] {
            assert!(Task::from_bytes(damaged).is_none(), "{damaged:?}");
        }
    }
}
