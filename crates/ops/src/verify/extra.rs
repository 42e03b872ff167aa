//! Names that exist in the target only. Sums usually show that a directory has none (see `counterpart.rs`). Otherwise its names are read
//! and each is looked up in the source, in batches that any thread may take. Memory for names stays within the walk's limit, regardless of
//! their number.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::sync::Arc;

use atta_entry::{Change, Errno, Kind, Operation, Side};
use rustix::fd::OwnedFd;
use rustix::fs::RawDir;

use super::counterpart::SourceDirectory;
use super::counterpart::{Counterpart, Tally};
use super::counterpart::{Here, Tasks};
use super::handler::{Comparing, VerifyWorker};
use super::pair::At;
use super::task::Task;
use crate::file::error::{PairError, failed};
use crate::tree::listing::names::{Name, Names};
use atta_sys as sys;

/// Size of the buffer for `getdents64`.
const BUFFER_BYTES: usize = 64 << 10;
/// Names that one thread looks up at a time: some milliseconds of work.
const BATCH: usize = 1024;
/// Batches that one task may hand out. The next task reads on, so the names of a directory are never all in memory.
const BATCHES_MOST: usize = 64;

impl Comparing<'_> {
    /// Called when all names of a source directory are done. If the target may have more names, adds a task for them.
    pub(crate) fn count_names(
        &self,
        worker: &mut VerifyWorker,
        directory: &Arc<SourceDirectory>,
        counterpart: &Counterpart,
        tasks: &mut Tasks,
    ) {
        let (known, mut tally) = (counterpart.tally(), Tally::default());
        let counted = self.each_name(worker, (directory, 0), counterpart, &mut |name, _| {
            counterpart.add_to(&mut tally, name.name);
            // One more name than known is enough: the target has extra names.
            if tally.names > known.names { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if counted.is_err() || tally != known {
            tasks.push_in(directory, Task::Names(0).bytes());
        }
    }

    /// Reads names of the target's directory, from this position on, and cuts them into batches.
    pub(crate) fn look_up_names(
        &self,
        worker: &mut VerifyWorker,
        here: Here<'_>,
        from: u64,
        tasks: &mut Tasks,
    ) {
        let Some(counterpart) = Counterpart::of(here.directory) else { return };
        if counterpart.is_lost() {
            return;
        }
        let (mut batch, mut batches) = (Names::default(), 0);
        let read = self.each_name(worker, (here.directory, from), &counterpart, &mut |name, next| {
            batch.push(name.name, name.kind, name.inode);
            if batch.len() == BATCH {
                tasks.push_in(here.directory, Task::LookUp(batch.bytes()).bytes());
                batch.clear();
                batches += 1;
                if batches == BATCHES_MOST {
                    tasks.push_in(here.directory, Task::Names(next).bytes());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            // Reported once, for the directory itself.
            let Some(parent) = here.directory.parent().zip(counterpart.target.parent()) else {
                return self.fail(worker, At { directories: None, name: here.directory.name() }, error);
            };
            let at = At { directories: Some(parent), name: here.directory.name() };
            return self.fail(worker, at, error);
        }
        self.look_up(worker, here, &batch);
    }

    /// Looks up names of the target in the source.
    pub(crate) fn look_up(&self, worker: &mut VerifyWorker, here: Here<'_>, names: &Names) {
        let Some(counterpart) = Counterpart::of(here.directory) else { return };
        for name in names.iter() {
            if self.options.walk.stop.is_set() {
                return;
            }
            let at = At { directories: Some((here.directory, &counterpart.target)), name: name.name };
            self.throttle(1);
            match sys::stat_at(here.descriptor, name.name, false) {
                Ok(_) => {}
                Err(Errno::NOENT) => self.tell_extra(worker, at, &counterpart, name),
                Err(errno) => self.fail(worker, at, failed(Side::Source, Operation::Stat)(errno)),
            }
        }
    }

    fn tell_extra(&self, worker: &mut VerifyWorker, at: At<'_>, counterpart: &Counterpart, name: Name<'_>) {
        let opened = counterpart.target.descriptor(&mut worker.held, self.features());
        let found = opened.and_then(|target| sys::stat_at(&target, name.name, false));
        let kind = match found {
            Ok(found) => found.kind(),
            // Removed meanwhile.
            Err(Errno::NOENT) => return,
            Err(errno) => {
                return self.fail(worker, at, failed(Side::Target, Operation::Stat)(errno));
            }
        };
        // If the directory listing has no type, the rules are checked only here.
        if !self.is_excluded(worker, at, name.name, kind) {
            self.tell(worker, at, kind, Change::Extra);
        }
    }

    fn is_excluded(&self, worker: &mut VerifyWorker, at: At<'_>, name: &CStr, kind: Kind) -> bool {
        let (Some(rules), Some((directory, _))) = (&self.options.walk.rules, at.directories) else {
            return false;
        };
        worker.current.set(directory);
        worker.current.is_excluded(rules, name.to_bytes(), kind)
    }

    /// Calls `each` for every name in the target's directory that no rule excludes, from a position on until the end or a break. It also gets
    /// the position of the next name.
    fn each_name(
        &self,
        worker: &mut VerifyWorker,
        (directory, from): (&Arc<SourceDirectory>, u64),
        counterpart: &Counterpart,
        each: &mut dyn FnMut(Name<'_>, u64) -> ControlFlow<()>,
    ) -> Result<(), PairError> {
        let cannot = |operation| failed(Side::Target, operation);
        let opened = counterpart.target.descriptor(&mut worker.held, self.features());
        // A separate descriptor with its own position, to read from the start.
        let opened = opened.and_then(|target| sys::open_directory_at(&target, c"."));
        let opened = opened.map_err(cannot(Operation::OpenDirectory))?;
        let at = At { directories: Some((directory, &counterpart.target)), name: c"" };
        let mut buffer = std::mem::take(&mut worker.buffer);
        let read = read_names((&opened, from), &mut buffer, &mut |name, next| {
            let is_out = name.kind != Kind::Unknown && self.is_excluded(worker, at, name.name, name.kind);
            if is_out { ControlFlow::Continue(()) } else { each(name, next) }
        });
        worker.buffer = buffer;
        read.map_err(cannot(Operation::ReadDirectory))
    }
}

/// Calls `each` for every name of an open directory, from a position on, with the position of the next name.
fn read_names(
    (directory, from): (&OwnedFd, u64),
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
