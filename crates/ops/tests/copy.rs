//! Copies of hostile trees are what their sources are, to the last attribute; what cannot be copied is reported, and what is in the
//! way is replaced or refused, never written through.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod copying;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use atta_entry::Class;
use atta_ops::copy::{self, ExtendedNames, Fsync, Keep, Options};
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};
use copying::rsync::{assert_same_by_rsync, changes_by_rsync};
use copying::{as_nobody, assert_same, bytes, copy, facts, hostile, make, threads, try_copy};

#[test]
fn a_copy_is_what_its_source_is() {
    let test = "a_copy_is_what_its_source_is";
    let scratch = Scratch::new("copy").unwrap();
    let tree = hostile(&scratch);
    for (number, count) in [1, 2, 8].into_iter().enumerate() {
        for fsync in [Fsync::Batch, Fsync::File, Fsync::None] {
            let target = scratch.join(format!("copy-{number}-{fsync:?}"));
            let outcome = copy(&[&tree], &target, &Options { fsync, ..threads(count) });
            assert_same(&tree, &target);
            assert_same_by_rsync(test, &tree, &target);
            assert_eq!(outcome.totals.not_kept, copy::NotKept::default());
            let kinds: u64 = [
                outcome.totals.files,
                outcome.totals.directories,
                outcome.totals.symlinks,
                outcome.totals.specials,
                outcome.totals.hard_links,
            ]
            .iter()
            .sum();
            assert_eq!(kinds as usize, facts(&tree).len());
        }
    }
}

#[test]
fn a_second_copy_replaces_the_first() {
    let test = "a_second_copy_replaces_the_first";
    let scratch = Scratch::new("copy").unwrap();
    let tree = hostile(&scratch);
    let target = scratch.join("target");
    copy(&[&tree], &target, &threads(2));
    // Other bytes, other modes, things of another kind in the way.
    fs::write(target.join("attributes/large"), "other").unwrap();
    fs::remove_file(target.join("kinds/file")).unwrap();
    symlink(scratch.join("outside/secret"), target.join("kinds/file")).unwrap();
    fs::set_permissions(target.join("flat"), fs::Permissions::from_mode(0o700)).unwrap();
    copy(&[&tree.join(".")], &target, &threads(2));
    assert_same(&tree, &target);
    assert_same_by_rsync(test, &tree, &target);
    assert_eq!(fs::read(scratch.join("outside/secret")).unwrap(), b"secret");
}

#[test]
fn rsync_finds_what_a_copy_did_not_preserve() {
    let test = "rsync_finds_what_a_copy_did_not_preserve";
    let scratch = Scratch::new("copy").unwrap();
    let tree = hostile(&scratch);
    let changes_of = |name: &str, keep: Keep| {
        let target = scratch.join(name);
        copy(&[&tree], &target, &Options { keep, ..threads(2) });
        changes_by_rsync(test, &tree, &target)
    };
    let all = Keep::default();
    let Some(changes) = changes_of("times", Keep { times: false, ..all.clone() }) else { return };
    let lost_times =
        changes.iter().filter(|change| change.starts_with(">f..t") && change.contains(" times/"));
    assert!(lost_times.count() > 5, "{changes:?}");
    let changes = changes_of("lists", Keep { lists: false, ..all.clone() }).unwrap();
    let has_lost_list =
        |change: &String| change.strip_suffix(" kinds/fifo").is_some_and(|what| what.contains('a'));
    assert!(changes.iter().any(has_lost_list), "{changes:?}");
    let extended = ExtendedNames::None;
    let changes = changes_of("attributes", Keep { extended, ..all }).unwrap();
    assert!(changes.iter().any(|change| change.ends_with("x attributes/large")), "{changes:?}");
    fs::remove_file(scratch.join("attributes/kinds/file")).unwrap();
    fs::write(scratch.join("attributes/more"), "").unwrap();
    let changes = changes_by_rsync(test, &tree, &scratch.join("attributes")).unwrap();
    let deleted = changes.iter().filter(|change| change.starts_with("*deleting")).count();
    let made = changes.iter().filter(|change| change.starts_with(">f++")).count();
    assert_eq!((deleted, made), (1, 1), "{changes:?}");
}

