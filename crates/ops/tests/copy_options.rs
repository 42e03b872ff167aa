//! The options of a copy: what is kept, what is skipped, what is only rehearsed, and how bytes go.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use atta_entry::Failure;
use atta_ops::copy::{self, Existing, ExtendedNames, Keep, Options, Outcome, OwnerRule, Owners, Watch};
use atta_ops::walk;
use atta_runtime::Threads;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use rustix::fs::XattrFlags;

#[derive(Default)]
struct Failures(Mutex<Vec<(PathBuf, String)>>);

impl Watch for Failures {
    fn failure(&self, failure: &Failure<'_>) {
        let path = OsStr::from_bytes(&failure.path).into();
        self.0.lock().unwrap().push((path, failure.to_string()));
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The outcome of a copy, and its failures.
fn try_copy(source: &Path, target: &Path, options: &Options<'_>) -> (Outcome, Vec<(PathBuf, String)>) {
    let failures = Failures::default();
    let outcome = copy::run(&[bytes(source)], &bytes(target), options, &failures, |_| {}).unwrap();
    (outcome, failures.0.into_inner().unwrap())
}

/// A copy in which nothing fails.
fn copy(source: &Path, target: &Path, options: &Options<'_>) -> Outcome {
    let (outcome, failures) = try_copy(source, target, options);
    assert_eq!(failures, []);
    outcome
}

fn threads(count: usize) -> Options<'static> {
    let threads = Threads::Fixed(NonZeroUsize::new(count).unwrap());
    Options { walk: walk::Options { threads, ..walk::Options::default() }, ..Options::default() }
}

fn keeping(keep: Keep) -> Options<'static> {
    Options { keep, ..threads(2) }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 1000];
    rustix::fs::lgetxattr(path, name, &mut value[..]).ok().map(|length| value[..length].to_vec())
}

