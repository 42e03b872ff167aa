//! Directories that earlier runs of a job have completed, looked at again: whether the source has changed since, and whether the copy is still
//! there. Files in them are not looked at. It changes nothing.
//!
//! Names come nearly in the order of the tree. So each thread keeps the directories open that lead to its last one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use atta_entry::{Errno, Kind, Metadata};
use atta_ledger::{At, Seen};
use rustix::fd::OwnedFd;

use crate::copy::target::Target;
use crate::copy::target::mirror::Shared;
use atta_sys as sys;

/// Directories that a thread gets at once.
const BATCH: usize = 256;
/// Threads: on a server, each look takes a round trip.
const THREADS: usize = 8;
/// Directories that a thread keeps open.
const OPEN_MOST: usize = 32;

/// Looks at directories that earlier runs of the job have completed, on threads of its own.
#[derive(Debug)]
pub struct Finished {
    batch: Vec<Directory>,
    batches: u64,
    to_threads: SyncSender<Batch>,
    threads: Vec<JoinHandle<()>>,
    found: Arc<Mutex<InOrder>>,
}

/// Directories, and the number of the batch.
type Batch = (u64, Vec<Directory>);
/// A root, and the path of a directory below it.
type Place = (u32, Vec<u8>);

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Directories whose copy is gone, or is another one.
    pub lost: u64,
    /// One of them, below its root.
    pub lost_one: Option<Vec<u8>>,
    /// Directories of the sources that have changed since, are gone, or are others.
    pub changed: u64,
    /// One of them, below its root.
    pub changed_one: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Directory {
    root: u32,
    path: Vec<u8>,
    seen: Seen,
}

/// How a directory is by now.
#[derive(Debug)]
struct Look {
    place: Place,
    is_lost: bool,
    is_changed: bool,
}

/// Directories that are others than when they were seen last.
#[derive(Debug, Default)]
struct Others {
    lost: BTreeSet<Place>,
    changed: BTreeSet<Place>,
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
            for Look { place, is_lost, is_changed } in looks {
                note(&mut self.others.lost, is_lost, &place);
                note(&mut self.others.changed, is_changed, &place);
            }
        }
    }
}

/// Both sides of the roots.
#[derive(Debug)]
struct Sides {
    shared: Arc<Shared>,
    /// None: it cannot be opened.
    roots: Vec<(Option<Side>, Option<Side>)>,
}

/// The root of one side.
#[derive(Debug)]
struct Side(OwnedFd);

impl Finished {
    pub(crate) fn new(target: &Target<'_>, roots: &[Vec<u8>]) -> Self {
        let sides = Arc::new(Sides::new(target, roots));
        let (to_threads, of_threads) = sync_channel(2 * THREADS);
        let (of_threads, found) = (Arc::new(Mutex::new(of_threads)), Arc::default());
        let spawn = |_| {
            let (sides, batches, found) = (Arc::clone(&sides), Arc::clone(&of_threads), Arc::clone(&found));
            std::thread::spawn(move || look_at_all(&sides, &batches, &found))
        };
        let threads = (0..THREADS).map(spawn).collect();
        Self { batch: Vec::new(), batches: 0, to_threads, threads, found }
    }

    /// Adds a directory: what was seen of it when it was completed. If it was completed several times, the last one counts.
    pub fn add(&mut self, at: At<'_>, seen: Seen) {
        self.batch.push(Directory { root: at.root, path: at.path.to_vec(), seen });
        if self.batch.len() == BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        // The threads end only when this value is dropped.
        let _ = self.to_threads.send((self.batches, mem::take(&mut self.batch)));
        self.batches += 1;
    }

    /// Waits until all are looked at.
    #[must_use]
    pub fn end(mut self) -> Found {
        self.send();
        let Self { to_threads, threads, found, .. } = self;
        drop(to_threads);
        for thread in threads {
            // A thread that panics has said so.
            let _ = thread.join();
        }
        let others = mem::take(&mut found.lock().unwrap_or_else(PoisonError::into_inner).others);
        let first = |all: &BTreeSet<Place>| all.first().map(|(_, path)| path.clone());
        Found {
            lost: others.lost.len() as u64,
            lost_one: first(&others.lost),
            changed: others.changed.len() as u64,
            changed_one: first(&others.changed),
        }
    }
}