#[test]
fn what_is_below_goes_where_cp_puts_it() {
    let scratch = Scratch::new("copy").unwrap();
    let (a, b) = (scratch.join("a"), scratch.join("b"));
    for root in [&a, &b] {
        fs::create_dir(root).unwrap();
        fs::write(root.join("file"), root.as_os_str().as_bytes()).unwrap();
    }
    symlink("a", scratch.join("link")).unwrap();
    let target = scratch.join("target");
    fs::create_dir(&target).unwrap();
    copy(&[&a, &b, &a.join("file"), &scratch.join("link")], &target, &threads(2));
    assert_same(&a, &target.join("a"));
    assert_same(&b, &target.join("b"));
    assert_eq!(fs::read(target.join("file")).unwrap(), bytes(&a));
    assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("a"));
    // One becomes TARGET, also a file, which replaces a file.
    copy(&[&a], &scratch.join("new"), &threads(2));
    assert_same(&a, &scratch.join("new"));
    copy(&[&a.join("file")], &scratch.join("single"), &threads(2));
    copy(&[&b.join("file")], &scratch.join("single"), &threads(2));
    assert_eq!(fs::read(scratch.join("single")).unwrap(), bytes(&b));
    // A slash at the end follows a link.
    let slashed = PathBuf::from(format!("{}/", scratch.join("link").display()));
    copy(&[&slashed], &scratch.join("followed"), &threads(2));
    assert_same(&a, &scratch.join("followed"));
}

/// Row 20 of docs/hazards.md.
#[test]
fn copy_into_itself_is_refused() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("x/tree")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    symlink("tree/x", scratch.join("way")).unwrap();
    fs::hard_link(tree.join("file"), scratch.join("other")).unwrap();
    let refused = |source: &Path, target: &Path| {
        let refused = try_copy(&[source], target, &threads(1)).unwrap_err();
        assert!(refused.is_usage, "{refused:?}");
    };
    refused(&tree, &tree.join("x"));
    refused(&tree, &scratch.join("way"));
    refused(&tree, &scratch.join("way/new"));
    refused(&tree, scratch.path());
    refused(&tree.join("."), &tree);
    refused(&tree.join("file"), &tree);
    refused(&tree.join("file"), &scratch.join("other"));
    refused(&tree.join("x/tree"), scratch.path());
    refused(&tree, &tree.join("file"));
    assert!(!try_copy(&[&scratch.join("none")], &scratch.join("new"), &threads(1)).unwrap_err().is_usage);
    assert!(!try_copy(&[&tree], &scratch.join("no/new"), &threads(1)).unwrap_err().is_usage);
    let several = try_copy(&[&tree, &scratch.join("other")], &scratch.join("new"), &threads(1));
    assert!(several.unwrap_err().is_usage);
    let alike = [tree.join("file"), scratch.join("file")];
    fs::write(&alike[1], "another").unwrap();
    let target = scratch.join("target");
    fs::create_dir(&target).unwrap();
    assert!(try_copy(&[&alike[0], &alike[1]], &target, &threads(1)).unwrap_err().is_usage);
    // What is in a SOURCE would become what another one becomes: both would make it.
    fs::create_dir(scratch.join("x")).unwrap();
    let meeting = [&tree.join("."), &scratch.join("x")];
    assert!(try_copy(&meeting.map(PathBuf::as_path), &target, &threads(1)).unwrap_err().is_usage);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    // Beside it, it may go.
    copy(&[&tree], &scratch.join("beside"), &threads(1));
    assert_same(&tree, &scratch.join("beside"));
}

#[test]
fn what_waits_in_a_file_is_copied_all_the_same() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..300 {
        let directory = tree.join(format!("{number}/below/it"));
        fs::create_dir_all(&directory).unwrap();
        for name in ["a", "b"] {
            fs::write(directory.join(name), number.to_string()).unwrap();
        }
    }
    trees::flat(&tree.join("flat"), 30_000).unwrap();
    for count in [1, 4] {
        let target = scratch.join(format!("target-{count}"));
        let mut options = threads(count);
        options.walk.memory_bytes = 4096;
        copy(&[&tree], &target, &options);
        assert_same(&tree, &target);
    }
}

