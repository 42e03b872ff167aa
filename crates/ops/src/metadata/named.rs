//! Sets owner, extended attributes, mode and times of links and special files. They cannot be opened, so it does that by name, in an open
//! directory (`atta_sys::at`), and follows no link. `copy/target/special.rs` chooses directories that no other process can access.

use atta_entry::{Kind, Metadata};
use rustix::fs::{AtFlags, Mode};

use super::extended::Holder;
use super::give::{self, Manner, SourceAttributes};
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

/// Sets the attributes of a name that this process made to those of its source, without opening it.
pub(crate) fn give(
    at: NameAt<'_>,
    source: SourceAttributes<'_>,
    keep: &Keep,
    not_kept: &mut NotKept,
) -> Result<(), FileError> {
    let SourceAttributes { metadata: from, extended } = source;
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
        && let Some(mode) = give::mode_beside(source, has_list, Manner { keep, is_old: false })
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
