//! What links and special files have: owner, extended attributes, mode, times. They cannot be opened, so all of that is read and
//! given by name, in a directory that is open (`walk/at.rs`), and no link is gone through. Where copies are made, so that nobody
//! else can be there, `special.rs` says.

use std::ffi::CStr;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fs::{AtFlags, Mode};

use super::attributes::{self, Extended, Holder, NotKept};
use super::file::Source;
use super::handler::{CopyWorker, Copying};
use super::keep::{ExtendedNames, Keep};
use super::trouble::{Doing, Trouble};
use crate::walk::at::{self, NameAt};
use crate::walk::kernel::{self, retry};

impl Copying<'_> {
    /// What extended attributes a link or a special file has. One call if it has none, no call if none of a link would be kept.
    pub(crate) fn extended_of_name(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        metadata: &Metadata,
    ) -> Result<Extended, Trouble> {
        let (keep, kind) = (&self.options.keep, metadata.kind());
        if kind == Kind::Symlink && keep.extended == ExtendedNames::None {
            return Ok(Extended::default());
        }
        let at = NameAt { directory: from.directory, name: from.name, features: self.features };
        let CopyWorker { room, totals, .. } = worker;
        let not_kept = &mut totals.not_kept;
        let wanted = |name: &CStr| keep.reads_of(kind, name);
        match Extended::read_from(Holder::Named(at), room, wanted, not_kept) {
            Ok(found) if found.is_empty() || is_still_there(from, metadata) => Ok(found),
            // They may be those of something else, and let others do what they must not.
            Ok(_) => Err(Trouble::Changed),
            // Before Linux 6.13 and without /proc; or it may not be asked: EPERM, EACCES.
            Err(Errno::NOENT | Errno(1 | 13)) if is_still_there(from, metadata) => {
                not_kept.extended += 1;
                Ok(Extended::default())
            }
            Err(errno) => Err(Trouble::new(Doing::ReadExtended, errno)),
        }
    }
}

/// Whether a name is what it was when it was listed. Its times are of no use: whoever writes into a FIFO changes them.
pub(crate) fn is_still_there(from: Source<'_>, metadata: &Metadata) -> bool {
    let facts = |of: &Metadata| (of.device, of.inode, of.mode, of.uid, of.gid);
    kernel::stat_at(from.directory, from.name, false).is_ok_and(|now| facts(&now) == facts(metadata))
}

/// Gives a name that this process made, and that is not to be opened, what it is to have of its source.
pub(crate) fn give(
    at: NameAt<'_>,
    from: &Metadata,
    extended: &Extended,
    keep: &Keep,
    not_kept: &mut NotKept,
) -> Result<(), Trouble> {
    let NameAt { directory, name, features } = at;
    let (owner, group) = keep.owners_of(from);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if (owner, group) != (None, None) {
        match retry(|| rustix::fs::chownat(directory, name, owner, group, flags)) {
            Ok(()) => {}
            Err(errno) if attributes::may_not(errno) => not_kept.owners += 1,
            Err(errno) => return Err(Trouble::new(Doing::SetOwner, errno)),
        }
    }
    let has_list = extended.give(Holder::Named(at), keep, not_kept)?;
    if from.kind() != Kind::Symlink
        && let Some(mode) = attributes::mode_beside(extended, has_list, from, keep, false)
    {
        // By a descriptor that opens nothing.
        let given = kernel::open_name_at(directory, name)
            .and_then(|opened| at::set_mode(&opened, Mode::from_raw_mode(mode), features));
        not_kept.unless_taken(given, Doing::SetMode, false)?;
    }
    if !keep.times {
        return Ok(());
    }
    let times = attributes::times(from);
    let given = retry(|| rustix::fs::utimensat(directory, name, &times, flags));
    not_kept.unless_taken(given, Doing::SetTimes, false)
}
