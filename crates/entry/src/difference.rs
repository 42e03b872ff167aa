//! Differences of two trees at one name: data for the report, and as bytes for another rank. No I/O.

use std::borrow::Cow;

use crate::{Code, Kind, Timestamp, encode_bytes};

/// An aspect of an entry that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Field {
    /// The kind of the entry.
    Type = 0,
    /// Bytes of a file.
    Size = 1,
    /// Permission bits, set-id bits and the sticky bit.
    Mode = 2,
    /// Owner and group.
    Owner = 3,
    /// Modification time of the content.
    Mtime = 4,
    /// Extended attributes, access lists and capabilities among them.
    Xattrs = 5,
    /// Target of a symbolic link.
    Target = 6,
    /// The names that belong to one file.
    Links = 7,
    /// The device of a device file.
    Device = 8,
    /// The bytes of a file.
    Content = 9,
}

impl Field {
    /// Every field, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Type,
        Self::Size,
        Self::Mode,
        Self::Owner,
        Self::Mtime,
        Self::Xattrs,
        Self::Target,
        Self::Links,
        Self::Device,
        Self::Content,
    ];

    /// The word for it in records and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Size => "size",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Mtime => "mtime",
            Self::Xattrs => "xattrs",
            Self::Target => "target",
            Self::Links => "links",
            Self::Device => "device",
            Self::Content => "content",
        }
    }
}

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The model.
    Source,
    /// The tree that should be the same.
    Target,
}

/// A field that differs; if it has two values, the source's comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Kinds.
    Type(Kind, Kind),
    /// Bytes of a file.
    Size(u64, u64),
    /// Modes, without the type.
    Mode(u32, u32),
    /// Owners and groups.
    Owner((u32, u32), (u32, u32)),
    /// Modification times.
    Mtime(Timestamp, Timestamp),
    /// Names of extended attributes that only one side has, or whose values differ.
    Xattrs(Vec<Vec<u8>>),
    /// Targets of a symbolic link.
    Target(Vec<u8>, Vec<u8>),
    /// The name belongs to one file with another name, on one side only; the other's path below the root.
    Links(Side, Vec<u8>),
    /// Device numbers: major in the upper, minor in the lower 32 bits.
    Device(u64, u64),
    /// Content: the number of equal bytes at the beginning.
    Content(u64),
    /// Content by its digests; the offset of the difference is unknown. `None` for a side without a digest.
    Digest(Option<[u8; 32]>, Option<[u8; 32]>),
}

impl Detail {
    /// The field.
    #[must_use]
    pub const fn field(&self) -> Field {
        match self {
            Self::Type(..) => Field::Type,
            Self::Size(..) => Field::Size,
            Self::Mode(..) => Field::Mode,
            Self::Owner(..) => Field::Owner,
            Self::Mtime(..) => Field::Mtime,
            Self::Xattrs(..) => Field::Xattrs,
            Self::Target(..) => Field::Target,
            Self::Links(..) => Field::Links,
            Self::Device(..) => Field::Device,
            Self::Content(..) | Self::Digest(..) => Field::Content,
        }
    }
}

/// How two trees differ at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The target does not have it.
    Missing,
    /// Only the target has it.
    Extra,
    /// Both have it, and these fields differ.
    Different(Vec<Detail>),
}

impl Change {
    /// The word for it in records and messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Different(_) => "different",
        }
    }

    /// The fields that differ; empty for a name that only one side has.
    #[must_use]
    pub fn details(&self) -> &[Detail] {
        match self {
            Self::Different(details) => details,
            Self::Missing | Self::Extra => &[],
        }
    }
}

/// A name at which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The path below the roots; empty for the roots themselves.
    pub path: Cow<'a, [u8]>,
    /// The kind in the source, or in the target if the source does not have it.
    pub kind: Kind,
    /// The difference.
    pub change: Change,
}

impl Code for Side {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self == Self::Source).encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(if bool::decode(bytes)? { Self::Source } else { Self::Target })
    }
}

