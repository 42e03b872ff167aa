//! What the threads of a rank are at, so that what ranks die at again and again is left out. Each rank writes that to a file in the directory of the job,
//! but only in a launch in which a rank has died: an undisturbed run writes nothing. A rank that ends its part removes its file. So the files that are
//! left are those of dead ranks, and the first rank gathers them when the others go on. What it leaves out is reported as a failure, and a later
//! launch tries it again.
//!
//! ```text
//!   DIR/at.2.1      run 2, rank 1: one slot for each thread
//!   DIR/suspects    what ranks that have died in this launch were at
//! ```
//!
//! Directories and names are noted by their identities in the logs: 16 bytes, whatever their paths. What cannot be written or read is not noted, and
//! ends nothing.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString};

use atta_entry::{Code as _, Errno};
use atta_ledger::Id;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

use crate::plain::{open_plain, read_open, remove, write};
use atta_sys::{self as sys, retry};

/// So many deaths at one thing are enough to leave it out.
const DEATHS_MOST: usize = 3;
/// So many deaths at chunks of one file, whichever, are enough to leave it out.
const DEATHS_IN_FILE_MOST: usize = 5;
/// Bytes of a slot.
const SLOT: usize = 56;
/// Most bytes of a file that are read.
const BYTES_MAX: usize = 1 << 20;
/// Most files in the directory of a job.
const FILES_MAX: usize = 1 << 20;
const SUSPECTS: &CStr = c"suspects";
const SUSPECTS_PARTIAL: &CStr = c"suspects.partial";
const AT: &str = "at.";

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A directory is opened or read.
    Directory,
    /// One name of a directory is handled.
    Name,
    /// Several names of a directory.
    Many,
    /// A chunk of a large file.
    Chunk,
}

/// What a thread is at, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doing {
    what: What,
    /// The directory, name or chunk; of several names: their directory.
    of: [u8; 16],
    /// What is left out if too many ranks die at that: itself; of a chunk: the file.
    whole: [u8; 16],
    /// The directory above; of several names: their directory.
    above: [u8; 16],
}

impl Doing {
    pub(crate) fn new(what: What, (of, whole): (Id, Id), above: Id) -> Self {
        Self { what, of: of.bytes(), whole: whole.bytes(), above: above.bytes() }
    }

    fn slot(&self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        slot[0] = match self.what {
            What::Directory => 1,
            What::Name => 2,
            What::Many => 3,
            What::Chunk => 4,
        };
        slot[8..24].copy_from_slice(&self.of);
        slot[24..40].copy_from_slice(&self.whole);
        slot[40..].copy_from_slice(&self.above);
        slot
    }

    /// None: the thread was at nothing.
    fn from_slot(slot: &[u8; SLOT]) -> Option<Self> {
        let what = match slot[0] {
            1 => What::Directory,
            2 => What::Name,
            3 => What::Many,
            4 => What::Chunk,
            _ => return None,
        };
        let bytes = |from: usize| slot[from..].first_chunk().copied();
        Some(Self { what, of: bytes(8)?, whole: bytes(24)?, above: bytes(40)? })
    }
}

/// What a rank that has died was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Death {
    run: u32,
    rank: u32,
    doing: Doing,
}

/// What is left out, and the deaths that it explains.
struct Blamed {
    what: What,
    whole: [u8; 16],
    deaths: BTreeSet<(u32, u32)>,
}

