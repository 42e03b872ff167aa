//! Why two entries could not be compared, and on which side. It reports nothing.

use atta_entry::{Errno, Operation, Side};

use crate::copy::trouble::Trouble as SideTrouble;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A call failed on one side.
    Failed(Side, Operation, Errno),
    /// One side was another one afterwards than before.
    Changed,
    /// The run is to end: nothing is known, and nothing is to be reported.
    Stopped,
}

/// What went wrong on one side.
pub(crate) fn on(side: Side, trouble: SideTrouble) -> Trouble {
    match (trouble, trouble.told()) {
        (SideTrouble::Changed, _) => Trouble::Changed,
        (SideTrouble::Stopped, _) => Trouble::Stopped,
        (SideTrouble::Failed(..), (operation, errno)) => Trouble::Failed(side, operation, errno),
    }
}

/// A call that failed on one side.
pub(crate) fn failed(side: Side, operation: Operation) -> impl Fn(Errno) -> Trouble {
    move |errno| Trouble::Failed(side, operation, errno)
}
