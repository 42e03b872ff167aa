//! What a copy with a log of its job does beside copying: it notes what is on storage, looks again at what earlier runs have completed, and prepares
//! what they have not.

pub(crate) mod finished;
pub(crate) mod large;
mod missing;
pub(crate) mod noting;
pub(crate) mod redone;
