//! The event that the supervising thread sleeps on. Any thread may ring. No ring is lost; several rings count as one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A bell; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    /// Wakes the waiting thread, or the next one to wait.
    pub(crate) fn ring(&self) {
        let (rung, condition) = &*self.0;
        *rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condition.notify_all();
    }

    /// Waits for a ring, up to a limit.
    pub(crate) fn wait(&self, at_most: Duration) {
        let (rung, condition) = &*self.0;
        let guard = rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = condition.wait_timeout_while(guard, at_most, |rung| !*rung);
        let (mut guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *guard = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_heard_once() {
        let bell = Bell::default();
        bell.clone().ring();
        bell.ring();
        // With a lost ring this would wait forever.
        bell.wait(Duration::MAX);
        bell.wait(Duration::from_millis(1));
        let ringer = bell.clone();
        let thread = std::thread::spawn(move || ringer.ring());
        bell.wait(Duration::MAX);
        thread.join().unwrap();
    }
}
