//! What a directory that is being read comes to so far. No I/O.

/// What is known of a directory that is being read, beside its names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Names that the rules exclude and that have not been counted.
    pub(crate) excluded: u64,
    /// How often names were read.
    pub(crate) turn: u64,
    /// Reading it failed, or some name was not valid.
    pub(crate) has_failed: bool,
}
