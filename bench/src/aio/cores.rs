//! Keeps threads on cores, as the thesis did for its case 3: the library's threads on one, the caller on another. Nothing here
//! needs rights.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the program had before a thread of it stayed on one.
static ALL: OnceLock<Vec<usize>> = OnceLock::new();

fn all() -> Vec<usize> {
    let Ok(cores) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).collect()
}

/// The calling thread stays on one core until this is dropped; threads that it starts meanwhile stay there for good.
pub(crate) struct Stay(Option<CpuSet>);

impl Stay {
    /// On the first of the cores that it may use.
    pub(crate) fn on_first() -> Self {
        Self::on(|cores| cores.first().copied())
    }

    /// On the last of them.
    pub(crate) fn on_last() -> Self {
        Self::on(|cores| cores.last().copied())
    }

    fn on(choose: impl Fn(&[usize]) -> Option<usize>) -> Self {
        let cores = ALL.get_or_init(all);
        let Ok(before) = sched_getaffinity(None) else { return Self(None) };
        let mut one = CpuSet::new();
        if let Some(core) = choose(cores) {
            one.set(core);
        }
        // Where it may not, it goes where the kernel puts it.
        Self(sched_setaffinity(None, &one).is_ok().then_some(before))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was allowed before.
            let _ = sched_setaffinity(None, before);
        }
    }
}
