//! What links and special files have: owner, extended attributes, mode, times. They cannot be opened, so all of that is read and
//! given by name, in a directory that is open (`atta_sys::at`), and no link is gone through. Where copies are made, so that nobody
//! else can be there, `copy/target/special.rs` says.

use atta_entry::{Kind, Metadata};
use rustix::fs::{AtFlags, Mode};

use super::extended::{Extended, Holder};
use super::give;
use super::keep::Keep;
use super::not_kept::NotKept;
use crate::file::error::{FileError, Step};
use crate::file::source::Source;
use atta_sys::at::{self, NameAt};
use atta_sys::{self as sys, retry};

/// Whether a name is what it was when it was listed. Its times are ignored, as writes into a FIFO change them.
pub(crate) fn is_still_there(from: Source<'_>, metadata: &Metadata) -> bool {
    let facts = |of: &Metadata| (of.device, of.inode, of.mode, of.uid, of.gid);
    sys::stat_at(from.directory, from.name, false).is_ok_and(|now| facts(&now) == facts(metadata))
}

/// Gives a name that this process made, and that is not to be opened, what it is to have of its source.
pub(crate) fn give(
    at: NameAt<'_>,
    from: &Metadata,
    extended: &Extended,
    keep: &Keep,
    not_kept: &mut NotKept,
) -> Result<(), FileError> {
    let NameAt { directory, name, features } = at;
    let (owner, group) = keep.owners_of(from);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if (owner, group) != (None, None) {
        match retry(|| rustix::fs::chownat(directory, name, owner, group, flags)) {
            Ok(()) => {}
            Err(errno) if give::may_not(errno) => not_kept.owners += 1,
            Err(errno) => return Err(FileError::new(Step::SetOwner, errno)),
        }
    }
    let has_list = extended.give(Holder::Named(at), keep, not_kept)?;
    if from.kind() != Kind::Symlink
        && let Some(mode) = give::mode_beside(extended, has_list, from, keep, false)
    {
        // By a descriptor that opens nothing.
        let given = sys::open_name_at(directory, name)
            .and_then(|opened| at::set_mode(&opened, Mode::from_raw_mode(mode), features));
        not_kept.unless_taken(given, Step::SetMode, false)?;
    }
    if !keep.times {
        return Ok(());
    }
    let times = give::times(from);
    let given = retry(|| rustix::fs::utimensat(directory, name, &times, flags));
    not_kept.unless_taken(given, Step::SetTimes, false)
}
