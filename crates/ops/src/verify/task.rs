//! The tasks of a comparison, beside those of the walk: as bytes, for the walk keeps them as such. No I/O.

use std::ffi::CStr;

/// A task, which becomes bytes.
pub(crate) enum Task<'a> {
    /// Looks at a large file, by its name in the directory that it comes with, or a root.
    Plan { name: &'a CStr, is_again: bool },
    /// Compares a chunk of a file, both by number.
    Chunk(u64, u64),
    /// Reads the names of the target's directory.
    Names,
    /// Looks a batch of them up in the source.
    LookUp(&'a [u8]),
}

impl<'a> Task<'a> {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Plan { name, is_again } => {
                [&[b'P', u8::from(*is_again)], name.to_bytes_with_nul()].concat()
            }
            Self::Chunk(file, index) => [&b"C"[..], &file.to_le_bytes(), &index.to_le_bytes()].concat(),
            Self::Names => b"N".to_vec(),
            Self::LookUp(names) => [b"L", *names].concat(),
        }
    }

    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (what, rest) = bytes.split_first()?;
        Some(match what {
            b'P' => {
                let (is_again, name) = rest.split_first()?;
                Self::Plan { name: CStr::from_bytes_with_nul(name).ok()?, is_again: *is_again != 0 }
            }
            b'C' => match rest.as_chunks::<8>() {
                (&[file, index], []) => Self::Chunk(u64::from_le_bytes(file), u64::from_le_bytes(index)),
                _ => return None,
            },
            b'N' => Self::Names,
            b'L' => Self::LookUp(rest),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_survive_being_bytes_and_damaged_ones_are_none() {
        let plan = Task::Plan { name: c"a\xff", is_again: true }.bytes();
        let Some(Task::Plan { name, is_again: true }) = Task::from_bytes(&plan) else { panic!("{plan:?}") };
        assert_eq!(name, c"a\xff");
        assert!(matches!(
            Task::from_bytes(&Task::Chunk(1, u64::MAX).bytes()),
            Some(Task::Chunk(1, u64::MAX))
        ));
        assert!(matches!(Task::from_bytes(&Task::Names.bytes()), Some(Task::Names)));
        assert!(matches!(Task::from_bytes(&Task::LookUp(b"x").bytes()), Some(Task::LookUp(b"x"))));
        for damaged in [&b""[..], b"P", b"P\x01", b"P\x01a", b"C", b"C12345678", b"X"] {
            assert!(Task::from_bytes(damaged).is_none(), "{damaged:?}");
        }
    }
}
