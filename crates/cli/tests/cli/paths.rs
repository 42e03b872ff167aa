//! The paths that are printed are those that find prints, byte for byte, however the PATH is written.

use std::ffi::OsStr;
use std::path::Path;

use atta_testkit::trees;

use crate::support::{
    bytes_of, find, lines, make_directory, make_link, records, run, scratch, walk, with_slash,
};

/// Compares `--print0` and `--print` with find, run in this directory.
#[track_caller]
fn compare(directory: &Path, paths: &[&OsStr]) {
    let listed = find(directory, paths.iter().copied().chain([OsStr::new("-print0")]));
    let ran = run(walk(["--print0"]).args(paths).current_dir(directory)).expect_code(0);
    assert!(records(&ran.stdout) == records(&listed), "--print0 {paths:?} differs from find -print0");
    let listed = find(directory, paths);
    let ran = run(walk(["--print"]).args(paths).current_dir(directory)).expect_code(0);
    assert!(lines(&ran.stdout) == lines(&listed), "--print {paths:?} differs from find");
}

#[test]
fn hostile_trees_are_printed_as_find_prints_them() {
    let scratch = scratch("hostile");
    let tree = make_directory(scratch.join("tree"));
    trees::hostile_names(&tree.join("names")).unwrap();
    trees::kinds(&tree.join("kinds"), &scratch.join("outside")).unwrap();
    trees::random(&tree.join("random"), 11, 400).unwrap();
    make_link("tree", scratch.join("link"));
    let absolute = tree.as_os_str().to_owned();
    let slash = with_slash(&tree).into_os_string();
    for path in [&absolute, &slash] {
        compare(scratch.path(), &[path]);
    }
    for path in ["tree", "tree/", "./tree", "tree//", "tree/.", ".", "link", "link/", "link/names/.."] {
        compare(scratch.path(), &[path.as_ref()]);
    }
    compare(&tree.join("names"), &["..".as_ref()]);
    compare(&tree, &["names".as_ref(), "kinds/fifo".as_ref(), "../link/random".as_ref()]);
}

#[test]
fn a_path_of_hostile_bytes_is_printed_as_it_is() {
    let scratch = scratch("root-name");
    for name in trees::HOSTILE_NAMES {
        let root = make_directory(scratch.path().join(crate::support::path_of(*name)));
        std::fs::write(root.join("file"), b"").unwrap();
        let ran =
            run(walk(["--print0", "--"]).arg(crate::support::path_of(*name)).current_dir(scratch.path()));
        let expected = [name.to_vec(), [name, b"/file".as_slice()].concat()];
        assert_eq!(records(&ran.expect_code(0).stdout), expected);
    }
}

#[test]
fn the_root_directory_has_one_slash() {
    let ran = run(&mut walk(["--print", "--max-depth", "1", "/"])).expect_code(0);
    assert_eq!(lines(&ran.stdout), lines(&find(Path::new("/"), ["/", "-maxdepth", "1"])));
}

#[test]
fn chain_deeper_than_path_max_is_walked() {
    let scratch = scratch("deep");
    // 2,000 levels of 9 bytes: no system call takes such a path.
    trees::chain(&scratch.join("chain"), 2_000, b"level-xx").unwrap();
    let ran = run(walk(["--print0", "chain"]).current_dir(scratch.path())).expect_code(0);
    let listed = records(&ran.stdout);
    assert_eq!(listed.len(), 2_001);
    let longest = listed.iter().max_by_key(|path| path.len()).unwrap();
    assert_eq!(longest.len(), "chain".len() + 2_000 * 9);
    assert!(listed.contains(&bytes_of("chain/level-xx")));
}
