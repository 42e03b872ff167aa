//! A batch of names of one directory, packed in one buffer. A reader of the directory passes it to a thread that calls `statx`.
//!
//! Each name is `kind: u8, inode: u64, bytes, NUL`. One allocation a batch, none a name.

use std::ffi::CStr;

use atta_entry::{Code, Kind, decode_bytes, encode_bytes};

const HEAD_BYTES: usize = 9;

/// Names of one directory, with the kind and inode from the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    count: usize,
}

/// One name of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    pub(crate) name: &'a CStr,
    pub(crate) kind: Kind,
    pub(crate) inode: u64,
}

/// Whether this can be the name of an entry.
pub(crate) fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    !bytes.is_empty() && !bytes.contains(&b'/') && bytes != b"." && bytes != b".."
}

impl Names {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    pub(crate) fn push(&mut self, name: &CStr, kind: Kind, inode: u64) {
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(&inode.to_le_bytes());
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        self.count += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.bytes }
    }

    /// Removes all but the first `batch` names in batches of that size, last names first. It scans the names once, however small the
    /// batches are. Batches that the iterator did not return stay.
    pub(crate) fn cut(&mut self, batch: usize) -> impl Iterator<Item = Self> {
        let batch = batch.max(1);
        let mut at = 0;
        let mut starts = Vec::new();
        for (index, name) in self.iter().enumerate() {
            if index > 0 && index % batch == 0 {
                starts.push((index, at));
            }
            at += HEAD_BYTES + name.name.to_bytes_with_nul().len();
        }
        starts.into_iter().rev().map(|(index, at)| {
            let last = Self { bytes: self.bytes[at..].to_vec(), count: self.count - index };
            self.bytes.truncate(at);
            self.count = index;
            last
        })
    }
}

/// As it is in memory.
impl Code for Names {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(&self.bytes, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let bytes = decode_bytes(bytes)?;
        let mut iter = Iter { rest: bytes };
        let count = iter.by_ref().count();
        iter.rest.is_empty().then(|| Self { bytes: bytes.to_vec(), count })
    }
}

impl<'a> Name<'a> {
    /// A placeholder.
    pub(crate) const NONE: Self = Self { name: c"", kind: Kind::Unknown, inode: 0 };

    /// The name without its NUL.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.name.to_bytes()
    }
}

impl<'a> Iter<'a> {
    /// Puts the next names into `block`. Returns how many.
    pub(crate) fn fill(&mut self, block: &mut [Name<'a>]) -> usize {
        let mut count = 0;
        while count < block.len() {
            let Some(name) = self.next() else { break };
            block[count] = name;
            count += 1;
        }
        count
    }

    /// Whether it has given all.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A batch of the names that it has not returned yet.
    pub(crate) fn into_names(self) -> Names {
        Names { bytes: self.rest.to_vec(), count: self.count() }
    }
}

/// Goes through a batch.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Name<'a>;

    fn next(&mut self) -> Option<Name<'a>> {
        let (head, tail) = self.rest.split_at_checked(HEAD_BYTES)?;
        let kind = *Kind::ALL.get(usize::from(head[0]))?;
        let inode = u64::from_le_bytes(head[1..].try_into().ok()?);
        let name = CStr::from_bytes_until_nul(tail).ok()?;
        self.rest = tail.get(name.to_bytes_with_nul().len()..)?;
        Some(Name { name, kind, inode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of_three() -> Names {
        let mut names = Names::default();
        names.push(c"one", Kind::File, 1);
        names.push(c"\xff\n", Kind::Directory, u64::MAX);
        names.push(c"three", Kind::Unknown, 0);
        names
    }

    #[test]
    fn names_come_out_as_they_went_in() {
        let names = batch_of_three();
        let read: Vec<_> =
            names.iter().map(|name| (name.name.to_bytes().to_vec(), name.kind, name.inode)).collect();
        assert_eq!(read[1], (b"\xff\n".to_vec(), Kind::Directory, u64::MAX));
        assert_eq!((read.len(), names.len()), (3, 3));
    }

    #[test]
    fn batches_are_cut_off_from_the_end() {
        let lengths = |names: &mut Names, batch| names.cut(batch).map(|cut| cut.len()).collect::<Vec<_>>();
        for (batch, expected) in [(1, vec![1, 1]), (2, vec![1]), (3, vec![]), (0, vec![1, 1])] {
            let mut names = batch_of_three();
            assert_eq!(lengths(&mut names, batch), expected);
            assert_eq!(
                (names.len(), names.iter().count()),
                (3 - expected.iter().sum::<usize>(), names.len())
            );
            assert_eq!(names.iter().next().unwrap().name, c"one");
        }
        let mut names = batch_of_three();
        assert_eq!(names.cut(2).next().unwrap().iter().next().unwrap().name, c"three");
        assert_eq!(lengths(&mut Names::default(), 1), []);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let names = batch_of_three();
        assert_eq!(Names::decode_all(&names.encoded()), Some(names.clone()));
        let of = |bytes: &[u8]| Names::decode_all(&bytes.to_vec().encoded());
        assert_eq!(of(&names.bytes), Some(names.clone()));
        assert!(of(&names.bytes[..names.bytes.len() - 1]).is_none());
        assert!(of(&[200, 0, 0, 0, 0, 0, 0, 0, 0, b'a', 0]).is_none());
        assert!(of(b"short").is_none());
    }
}