impl Blamed {
    /// What has enough deaths, and the most: several things if all of them were under way at so many.
    fn most(deaths: &BTreeSet<Death>) -> Vec<Self> {
        let at = |is_one: &dyn Fn(&Doing) -> bool| -> BTreeSet<(u32, u32)> {
            deaths.iter().filter(|death| is_one(&death.doing)).map(|death| (death.run, death.rank)).collect()
        };
        let each = deaths.iter().map(|death| death.doing).filter(|doing| doing.what != What::Many);
        let enough = each.filter_map(|doing| {
            let Doing { what, whole, above, .. } = doing;
            let mut own = at(&|other| *other == doing);
            let mut count = own.len();
            match what {
                What::Name => {
                    // It may have been among the names that were under way when one rank died.
                    let many = at(&|other| other.what == What::Many && other.above == above);
                    count += many.len().min(1);
                    own.extend(many);
                }
                What::Chunk => {
                    let of_file = at(&|other| other.what == What::Chunk && other.whole == whole);
                    if of_file.len() >= DEATHS_IN_FILE_MOST {
                        count = count.max(DEATHS_MOST);
                        own = of_file;
                    }
                }
                What::Directory | What::Many => {}
            }
            (count >= DEATHS_MOST).then_some((count, Self { what, whole, deaths: own }))
        });
        let enough: Vec<_> = enough.collect();
        let most = enough.iter().map(|(count, _)| *count).max();
        enough.into_iter().filter(|(count, _)| Some(*count) == most).map(|(_, blamed)| blamed).collect()
    }
}

/// What the ranks that have died in this launch were at, but for the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    deaths: BTreeSet<Death>,
    /// Directories that are left out: they are not read.
    unread: HashSet<[u8; 16]>,
    /// Names that are left out: they are not looked at.
    unseen: HashSet<[u8; 16]>,
    /// Directories of which something was under way at a death.
    directories: HashSet<[u8; 16]>,
}

impl Suspects {
    fn new(deaths: BTreeSet<Death>) -> Self {
        let (mut unread, mut unseen) = (HashSet::new(), HashSet::new());
        let directories = deaths.iter().map(|death| death.doing.above).collect();
        // Other threads of a rank that dies are at something, too. So the thing with most deaths is to blame for these, and what is left may be to
        // blame for others. In order, so that what was left out stays out.
        let mut unexplained = BTreeSet::new();
        let mut rest = deaths.iter().peekable();
        while let Some(death) = rest.next() {
            unexplained.insert(*death);
            if rest.peek().is_some_and(|next| next.run == death.run) {
                continue;
            }
            loop {
                let most = Blamed::most(&unexplained);
                if most.is_empty() {
                    break;
                }
                for Blamed { what, whole, deaths } in most {
                    let out = if what == What::Directory { &mut unread } else { &mut unseen };
                    out.insert(whole);
                    unexplained.retain(|death| !deaths.contains(&(death.run, death.rank)));
                }
            }
        }
        Self { deaths, unread, unseen, directories }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Death { run, rank, doing } in &self.deaths {
            (*run, *rank).encode(&mut bytes);
            bytes.extend_from_slice(&doing.slot());
        }
        bytes
    }

