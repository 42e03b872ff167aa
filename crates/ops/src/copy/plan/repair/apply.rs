//! Repairs one entry after another: see `repair.rs`.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use atta_entry::{Entry, Failure, Kind, Metadata};
use atta_runtime::Stop;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};

use crate::copy::handler::Copying;
use crate::copy::links::Deferred;
use crate::copy::options::number_of_thread;
use crate::copy::thread::{Scratch, Worker};
use crate::file::mover::Mover;

use crate::copy::target::existing::{is_alike, there};
use crate::copy::target::mirror::{Here, Location, Mirror, SourceDirectory, Tasks};
use crate::copy::target::place::Place;
use crate::copy::target::special::read_link;
use crate::descriptors::Needs;
use crate::file::compare::{Blocks, Two};
use crate::file::error::{FileError, Step};
use crate::file::source::{Source, is_same, look, open, settled};
use crate::metadata::give::Attributes;
use crate::tree::directory::Directory;
use crate::tree::operation::{Cx, Handler};
use crate::tree::{self, Differs, Start};
use atta_sys::{self as sys, retry};

/// Device and inode.
type File = (u64, u64);

/// The set-id bits, which give the rights of the owner or group.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

fn file_of(metadata: &Metadata) -> File {
    (metadata.device, metadata.inode)
}

