//! What the first rank of a view has read of the logs, for the first rank of the next view if that is the same process: bytes. What they mean: `together.rs`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadBefore(Arc<Mutex<Vec<u8>>>);

impl ReadBefore {
    /// Empty: nothing was read.
    pub(crate) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, bytes: Vec<u8>) {
        *self.bytes() = bytes;
    }
}
