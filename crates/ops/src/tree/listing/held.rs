//! Which directories a thread holds open, and which of them are closed when there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atta_sys::Features;

use crate::tree::directory::Directory;

/// The directories whose descriptors one worker holds open: every directory that it has opened and not closed again.
#[derive(Debug)]
pub(crate) struct Held {
    opened: Arc<Opened>,
    most: usize,
}

/// They, oldest first. Whoever finds no descriptor closes those of all workers.
#[derive(Debug, Default)]
struct Opened(Mutex<(VecDeque<Weak<Directory>>, Features)>);

/// Those of all workers of this process, whose table of descriptors is one.
static ALL: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

/// Closes the directories that workers of this process hold open and do not use at the moment.
fn close_unused() {
    let all: Vec<_> = lock(&ALL).iter().filter_map(Weak::upgrade).collect();
    all.iter().for_each(|opened| opened.close_oldest(usize::MAX));
}

impl Held {
    pub(crate) fn new(most: usize) -> Self {
        atta_sys::descriptors::on_shortage(close_unused);
        let opened = Arc::<Opened>::default();
        let mut all = lock(&ALL);
        all.retain(|opened| opened.strong_count() > 0);
        all.push(Arc::downgrade(&opened));
        Self { opened, most: most.max(4) }
    }

    /// Notes that a directory holds a descriptor; closes the oldest ones if there are too many.
    pub(crate) fn keep(&mut self, directory: &Arc<Directory>, features: Features) {
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
            queue.push_back(Arc::downgrade(directory));
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
        // Not under the lock: to close one may take long, and the last holder of a directory may complete it.
        oldest.iter().filter_map(Weak::upgrade).for_each(|directory| directory.close(features));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
