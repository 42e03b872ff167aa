//! The state of one thread of a copy: its descriptors and buffers, and what it has counted. Nothing here is shared, and nothing here
//! knows what is copied. Only `handler.rs` sees all of it; it lends the parts.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use atta_entry::Errno;

use crate::copy::results::Results;
use crate::copy::target::mirror::Part;
use crate::file::mover::Mover;
use crate::metadata::extended::{Extended, Holder};
use crate::metadata::not_kept::NotKept;
use crate::tree::listing::descriptor_cache::DescriptorCache;
use crate::tree::slice::hand_over;

/// State of one thread of a copy.
pub(crate) struct Worker {
    pub(crate) scratch: Scratch,
    pub(crate) results: Results,
    pub(crate) ended: Ended,
    began: Instant,
    /// How long the thread accepted tasks.
    pub(crate) lived: Duration,
}

/// Descriptors and buffers of a thread.
pub(crate) struct Scratch {
    /// Unique over the threads of all ranks.
    pub(crate) index: u64,
    pub(crate) held: DescriptorCache,
    pub(crate) mover: Mover,
    /// Buffer for names of extended attributes.
    names: Vec<u8>,
}

/// Parts of slices that have ended on a thread, until they are taken.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) parts: Vec<Part>,
    /// Results of slices that only these parts kept open.
    pub(crate) results: Option<Box<Results>>,
}

impl Ended {
    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.results.is_none()
    }

    /// Adds results of slices that nothing else keeps open.
    pub(crate) fn add_results(&mut self, mut results: Results) {
        hand_over(&mut results, self.results.get_or_insert_default());
    }

    /// Adds a part that has ended, and what it has come to.
    pub(crate) fn add(&mut self, part: Option<Part>, mut results: Results) {
        match part {
            Some(part) => {
                part.slice().gather(&mut results);
                self.parts.push(part);
            }
            None => self.add_results(results),
        }
    }
}

impl Worker {
    pub(crate) fn new(scratch: Scratch) -> Self {
        let (results, began) = (Results::default(), Instant::now());
        Self { scratch, results, ended: Ended::default(), began, lived: Duration::ZERO }
    }

    /// Notes that the thread accepts no more tasks.
    pub(crate) fn finish(&mut self) {
        self.results.totals.not_direct += std::mem::take(&mut self.scratch.mover.not_direct);
        self.lived = self.began.elapsed();
    }
}

impl Scratch {
    /// `held`: how many descriptors to keep open.
    pub(crate) fn new(index: u64, held: usize, mover: Mover) -> Self {
        Self { index, held: DescriptorCache::new(held), mover, names: Vec::new() }
    }

    /// Reads extended attributes.
    pub(crate) fn extended(
        &mut self,
        holder: Holder<'_>,
        is_wanted: impl Fn(&CStr) -> bool,
        not_kept: &mut NotKept,
    ) -> Result<Extended, Errno> {
        Extended::read_from(holder, &mut self.names, is_wanted, not_kept)
    }
}
