//! How created entries become durable and get their final names: syncs, batches, second attempts, read-back.

pub(crate) mod again;
pub(crate) mod batch;
pub(crate) mod checks;
pub(crate) mod durable;
pub(crate) mod pending;
pub(crate) mod publish;
pub(crate) mod reread;
pub(crate) mod stores;
pub(crate) mod syncing;