/// Row 12 of docs/hazards.md.
#[test]
fn changing_file_is_not_copied() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    let log = tree.join("log");
    fs::write(&log, vec![b'a'; 32 << 20]).unwrap();
    fs::write(tree.join("still"), "still").unwrap();
    let target = scratch.join("target");
    let ended = AtomicBool::new(false);
    let failures = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
            while !ended.load(Ordering::Relaxed) {
                file.write_all_at(b"b", 5).unwrap();
            }
        });
        let (_, failures) = try_copy(&[&tree], &target, &threads(2)).unwrap();
        ended.store(true, Ordering::Relaxed);
        failures
    });
    let [(class, path, text)] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!((*class, path), (Class::Changed, &log));
    assert!(text.contains("it changed each time it was read"), "{text}");
    let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["still"]);
    copy(&[&tree.join(".")], &target, &threads(2));
    assert_same(&tree, &target);
}

/// Row 9 of docs/hazards.md.
#[test]
fn hard_links_survive_many_threads() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    for directory in 0..20 {
        fs::create_dir(tree.join(directory.to_string())).unwrap();
    }
    for file in 0..30 {
        let first = tree.join(format!("0/{file}"));
        fs::write(&first, vec![b'x'; 100_000]).unwrap();
        for directory in 1..20 {
            fs::hard_link(&first, tree.join(format!("{directory}/{file}"))).unwrap();
        }
    }
    let target = scratch.join("target");
    let mut signatures = Vec::new();
    for count in [1].into_iter().chain([8; 20]) {
        let options = Options { fsync: Fsync::None, digest: true, ..threads(count) };
        let outcome = copy(&[&tree], &target, &options);
        assert_eq!((outcome.totals.files, outcome.totals.hard_links, outcome.totals.elsewhere), (30, 570, 0));
        assert_eq!(fs::metadata(target.join("7/7")).unwrap().nlink(), 20);
        if signatures.len() < 2 {
            assert_same(&tree, &target);
        }
        signatures.push(outcome.signature.unwrap().digest());
        fs::remove_dir_all(&target).unwrap();
    }
    assert!(
        signatures.iter().all(|signature| *signature == signatures[0]),
        "the digest does not depend on which thread was faster"
    );
}

#[test]
fn large_files_keep_holes_and_digests() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    let megabyte = 1 << 20;
    for (name, bytes) in [("even", 16 * megabyte), ("odd", 11 * megabyte + 12_345), ("two", 2 * megabyte)] {
        let content: Vec<u8> = (0..bytes).map(|at: usize| (at * 31 / 7) as u8).collect();
        fs::write(tree.join(name), content).unwrap();
    }
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.write_all_at(b"begin", 3 * megabyte as u64).unwrap();
    sparse.write_all_at(b"end", 40 * megabyte as u64).unwrap();
    sparse.set_len(50 * megabyte as u64 + 1).unwrap();
    let mut signatures = Vec::new();
    for (number, (count, chunk)) in
        [(1, None), (2, Some(megabyte)), (8, Some(4 * megabyte))].into_iter().enumerate()
    {
        let target = scratch.join(format!("target-{number}"));
        let chunk = chunk.map(|chunk| chunk as u64);
        let outcome = copy(&[&tree], &target, &Options { chunk, digest: true, ..threads(count) });
        assert_same(&tree, &target);
        assert_eq!(
            (outcome.totals.files, outcome.totals.bytes),
            (4, (16 + 11 + 2 + 50) * megabyte as u64 + 12_346)
        );
        signatures.push(outcome.signature.unwrap().digest());
        // A file that is a root by itself.
        let single = scratch.join(format!("single-{number}"));
        copy(&[&tree.join("odd")], &single, &Options { chunk, digest: true, ..threads(count) });
        assert_eq!(fs::read(&single).unwrap(), fs::read(tree.join("odd")).unwrap());
    }
    assert!(signatures.iter().all(|signature| *signature == signatures[0]), "{signatures:?}");
    fs::File::options().write(true).open(tree.join("odd")).unwrap().write_all_at(b"?", 7).unwrap();
    let outcome = copy(&[&tree], &scratch.join("changed"), &Options { digest: true, ..threads(2) });
    assert_ne!(outcome.signature.unwrap().digest(), signatures[0]);
}

