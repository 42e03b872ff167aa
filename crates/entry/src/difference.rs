//! Differences of two trees at one name: data for the report. No I/O.

use std::borrow::Cow;

use crate::{Kind, Timestamp};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbered_in_their_order_and_have_names_of_their_own() {
        assert!(Field::ALL.iter().enumerate().all(|(number, field)| *field as usize == number));
        let names: std::collections::BTreeSet<_> = Field::ALL.iter().map(|field| field.name()).collect();
        assert_eq!(names.len(), Field::ALL.len());
    }
}
