//! For unit tests of the copy's parts: a watch that panics on any failure.

use crate::copy::options::Watch;
use atta_entry::Failure;

pub(crate) struct NothingFails;

impl Watch for NothingFails {
    fn failure(&self, failure: &Failure<'_>) {
        panic!("{failure}");
    }
}
