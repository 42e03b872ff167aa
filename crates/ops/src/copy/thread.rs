//! The state of one thread of a copy: its descriptors and buffers, and what it has counted. Nothing here is shared, and nothing here
//! knows what is copied. Only `handler.rs` sees all of it; it lends the parts.

use std::ffi::CStr;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use atta_entry::{Errno, Kind};

use crate::copy::report::Report;
use crate::copy::target::mirror::Part;
use crate::copy::target::place::Made;
use crate::copy::totals::Totals;
use crate::digest::{Element, Signature};
use crate::file::mover::Mover;
use crate::metadata::extended::{Extended, Holder};
use crate::metadata::not_kept::NotKept;
use crate::tree::listing::held::Held;

/// State of one thread of a copy.
pub(crate) struct Worker {
    pub(crate) scratch: Scratch,
    pub(crate) results: Results,
    /// Finished parts of slices that are not yet reported as ended.
    pub(crate) ended: Vec<Part>,
    began: Instant,
    /// How long the thread accepted tasks.
    pub(crate) lived: Duration,
}

/// Descriptors and buffers of a thread.
pub(crate) struct Scratch {
    /// Unique over the threads of all ranks.
    pub(crate) index: u64,
    pub(crate) held: Held,
    pub(crate) mover: Mover,
    /// Buffer for names of extended attributes.
    names: Vec<u8>,
}

/// What was copied, by one thread or by all.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) totals: Totals,
    /// Sizes and slowest of the copied files.
    pub(crate) report: Report,
    /// Signature of the copied data, if digests are wanted.
    pub(crate) signature: Signature,
}

impl Worker {
    pub(crate) fn new(scratch: Scratch) -> Self {
        let (results, began) = (Results::default(), Instant::now());
        Self { scratch, results, ended: Vec::new(), began, lived: Duration::ZERO }
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
        Self { index, held: Held::new(held), mover, names: Vec::new() }
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

impl Results {
    /// Adds an entry to the signature. `path` is relative to its root.
    pub(crate) fn sign(&mut self, path: &[u8], kind: Kind, made: &Made) {
        let size = if kind == Kind::File { made.bytes } else { 0 };
        let (digest, target) = (made.digest.as_ref(), made.target.as_deref());
        self.signature.add(&Element { path, kind, size, digest, target });
    }
}

impl AddAssign<&Self> for Results {
    fn add_assign(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.report += &other.report;
        self.signature.merge(&other.signature);
    }
}
