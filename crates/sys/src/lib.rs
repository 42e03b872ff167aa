//! System calls as `atta-ops` needs them: relative to a descriptor, without following links, repeated where that is correct. It decides
//! nothing and knows no trees.
//!
//! Everything here exists since Linux 4.18, the oldest kernel that atta runs on; newer calls have a fallback ([`Features`]).
//! `raw` is the one module with unsafe code.

pub mod at;
pub mod blocked;
pub mod data;
pub mod descriptors;
pub mod file_systems;
#[cfg(test)]
mod fuzz;
mod listing;
pub mod locks;
pub mod mount_line;
mod open;
pub mod quota;
mod raw;
mod removal;
mod retry;
mod stat;

pub use at::NameAt;
pub use listing::{any_name, has_name, kind_of, names_of, other_spelling};
pub use open::{
    link_of, open_directory_at, open_directory_path, open_name_at, open_path_at, read_link_at, real_path,
};
pub use removal::{remove_empty, until_empty};
pub use retry::retry;
pub use stat::{
    Features, Place, is_name_of, may_be_mount, place_of, stat_at, stat_descriptor, stat_of, stat_path,
};