fn look_at_all(sides: &Sides, batches: &Mutex<Receiver<Batch>>, found: &Mutex<InOrder>) {
    let (mut sources, mut targets) = (Way::default(), Way::default());
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, directories)) = batch else { return };
        let looks = directories.into_iter().map(|directory| {
            let Directory { root, path, seen } = directory;
            let (source, target) = sides.look(root, &path, (&mut sources, &mut targets));
            let is_same = |found: Metadata| {
                let changed = (found.ctime.seconds, found.ctime.nanoseconds);
                (found.inode, changed) == (seen.source_inode, seen.changed)
            };
            let is_lost = target.is_none_or(|found| found.inode != seen.target_inode);
            Look { place: (root, path), is_lost, is_changed: !source.is_some_and(is_same) }
        });
        let looks = looks.collect();
        found.lock().unwrap_or_else(PoisonError::into_inner).add(number, looks);
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
            let source = sys::open_directory_path(path, path.ends_with(b"/")).ok().map(Side);
            let copy = target.roots.find(path).and_then(|root| {
                let top = &target.top.directory;
                let opened = match root.name.as_c_str() == c"." {
                    true => sys::open_directory_at(top, c"."),
                    false => {
                        let alias = |name: &CStr| target.shared.namer.of_directory(name);
                        either(&root.name, Some(&alias), |name| sys::open_directory_at(top, name))
                    }
                };
                opened.ok().map(Side)
            });
            (source, copy)
        };
        Self { shared: Arc::clone(&target.shared), roots: roots.iter().map(open).collect() }
    }

    /// Both sides of a directory, as far as they are there.
    fn look(
        &self,
        root: u32,
        path: &[u8],
        (sources, targets): (&mut Way, &mut Way),
    ) -> (Option<Metadata>, Option<Metadata>) {
        let Some((source, target)) = self.roots.get(root as usize) else { return (None, None) };
        let alias = |name: &CStr| self.shared.namer.of_directory(name);
        let source = source.as_ref().and_then(|side| sources.look(side, (root, path), None).ok());
        let target = target.as_ref().and_then(|side| targets.look(side, (root, path), Some(&alias)).ok());
        (source, target)
    }
}

/// The other name that a directory may have.
type Alias<'a> = &'a dyn Fn(&CStr) -> CString;

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

/// The directories that lead to the last one that was looked at.
#[derive(Debug, Default)]
struct Way {
    root: u32,
    open: Vec<(Vec<u8>, OwnedFd)>,
}

impl Way {
    /// Looks at a directory.
    fn look(
        &mut self,
        side: &Side,
        (root, path): (u32, &[u8]),
        alias: Option<Alias<'_>>,
    ) -> Result<Metadata, Errno> {
        if self.root != root {
            self.open.clear();
            self.root = root;
        }
        let mut names: Vec<_> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some(last) = names.pop() else { return sys::stat_descriptor(&side.0) };
        let is_same = |((open, _), name): &(&(Vec<u8>, OwnedFd), &&[u8])| open == *name;
        let shared = self.open.iter().zip(&names).take_while(is_same).count();
        self.open.truncate(shared);
        for name in &names[shared..] {
            let c_name = CString::new(*name).map_err(|_| Errno::INVAL)?;
            let opened = either(&c_name, alias, |name| sys::open_directory_at(self.above(side), name))?;
            self.open.push((name.to_vec(), opened));
        }
        let last = CString::new(last).map_err(|_| Errno::INVAL)?;
        let found = either(&last, alias, |name| sys::stat_at(self.above(side), name, false));
        // A deep tree must not take all descriptors. The next one begins at the root.
        if self.open.len() > OPEN_MOST {
            self.open.clear();
        }
        let found = found?;
        if found.kind() == Kind::Directory { Ok(found) } else { Err(Errno::NOTDIR) }
    }

    /// The last directory on the way.
    fn above<'a>(&'a self, side: &'a Side) -> &'a OwnedFd {
        self.open.last().map_or(&side.0, |(_, opened)| opened)
    }
}
