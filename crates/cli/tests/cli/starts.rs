//! What a PATH may be: nothing, a file, a link, several, missing, not allowed.

use atta_testkit::trees;

use crate::support::{
    at, bytes_of, give_to_nobody, lines, make_directory, make_file, make_link, number, run, scratch,
    set_mode, unprivileged, walk, with_slash,
};

#[test]
fn an_empty_directory_is_one_entry() {
    let scratch = scratch("empty");
    let json = run(walk(["--json"]).arg(scratch.path())).expect_code(0).json();
    assert_eq!(number(&json, "totals.entries"), 1);
    assert_eq!(number(&json, "totals.by_kind.directory"), 1);
    assert_eq!(number(&json, "totals.apparent_bytes"), 0);
    assert_eq!(number(&json, "errors.count"), 0);
}

#[test]
fn a_file_as_path_is_one_entry() {
    let scratch = scratch("file");
    let file = make_file(scratch.join("file"), b"12345");
    let ran = run(walk(["--print"]).arg(&file)).expect_code(0);
    assert_eq!(lines(&ran.stdout), [bytes_of(&file)]);
    let json = run(walk(["--json"]).arg(&file)).expect_code(0).json();
    assert_eq!((number(&json, "totals.entries"), number(&json, "totals.apparent_bytes")), (1, 5));
}

#[test]
fn missing_path_fails_and_others_are_walked() {
    let scratch = scratch("missing");
    make_file(scratch.join("there"), b"");
    let mut command = walk(["--print", "not\x1bthere", "there"]);
    let ran = run(command.current_dir(scratch.path())).expect_code(3);
    assert_eq!(ran.out(), "there\n");
    let said = "cannot stat: not\\x1bthere: no such file or directory (ENOENT)";
    assert_eq!(ran.errors(said), 1, "{}", ran.err());
}

#[test]
fn a_file_with_a_slash_is_a_failed_entry() {
    let scratch = scratch("file-slash");
    make_file(scratch.join("file"), b"");
    let ran = run(walk(["--print", "file/"]).current_dir(scratch.path())).expect_code(3);
    assert_eq!(ran.out(), "");
    assert_eq!(ran.errors("cannot stat: file/: not a directory (ENOTDIR)"), 1, "{}", ran.err());
}

#[test]
fn forbidden_directory_is_reported_others_walked() {
    let Some((scratch, atta)) = unprivileged("forbidden_directory_is_reported_others_walked") else {
        return;
    };
    let tree = make_directory(scratch.join("tree"));
    trees::unreadable(&tree).unwrap();
    let mut command = atta();
    let ran = run(command.args(["walk", "--print", "--threads", "1", "tree"]).current_dir(scratch.path()));
    let ran = ran.expect_code(3);
    assert!(
        ran.err().contains("cannot open directory: tree/closed: permission denied (EACCES)\n"),
        "{}",
        ran.err()
    );
    assert!(ran.err().contains("tree/listed"), "{}", ran.err());
    assert!(ran.err().contains("tree/entered"), "{}", ran.err());
    let seen = lines(&ran.stdout);
    for name in ["tree", "tree/closed", "tree/entered", "tree/listed"] {
        assert!(seen.contains(&bytes_of(name)), "{name}: {}", ran.out());
    }
}

#[test]
fn a_path_without_rights_names_what_where_and_why() {
    let Some((scratch, atta)) = unprivileged("a_path_without_rights_names_what_where_and_why") else {
        return;
    };
    let closed = make_directory(scratch.join("closed"));
    make_directory(closed.join("below"));
    set_mode(&closed, 0o000);
    let mut command = atta();
    let ran = run(command.args(["walk", "closed", "closed/below"]).current_dir(scratch.path()));
    let ran = ran.expect_code(3);
    for said in [
        "cannot open directory: closed: permission denied (EACCES)\n",
        "cannot stat: closed/below: permission denied (EACCES)\n",
    ] {
        assert!(ran.err().contains(said), "{}", ran.err());
    }
    assert!(ran.out().contains("EACCES"), "{}", ran.out());
}

#[test]
fn a_working_directory_without_rights_is_no_crash() {
    let Some((scratch, atta)) = unprivileged("a_working_directory_without_rights_is_no_crash") else {
        return;
    };
    let closed = make_directory(scratch.join("closed"));
    give_to_nobody(&closed);
    set_mode(&closed, 0o300);
    let ran = run(atta().arg("walk").current_dir(&closed)).expect_code(3);
    assert!(ran.err().contains("permission denied (EACCES)"), "{}", ran.err());
}

#[test]
fn a_link_as_path_is_followed_only_with_a_slash() {
    let scratch = scratch("link");
    let tree = make_directory(scratch.join("tree"));
    make_file(tree.join("file"), b"x");
    let link = make_link("tree", scratch.join("link"));
    let dangling = make_link("nowhere", scratch.join("dangling"));
    let ran = run(walk(["--print"]).arg(&link)).expect_code(0);
    assert_eq!(lines(&ran.stdout), [bytes_of(&link)]);
    let ran = run(walk(["--print"]).arg(with_slash(&link))).expect_code(0);
    assert_eq!(lines(&ran.stdout), [bytes_of(&with_slash(&link)), bytes_of(&link.join("file"))]);
    let ran = run(walk(["--print"]).arg(&dangling)).expect_code(0);
    assert_eq!(lines(&ran.stdout), [bytes_of(&dangling)]);
    run(walk(["--print"]).arg(with_slash(&dangling))).expect_code(3);
    // With --follow also the PATH itself, as find -L.
    let ran = run(walk(["--print", "--follow"]).arg(&link)).expect_code(0);
    assert_eq!(lines(&ran.stdout), [bytes_of(&link), bytes_of(&link.join("file"))]);
}

#[test]
fn several_paths_are_summed_up_in_one_run() {
    let scratch = scratch("several");
    let (one, two) = (make_directory(scratch.join("one")), make_directory(scratch.join("two")));
    make_file(one.join("file"), b"1");
    make_file(two.join("file"), b"22");
    std::fs::hard_link(one.join("file"), two.join("again")).unwrap();
    let json = run(walk(["--json"]).args([&one, &two])).expect_code(0).json();
    assert_eq!(number(&json, "totals.entries"), 5);
    assert_eq!(number(&json, "totals.by_kind.file"), 3);
    assert_eq!(number(&json, "totals.extra_links"), 1);
    assert_eq!(number(&json, "totals.apparent_bytes"), 3);
}

#[test]
fn a_path_that_is_given_twice_is_walked_twice() {
    let scratch = scratch("twice");
    make_file(scratch.join("file"), b"1");
    let ran = run(walk(["--print", "file", "file"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(ran.out(), "file\nfile\n");
}

#[test]
fn without_a_path_it_is_the_working_directory() {
    let scratch = scratch("default");
    make_file(scratch.join("file"), b"1");
    let ran = run(walk(["--print"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(lines(&ran.stdout), [b".".to_vec(), b"./file".to_vec()]);
    let json = run(walk(["--json"]).current_dir(scratch.path())).expect_code(0).json();
    assert_eq!(at(&json, "command"), "walk");
}
