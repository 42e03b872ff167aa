//! Rows 1 to 4 and 6 to 11: odd names, great depth, many entries, links, what is no file, and files of any size.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use atta_ops::copy::Options;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::slow::Operation;
use atta_testkit::{oracle, skip, trees};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};

use crate::copying::{assert_same, copy, threads, try_copy};
use crate::harness;
use crate::served::{assert_no_leftovers, copy_within, serve};

/// Row 1 of docs/hazards.md.
#[test]
fn names_of_any_bytes_are_kept() {
    let scratch = Scratch::new("names").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    trees::hostile_names(&source).unwrap();
    // Under their own names, then under others first, which names of 255 bytes have no room for.
    for sources in [source.clone(), source.join(".")] {
        copy(&[&sources], &target, &threads(2));
        assert_same(&source, &target);
        assert_no_leftovers(&target);
    }
    // A name that fails is reported unchanged.
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"new\nline \xff\x1b[31m"));
    fs::write(source.join(odd), "odd").unwrap();
    fs::create_dir(target.join(odd)).unwrap();
    let (_, failures) = try_copy(&[&source.join(".")], &target, &threads(2)).unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].1.file_name(), odd.file_name());
    assert!(!failures[0].2.contains(['\n', '\x1b']), "{}", failures[0].2);
}

/// Row 2 of docs/hazards.md.
#[test]
fn no_depth_is_too_deep() {
    let scratch = Scratch::new("depth").unwrap();
    let (levels, name) = (3_000, b"0123456789");
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    trees::chain(&source, levels, name).unwrap();
    fs::write(source.join("file"), "at the top").unwrap();
    copy(&[&source], &target, &threads(2));
    let (mut deepest, mut bytes) = (0, 0);
    let seen = oracle::visit(&target, &mut |path, record| {
        deepest = deepest.max(path.len());
        bytes += record.size * u64::from(record.kind == 'f');
    });
    assert_eq!((seen.unwrap(), bytes), (levels + 2, 10));
    let expected = target.as_os_str().len() + usize::try_from(levels).unwrap() * (name.len() + 1);
    assert_eq!(deepest, expected);
}

/// Row 3 of docs/hazards.md.
#[test]
fn large_directory_needs_little_memory() {
    let scratch = Scratch::new("many").unwrap();
    let source = scratch.join("source");
    fs::create_dir(&source).unwrap();
    trees::flat(&source.join("flat"), 50_000).unwrap();
    for number in 0..1_000 {
        fs::create_dir_all(source.join("empty").join(number.to_string())).unwrap();
    }
    let said = harness::in_child("shapes::a_copy_in_a_process_of_its_own", source.as_os_str());
    assert_eq!(harness::number(&said, "files="), 50_000, "{said}");
    // All names and what is known of them would be 20 MB and more.
    assert!(harness::number(&said, "memory_kb=") < 32_000, "{said}");
    assert_eq!(fs::read_dir(scratch.join("target/flat")).unwrap().count(), 50_000);
    assert_eq!(fs::read_dir(scratch.join("target/empty")).unwrap().count(), 1_000);
    assert_no_leftovers(&scratch.join("target"));
}

#[test]
#[ignore = "a child process of row 3"]
fn a_copy_in_a_process_of_its_own() {
    let Some(source) = harness::child_argument() else { return };
    let outcome = copy(&[&source], &source.with_file_name("target"), &threads(2));
    println!("\nfiles={} memory_kb={}", outcome.totals.files, harness::peak_memory_kb());
}

/// Row 4 of docs/hazards.md.
#[test]
fn links_are_copied_as_links() {
    let scratch = Scratch::new("links").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir_all(source.join("below")).unwrap();
    fs::write(scratch.join("secret"), "secret").unwrap();
    for (name, leads) in [
        ("self", "self"),
        ("there", "back"),
        ("back", "there"),
        ("parent", ".."),
        ("below/up", "../.."),
        ("dangling", "nothing here"),
        ("absolute", "/etc/passwd"),
        ("outside", "../secret"),
        ("bytes", "odd\n name"),
    ] {
        symlink(leads, source.join(name)).unwrap();
    }
    copy(&[&source], &target, &threads(2));
    assert_same(&source, &target);
    // Over those that are there; and a SOURCE that is a link itself.
    copy(&[&source.join(".")], &target, &threads(2));
    assert_same(&source, &target);
    symlink("source", scratch.join("link")).unwrap();
    copy(&[&scratch.join("link")], &scratch.join("copied-link"), &threads(2));
    assert_eq!(fs::read_link(scratch.join("copied-link")).unwrap(), Path::new("source"));
}

