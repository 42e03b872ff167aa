//! How created entries become durable and get their final names: syncs, batches, second attempts, read-back.

pub(crate) mod again;
pub(crate) mod durable;
pub(crate) mod publish;
pub(crate) mod reread;
pub(crate) mod stores;
pub(crate) mod syncing;
