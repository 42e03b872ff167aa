//! When directories are closed in a run of the model: when all slices of them have ended, on any rank, and all directories below are closed.

use std::collections::HashMap;

/// The open directories of a run.
#[derive(Default)]
pub(crate) struct Lives(HashMap<usize, Life>);

/// An open directory.
struct Life {
    /// The rank that read it first, and the directory above, if that has counted it. None: an earlier run has begun it, and it is closed at the end of the job.
    found: Option<(usize, Option<usize>)>,
    /// One while it is read, one for each slice, one for each directory below.
    units: usize,
}

impl Lives {
    /// A directory is read by this rank. `above` has counted it.
    pub(crate) fn begin(&mut self, directory: usize, rank: usize, above: Option<usize>) {
        self.0.entry(directory).or_insert(Life { found: Some((rank, above)), units: 1 });
    }

    /// Something of a directory is done again.
    pub(crate) fn begin_again(&mut self, directory: usize) {
        self.0.insert(directory, Life { found: None, units: 1 });
    }

    /// Something more of it is open. The caller has a unit.
    pub(crate) fn add(&mut self, directory: usize) {
        if let Some(life) = self.0.get_mut(&directory) {
            life.units += 1;
        }
    }

    /// Something of it has ended. Returns the directories that are closed by that, with the ranks that note this, from below.
    pub(crate) fn release(&mut self, directory: usize) -> Vec<(usize, usize)> {
        let (mut closed, mut next) = (Vec::new(), Some(directory));
        while let Some(directory) = next.take() {
            // Without some rules, a directory is read twice.
            let Some(life) = self.0.get_mut(&directory).filter(|life| life.units > 0) else { break };
            life.units -= 1;
            if let (0, Some((rank, above))) = (life.units, life.found) {
                closed.push((directory, rank));
                next = above;
            }
        }
        closed
    }
}
