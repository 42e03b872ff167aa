//! Mounts inside the tree: crossed by default, kept out of with `--one-file-system`, as find does it. And one that is not there:
//! `/proc`.

use std::path::Path;
use std::process::{Command, Stdio};

use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::{skip, trees};

use crate::support::{
    atta, bytes_of, find, make_directory, make_file, make_link, names_in, number, records, run, scratch, walk,
};

#[test]
fn mounts_are_crossed_or_kept_out_of() {
    let test = "mounts_are_crossed_or_kept_out_of";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = scratch("mounts");
    let tree = make_directory(scratch.join("tree"));
    trees::random(&tree.join("random"), 3, 100).unwrap();
    let inner = make_directory(tree.join("inner"));
    let Some(mounted) = skip::unless_available(test, Mount::tmpfs(&inner, 1 << 20)) else { return };
    trees::random(&mounted.path().join("random"), 4, 50).unwrap();
    let listed = |options: &[&str]| {
        let mut command = walk(["--print0", "tree"]);
        records(&run(command.args(options).current_dir(scratch.path())).expect_code(0).stdout)
    };
    assert_eq!(listed(&[]), records(&find(scratch.path(), ["tree", "-print0"])));
    let xdev = records(&find(scratch.path(), ["tree", "-xdev", "-print0"]));
    for way in [&["-x"][..], &["-x", "--without", "statx-mount-id"], &["-x", "--lite"]] {
        assert_eq!(listed(way), xdev, "{way:?}");
    }
}

#[test]
fn bind_mount_is_another_mount() {
    let test = "bind_mount_is_another_mount";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = scratch("bind");
    let tree = make_directory(scratch.join("tree"));
    make_file(make_directory(tree.join("data")).join("file"), b"x");
    let place = make_directory(tree.join("bound"));
    let Some(_bound) = skip::unless_available(test, Mount::bind(&tree.join("data"), &place)) else { return };
    let ran = run(walk(["--print0", "-x", "tree"]).current_dir(scratch.path())).expect_code(0);
    let expected = ["tree", "tree/bound", "tree/data", "tree/data/file"];
    assert_eq!(records(&ran.stdout), expected.map(bytes_of));
    // Each name is an entry; the one file behind both counts once in bytes only if it has several links.
    let json = run(walk(["--json", "tree"]).current_dir(scratch.path())).expect_code(0).json();
    assert_eq!(number(&json, "totals.by_kind.file"), 2);
}

#[test]
fn other_file_systems_list_as_find_lists_them() {
    let test = "other_file_systems_list_as_find_lists_them";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    for (kind, megabytes) in [("ext4", 32), ("xfs", 320), ("btrfs", 128)] {
        let image = atta_testkit::mounts::loop_image(kind, megabytes);
        let Some(image) = skip::unless_available(&format!("{test} ({kind})"), image) else { continue };
        let tree = make_directory(image.path().join("tree"));
        trees::hostile_names(&tree.join("names")).unwrap();
        trees::times(&tree.join("times")).unwrap();
        trees::random(&tree.join("random"), 5, 200).unwrap();
        compare_rows(test, &tree);
    }
}

/// Compares what rows say with what `os.lstat` says.
fn compare_rows(test: &str, tree: &Path) {
    let Some(mut reader) = crate::support::python(test, "rows.py", &["csv", "json"]) else { return };
    let ran = run(walk(["--format", "ndjson", "--targets"]).arg(tree)).expect_code(0);
    reader.arg("ndjson").arg(tree).arg("--targets");
    let compared = crate::support::run_with_input(&mut reader, &ran.stdout).expect_code(0);
    assert!(compared.out().starts_with("equal: "), "{}", compared.out());
}

/// What a link has is read by `/proc`. Without it the link is copied, and that its attributes were not is counted.
#[test]
fn without_proc_links_and_fifos_are_copied() {
    let test = "without_proc_links_and_fifos_are_copied";
    if !skip::is_root() {
        return skip::skipped(test, "it needs root");
    }
    let scratch = scratch("without-proc");
    let tree = make_directory(scratch.join("tree"));
    let link = make_link("nowhere", tree.join("link"));
    rustix::fs::lsetxattr(&link, "trusted.one", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    let fifo = tree.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let target = scratch.join("target");
    // A separate namespace: other processes are not affected.
    let mut hidden = Command::new("unshare");
    hidden.args(["--mount", "sh", "-ec", "mount -t tmpfs none /proc; exec \"$@\"", "sh"]);
    hidden.arg(env!("CARGO_BIN_EXE_atta")).args(["copy", "--json"]).args([&tree, &target]);
    let ran = run(hidden.stdin(Stdio::null()));
    if ran.code() != 0 && ran.err().starts_with("unshare:") {
        return skip::skipped(test, ran.err().trim_end());
    }
    let summary = ran.expect_code(0).json();
    assert_eq!(std::fs::read_link(target.join("link")).unwrap(), Path::new("nowhere"));
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(
        &std::fs::symlink_metadata(target.join("fifo")).unwrap().file_type()
    ));
    let mut value = [0; 8];
    match rustix::fs::lgetxattr(target.join("link"), "trusted.one", &mut value[..]) {
        // Since Linux 6.13 there are calls that need no /proc.
        Ok(read) => {
            assert_eq!((&value[..read], number(&summary, "not_kept.extended_attributes")), (&b"1"[..], 0));
        }
        Err(_) => assert!(number(&summary, "not_kept.extended_attributes") > 0),
    }
    // With it, it is.
    let copied = run(crate::support::atta().arg("copy").args([&tree, &scratch.join("whole")]));
    assert!(!copied.expect_code(0).out().contains("not kept"));
    let read = rustix::fs::lgetxattr(scratch.join("whole/link"), "trusted.one", &mut value[..]).unwrap();
    assert_eq!(&value[..read], b"1");
}

/// A copy that was killed goes on after all of it was removed: the mount point is made again, and not entered.
#[test]
fn mount_point_is_made_again_and_not_entered() {
    let test = "mount_point_is_made_again_and_not_entered";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = scratch("mount-again");
    let [source, target] = ["source", "target"].map(|name| make_directory(scratch.join(name)));
    for number in 0..150 {
        trees::flat(&make_directory(source.join(format!("d{number}"))), 10).unwrap();
    }
    let inner = make_directory(source.join("inner"));
    let Some(mounted) = skip::unless_available(test, Mount::tmpfs(&inner, 1 << 20)) else { return };
    make_file(mounted.path().join("file"), b"x");
    let copy = |more: &[&str]| {
        let mut command = atta();
        command.args(["copy", "-T", "-x", "--fsync", "none", "--job", "job", "source", "target"]).args(more);
        command.current_dir(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut child = copy(&["--iops", "500", "-j1"]).spawn().unwrap();
    // The first frame has nothing of its own.
    let log = scratch.join("job/1.0");
    while log.metadata().map_or(0, |log| log.len()) < 2048 {
        assert!(child.try_wait().unwrap().is_none(), "the copy ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for name in names_in(&target) {
        let path = target.join(name);
        std::fs::remove_dir_all(path).unwrap();
    }
    run(&mut copy(&[])).expect_code(0);
    assert_eq!(names_in(&target.join("inner")), Vec::<std::ffi::OsString>::new());
    assert_eq!(names_in(&target).len(), 151);
    assert_eq!(names_in(&target.join("d149")).len(), 10);
}
