//! Queries: those that all ranks ask together, and those of the map, which a rank answers by itself.

use std::ffi::c_int;

use atta_entry::Errno;
use atta_status::{Distribution, MountMap, Status};

use crate::arguments::{Out, Text};
use crate::call::return_code;
use crate::status::distribution::Found;
use crate::status::join::{DISTRIBUTION, GROUPS, Joined, MAP};
use crate::status::mounts::{NO_MOUNT, absolute};
use crate::status::objects::{find, give};
use crate::status::values::{self, Query};

/// Asks all ranks a question about a path.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_status_ask(status: u64, query: c_int, path: Text, answer: Out<c_int>) -> c_int {
    return_code(|| {
        let (answer, query) = (answer.there()?, Query::of(query)?);
        let joined = find::<Joined>(status)?;
        let found = joined.ask(query as u32, path, |status, links, path| match query {
            Query::Fully => status.is_fully_distributed(links, path),
            Query::Well => status.is_well_distributed(links, path),
            Query::Poorly => status.is_poorly_distributed(links, path),
            Query::Unique => status.is_unique(links, path),
            Query::Consistent => status.is_consistent(links, path),
        })?;
        answer.put(values::answer(found));
        Ok(())
    })
}

/// Asks all ranks how a path is distributed.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_status_distribution(status: u64, path: Text, distribution: Out<u64>) -> c_int {
    return_code(|| {
        give(distribution, || {
            let joined = find::<Joined>(status)?;
            let found = joined.ask(DISTRIBUTION, path, Status::distribution)?;
            Ok(Found(found))
        })
    })
}

/// Asks all ranks for all groups with all of their members.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_status_groups(status: u64, path: Text, distribution: Out<u64>) -> c_int {
    return_code(|| {
        give(distribution, || {
            let joined = find::<Joined>(status)?;
            let found = joined.ask(GROUPS, path, Status::groups)?;
            Ok(Found(found))
        })
    })
}

/// Builds a map of the mount points of all ranks.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_map_build(status: u64, map: Out<u64>) -> c_int {
    return_code(|| {
        give(map, || {
            let joined = find::<Joined>(status)?;
            joined.ask_all(MAP, |status, links| MountMap::build(status, links))
        })
    })
}

/// Calls `f` with what a map knows of a path.
fn in_map<T>(map: u64, path: Text, f: impl FnOnce(&Distribution) -> T) -> Result<T, Errno> {
    let (map, path) = (find::<MountMap>(map)?, absolute(path)?);
    map.distribution(path.as_bytes()).map(f).ok_or(NO_MOUNT)
}

/// Answers a question about a path from a map.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_map_ask(map: u64, query: c_int, path: Text, answer: Out<c_int>) -> c_int {
    return_code(|| {
        let (answer, query) = (answer.there()?, Query::of(query)?);
        let found = in_map(map, path, |found| query.answer_of(found))?;
        answer.put(values::answer(found));
        Ok(())
    })
}

/// Returns how a path is distributed, from a map.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_map_distribution(map: u64, path: Text, distribution: Out<u64>) -> c_int {
    return_code(|| give(distribution, || in_map(map, path, |found| Found(found.clone()))))
}
