//! Tracks the directories that a thread holds open, and closes the oldest when there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atta_sys::Features;

/// Something that holds a descriptor that it can open again.
pub(crate) trait Close: std::fmt::Debug + Send + Sync {
    /// Closes the descriptor, unless it is in use.
    fn close(&self, features: Features);
}

/// The directories that one worker has opened and not closed.
#[derive(Debug)]
pub(crate) struct DescriptorCache {
    opened: Arc<Opened>,
    most: usize,
}

/// The open directories, oldest first. A thread that runs out of descriptors closes those of all workers.
#[derive(Debug, Default)]
struct Opened(Mutex<(VecDeque<Weak<dyn Close>>, Features)>);

/// The open directories of all workers, which share the process's descriptor table.
static ALL: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

/// Closes the directories that workers of this process hold open and do not use at the moment.
fn close_unused() {
    let all: Vec<_> = lock(&ALL).iter().filter_map(Weak::upgrade).collect();
    all.iter().for_each(|opened| opened.close_oldest(usize::MAX));
}

impl DescriptorCache {
    pub(crate) fn new(most: usize) -> Self {
        atta_sys::descriptors::on_shortage(close_unused);
        let opened = Arc::<Opened>::default();
        let mut all = lock(&ALL);
        all.retain(|opened| opened.strong_count() > 0);
        all.push(Arc::downgrade(&opened));
        Self { opened, most: most.max(4) }
    }

    /// Records that a directory holds a descriptor. Closes the oldest ones if there are too many.
    pub(crate) fn keep<D: Close + 'static>(&mut self, directory: &Arc<D>, features: Features) {
        let mut are_too_many = false;
        {
            let mut opened = lock(&self.opened.0);
            let (queue, known) = &mut *opened;
            *known = features;
            if queue.len() >= self.most {
                queue.retain(|directory| directory.strong_count() > 0);
                // A quarter at a time, so that the sweep over the dead is paid rarely.
                are_too_many = queue.len() >= self.most - self.most / 4;
            }
            let directory = Arc::downgrade(directory);
            queue.push_back(directory);
        }
        if are_too_many {
            self.opened.close_oldest(self.most / 4);
        }
    }
}

impl Opened {
    /// Closes up to `count` of the oldest descriptors that are still held.
    fn close_oldest(&self, count: usize) {
        let (oldest, features): (Vec<_>, _) = {
            let mut opened = lock(&self.0);
            let (queue, features) = &mut *opened;
            (queue.drain(..count.min(queue.len())).collect(), *features)
        };
        // Not under the lock: closing may take long, and dropping the last reference to a directory may complete it.
        oldest.iter().filter_map(Weak::upgrade).for_each(|directory| directory.close(features));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