#[test]
fn nobody_sees_a_part_of_a_file_under_its_name() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("below")).unwrap();
    for number in 0..400 {
        let content = format!("{number:07}").repeat(20_000);
        fs::write(tree.join(number.to_string()), &content).unwrap();
        fs::write(tree.join("below").join(number.to_string()), &content).unwrap();
    }
    fs::write(tree.join("large"), "1234567".repeat(3 << 20)).unwrap();
    let target = scratch.join("target");
    for round in 0..4 {
        let (ended, seen) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    look_for_parts(&target, &seen);
                }
            });
            copy(&[&tree.join(".")], &make(&target), &threads(2));
            ended.store(true, Ordering::Relaxed);
        });
        look_for_parts(&target, &seen);
        assert!(seen.load(Ordering::Relaxed) > 0);
        if round == 1 {
            // From here on into new directories.
            fs::remove_dir_all(&target).unwrap();
        }
    }
    assert_same(&tree, &target);
}

/// Each file under a name of its own is whole, at any moment.
fn look_for_parts(directory: &Path, seen: &std::sync::atomic::AtomicU64) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".atta.") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look_for_parts(&entry.path(), seen);
            continue;
        }
        let Ok(file) = fs::File::open(entry.path()) else { continue };
        let expected = if name == "large" { 7 * (3 << 20) } else { 140_000 };
        assert_eq!(file.metadata().unwrap().len(), expected, "{}", entry.path().display());
        let mut last = [0; 7];
        file.read_exact_at(&mut last, expected - 7).unwrap();
        assert!(last.iter().all(u8::is_ascii_digit), "{}", entry.path().display());
        seen.fetch_add(1, Ordering::Relaxed);
    }
}

/// Row 7 of docs/hazards.md.
#[test]
fn entry_that_cannot_be_replaced_fails_alone() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("directory")).unwrap();
    fs::write(tree.join("directory/file"), "1").unwrap();
    fs::write(tree.join("file"), "2").unwrap();
    fs::write(tree.join("other"), "3").unwrap();
    let target = scratch.join("target");
    // A file where a directory must go, a directory where a file must go, a link where a directory must go.
    fs::create_dir_all(target.join("file/in")).unwrap();
    let outside = scratch.join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, target.join("directory")).unwrap();
    let (outcome, failures) = try_copy(&[&tree.join(".")], &target, &threads(2)).unwrap();
    let paths: std::collections::BTreeSet<_> = failures.iter().map(|(_, path, _)| path.clone()).collect();
    let root = tree.join(".");
    assert_eq!(paths, [root.join("directory"), root.join("file")].into_iter().collect(), "{failures:?}");
    assert_eq!(outcome.totals.failed(), 2);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read(target.join("other")).unwrap(), b"3");
    let left: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.as_bytes().starts_with(b".atta.")), "{left:?}");
}

/// How long somebody keeps swapping things, for each side.
const RACE: std::time::Duration = std::time::Duration::from_secs(4);

/// Row 5 of docs/hazards.md.
#[test]
fn swaps_lead_nowhere_outside() {
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    for directory in ["a/victim/deep", "b/victim/deep"] {
        fs::create_dir_all(tree.join(directory)).unwrap();
        for number in 0..40 {
            fs::write(tree.join(directory).join(number.to_string()), "inside").unwrap();
        }
    }
    let outside = scratch.join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    for number in 0..40 {
        fs::write(outside.join("deep").join(number.to_string()), "SECRET").unwrap();
    }
    fs::write(outside.join("deep/only-here"), "SECRET").unwrap();
    let before = facts(&outside);
    for (name, is_source) in [("first", true), ("second", false)] {
        let target = scratch.join(name);
        // Directories that are there already, so that their names are known beforehand.
        copy(&[&tree], &target, &threads(2));
        let side = if is_source { &tree } else { &target };
        let swapped =
            atta_testkit::churn::Churn::swap_directory_with_symlink(&side.join("a/victim"), &outside);
        let Some(churn) = skip::unless_available("races of a copy", swapped) else { return };
        let until = std::time::Instant::now() + RACE;
        let (mut copies, mut refused, mut last) = (0, 0, Vec::new());
        while std::time::Instant::now() < until {
            (_, last) = try_copy(&[&tree.join(".")], &target, &threads(2)).unwrap();
            copies += 1;
            refused += last.len();
        }
        churn.finish().unwrap();
        assert!(copies > 3 && refused > 0, "{copies} copies, {refused} refusals: there was no race");
        assert_eq!(facts(&outside), before, "after {copies} copies");
        for (path, facts) in facts(&target) {
            let shown = String::from_utf8_lossy(&path).into_owned();
            // A directory that the last copy has made, and could not complete, is private.
            let is_incomplete = facts.mode == 0o700 && !last.is_empty();
            let is_right = facts.mode == 0o755 || is_incomplete;
            assert!(facts.kind != 'd' || is_right, "{shown}: mode {:o} on a directory: {last:?}", facts.mode);
            assert!(!shown.ends_with("only-here"), "{shown}");
            let secret = facts.digest == Some(blake3::hash(b"SECRET"));
            assert!(!secret, "{shown}");
        }
    }
}

