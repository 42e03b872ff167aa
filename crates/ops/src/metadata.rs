//! What an entry has beside its bytes: owner, mode, times, extended attributes, ACLs. How it is read, given, compared, and which of it
//! is kept. A module here imports only those before it in this list.

pub(crate) mod differences;
pub(crate) mod extended;
pub(crate) mod give;
pub(crate) mod granularity;
pub(crate) mod inherited;
pub(crate) mod keep;
pub(crate) mod named;
pub(crate) mod not_kept;
mod owners;
mod pattern;
