//! The copy among bad inputs and faults: a test for each row of docs/hazards.md, called after its number. Rows that are tests of the
//! program are in `crates/cli/tests`, some others in `copy.rs`. A test that cannot run here prints a line that begins with `skipped:`.

#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../copying/mod.rs"]
mod copying;
#[path = "../harness/mod.rs"]
mod harness;

mod changes;
mod crash;
mod durable;
mod existing;
mod faults;
mod inherited;
mod lost_replies;
mod owners;
mod places;
mod served;
mod shapes;
mod sizes;
mod space;
mod spelling;
mod verify;