impl Copying<'_> {
    /// Whether a hard link has to wait.
    pub(crate) fn defers_names(&self) -> bool {
        self.repair.as_ref().is_some_and(|repair| !repair.is_settling.load(Ordering::Acquire))
    }

    /// Repairs an entry, or reports why not.
    pub(crate) fn repair(
        &self,
        worker: &mut Worker,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
        differs: Differs,
        tasks: &mut Tasks,
    ) {
        let name = CString::new(entry.name).unwrap_or_default();
        let at = match here {
            Some(here) => Location::In(Arc::clone(here.directory), name.clone()),
            None => Location::Root(entry.name.to_vec()),
        };
        let is_done = match here {
            Some(here) => self.repair_below(worker, (&at, here), &name, entry, differs),
            None => self.repair_root(worker, (&at, &name), entry, differs),
        };
        match is_done {
            Ok(true) => tasks.prune(),
            Ok(false) => self.copy_entry(worker, here, entry, tasks),
            Err(error) => {
                self.fail(worker, &at, error);
                tasks.prune();
            }
        }
    }

    /// Repairs a name below a root. Returns whether nothing is left to copy.
    fn repair_below(
        &self,
        worker: &mut Worker,
        (at, here): (&Location, Here<'_>),
        name: &CString,
        entry: &Entry<'_>,
        differs: Differs,
    ) -> Result<bool, FileError> {
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(true) };
        if mirror.is_new() {
            return Ok(false);
        }
        let to = self.place_of(worker, Some(here.directory), &mirror, name)?.within(here.slice);
        let metadata = entry.metadata.copied().unwrap_or_default();
        let Some(found) = there(&to)? else { return Ok(false) };
        if (metadata.kind(), found.kind()) == (Kind::Directory, Kind::Directory) {
            if !differs.is_missing {
                let directory = Arc::new(Directory::below(here.directory, name, None));
                self.expect_above(worker, &directory)?;
                // No entry is made in it for this row.
                self.close_source(worker, &directory);
                worker.results.totals.repaired += 1;
            }
            return Ok(!differs.is_missing);
        }
        let from = Source { directory: here.descriptor.as_fd(), name };
        self.repair_file(worker, (at, from, &to), (&metadata, &found), differs)
    }

    /// Repairs a root itself. Returns whether nothing is left to copy.
    fn repair_root(
        &self,
        worker: &mut Worker,
        (at, path): (&Location, &CString),
        entry: &Entry<'_>,
        differs: Differs,
    ) -> Result<bool, FileError> {
        let Some(root) = self.roots.find(entry.name).cloned() else { return Ok(true) };
        let to = self.place_of(worker, None, &root.parent, &root.name)?;
        let metadata = entry.metadata.copied().unwrap_or_default();
        let Some(found) = there(&to)? else { return Ok(false) };
        if (metadata.kind(), found.kind()) != (Kind::Directory, Kind::Directory) {
            let from = Source { directory: CWD, name: path };
            return self.repair_file(worker, (at, from, &to), (&metadata, &found), differs);
        }
        if differs.is_missing {
            return Ok(false);
        }
        let opened = sys::open_directory_path(entry.name, true);
        let opened = opened.map_err(|errno| FileError::new(Step::Open, errno))?;
        let metadata = look(&opened)?;
        let extended = self.extended(worker, &opened)?;
        root.mirror.will_have(Attributes { metadata, extended, is_old: true });
        worker.results.totals.repaired += 1;
        Ok(true)
    }

    /// Repairs an entry that is not a directory on both sides. Returns whether nothing is left to copy.
    fn repair_file(
        &self,
        worker: &mut Worker,
        (at, from, to): (&Location, Source<'_>, &Place<'_>),
        (metadata, found): (&Metadata, &Metadata),
        differs: Differs,
    ) -> Result<bool, FileError> {
        if (metadata.kind(), found.kind()) != (Kind::File, Kind::File) {
            return Ok(false);
        }
        let may_be_link = metadata.nlink > 1 && self.options.keep.links;
        if differs.links && may_be_link {
            self.defer(at, to, metadata);
            return Ok(true);
        }
        // A file with one name must not be shared with another name.
        if (found.nlink > 1 && !may_be_link) || metadata.size != found.size {
            return Ok(false);
        }
        self.keep_bytes(worker, from, to, differs)
    }

    /// Sets the differing attributes of a file with the bytes of its source. Returns whether the file keeps its bytes.
    fn keep_bytes(
        &self,
        worker: &mut Worker,
        from: Source<'_>,
        to: &Place<'_>,
        differs: Differs,
    ) -> Result<bool, FileError> {
        let source = open(from)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = retry(|| rustix::fs::openat(&to.directory, to.name, flags, Mode::empty())) else {
            // A file that cannot be opened can be replaced.
            return Ok(false);
        };
        // A file that keeps changing is copied like any such file.
        let (Ok(before), Ok(found)) = (settled(&source), settled(&file)) else { return Ok(false) };
        if (before.kind(), found.kind()) != (Kind::File, Kind::File) || before.size != found.size {
            return Ok(false);
        }
        let is_alike = is_alike(&before, &found, self.stores.granularity(found.device));
        if differs.content || !is_alike {
            let is_equal = self.has_equal_bytes((&source, &before), (&file, &found));
            if self.options.walk.stop.is_set() {
                return Ok(true);
            }
            if !is_equal || !is_same(&before, &look(&source)?) || !is_same(&found, &look(&file)?) {
                return Ok(false);
            }
        }
        let counted = worker.results.totals.not_kept;
        let is_mended = self.mend(worker, to, (&source, &before), (&file, &found), !is_alike)?;
        if is_mended {
            worker.results.totals.repaired += 1;
        } else {
            // The copy will count it.
            worker.results.totals.not_kept = counted;
        }
        Ok(is_mended)
    }

    /// Whether two files of the same size have equal bytes. False if this cannot be found out.
    fn has_equal_bytes(
        &self,
        (source, from): (&OwnedFd, &Metadata),
        (file, found): (&OwnedFd, &Metadata),
    ) -> bool {
        let has_holes = |metadata: &Metadata| metadata.allocated_bytes() < metadata.size;
        let two = Two {
            source: source.as_fd(),
            target: file.as_fd(),
            sizes: [from.size, found.size],
            have_holes: has_holes(from) && has_holes(found),
        };
        let mut wanted = |_| !self.options.walk.stop.is_set();
        // A file that reports a size of zero may have data and is copied anew.
        from.size > 0 && matches!(Blocks::default().compare(two, 0..from.size, &mut wanted), Ok(None))
    }

    /// Records the final attributes of roots that no row led to: this job makes its own files in TARGET.
    pub(crate) fn expect_roots(&self, worker: &mut Worker) {
        for path in self.roots.paths() {
            let Some(root) = self.roots.find(&path).filter(|root| !root.mirror.is_expecting()) else {
                continue;
            };
            if root.mirror.target.descriptor(&mut worker.scratch.held, self.features).is_err() {
                continue;
            }
            let Ok(opened) = sys::open_directory_path(&path, true) else { continue };
            let extended = self.extended(worker, &opened);
            if let (Ok(metadata), Ok(extended)) = (look(&opened), extended) {
                root.mirror.will_have(Attributes { metadata, extended, is_old: true });
            }
        }
    }

    /// Defers a hard link until its partners are searched for.
    pub(crate) fn defer(&self, at: &Location, to: &Place<'_>, metadata: &Metadata) {
        self.links.defer(Deferred::new(at.clone(), to, *metadata));
    }

    /// Searches for the files that deferred names are links of. A partner is a name of SOURCE that was not deferred and whose copy is the
    /// same file, judged by kind, size, time, owner and mode. No name is deferred after this.
    pub(crate) fn find_partners(&self, worker: &mut Worker, deferred: &[Deferred]) {
        let Some(repair) = &self.repair else { return };
        repair.is_settling.store(true, Ordering::Release);
        let search = Search::new(self, worker, deferred);
        if search.left.load(Ordering::Relaxed) == 0 {
            return;
        }
        let of_copy = &self.options.walk;
        let walk = tree::Options {
            one_file_system: of_copy.one_file_system,
            birth_time: false,
            rate: of_copy.rate,
            threads: of_copy.threads,
            memory_bytes: of_copy.memory_bytes,
            spill_directory: of_copy.spill_directory.clone(),
            stop: search.stop.clone(),
            features: of_copy.features,
            cores: of_copy.cores,
            ..tree::Options::default()
        };
        let starts: Vec<_> = self.roots.paths().into_iter().map(Start::new).collect();
        tree::run_alone(&search, starts, &walk, |_, _| {
            if of_copy.stop.is_set() {
                search.stop.set();
            }
        });
    }

    /// Makes a deferred name.
    pub(crate) fn make_put_off(
        &self,
        worker: &mut Worker,
        deferred: &Deferred,
    ) -> Result<Option<crate::copy::target::place::Made>, FileError> {
        let name = deferred.name();
        let to = self.place(worker, &deferred.mirror, &name)?;
        self.with_source(worker, &deferred.at, |worker, from| {
            self.linked(worker, &deferred.at, from, &to, &deferred.metadata)
        })
    }
}

