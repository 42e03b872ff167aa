//! Repairs one entry after another: see `repair.rs`.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use atta_entry::{Entry, Failure, Kind, Metadata};
use atta_runtime::Stop;
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags};

use crate::copy::links::make::Linker;
use crate::copy::links::{Deferred, Links};
use crate::copy::options::number_of_thread;
use crate::copy::plan::repair::{Repaired, Repairer};
use crate::copy::results::Results;
use crate::copy::target::existing::{is_alike, there};
use crate::copy::target::mirror::{Here, Location, Mirror, SourceDirectory};
use crate::copy::target::place::{Item, OpenFile, Pair};
use crate::copy::target::special::read_link;
use crate::copy::target::{Maker, Target};
use crate::copy::thread::Scratch;
use crate::descriptors::Needs;
use crate::file::compare::{Blocks, Two};
use crate::file::error::{FileError, Step};
use crate::file::mover::Mover;
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

impl Repairer<'_> {
    /// Repairs an entry.
    pub(crate) fn repair(
        &mut self,
        here: Option<Here<'_>>,
        entry: &Entry<'_>,
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let name = CString::new(entry.name).unwrap_or_default();
        match here {
            Some(here) => self.repair_below(here, (entry, &name), differs),
            None => self.repair_root((entry, &name), differs),
        }
    }

    /// Repairs a name below a root.
    fn repair_below(
        &mut self,
        here: Here<'_>,
        (entry, name): (&Entry<'_>, &CString),
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let Some(mirror) = Mirror::of(here.directory) else { return Ok(Repaired::Done) };
        if mirror.is_new() {
            return Ok(Repaired::Copy);
        }
        let to = &self.maker.place_of(Some(here.directory), &mirror, name)?.within(here.slice);
        let metadata = &entry.metadata.copied().unwrap_or_default();
        let Some(found) = there(to)? else { return Ok(Repaired::Copy) };
        if (metadata.kind(), found.kind()) == (Kind::Directory, Kind::Directory) {
            if differs.is_missing {
                return Ok(Repaired::Copy);
            }
            let directory = Arc::new(Directory::below(here.directory, name, None));
            self.maker.expect_above(&directory)?;
            self.maker.results.totals.repaired += 1;
            return Ok(Repaired::Directory(directory));
        }
        let from = Source { directory: here.descriptor.as_fd(), name };
        let at = &Location::In(Arc::clone(here.directory), name.clone());
        self.repair_file(Item { at, from, to, metadata }, &found, differs)
    }

    /// Repairs a root itself.
    fn repair_root(
        &mut self,
        (entry, path): (&Entry<'_>, &CString),
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let found = self.maker.target.roots.find(entry.name).cloned();
        let Some(root) = found else { return Ok(Repaired::Done) };
        let to = &self.maker.place_of(None, &root.parent, &root.name)?;
        let metadata = &entry.metadata.copied().unwrap_or_default();
        let Some(found) = there(to)? else { return Ok(Repaired::Copy) };
        if (metadata.kind(), found.kind()) != (Kind::Directory, Kind::Directory) {
            let from = Source { directory: CWD, name: path };
            let at = &Location::Root(entry.name.to_vec());
            return self.repair_file(Item { at, from, to, metadata }, &found, differs);
        }
        if differs.is_missing {
            return Ok(Repaired::Copy);
        }
        let opened = sys::open_directory_path(entry.name, true);
        let opened = opened.map_err(|errno| FileError::new(Step::Open, errno))?;
        let metadata = look(&opened)?;
        let extended = self.maker.extended(&opened)?;
        root.mirror.will_have(Attributes { metadata, extended, is_old: true });
        self.maker.results.totals.repaired += 1;
        Ok(Repaired::Done)
    }

    /// Repairs an entry that is not a directory on both sides.
    fn repair_file(
        &mut self,
        item: Item<'_>,
        found: &Metadata,
        differs: Differs,
    ) -> Result<Repaired, FileError> {
        let metadata = item.metadata;
        if (metadata.kind(), found.kind()) != (Kind::File, Kind::File) {
            return Ok(Repaired::Copy);
        }
        let may_be_link = metadata.nlink > 1 && self.maker.target.options.keep.links;
        if differs.links && may_be_link {
            self.links.defer(item);
            return Ok(Repaired::Done);
        }
        // A file with one name must not be shared with another name.
        if (found.nlink > 1 && !may_be_link) || metadata.size != found.size {
            return Ok(Repaired::Copy);
        }
        Ok(if self.keep_bytes(item, differs)? { Repaired::Done } else { Repaired::Copy })
    }

    /// Sets the differing attributes of a file with the bytes of its source. Returns whether the file keeps its bytes.
    fn keep_bytes(&mut self, item: Item<'_>, differs: Differs) -> Result<bool, FileError> {
        let (target, Item { from, to, .. }) = (self.maker.target, item);
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
        let is_alike = is_alike(&before, &found, target.stores.granularity(found.device));
        let pair = Pair { source: OpenFile::new(&source, &before), copy: OpenFile::new(&file, &found) };
        if differs.content || !is_alike {
            let is_equal = self.has_equal_bytes(pair);
            if target.options.walk.stop.is_set() {
                return Ok(true);
            }
            if !is_equal || !is_same(&before, &look(&source)?) || !is_same(&found, &look(&file)?) {
                return Ok(false);
            }
        }
        let counted = self.maker.results.totals.not_kept;
        let is_mended = self.maker.mend(to, pair, !is_alike)?;
        if is_mended {
            self.maker.results.totals.repaired += 1;
        } else {
            // The copy will count it.
            self.maker.results.totals.not_kept = counted;
        }
        Ok(is_mended)
    }

    /// Whether two files of the same size have equal bytes. False if this cannot be found out.
    fn has_equal_bytes(&self, pair: Pair<'_>) -> bool {
        let Pair { source: OpenFile { file: source, metadata: from }, copy } = pair;
        let has_holes = |metadata: &Metadata| metadata.allocated_bytes() < metadata.size;
        let two = Two {
            source,
            target: copy.file,
            sizes: [from.size, copy.metadata.size],
            have_holes: has_holes(from) && has_holes(copy.metadata),
        };
        let stop = &self.maker.target.options.walk.stop;
        let mut wanted = |_| !stop.is_set();
        // A file that reports a size of zero may have data and is copied anew.
        from.size > 0 && matches!(Blocks::default().compare(two, 0..from.size, &mut wanted), Ok(None))
    }

    /// Records the final attributes of roots that no row led to: this job makes its own files in TARGET.
    pub(crate) fn expect_roots(&mut self) {
        let target = self.maker.target;
        for path in target.roots.paths() {
            let Some(root) = target.roots.find(&path).filter(|root| !root.mirror.is_expecting()) else {
                continue;
            };
            if root.mirror.target.descriptor(&mut self.maker.scratch.held, target.features).is_err() {
                continue;
            }
            let Ok(opened) = sys::open_directory_path(&path, true) else { continue };
            let extended = self.maker.extended(&opened);
            if let (Ok(metadata), Ok(extended)) = (look(&opened), extended) {
                root.mirror.will_have(Attributes { metadata, extended, is_old: true });
            }
        }
    }

    /// Searches for the files that deferred names are links of. A partner is a name of SOURCE that was not deferred and whose copy is the
    /// same file, judged by kind, size, time, owner and mode. No name is deferred after this.
    ///
    /// `held`: how many descriptors of the target a thread keeps open.
    pub(crate) fn find_partners(&mut self, deferred: &[Deferred], held: usize) {
        self.links.set_defers_all(false);
        let search = Search { held, ..Search::new(self, deferred) };
        if search.left.load(Ordering::Relaxed) == 0 {
            return;
        }
        let target = self.maker.target;
        let of_copy = &target.options.walk;
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
        let starts: Vec<_> = target.roots.paths().into_iter().map(Start::new).collect();
        tree::run_alone(&search, starts, &walk, |_, _| {
            if of_copy.stop.is_set() {
                search.stop.set();
            }
        });
    }
}

/// The search for partners: a walk of SOURCE.
struct Search<'a> {
    target: &'a Target<'a>,
    links: &'a Links,
    held: usize,
    wanted: HashMap<File, Wanted>,
    /// Files without a known partner.
    left: AtomicUsize,
    stop: Stop,
}

