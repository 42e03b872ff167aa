//! The options of a copy on ranks within this process: under every schedule what one process makes alone, which has tests of its own.
//! What the program makes of its arguments is the business of its tests.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atta_engine::Config;
use atta_entry::Failure;
use atta_ops::copy::{
    self, Existing, ExtendedNames, Fsync, Keep, Options, OwnerRule, Owners, RankReport, Totals, Watch,
};
use atta_ops::digest::Signature;
use atta_ops::walk::{self, Start};
use atta_runtime::Rate;
use atta_testkit::scratch::Scratch;
use atta_testkit::{oracle, skip, trees};
use copying::ranks::{HOSTS, Whole, all_schedules, copied, copied_listed};
use copying::{Facts, bytes, facts, threads};

const OLD: i64 = 1_000_000;
const DIRECTORIES: usize = 24;

fn set_time(path: &Path, seconds: i64) {
    let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn make_old(tree: &Path) {
    // What is in a directory comes after it.
    for path in oracle::list(tree).unwrap().into_keys().rev() {
        set_time(Path::new(OsStr::from_bytes(&path)), OLD);
    }
}

/// A directory of the tree, by its number.
fn below(tree: &Path, number: usize) -> PathBuf {
    tree.join(format!("d{}/{number}", number % 5))
}

/// Directories with files, links, FIFOs and attributes, of odd modes and several owners; one file has a name in each of them; one
/// is large; and so many small ones in one directory. All are old.
fn furnished(scratch: &Scratch, flat: u64) -> PathBuf {
    let tree = scratch.join("tree");
    for number in 0..DIRECTORIES {
        let directory = below(&tree, number);
        fs::create_dir_all(&directory).unwrap();
        for name in ["file", "same", "changed"] {
            fs::write(directory.join(name), format!("{name} {number}")).unwrap();
            let bits = fs::Permissions::from_mode(0o604 + 8 * (number as u32 % 8));
            fs::set_permissions(directory.join(name), bits).unwrap();
        }
        fs::hard_link(below(&tree, 0).join("file"), directory.join("other")).unwrap();
        symlink("file", directory.join("link")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, directory.join("pipe"), fifo, 0o600.into(), 0).unwrap();
        for name in ["user.a", "user.b"] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(directory.join("same"), name, name.as_bytes(), flags).unwrap();
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o710)).unwrap();
    }
    trees::flat(&tree.join("flat"), flat).unwrap();
    let large: Vec<u8> = (0..3_000_017_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(tree.join("large"), large).unwrap();
    if skip::is_root() {
        for (number, path) in oracle::list(&tree).unwrap().into_keys().enumerate() {
            let path = Path::new(OsStr::from_bytes(&path));
            lchown(path, Some(1000 + number as u32 % 7), Some(2000)).unwrap();
        }
    }
    make_old(&tree);
    tree
}

#[derive(Default)]
struct Reported(Mutex<Vec<String>>);

impl Watch for Reported {
    fn failure(&self, failure: &Failure<'_>) {
        self.0.lock().unwrap().push(failure.to_string());
    }
}

/// What is copied, and where.
struct Setup<'a> {
    scratch: &'a Scratch,
    tree: &'a Path,
    /// Makes what is there beforehand.
    prepare: &'a dyn Fn(&Path),
    /// Looks at what was made, beside that it is what one process makes.
    look: &'a dyn Fn(&Path, &Whole),
    starts: Option<&'a [Start]>,
    has_times: bool,
    /// Which name of a file is met first is chance, and whether that one is there already.
    is_first_chance: bool,
}

impl<'a> Setup<'a> {
    fn new(scratch: &'a Scratch, tree: &'a Path) -> Self {
        let (prepare, look) = (&|_: &Path| {}, &|_: &Path, _: &Whole| {});
        Self { scratch, tree, prepare, look, starts: None, has_times: true, is_first_chance: false }
    }

    /// What is there beforehand is old, too.
    fn prepare_at(&self, target: &Path) {
        (self.prepare)(target);
        if target.exists() {
            make_old(target);
        }
    }

    fn facts(&self, target: &Path) -> BTreeMap<Vec<u8>, Facts> {
        let mut all = facts(target);
        if !self.has_times {
            all.values_mut().for_each(|facts| facts.mtime = (0, 0));
        }
        all
    }

    fn totals(&self, totals: &Totals) -> Totals {
        // What has several names is read back by each rank that met one.
        let mut totals = Totals { verified_bytes: 0, ..totals.clone() };
        if self.is_first_chance {
            totals.files += std::mem::take(&mut totals.hard_links) + std::mem::take(&mut totals.skipped);
            totals.bytes = 0;
        }
        totals
    }

