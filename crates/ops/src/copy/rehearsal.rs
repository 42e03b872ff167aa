//! What a copy would make, found out by looking at names on both sides. It opens directories and nothing else, and writes nothing;
//! what a copy would meet when it opens files is not known here.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::{Entry, Errno, Failure, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use super::attributes::Extended;
use super::changes::{Changes, Wanted};
use super::existing::{Existing, is_alike, is_alike_named};
use super::file::Source;
use super::granularity::Granularity;
use super::handler::CopyWorker;
use super::mirror::{Mirror, Shared};
use super::names::Namer;
use super::report::Report;
use super::roots::{Roots, Target};
use super::stripe;
use super::times::{Clock, Phase, RankReport};
use super::totals::Totals;
use super::trouble::{Doing, Trouble};
use super::{Options, Outcome, Progress, Refused, Seat, Watch};
use crate::descriptors::{Budget, Needs};
use crate::walk::directory::Directory;
use crate::walk::kernel;
use crate::walk::visit::{Handler, Here, Tasks};
use crate::walk::{self, HardLinks, Start};

const ISDIR: Errno = Errno(21);

/// What would become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// It would be made where nothing is.
    New,
    /// It would replace something, or be written into it.
    Replaced,
    /// What is there would be left.
    Skipped,
}

/// See the head of this file.
struct Rehearsal<'a> {
    options: &'a Options<'a>,
    watch: &'a dyn Watch,
    roots: Roots,
    /// Of files, of symbolic links, of special files.
    links: [HardLinks; 3],
    top_identity: (u64, u64),
    held: usize,
}

/// Looks what a copy would do.
pub(crate) fn run(
    sources: &[Vec<u8>],
    starts: impl Iterator<Item = Start> + Send,
    target: &[u8],
    (options, watch): (&Options<'_>, &dyn Watch),
    mut observe: impl FnMut(&Progress),
) -> Result<Outcome, Refused> {
    let mut clock = Clock::start();
    let walk = &options.walk;
    let target = Target::open(target)?;
    // It may be that copies cannot be striped there.
    stripe::layouts(options.stripes.as_ref(), &target.top)?;
    let shared = Shared::new(Namer::new(Seat::alone().job));
    let rehearsal = Rehearsal {
        options,
        watch,
        roots: target.roots(sources, &shared, walk.features)?,
        links: [4, 16, 16].map(|part| HardLinks::new(walk.memory_bytes / part, walk.spill_directory.clone())),
        top_identity: kernel::stat_of(&target.top).map_or((0, 0), |top| (top.device, top.inode)),
        held: Budget::of_process(Needs::COPY, walk.threads.max(walk.cores)).held_in_target,
    };
    let walked = walk::run_handler(&rehearsal, starts, walk, |progress| {
        let walk = progress.clone();
        observe(&Progress { walk, files: 0, bytes: 0, large_found: 0, large_done: 0 });
    });
    let mut totals = Totals::default();
    walked.workers.iter().for_each(|worker| totals += &worker.totals);
    for (index, links) in rehearsal.links.into_iter().enumerate() {
        let settled = links.settle(&options.walk.stop).map_err(|error| Refused {
            what: format!("cannot count hard links: {error}"),
            hint: "give it more --memory, or another $TMPDIR",
            is_usage: false,
        })?;
        // Names that were put off were counted as links, and one of each inode is none.
        *[&mut totals.files, &mut totals.symlinks, &mut totals.specials][index] += settled.inodes;
        totals.bytes = totals.bytes.saturating_add(settled.apparent_bytes);
        totals.hard_links = totals.hard_links.saturating_sub(settled.inodes);
    }
    clock.end(Phase::Copying);
    let rank = RankReport { phases: clock.phases(), ..RankReport::default() };
    let (threads, elapsed, stopped) = (walked.threads, rank.elapsed(), walked.stopped);
    let report = Report::default();
    Ok(Outcome { totals, report, rank, signature: None, threads, elapsed, stopped, parked: false })
}

impl Rehearsal<'_> {
    /// What is there under the name of a copy.
    fn there(
        &self,
        worker: &mut CopyWorker,
        mirror: &Mirror,
        name: &CStr,
    ) -> Result<Option<(Arc<OwnedFd>, Metadata)>, Trouble> {
        if mirror.is_new() {
            return Ok(None);
        }
        let opened = mirror.target.descriptor(&mut worker.held, self.options.walk.features);
        let found = opened.and_then(|directory| {
            let found = kernel::stat_at(&directory, name, false)?;
            Ok((directory, found))
        });
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Trouble::new(Doing::LookAtCopy, errno)),
        }
    }

    /// What would become of an entry; none: it is a directory that is there.
    fn plan(
        &self,
        worker: &mut CopyWorker,
        mirror: &Mirror,
        name: &CStr,
        (from, metadata): (Source<'_>, &Metadata),
    ) -> Result<Option<Planned>, Trouble> {
        let there = self.there(worker, mirror, name)?;
        let is_directory = metadata.kind() == Kind::Directory;
        worker.totals.directories += u64::from(is_directory);
        let Some((directory, there)) = there else {
            self.count(worker, metadata);
            return Ok(Some(Planned::New));
        };
        let (existing, links) = (self.options.existing, self.options.keep.links);
        let is_own = there.nlink == 1 || metadata.nlink > 1 && links;
        let is_left = match existing {
            Existing::Replace => false,
            Existing::Ignore => !is_directory,
            Existing::Update if is_directory || !is_own => false,
            Existing::Update => {
                let copy = Source { directory: directory.as_fd(), name };
                is_up_to_date(self.options, (from, metadata), (copy, &there))?
            }
        };
        match (is_directory, there.kind() == Kind::Directory) {
            (true, true) => Ok(None),
            _ if is_left => {
                worker.totals.skipped += 1;
                Ok(Some(Planned::Skipped))
            }
            (true, false) => Err(Trouble::new(Doing::MakeDirectory, Errno::NOTDIR)),
            (false, true) => Err(Trouble::new(Doing::Rename, ISDIR)),
            (false, false) => {
                self.count(worker, metadata);
                Ok(Some(Planned::Replaced))
            }
        }
    }

    fn count(&self, worker: &mut CopyWorker, metadata: &Metadata) {
        let totals = &mut worker.totals;
        let (index, size) = match metadata.kind() {
            Kind::Directory => return,
            Kind::File => (0, metadata.size),
            Kind::Symlink => (1, 0),
            _ => (2, 0),
        };
        let inode = (metadata.device, metadata.inode);
        let may_be_link = metadata.nlink > 1 && self.options.keep.links;
        if may_be_link && self.links[index].note(inode, metadata.nlink, size, 0) != walk::Seen::First {
            totals.hard_links += 1;
            return;
        }
        *[&mut totals.files, &mut totals.symlinks, &mut totals.specials][index] += 1;
        totals.bytes = totals.bytes.saturating_add(size);
    }

    fn fail(&self, worker: &mut CopyWorker, entry: &Entry<'_>, trouble: Trouble) {
        let (operation, errno) = trouble.told();
        let path = entry.path();
        let root = if entry.depth > 0 { path[..entry.root_bytes].to_vec() } else { path.to_vec() };
        self.failure(
            worker,
            &Failure { operation, root: root.into(), path: path.into(), errno, spelled: None },
        );
    }
}

