//! Temporary names of other runs in a source. They are incomplete data, and are left out and counted. A name counts as temporary only if
//! the record of its run is found, in its directory or in one above it; any other name is copied, whatever it looks like.

use std::sync::Arc;

use atta_entry::Errno;
use rustix::fd::{AsFd, OwnedFd};

use crate::copy::target::mirror::{Here, SourceDirectory};
use crate::jobs;
use crate::jobs::names::{self, Namer, PREFIX, Parsed};
use crate::resume::is_private_directory;
use crate::tree::listing::descriptor_cache::DescriptorCache;
use atta_sys::{self as sys, Features};

/// Most directories above a name that are searched for its record.
const ABOVE_MOST: usize = 256;

/// Whether a name is another run's temporary name or private directory.
pub(crate) fn is_unfinished(
    here: Here<'_>,
    name: &[u8],
    held: &mut DescriptorCache,
    features: Features,
) -> bool {
    if !name.starts_with(PREFIX) {
        return false;
    }
    match names::parse(name) {
        None => false,
        Some(Parsed { serial: None, .. }) => {
            let name = std::ffi::CString::new(name).unwrap_or_default();
            is_private_directory(here.descriptor, &name)
        }
        Some(parsed) => find(here.directory, parsed, held, features).is_some_and(|namer| namer.gave(name)),
    }
}

/// Finds the namer of a run by its record, in this directory or above it.
fn find(
    directory: &Arc<SourceDirectory>,
    parsed: Parsed<'_>,
    held: &mut DescriptorCache,
    features: Features,
) -> Option<Namer> {
    let (mut next, mut last) = (Some(directory), None);
    let mut count = 0;
    while let Some(directory) = next.filter(|_| count < ABOVE_MOST) {
        let opened = directory.descriptor(held, features).ok()?;
        if let Some(namer) = jobs::others::namer_in(&opened, parsed) {
            return Some(namer);
        }
        (next, last) = (directory.parent(), Some(opened));
        count += 1;
    }
    above_root(&*last?, parsed, ABOVE_MOST - count, features)
}

/// Continues the search above the root of a walk.
fn above_root(root: &OwnedFd, parsed: Parsed<'_>, most: usize, features: Features) -> Option<Namer> {
    let climb = |from: &OwnedFd| -> Result<Option<OwnedFd>, Errno> {
        let above = sys::open_path_at(from, c"..")?;
        let is_top = sys::place_of(&above, features)? == sys::place_of(from.as_fd(), features)?;
        Ok((!is_top).then_some(above))
    };
    let mut here = climb(root).ok()??;
    for _ in 0..most {
        if let Some(namer) = jobs::others::namer_in(&here, parsed) {
            return Some(namer);
        }
        here = climb(&here).ok()??;
    }
    None
}
