//! A dry run: finds out what a copy would make by comparing names on both sides. It opens only directories and writes nothing. Errors
//! that a copy would get when it opens files are not known here.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use atta_entry::{Entry, Errno, Failure, Kind, Metadata};
use atta_runtime::Stop;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use crate::copy::options::{Existing, Options, Outcome, Planned, Progress, Watch, starts_of};
use crate::copy::plan::roots::{Destination, Roots};
use crate::copy::plan::unfinished::is_unfinished;
use crate::copy::results::Results;
use crate::copy::results::report::Report;
use crate::copy::results::times::{Clock, Phase, RankReport};
use crate::copy::results::totals::Totals;
use crate::copy::target::existing::{is_alike, is_alike_named};
use crate::copy::target::mirror::{Here, Mirror, Shared, SourceDirectory};
use crate::copy::target::stripe::Striping;
use crate::copy::{Refused, Seat};
use crate::descriptors::{Budget, Needs};
use crate::file::error::{FileError, Step};
use crate::file::source::Source;
use crate::jobs::names::Namer;
use crate::metadata::differences::{Changes, Wanted};
use crate::metadata::extended::Extended;
use crate::metadata::granularity::{Granularity, Shown};
use crate::tree::listing::descriptor_cache::DescriptorCache;
use crate::tree::operation::{Cx, Handler};
use crate::tree::{self, Differs, Seed, Start};
use crate::walk::{HardLinks, LinkedName, Seen};
use atta_sys as sys;

/// A dry run: it cannot copy. The plan that copies is [`Copy`](crate::copy::Copy).
pub struct DryRun<'a> {
    rehearsal: Rehearsal<'a>,
    starts: Box<dyn Iterator<Item = Seed> + Send + 'a>,
}

/// The handler that looks at the entries.
struct Rehearsal<'a> {
    options: &'a Options<'a>,
    watch: &'a dyn Watch,
    roots: Roots,
    /// Hard links of files, of symbolic links, and of special files.
    links: [HardLinks; 3],
    top_identity: (u64, u64),
    /// Timestamp granularity of the target's file systems.
    granularity: Shown,
    held: usize,
}

/// State of one thread of a dry run.
struct Rehearser {
    held: DescriptorCache,
    results: Results,
}

/// A name in the target.
struct Name<'a> {
    mirror: &'a Mirror,
    name: &'a CStr,
}

impl<'a> DryRun<'a> {
    /// Looks at SOURCE... and TARGET.
    ///
    /// # Errors
    /// As [`run`](fn@crate::copy::run).
    pub fn prepare(
        sources: &'a [Vec<u8>],
        target: &[u8],
        options: &'a Options<'a>,
        watch: &'a dyn Watch,
    ) -> Result<Self, Refused> {
        let walk = &options.walk;
        let target = Destination::open(target, options.no_target_directory, walk.features)?;
        // Fails if copies cannot be striped there.
        Striping::new(options.stripes.as_ref(), &target.top)?;
        let shared = Shared::new(Namer::new(Seat::alone().job));
        let spill = |part| HardLinks::new(walk.memory_bytes / part, walk.spill_directory.clone());
        let rehearsal = Rehearsal {
            options,
            watch,
            roots: target.roots(sources, &shared)?,
            links: [4, 16, 16].map(spill),
            top_identity: sys::stat_of(&target.top).map_or((0, 0), |top| (top.device, top.inode)),
            granularity: Shown::default(),
            held: Budget::of_process(Needs::COPY, walk.threads.max(walk.cores)).held_in_target,
        };
        Ok(Self { rehearsal, starts: Box::new(starts_of(sources).map(Seed::from)) })
    }

    /// Looks at the entries of a list instead: see [`run_listed`](crate::copy::run_listed).
    #[must_use]
    pub fn listed(self, starts: impl Iterator<Item = Start> + Send + 'a) -> Self {
        Self { starts: Box::new(starts.map(Seed::from)), ..self }
    }

    /// Looks at the entries of a list of differences instead: see [`run_repair`](crate::copy::run_repair).
    #[must_use]
    pub fn repairing(self, rows: impl Iterator<Item = (Start, Differs)> + Send + 'a) -> Self {
        Self { starts: Box::new(rows.map(Seed::from)), ..self }
    }

