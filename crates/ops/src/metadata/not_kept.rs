//! Counts what could not be kept because this process or the file system cannot give it.

use atta_entry::Errno;
use atta_runtime::counters;

use crate::file::error::{FileError, Step};

counters! {
    /// Attributes that a copy lacks because they could not be set. They are counted, and reported once.
    #[derive(Copy)]
    pub struct NotKept {
        /// Owners or groups that this user may not give away.
        pub owners: u64 = "owners",
            Line("not kept: ", [""; 2], " owners or groups: only root may give files away");
        /// Set-id bits, where the owner could not be set: they would have given the rights of another user.
        pub set_id_bits: u64 = "set_id_bits",
            Line("not kept: ", [""; 2], " set-id bits, of files whose owner was not kept");
        /// Permissions and times, each by itself, that the target does not take.
        pub modes_and_times: u64 = "modes_and_times",
            Line("not kept: ", [""; 2], " modes and times, which the target does not take");
        /// Extended attributes, ACLs among them, that cannot be read or that the target does not take.
        pub extended: u64 = "extended_attributes",
            Line("not kept: ", [""; 2], " extended attributes that cannot be read, or that the target does not take");
        /// Hard links that had to become files of their own.
        pub hard_links: u64 = "hard_links",
            Line("not kept: ", [""; 2], " hard links: these names have files of their own");
    }
}

impl NotKept {
    /// Counts a mode or times that a file system refuses. An entry that existed may belong to another user, so there it is an error.
    pub(crate) fn unless_taken(
        &mut self,
        given: Result<(), Errno>,
        step: Step,
        is_old: bool,
    ) -> Result<(), FileError> {
        match given {
            Ok(()) => Ok(()),
            Err(errno) => {
                let is_refused = match errno {
                    Errno::OPNOTSUPP | Errno::NOSYS => true,
                    // For an entry that this process made.
                    Errno::PERM => !is_old,
                    _ => false,
                };
                self.modes_and_times += u64::from(is_refused);
                if is_refused { Ok(()) } else { Err(FileError::new(step, errno)) }
            }
        }
    }
}