/// Row 14 of docs/hazards.md.
#[test]
fn unreadable_directory_exists_in_the_copy() {
    if !skip::is_root() {
        return skip::skipped("directories that cannot be read", "it needs two users");
    }
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("closed/in")).unwrap();
    fs::write(tree.join("open"), "open").unwrap();
    fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let nobody = Some(65534);
    for path in [&tree, &tree.join("open"), &tree.join("closed"), &scratch.join("")] {
        std::os::unix::fs::chown(path, nobody, nobody).unwrap();
    }
    let (first, again) = (scratch.join("first"), scratch.join("first"));
    for target in [first, again] {
        let failures = as_nobody(|| try_copy(&[&tree.join(".")], &make(&target), &threads(2)).unwrap().1);
        let [(class, path, text)] = failures.as_slice() else { panic!("{failures:?}") };
        assert_eq!((*class, path), (Class::Permission, &tree.join("./closed")), "{text}");
        let mode = fs::symlink_metadata(target.join("closed")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0);
        assert_eq!(fs::read(target.join("open")).unwrap(), b"open");
        let left: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

/// Row 5 of docs/hazards.md.
#[test]
fn planted_directory_gets_nothing() {
    if !skip::is_root() {
        return skip::skipped("directories put in the place of new ones", "it needs two users");
    }
    let scratch = Scratch::new("copy").unwrap();
    let tree = scratch.join("tree");
    for number in 0..200 {
        let directory = tree.join(number.to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("secret"), "SECRET").unwrap();
    }
    let (target, planted) = (scratch.join("target"), scratch.join("planted"));
    fs::create_dir(&planted).unwrap();
    let until = std::time::Instant::now() + RACE;
    let (mut swaps, mut reported) = (0, 0);
    while std::time::Instant::now() < until || reported == 0 {
        assert!(until.elapsed() < 20 * RACE, "there was no race: {swaps} swaps");
        let ended = AtomicBool::new(false);
        let swapped = std::thread::scope(|scope| {
            let target = make(&target);
            let (ended, planted) = (&ended, &planted);
            let swapper = scope.spawn(move || {
                let mut swapped = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    swap_new_directories(&target, planted, &mut swapped);
                }
                swapped
            });
            let (_, failures) = try_copy(&[&tree.join(".")], &scratch.join("target"), &threads(2)).unwrap();
            reported += failures.len();
            ended.store(true, Ordering::Relaxed);
            swapper.join().unwrap()
        });
        swaps += swapped.len();
        for directory in [&target, &planted] {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                // Compared by identity: a copy that takes it for a new entry changes its owner.
                if entry.metadata().is_ok_and(|found| swapped.iter().any(|(inode, _)| *inode == found.ino()))
                {
                    assert_eq!(fs::read_dir(entry.path()).unwrap().count(), 0, "{:?}", entry.path());
                }
            }
            fs::remove_dir_all(directory).unwrap();
            fs::create_dir(directory).unwrap();
        }
    }
}

/// Puts directories of another user in the place of those that have not got their names yet. Keeps them open: the inode of one that is
/// removed could otherwise become that of a new directory of the copy.
fn swap_new_directories(target: &Path, planted: &Path, swapped: &mut Vec<(u64, fs::File)>) {
    for entry in fs::read_dir(target).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let own = planted.join(&name);
        if !name.as_bytes().starts_with(b".atta.") || fs::create_dir(&own).is_err() {
            continue;
        }
        let opened = fs::File::open(&own).unwrap();
        let inode = opened.metadata().unwrap().ino();
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let is_swapped = std::os::unix::fs::chown(&own, Some(65534), Some(65534)).is_ok()
            && rustix::fs::renameat_with(rustix::fs::CWD, &own, rustix::fs::CWD, entry.path(), flags).is_ok();
        if is_swapped {
            swapped.push((inode, opened));
        }
    }
}