/// Row 6 of docs/hazards.md.
#[test]
fn link_in_the_target_is_never_followed() {
    let scratch = Scratch::new("target-links").unwrap();
    let (source, target, outside) = (scratch.join("source"), scratch.join("target"), scratch.join("outside"));
    for directory in [&source, &target, &outside] {
        fs::create_dir(directory).unwrap();
    }
    let names = ["file", "large", "one", "two", "link", "fifo"];
    fs::create_dir(source.join("directory")).unwrap();
    fs::write(source.join("directory/in"), "in").unwrap();
    fs::write(source.join("file"), "file").unwrap();
    fs::write(source.join("large"), vec![b'x'; 3 << 20]).unwrap();
    fs::write(source.join("one"), "one").unwrap();
    fs::hard_link(source.join("one"), source.join("two")).unwrap();
    symlink("elsewhere", source.join("link")).unwrap();
    mknodat(CWD, source.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    for name in names {
        fs::write(outside.join(name), "outside").unwrap();
        symlink(outside.join(name), target.join(name)).unwrap();
    }
    symlink(&outside, target.join("directory")).unwrap();
    let options = Options { chunk: Some(1 << 20), ..threads(2) };
    let (_, failures) = try_copy(&[&source.join(".")], &target, &options).unwrap();
    let failed: Vec<_> = failures.iter().map(|(_, path, _)| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(failed, ["directory"], "{failures:?}");
    for name in names {
        assert_eq!(fs::read(outside.join(name)).unwrap(), b"outside", "{name}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), names.len());
    fs::remove_file(target.join("directory")).unwrap();
    fs::remove_dir_all(source.join("directory")).unwrap();
    copy(&[&source.join(".")], &target, &options);
    assert_same(&source, &target);
}

/// Row 8 of docs/hazards.md.
#[test]
fn special_files_are_made_and_never_opened() {
    let test = "special_files_are_made_and_never_opened";
    let is_root = skip::is_root();
    let fill = |directory: &Path| {
        let source = directory.join("source");
        fs::create_dir(&source).unwrap();
        let private = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, source.join("fifo"), FileType::Fifo, private, 0).unwrap();
        mknodat(CWD, source.join("socket"), FileType::Socket, private, 0).unwrap();
        if is_root {
            let devices = [("null", 1, 3), ("whiteout", 0, 0)];
            for (name, major, minor) in devices {
                let device = rustix::fs::makedev(major, minor);
                mknodat(CWD, source.join(name), FileType::CharacterDevice, private, device).unwrap();
            }
            let device = rustix::fs::makedev(240, 300);
            mknodat(CWD, source.join("block"), FileType::BlockDevice, private, device).unwrap();
        }
    };
    let Some(served) = serve(test, fill, &[]) else { return };
    let target = served.scratch.join("target");
    for round in 0..2 {
        let (outcome, failures) = copy_within(&served.at("source"), &target);
        assert_eq!(failures, []);
        assert_eq!(outcome.totals.specials, if is_root { 5 } else { 2 }, "{round}");
        assert_same(&served.beneath("source"), &target);
    }
    // As a SOURCE by itself, too.
    copy(&[&served.at("source/fifo")], &served.scratch.join("fifo"), &threads(1));
    assert_eq!(served.shown.finish().unwrap().of(Operation::Open), 0);
}

/// Row 9 of docs/hazards.md.
#[test]
fn hard_links_outside_are_not_copied() {
    let scratch = Scratch::new("hard-links").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "one").unwrap();
    fs::hard_link(source.join("one"), source.join("two")).unwrap();
    fs::hard_link(source.join("one"), scratch.join("outside")).unwrap();
    fs::create_dir(&target).unwrap();
    // In the target the names belong to other files, one of them with a name outside.
    fs::write(target.join("one"), "old").unwrap();
    fs::hard_link(target.join("one"), scratch.join("old")).unwrap();
    fs::hard_link(target.join("one"), target.join("three")).unwrap();
    let outcome = copy(&[&source.join(".")], &target, &threads(2));
    assert_eq!((outcome.totals.files, outcome.totals.hard_links, outcome.totals.elsewhere), (1, 1, 1));
    let of = |path: &Path| fs::metadata(path).unwrap();
    assert_eq!(
        (of(&target.join("one")).nlink(), of(&target.join("one")).ino()),
        (2, of(&target.join("two")).ino())
    );
    assert_eq!(fs::read(target.join("two")).unwrap(), b"one");
    for old in [target.join("three"), scratch.join("old")] {
        assert_eq!(fs::read(old).unwrap(), b"old");
    }
}

/// Row 10 of docs/hazards.md.
#[test]
fn holes_stay_holes_and_zeros_stay_zeros() {
    let test = "holes_stay_holes_and_zeros_stay_zeros";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("holes").unwrap();
    let Some(room) = skip::unless_available(test, Mount::tmpfs(scratch.path(), 64 << 20)) else { return };
    let source = room.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("zeros"), vec![0; 1 << 20]).unwrap();
    let file = |name: &str, bytes: u64| {
        let file = fs::File::create(source.join(name)).unwrap();
        file.set_len(bytes).unwrap();
        file
    };
    file("all", 1 << 40);
    file("end", 1 << 30).write_all_at(&[1; 5000], 0).unwrap();
    let alternating = file("alternating", 64 << 20);
    for block in (0..1 << 14).step_by(16) {
        alternating.write_all_at(&[7; 4096], block * 4096).unwrap();
    }
    for (number, options) in
        [threads(1), Options { chunk: Some(1 << 20), ..threads(4) }].into_iter().enumerate()
    {
        let target = room.path().join(number.to_string());
        let (outcome, failures) = try_copy(&[&source], &target, &options).unwrap();
        assert_eq!((failures, outcome.totals.files), (vec![], 4));
        for name in ["zeros", "all", "end", "alternating"] {
            let [from, to] = [&source, &target].map(|root| fs::metadata(root.join(name)).unwrap());
            assert_eq!((from.len(), from.blocks()), (to.len(), to.blocks()), "{name}");
        }
        for name in ["zeros", "alternating"] {
            assert!(fs::read(source.join(name)).unwrap() == fs::read(target.join(name)).unwrap(), "{name}");
        }
        fs::remove_dir_all(&target).unwrap();
    }
}

/// Row 11 of docs/hazards.md.
#[test]
fn files_of_any_size_are_whole() {
    let test = "files_of_any_size_are_whole";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("sizes").unwrap();
    let Some(room) = skip::unless_available(test, Mount::tmpfs(scratch.path(), 64 << 20)) else { return };
    let source = room.path().join("source");
    fs::create_dir(&source).unwrap();
    // At 2^63 - 1 itself tmpfs says that there is no data.
    let sizes = [(3 << 30) + 5, (17 << 40) + 1, (1 << 62) + 7];
    for size in sizes {
        let file = fs::File::create(source.join(size.to_string())).unwrap();
        file.set_len(size).unwrap();
        for at in [0, (2 << 30) - 3, size - 9] {
            file.write_all_at(b"here", at).unwrap();
        }
    }
    for options in [threads(1), threads(4)] {
        let target = room.path().join("target");
        copy(&[&source], &target, &options);
        for size in sizes {
            let path = target.join(size.to_string());
            assert_eq!(fs::metadata(&path).unwrap().len(), size);
            let file = openat(CWD, &path, OFlags::RDONLY, Mode::empty()).unwrap();
            for at in [0, (2 << 30) - 3, size - 9] {
                let mut bytes = [0; 4];
                rustix::io::pread(&file, &mut bytes, at).unwrap();
                assert_eq!(&bytes, b"here", "{size} at {at}");
            }
        }
        fs::remove_dir_all(&target).unwrap();
    }
}
