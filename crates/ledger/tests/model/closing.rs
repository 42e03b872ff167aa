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
    /// Something of it, or below it, failed.
    has_failed: bool,
}

impl Lives {
    /// A directory is read by this rank. `above` has counted it.
    pub(crate) fn begin(&mut self, directory: usize, rank: usize, above: Option<usize>) {
        self.0.entry(directory).or_insert(Life { found: Some((rank, above)), units: 1, has_failed: false });
    }

    /// Something of a directory is done again.
    pub(crate) fn begin_again(&mut self, directory: usize) {
        self.0.insert(directory, Life { found: None, units: 1, has_failed: false });
    }

    /// Something more of it is open. The caller has a unit.
    pub(crate) fn add(&mut self, directory: usize) {
        if let Some(life) = self.0.get_mut(&directory) {
            life.units += 1;
        }
    }

    /// Something of it failed.
    pub(crate) fn fail(&mut self, directory: usize) {
        if let Some(life) = self.0.get_mut(&directory) {
            life.has_failed = true;
        }
    }

    /// Something of it has ended. Returns the directories that are closed by that, from below, with the ranks that note this, and whether something of them
    /// failed: then it is not noted.
    pub(crate) fn release(&mut self, directory: usize) -> Vec<(usize, usize, bool)> {
        let (mut closed, mut next) = (Vec::new(), Some(directory));
        while let Some(directory) = next.take() {
            // Without some rules, a directory is read twice.
            let Some(life) = self.0.get_mut(&directory).filter(|life| life.units > 0) else { break };
            life.units -= 1;
            if let (0, Some((rank, above))) = (life.units, life.found) {
                let has_failed = life.has_failed;
                closed.push((directory, rank, has_failed));
                next = above;
                if let (Some(above), true) = (above, has_failed) {
                    self.fail(above);
                }
            }
        }
        closed
    }
}