/// Whether an update would leave what is there, as far as that is known without extended attributes.
fn is_up_to_date(
    options: &Options<'_>,
    (from, metadata): (Source<'_>, &Metadata),
    (copy, there): (Source<'_>, &Metadata),
) -> Result<bool, Trouble> {
    let (keep, extended) = (&options.keep, Extended::default());
    let wanted = Wanted {
        from: metadata,
        extended: &extended,
        keep,
        is_old: true,
        own_mode: None,
        needs_times: false,
    };
    let mut changes = Changes::between(wanted, there, &extended);
    if !rustix::process::geteuid().is_root() && changes.owner.is_some() {
        (changes.owner, changes.is_refused) = (None, true);
    }
    let granularity = Granularity::shown_by(there, copy.directory);
    if metadata.kind() == Kind::File {
        let gives_rights = changes.owner.is_some() || changes.gained_bits() != 0;
        return Ok(!gives_rights && is_alike(metadata, there, granularity));
    }
    let is_same = changes.owner.is_none() && (metadata.kind() == Kind::Symlink || changes.are_none());
    Ok(is_same && is_alike_named((from, metadata), (copy, there), keep.times.then_some(granularity))?)
}

impl Handler for Rehearsal<'_> {
    type Worker = CopyWorker;

    const NEEDS: Needs = Needs::COPY;

    fn worker(&self, index: usize) -> CopyWorker {
        CopyWorker::new(index as u64, self.held)
    }

    fn root(&self, directory: &Arc<Directory>) {
        if let Some(root) = self.roots.find(directory.name().to_bytes()) {
            directory.attach(Arc::clone(&root.mirror));
        }
    }

    fn entered(&self, worker: &mut CopyWorker, here: Here<'_>) {
        let Some(mirror) = Mirror::of(here.directory) else { return };
        let above = here.directory.parent().and_then(Mirror::of);
        let mut opened = || mirror.target.descriptor(&mut worker.held, self.options.walk.features);
        if above.is_some_and(|above| above.is_new()) || matches!(opened(), Err(Errno::NOENT)) {
            mirror.set_new(0);
        }
    }

    fn entry(&self, worker: &mut CopyWorker, here: Option<Here<'_>>, entry: &Entry<'_>, tasks: &mut Tasks) {
        let metadata = entry.metadata.copied().unwrap_or_default();
        let name = CString::new(entry.name).unwrap_or_default();
        let identity = (metadata.device, metadata.inode);
        let planned = match here {
            Some(_) if entry.kind == Kind::Directory && identity == self.top_identity => {
                Err(Trouble::new(Doing::MakeDirectory, Errno::LOOP))
            }
            Some(here) => match Mirror::of(here.directory) {
                Some(mirror) => {
                    let from = Source { directory: here.descriptor.as_fd(), name: &name };
                    self.plan(worker, &mirror, &name, (from, &metadata))
                }
                None => return,
            },
            None => match self.roots.find(entry.name) {
                Some(root) => {
                    let from = Source { directory: CWD, name: &name };
                    self.plan(worker, &root.parent, &root.name, (from, &metadata))
                }
                None => return,
            },
        };
        match planned {
            Ok(None) => {}
            Ok(Some(planned)) => self.watch.planned(planned, &entry.path()),
            Err(trouble) => {
                self.fail(worker, entry, trouble);
                tasks.prune();
            }
        }
    }

    fn task(&self, _: &mut CopyWorker, _: Result<Option<Here<'_>>, Errno>, _: &[u8], _: &mut Tasks) {}

    fn failure(&self, worker: &mut CopyWorker, failure: &Failure<'_>) {
        *worker.totals.failures.entry(failure.errno).or_default() += 1;
        self.watch.failure(failure);
    }

    fn finish(&self, _worker: &mut CopyWorker) {}
}
