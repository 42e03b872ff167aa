//! What earlier runs of a job have done, looked at again: whether directories of the source have changed since, and whether the copy is still there.
//! Files are not looked at. Their names are, if the copy of a directory has another time than its source: then it waits for its closing, or somebody
//! has changed it. It changes nothing.
//!
//! Each thread sorts what it gets, and keeps the directories open that lead to its last one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use atta_entry::{Errno, Kind, Metadata};
use atta_ledger::{At, Seen, Stage};
use rustix::fd::OwnedFd;

use crate::copy::resume::missing;
use crate::copy::target::Target;
use crate::copy::target::mirror::Shared;
use crate::tree::Gone;
use crate::tree::listing::rules::Rules;
use atta_sys as sys;

/// Directories, or names, that a thread gets at once.
const BATCH: usize = 2048;
/// Threads: on a server, each look takes a round trip.
const THREADS: usize = 8;
/// Directories that a thread keeps open.
const OPEN_MOST: usize = 16;
/// The most directories that are named as gone.
const LOST_MOST: usize = 1 << 16;

/// Looks at directories that earlier runs of the job have completed, on threads of its own.
#[derive(Debug)]
pub struct Finished {
    batch: Vec<Directory>,
    /// What it asks for, in names.
    weight: usize,
    batches: u64,
    sides: Arc<Sides>,
    /// None: no batch was full yet.
    crew: Option<Crew>,
    found: Arc<Mutex<InOrder>>,
}

/// Directories, and the number of the batch.
type Batch = (u64, Vec<Directory>);
/// A root, and the path of a directory below it.
type Place = (u32, Vec<u8>);

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Directories whose copy is gone, is another one or lacks files. They have to be done again: see [`Journal::void`](crate::walk::Journal::void).
    pub lost: Option<Gone>,
    /// Directories of the sources that have changed since, are gone, or are others.
    pub changed: u64,
    /// One of them, below its root.
    pub changed_one: Option<Vec<u8>>,
    /// A directory in the target that cannot be looked at, below its root.
    pub failed: Option<(Vec<u8>, Errno)>,
}

#[derive(Debug)]
struct Directory {
    root: u32,
    path: Vec<u8>,
    asks: Asks,
}

/// What is asked of a directory.
#[derive(Debug)]
enum Asks {
    /// Whether it is what was seen.
    IsThere(Seen, Stage),
    /// Whether it has these names.
    Has(Vec<CString>),
}

/// The answer.
#[derive(Debug)]
enum Look {
    IsThere {
        place: Place,
        /// An error: the target cannot be looked at.
        is_lost: Result<bool, Errno>,
        /// None: this answer says nothing of the source.
        is_changed: Option<bool>,
        /// Names are missing in it.
        is_lacking: bool,
    },
    Lacks(Place),
    Has,
}

/// Directories that are others than when they were seen last.
#[derive(Debug, Default)]
struct Others {
    lost: BTreeSet<Place>,
    /// Names are missing in them.
    lacking: BTreeSet<Place>,
    are_many: bool,
    changed: BTreeSet<Place>,
    failed: Option<(Vec<u8>, Errno)>,
}

impl Others {
    fn add(&mut self, look: Look) {
        match look {
            Look::IsThere { place, is_lost, is_changed, is_lacking } => {
                self.lacking.extend(is_lacking.then(|| place.clone()));
                if let Some(is_changed) = is_changed {
                    note(&mut self.changed, is_changed, &place);
                }
                match is_lost {
                    Ok(is_lost) => note(&mut self.lost, is_lost, &place),
                    Err(errno) => drop(self.failed.get_or_insert((place.1, errno))),
                }
            }
            Look::Lacks(place) => drop(self.lacking.insert(place)),
            Look::Has => {}
        }
        if self.lost.len() + self.lacking.len() > LOST_MOST {
            self.are_many = true;
            self.lost.clear();
            self.lacking.clear();
        }
    }

    fn all_lost(&mut self) -> Option<Gone> {
        let Self { lost, lacking, are_many, .. } = self;
        lost.append(lacking);
        match (are_many, lost.is_empty()) {
            (true, _) => Some(Gone::Many),
            (false, true) => None,
            (false, false) => Some(Gone::Some(mem::take(lost))),
        }
    }
}

