//! The program at its command line: what it prints, writes and exits with, on trees that any file system can hold.
//! What needs a mount is in `tests/fs`.

#![expect(clippy::disallowed_methods, reason = "a test looks at trees that it made itself")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and clippy takes its helpers for no tests"
)]

#[path = "../support/mod.rs"]
mod support;

mod bcast;
mod catalog;
mod copy;
mod copy_target;
mod descriptors;
mod errors;
mod hostile;
mod interrupts;
mod job_in_target;
mod kills;
mod launch;
mod leftovers;
mod lists;
mod manifest;
mod output;
mod paths;
mod repair;
mod resume;
mod resume_catalog;
mod resume_copy;
mod resume_sum;
mod resume_verify;
mod rows;
mod selection;
mod simulate;
mod snapshots;
mod starts;
mod sum;
mod terminal;
mod tuning;
mod unread;
mod verify;
mod where_is;