    /// None: they are not valid.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut deaths = BTreeSet::new();
        while !bytes.is_empty() {
            let (run, rank) = <(u32, u32)>::decode(&mut bytes)?;
            let (slot, rest) = bytes.split_first_chunk()?;
            deaths.insert(Death { run, rank, doing: Doing::from_slot(slot)? });
            bytes = rest;
        }
        Some(Self::new(deaths))
    }

    /// What the first rank has gathered, in a job whose directory this is.
    #[must_use]
    pub fn read(directory: &OwnedFd) -> Self {
        let bytes = read(directory, SUSPECTS);
        Self::from_bytes(&bytes).unwrap_or_default()
    }

    /// Adds what the ranks were at that have left files, keeps it for the other ranks, and removes those files. `since`: the first run of this launch.
    /// What is older does not count.
    #[must_use]
    pub fn gather(directory: &OwnedFd, since: u32) -> Self {
        let before = Self::read(directory);
        let mut deaths = before.deaths.clone();
        deaths.retain(|death| death.run >= since);
        let mut left = files_of_ranks(directory);
        // A process that has not ended may not have written all.
        left.retain(|(name, _)| !is_locked(directory, name));
        for (name, (run, rank)) in left.iter().filter(|(_, (run, _))| *run >= since) {
            let bytes = read(directory, name);
            let doing = bytes.as_chunks().0.iter().filter_map(Doing::from_slot);
            deaths.extend(doing.map(|doing| Death { run: *run, rank: *rank, doing }));
        }
        if left.is_empty() && deaths == before.deaths {
            return before;
        }
        let suspects = Self::new(deaths);
        let bytes = suspects.to_bytes();
        if bytes.len() <= BYTES_MAX && write(directory, (SUSPECTS_PARTIAL, SUSPECTS), &bytes).is_ok() {
            left.iter().for_each(|(name, _)| forget(directory, name));
        }
        suspects
    }

    /// Removes what an earlier launch has left: a job all of whose ranks have died says nothing of what it was at.
    pub fn forget(directory: &OwnedFd) {
        let names = sys::names_of(directory, FILES_MAX).unwrap_or_default();
        names.iter().filter(|name| is_own(name)).for_each(|name| forget(directory, name));
    }

    /// Whether a directory is not to be read.
    pub(crate) fn leave_unread(&self, directory: Id) -> bool {
        self.unread.contains(&directory.bytes())
    }

    /// Whether a name is not to be looked at.
    pub(crate) fn leave_unseen(&self, name: Id) -> bool {
        self.unseen.contains(&name.bytes())
    }

    /// Whether something of a directory was under way when a rank died: its names are handled one by one.
    pub(crate) fn has_directory(&self, directory: Id) -> bool {
        self.directories.contains(&directory.bytes())
    }
}

/// The file of this rank. Dropping it removes it.
#[derive(Debug)]
pub struct Underway {
    directory: OwnedFd,
    name: CString,
    /// None: it was dropped.
    file: Option<OwnedFd>,
    suspects: Suspects,
}

impl Underway {
    /// Makes the file of a rank in the directory of a job. `suspects`: what earlier deaths have left.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin(directory: &OwnedFd, (run, rank): (u32, u32), suspects: Suspects) -> Result<Self, Errno> {
        let name = CString::new(format!("{AT}{run}.{rank}")).map_err(|_| Errno::INVAL)?;
        let file = open_plain(directory, &name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?;
        let directory = retry(|| rustix::io::fcntl_dupfd_cloexec(directory, 0))?;
        // A file system without locks does without.
        let _ = sys::locks::try_lock(&file);
        Ok(Self { directory, name, file: Some(file), suspects })
    }

    /// What earlier deaths have left.
    pub(crate) fn suspects(&self) -> &Suspects {
        &self.suspects
    }

    /// Notes what a thread is at. None: nothing.
    pub(crate) fn note(&self, thread: usize, doing: Option<Doing>) {
        let slot = doing.map_or([0; SLOT], |doing| doing.slot());
        if let Some(file) = &self.file {
            let _ = sys::data::write_all_at(file, &slot, (thread * SLOT) as u64);
        }
    }
}

impl Drop for Underway {
    /// A rank that ends with a panic dies, too.
    fn drop(&mut self) {
        // Before it is removed: NFS keeps a name of a file that is open.
        self.file = None;
        if std::thread::panicking() {
            return;
        }
        forget(&self.directory, &self.name);
    }
}

/// Whether a file in the directory of a job is one of these.
pub(crate) fn is_own(name: &CStr) -> bool {
    [SUSPECTS, SUSPECTS_PARTIAL].contains(&name) || run_and_rank(name).is_some()
}

/// The run and rank of a file.
fn run_and_rank(name: &CStr) -> Option<(u32, u32)> {
    let text = name.to_str().ok()?;
    let (run, rank) = text.strip_prefix(AT)?.split_once('.')?;
    let (run, rank): (u32, u32) = (run.parse().ok()?, rank.parse().ok()?);
    // One spelling.
    (format!("{AT}{run}.{rank}") == text).then_some((run, rank))
}

