//! What somebody may do on purpose: sizes that overflow, links planted where output goes; and slips of the operator's.

use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use atta_testkit::trees;

use crate::support::{
    lines, make_directory, make_file, make_link, number, run, run_with_input, scratch, walk,
};

/// The largest size that a file on tmpfs can have: two of them are more than 64 bits hold.
const LARGEST: u64 = 0x7fff_ffff_ffff_f000;

#[test]
fn sizes_that_overflow_are_capped_and_crash_nothing() {
    let test = "sizes_that_overflow_are_capped_and_crash_nothing";
    let Some(space) = skip::unless_available(test, Scratch::on_tmpfs(1 << 20)) else { return };
    let tree = make_directory(space.join("tree"));
    for name in ["one", "two", "three"] {
        std::fs::File::create(tree.join(name)).unwrap().set_len(LARGEST).unwrap();
    }
    let ran = run(walk(["--json", "--threads", "1"]).arg(&tree)).expect_code(0);
    assert_eq!(number(&ran.json(), "totals.apparent_bytes"), u64::MAX);
}

#[test]
fn planted_link_does_not_redirect_output() {
    let scratch = scratch("planted");
    let tree = make_directory(scratch.join("tree"));
    let victim = make_file(scratch.join("victim"), b"precious");
    let planted = make_link("victim", scratch.join("planted"));
    std::fs::hard_link(&victim, scratch.join("second")).unwrap();
    for (option, file) in
        [("--errors", &planted), ("--events", &planted), ("--errors", &scratch.join("second"))]
    {
        let ran = run(walk([option]).arg(file).arg(&tree)).expect_code(4);
        assert!(ran.err().contains(file.to_str().unwrap()), "{}", ran.err());
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }
    // One's own file is written over.
    let own = make_file(scratch.join("own"), b"old");
    run(walk(["--errors"]).arg(&own).arg(&tree)).expect_code(0);
    assert_eq!(std::fs::read(&own).unwrap(), b"");
}

#[test]
fn a_root_that_is_given_twice_is_walked_twice() {
    let scratch = scratch("twice");
    let tree = make_directory(scratch.join("tree"));
    trees::flat(&tree, 500).unwrap();
    for threads in ["1", "2", "8"] {
        let ran = run(walk(["--print", "--threads", threads, "tree", "tree"]).current_dir(scratch.path()))
            .expect_code(0);
        assert_eq!(lines(&ran.stdout).len(), 2 * 501, "{threads} threads");
    }
    let mut command = walk(["--print", "--from-list", "-"]);
    let ran = run_with_input(command.current_dir(scratch.path()), b"tree\0tree\0./\0").expect_code(0);
    assert_eq!(lines(&ran.stdout).len(), 2 * 501 + 502);
}

#[test]
fn the_root_itself_may_stand_in_a_list() {
    let scratch = scratch("bare");
    let tree = make_directory(scratch.join("tree"));
    make_file(tree.join("file"), b"");
    let absolute = tree.to_str().unwrap();
    for listed in [".", "./", absolute, &format!("{absolute}/"), &format!("{absolute}/file")] {
        let mut command = walk(["--print", "--from-list", "-"]);
        let ran = run_with_input(command.arg(&tree), format!("{listed}\0").as_bytes()).expect_code(0);
        let expected = if listed.ends_with("file") { 1 } else { 2 };
        assert_eq!(lines(&ran.stdout).len(), expected, "{listed}");
    }
}

#[test]
fn file_shown_again_by_a_link_counts_once() {
    let scratch = scratch("again");
    let tree = make_directory(scratch.join("tree"));
    make_file(tree.join("file"), b"sixsix");
    std::fs::hard_link(tree.join("file"), tree.join("name")).unwrap();
    make_file(tree.join("single"), b"four");
    for link in ["one", "two", "three"] {
        make_link("file", tree.join(link));
        make_link("single", tree.join(format!("{link}-single")));
    }
    let ran = run(walk(["--follow", "--json"]).arg(&tree)).expect_code(0);
    assert_eq!(number(&ran.json(), "totals.apparent_bytes"), 10);
}