/// What the threads find, in the order of the batches: of a directory that was completed several times, the last answer counts.
#[derive(Debug, Default)]
struct InOrder {
    next: u64,
    early: BTreeMap<u64, Vec<Look>>,
    others: Others,
}

impl InOrder {
    fn add(&mut self, batch: u64, looks: Vec<Look>) {
        self.early.insert(batch, looks);
        while let Some(looks) = self.early.remove(&self.next) {
            self.next += 1;
            looks.into_iter().for_each(|look| self.others.add(look));
        }
    }
}

/// Whether a copy has the time of its source, to two seconds: some file systems keep no more.
fn have_one_time(source: &Result<Metadata, Errno>, copy: &Result<Metadata, Errno>) -> bool {
    matches!((source, copy), (Ok(source), Ok(copy)) if source.mtime.seconds.abs_diff(copy.mtime.seconds) < 2)
}

fn open(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    sys::open_directory_at(above, name)
}

/// Both sides of the roots.
#[derive(Debug)]
struct Sides {
    shared: Arc<Shared>,
    /// An error: it cannot be opened.
    roots: Vec<(Result<OwnedFd, Errno>, Result<OwnedFd, Errno>)>,
    /// What the copy leaves out.
    rules: Option<Rules>,
    /// Copies of directories get the times of their sources.
    has_times: bool,
}

impl Finished {
    pub(crate) fn new(target: &Target<'_>, roots: &[Vec<u8>]) -> Self {
        let (sides, found) = (Arc::new(Sides::new(target, roots)), Arc::default());
        Self { batch: Vec::new(), weight: 0, batches: 0, sides, crew: None, found }
    }

    /// Adds a directory: what was seen of it when something of it was done, and how far it is. If it comes several times, the last one counts.
    pub fn add(&mut self, at: At<'_>, seen: Seen, stage: Stage) {
        self.ask(at, Asks::IsThere(seen, stage), 1);
    }

    /// Adds names that are done in a directory that is not.
    pub fn add_names(&mut self, at: At<'_>, names: &[&[u8]]) {
        let names: Vec<_> = names.iter().filter_map(|name| CString::new(*name).ok()).collect();
        let weight = names.len();
        self.ask(at, Asks::Has(names), weight);
    }

    fn ask(&mut self, at: At<'_>, asks: Asks, weight: usize) {
        self.batch.push(Directory { root: at.root, path: at.path.to_vec(), asks });
        self.weight += weight;
        if self.weight >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = (self.batches, mem::take(&mut self.batch));
        self.batches += 1;
        self.weight = 0;
        let Self { sides, crew, found, .. } = self;
        let crew = crew.get_or_insert_with(|| Crew::start(sides, found));
        // Without a thread, or if all of them have panicked.
        if crew.threads.is_empty() {
            sides.look_at(batch, &mut Ways::default(), found);
        } else if let Err(back) = crew.to_threads.send(batch) {
            sides.look_at(back.0, &mut Ways::default(), found);
        }
    }

    /// Waits until all are looked at.
    ///
    /// # Panics
    /// A thread has panicked.
    #[must_use]
    pub fn end(mut self) -> Found {
        if !self.batch.is_empty() {
            self.send();
        }
        if let Some(Crew { to_threads, threads }) = self.crew {
            drop(to_threads);
            // What a thread that panicked has taken was not looked at.
            for thread in threads {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        }
        let mut others = mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner).others);
        Found {
            lost: others.all_lost(),
            changed: others.changed.len() as u64,
            changed_one: others.changed.first().map(|(_, path)| path.clone()),
            failed: others.failed,
        }
    }
}

/// The threads that look.
#[derive(Debug)]
struct Crew {
    to_threads: SyncSender<Batch>,
    /// None: none can be started.
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    fn start(sides: &Arc<Sides>, found: &Arc<Mutex<InOrder>>) -> Self {
        let (to_threads, batches) = sync_channel(2 * THREADS);
        let batches = Arc::new(Mutex::new(batches));
        let start = |_| {
            let (sides, batches, found) = (Arc::clone(sides), Arc::clone(&batches), Arc::clone(found));
            let thread = std::thread::Builder::new().name("atta-look".to_owned());
            thread.spawn(move || look_at_all(&sides, &batches, &found)).ok()
        };
        let threads = (0..THREADS).filter_map(start).collect();
        Self { to_threads, threads }
    }
}

