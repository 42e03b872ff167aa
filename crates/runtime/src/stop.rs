//! A request to end a job early. Setting it is safe from a signal handler. It does not end anything by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end a job early, shared by all clones.
///
/// Tasks that are running are finished, tasks that wait are dropped.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A request that has not been made yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the request.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes it back, for a job that begins again.
    pub fn withdraw(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether it has been made.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler's crate that sets one.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
