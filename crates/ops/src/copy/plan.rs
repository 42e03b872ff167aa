//! What to copy, and where: arguments, lists of entries, dry runs, repairs from a list of differences, and other copies to the same
//! target.

pub(crate) mod beside;
pub(crate) mod listed;
pub(crate) mod marker;
pub(crate) mod rehearsal;
pub(crate) mod repair;
pub(crate) mod roots;
pub(crate) mod unfinished;
