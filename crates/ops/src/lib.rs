//! What a user asks for, written as task handlers on the runtime's pool: walk a tree, copy one, compare two, sum one up, generate
//! one.
//!
//! Each operation is a library of its own: it prints nothing, parses no arguments and handles no signals. What it
//! finds goes to a callback; what fails on one entry is data for the report and never stops the run.

pub mod bcast;
pub mod clean;
pub mod copy;
pub mod descriptors;
pub mod digest;
mod file;
#[cfg(test)]
mod fuzz;
pub mod generate;
pub mod inject;
mod jobs;
mod large;
mod metadata;
mod plain;
mod refused;
pub mod resume;
pub mod sorted;
pub mod sum;
mod tree;
pub mod trees;
pub mod underway;
pub mod verify;
pub mod walk;
