//! `--from-list`: the forms that are taken, what relative names mean, and what is refused.

use atta_testkit::trees;

use crate::support::{
    atta, bytes_of, find, make_directory, make_file, make_link, records, run, run_with_input, scratch, walk,
};

#[test]
fn what_find_lists_is_what_is_walked() {
    let scratch = scratch("list");
    trees::hostile_names(&scratch.join("tree")).unwrap();
    let listed = find(scratch.path(), ["tree", "-type", "f", "-print0"]);
    let list = make_file(scratch.join("list"), &listed);
    let mut command = walk(["--print0", "--from-list"]);
    let ran = run(command.arg(&list).current_dir(scratch.path())).expect_code(0);
    assert_eq!(records(&ran.stdout), records(&listed));
    // From standard input.
    let mut command = walk(["--print0", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), &listed).expect_code(0);
    assert_eq!(records(&ran.stdout), records(&listed));
    // Relative names below a PATH.
    let below = find(&scratch.join("tree"), [".", "-type", "l", "-printf", "%P\\0"]);
    let mut command = walk(["--print0", "--from-list", "-", "tree"]);
    let ran = run_with_input(command.current_dir(scratch.path()), &below).expect_code(0);
    let expected = find(scratch.path(), ["tree", "-type", "l", "-print0"]);
    assert_eq!(records(&ran.stdout), records(&expected));
}

#[test]
fn directories_of_a_list_are_walked_to_their_ends() {
    let scratch = scratch("list-directories");
    trees::random(&scratch.join("tree"), 5, 300).unwrap();
    let listed = find(&scratch.join("tree"), [".", "-mindepth", "1", "-maxdepth", "1", "-printf", "%P\\0"]);
    let mut command = walk(["--print0", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.join("tree")), &listed).expect_code(0);
    let expected = find(&scratch.join("tree"), [".", "-mindepth", "1", "-printf", "%P\\0"]);
    assert_eq!(records(&ran.stdout), records(&expected));
}

#[test]
fn long_list_is_walked_to_its_end() {
    let scratch = scratch("list-long");
    trees::flat(&scratch.join("flat"), 5_000).unwrap();
    let listed = find(scratch.path(), ["flat", "-type", "f", "-print0"]);
    let mut command = walk(["--print0", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), &listed).expect_code(0);
    assert_eq!(records(&ran.stdout), records(&listed));
}

#[test]
fn rows_of_a_walk_are_a_list() {
    let scratch = scratch("list-rows");
    trees::hostile_names(&scratch.join("tree")).unwrap();
    let mut command = walk(["--format", "ndjson", "--exclude", "directories", "tree"]);
    let rows = run(command.current_dir(scratch.path())).expect_code(0).stdout;
    let files: Vec<u8> = rows
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|row| String::from_utf8_lossy(row).contains("\"kind\":\"file\""))
        .flatten()
        .copied()
        .collect();
    let mut command = walk(["--print0", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), &files).expect_code(0);
    let expected = find(scratch.path(), ["tree/files", "-type", "f", "-print0"]);
    assert_eq!(records(&ran.stdout), records(&expected));
}

#[test]
fn a_list_of_lines_is_refused() {
    let scratch = scratch("list-lines");
    make_file(scratch.join("one"), b"");
    let mut command = walk(["--print", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), b"one\ntwo\n").expect_code(4);
    assert_eq!(ran.out(), "");
    assert_eq!(
        ran.err(),
        "atta: cannot read list: -: list is neither NUL-separated nor NDJSON; line-separated lists cannot hold \
         every name; use find -print0, or --lines\n"
    );
}

