//! Which file systems suit what a job writes: requirements and places as structures of the header, and the search. The ranking is that of
//! `atta-status`.

use std::ffi::{CString, c_char, c_int};
use std::time::Duration;

use atta_entry::Errno;
use atta_status::{
    DistributionRequirement, MountMap, Place, Requirements, ScalabilityRequirement, Search, SpeedRequirement,
    SystemRooms, Unmet, places,
};

use crate::arguments::{Given, Out};
use crate::call::return_code;
use crate::sized::{self, Plain};
use crate::status::join::{Joined, PLACES};
use crate::status::objects::{c_text, find, give};
use crate::status::speeds;

/// `struct atta_requirements`. Zero wants nothing, in every field.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttaRequirements {
    size: usize,
    space_each: u64,
    space_total: u64,
    space_to_free: u64,
    speed: u32,
    distribution: u32,
    scalability: u32,
    is_writable: u32,
    wait_ms: u32,
    unused: u32,
}

/// `struct atta_place`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttaPlace {
    size: usize,
    point: *const c_char,
    kind: *const c_char,
    uri: *const c_char,
    score: f64,
    need: u64,
    available: u64,
    measured: u64,
    tightest_rank: u32,
    sources: u32,
    rating: u32,
    scalability: u32,
    unmet: u32,
    unmet_errno: i32,
    unmet_rank: i64,
    is_read: u32,
    is_quota_read: u32,
}

// SAFETY: it is `repr(C)`, begins with its size, and takes any values.
unsafe impl Plain for AttaRequirements {}
// SAFETY: as above; pointers are not followed here.
unsafe impl Plain for AttaPlace {}

/// The header asserts these sizes, too.
const _: () = assert!(size_of::<AttaRequirements>() == 56);
const _: () = assert!(size_of::<AttaPlace>() == 104);

/// How long file systems may take to answer, unless the program says something else.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);

/// The value of a number of the header, from 1; 0: none.
fn one_of<T: Copy>(number: u32, all: &[T]) -> Result<Option<T>, Errno> {
    let Some(at) = number.checked_sub(1) else { return Ok(None) };
    all.get(at as usize).copied().map(Some).ok_or(Errno::INVAL)
}

impl AttaRequirements {
    fn requirements(&self) -> Result<Requirements, Errno> {
        use DistributionRequirement as Distribution;
        if self.unused != 0 || self.is_writable > 1 {
            return Err(Errno::INVAL);
        }
        let distributions = [Distribution::Unique, Distribution::Low, Distribution::High, Distribution::Full];
        let scalabilities = [ScalabilityRequirement::Single, ScalabilityRequirement::Multi];
        Ok(Requirements {
            space_each: self.space_each,
            space_total: self.space_total,
            space_to_free: self.space_to_free,
            speed: one_of(self.speed, &[SpeedRequirement::Low, SpeedRequirement::High])?,
            distribution: one_of(self.distribution, &distributions)?,
            scalability: one_of(self.scalability, &scalabilities)?,
            writable: self.is_writable != 0,
        })
    }

    fn rooms(&self) -> SystemRooms {
        let wait = Duration::from_millis(self.wait_ms.into());
        SystemRooms { wait_max: if wait.is_zero() { WAIT_DEFAULT } else { wait } }
    }
}

/// Places of a program, with their texts.
struct Places(Vec<ShownPlace>);

struct ShownPlace {
    place: Place,
    point: CString,
    kind: CString,
    uri: CString,
}

impl ShownPlace {
    fn new(place: Place) -> Self {
        let (point, kind, uri) = (c_text(&place.point), c_text(&place.kind), c_text(place.uri.as_bytes()));
        Self { place, point, kind, uri }
    }

    fn shown(&self) -> AttaPlace {
        let Place { sources, tightest, is_quota_read, speed, scalability, score, unmet, .. } = &self.place;
        let at_rank = unmet.iter().find_map(|unmet| whose(*unmet));
        AttaPlace {
            size: 0,
            point: self.point.as_ptr(),
            kind: self.kind.as_ptr(),
            uri: self.uri.as_ptr(),
            score: *score,
            need: tightest.map_or(0, |tightest| tightest.need),
            available: tightest.map_or(0, |tightest| tightest.available),
            measured: speed.measured.unwrap_or_default(),
            tightest_rank: tightest.map_or(0, |tightest| tightest.rank),
            sources: *sources,
            rating: speed.rating,
            scalability: *scalability,
            unmet: unmet.iter().fold(0, |all, unmet| all | flag(*unmet)),
            unmet_errno: at_rank.map_or(0, |(_, errno)| errno.0),
            unmet_rank: at_rank.map_or(-1, |(rank, _)| rank.into()),
            is_read: u32::from(tightest.is_some()),
            is_quota_read: u32::from(*is_quota_read),
        }
    }
}

/// The flag of the header.
const fn flag(unmet: Unmet) -> u32 {
    match unmet {
        Unmet::Space => 1,
        Unmet::Speed => 2,
        Unmet::Distribution => 4,
        Unmet::DistributionUnknown => 8,
        Unmet::Scalability => 16,
        Unmet::ReadOnly { .. } => 32,
        Unmet::NotWritable { .. } => 64,
        Unmet::Unreadable { .. } => 128,
        Unmet::NoAnswer { .. } => 256,
    }
}

/// The rank that has a reason, and its error.
const fn whose(unmet: Unmet) -> Option<(u32, Errno)> {
    match unmet {
        Unmet::ReadOnly { rank } => Some((rank, Errno::ROFS)),
        Unmet::NotWritable { rank, errno } | Unmet::Unreadable { rank, errno } => Some((rank, errno)),
        Unmet::NoAnswer { rank } => Some((rank, Errno(libc::ETIMEDOUT))),
        _ => None,
    }
}

/// Asks all ranks for places.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_places_find(
    status: u64,
    map: u64,
    speeds: u64,
    wanted: Given<AttaRequirements>,
    found: Out<u64>,
) -> c_int {
    return_code(|| {
        give(found, || {
            let (joined, map) = (find::<Joined>(status)?, find::<MountMap>(map)?);
            let (wanted, speeds) = (sized::read(wanted)?, speeds::of(speeds)?);
            let (requirements, rooms) = (wanted.requirements()?, wanted.rooms());
            let search = Search { requirements, speeds: &speeds, rooms: &rooms };
            let all = joined.ask_all(PLACES, |status, links| places(status, links, &map, &search))?;
            Ok(Places(all.into_iter().map(ShownPlace::new).collect()))
        })
    })
}

/// Returns how many places there are.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_places_count(places: u64, count: Out<usize>) -> c_int {
    return_code(|| {
        let count = count.there()?;
        count.put(find::<Places>(places)?.0.len());
        Ok(())
    })
}

/// Describes a place.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_places_get(places: u64, number: usize, place: Out<AttaPlace>) -> c_int {
    return_code(|| {
        let place = place.there()?;
        let places = find::<Places>(places)?;
        sized::write(place, places.0.get(number).ok_or(Errno::INVAL)?.shown())
    })
}
