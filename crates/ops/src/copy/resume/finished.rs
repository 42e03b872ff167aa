//! What earlier runs of a job have done, looked at again: whether directories of the source have changed since, and whether the copy is still there.
//! Files are not looked at. Their names are, if the copy of a directory has another time than its source: then it waits for its closing, or somebody
//! has changed it. It changes nothing.
//!
//! Each thread sorts what it gets, and keeps the directories open that lead to its last one.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::mem;
use std::sync::Arc;

use atta_entry::{Errno, Metadata};
use atta_ledger::{At, Seen, Stage};
use atta_runtime::Stop;
use rustix::fd::OwnedFd;

use crate::copy::resume::missing;
use crate::copy::target::Target;
use crate::copy::target::mirror::Shared;
use crate::resume::looks::{Look, Looks};
use crate::resume::way::{How, Names, OPEN_MOST, Way, either, open};
use crate::tree::Gone;
use crate::tree::listing::rules::Rules;
use atta_sys as sys;

/// The most directories that are named as gone.
const LOST_MOST: usize = 1 << 16;

/// Looks at directories that earlier runs of the job have completed, on threads of its own.
#[derive(Debug)]
pub struct Finished(Looks<Sides>);

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
pub(crate) struct Directory {
    root: u32,
    path: Vec<u8>,
    asks: Asks,
}

/// What is asked of a directory.
#[derive(Debug)]
pub(crate) enum Asks {
    /// Whether it is what was seen.
    IsThere(Seen, Stage),
    /// Whether it has these names.
    Has(Vec<CString>),
}