#[test]
fn listed_lines_are_one_name_each() {
    let scratch = scratch("list-of-lines");
    let tree = make_directory(scratch.join("tree"));
    for name in ["one", "two words", "{\"path\":\"three\"}"] {
        make_file(tree.join(name), b"");
    }
    let list = b"one\ntwo words\n{\"path\":\"three\"}";
    let mut command = walk(["--print0", "--lines", "--from-list", "-", "tree"]);
    let ran = run_with_input(command.current_dir(scratch.path()), list).expect_code(0);
    let expected = find(scratch.path(), ["tree", "-type", "f", "-print0"]);
    assert_eq!(records(&ran.stdout), records(&expected));
    let mut command = atta();
    command.args(["copy", "--lines", "--from-list", "-", "tree/.", "copied"]);
    make_directory(scratch.join("copied"));
    run_with_input(command.current_dir(scratch.path()), list).expect_code(0);
    let copied = find(&scratch.join("copied"), [".", "-type", "f", "-print0"]);
    assert_eq!(records(&copied), records(&find(&tree, [".", "-type", "f", "-print0"])));
    for (list, reason) in [
        ("one\na\\nb\n", "a backslash"),
        ("one\n\ntwo\n", "an empty line"),
        ("one\ntwo\r\n", "a carriage return"),
        ("one\n\"two words\"\n", "quotation marks"),
        ("one\ntwo\0three\0", "a NUL"),
    ] {
        let mut command = walk(["--lines", "--from-list", "-", "tree"]);
        let ran = run_with_input(command.current_dir(scratch.path()), list.as_bytes()).expect_code(4);
        let said = "atta: cannot read list: -: list line 2 may stand for more than one name: ";
        assert!(ran.err().starts_with(&format!("{said}{reason}")), "{}", ran.err());
    }
    run(walk(["--lines", "tree"]).current_dir(scratch.path())).expect_code(2);
}

#[test]
fn what_a_list_may_not_hold_ends_the_run() {
    let scratch = scratch("list-wrong");
    make_directory(scratch.join("tree"));
    for (list, path, said) in [
        (b"a\0\0b\0".as_slice(), None, "list item 2: empty path"),
        (b"tree/../../etc\0", None, "list item 1: path has a `..` component"),
        (b"{\"path\":\"a\"}\n{\"path\"", None, "list line 2, column "),
        (b"{\"path\":\"a\",\"path_raw\":\"6\"}\n", None, "list line 1: path_raw is not an even number"),
        (b"{\"path\":\"a\\u0000b\"}\n", None, "list item 1: path holds a NUL"),
        (b"/etc\0", Some("tree"), "an absolute path that is not below PATH"),
        (b"{\"path\":\"x/a\",\"root\":\"tree\"}\n", None, "a path that does not begin with its root"),
    ] {
        let mut command = walk(["--from-list", "-"]);
        let ran = run_with_input(command.args(path).current_dir(scratch.path()), list).expect_code(4);
        assert!(ran.err().contains(&format!("atta: cannot read list: -: {said}")), "{}", ran.err());
        assert_eq!(ran.out(), "");
    }
    let ran = run(walk(["--from-list", "missing"]).current_dir(scratch.path())).expect_code(4);
    assert_eq!(ran.err(), "atta: cannot read list: missing: no such file or directory (ENOENT)\n");
    let ran = run(walk(["--from-list", "tree"]).current_dir(scratch.path())).expect_code(4);
    assert!(ran.err().contains("is a directory (EISDIR)"), "{}", ran.err());
    let ran = run(walk(["--from-list", "-", "a", "b"]).current_dir(scratch.path())).expect_code(2);
    assert!(ran.err().starts_with("atta: --from-list with several PATHs\nhint: "), "{}", ran.err());
}

#[test]
fn an_empty_list_is_nothing_to_do() {
    let scratch = scratch("list-empty");
    let mut command = walk(["--print", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), b"").expect_code(0);
    assert_eq!(ran.out(), "");
}

#[test]
fn an_entry_through_a_link_is_refused() {
    let scratch = scratch("list-link");
    let outside = make_directory(scratch.join("outside"));
    make_file(outside.join("secret"), b"");
    let tree = make_directory(scratch.join("tree"));
    make_file(tree.join("file"), b"");
    make_link("../outside", tree.join("link"));
    let listed = b"link/secret\0file\0link\0";
    for follow in [None, Some("--follow")] {
        let mut command = walk(["--print0", "--from-list", "-", "tree"]);
        let ran = run_with_input(command.args(follow).current_dir(scratch.path()), listed).expect_code(3);
        assert!(ran.err().contains("tree/link/secret"), "{}", ran.err());
        assert!(!ran.out().contains("secret"), "{}", ran.out());
        assert!(records(&ran.stdout).contains(&bytes_of("tree/file")), "{}", ran.out());
    }
    // The same with the path of the root in an absolute list without a PATH.
    let absolute = [bytes_of(&tree.join("link/secret")), vec![0]].concat();
    let mut command = walk(["--print0", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), &absolute).expect_code(3);
    assert_eq!(ran.out(), "");
}