    fn alone(&self, target: &Path, options: &Options<'_>) -> (Totals, Option<Signature>, Vec<String>) {
        let (sources, target, reports) = ([bytes(&self.tree.join("."))], bytes(target), Reported::default());
        let outcome = match self.starts {
            None => copy::run(&sources, &target, options, &reports, |_| {}),
            Some(starts) => {
                copy::run_listed(&sources, starts.iter().cloned(), &target, options, &reports, |_| {})
            }
        };
        let outcome = outcome.unwrap();
        (outcome.totals, outcome.signature, reports.0.into_inner().unwrap())
    }

    /// Copies alone, and on ranks under every schedule.
    fn assert_as_alone<'o>(&self, options: impl Fn() -> Options<'o>) {
        let made = self.scratch.join("alone");
        self.prepare_at(&made);
        let (totals, signature, mut failures) = self.alone(&made, &options());
        failures.sort();
        let (made_facts, mut accepted) = (self.facts(&made), 0);
        let target = self.scratch.join("target");
        for (hosts, config) in all_schedules() {
            self.prepare_at(&target);
            let (source, what) = (self.tree.join("."), format!("{} on {hosts:?}", config.schedule));
            let mut whole = copied_listed(&source, &target, (hosts, config), self.starts, &options);
            whole.failures.sort();
            // What could not be made is named by its path in TARGET.
            let (own, other) = (target.to_string_lossy(), made.to_string_lossy());
            let expected: Vec<_> =
                whole.failures.iter().map(|failure| failure.replace(&*own, &other)).collect();
            assert_eq!(expected, failures, "{what}");
            assert_eq!(self.totals(&whole.totals), self.totals(&totals), "{what}");
            let digest = |signature: &Option<Signature>| signature.as_ref().map(Signature::digest);
            assert_eq!(digest(&whole.signature), digest(&signature), "{what}");
            let facts = self.facts(&target);
            for (name, made) in &made_facts {
                let shown = String::from_utf8_lossy(name);
                assert_eq!(facts.get(name), Some(made), "{what}: {shown}");
            }
            assert_eq!(facts.len(), made_facts.len(), "{what}");
            (self.look)(&target, &whole);
            accepted += whole.accepted;
            fs::remove_dir_all(&target).unwrap();
        }
        fs::remove_dir_all(&made).unwrap();
        assert!(accepted > 0, "ranks share the work");
    }
}

/// On two threads a rank, the large file in chunks, nothing synced.
fn options() -> Options<'static> {
    Options { fsync: Fsync::None, digest: true, chunk: Some(64 << 10), ..threads(2) }
}

/// A copy with all there is, as an earlier run left it.
fn earlier(tree: &Path, target: &Path) {
    let outcome =
        copy::run(&[bytes(&tree.join("."))], &bytes(target), &options(), &Reported::default(), |_| {});
    assert_eq!(outcome.unwrap().totals.failed(), 0);
}

#[test]
fn ranks_keep_what_is_to_be_kept_and_nothing_else() {
    let scratch = Scratch::new("ranks-keep").unwrap();
    let tree = furnished(&scratch, 20);
    let keeps = [
        Keep::nothing(),
        Keep { times: true, ..Keep::nothing() },
        Keep { mode: true, links: true, ..Keep::nothing() },
        Keep { extended: ExtendedNames::Matching(vec![b"*.b".to_vec()]), ..Keep::default() },
        Keep { lists: false, links: false, ..Keep::default() },
    ];
    for keep in keeps {
        let setup = Setup { has_times: keep.times, ..Setup::new(&scratch, &tree) };
        setup.assert_as_alone(|| Options { keep: keep.clone(), ..options() });
    }
}

#[test]
fn ranks_give_everything_the_owner_that_the_map_says() {
    if !skip::is_root() {
        return skip::skipped("owners that ranks map", "only root may give files away");
    }
    let scratch = Scratch::new("ranks-chown").unwrap();
    let tree = furnished(&scratch, 20);
    let users = vec![OwnerRule { from: 1000..=1003, to: 71_000, shifts: true }, OwnerRule::all(5)];
    let owners = Owners { users, groups: vec![OwnerRule::all(99)] };
    let owner = |path: &Path| fs::symlink_metadata(path).map(|found| (found.uid(), found.gid())).unwrap();
    let look = |target: &Path, _: &Whole| {
        for name in ["d0/0/file", "d1/1/link", "d2/2/pipe", "d3/3", "large", "flat", ""] {
            let (was, is) = (owner(&tree.join(name)).0, owner(&target.join(name)));
            assert_eq!(is, (if was > 1003 { 5 } else { was + 70_000 }, 99), "{name}");
        }
    };
    for keep in [Keep::default(), Keep::nothing()] {
        let setup = Setup { has_times: keep.times, look: &look, ..Setup::new(&scratch, &tree) };
        setup.assert_as_alone(|| Options {
            keep: Keep { owners: owners.clone(), ..keep.clone() },
            ..options()
        });
    }
}