/// State of one thread of the search. What it counts is dropped.
struct Searcher {
    scratch: Scratch,
    results: Results,
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
    fn new(repairer: &mut Repairer<'a>, deferred: &[Deferred]) -> Self {
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
            let to = repairer.maker.place(&deferred.mirror, &deferred.name);
            one.replaced.extend(to.and_then(|to| there(&to)).ok().flatten().map(|found| file_of(&found)));
        }
        // All names of the file were deferred: it has no other name.
        wanted.retain(|file, one| names.get(file).is_some_and(|names| *names > one.names.len() as u64));
        let (target, links, left) = (repairer.maker.target, repairer.links, AtomicUsize::new(wanted.len()));
        Self { target, links, held: 0, left, wanted, stop: Stop::new() }
    }

    /// Notes the copy of an entry as the file that deferred names become links of, if it is a partner.
    fn look(&self, searcher: &mut Searcher, here: Here<'_>, entry: &Entry<'_>) -> Result<(), FileError> {
        let Some(metadata) = entry.metadata else { return Ok(()) };
        let Some(wanted) = self.wanted.get(&file_of(metadata)) else { return Ok(()) };
        if wanted.is_found.load(Ordering::Relaxed) || wanted.names.contains(&entry.path()[..]) {
            return Ok(());
        }
        let (Some(mirror), Ok(name)) = (Mirror::of(here.directory), CString::new(entry.name)) else {
            return Ok(());
        };
        let Searcher { scratch, results } = searcher;
        let maker = Maker { target: self.target, scratch, results };
        let mut linker = Linker { links: self.links, maker };
        let to = linker.maker.place(&mirror, &name)?;
        let Some(found) = there(&to)? else { return Ok(()) };
        let from = Source { directory: here.descriptor.as_fd(), name: &name };
        let copy = Source { directory: to.directory.as_fd(), name: &name };
        let is_partner = !wanted.replaced.contains(&file_of(&found))
            && self.target.may_be_copy(metadata, &found)
            && (found.kind() != Kind::Symlink || read_link(from)? == read_link(copy)?);
        if is_partner && linker.keep_linked(metadata, &to, file_of(&found))? {
            wanted.is_found.store(true, Ordering::Relaxed);
            if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.stop.set();
            }
        }
        Ok(())
    }
}

impl Target<'_> {
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
}

impl Handler for Search<'_> {
    type Worker = Searcher;
    type State = Arc<Mirror>;

    const NEEDS: Needs = Needs::COPY;

    fn worker(&self, index: usize) -> Searcher {
        let index = number_of_thread(self.target.seat, index);
        Searcher { scratch: Scratch::new(index, self.held, Mover::default()), results: Results::default() }
    }

    fn root(&self, directory: &Arc<SourceDirectory>) {
        self.target.roots.set_state(directory);
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
    fn failure(&self, _: &mut Searcher, _: &Failure<'_>) {}

    fn finish(&self, _: &mut Searcher) {}
}
