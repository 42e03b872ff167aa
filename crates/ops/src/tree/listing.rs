//! Reads one directory: its names, their metadata, and the targets of links.

pub(crate) mod descriptor_cache;
pub(crate) mod facts;
pub(crate) mod link;
pub(crate) mod look;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod read;
pub(crate) mod reading;
pub(crate) mod rules;
