//! Files that the kernel has at hand for a ring: it need not look them up, and count who uses them, for each transfer. Which file
//! a transfer is of is known by its number.

use std::collections::HashMap;
use std::os::fd::RawFd;

use io_uring::Submitter;

use crate::Fd;

/// Files at a time. There is no harm in more: they are used by their numbers.
const MOST: i32 = 1024;

/// Which places of the ring's table have which files.
#[derive(Default)]
pub(super) struct Registered {
    /// By number: the place, and what keeps the file open.
    files: HashMap<RawFd, (i32, Fd)>,
    free: Vec<i32>,
    /// Whether there is a table; none: nobody has asked for one.
    has_table: Option<bool>,
}

impl Registered {
    /// The place of a file, if it has one.
    pub(super) fn slot(&self, fd: RawFd) -> Option<i32> {
        if self.files.is_empty() {
            return None;
        }
        self.files.get(&fd).map(|(slot, _)| *slot)
    }

    /// Gives a file a place, if there is one and the kernel takes it.
    pub(super) fn add(&mut self, ring: &Submitter<'_>, file: Fd) {
        let fd = file.raw();
        self.remove(ring, fd);
        let has_table = *self.has_table.get_or_insert_with(|| {
            self.free = (0..MOST).rev().collect();
            ring.register_files_sparse(MOST as u32).is_ok()
        });
        let Some(slot) = self.free.pop_if(|_| has_table) else { return };
        match ring.register_files_update(slot as u32, &[fd]) {
            Ok(1) => drop(self.files.insert(fd, (slot, file))),
            _ => self.free.push(slot),
        }
    }

    /// Takes a file's place away. Transfers that the kernel has begun keep the file.
    pub(super) fn remove(&mut self, ring: &Submitter<'_>, fd: RawFd) {
        let Some((slot, _file)) = self.files.remove(&fd) else { return };
        // A place that the kernel does not empty is not used again.
        if ring.register_files_update(slot as u32, &[-1]).is_ok() {
            self.free.push(slot);
        }
    }
}
