//! Answers, queries and structures of `atta_status.h`, as the library has them. Their numbers are those of the header.

use std::ffi::c_int;

use atta_entry::Errno;
use atta_mounts::Relation;
use atta_status::{Answer, Descriptor, Distribution, Group, Options};

use crate::sized::Plain;

/// `ATTA_UNKNOWN`; `ATTA_NO` and `ATTA_DIFFERENT` are 0, `ATTA_YES` and `ATTA_SAME` are 1.
const UNKNOWN: c_int = 2;

/// The number of an answer.
pub(crate) const fn answer(answer: Answer) -> c_int {
    match answer {
        Answer::No => 0,
        Answer::Yes => 1,
        Answer::Unknown => UNKNOWN,
    }
}

/// The number of a relation.
pub(crate) const fn relation(relation: Relation) -> c_int {
    match relation {
        Relation::Different => 0,
        Relation::Same => 1,
        Relation::Unknown => UNKNOWN,
    }
}

/// What can be asked of a path. The numbers are also those that ranks compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// `ATTA_IS_FULLY_DISTRIBUTED`.
    Fully = 1,
    /// `ATTA_IS_WELL_DISTRIBUTED`.
    Well = 2,
    /// `ATTA_IS_POORLY_DISTRIBUTED`.
    Poorly = 3,
    /// `ATTA_IS_UNIQUE`.
    Unique = 4,
    /// `ATTA_IS_CONSISTENT`.
    Consistent = 5,
}

impl Query {
    /// The query of a number.
    pub(crate) fn of(number: c_int) -> Result<Self, Errno> {
        let all = [Self::Fully, Self::Well, Self::Poorly, Self::Unique, Self::Consistent];
        all.into_iter().find(|query| *query as c_int == number).ok_or(Errno::INVAL)
    }

    /// The answer that follows from what is known of a path, without its contents.
    pub(crate) fn answer_of(self, found: &Distribution) -> Answer {
        match self {
            Self::Fully => found.is_fully_distributed(),
            Self::Well => found.is_well_distributed(),
            Self::Poorly => found.is_poorly_distributed(),
            Self::Unique => found.is_unique(),
            Self::Consistent if found.is_unique() == Answer::Yes => Answer::Yes,
            Self::Consistent => Answer::Unknown,
        }
    }
}

/// `struct atta_status_options`. Zero selects the default in every field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttaStatusOptions {
    size: usize,
    ranks_per_server: u32,
    classes_max: u32,
    servers_max: u32,
    assume_servers_differ: u32,
}

impl AttaStatusOptions {
    /// The same options for the queries.
    pub(crate) fn options(self) -> Result<Options, Errno> {
        if self.assume_servers_differ > 1 {
            return Err(Errno::INVAL);
        }
        let default = Options::default();
        let or = |given, default| if given == 0 { default } else { given };
        Ok(Options {
            ranks_per_server: or(self.ranks_per_server, default.ranks_per_server),
            classes_max: or(self.classes_max, default.classes_max),
            servers_max: or(self.servers_max, default.servers_max),
            assume_servers_differ: self.assume_servers_differ == 1,
        })
    }
}

/// `struct atta_groups`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttaGroups {
    size: usize,
    low: u32,
    high: u32,
    is_estimate: u32,
    listed: u32,
}

impl AttaGroups {
    pub(crate) fn of(found: &Distribution) -> Self {
        let groups = found.groups();
        Self {
            size: 0,
            low: groups.low,
            high: groups.high,
            is_estimate: u32::from(groups.is_estimate),
            listed: found.list().len() as u32,
        }
    }
}

/// `struct atta_group`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttaGroup {
    size: usize,
    ranks: u32,
    listed: u32,
    representative: u32,
    is_certain: u32,
}

impl AttaGroup {
    pub(crate) fn of(group: &Group) -> Self {
        Self {
            size: 0,
            ranks: group.size,
            // No more than `ranks`.
            listed: u32::try_from(group.members.len()).unwrap_or(u32::MAX),
            representative: group.members.first().unwrap_or_default(),
            is_certain: u32::from(group.is_certain),
        }
    }
}

/// `struct atta_descriptor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttaDescriptor {
    size: usize,
    groups: u32,
    group: u32,
    ranks: u32,
    representative: u32,
    rank_in_group: i64,
    is_certain: u32,
    unused: u32,
}

impl AttaDescriptor {
    pub(crate) fn of(found: &Descriptor) -> Self {
        Self {
            size: 0,
            groups: found.groups,
            group: found.group,
            ranks: found.size,
            representative: found.representative,
            rank_in_group: found.rank_in_group.and_then(|rank| i64::try_from(rank).ok()).unwrap_or(-1),
            is_certain: u32::from(found.is_certain),
            unused: 0,
        }
    }
}

// SAFETY: it is `repr(C)`, begins with its size, and takes any values.
unsafe impl Plain for AttaStatusOptions {}
// SAFETY: as above.
unsafe impl Plain for AttaGroups {}
// SAFETY: as above.
unsafe impl Plain for AttaGroup {}
// SAFETY: as above.
unsafe impl Plain for AttaDescriptor {}

/// The header asserts these sizes, too.
const _: () = assert!(size_of::<AttaStatusOptions>() == 24);
const _: () = assert!(size_of::<AttaGroups>() == 24);
const _: () = assert!(size_of::<AttaGroup>() == 24);
const _: () = assert!(size_of::<AttaDescriptor>() == 40);