fn give_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn set_time(path: &Path, seconds: i64) {
    let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

const OLD: i64 = 1_000_000;

/// A directory with a file of two names, a link and a FIFO; all old, of odd modes and of somebody else.
fn furnished(scratch: &Scratch) -> PathBuf {
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    fs::hard_link(tree.join("file"), tree.join("other")).unwrap();
    symlink("file", tree.join("link")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, tree.join("pipe"), fifo, 0o600.into(), 0).unwrap();
    give_attribute(&tree.join("file"), "user.a", b"1");
    give_attribute(&tree.join("file"), "user.b", b"2");
    for (name, bits) in [("file", 0o6751), ("pipe", 0o604), ("", 0o2705)] {
        let path = tree.join(name);
        if skip::is_root() {
            lchown(&path, Some(1234), Some(4321)).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
    }
    if skip::is_root() {
        lchown(tree.join("link"), Some(1234), Some(4321)).unwrap();
    }
    for name in ["file", "link", "pipe", ""] {
        set_time(&tree.join(name), OLD);
    }
    tree
}

#[test]
fn a_copy_has_what_is_to_be_kept_and_nothing_else() {
    let scratch = Scratch::new("copy-keep").unwrap();
    let tree = furnished(&scratch);
    let nothing = scratch.join("nothing");
    let outcome = copy(&tree, &nothing, &keeping(Keep::nothing()));
    assert_eq!((outcome.totals.files, outcome.totals.hard_links), (2, 0));
    assert_eq!(outcome.totals.not_kept, copy::NotKept::default());
    let umask = rustix::process::umask(0o22.into());
    rustix::process::umask(umask);
    for (name, bits) in [("file", 0o751), ("pipe", 0o604), ("", 0o705)] {
        assert_eq!(mode(&nothing.join(name)), bits & !umask.bits(), "{name}");
    }
    for name in ["file", "link", "pipe", ""] {
        let found = fs::symlink_metadata(nothing.join(name)).unwrap();
        assert!(found.mtime() > OLD, "{name}");
        assert_eq!(found.uid(), rustix::process::geteuid().as_raw(), "{name}");
    }
    assert_eq!(fs::metadata(nothing.join("file")).unwrap().nlink(), 1);
    assert_eq!(attribute(&nothing.join("file"), "user.a"), None);

    let times = scratch.join("times");
    copy(&tree, &times, &keeping(Keep { times: true, ..Keep::nothing() }));
    for name in ["file", "link", "pipe", ""] {
        assert_eq!(fs::symlink_metadata(times.join(name)).unwrap().mtime(), OLD, "{name}");
    }
    let modes = scratch.join("modes");
    let outcome = copy(&tree, &modes, &keeping(Keep { mode: true, links: true, ..Keep::nothing() }));
    // Of other owners they would give other rights.
    assert_eq!((mode(&modes.join("file")), mode(&modes)), (0o751, 0o705));
    assert_eq!((outcome.totals.not_kept.set_id_bits, outcome.totals.hard_links), (2, 1));
    assert_eq!(fs::metadata(modes.join("other")).unwrap().nlink(), 2);
    let extended = ExtendedNames::Matching(vec![b"*.b".to_vec()]);
    copy(&tree, &scratch.join("some"), &keeping(Keep { extended, ..Keep::default() }));
    let kept = ["user.a", "user.b"].map(|name| attribute(&scratch.join("some/file"), name));
    assert_eq!(kept, [None, Some(b"2".to_vec())]);
}

#[test]
fn existing_directory_keeps_other_attributes() {
    let scratch = Scratch::new("copy-keep").unwrap();
    let tree = furnished(&scratch);
    let target = scratch.join("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o711)).unwrap();
    copy(&tree.join("."), &target, &keeping(Keep::nothing()));
    assert_eq!((mode(&target), owner(&target)), (0o711, owner(scratch.path())));
    copy(&tree.join("."), &target, &keeping(Keep::default()));
    assert_eq!((mode(&target), owner(&target)), (mode(&tree), owner(&tree)));
}

#[test]
fn everything_gets_the_owner_that_the_map_says() {
    if !skip::is_root() {
        return skip::skipped("owners that are mapped", "only root may give files away");
    }
    let scratch = Scratch::new("copy-chown").unwrap();
    let tree = furnished(&scratch);
    fs::write(tree.join("own"), "own").unwrap();
    let users = vec![OwnerRule { from: 1200..=1300, to: 71_200, shifts: true }];
    for (number, keep) in [Keep::default(), Keep::nothing()].into_iter().enumerate() {
        let target = scratch.join(number.to_string());
        let owners = Owners { users: users.clone(), groups: vec![OwnerRule::all(99)] };
        let outcome = copy(&tree, &target, &keeping(Keep { owners, ..keep }));
        for name in ["file", "other", "link", "pipe", ""] {
            assert_eq!(owner(&target.join(name)), (71_234, 99), "{name}");
        }
        assert_eq!(owner(&target.join("own")), (0, 99));
        if number == 0 {
            // Whose rights they give is not who gave them.
            assert_eq!((mode(&target.join("file")), mode(&target)), (0o751, 0o2705));
            assert_eq!(outcome.totals.not_kept.set_id_bits, 1);
        }
    }
}

#[test]
fn file_without_its_acl_is_no_more_open() {
    let scratch = Scratch::new("copy-list").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    let file = tree.join("file");
    fs::write(&file, "content").unwrap();
    // The owner rw-, the group ---, user 7 rw-, at most rw-.
    let entry = |kind: u16, rights: u16, who: u32| {
        [&kind.to_le_bytes()[..], &rights.to_le_bytes(), &who.to_le_bytes()].concat()
    };
    let all = u32::MAX;
    let list = [entry(1, 6, all), entry(2, 6, 7), entry(4, 0, all), entry(0x10, 6, all), entry(0x20, 0, all)];
    let list = [vec![2, 0, 0, 0], list.concat()].concat();
    let access = "system.posix_acl_access";
    if rustix::fs::setxattr(&file, access, &list, XattrFlags::empty()).is_err() {
        return skip::skipped("copies without their lists", "the file system has no access lists");
    }
    assert_eq!(mode(&file), 0o660);
    let without = scratch.join("without");
    copy(&tree, &without, &keeping(Keep { lists: false, ..Keep::default() }));
    assert_eq!((mode(&without.join("file")), attribute(&without.join("file"), access)), (0o600, None));
    let alone = scratch.join("alone");
    copy(&tree, &alone, &keeping(Keep { lists: true, ..Keep::nothing() }));
    assert_eq!((mode(&alone.join("file")), attribute(&alone.join("file"), access)), (0o660, Some(list)));
}

fn existing(existing: Existing) -> Options<'static> {
    Options { existing, digest: true, ..threads(2) }
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[test]
fn update_keeps_bytes_and_repairs_attributes() {
    let scratch = Scratch::new("copy-update").unwrap();
    let tree = furnished(&scratch);
    for name in ["same", "longer", "newer", "mode", "attribute", "shared", "gone"] {
        fs::write(tree.join(name), name).unwrap();
        set_time(&tree.join(name), OLD);
    }
    fs::write(tree.join("large"), vec![b'x'; 20 << 20]).unwrap();
    let target = scratch.join("target");
    let options = existing(Existing::Update);
    assert!(copy(&tree, &target, &options).signature.is_some());
    // All but one have the same bytes; size and time do not show the difference.
    fs::write(target.join("same"), "SAME").unwrap();
    set_time(&target.join("same"), OLD);
    fs::write(target.join("longer"), "longer than its source").unwrap();
    set_time(&target.join("longer"), OLD);
    fs::write(target.join("newer"), "NEWER").unwrap();
    fs::set_permissions(target.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    give_attribute(&target.join("attribute"), "user.other", b"other");
    give_attribute(&tree.join("attribute"), "user.own", b"own");
    set_time(&target.join("attribute"), OLD);
    fs::remove_file(target.join("gone")).unwrap();
    fs::hard_link(target.join("shared"), scratch.join("stranger")).unwrap();
    let names = ["same", "mode", "attribute", "large", "file", "other", "longer", "newer", "shared"];
    let before = names.map(|name| inode(&target.join(name)));
    let outcome = copy(&tree.join("."), &target, &options);
    // The link and the FIFO among them.
    assert_eq!((outcome.totals.skipped, outcome.totals.files, outcome.signature), (8, 4, None));
    let is_same = names.map(|name| inode(&target.join(name))).map(|inode| before.contains(&inode));
    assert_eq!(is_same, [true, true, true, true, true, true, false, false, false]);
    let read = |name: &str| fs::read_to_string(target.join(name)).unwrap();
    let contents = ["same", "longer", "newer", "gone", "shared"].map(read);
    assert_eq!(contents, ["SAME", "longer", "newer", "gone", "shared"]);
    assert_eq!(mode(&target.join("mode")), mode(&tree.join("mode")));
    let attributes = ["user.own", "user.other"].map(|name| attribute(&target.join("attribute"), name));
    assert_eq!(attributes, [Some(b"own".to_vec()), None]);
    assert_eq!(mode(&target.join("file")), mode(&tree.join("file")));
    // Names that were files of their own become one file, and names that are new belong to it.
    fs::remove_file(target.join("other")).unwrap();
    let outcome = copy(&tree.join("."), &target, &options);
    assert_eq!(inode(&target.join("other")), inode(&target.join("file")));
    assert_eq!((outcome.totals.skipped + outcome.totals.files, outcome.totals.hard_links), (11, 1));
    let left: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.as_bytes().starts_with(b".atta.")), "{left:?}");
}

#[test]
fn what_is_there_is_left_if_it_is_to_be() {
    let scratch = Scratch::new("copy-ignore").unwrap();
    let tree = furnished(&scratch);
    fs::create_dir_all(tree.join("below")).unwrap();
    fs::write(tree.join("below/new"), "new").unwrap();
    fs::write(tree.join("large"), vec![b'x'; 20 << 20]).unwrap();
    let target = scratch.join("target");
    fs::create_dir_all(target.join("below")).unwrap();
    fs::create_dir(target.join("pipe")).unwrap();
    symlink("/nowhere", target.join("file")).unwrap();
    for name in ["large", "link"] {
        fs::write(target.join(name), "old").unwrap();
    }
    let outcome = copy(&tree.join("."), &target, &existing(Existing::Ignore));
    assert_eq!((outcome.totals.skipped, outcome.totals.files, outcome.signature), (4, 2, None));
    assert_eq!(fs::read_link(target.join("file")).unwrap(), Path::new("/nowhere"));
    let contents = ["large", "link", "other", "below/new"].map(|name| fs::read(target.join(name)).unwrap());
    assert_eq!(contents, [&b"old"[..], b"old", b"content", b"new"]);
}

#[test]
fn file_is_written_in_place_where_that_is_safe() {
    let scratch = Scratch::new("copy-in-place").unwrap();
    let (tree, target) = (scratch.join("tree"), scratch.join("target"));
    for directory in [&tree, &target] {
        fs::create_dir(directory).unwrap();
    }
    let names = ["shorter", "longer", "holes", "linked", "symlink", "attribute", "new", "large"];
    for name in names {
        fs::write(tree.join(name), format!("new {name}")).unwrap();
        fs::write(target.join(name), "old ".repeat(if name == "longer" { 1 } else { 60_000 })).unwrap();
        set_time(&tree.join(name), OLD);
    }
    fs::write(tree.join("large"), vec![b'x'; 20 << 20]).unwrap();
    let sparse = fs::File::create(tree.join("holes")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 1 << 20).unwrap();
    fs::hard_link(target.join("linked"), scratch.join("outside")).unwrap();
    fs::write(scratch.join("secret"), "secret").unwrap();
    fs::remove_file(target.join("symlink")).unwrap();
    symlink("../secret", target.join("symlink")).unwrap();
    fs::remove_file(target.join("new")).unwrap();
    give_attribute(&target.join("attribute"), "user.old", b"old");
    fs::set_permissions(target.join("attribute"), fs::Permissions::from_mode(0o4666)).unwrap();
    let before = names.map(|name| inode_or_none(&target.join(name)));
    for keep in [Keep::default(), Keep { mode: false, ..Keep::default() }] {
        let has_mode = keep.mode;
        let options = Options { in_place: true, digest: true, keep, ..threads(2) };
        let outcome = copy(&tree.join("."), &target, &options);
        assert!(outcome.signature.is_some());
        for name in names {
            let same = fs::read(tree.join(name)).unwrap() == fs::read(target.join(name)).unwrap();
            assert!(same, "{name}");
        }
        let expected = if has_mode { mode(&tree.join("attribute")) } else { 0o640 };
        assert_eq!(mode(&target.join("attribute")), expected);
        fs::set_permissions(target.join("attribute"), fs::Permissions::from_mode(0o640)).unwrap();
    }
    let is_same: Vec<_> =
        names.iter().zip(before).map(|(name, was)| was == inode_or_none(&target.join(name))).collect();
    assert_eq!(is_same, [true, true, true, false, false, true, false, true]);
    assert_eq!(fs::read(scratch.join("outside")).unwrap().len(), 240_000);
    assert_eq!(fs::read(scratch.join("secret")).unwrap(), b"secret");
    assert_eq!(attribute(&target.join("attribute"), "user.old"), None);
    assert!(fs::metadata(target.join("holes")).unwrap().blocks() * 512 < 1 << 20);
}

fn inode_or_none(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// What would become of what.
#[derive(Default)]
struct Plans(Mutex<std::collections::BTreeMap<PathBuf, copy::Planned>>, Failures);

impl Watch for Plans {
    fn failure(&self, failure: &Failure<'_>) {
        self.1.failure(failure);
    }

    fn planned(&self, planned: copy::Planned, path: &[u8]) {
        self.0.lock().unwrap().insert(Path::new(OsStr::from_bytes(path)).into(), planned);
    }
}

/// Everything there is to see of a tree, times of access aside.
fn state(root: &Path) -> String {
    format!("{:?}", atta_testkit::oracle::list(root).unwrap())
}

#[test]
fn dry_run_reports_and_writes_nothing() {
    let scratch = Scratch::new("copy-dry").unwrap();
    let tree = furnished(&scratch);
    fs::create_dir_all(tree.join("new/deeper")).unwrap();
    fs::write(tree.join("new/deeper/file"), "12345").unwrap();
    fs::create_dir(tree.join("merged")).unwrap();
    fs::write(tree.join("merged/same"), "same").unwrap();
    set_time(&tree.join("merged/same"), OLD);
    let plan = |target: &Path, existing: Existing| {
        let plans = Plans::default();
        let options = Options { existing, ..threads(2) };
        let source = [bytes(&tree.join("."))];
        let looks = copy::DryRun::prepare(&source, &bytes(target), &options, &plans).unwrap();
        let outcome = looks.run(|_| {}).unwrap();
        (outcome.totals, plans.0.into_inner().unwrap(), plans.1.0.into_inner().unwrap())
    };
    let target = scratch.join("target");
    let before = state(scratch.path());
    let (totals, ..) = plan(&target, Existing::Replace);
    assert_eq!(state(scratch.path()), before);
    let copied = copy(&tree.join("."), &target, &threads(2)).totals;
    assert_eq!(totals, copied);
    // Something in the way of each kind, something to replace, something that may stay.
    fs::remove_dir_all(target.join("new")).unwrap();
    fs::remove_file(target.join("link")).unwrap();
    fs::create_dir(target.join("link")).unwrap();
    fs::write(target.join("new"), "in the way").unwrap();
    let before = state(scratch.path());
    let (totals, plans, failures) = plan(&target, Existing::Update);
    assert_eq!(state(scratch.path()), before);
    let root = tree.join(".");
    let failed: Vec<_> = failures.iter().map(|(path, _)| path.strip_prefix(&root).unwrap()).collect();
    assert_eq!((failed.len(), failed.contains(&Path::new("new"))), (2, true), "{failures:?}");
    assert_eq!(plans.get(&root.join("merged/same")), Some(&copy::Planned::Skipped));
    assert_eq!(plans.get(&root.join("pipe")), Some(&copy::Planned::Skipped));
    assert_eq!(plans.get(&root.join("merged")), None);
    let (outcome, failures) = try_copy(&root, &target, &existing(Existing::Update));
    assert_eq!((failures.len(), outcome.totals.skipped), (failed.len(), totals.skipped));
    assert_eq!((outcome.totals.files, outcome.totals.specials), (totals.files, totals.specials));
    let (totals, plans, failures) = plan(&target, Existing::Ignore);
    assert_eq!((failures.len(), totals.files, totals.skipped), (1, 0, 5), "{failures:?} {plans:?}");
}

#[test]
fn listed_entries_get_their_directories() {
    let scratch = Scratch::new("copy-list").unwrap();
    let tree = furnished(&scratch);
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    for name in ["a/b/c/1", "a/b/c/2", "a/b/3", "a/4"] {
        fs::write(tree.join(name), name).unwrap();
    }
    fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o510)).unwrap();
    for name in ["a/b/c", "a/b", "a", ""] {
        set_time(&tree.join(name), OLD);
    }
    for count in [1, 4] {
        let target = scratch.join(format!("target-{count}"));
        // Twice the same, and a directory with what is in it besides.
        let names = ["a/b/c/1", "a/b/c", "a/b/3", "other", "file", "a/b/3", "link", "gone", "a/b/c/2"];
        let starts = names.map(|name| walk::Start { root: bytes(&tree), below: Some(name.into()) });
        let failures = Failures::default();
        let options = threads(count);
        let sources = [bytes(&tree)];
        let starts = starts.into_iter();
        let outcome =
            copy::run_listed(&sources, starts, &bytes(&target), &options, &failures, |_| {}).unwrap();
        let failures = failures.0.into_inner().unwrap();
        assert!(matches!(failures.as_slice(), [(path, _)] if *path == tree.join("gone")), "{failures:?}");
        assert_eq!(outcome.signature, None);
        for name in ["a/b/c/1", "a/b/c/2", "a/b/3"] {
            assert_eq!(fs::read_to_string(target.join(name)).unwrap(), name);
        }
        for name in ["a/b/c", "a/b", "a", ""] {
            let (one, other) = (tree.join(name), target.join(name));
            let time = |path: &Path| fs::symlink_metadata(path).unwrap().mtime();
            assert_eq!((mode(&other), owner(&other), time(&other)), (mode(&one), owner(&one), OLD), "{name}");
        }
        assert!(!target.join("a/4").exists() && !target.join("pipe").exists());
        assert_eq!(inode(&target.join("other")), inode(&target.join("file")));
        let left: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 4, "{left:?}");
        // Once more, into directories that are there: their times are not those of this copy.
        fs::remove_file(target.join("a/b/c/2")).unwrap();
        let names = ["a/b/c/2", "a/4", "a/b/3"];
        let starts = names.map(|name| walk::Start { root: bytes(&tree), below: Some(name.into()) });
        // The target is a directory now, into which the source would go.
        let sources = [bytes(&tree.join("."))];
        let starts = starts.map(|start| walk::Start { root: sources[0].clone(), ..start });
        let (starts, failures) = (starts.into_iter(), Failures::default());
        copy::run_listed(&sources, starts, &bytes(&target), &options, &failures, |_| {}).unwrap();
        assert_eq!(failures.0.into_inner().unwrap(), []);
        for name in ["a/b/c", "a/b", "a", ""] {
            let time = fs::symlink_metadata(target.join(name)).unwrap().mtime();
            assert_eq!((time, mode(&target.join(name))), (OLD, mode(&tree.join(name))), "{name}");
        }
        assert_eq!(fs::read_to_string(target.join("a/b/c/2")).unwrap(), "a/b/c/2");
        // And one that has to be made in one that is there.
        fs::remove_dir_all(target.join("a/b/c")).unwrap();
        let start = walk::Start { root: sources[0].clone(), below: Some("a/b/c/2".into()) };
        let (starts, failures) = (std::iter::once(start), Failures::default());
        copy::run_listed(&sources, starts, &bytes(&target), &options, &failures, |_| {}).unwrap();
        assert_eq!(failures.0.into_inner().unwrap(), []);
        for name in ["a/b/c", "a/b", "a", ""] {
            let time = fs::symlink_metadata(target.join(name)).unwrap().mtime();
            assert_eq!((time, mode(&target.join(name))), (OLD, mode(&tree.join(name))), "{name}");
        }
    }
}