/// Whether the process that writes a file has not ended.
fn is_locked(directory: &OwnedFd, name: &CStr) -> bool {
    let opened = open_plain(directory, name, OFlags::RDWR);
    opened.is_ok_and(|file| sys::locks::try_lock(&file) == Err(Errno::AGAIN))
}

fn files_of_ranks(directory: &OwnedFd) -> Vec<(CString, (u32, u32))> {
    let names = sys::names_of(directory, FILES_MAX).unwrap_or_default();
    names.into_iter().filter_map(|name| run_and_rank(&name).map(|of| (name, of))).collect()
}

/// Removes a file. One that stays is read once more.
fn forget(directory: &OwnedFd, name: &CStr) {
    let _ = remove(directory, name);
}

fn read(directory: &OwnedFd, name: &CStr) -> Vec<u8> {
    open_plain(directory, name, OFlags::RDONLY)
        .and_then(|file| read_open(&file, BYTES_MAX))
        .unwrap_or_default()
}

/// Deaths of two ranks, as bytes, for the fuzz target.
#[cfg(test)]
pub(crate) fn sample() -> Vec<u8> {
    let doing = Doing { what: What::Chunk, of: [1; 16], whole: [2; 16], above: [3; 16] };
    let death = |run, rank, doing| Death { run, rank, doing };
    let other = Doing { what: What::Many, ..doing };
    Suspects::new([death(2, 1, doing), death(3, 70_000, other)].into()).to_bytes()
}

/// Reads and writes them again, for the fuzz target.
#[cfg(test)]
pub(crate) fn reread(bytes: &[u8]) -> Option<Vec<u8>> {
    Suspects::from_bytes(bytes).map(|suspects| suspects.to_bytes())
}

#[cfg(test)]
mod tests {
    use atta_ledger::Key;
    use atta_testkit::scratch::Scratch;

    use super::*;

    /// Identities of a directory, of a name in it, and of a chunk of that name.
    fn ids() -> (Id, Id, Id) {
        let key = Key::of_job(&[7; 16]);
        let (directory, name) = (key.of_path(0, b"a"), key.of_path(0, b"a/b"));
        (directory, name, key.below(name, b"1"))
    }

    /// What is known after deaths at these, each of another rank.
    fn after(deaths: &[Doing]) -> Suspects {
        let death = |(rank, doing): (u32, &Doing)| Death { run: 2 + rank, rank, doing: *doing };
        Suspects::new((0..).zip(deaths).map(death).collect())
    }

    #[test]
    fn three_deaths_at_one_thing_leave_it_out() {
        let (directory, name, chunk) = ids();
        let one = Doing::new(What::Name, (name, name), directory);
        let other = Doing::new(What::Name, (chunk, chunk), directory);
        let read = Doing::new(What::Directory, (name, name), directory);
        let many = Doing::new(What::Many, (directory, directory), directory);
        let of_file = Doing::new(What::Chunk, (chunk, name), directory);
        let of_part = |part: u8| Doing { of: [part; 16], ..of_file };
        let elsewhere = Doing::new(What::Many, (chunk, chunk), chunk);
        for (deaths, is_out) in [
            (&[one, one][..], false),
            (&[one, one, one], true),
            // The name was among those.
            (&[many, one, one], true),
            (&[many, many, one], false),
            (&[many, many, many, many], false),
            (&[elsewhere, one, one], false),
            (&[one, other, one, other], false),
            (&[of_file, of_file], false),
            (&[of_file, of_file, of_file], true),
            (&[of_file, of_part(2), of_part(3), of_part(4)], false),
            (&[of_file, of_part(2), of_part(3), of_part(4), of_part(5)], true),
        ] {
            let suspects = after(deaths);
            assert_eq!(suspects.leave_unseen(name), is_out, "{deaths:?}");
            assert!(suspects.has_directory(directory) && !suspects.leave_unseen(directory));
            assert!(!suspects.leave_unread(name), "{deaths:?}");
        }
        for (deaths, is_out) in [(&[read, read, one, many][..], false), (&[read, read, read], true)] {
            let suspects = after(deaths);
            assert_eq!((suspects.leave_unread(name), suspects.leave_unseen(name)), (is_out, false));
        }
        assert!(!Suspects::default().has_directory(directory));
    }