/// The search for partners: a walk of SOURCE.
struct Search<'a> {
    copying: &'a Copying<'a>,
    wanted: HashMap<File, Wanted>,
    /// Files without a known partner.
    left: AtomicUsize,
    stop: Stop,
}

/// A file of SOURCE with deferred names.
struct Wanted {
    /// Its deferred names.
    names: HashSet<Vec<u8>>,
    /// The files with these names in TARGET, which are to be replaced: they are not partners.
    replaced: HashSet<File>,
    is_found: AtomicBool,
}

impl<'a> Search<'a> {
    fn new(copying: &'a Copying<'a>, worker: &mut Worker, deferred: &[Deferred]) -> Self {
        let mut wanted: HashMap<File, Wanted> = HashMap::new();
        let mut names: HashMap<File, u64> = HashMap::new();
        for deferred in deferred {
            let file = file_of(&deferred.metadata);
            let one = wanted.entry(file).or_insert_with(|| Wanted {
                names: HashSet::new(),
                replaced: HashSet::new(),
                is_found: AtomicBool::new(false),
            });
            one.names.insert(deferred.at.root_and_path().1);
            names.insert(file, deferred.metadata.nlink.into());
            let name = deferred.name();
            let to = copying.place(worker, &deferred.mirror, &name);
            one.replaced.extend(to.and_then(|to| there(&to)).ok().flatten().map(|found| file_of(&found)));
        }
        // All names of the file were deferred: it has no other name.
        wanted.retain(|file, one| names.get(file).is_some_and(|names| *names > one.names.len() as u64));
        Self { copying, left: AtomicUsize::new(wanted.len()), wanted, stop: Stop::new() }
    }