#[test]
fn no_more_bytes_a_second_are_moved_than_are_allowed() {
    let scratch = Scratch::new("copy-bandwidth").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..4 {
        fs::write(tree.join(number.to_string()), vec![b'x'; 2 << 20]).unwrap();
    }
    let rate = std::sync::Arc::new(atta_runtime::Rate::per_second(16 << 20));
    let outcome = copy(&tree, &scratch.join("target"), &Options { bandwidth: Some(rate), ..threads(4) });
    // Half a second; what the last threads wait for may be left out.
    assert!(outcome.elapsed.as_millis() >= 400, "{:?}", outcome.elapsed);
}

/// Files of many sizes around what matters: pages, blocks and chunks; and one with holes. Returns how many may go past the cache.
fn sizes(tree: &Path) -> u64 {
    fs::create_dir_all(tree).unwrap();
    let mega = 1_u64 << 20;
    let sizes =
        [0, 1, 4096, mega - 1, mega, mega + 1, 4 * mega, 5 * mega + 4095, 16 * mega, 17 * mega + 4097];
    for size in sizes {
        let content: Vec<u8> = (0..size).map(|at| (at * 31 / 7) as u8).collect();
        fs::write(tree.join(size.to_string()), content).unwrap();
    }
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 3 * mega + 5).unwrap();
    sparse.set_len(8 * mega + 1).unwrap();
    sizes.iter().filter(|size| **size >= mega).count() as u64
}

