//! What a directory hands down to what is made in it: default ACLs, set before the copy or while it runs, by an owner who is
//! hostile or accidental. Which rights a copy gets from its source is tested in `owners.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atta_ops::copy::{self, Existing, Fsync, Keep, Options};
use atta_ops::walk;
use atta_testkit::owner::HostileOwner;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::copying::{
    Failures, access_list, as_nobody, assert_same, bytes, copy, extended, set_extended, threads, try_copy,
};

const OWNER: u32 = 1000;
const DEFAULT_LIST: &str = "system.posix_acl_default";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Files of root and its group 42, links to them, FIFOs: here, and in directories that everybody may enter.
fn secrets(source: &Path) {
    let directories: Vec<PathBuf> =
        (0..40).map(|number| source.join(format!("directory-{number}"))).collect();
    for directory in std::iter::once(source.to_path_buf()).chain(directories) {
        fs::create_dir(&directory).unwrap();
        for number in 0..20 {
            let name = |kind: &str| directory.join(format!("{kind}-{number}"));
            fs::write(name("file"), "secret").unwrap();
            fs::hard_link(name("file"), name("name")).unwrap();
            symlink("secret", name("link")).unwrap();
            mknodat(CWD, name("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
            for name in [name("file"), name("fifo")] {
                chown(&name, Some(0), Some(42)).unwrap();
                set_mode(&name, 0o640);
            }
        }
        set_mode(&directory, 0o755);
    }
}

// Hazard 38.
#[test]
fn default_acl_set_during_the_copy_grants_nothing() {
    let test = "default_acl_set_during_the_copy_grants_nothing";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two users");
    }
    let scratch = Scratch::new("default-acl").unwrap();
    set_mode(scratch.path(), 0o755);
    let source = scratch.join("source");
    secrets(&source);
    let all = fs::read_dir(&source).unwrap().count();
    let patience = Instant::now() + Duration::from_secs(60);
    for round in 0.. {
        let target = scratch.join(format!("target-{round}"));
        fs::create_dir(&target).unwrap();
        chown(&target, Some(OWNER), Some(OWNER)).unwrap();
        let owner = HostileOwner::start(&target, OWNER, access_list(OWNER), 8).unwrap();
        copy(&[&source.join(".")], &target, &Options { fsync: Fsync::None, ..threads(2) });
        let achieved = owner.finish().unwrap();
        assert!(achieved.opened.is_empty(), "{} opened: {:?}", achieved.opened.len(), achieved.opened);
        assert_same(&source, &target);
        // The owner may not have run in time.
        if achieved.names.is_some_and(|names| names < all) {
            return;
        }
        assert!(Instant::now() < patience, "the owner never ran while the copy did");
    }
}

/// `u::` and `g::` with these rights, nobody else; with a mask, and all rights for one user, where one is given.
fn list_of(owner: u16, group: u16, user: Option<u32>) -> Vec<u8> {
    let named = user.map(|user| (2, 7, user));
    let mask = user.map(|_| (16, 7, u32::MAX));
    let entries =
        [Some((1_u16, owner, u32::MAX)), named, Some((4, group, u32::MAX)), mask, Some((32, 0, u32::MAX))];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (kind, rights, who) in entries.into_iter().flatten() {
        bytes.extend(kind.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(who.to_le_bytes()));
    }
    bytes
}

/// All kinds but devices here and in a directory, and a file with two names; for this owner.
fn kinds(source: &Path, owner: u32) {
    for directory in [source.to_path_buf(), source.join("directory")] {
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), "file").unwrap();
        fs::hard_link(directory.join("file"), directory.join("name")).unwrap();
        symlink("nowhere", directory.join("link")).unwrap();
        mknodat(CWD, directory.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["file", "link", "fifo", "."] {
            std::os::unix::fs::lchown(directory.join(name), Some(owner), Some(owner)).unwrap();
        }
    }
}

/// Copies a file that a list names, with the rights of the user; its directory is not there.
fn copy_listed_as(owner: u32, source: &Path, target: &Path) {
    let (failures, options) = (Failures::default(), threads(1));
    let sources = [bytes(&source.join("."))];
    let start = walk::Start { root: sources[0].clone(), below: Some("directory/file".into()) };
    let run = || {
        let starts = [start].into_iter();
        copy::run_listed(&sources, starts, &bytes(target), &options, &failures, |_| {}).map(drop)
    };
    let ran = if owner == 0 { run() } else { as_nobody(run) };
    ran.unwrap();
    assert_eq!(failures.0.into_inner().unwrap(), [], "as {owner}");
    for name in ["directory", "directory/file"] {
        assert_eq!(extended(&target.join(name)), BTreeMap::new(), "{name}");
        let mode = |root: &Path| fs::metadata(root.join(name)).unwrap().mode();
        assert_eq!(mode(source), mode(target), "{name}");
    }
}

/// Copies with the rights of the user, in which nothing fails.
fn copy_as(owner: u32, source: &Path, target: &Path, options: &Options<'_>) {
    let run = || try_copy(&[source], target, options).unwrap();
    let (outcome, failures) = if owner == 0 { run() } else { as_nobody(run) };
    assert_eq!(failures, [], "as {owner}");
    assert_eq!((outcome.totals.not_kept.extended, outcome.totals.not_kept.modes_and_times), (0, 0));
}

const NOBODY: u32 = 65534;

