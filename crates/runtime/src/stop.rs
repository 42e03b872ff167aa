//! A request to end a job early. Setting it is safe from a signal handler. It does not end anything by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end a job early, shared by all clones.
///
/// Tasks that are running are finished, tasks that wait are dropped. A job also ends early when a rank has died and the others go on in another
/// session ([`Group`](crate::Group)): then nobody has asked for an end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    leaves: Arc<AtomicBool>,
}

impl Stop {
    /// A request that has not been made yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the request.
    pub fn set(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// A rank has died: what runs now ends early.
    pub fn set_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Whether what runs now is to end early.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.is_asked() || self.lost.load(Ordering::Relaxed)
    }

    /// Whether the request has been made.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether this rank is asked to leave the others, which go on without it.
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// The flag of that, for a signal handler's crate that sets one.
    #[must_use]
    pub fn leave_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.leaves)
    }

    /// Takes the request to end back, for a session that begins again.
    pub fn withdraw(&self) {
        self.asked.store(false, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
    }

    /// The flag itself, for a signal handler's crate that sets one.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}
