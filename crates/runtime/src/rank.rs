//! A process as one of several ranks. [`Session`](session::Session) is what the rest of the program sees.

pub mod conformance;

pub(crate) mod agree;
pub(crate) mod drive;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod link;
pub(crate) mod local;
pub(crate) mod meet;
pub(crate) mod mirror;
pub(crate) mod network;
pub(crate) mod outbox;
pub(crate) mod relay;
pub(crate) mod session;
pub(crate) mod wait;
pub(crate) mod within;
pub(crate) mod writer;