#[test]
fn ranks_update_only_what_differs() {
    let scratch = Scratch::new("ranks-update").unwrap();
    let tree = furnished(&scratch, 20);
    let prepare = |target: &Path| {
        earlier(&tree, target);
        for number in 0..DIRECTORIES {
            let directory = below(target, number);
            // Size and time do not show the difference.
            fs::write(directory.join("same"), format!("SAME {number}")).unwrap();
            fs::write(directory.join("changed"), "longer than its source").unwrap();
            match number % 3 {
                0 => fs::remove_file(directory.join("other")).unwrap(),
                1 => fs::set_permissions(directory.join("file"), fs::Permissions::from_mode(0o777)).unwrap(),
                _ => fs::remove_dir_all(&directory).unwrap(),
            }
        }
    };
    let look = |target: &Path, whole: &Whole| {
        assert_eq!(fs::read(below(target, 4).join("same")).unwrap(), b"SAME 4");
        assert_eq!(fs::read(below(target, 4).join("changed")).unwrap(), b"changed 4");
        assert!(whole.totals.skipped > 20, "the flat ones and others: {:?}", whole.totals);
    };
    let setup =
        Setup { prepare: &prepare, look: &look, is_first_chance: true, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(|| Options { existing: Existing::Update, ..options() });
}

#[test]
fn ranks_leave_whatever_is_there_if_they_are_to() {
    let scratch = Scratch::new("ranks-ignore").unwrap();
    let tree = furnished(&scratch, 20);
    let prepare = |target: &Path| {
        for number in (0..DIRECTORIES).step_by(2) {
            let directory = below(target, number);
            fs::create_dir_all(directory.join("pipe")).unwrap();
            fs::write(directory.join("changed"), "old").unwrap();
            symlink("/nowhere", directory.join("file")).unwrap();
        }
        fs::write(target.join("large"), "old").unwrap();
    };
    let look = |target: &Path, whole: &Whole| {
        assert_eq!(whole.totals.skipped, 3 * DIRECTORIES as u64 / 2 + 1);
        assert_eq!(fs::read(target.join("large")).unwrap(), b"old");
    };
    let setup = Setup { prepare: &prepare, look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(|| Options { existing: Existing::Ignore, ..options() });
}

#[test]
fn ranks_write_into_files_that_are_there() {
    let scratch = Scratch::new("ranks-in-place").unwrap();
    let tree = furnished(&scratch, 20);
    let names = |target: &Path| {
        let changed = (0..DIRECTORIES).map(|number| below(target, number).join("changed"));
        changed.chain([target.join("large")]).collect::<Vec<_>>()
    };
    let inodes = |target: &Path| {
        names(target).iter().map(|path| fs::metadata(path).unwrap().ino()).collect::<Vec<_>>()
    };
    let before = Mutex::new(Vec::new());
    let prepare = |target: &Path| {
        for (path, source) in names(target).iter().zip(names(&tree)) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "old ".repeat(1000)).unwrap();
            // Files of other owners are replaced.
            lchown(path, Some(fs::metadata(source).unwrap().uid()), None).unwrap();
        }
        *before.lock().unwrap() = inodes(target);
    };
    let look = |target: &Path, _: &Whole| assert_eq!(inodes(target), *before.lock().unwrap());
    let setup = Setup { prepare: &prepare, look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(|| Options { in_place: true, ..options() });
}

#[test]
fn ranks_copy_a_list_with_directories_above() {
    let scratch = Scratch::new("ranks-list").unwrap();
    let tree = furnished(&scratch, 300);
    let root = bytes(&tree.join("."));
    let flat = fs::read_dir(tree.join("flat")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = flat.map(|name| format!("flat/{}", name.to_str().unwrap())).collect();
    assert_eq!(names.len(), 300, "more than are taken from a list at a time");
    names.extend((0..DIRECTORIES).map(|number| match number % 4 {
        0 => format!("d{}/{number}", number % 5),
        1 => format!("d{}/{number}/other", number % 5),
        2 => format!("d{}/{number}/link", number % 5),
        _ => format!("d{}/{number}/gone", number % 5),
    }));
    names.push("large".to_owned());
    let starts: Vec<_> =
        names.into_iter().map(|name| Start { root: root.clone(), below: Some(name.into()) }).collect();
    let look = |target: &Path, whole: &Whole| {
        assert_eq!((whole.failures.len(), whole.signature.is_none()), (DIRECTORIES / 4, true));
        assert!(target.join("d0/0/same").exists() && !target.join("d1/1/same").exists());
    };
    let setup = Setup { starts: Some(&starts), look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(options);
}

#[test]
fn ranks_read_back_all_that_they_have_copied() {
    let scratch = Scratch::new("ranks-verify").unwrap();
    let tree = furnished(&scratch, 20);
    let look = |_: &Path, whole: &Whole| {
        let totals = &whole.totals;
        assert_eq!(totals.mended, 0);
        // What has several names is read once on each rank that met one.
        let again = totals.verified_bytes.checked_sub(totals.bytes).unwrap();
        assert!(again == 0 || whole.ranks.len() > 1 && totals.hard_links > 0, "{again} bytes more");
    };
    let setup = Setup { look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(|| Options { verify: true, fsync: Fsync::Batch, ..options() });
}

#[test]
fn ranks_obey_fsync_modes_and_skip_digests() {
    let scratch = Scratch::new("ranks-fsync").unwrap();
    let tree = furnished(&scratch, 20);
    let syncs = |whole: &Whole| whole.ranks.iter().map(|rank| rank.syncs).sum::<u64>();
    let look = |_: &Path, whole: &Whole| {
        // Each file, and all there is by each rank; on a file system in memory nothing.
        let least = whole.totals.files + whole.ranks.len() as u64;
        assert!(syncs(whole) == 0 || syncs(whole) >= least, "{} {least}", syncs(whole));
    };
    let setup = Setup { look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(|| Options { fsync: Fsync::File, ..options() });
    let look = |_: &Path, whole: &Whole| assert_eq!((syncs(whole), whole.signature.is_none()), (0, true));
    let setup = Setup { look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(|| Options { digest: false, ..options() });
}

#[test]
fn failure_on_any_rank_is_reported_once() {
    let scratch = Scratch::new("ranks-failed").unwrap();
    let tree = furnished(&scratch, 20);
    // Directories where other things are to go, and a file where a directory is.
    let prepare = |target: &Path| {
        for number in 0..DIRECTORIES {
            let directory = below(target, number);
            fs::create_dir_all(directory.join("changed/x")).unwrap();
            fs::create_dir_all(directory.join("link/x")).unwrap();
        }
        fs::create_dir_all(target.join("large/x")).unwrap();
        fs::write(target.join("flat"), "in the way").unwrap();
    };
    let look = |_: &Path, whole: &Whole| {
        assert_eq!(whole.failures.len(), 2 * DIRECTORIES + 2);
        assert_eq!(whole.totals.failed(), whole.failures.len() as u64);
    };
    let setup = Setup { prepare: &prepare, look: &look, ..Setup::new(&scratch, &tree) };
    setup.assert_as_alone(options);
}

#[test]
fn no_rank_does_more_a_second_than_its_share() {
    let scratch = Scratch::new("ranks-share").unwrap();
    let tree = scratch.join("tree");
    for number in 0..64 {
        let directory = tree.join(number.to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), vec![b'x'; 128 << 10]).unwrap();
    }
    let (hosts, config) = (HOSTS[3], Config { seed: 11, ..Config::default() });
    let slowest = |whole: &Whole| whole.ranks.iter().map(RankReport::elapsed).max().unwrap_or_default();
    // An eighth of 16 MiB a second for each: one of them has to move an eighth of 8 MiB at least, but for what it waits for last.
    let share = || Some(Arc::new(Rate::per_second(2 << 20)));
    let limited = || Options { bandwidth: share(), chunk: None, ..options() };
    let whole = copied(&tree, &scratch.join("bandwidth"), hosts, config, limited);
    assert_eq!(whole.totals.files, 64);
    assert!(slowest(&whole) >= Duration::from_millis(400), "{:?}", slowest(&whole));
    // Of some 200 operations or more one rank has to do 25.
    let rates: Vec<_> = hosts.iter().map(|_| Rate::new(50)).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let limited = || {
        let rate = &rates[next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)];
        let walk = walk::Options { rate: Some(rate), ..threads(2).walk };
        Options { walk, ..options() }
    };
    let whole = copied(&tree, &scratch.join("operations"), hosts, config, limited);
    assert_eq!(whole.totals.files, 64);
    assert!(slowest(&whole) >= Duration::from_millis(400), "{:?}", slowest(&whole));
}
