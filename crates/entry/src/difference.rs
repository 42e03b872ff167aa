//! What two trees do not have in common at one name: data for the report. No I/O.

use std::borrow::Cow;

use crate::{Kind, Timestamp};

/// What is compared of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Field {
    /// Which kind of entry it is.
    Type = 0,
    /// Bytes of a file.
    Size = 1,
    /// Permission bits, set-id bits and the sticky bit.
    Mode = 2,
    /// Owner and group.
    Owner = 3,
    /// Time of the last change of the content.
    Mtime = 4,
    /// Extended attributes, access lists and capabilities among them.
    Xattrs = 5,
    /// Where a symbolic link leads.
    Target = 6,
    /// Which names are one file.
    Links = 7,
    /// Which device a device file stands for.
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
    /// The one that is the model.
    Source,
    /// The one that is to be the same.
    Target,
}

/// A field that is not the same; where it has two values, the source's comes first.
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
    /// Times of the last change.
    Mtime(Timestamp, Timestamp),
    /// Names of extended attributes that one side alone has, or that have other values.
    Xattrs(Vec<Vec<u8>>),
    /// Targets of a symbolic link.
    Target(Vec<u8>, Vec<u8>),
    /// It is one file with another name, whose path below the root is this, on one side alone.
    Links(Side, Vec<u8>),
    /// Device numbers: major in the upper, minor in the lower 32 bits.
    Device(u64, u64),
    /// Bytes: so many at the beginning are the same.
    Content(u64),
    /// Bytes, by their digests; where they came from nothing is known. None: a side has no digest.
    Digest(Option<[u8; 32]>, Option<[u8; 32]>),
}

impl Detail {
    /// Which field it is.
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
    /// The target alone has it.
    Extra,
    /// Both have it, with these fields not the same.
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

    /// The fields that are not the same; none for a name that one side alone has.
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
    /// What the source has there, or the target if the source has nothing.
    pub kind: Kind,
    /// What differs.
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
