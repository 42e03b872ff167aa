//! What is done again because directories are gone: the frames that say they are done, and the directories above. No I/O.

use std::collections::HashSet;

use crate::fold::known::Map;
use crate::fold::walk::{Read, Steps};
use crate::fold::{Fold, FrameAt, Logs};
use crate::frame::sections;
use crate::id::{Id, Key};
use crate::record::Fact;
use crate::void::Void;

/// The most directories that are done again by frames. If there are more, all is done again.
const DIRECTORIES_MOST: usize = 1 << 17;

impl Void {
    /// The frames that say something of these directories is done. `key`: that of the job. `lost`: their identities.
    ///
    /// # Errors
    /// A log cannot be read, or is not valid.
    pub fn of<L: Logs>(key: &Key, logs: &mut L, lost: &HashSet<Id>) -> Result<Self, L::Error> {
        let (mut frames, mut directories, mut steps) = (Vec::new(), 0, Steps::new(key));
        logs.each(&mut |at, frame| {
            let (mut is_lost, mut done) = (false, 0);
            let is_valid = sections(frame, &mut |section| {
                steps.read(section, &mut |read| {
                    if let Read::Fact(here, fact @ (Fact::Done { .. } | Fact::Closed)) = read {
                        is_lost |= lost.contains(&here.id());
                        done += usize::from(matches!(fact, Fact::Done { slice: None, .. }));
                    }
                })
            });
            if is_lost && at.voided_by.is_none() {
                directories += done;
                frames.push((at.log, at.offset));
            }
            is_valid
        })?;
        Ok(if directories > DIRECTORIES_MOST { Self::All } else { Self::Frames(frames) })
    }
}

/// Directories that are done again, and those above, with the run that does it: it closes them again. What an older run says of their closing
/// does not count.
#[derive(Debug, Default)]
pub(in crate::fold) struct Reopened(Map<u32>);

impl Reopened {
    pub(in crate::fold) fn read<L: Logs>(fold: &Fold, logs: &mut L) -> Result<Self, L::Error> {
        let mut reopened = Map::default();
        if logs.has_voids() {
            let mut steps = Steps::new(&fold.key);
            logs.each(&mut |at, frame| {
                sections(frame, &mut |section| {
                    steps.read(section, &mut |read| {
                        if let (Read::Fact(here, Fact::Done { .. } | Fact::Closed), Some(by)) =
                            (read, at.voided_by)
                        {
                            note(&mut reopened, here.up().map(|(id, _)| id), by);
                        }
                    })
                })
            })?;
        }
        Ok(Self(reopened))
    }

    /// Whether what a frame says of the closing of a directory counts.
    pub(in crate::fold) fn is_closed(&self, id: Id, at: FrameAt) -> bool {
        self.0.get(&id).is_none_or(|by| at.log.run >= *by)
    }
}

/// Notes directories, from below, until one that is known.
fn note(reopened: &mut Map<u32>, up: impl Iterator<Item = Id>, by: u32) {
    for id in up {
        let before = reopened.entry(id).or_default();
        if *before >= by {
            return;
        }
        *before = by;
    }
}
