//! Names that exist in the target only. Sums usually show that a directory has none (see `counterpart.rs`). Otherwise its names are read
//! and each is looked up in the source, in batches that any thread may take. Memory for names stays within the walk's limit, regardless of
//! their number.

use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::sync::Arc;

use atta_entry::{Change, Code as _, Errno, Kind, Operation, Side};
use rustix::fd::OwnedFd;
use rustix::fs::RawDir;

use super::counterpart::{Counterpart, Here, SourceDirectory, Tasks};
use super::handler::{Comparing, VerifyWorker};
use super::pair::At;
use super::tally::Tally;
use super::task::Task;
use crate::file::error::{PairError, failed};
use crate::tree::listing::names::{Name, Names};
use crate::tree::operation::Cx;
use atta_sys as sys;

/// Size of the buffer for `getdents64`.
const BUFFER_BYTES: usize = 64 << 10;
/// Names that one thread looks up at a time: some milliseconds of work.
const BATCH: usize = 1024;
/// Batches that one task may hand out. The next task reads on, so the names of a directory are never all in memory.
const BATCHES_MOST: usize = 64;

/// The names of TARGET's directory that belongs to a directory of SOURCE.
pub(crate) struct TargetNames<'a, 'c, const LOGGED: bool> {
    comparing: &'a Comparing<'c, LOGGED>,
    directory: &'a Arc<SourceDirectory>,
    counterpart: Arc<Counterpart>,
}

impl<'c, const LOGGED: bool> Comparing<'c, LOGGED> {
    /// The names on TARGET's side of a directory. None: there is no such side.
    pub(crate) fn target_names<'a>(
        &'a self,
        directory: &'a Arc<SourceDirectory>,
    ) -> Option<TargetNames<'a, 'c, LOGGED>> {
        let counterpart = Counterpart::of(directory)?;
        Some(TargetNames { comparing: self, directory, counterpart })
    }
}

impl<const LOGGED: bool> TargetNames<'_, '_, LOGGED> {
    /// Called when all names of the source directory are done. If the target may have more names, adds a task for them.
    pub(crate) fn count(&self, worker: &mut VerifyWorker, tasks: &mut Tasks) {
        if !self.counterpart.is_lost() && self.may_have_more(worker) {
            tasks.push_in(self.directory, Task::Names(0).encoded());
        }
    }

    /// Looks up all names in the source if the target may have more.
    pub(crate) fn look_up_all(&self, worker: &mut VerifyWorker) {
        if self.counterpart.is_lost() || !self.may_have_more(worker) {
            return;
        }
        let (directory, features) = (self.directory, self.comparing.features());
        let descriptor = match directory.descriptor(&mut worker.held, features) {
            Ok(descriptor) => descriptor,
            Err(errno) => {
                return self.fail_itself(worker, failed(Side::Source, Operation::OpenDirectory)(errno));
            }
        };
        let here = Here { directory, descriptor: &descriptor, slice: None };
        let mut from = Some(0);
        while let Some(position) = from.take().filter(|_| !self.comparing.is_stopped()) {
            let mut batch = Names::default();
            let read = self.each(worker, position, &mut |name, next| {
                batch.push(name.name, name.kind, name.inode);
                if batch.len() < BATCH {
                    return ControlFlow::Continue(());
                }
                from = Some(next);
                ControlFlow::Break(())
            });
            match read {
                Ok(()) => self.look_up(worker, here, &batch),
                Err(error) => return self.fail_itself(worker, error),
            }
        }
    }

