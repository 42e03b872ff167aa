//! File-system queries: which mounts suit what a job wants to write, and which is best. Ahn et al. 2013 (FGFS), section III.F. It asks each
//! file system once for its space, by one rank of those that share it, and writes nothing but the file with which a rank checks that it may
//! write. It measures no speed; `measure.rs` does.
//!
//! ```text
//!   each rank: its mounts, need, speeds ─ reduce ─▶ first rank: who looks, need of each source ─ broadcast ─▶
//!   one rank of each source: space, quota, may it write ─ reduce ─▶ first rank: unmet requirements, score ─ broadcast ─▶ Vec<Place>
//! ```
//!
//! A *source* is a file system as the ranks that share it see it: one for an export that all ranks mount, one on each host for its disk.

mod candidates;
mod needs;
mod place;
mod ranking;
mod requirements;
mod room;
mod search;

pub use atta_sys::quota::Quota;
pub use candidates::{candidates, mount_name};
pub use place::{Place, PlaceSpeed, Tightest, Unmet};
pub use requirements::{
    DistributionRequirement, InvalidRequirement, Requirements, ScalabilityRequirement, SpeedRequirement,
};
pub use room::{NoRoom, Room, Rooms, SystemRooms};
pub use search::{Search, own_sources, places};

#[cfg(test)]
pub(crate) mod fuzz;
