//! Tasks of a comparison beside those of the walk, encoded as bytes because the walk stores them so. No I/O.

use atta_entry::Code;

use super::handler::Comparing;
use crate::large::TaskOf;
use crate::tree::listing::names::{Names, is_name};

/// A task, which can be encoded as bytes.
pub(crate) enum Task<'a> {
    /// A step of a large file. With a log it is the same.
    Large(TaskOf<Comparing<'a, false>>),
    /// Reads names of the target's directory, from this position on.
    Names(u64),
    /// Looks up a batch of these names in the source.
    LookUp(Names),
}

/// A step of a large file is encoded as itself: `large.rs` pushes it so.
impl Code for Task<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Large(task) => task.encode(out),
            Self::Names(from) => (b'N', *from).encode(out),
            Self::LookUp(names) => {
                out.push(b'L');
                names.encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (tag, mut rest) = bytes.split_first()?;
        let task = match tag {
            b'N' => Self::Names(Code::decode(&mut rest)?),
            b'L' => Self::LookUp(Code::decode(&mut rest)?),
            _ => return Code::decode(bytes).map(Self::Large),
        };
        *bytes = rest;
        Some(task)
    }
}

impl Task<'_> {
    /// Whether another rank may send it; see [`is_task`](crate::tree::operation::Handler::is_task).
    pub(crate) fn is_possible(&self, in_directory: bool) -> bool {
        match self {
            Self::Large(task) => !in_directory || task.names_an_entry(),
            Self::Names(_) => in_directory,
            Self::LookUp(names) => in_directory && names.iter().all(|name| is_name(name.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::Kind;

    use super::*;
    use crate::large::{LargeTask, Plan};
    use crate::verify::large::Compared;

    #[test]
    fn tasks_survive_encoding() {
        for task in [
            LargeTask::Plan(Plan { name: c"a\xff".into(), is_again: true, bytes: 7 }),
            LargeTask::Ended { file: 1, chunk: u64::MAX, result: Ok(Compared { first: Some(9), bytes: 10 }) },
        ] {
            let bytes = task.encoded();
            assert!(matches!(Task::decode_all(&bytes), Some(Task::Large(read)) if read == task));
        }
        let mut batch = Names::default();
        batch.push(c"x", Kind::File, 3);
        assert!(matches!(Task::decode_all(&Task::Names(7).encoded()), Some(Task::Names(7))));
        let bytes = Task::LookUp(batch.clone()).encoded();
        assert!(matches!(Task::decode_all(&bytes), Some(Task::LookUp(read)) if read == batch));
        assert!(Task::LookUp(batch.clone()).is_possible(true) && !Task::Names(7).is_possible(false));
        batch.push(c"../x", Kind::File, 3);
        assert!(!Task::LookUp(batch).is_possible(true), "a name that leads elsewhere");
        for damaged in [&b""[..], b"N", b"L\x01x", b"P", b"C", b"X"] {
            assert!(Task::decode_all(damaged).is_none(), "{damaged:?}");
        }
    }
}
