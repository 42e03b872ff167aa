//! How what was made becomes durable and gets its final name: syncs, batches, second attempts, reading back.

pub(crate) mod again;
pub(crate) mod durable;
pub(crate) mod publish;
pub(crate) mod reread;
pub(crate) mod stores;
pub(crate) mod syncing;