    /// Whether the target may have names that are not known. Also if it cannot be read: then the names are read again, which is reported.
    fn may_have_more(&self, worker: &mut VerifyWorker) -> bool {
        let (known, mut tally) = (self.counterpart.tally(), Tally::default());
        let counted = self.each(worker, 0, &mut |name, _| {
            self.counterpart.add_to(&mut tally, name.name);
            // One more name than known is enough: the target has extra names.
            if tally.names > known.names { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        counted.is_err() || tally != known
    }

    /// Reads names from this position on, and cuts them into batches, which become tasks.
    pub(crate) fn look_up_from(&self, cx: &mut Cx<'_, Comparing<'_, LOGGED>>, here: Here<'_>, from: u64) {
        if self.counterpart.is_lost() {
            return;
        }
        let Cx { worker, tasks, .. } = cx;
        let (mut batch, mut batches) = (Names::default(), 0);
        let read = self.each(worker, from, &mut |name, next| {
            batch.push(name.name, name.kind, name.inode);
            if batch.len() == BATCH {
                tasks.push_in(self.directory, Task::LookUp(std::mem::take(&mut batch)).encoded());
                batches += 1;
                if batches == BATCHES_MOST {
                    tasks.push_in(self.directory, Task::Names(next).encoded());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) => self.look_up(worker, here, &batch),
            Err(error) => self.fail_itself(worker, error),
        }
    }

    /// Reports a failure of the directory itself.
    fn fail_itself(&self, worker: &mut VerifyWorker, error: PairError) {
        let directories = self.directory.parent().zip(self.counterpart.target.parent());
        self.comparing.fail(worker, At { directories, name: self.directory.name() }, error);
    }

    /// Looks up names in the source.
    pub(crate) fn look_up(&self, worker: &mut VerifyWorker, here: Here<'_>, names: &Names) {
        for name in names.iter() {
            if self.comparing.options.walk.stop.is_set() {
                return;
            }
            self.comparing.throttle(1);
            worker.findings.totals.looked_up += 1;
            match sys::stat_at(here.descriptor, name.name, false) {
                Ok(_) => {}
                Err(Errno::NOENT) => self.report_extra(worker, name),
                Err(errno) => self.fail(worker, name, failed(Side::Source, Operation::Stat)(errno)),
            }
        }
    }

    /// Reports a name that the source does not have, unless it was removed meanwhile.
    fn report_extra(&self, worker: &mut VerifyWorker, name: Name<'_>) {
        let opened = self.counterpart.target.descriptor(&mut worker.held, self.comparing.features());
        let found = opened.and_then(|target| sys::stat_at(&target, name.name, false));
        let leaves_out = |place| self.comparing.watch.leaves_out((name.bytes(), place));
        let kind = match found {
            Ok(found) if leaves_out((found.device, found.inode)) => return,
            Ok(found) => found.kind(),
            Err(Errno::NOENT) => return,
            Err(errno) => {
                return self.fail(worker, name, failed(Side::Target, Operation::Stat)(errno));
            }
        };
        // If the directory listing has no type, the rules are checked only here.
        if !self.is_excluded(worker, Name { kind, ..name }) {
            self.comparing.report(worker, &self.at(name).difference(kind, Change::Extra));
        }
    }

    fn fail(&self, worker: &mut VerifyWorker, name: Name<'_>, error: PairError) {
        self.comparing.fail(worker, self.at(name), error);
    }

    fn at<'n>(&'n self, name: Name<'n>) -> At<'n> {
        At { directories: Some((self.directory, &self.counterpart.target)), name: name.name }
    }

    fn is_excluded(&self, worker: &mut VerifyWorker, name: Name<'_>) -> bool {
        let Some(rules) = &self.comparing.options.walk.rules else { return false };
        worker.current.set(self.directory);
        worker.current.is_excluded(rules, name.bytes(), name.kind)
    }

    /// Calls `each` for every name that no rule excludes, from a position on until the end or a break. It also gets the position of the next
    /// name.
    fn each(
        &self,
        worker: &mut VerifyWorker,
        from: u64,
        each: &mut dyn FnMut(Name<'_>, u64) -> ControlFlow<()>,
    ) -> Result<(), PairError> {
        let cannot = |operation| failed(Side::Target, operation);
        let opened = self.counterpart.target.descriptor(&mut worker.held, self.comparing.features());
        // A separate descriptor with its own position, to read from the start.
        let opened = opened.and_then(|target| sys::open_directory_at(&target, c"."));
        let opened = opened.map_err(cannot(Operation::OpenDirectory))?;
        let mut buffer = std::mem::take(&mut worker.buffer);
        let read = read_names(&opened, from, &mut buffer, &mut |name, next| {
            let is_out = name.kind != Kind::Unknown && self.is_excluded(worker, name);
            if is_out { ControlFlow::Continue(()) } else { each(name, next) }
        });
        worker.buffer = buffer;
        read.map_err(cannot(Operation::ReadDirectory))
    }
}

/// Calls `each` for every name of an open directory, from a position on, with the position of the next name.
fn read_names(
    directory: &OwnedFd,
    from: u64,
    buffer: &mut Vec<MaybeUninit<u8>>,
    each: &mut dyn FnMut(Name<'_>, u64) -> ControlFlow<()>,
) -> Result<(), Errno> {
    if from > 0 {
        sys::retry(|| rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(from)))?;
    }
    buffer.resize(BUFFER_BYTES, MaybeUninit::uninit());
    let mut reader = RawDir::new(directory, buffer);
    while let Some(entry) = reader.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(rustix::io::Errno::INTR) => continue,
            // The directory was removed meanwhile: it has no more names.
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(Errno(error.raw_os_error())),
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if name.to_bytes().contains(&b'/') || name.is_empty() {
            // A damaged or hostile file system: such a name could escape the directory.
            return Err(Errno::IO);
        }
        let kind = sys::kind_of(entry.file_type());
        if each(Name { name, kind, inode: entry.ino() }, entry.next_entry_cookie()).is_break() {
            break;
        }
    }
    Ok(())
}
