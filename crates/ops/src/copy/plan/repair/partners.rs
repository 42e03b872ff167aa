//! Finds the files that names which a repair has put off become links of: see `repair.rs`. Files in TARGET are not changed here.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use atta_entry::{Entry, Failure, Kind, Metadata};
use atta_runtime::Stop;
use rustix::fd::AsFd;

use crate::copy::handler::CopyOperation;
use crate::copy::links::Links;
use crate::copy::links::make::Linker;
use crate::copy::options::number_of_thread;
use crate::copy::plan::repair::later::{Later, PutOff};
use crate::copy::results::Results;
use crate::copy::target::existing::{is_alike, there};
use crate::copy::target::mirror::{Here, Location, Mirror, SourceDirectory};
use crate::copy::target::special::read_link;
use crate::copy::target::{Maker, Target};
use crate::copy::thread::{Scratch, Worker};
use crate::descriptors::Needs;
use crate::file::error::{FileError, Step};
use crate::file::mover::Mover;
use crate::file::source::{Identity, Source, identity_of};
use crate::sorted::errno_of;
use crate::tree::operation::{Cx, Handler};
use crate::tree::start::Seed;
use crate::tree::{self, Start};

/// The set-id bits, which give the rights of the owner or group.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// The part of the memory for tasks that names take which are made together. Each such round may walk all of SOURCE.
const TAKEN_PART: u64 = 4;

impl CopyOperation<'_> {
    /// Whether names of files with several names wait that can be made once no task is left.
    pub(crate) fn has_later(&self) -> bool {
        self.links.later.as_ref().is_some_and(Later::has_some)
    }

    /// Takes some of the names that were put off, by whole files, after it has searched for the partners of these files. Called when no task
    /// is left; from then on no name is put off.
    pub(crate) fn take_later(&self, worker: &mut Worker) -> Vec<Seed> {
        let Some(later) = self.links.later.as_ref().filter(|later| later.has_some()) else {
            return Vec::new();
        };
        let options = &self.target.options.walk;
        match later.take(options.memory_bytes / TAKEN_PART) {
            Ok(names) => {
                find_partners(self, &names);
                names.into_iter().map(Seed::from).collect()
            }
            Err(error) => {
                let at = Location::Root(self.target.top.path.clone());
                self.maker(worker).fail(&at, FileError::new(Step::Link, errno_of(&error)));
                Vec::new()
            }
        }
    }
}

/// Searches for the files that these names are links of. A partner is a name of SOURCE that was not put off and whose copy is the same file,
/// judged by kind, size, time, owner and mode.
fn find_partners(operation: &CopyOperation<'_>, names: &[PutOff]) {
    let search = Search::new(operation, names);
    if search.left.load(Ordering::Relaxed) == 0 {
        return;
    }
    let of_copy = &operation.target.options.walk;
    let walk = tree::Options {
        one_file_system: of_copy.one_file_system,
        birth_time: false,
        rate: of_copy.rate,
        threads: of_copy.threads,
        memory_bytes: of_copy.memory_bytes / 2,
        spill_directory: of_copy.spill_directory.clone(),
        stop: search.stop.clone(),
        features: of_copy.features,
        cores: of_copy.cores,
        ..tree::Options::default()
    };
    let starts: Vec<_> = operation.target.roots.paths().into_iter().map(Start::new).collect();
    tree::run_alone(&search, starts, &walk, |_, _| {
        if of_copy.stop.is_set() {
            search.stop.set();
        }
    });
}

/// The search for partners: a walk of SOURCE.
struct Search<'a> {
    target: &'a Target<'a>,
    links: &'a Links,
    held: usize,
    wanted: HashMap<Identity, Wanted>,
    /// Files without a known partner.
    left: AtomicUsize,
    stop: Stop,
}

/// State of one thread of the search. What it counts is dropped.
struct Searcher {
    scratch: Scratch,
    results: Results,
}

/// A file of SOURCE with names that were put off.
struct Wanted {
    /// How many names it has.
    count: u64,
    /// Its names that were put off.
    names: HashSet<Vec<u8>>,
    /// The files with these names in TARGET, which are to be replaced: they are not partners.
    replaced: HashSet<Identity>,
    is_found: AtomicBool,
}

impl<'a> Search<'a> {
    fn new(operation: &'a CopyOperation<'_>, put_off: &[PutOff]) -> Self {
        let mut wanted: HashMap<Identity, Wanted> = HashMap::new();
        for PutOff { file, path, names, replaced, .. } in put_off {
            let one = wanted.entry(*file).or_insert_with(|| Wanted {
                count: *names,
                names: HashSet::new(),
                replaced: HashSet::new(),
                is_found: AtomicBool::new(false),
            });
            one.names.insert(path.clone());
            one.replaced.extend(*replaced);
        }
        // All names of the file were put off: it has no other name.
        wanted.retain(|_, one| one.count > one.names.len() as u64);
        let (target, links, left) = (&operation.target, &operation.links, AtomicUsize::new(wanted.len()));
        Self { target, links, held: operation.held, left, wanted, stop: Stop::new() }
    }

    /// Notes the copy of an entry as the file that names which were put off become links of, if it is a partner.
    fn look(&self, searcher: &mut Searcher, here: Here<'_>, entry: &Entry<'_>) -> Result<(), FileError> {
        let Some(metadata) = entry.metadata else { return Ok(()) };
        let Some(wanted) = self.wanted.get(&identity_of(metadata)) else { return Ok(()) };
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
        let is_partner = !wanted.replaced.contains(&identity_of(&found))
            && self.target.may_be_copy(metadata, &found)
            && (found.kind() != Kind::Symlink || read_link(from)? == read_link(copy)?);
        if is_partner && linker.keep_linked(metadata, &to, identity_of(&found))? {
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