    #[test]
    fn other_threads_of_dead_ranks_are_not_blamed() {
        let (directory, name, other) = ids();
        let poison = Doing::new(What::Name, (name, name), directory);
        let beside = Doing::new(What::Name, (other, other), directory);
        let death = |rank, doing| Death { run: 2 + rank, rank, doing };
        let mut deaths: BTreeSet<_> = (0..3).map(|rank| death(rank, poison)).collect();
        deaths.extend((0..2).map(|rank| death(rank, beside)));
        let suspects = Suspects::new(deaths.clone());
        assert!(suspects.leave_unseen(name) && !suspects.leave_unseen(other));
        // One more death, and then three, which the name that is left out does not explain.
        for (more, is_out) in [(5..6, false), (6..8, true)] {
            deaths.extend(more.map(|rank| death(rank, beside)));
            let suspects = Suspects::new(deaths.clone());
            assert_eq!((suspects.leave_unseen(name), suspects.leave_unseen(other)), (true, is_out));
        }
        // Nobody can tell them apart.
        let both = (0..3).flat_map(|rank| [death(rank, poison), death(rank, beside)]);
        let suspects = Suspects::new(both.collect());
        assert!(suspects.leave_unseen(name) && suspects.leave_unseen(other));
    }

    #[test]
    fn files_of_dead_ranks_are_gathered() {
        let scratch = Scratch::new("underway").unwrap();
        let top = sys::open_directory_path(scratch.path().as_os_str().as_encoded_bytes(), false).unwrap();
        let (directory, name, _) = ids();
        let one = Doing::new(What::Name, (name, name), directory);
        let names = || {
            let mut names = sys::names_of(&top, 9).unwrap();
            names.sort();
            names
        };
        for run in 2..5 {
            let ranks = [0, 1, 2].map(|rank| {
                let underway = Underway::begin(&top, (run, rank), Suspects::read(&top)).unwrap();
                assert!(!underway.suspects().leave_unseen(name), "{run}");
                // The second thread is at something; the first one has ended what it was at.
                underway.note(0, Some(Doing::new(What::Directory, (directory, directory), directory)));
                underway.note(1, Some(one));
                underway.note(0, None);
                underway
            });
            let [first, dead, last] = ranks;
            drop((first, last));
            // A file that a process has is left alone.
            assert_eq!(Suspects::gather(&top, 2).deaths.len(), run as usize - 2);
            // A killed process removes nothing.
            let name = dead.name.to_str().unwrap().to_owned();
            let bytes = std::fs::read(scratch.join(&name)).unwrap();
            drop(dead);
            std::fs::write(scratch.join(&name), bytes).unwrap();
            let suspects = Suspects::gather(&top, 2);
            assert_eq!(names(), [SUSPECTS.to_owned()]);
            assert_eq!(suspects, Suspects::read(&top));
            assert_eq!(suspects.deaths.len(), run as usize - 1);
            assert!(!suspects.leave_unread(directory));
        }
        assert!(Suspects::read(&top).leave_unseen(name));
        // Deaths of an older launch.
        assert_eq!(Suspects::gather(&top, 5), Suspects::default());
        assert_eq!(Suspects::read(&top), Suspects::default());
        // What is no list of deaths says nothing.
        std::fs::write(scratch.join("suspects"), b"damaged").unwrap();
        assert_eq!(Suspects::read(&top), Suspects::default());
        std::fs::write(scratch.join("at.5.1"), b"short").unwrap();
        assert_eq!(Suspects::gather(&top, 2), Suspects::default());
        std::fs::write(scratch.join("at.5.01"), b"not one of these").unwrap();
        Suspects::forget(&top);
        assert_eq!(names(), [c"at.5.01".to_owned()]);
    }
}