    /// Notes the copy of an entry as the file that deferred names become links of, if it is a partner.
    fn look(&self, worker: &mut Worker, here: Here<'_>, entry: &Entry<'_>) -> Result<(), FileError> {
        let Some(metadata) = entry.metadata else { return Ok(()) };
        let Some(wanted) = self.wanted.get(&file_of(metadata)) else { return Ok(()) };
        if wanted.is_found.load(Ordering::Relaxed) || wanted.names.contains(&entry.path()[..]) {
            return Ok(());
        }
        let (Some(mirror), Ok(name)) = (Mirror::of(here.directory), CString::new(entry.name)) else {
            return Ok(());
        };
        let to = self.copying.place(worker, &mirror, &name)?;
        let Some(found) = there(&to)? else { return Ok(()) };
        let from = Source { directory: here.descriptor.as_fd(), name: &name };
        let copy = Source { directory: to.directory.as_fd(), name: &name };
        let is_partner = !wanted.replaced.contains(&file_of(&found))
            && self.copying.may_be_copy(metadata, &found)
            && (found.kind() != Kind::Symlink || read_link(from)? == read_link(copy)?);
        if is_partner && self.copying.keep_partner(metadata, &to, file_of(&found))? {
            wanted.is_found.store(true, Ordering::Relaxed);
            if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.stop.set();
            }
        }
        Ok(())
    }
}

impl Copying<'_> {
    /// Whether an existing entry is the copy of a source with several names, judged by its metadata. An unprivileged user cannot make a
    /// file with another owner.
    fn may_be_copy(&self, from: &Metadata, found: &Metadata) -> bool {
        let keep = &self.options.keep;
        let (owner, group) = keep.owners_of(from);
        let is_mine = found.uid == rustix::process::geteuid().as_raw();
        let has_owner = owner.is_none_or(|owner| owner.as_raw() == found.uid);
        let has_group = group.is_none_or(|group| group.as_raw() == found.gid);
        let is_plain = from.mode & (SET_USER | SET_GROUP) == 0 && found.mode & (SET_USER | SET_GROUP) == 0;
        let is_owned = (has_owner && has_group) || (is_mine && is_plain);
        let is_of_kind = match (from.kind(), found.kind()) {
            (Kind::File, _) => is_alike(from, found, self.stores.granularity(found.device)),
            (Kind::Symlink, Kind::Symlink) => true,
            // Device numbers would have to be compared, too.
            _ => false,
        };
        is_owned && is_of_kind
    }

    /// Keeps an existing copy as the one that other names of its source become links of. Returns whether that worked.
    fn keep_partner(&self, metadata: &Metadata, to: &Place<'_>, found: File) -> Result<bool, FileError> {
        match self.private() {
            Ok(known) if !to.mirror.is_mounted() => self.keep_linked(known, metadata, to, found),
            _ => Ok(false),
        }
    }
}

impl Handler for Search<'_> {
    type Worker = Worker;
    type State = Arc<Mirror>;

    const NEEDS: Needs = Needs::COPY;

    fn worker(&self, index: usize) -> Worker {
        let (index, held) = (number_of_thread(self.copying.seat, index), self.copying.budget.held_in_target);
        Worker::new(Scratch::new(index, held, Mover::default()))
    }

    fn root(&self, directory: &Arc<SourceDirectory>) {
        self.copying.root(directory);
    }

    fn entry(&self, cx: &mut Cx<'_, Self>, entry: &Entry<'_>) {
        let here = cx.here();
        let Cx { worker, .. } = cx;
        let has_names = entry.kind != Kind::Directory && entry.metadata.is_some_and(|found| found.nlink > 1);
        if let (Some(here), true) = (here, has_names) {
            // An entry that cannot be looked at is not a partner: the name gets a file of its own, which is counted.
            let _ = self.look(worker, here, entry);
        }
    }

    fn task(&self, _cx: &mut Cx<'_, Self>, _task: &[u8]) {}

    /// A partner that is not found is not a failure.
    fn failure(&self, _: &mut Worker, _: &Failure<'_>) {}

    fn finish(&self, _: &mut Worker) {}
}
