//! The end of a directory: its final name, and its attributes once nothing is left to do in it. Which attributes: see
//! `target/directories.rs`.

use std::sync::Arc;

use crate::copy::commit::Committer;
use crate::copy::commit::batch::Ready;
use crate::copy::results::Results;
use crate::copy::target::mirror::{CurrentSlice, Location, Mirror, Part, SourceDirectory};
use crate::tree::slice::hand_over;

impl Committer<'_> {
    /// Gives the directory of a slice its final name. Not after a stop, which may have left names out: a later run of the job does that, and
    /// without a job the end of the copy.
    pub(crate) fn name_directory(&mut self, slice: &CurrentSlice<'_>) {
        if self.commit.noting.is_some() && self.maker.target.options.walk.stop.is_set() {
            return;
        }
        let Some(mirror) = Mirror::of(slice.directory()) else { return };
        if mirror.target.alias().is_some() && !mirror.is_foreign() {
            let origin = Location::Itself(Arc::clone(slice.directory()));
            let waits = self.maker.target.stores.waits_in(&mirror);
            let ready = Ready::directory(origin, mirror, waits.then(|| slice.part()));
            // With a log, results stay with their slice: both get into the same frame.
            let may_leave = self.commit.noting.is_none();
            let last = ready.part.as_ref().filter(|part| may_leave && part.is_last());
            let results = last.map(|part| self.take_results(part));
            self.publish(Ready { results, ..ready }, Vec::new());
        }
    }

    /// Takes the results of a slice that only this part keeps open.
    fn take_results(&mut self, part: &Part) -> Box<Results> {
        let mut results = part.slice().take_results().unwrap_or_default();
        hand_over(self.maker.results, &mut results);
        results
    }

    /// Sets the attributes of a copy after its source directory was closed.
    ///
    /// Directories that a list may name again and whose mode denies their owner access wait for the end, as do those that an earlier run of the
    /// job has begun. So do roots and, after a stop, all directories: those that remain then do not have their final names.
    pub(crate) fn close_source(&mut self, directory: &Arc<SourceDirectory>) {
        let Some(mirror) = directory.state() else { return };
        let is_listed_again = self.maker.target.is_listed && mirror.denies_owner();
        let waits = is_listed_again
            || directory.parent().is_none()
            || mirror.is_redone()
            || self.maker.target.options.walk.stop.is_set();
        if !waits && self.maker.target.shared.open.take(mirror) {
            self.close(mirror);
        }
    }

    /// Gives a directory its attributes, and queues its sync if it is synced individually.
    pub(crate) fn close(&mut self, mirror: &Mirror) {
        let target = &mirror.target;
        match self.maker.close_anew(target, mirror.attributes()) {
            Ok(opened) => {
                mirror.set_final();
                if mirror.is_synced_by_itself() {
                    self.sync_directory(target, opened);
                }
            }
            Err(error) => self.maker.fail(&Location::Target(Arc::clone(target)), error),
        }
    }
}
