//! Code that commands share: the session with other ranks, messages and exit codes, files, failures, starts, progress, events, signals,
//! the catalog that a command writes, counters in summaries. None of it imports a command.

pub(crate) mod beside;
pub(crate) mod catalog;
pub(crate) mod deaths;
pub(crate) mod display;
pub(crate) mod earlier;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod fatal;
pub(crate) mod file;
pub(crate) mod going;
pub(crate) mod history;
#[cfg(debug_assertions)]
pub(crate) mod inject;
pub(crate) mod job;
pub(crate) mod latest;
pub(crate) mod left_out;
pub(crate) mod line;
pub(crate) mod logged;
pub(crate) mod messages;
pub(crate) mod outcome;
pub(crate) mod own;
pub(crate) mod parts;
pub(crate) mod printing;
pub(crate) mod read_before;
pub(crate) mod refused;
pub(crate) mod report;
pub(crate) mod same;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod share;
pub(crate) mod signals;
pub(crate) mod stalls;
pub(crate) mod starts;
pub(crate) mod together;