fn assert_same_bytes(one: &Path, other: &Path) {
    let mut count = 0;
    for entry in fs::read_dir(one).unwrap() {
        let (name, path) = (entry.as_ref().unwrap().file_name(), entry.unwrap().path());
        assert!(fs::read(&path).unwrap() == fs::read(other.join(&name)).unwrap(), "{name:?}");
        count += 1;
    }
    assert_eq!(fs::read_dir(other).unwrap().count(), count);
}

#[test]
fn past_the_cache_go_the_same_bytes() {
    let scratch = Scratch::new("copy-direct").unwrap();
    let tree = scratch.join("tree");
    let eligible = sizes(&tree);
    let signature = copy(&tree, &scratch.join("cached"), &Options { digest: true, ..threads(2) }).signature;
    for (number, chunk) in [None, Some(1 << 20)].into_iter().enumerate() {
        let target = scratch.join(number.to_string());
        let outcome = copy(&tree, &target, &Options { direct: true, digest: true, chunk, ..threads(4) });
        assert_same_bytes(&tree, &target);
        assert_eq!(outcome.signature, signature);
        // The one with holes does not, and on some file systems none does.
        assert!([1, eligible + 1].contains(&outcome.totals.not_direct), "{}", outcome.totals.not_direct);
        assert!(fs::metadata(target.join("sparse")).unwrap().blocks() < 4096);
    }
}

