//! What is to be copied, and where: arguments and lists of entries, a rehearsal without writing, a repair from a list of differences, and
//! other copies into the same place.

pub(crate) mod beside;
pub(crate) mod listed;
pub(crate) mod rehearsal;
pub(crate) mod repair;
pub(crate) mod roots;
pub(crate) mod unfinished;