// Hazards 22 and 38.
#[test]
fn a_default_acl_that_limits_the_owner_bars_nothing() {
    let test = "a_default_acl_that_limits_the_owner_bars_nothing";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two users");
    }
    for (owner, rights, user) in
        [(0, 5, None), (0, 0, Some(OWNER)), (NOBODY, 5, Some(OWNER)), (NOBODY, 5, None), (NOBODY, 0, None)]
    {
        let scratch = Scratch::new("limited-owner").unwrap();
        set_mode(scratch.path(), 0o777);
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        kinds(&source, owner);
        fs::create_dir(&target).unwrap();
        chown(&target, Some(owner), Some(owner)).unwrap();
        let list = list_of(rights, 5, user);
        set_extended(&target, DEFAULT_LIST, &list);
        // Into a directory of its own, and into one that is there.
        copy_as(owner, &source, &target, &threads(2));
        assert_same(&source, &target.join("source"));
        fs::rename(target.join("source"), scratch.join("first")).unwrap();
        copy_as(owner, &source.join("."), &target, &threads(2));
        assert_same(&source, &target);
        let listed = scratch.join("listed");
        fs::create_dir(&listed).unwrap();
        chown(&listed, Some(owner), Some(owner)).unwrap();
        set_extended(&listed, DEFAULT_LIST, &list);
        copy_listed_as(owner, &source, &listed);
        // The source's own list, which the target has by the time of the second copy.
        set_extended(&source, DEFAULT_LIST, &list);
        copy_as(owner, &source.join("."), &target, &threads(2));
        fs::create_dir(source.join("later")).unwrap();
        symlink("later", source.join("later/link")).unwrap();
        for name in ["later/link", "later"] {
            std::os::unix::fs::lchown(source.join(name), Some(owner), Some(owner)).unwrap();
        }
        for name in ["later", "fifo"] {
            let _ = rustix::fs::lremovexattr(source.join(name), DEFAULT_LIST);
            let _ = rustix::fs::lremovexattr(source.join(name), ACCESS_LIST);
        }
        set_mode(&source.join("later"), 0o755);
        let update = Options { existing: Existing::Update, ..threads(2) };
        copy_as(owner, &source.join("."), &target, &update);
        assert_same(&source, &target);
    }
}

const ACCESS_LIST: &str = "system.posix_acl_access";

// Hazard 23.
#[test]
fn attributes_are_kept_beside_a_read_only_acl() {
    let test = "attributes_are_kept_beside_a_read_only_acl";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two users");
    }
    let scratch = Scratch::new("read-only").unwrap();
    set_mode(scratch.path(), 0o777);
    let source = scratch.join("source");
    fs::create_dir(&source).unwrap();
    fs::create_dir(source.join("directory")).unwrap();
    for name in ["short", "long"] {
        fs::write(source.join(name), name).unwrap();
    }
    for (name, bytes) in [("short", 1), ("long", 200), ("directory", 200)] {
        set_extended(&source.join(name), "user.note", &vec![b'x'; bytes]);
        set_extended(&source.join(name), ACCESS_LIST, &list_of(4, 0, Some(7)));
    }
    set_extended(&source.join("directory"), ACCESS_LIST, &list_of(5, 0, Some(7)));
    set_extended(&source.join("directory"), DEFAULT_LIST, &list_of(5, 0, Some(7)));
    for name in ["short", "long", "directory", "."] {
        chown(source.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let target = scratch.join("target");
    copy_as(NOBODY, &source, &target, &threads(2));
    assert_same(&source, &target);
}

/// A list that gives the group nothing, and somebody else all.
fn set_many(path: &Path) {
    for number in 0..300 {
        set_extended(path, &format!("trusted.{number}-{}", "n".repeat(230)), b"value");
    }
    set_extended(path, ACCESS_LIST, &list_of(6, 0, Some(7)));
}

// Hazard 23.
#[test]
fn too_many_attribute_names_are_counted() {
    let test = "too_many_attribute_names_are_counted";
    if !skip::is_root() {
        return skip::skipped(test, "trusted attributes need root");
    }
    // In memory there is room for so many.
    let scratch = crate::harness::scratch("many-names");
    let source = scratch.join("source");
    fs::create_dir(&source).unwrap();
    fs::create_dir(source.join("directory")).unwrap();
    fs::write(source.join("file"), "file").unwrap();
    mknodat(CWD, source.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let names = ["directory", "file", "fifo"];
    for name in names {
        set_many(&source.join(name));
    }
    for (existing, lists) in [(Existing::Replace, true), (Existing::Update, true), (Existing::Replace, false)]
    {
        let keep = Keep { lists, ..Keep::default() };
        let target = scratch.join(if lists { "target" } else { "without" });
        let outcome = copy(&[&source.join(".")], &target, &Options { existing, keep, ..threads(2) });
        assert!(outcome.totals.not_kept.extended >= 3, "{:?}", outcome.totals.not_kept);
        assert_eq!(fs::read(target.join("file")).unwrap(), b"file");
        for name in names {
            let found = extended(&target.join(name));
            let list = found.get(ACCESS_LIST.as_bytes());
            assert_eq!(list, lists.then(|| list_of(6, 0, Some(7))).as_ref(), "{name}: {found:?}");
            // Without the list the group may not do what its mask lets others do.
            let mode = fs::symlink_metadata(target.join(name)).unwrap().mode() & 0o777;
            assert_eq!(mode, if lists { 0o670 } else { 0o600 }, "{name}");
        }
    }
}
