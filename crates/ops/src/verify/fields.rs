//! The fields to compare, and the comparison of fields that the metadata holds. No I/O.

use std::time::Duration;

use atta_entry::{Detail, Field, Kind, Metadata, Timestamp};

/// A set of fields. It always includes the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(u16);

impl Default for Fields {
    /// All fields that a copy keeps and that need no file reads: all but [`Field::Content`].
    fn default() -> Self {
        let all = Field::ALL.into_iter().filter(|field| *field != Field::Content);
        all.fold(Self::NONE, Self::with)
    }
}

impl Fields {
    /// The type only.
    pub const NONE: Self = Self(0);

    /// Adds a field.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u16)
    }

    /// Whether a field is compared.
    #[must_use]
    pub const fn has(self, field: Field) -> bool {
        matches!(field, Field::Type) || self.0 & (1 << field as u16) != 0
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        fields.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Returns the differences between the metadata of two entries of one type.
pub(crate) fn differing(fields: Fields, window: Duration, one: &Metadata, other: &Metadata) -> Vec<Detail> {
    let kind = one.kind();
    let modes = (one.mode & 0o7777, other.mode & 0o7777);
    let owners = ((one.uid, one.gid), (other.uid, other.gid));
    let mut found = Vec::new();
    let mut note = |differs: bool, detail: Detail| {
        if differs && fields.has(detail.field()) {
            found.push(detail);
        }
    };
    // The size of a directory depends on the file system, and the size of a link is that of its target.
    note(kind == Kind::File && one.size != other.size, Detail::Size(one.size, other.size));
    // The mode of a link has no meaning.
    note(kind != Kind::Symlink && modes.0 != modes.1, Detail::Mode(modes.0, modes.1));
    note(owners.0 != owners.1, Detail::Owner(owners.0, owners.1));
    note(!is_near(one.mtime, other.mtime, window), Detail::Mtime(one.mtime, other.mtime));
    found
}

fn is_near(one: Timestamp, other: Timestamp, window: Duration) -> bool {
    one == other || one.as_nanoseconds().abs_diff(other.as_nanoseconds()) <= window.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_always_the_type() {
        let set: Fields = [Field::Size, Field::Content].into_iter().collect();
        let has = |field: &Field| set.has(*field);
        let held: Vec<_> = Field::ALL.into_iter().filter(has).collect();
        assert_eq!(held, [Field::Type, Field::Size, Field::Content]);
        assert!(Field::ALL.iter().all(|field| Fields::default().has(*field) == (*field != Field::Content)));
    }

    #[test]
    fn times_within_the_window_are_the_same() {
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let (one, other) = (time(-1, 999_999_999), time(0, 1));
        for (nanoseconds, same) in [(0, false), (1, false), (2, true), (1_000_000_000, true)] {
            assert_eq!(is_near(one, other, Duration::from_nanos(nanoseconds)), same);
            assert_eq!(is_near(other, one, Duration::from_nanos(nanoseconds)), same);
        }
        assert!(is_near(one, one, Duration::ZERO));
        assert!(!is_near(time(i64::MIN, 0), time(i64::MAX, 0), Duration::MAX / 1_000_000_000));
    }

    #[test]
    fn sizes_are_those_of_files_and_links_have_no_mode() {
        let of = |mode, size| Metadata { mode, size, ..Metadata::default() };
        let found = |one, other| differing(Fields::default(), Duration::ZERO, &one, &other);
        assert_eq!(found(of(0o40755, 1), of(0o40755, 2)), []);
        assert_eq!(found(of(0o120_777, 1), of(0o120_755, 2)), []);
        assert_eq!(
            found(of(0o100_644, 1), of(0o104_644, 2)),
            [Detail::Size(1, 2), Detail::Mode(0o644, 0o4644)]
        );
        let none = differing(Fields::NONE, Duration::ZERO, &of(0o100_644, 1), &of(0o100_600, 2));
        assert_eq!(none, []);
    }
}
