//! For unit tests of the copy's parts: a watch that panics on any failure.

use atta_entry::Failure;

use crate::copy::Watch;

pub(crate) struct NothingFails;

impl Watch for NothingFails {
    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}