    /// Counts what a copy would make, and reports each name to [`Watch::planned`]. Returns after the last entry, or once
    /// `options.walk.stop` is set.
    ///
    /// # Errors
    /// The memory for hard links is used up, and writing their temporary file fails.
    pub fn run(self, mut observe: impl FnMut(&Progress)) -> Result<Outcome, Refused> {
        let Self { rehearsal, starts } = self;
        let mut clock = Clock::start();
        let walked = tree::run_alone(&rehearsal, starts, &rehearsal.options.walk, |progress, _| {
            let walk = progress.clone();
            observe(&Progress { walk, files: 0, bytes: 0, large_found: 0, large_done: 0 });
        });
        let mut totals = walked.results.totals;
        count_links(rehearsal.links, &rehearsal.options.walk.stop, &mut totals)?;
        clock.end(Phase::Copying);
        let rank = RankReport { phases: clock.phases(), ..RankReport::default() };
        let (threads, elapsed, stopped) = (walked.threads, rank.elapsed(), walked.stopped);
        let report = Report::default();
        let (signature, parked, leftovers) = (None, false, None);
        let exchanged = walked.exchanged;
        Ok(Outcome {
            totals,
            report,
            rank,
            signature,
            threads,
            elapsed,
            stopped,
            parked,
            leftovers,
            exchanged,
        })
    }
}

impl std::fmt::Debug for DryRun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DryRun").finish_non_exhaustive()
    }
}

/// Counts the first name of each inode as a copy: so far all of its names are counted as links.
fn count_links(links: [HardLinks; 3], stop: &Stop, totals: &mut Totals) -> Result<(), Refused> {
    for (index, links) in links.into_iter().enumerate() {
        let settled = links.settle(stop).map_err(|error| Refused {
            what: format!("cannot count hard links: {error}"),
            hint: "give it more --memory, or another $TMPDIR".into(),
            is_usage: false,
        })?;
        *[&mut totals.files, &mut totals.symlinks, &mut totals.specials][index] += settled.inodes;
        totals.bytes = totals.bytes.saturating_add(settled.apparent_bytes);
        totals.hard_links = totals.hard_links.saturating_sub(settled.inodes);
    }
    Ok(())
}

impl Rehearsal<'_> {
    /// Finds the existing entry under the name of a copy.
    fn there(
        &self,
        worker: &mut Rehearser,
        to: &Name<'_>,
    ) -> Result<Option<(Arc<OwnedFd>, Metadata)>, FileError> {
        let Name { mirror, name } = *to;
        if mirror.is_new() {
            return Ok(None);
        }
        let opened = mirror.target.descriptor(&mut worker.held, self.options.walk.features);
        let found = opened.and_then(|directory| {
            let found = sys::stat_at(&directory, name, false)?;
            Ok((directory, found))
        });
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FileError::new(Step::LookAtCopy, errno)),
        }
    }

    /// Plans an entry. `None`: it is a directory that exists.
    fn plan(
        &self,
        worker: &mut Rehearser,
        to: &Name<'_>,
        (from, metadata): (Source<'_>, &Metadata),
    ) -> Result<Option<Planned>, FileError> {
        let there = self.there(worker, to)?;
        let is_directory = metadata.kind() == Kind::Directory;
        let Some((directory, there)) = there else {
            worker.results.totals.directories += u64::from(is_directory);
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
                let copy = Source { directory: directory.as_fd(), name: to.name };
                let granularity = self.granularity.by(&there, copy);
                is_up_to_date(self.options, (from, metadata), (copy, &there), granularity)?
            }
        };
        match (is_directory, there.kind() == Kind::Directory) {
            (true, true) => {
                worker.results.totals.directories += 1;
                Ok(None)
            }
            _ if is_left => {
                worker.results.totals.skipped += 1;
                Ok(Some(Planned::Skipped))
            }
            (true, false) => Err(FileError::new(Step::MakeDirectory, Errno::NOTDIR)),
            (false, true) => Err(FileError::new(Step::Rename, Errno::ISDIR)),
            (false, false) => {
                self.count(worker, metadata);
                Ok(Some(Planned::Replaced))
            }
        }
    }

    fn count(&self, worker: &mut Rehearser, metadata: &Metadata) {
        let totals = &mut worker.results.totals;
        let (index, size) = match metadata.kind() {
            Kind::Directory => return,
            Kind::File => (0, metadata.size),
            Kind::Symlink => (1, 0),
            _ => (2, 0),
        };
        let inode = (metadata.device, metadata.inode);
        let may_be_link = metadata.nlink > 1 && self.options.keep.links;
        let name = LinkedName { inode, names: metadata.nlink, apparent_bytes: size, ..LinkedName::default() };
        if may_be_link && self.links[index].note(&name) != Seen::First {
            totals.hard_links += 1;
            return;
        }
        *[&mut totals.files, &mut totals.symlinks, &mut totals.specials][index] += 1;
        totals.bytes = totals.bytes.saturating_add(size);
    }

    /// The directory that gets a copy, and its name there. `None`: the entry is not below a copied root.
    fn place(
        &self,
        here: Option<Here<'_>>,
        name: &CString,
        entry: &Entry<'_>,
    ) -> Option<(Arc<Mirror>, CString)> {
        match here {
            Some(here) => Some((Mirror::of(here.directory)?, name.clone())),
            None => self.roots.find(entry.name).map(|root| (Arc::clone(&root.parent), root.name.clone())),
        }
    }

    fn fail(&self, worker: &mut Rehearser, entry: &Entry<'_>, (at, error): (Vec<u8>, FileError)) {
        let (operation, errno) = error.described();
        let path = entry.path();
        let root = if entry.depth > 0 { path[..entry.root_bytes].to_vec() } else { path.to_vec() };
        let at = error.is_of_target().then(|| at.into());
        let (root, path) = (root.into(), path.into());
        self.failure(worker, &Failure { operation, root, path, errno, spelled: None, at });
    }
}