/// The answer.
#[derive(Debug)]
pub(crate) enum Answer {
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
pub(crate) struct Others {
    lost: BTreeSet<Place>,
    /// Names are missing in them.
    lacking: BTreeSet<Place>,
    are_many: bool,
    changed: BTreeSet<Place>,
    failed: Option<(Vec<u8>, Errno)>,
}

impl Others {
    fn add(&mut self, look: Answer) {
        match look {
            Answer::IsThere { place, is_lost, is_changed, is_lacking } => {
                self.lacking.extend(is_lacking.then(|| place.clone()));
                if let Some(is_changed) = is_changed {
                    note(&mut self.changed, is_changed, &place);
                }
                match is_lost {
                    Ok(is_lost) => note(&mut self.lost, is_lost, &place),
                    Err(errno) => drop(self.failed.get_or_insert((place.1, errno))),
                }
            }
            Answer::Lacks(place) => drop(self.lacking.insert(place)),
            Answer::Has => {}
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

/// Whether a copy has the time of its source, to two seconds: some file systems keep no more.
fn have_one_time(source: &Result<Metadata, Errno>, copy: &Result<Metadata, Errno>) -> bool {
    matches!((source, copy), (Ok(source), Ok(copy)) if source.mtime.seconds.abs_diff(copy.mtime.seconds) < 2)
}

/// Both sides of the roots.
#[derive(Debug)]
pub(crate) struct Sides {
    shared: Arc<Shared>,
    /// An error: it cannot be opened.
    roots: Vec<(Result<OwnedFd, Errno>, Result<OwnedFd, Errno>)>,
    /// What the copy leaves out.
    rules: Option<Rules>,
    /// Copies of directories get the times of their sources.
    has_times: bool,
    stop: Stop,
}

impl Finished {
    pub(crate) fn new(target: &Target<'_>, roots: &[Vec<u8>]) -> Self {
        Self(Looks::new(Sides::new(target, roots), 2 * (OPEN_MOST + 2)))
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
        self.0.ask(Directory { root: at.root, path: at.path.to_vec(), asks }, weight);
    }

    /// Waits until all are looked at.
    ///
    /// # Panics
    /// A thread has panicked.
    #[must_use]
    pub fn end(self) -> Found {
        let mut others = self.0.end();
        Found {
            lost: others.all_lost(),
            changed: others.changed.len() as u64,
            changed_one: others.changed.first().map(|(_, path)| path.clone()),
            failed: others.failed,
        }
    }
}

impl Look for Sides {
    type Asked = Directory;
    type Ways = Ways;
    type Answer = Answer;
    type Sum = Others;

    fn look_at(&self, mut directories: Vec<Directory>, ways: &mut Ways) -> Vec<Answer> {
        // Neighbours share the directories above. What is asked of one directory stays in its order.
        directories.sort_by(|one, other| (one.root, &one.path).cmp(&(other.root, &other.path)));
        let goes_on = |_: &Directory| !self.stop.is_set();
        let looks =
            directories.into_iter().take_while(goes_on).map(|Directory { root, path, asks }| match asks {
                Asks::IsThere(seen, stage) => self.is_there((root, path), (seen, stage), ways),
                Asks::Has(names) if self.lack((root, &path), Some(&names), ways) => {
                    Answer::Lacks((root, path))
                }
                Asks::Has(_) => Answer::Has,
            });
        looks.collect()
    }

    fn add(others: &mut Others, answer: Answer) {
        others.add(answer);
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set()
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
        let stop = target.options.walk.stop.clone();
        Self { shared, roots: roots.iter().map(open).collect(), rules, has_times, stop }
    }

    /// Whether a directory is what was seen.
    fn is_there(&self, (root, path): Place, (seen, stage): (Seen, Stage), ways: &mut Ways) -> Answer {
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
            && is_changed != Some(true)
            && stage != Stage::Begun
            && (self.has_times || stage == Stage::Done)
            && !have_one_time(&source, &target);
        let is_lacking = is_due && self.lack((root, &path), None, ways);
        Answer::IsThere { place: (root, path), is_lost, is_changed, is_lacking }
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

/// Of both sides.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    sources: Way,
    targets: Way,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use atta_testkit::scratch::Scratch;

    use super::*;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};

    #[test]
    fn too_many_lost_directories_are_not_named() {
        let place = |number: u32| (0, number.to_string().into_bytes());
        let lost = |number| Answer::IsThere {
            place: place(number),
            is_lost: Ok(true),
            is_changed: Some(false),
            is_lacking: false,
        };
        let mut others = Others::default();
        assert_eq!(others.all_lost(), None);
        others.add(lost(1));
        others.add(Answer::Lacks(place(2)));
        // It was done again.
        others.add(lost(3));
        let there =
            Answer::IsThere { place: place(3), is_lost: Ok(false), is_changed: None, is_lacking: false };
        others.add(there);
        assert_eq!(others.all_lost(), Some(Gone::Some([place(1), place(2)].into())));
        (0..=LOST_MOST as u32).for_each(|number| others.add(lost(number)));
        assert_eq!(others.all_lost(), Some(Gone::Many));
    }

    /// Also if the last that the log says of a directory comes from a slice that was done again, which has seen nothing of the source.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a directory of the test's own")]
    fn names_that_somebody_removed_are_missed() {
        let scratch = Scratch::new("finished").unwrap();
        for (tree, files) in [("source", &["kept", "removed"][..]), ("target", &["kept"])] {
            let directory = scratch.join(tree).join("d");
            fs::create_dir_all(&directory).unwrap();
            files.iter().for_each(|name| fs::write(directory.join(name), "").unwrap());
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000 * files.len() as u64);
            fs::File::open(&directory).unwrap().set_modified(time).unwrap();
        }
        let [source, target] = ["source/d", "target/d"].map(|path| fs::metadata(scratch.join(path)).unwrap());
        let options = Options { no_target_directory: true, ..Options::default() };
        let [from, to] = ["source", "target"].map(|path| scratch.join(path).as_os_str().as_bytes().to_vec());
        let sources = [from];
        let copy = Copy::prepare(&sources, &to, &options, &NothingFails, Seat::alone()).unwrap();
        for (source_inode, changed) in
            [(source.ino(), (source.ctime(), source.ctime_nsec() as u32)), (0, (0, 0))]
        {
            let mut finished = copy.finished();
            let seen = Seen { source_inode, target_inode: target.ino(), changed };
            finished.add(At { root: 0, path: b"d" }, seen, Stage::Done);
            let found = finished.end();
            assert!(matches!(&found.lost, Some(Gone::Some(lost)) if lost.len() == 1), "{seen:?}: {found:?}");
        }
    }

    #[test]
    fn done_slice_hides_no_change_of_the_source() {
        let place = || (0, b"d".to_vec());
        let look = |is_changed, is_lacking| Answer::IsThere {
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
