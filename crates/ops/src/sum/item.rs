//! The state of one path: comparison of two states, and their form as bytes for sorting.

use std::io;

use atta_entry::{Detail, Kind};

/// The state of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The full path.
    pub path: Vec<u8>,
    /// Its type.
    pub kind: Kind,
    /// Size of a regular file in bytes, if known.
    pub size: Option<u64>,
    /// Digest of a regular file, if known.
    pub digest: Option<[u8; 32]>,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Flags for the fields that are present.
const SIZE: u8 = 1;
const DIGEST: u8 = 2;
const TARGET: u8 = 4;

impl Item {
    /// Returns the first difference between the two items.
    pub(super) fn difference(&self, there: &Self) -> Option<Detail> {
        if self.kind != there.kind {
            return Some(Detail::Type(self.kind, there.kind));
        }
        match self.kind {
            Kind::File => match (self.size, there.size) {
                (Some(size), Some(now)) if size != now => Some(Detail::Size(size, now)),
                // A file that was not read when it was recorded has only its size.
                _ if self.digest.is_none() => None,
                _ => (self.digest != there.digest).then_some(Detail::Digest(self.digest, there.digest)),
            },
            Kind::Symlink if self.target != there.target => {
                let target = |item: &Self| item.target.clone().unwrap_or_default();
                Some(Detail::Target(target(self), target(there)))
            }
            _ => None,
        }
    }

    /// Encodes the item; never empty.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let has =
            [(self.size.is_some(), SIZE), (self.digest.is_some(), DIGEST), (self.target.is_some(), TARGET)];
        let fields = has.iter().filter(|(is_there, _)| *is_there).fold(0, |fields, (_, bit)| fields | bit);
        let mut out = vec![self.kind as u8, fields];
        out.extend(self.size.into_iter().flat_map(u64::to_le_bytes));
        out.extend(self.digest.into_iter().flatten());
        if let Some(target) = &self.target {
            out.extend((target.len() as u64).to_le_bytes());
            out.extend_from_slice(target);
        }
        out.extend_from_slice(&self.path);
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> io::Result<Self> {
        Self::try_parse(bytes).ok_or_else(|| io::Error::other("what was written came back as something else"))
    }

    fn try_parse(bytes: &[u8]) -> Option<Self> {
        fn number(rest: &mut &[u8]) -> Option<u64> {
            let (bytes, after) = rest.split_first_chunk()?;
            *rest = after;
            Some(u64::from_le_bytes(*bytes))
        }
        let (&[kind, fields], mut rest) = bytes.split_first_chunk()?;
        let kind = *Kind::ALL.get(usize::from(kind))?;
        let size = if fields & SIZE > 0 { Some(number(&mut rest)?) } else { None };
        let mut digest = None;
        if fields & DIGEST > 0 {
            let (bytes, after) = rest.split_first_chunk()?;
            (digest, rest) = (Some(*bytes), after);
        }
        let mut target = None;
        if fields & TARGET > 0 {
            let length = usize::try_from(number(&mut rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            (target, rest) = (Some(bytes.to_vec()), after);
        }
        Some(Self { path: rest.to_vec(), kind, size, digest, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_go_through_bytes_and_back() {
        let fifo = Item { path: Vec::new(), kind: Kind::Fifo, size: None, digest: None, target: None };
        let file = Item {
            path: b"a".to_vec(),
            kind: Kind::File,
            size: Some(1),
            digest: Some([7; 32]),
            target: None,
        };
        let link =
            Item { path: b"b".to_vec(), kind: Kind::Symlink, target: Some(b"to".to_vec()), ..fifo.clone() };
        for item in [file, link, fifo] {
            let bytes = item.to_bytes();
            assert_eq!(Item::parse(&bytes).unwrap(), item);
            assert!(Item::parse(&bytes[..1]).is_err());
        }
    }
}