/// Whether an update would leave the existing entry alone, as far as is known without extended attributes.
fn is_up_to_date(
    options: &Options<'_>,
    (from, metadata): (Source<'_>, &Metadata),
    (copy, there): (Source<'_>, &Metadata),
    granularity: Granularity,
) -> Result<bool, FileError> {
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
    if metadata.kind() == Kind::File {
        let gives_rights = changes.owner.is_some() || changes.gained_bits() != 0;
        return Ok(!gives_rights && is_alike(metadata, there, granularity));
    }
    let is_same = changes.owner.is_none() && (metadata.kind() == Kind::Symlink || changes.are_none());
    Ok(is_same && is_alike_named((from, metadata), (copy, there), keep.times.then_some(granularity))?)
}

impl Handler for Rehearsal<'_> {
    type Worker = Rehearser;
    type State = Arc<Mirror>;

    const NEEDS: Needs = Needs::COPY;

    fn worker(&self, _index: usize) -> Rehearser {
        Rehearser { held: DescriptorCache::new(self.held), results: Results::default() }
    }

    fn results<'w>(&self, worker: &'w mut Rehearser) -> Option<&'w mut Results> {
        Some(&mut worker.results)
    }

    fn root(&self, directory: &Arc<SourceDirectory>) {
        self.roots.set_state(directory);
    }

    fn entered(&self, worker: &mut Rehearser, here: Here<'_>) {
        let Some(mirror) = Mirror::of(here.directory) else { return };
        let above = here.directory.parent().and_then(Mirror::of);
        let mut opened = || mirror.target.descriptor(&mut worker.held, self.options.walk.features);
        if above.is_some_and(|above| above.is_new()) || matches!(opened(), Err(Errno::NOENT)) {
            mirror.set_new(0);
        }
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let here = cx.here();
        let Cx { worker, tasks, .. } = cx;
        let features = self.options.walk.features;
        if here.is_some_and(|here| is_unfinished(here, entry.name, &mut worker.held, features)) {
            worker.results.totals.unfinished += 1;
            return tasks.prune();
        }
        let metadata = entry.metadata.copied().unwrap_or_default();
        let name = CString::new(entry.name).unwrap_or_default();
        let identity = (metadata.device, metadata.inode);
        let from = here.map_or(CWD, |here| here.descriptor.as_fd());
        let from = Source { directory: from, name: &name };
        let Some((mirror, name)) = self.place(here, &name, entry) else { return };
        let is_endless = here.is_some() && entry.kind == Kind::Directory && identity == self.top_identity;
        let planned = match is_endless {
            true => Err(FileError::new(Step::MakeDirectory, Errno::LOOP)),
            false => self.plan(worker, &Name { mirror: &mirror, name: &name }, (from, &metadata)),
        };
        match planned {
            Ok(None) => {}
            Ok(Some(planned)) => self.watch.planned(planned, &entry.path()),
            Err(error) => {
                self.fail(worker, entry, (mirror.path_of(&name), error));
                tasks.prune();
            }
        }
    }

    fn differing(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>, differs: Differs) {
        let here = cx.here();
        let Cx { worker, tasks, .. } = cx;
        let metadata = entry.metadata.copied().unwrap_or_default();
        let name = CString::new(entry.name).unwrap_or_default();
        let there = self.place(here, &name, entry).map(|(mirror, name)| {
            let to = Name { mirror: &mirror, name: &name };
            self.there(worker, &to)
        });
        let is_repaired = there.and_then(Result::ok).flatten().is_some_and(|(_, there)| {
            let is_same = entry.kind == Kind::Directory || there.size == metadata.size && !differs.content;
            there.kind() == entry.kind && is_same && !differs.is_missing
        });
        if is_repaired {
            worker.results.totals.repaired += 1;
            self.watch.planned(Planned::Attributes, &entry.path());
            return tasks.prune();
        }
        self.entry(cx, entry);
    }

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    fn failure(&self, worker: &mut Rehearser, failure: &Failure<'_>) {
        *worker.results.totals.failures.entry(failure.errno).or_default() += 1;
        self.watch.failure(failure);
    }

    fn finish(&self, _worker: &mut Rehearser) {}
}
