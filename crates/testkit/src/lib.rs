//! What the tests of every crate share: hostile trees, a slow and obvious walk to compare with, directories that
//! change while they are read, and file systems that are slow or fail. For tests only: nothing here is part of the
//! program, and nothing here shares code with what it tests.
//!
//! | module | holds |
//! | --- | --- |
//! | [`scratch`] | a directory that is removed whatever was put into it |
//! | [`automounts`] | directories that become mounts when they are entered |
//! | [`mounts`] | tmpfs, loop images and overlays that are unmounted again |
//! | [`disk`] | a disk that dies |
//! | [`recorded`] | a disk that records its writes, and what a power cut leaves of it |
//! | [`trees`] | builders of hostile trees |
//! | [`oracle`] | the walk that results are compared with |
//! | [`corrupt`] | silent changes of bytes in files |
//! | [`churn`] | threads that change a tree during a walk |
//! | [`owner`] | the owner of a directory who wants to read what others put there |
//! | [`slow`] | file systems with latency and faults, in a process of their own: up to 10^7 files and more, or any directory |
//! | [`hosts`] | several hosts on one machine |
//! | [`lock`] | one test at a time, across test programs |
//! | [`mpi`] | real ranks under the MPIs that are installed |
//! | [`skip`] | one way to say that a test could not run here |
//! | [`random`] | numbers that depend on a seed alone |
//! | [`fuzz`] | decoders under random and damaged bytes |
//! | [`allocations`] | an allocator that counts |

pub mod allocations;
pub mod automounts;
pub mod churn;
pub mod corrupt;
pub mod disk;
pub mod fuzz;
pub mod hosts;
pub mod lock;
pub mod mounts;
pub mod mpi;
pub mod oracle;
pub mod owner;
pub mod random;
pub mod recorded;
mod removal;
pub mod scratch;
pub mod skip;
pub mod slow;
mod target;
pub mod trees;
