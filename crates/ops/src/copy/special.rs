//! Copies what is neither a file nor a directory: symbolic links as links, FIFOs, sockets and devices without opening them.

use std::ffi::CStr;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode};

use super::file::{Made, Place, Source};
use super::handler::{CopyWorker, Copying};
use super::named;
use super::spelling::refuse_taken;
use super::trouble::{Doing, Trouble};
use crate::walk::kernel::{self, retry};

impl Copying<'_> {
    /// Makes a link that says what the source's says.
    pub(crate) fn symlink(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Made, Trouble> {
        let target = kernel::read_link_at(from.directory, from.name);
        let target = target.map_err(|errno| Trouble::new(Doing::ReadLink, errno))?;
        let extended = self.extended_of_name(worker, from, metadata)?;
        let mut not_kept = std::mem::take(&mut worker.totals.not_kept);
        let made = self.under_a_name(worker, to, Doing::MakeLink, |directory, name| {
            retry(|| rustix::fs::symlinkat(target.as_slice(), directory, name))
                .map_err(|errno| Trouble::new(Doing::MakeLink, errno))?;
            named::give(directory, name, metadata, &extended, &self.options.keep, &mut not_kept)
        });
        worker.totals.not_kept = not_kept;
        let mut made = made?;
        made.target = Some(target);
        Ok(made)
    }

    /// Makes a FIFO, a socket or a device.
    pub(crate) fn special(
        &self,
        worker: &mut CopyWorker,
        from: Source<'_>,
        to: &Place<'_>,
        metadata: &Metadata,
    ) -> Result<Made, Trouble> {
        let (kind, device) = match metadata.kind() {
            Kind::Fifo => (FileType::Fifo, 0),
            Kind::Socket => (FileType::Socket, 0),
            Kind::CharDevice => (FileType::CharacterDevice, device(from)?),
            Kind::BlockDevice => (FileType::BlockDevice, device(from)?),
            _ => return Err(Trouble::Changed),
        };
        let extended = self.extended_of_name(worker, from, metadata)?;
        let private = Mode::RUSR | Mode::WUSR;
        let mut not_kept = std::mem::take(&mut worker.totals.not_kept);
        let made = self.under_a_name(worker, to, Doing::MakeSpecial, |directory, name| {
            retry(|| rustix::fs::mknodat(directory, name, kind, private, device))
                .map_err(|errno| Trouble::new(Doing::MakeSpecial, errno))?;
            named::give(directory, name, metadata, &extended, &self.options.keep, &mut not_kept)
        });
        worker.totals.not_kept = not_kept;
        made
    }

    /// Makes something that cannot be opened, and so gets what it has by its name: under its own where nobody else can be, else in a
    /// private directory, from where it is moved to another name beside its own.
    fn under_a_name(
        &self,
        worker: &CopyWorker,
        to: &Place<'_>,
        doing: Doing,
        mut make: impl FnMut(&OwnedFd, &CStr) -> Result<(), Trouble>,
    ) -> Result<Made, Trouble> {
        let since = self.batch.failures();
        if to.mirror.is_direct() {
            match make(&to.directory, to.name) {
                Ok(()) => return Ok(Made { since, ..Made::default() }),
                // A directory that tells a name twice.
                Err(Trouble::Failed(_, Errno::EXIST)) => refuse_taken(to, doing)?,
                Err(trouble) => return Err(trouble),
            }
        }
        let failed = |errno| Trouble::new(doing, errno);
        let private = self.private().map_err(failed)?;
        let name = self.shared.namer.of_file(worker.index);
        let made = make(private, &name).and_then(|()| {
            // It replaces nothing: the name is of this job alone.
            retry(|| rustix::fs::renameat(private, &name, &to.directory, &name)).map_err(failed)
        });
        if made.is_err() {
            let _ = rustix::fs::unlinkat(private, &name, AtFlags::empty());
        }
        made.map(|()| Made { since, ..Made::temporary(name) })
    }
}

/// Which device a name stands for.
pub(crate) fn device(from: Source<'_>) -> Result<u64, Trouble> {
    let stat = retry(|| rustix::fs::statat(from.directory, from.name, AtFlags::SYMLINK_NOFOLLOW));
    stat.map(|stat| stat.st_rdev).map_err(|errno| Trouble::new(Doing::Read, errno))
}