fn look_at_all(sides: &Sides, batches: &Mutex<Receiver<Batch>>, found: &Mutex<InOrder>) {
    let mut ways = Ways::default();
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return };
        sides.look_at(batch, &mut ways, found);
    }
}

/// The last answer for a directory counts.
fn note(all: &mut BTreeSet<Place>, is_other: bool, place: &Place) {
    if is_other {
        all.insert(place.clone());
    } else if !all.is_empty() {
        all.remove(place);
    }
}

impl Sides {
    fn new(target: &Target<'_>, roots: &[Vec<u8>]) -> Self {
        let open = |path: &Vec<u8>| {
            let source = sys::open_directory_path(path, path.ends_with(b"/"));
            let copy = target.roots.find(path).ok_or(Errno::NOENT).and_then(|root| {
                let alias = |name: &CStr| target.shared.namer.of_directory(name);
                either(&root.name, Some(&alias), |name| sys::open_directory_at(&target.top.directory, name))
            });
            (source, copy)
        };
        let (shared, rules) = (Arc::clone(&target.shared), target.options.walk.rules.clone());
        let has_times = target.options.keep.times;
        Self { shared, roots: roots.iter().map(open).collect(), rules, has_times }
    }

    /// Looks at the directories of a batch.
    fn look_at(&self, (number, mut directories): Batch, ways: &mut Ways, found: &Mutex<InOrder>) {
        // Neighbours share the directories above. What is asked of one directory stays in its order.
        directories.sort_by(|one, other| (one.root, &one.path).cmp(&(other.root, &other.path)));
        let looks = directories.into_iter().map(|Directory { root, path, asks }| match asks {
            Asks::IsThere(seen, stage) => self.is_there((root, path), (seen, stage), ways),
            Asks::Has(names) if self.lack((root, &path), Some(&names), ways) => Look::Lacks((root, path)),
            Asks::Has(_) => Look::Has,
        });
        let looks = looks.collect();
        found.lock().unwrap_or_else(PoisonError::into_inner).add(number, looks);
    }

    /// Whether a directory is what was seen.
    fn is_there(&self, (root, path): Place, (seen, stage): (Seen, Stage), ways: &mut Ways) -> Look {
        let is_same = |found: &Metadata| {
            let changed = (found.ctime.seconds, found.ctime.nanoseconds);
            (found.inode, changed) == (seen.source_inode, seen.changed)
        };
        let is_copy = |found: &Metadata| found.inode == seen.target_inode;
        // What is closed has its name. Another directory under its temporary name may have got its inode.
        let is_named = stage == Stage::Complete;
        let mut found = self.look((root, &path), is_named, (ways, How::ByName));
        if !matches!(&found, [Ok(source), Ok(target)] if is_same(source) && is_copy(target)) {
            found = self.look((root, &path), is_named, (ways, How::Opened));
        }
        let [source, target] = found;
        // Of a slice that was done again, the log does not say what the source was when the directory was read.
        let is_changed = (seen.source_inode != 0).then(|| !source.as_ref().is_ok_and(is_same));
        let is_lost = match &target {
            Ok(found) if !is_copy(found) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(true),
            Err(errno) => Err(*errno),
            Ok(_) => Ok(false),
        };
        // What has changed in the source is reported: its names say nothing of the copy. Without times, only what is not closed is looked at.
        let is_due = is_lost == Ok(false)
            && is_changed == Some(false)
            && stage != Stage::Begun
            && (self.has_times || stage == Stage::Done)
            && !have_one_time(&source, &target);
        let is_lacking = is_due && self.lack((root, &path), None, ways);
        Look::IsThere { place: (root, path), is_lost, is_changed, is_lacking }
    }

