//! What the copy creates in the target: directories, files and special files, and how existing entries are treated.

pub(crate) mod directories;
pub(crate) mod existing;
pub(crate) mod file;
pub(crate) mod grants;
pub(crate) mod mirror;
pub(crate) mod open;
pub(crate) mod place;
pub(crate) mod special;
pub(crate) mod spelling;
pub(crate) mod stripe;