impl Detail {
    /// The number of the variant, as a byte.
    const fn tag(&self) -> u8 {
        match self {
            Self::Digest(..) => Field::ALL.len() as u8,
            other => other.field() as u8,
        }
    }
}

impl Code for Detail {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
        match self {
            Self::Type(one, other) => (*one, *other).encode(out),
            Self::Size(one, other) | Self::Device(one, other) => (*one, *other).encode(out),
            Self::Mode(one, other) => (*one, *other).encode(out),
            Self::Owner(one, other) => (*one, *other).encode(out),
            Self::Mtime(one, other) => (*one, *other).encode(out),
            Self::Xattrs(names) => names.encode(out),
            Self::Target(one, other) => {
                one.encode(out);
                other.encode(out);
            }
            Self::Links(side, path) => {
                side.encode(out);
                path.encode(out);
            }
            Self::Content(equal) => equal.encode(out),
            Self::Digest(one, other) => (*one, *other).encode(out),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        fn two<T: Code, D>(bytes: &mut &[u8], make: impl FnOnce(T, T) -> D) -> Option<D> {
            Some(make(T::decode(bytes)?, T::decode(bytes)?))
        }
        let tag = usize::from(u8::decode(bytes)?);
        match Field::ALL.get(tag) {
            None if tag == Field::ALL.len() => two(bytes, Self::Digest),
            None => None,
            Some(Field::Type) => two(bytes, Self::Type),
            Some(Field::Size) => two(bytes, Self::Size),
            Some(Field::Mode) => two(bytes, Self::Mode),
            Some(Field::Owner) => two(bytes, Self::Owner),
            Some(Field::Mtime) => two(bytes, Self::Mtime),
            Some(Field::Xattrs) => Some(Self::Xattrs(Code::decode(bytes)?)),
            Some(Field::Target) => two(bytes, Self::Target),
            Some(Field::Links) => Some(Self::Links(Code::decode(bytes)?, Code::decode(bytes)?)),
            Some(Field::Device) => two(bytes, Self::Device),
            Some(Field::Content) => Some(Self::Content(Code::decode(bytes)?)),
        }
    }
}

crate::choice!(Change {
    0 => Missing,
    1 => Extra,
    2 => Different(details),
});

impl Code for Difference<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(&self.path, out);
        self.kind.encode(out);
        self.change.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let path = Vec::decode(bytes)?.into();
        Some(Self { path, kind: Code::decode(bytes)?, change: Code::decode(bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbered_in_order_with_unique_names() {
        assert!(Field::ALL.iter().enumerate().all(|(number, field)| *field as usize == number));
        let names: std::collections::BTreeSet<_> = Field::ALL.iter().map(|field| field.name()).collect();
        assert_eq!(names.len(), Field::ALL.len());
    }

    #[test]
    fn differences_survive_being_bytes() {
        let time = |seconds| Timestamp { seconds, nanoseconds: 999_999_999 };
        let details = vec![
            Detail::Type(Kind::File, Kind::Fifo),
            Detail::Size(0, u64::MAX),
            Detail::Mode(0o777, 0o4755),
            Detail::Owner((0, 1), (2, u32::MAX)),
            Detail::Mtime(time(-1), time(i64::MAX)),
            Detail::Xattrs(vec![b"user.\xff".to_vec(), Vec::new()]),
            Detail::Target(b"a".to_vec(), Vec::new()),
            Detail::Links(Side::Source, b"x/y".to_vec()),
            Detail::Links(Side::Target, Vec::new()),
            Detail::Device(1 << 32, 7),
            Detail::Content(12),
            Detail::Digest(None, Some([7; 32])),
        ];
        for change in [Change::Missing, Change::Extra, Change::Different(details)] {
            let difference = Difference { path: b"a/\xff\n"[..].into(), kind: Kind::Socket, change };
            let bytes = difference.encoded();
            assert_eq!(Difference::decode_all(&bytes), Some(difference));
            for end in 0..bytes.len() {
                assert_eq!(Difference::decode_all(&bytes[..end]), None, "{end} bytes");
            }
        }
        assert_eq!(Detail::decode_all(&[Field::ALL.len() as u8 + 1]), None);
    }
}