/// Copies with shared bytes on a file system of this kind.
fn cloned_on(kind: &str, megabytes: u64) {
    let _lock = atta_testkit::lock::Lock::for_mounts().unwrap();
    let image = atta_testkit::mounts::loop_image(kind, megabytes);
    let Some(image) = skip::unless_available(&format!("bytes that are shared on {kind}"), image) else {
        return;
    };
    let tree = image.path().join("tree");
    let mut files = sizes(&tree) + 4;
    for (number, existing) in [Existing::Replace, Existing::Update].into_iter().enumerate() {
        let target = image.path().join(number.to_string());
        let options = Options { reflink: copy::Reflink::Always, existing, ..threads(2) };
        let outcome = copy(&tree, &target, &options);
        assert_same_bytes(&tree, &target);
        // An empty one shares nothing.
        assert_eq!((outcome.totals.cloned, outcome.signature), (files, None));
        assert!(fs::metadata(target.join("sparse")).unwrap().blocks() < 4096);
    }
    let target = image.path().join("target");
    let outcome = copy(&tree, &target, &Options { digest: true, ..threads(2) });
    assert_eq!(outcome.totals.cloned, 0);
    // Into files that are there, shorter ones and longer ones.
    fs::write(target.join("1"), "longer").unwrap();
    fs::write(target.join("4096"), "shorter").unwrap();
    let outcome = copy(&tree.join("."), &target, &Options { in_place: true, ..threads(2) });
    assert_eq!(outcome.totals.cloned, files);
    assert_same_bytes(&tree, &target);
    // From elsewhere bytes are moved, or nothing is.
    let scratch = Scratch::new("copy-clone").unwrap();
    files = sizes(&scratch.join("tree")) + 5;
    let outcome = copy(&scratch.join("tree"), &image.path().join("moved"), &threads(2));
    assert_eq!((outcome.totals.cloned, outcome.totals.files), (0, files));
    let options = Options { reflink: copy::Reflink::Always, ..threads(2) };
    let (outcome, failures) = try_copy(&scratch.join("tree"), &image.path().join("none"), &options);
    assert_eq!((failures.len() as u64, outcome.totals.files), (files - 1, 1), "{failures:?}");
    let left = fs::read_dir(image.path().join("none")).unwrap().count();
    assert_eq!(left, 1);
}

#[test]
fn bytes_are_shared_on_btrfs() {
    cloned_on("btrfs", 600);
}

#[test]
fn bytes_are_shared_on_xfs() {
    cloned_on("xfs", 600);
}
