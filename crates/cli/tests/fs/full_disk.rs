//! A disk that runs full under a catalog: a clear error, and nothing that could be taken for a catalog.

use std::path::Path;

use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};

use crate::support::{atta, make_directory, names_in, run, scratch, walk};

#[test]
fn a_full_disk_leaves_no_catalog() {
    let test = "a_full_disk_leaves_no_catalog";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let tree = scratch("full-tree");
    trees::flat(&tree.join("flat"), 60_000).unwrap();
    // The first has room for some shards' beginnings, the second for the directory and not much more.
    for bytes in [256 << 10, 16 << 10] {
        let Some(disk) = skip::unless_available(test, Scratch::on_tmpfs(bytes)) else { return };
        let place = disk.join("scan.catalog");
        let options = ["--memory", "1M", "--no-job", "--output"];
        let ran = run(walk(options).arg(&place).arg(tree.path())).expect_code(4);
        let said =
            format!("atta: cannot write catalog: {}: no space left on device (ENOSPC)\n", place.display());
        assert!(ran.err().starts_with(&said), "{bytes}: {}", ran.err());
        assert!(ran.err().contains("hint: nothing was left under that name"), "{}", ran.err());
        assert_eq!(ran.out(), "");
        assert_eq!(names_in(disk.path()), Vec::<&str>::new(), "{bytes}");
        // With what was freed a small catalog fits.
        let small = run(walk(["--lite", "--max-depth", "0", "--output"]).arg(&place).arg(tree.path()));
        if bytes > 64 << 10 {
            small.expect_code(0);
        }
    }
}

#[test]
fn full_disk_under_a_catalog_leaves_a_job() {
    let test = "full_disk_under_a_catalog_leaves_a_job";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let tree = scratch("full-tree-job");
    for number in 0..600 {
        trees::flat(&tree.join(format!("d{number}")), 100).unwrap();
    }
    for bytes in [160 << 10, 16 << 10] {
        let Some(disk) = skip::unless_available(test, Scratch::on_tmpfs(bytes)) else { return };
        let place = disk.join("scan.catalog");
        let walk = || run(walk(["--memory", "1M", "-j2", "--output"]).arg(&place).arg(tree.path()));
        let ran = walk().expect_code(4);
        assert!(ran.err().contains("no space"), "{bytes}: {}", ran.err());
        assert!(ran.err().contains("give the same command again"), "{bytes}: {}", ran.err());
        assert!(!place.exists());
        // Again, with as little room.
        walk().expect_code(4);
        run(atta().args(["clean", "--yes"]).arg(disk.path())).expect_code(0);
        assert_eq!(names_in(disk.path()), Vec::<&str>::new(), "{bytes}");
    }
}

#[test]
fn full_disk_under_the_errors_file_is_reported() {
    let test = "full_disk_under_the_errors_file_is_reported";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let Some(disk) = skip::unless_available(test, Scratch::on_tmpfs(16 << 10)) else { return };
    let missing: Vec<_> = (0..1_000).map(|number| format!("missing-{number}")).collect();
    let errors = disk.join("errors");
    let ran = run(walk(["--errors"]).arg(&errors).args(&missing).current_dir(disk.path())).expect_code(4);
    let said = format!("atta: cannot write errors: {}: no space left on device (ENOSPC)\n", errors.display());
    assert!(ran.err().ends_with(&said), "{}", ran.err());
}

/// What it advises is followed to the letter.
#[test]
fn advice_at_out_of_space_completes_the_tree() {
    let Some(_lock) = skip::unless_available("out of space", Lock::for_mounts()) else { return };
    let scratch = scratch("copy-parked");
    let here = scratch.path();
    let tree = make_directory(here.join("tree"));
    for file in 0..400 {
        std::fs::write(tree.join(file.to_string()), vec![b'x'; 16 << 10]).unwrap();
    }
    let space = make_directory(here.join("space"));
    let Some(space) = skip::unless_available("out of space", Mount::tmpfs(&space, 1 << 20)) else { return };
    let parked = atta().args(["copy", "-j", "1", "tree", "space/new"]).current_dir(here).output().unwrap();
    let message = String::from_utf8_lossy(&parked.stderr).into_owned();
    assert_eq!(parked.status.code(), Some(3), "{message}");
    let hint = message
        .lines()
        .find_map(|line| line.strip_prefix("hint: make room in TARGET, then copy the rest with: "));
    let hint = hint.unwrap_or_else(|| panic!("no hint in {message}"));
    space.resize(64 << 20).unwrap();
    let program = atta();
    let programs = Path::new(program.get_program()).parent().unwrap().display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("bash");
    let followed = shell.args(["-c", hint]).env("PATH", path).current_dir(here).output().unwrap();
    assert!(followed.status.success(), "{}", String::from_utf8_lossy(&followed.stderr));
    assert!(!here.join("space/new/tree").exists(), "the tree was copied into itself");
    let words = ["verify", "--content", "tree", "space/new"];
    assert!(atta().args(words).current_dir(here).output().unwrap().status.success());
}