    /// Whether the copy of a directory lacks one of these names, or of all. No, if that cannot be found out.
    fn lack(&self, (root, path): (u32, &[u8]), names: Option<&[CString]>, ways: &mut Ways) -> bool {
        let Some((Ok(source), Ok(target))) = self.roots.get(root as usize) else { return false };
        let alias = |name: &CStr| self.shared.namer.of_directory(name);
        let opened = (
            ways.sources.find(source, (root, path), Names::default(), open),
            ways.targets.find(target, (root, path), Names { alias: Some(&alias), is_named: false }, open),
        );
        let (source, target) = match opened {
            (Ok(source), Ok(target)) => (source, target),
            // The log may have names of it alone.
            (Ok(_), Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => return true,
            _ => return false,
        };
        let rules = self.rules.as_ref();
        let sides = missing::Sides { source: &source, target: &target, path, rules };
        match names {
            Some(names) => sides.lack(names),
            None => sides.lack_any().unwrap_or(false),
        }
    }

    /// Both sides of a directory.
    fn look(
        &self,
        (root, path): (u32, &[u8]),
        is_named: bool,
        (ways, how): (&mut Ways, How),
    ) -> [Result<Metadata, Errno>; 2] {
        let Ways { sources, targets } = ways;
        let Some((source, target)) = self.roots.get(root as usize) else { return [Err(Errno::NOENT); 2] };
        let alias = |name: &CStr| self.shared.namer.of_directory(name);
        let names = Names { alias: Some(&alias), is_named };
        let source = source
            .as_ref()
            .map_err(|errno| *errno)
            .and_then(|source| sources.look(source, (root, path), (Names::default(), how)));
        let target = target
            .as_ref()
            .map_err(|errno| *errno)
            .and_then(|target| targets.look(target, (root, path), (names, how)));
        [source, target]
    }
}

/// The other name that a directory may have.
type Alias<'a> = &'a dyn Fn(&CStr) -> CString;

/// The names that directories may have.
#[derive(Clone, Copy, Default)]
struct Names<'a> {
    alias: Option<Alias<'a>>,
    /// The last one has its own.
    is_named: bool,
}

