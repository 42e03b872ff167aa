//! Which ranks see the same file under a path, and what follows from that: is it on one server, on few, on many, on every host by itself,
//! and are its copies equal. Built on the global names of `atta-mounts` and on any [`Collective`]. It makes no system call on a path, but
//! for consistency, which reads files where names do not decide. It writes nothing.
//!
//! ```text
//!   path ──▶ Uri ──▶ Seen ──── reduce: sorted runs of classes ───▶ first rank: Verdict ── broadcast ──▶ Distribution
//!        (mounts)     │                                                                                    │ yes, no, unknown
//!                     └─ too many classes ▶ Filter ── reduce ──▶ estimate ── broadcast ────────────────────┘
//! ```
//!
//! ```text
//!   collective.rs    what ranks must be able to do together       ranks.rs       sets of ranks
//!   class.rs         runs of classes, merged on the way up        seen.rs        what one reduction gathers of a path
//!   verdict.rs       what the first rank concludes                filter.rs      Bloom filter that estimates a number
//!   distribution.rs  answers and the descriptor of a rank         status.rs      synchronous queries
//!   mount_map.rs     queries without a message                    consistency.rs digests, where names do not decide
//!   options.rs       what a caller may choose                     contents.rs    sizes and digests of files
//!   sameness.rs      whether ranks may share the work of a path
//!   inspection.rs    what ranks find under a path, compared       evidence.rs    what one rank finds
//!   places.rs        which mounts suit what a job writes          measure.rs     speed of a directory
//!   saved_map.rs     a map in a file, for programs without ranks  speeds.rs      speeds that were measured, in a file
//!   sealed.rs        small files with a checksum                  in_time.rs     questions that may have no answer
//!   sources.rs       who reads a file for whom                    source_file.rs a file that is read for others
//!   spread.rs        a file's contents on many ranks
//! ```
//!
//! ```
//! use atta_mounts::{Host, MountTable, Silent};
//! use atta_status::{Alone, Answer, Options, Status};
//!
//! let text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
//!              36 21 0:40 / /home rw - nfs4 server:/home rw,addr=192.0.2.7\n";
//! let table = MountTable::from_bytes(text, &Silent::on(Host::new(b"boot", b"node1"))).unwrap();
//! let status = Status::join(&mut Alone, &table, Options::default()).unwrap();
//! let home = status.distribution(&mut Alone, b"/home/me").unwrap();
//! assert_eq!((home.is_unique(), home.is_fully_distributed()), (Answer::Yes, Answer::No));
//! ```

#![forbid(unsafe_code)]

mod class;
mod collective;
mod consistency;
mod contents;
mod distribution;
mod error;
mod evidence;
mod filter;
mod in_time;
mod inspection;
mod measure;
mod mount_map;
mod options;
mod places;
mod ranks;
mod sameness;
mod saved_map;
mod sealed;
mod seen;
mod source_file;
mod sources;
mod speeds;
mod spread;
mod status;
mod verdict;

#[cfg(test)]
mod fuzz;

pub use atta_runtime::Shape;
pub use collective::{Alone, Collective};
pub use contents::{Contents, Digest, SystemContents};
pub use distribution::{Answer, Descriptor, Distribution};
pub use error::StatusError;
pub use evidence::{Detail, Evidence, Looks, Sighting, Space, SystemLooks};
pub use filter::{Estimate, Filter};
pub use inspection::{Finding, Inspection, inspect};
pub use measure::{Speed, measure, measure_in_time};
pub use mount_map::MountMap;
pub use options::Options;
pub use places::{
    DistributionRequirement, InvalidRequirement, NoRoom, Place, PlaceSpeed, Quota, Requirements, Room, Rooms,
    ScalabilityRequirement, Search, SpeedRequirement, SystemRooms, Tightest, Unmet, candidates, mount_name,
    own_sources, places,
};
pub use ranks::Ranks;
pub use sameness::{Differing, Sameness, View, sameness};
pub use saved_map::SavedMap;
pub use sealed::SealedError;
pub use source_file::{Facts, Files, SourceFile, SystemFiles};
pub use sources::Sources;
pub use speeds::{Measured, Speeds};
pub use spread::{ReadError, Received};
pub use status::Status;
pub use verdict::{Group, Groups};
