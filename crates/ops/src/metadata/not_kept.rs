//! Counts what could not be kept because this process or the file system cannot give it.

use atta_entry::Errno;

use crate::file::error::{FileError, Step};

/// What could not be kept although the copy is there; counted, and said once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotKept {
    /// Owners or groups that this user may not give away.
    pub owners: u64,
    /// Set-id bits, where the owner could not be set: they would have given the rights of another user.
    pub set_id_bits: u64,
    /// Permissions and times, each by itself, that the target does not take.
    pub modes_and_times: u64,
    /// Extended attributes, ACLs among them, that cannot be read or that the target does not take.
    pub extended: u64,
    /// Hard links that had to become files of their own.
    pub hard_links: u64,
}

impl std::ops::AddAssign for NotKept {
    fn add_assign(&mut self, other: Self) {
        self.owners += other.owners;
        self.set_id_bits += other.set_id_bits;
        self.modes_and_times += other.modes_and_times;
        self.extended += other.extended;
        self.hard_links += other.hard_links;
    }
}

impl NotKept {
    /// Counts a mode or times that a file system does not take. An entry that existed may belong to somebody else: there it is an error.
    pub(crate) fn unless_taken(
        &mut self,
        given: Result<(), Errno>,
        step: Step,
        is_old: bool,
    ) -> Result<(), FileError> {
        match given {
            Ok(()) => Ok(()),
            // EOPNOTSUPP, ENOSYS; EPERM, of what this process has made.
            Err(Errno(errno)) if matches!(errno, 95 | 38) || errno == 1 && !is_old => {
                self.modes_and_times += 1;
                Ok(())
            }
            Err(errno) => Err(FileError::new(step, errno)),
        }
    }
}
