//! The program on file systems of their own: slow and failing ones, full ones, mounts inside mounts, GlusterFS. Each
//! test that cannot have its file system here says so in a line that begins with `skipped:`.

#![expect(clippy::disallowed_methods, reason = "a test looks at trees that it made itself")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and clippy takes its helpers for no tests"
)]

#[path = "../support/mod.rs"]
mod support;

mod full_disk;
mod glusterfs;
mod leftovers;
mod mounts;
mod open_names;
mod power_cut;
mod signals;
mod slow;
mod two_clients;
mod where_is;