/// Does something with a name, or with the other name that a directory may have.
fn either<T>(
    name: &CStr,
    alias: Option<Alias<'_>>,
    act: impl Fn(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    match (act(name), alias) {
        (Err(Errno::NOENT), Some(alias)) => act(&alias(name)),
        (done, _) => done,
    }
}

/// How a directory is looked at.
#[derive(Clone, Copy, Debug)]
enum How {
    /// A directory on which a file system is to be mounted when it is used is not what it was when it was open.
    ByName,
    Opened,
}

/// Of both sides.
#[derive(Debug, Default)]
struct Ways {
    sources: Way,
    targets: Way,
}

/// The directories that lead to the last one that was looked at. Only the deepest are open.
#[derive(Debug, Default)]
struct Way {
    root: u32,
    names: Vec<(Vec<u8>, Option<OwnedFd>)>,
}

impl Way {
    /// Looks at a directory. `top`: its root.
    fn look(
        &mut self,
        top: &OwnedFd,
        place: (u32, &[u8]),
        (names, how): (Names<'_>, How),
    ) -> Result<Metadata, Errno> {
        let found = self.find(top, place, names, |above, name| match how {
            How::ByName => sys::stat_at(above, name, false),
            How::Opened => open(above, name).and_then(|opened| sys::stat_descriptor(&opened)),
        })?;
        if found.kind() == Kind::Directory { Ok(found) } else { Err(Errno::NOTDIR) }
    }

    /// Does something with the name of a directory and the directory that it is in. `top`: its root, which is itself in place of that.
    fn find<T>(
        &mut self,
        top: &OwnedFd,
        (root, path): (u32, &[u8]),
        Names { alias, is_named }: Names<'_>,
        act: impl Fn(&OwnedFd, &CStr) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if self.root != root {
            self.names.clear();
            self.root = root;
        }
        let mut names: Vec<_> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some(last) = names.pop() else { return act(top, c".") };
        let is_same = |((known, _), name): &(&(Vec<u8>, Option<OwnedFd>), &&[u8])| known == *name;
        let shared = self.names.iter().zip(&names).take_while(is_same).count();
        self.names.truncate(shared);
        while matches!(self.names.last(), Some((_, None))) {
            self.names.pop();
        }
        for name in &names[self.names.len()..] {
            let c_name = CString::new(*name).map_err(|_| Errno::INVAL)?;
            let opened = either(&c_name, alias, |name| sys::open_directory_at(self.above(top), name))?;
            self.names.push((name.to_vec(), Some(opened)));
            // A deep tree must not take all descriptors.
            if let Some(at) = self.names.len().checked_sub(OPEN_MOST + 1) {
                self.names[at].1 = None;
            }
        }
        let last = CString::new(last).map_err(|_| Errno::INVAL)?;
        let alias = alias.filter(|_| !is_named);
        either(&last, alias, |name| act(self.above(top), name))
    }

    /// The last directory on the way.
    fn above<'a>(&'a self, top: &'a OwnedFd) -> &'a OwnedFd {
        self.names.last().and_then(|(_, opened)| opened.as_ref()).unwrap_or(top)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use atta_testkit::{scratch::Scratch, trees};

    use super::*;

    #[test]
    fn directories_are_found_in_any_order_with_few_open() {
        let scratch = Scratch::new("finished").unwrap();
        let tree = scratch.join("tree");
        trees::chain(&tree, 300, b"level").unwrap();
        fs::create_dir_all(tree.join("a/.other")).unwrap();
        fs::write(tree.join("file"), "").unwrap();
        let top = sys::open_directory_path(tree.as_os_str().as_bytes(), false).unwrap();
        let alias = |name: &CStr| CString::new([b".", name.to_bytes()].concat()).unwrap();
        let names = Names { alias: Some(&alias), is_named: false };
        let deep = |levels: usize| vec!["level"; levels].join("/");
        let mut way = Way::default();
        for levels in [300, 1, 299, 150, 2, 0, 300] {
            let found = way.look(&top, (0, deep(levels).as_bytes()), (names, How::ByName)).unwrap();
            let path = tree.join(deep(levels));
            let expected = sys::stat_path(path.as_os_str().as_bytes(), false).unwrap();
            assert_eq!(found.inode, expected.inode, "{levels} levels");
            assert!(way.names.iter().filter(|(_, opened)| opened.is_some()).count() <= OPEN_MOST);
        }
        for how in [How::ByName, How::Opened] {
            let mut look =
                |path: &str| way.look(&top, (0, path.as_bytes()), (names, how)).map(|found| found.inode);
            assert!(look("a/other").is_ok(), "under its other name");
            let named = Names { is_named: true, ..names };
            let found = Way::default().look(&top, (0, b"a/other"), (named, how));
            assert_eq!(found.map(|found| found.inode), Err(Errno::NOENT), "it has its own name");
            assert_eq!(look("a/none"), Err(Errno::NOENT));
            assert_eq!(look("file"), Err(Errno::NOTDIR));
            assert_eq!(look("file/below"), Err(Errno::NOTDIR));
        }
    }

    #[test]
    fn too_many_lost_directories_are_not_named() {
        let place = |number: u32| (0, number.to_string().into_bytes());
        let lost = |number| Look::IsThere {
            place: place(number),
            is_lost: Ok(true),
            is_changed: Some(false),
            is_lacking: false,
        };
        let mut others = Others::default();
        assert_eq!(others.all_lost(), None);
        others.add(lost(1));
        others.add(Look::Lacks(place(2)));
        // It was done again.
        others.add(lost(3));
        let there =
            Look::IsThere { place: place(3), is_lost: Ok(false), is_changed: None, is_lacking: false };
        others.add(there);
        assert_eq!(others.all_lost(), Some(Gone::Some([place(1), place(2)].into())));
        (0..=LOST_MOST as u32).for_each(|number| others.add(lost(number)));
        assert_eq!(others.all_lost(), Some(Gone::Many));
    }

    #[test]
    fn done_slice_hides_no_change_of_the_source() {
        let place = || (0, b"d".to_vec());
        let look = |is_changed, is_lacking| Look::IsThere {
            place: place(),
            is_lost: Ok(false),
            is_changed,
            is_lacking,
        };
        let mut others = Others::default();
        for answer in [look(Some(true), false), look(None, true), look(None, false)] {
            others.add(answer);
        }
        assert_eq!(others.changed, [place()].into());
        assert_eq!(others.all_lost(), Some(Gone::Some([place()].into())));
        others.add(look(Some(false), false));
        assert_eq!(others.changed, BTreeSet::new(), "it was done again");
    }
}
