//! What is visited: rules and their order, depths, followed links.

use std::path::Path;

use atta_testkit::trees;

use crate::support::{
    find, kinds_by_find, lines, make_directory, make_file, make_link, number, records, run, scratch, walk,
};

/// The lines that a walk of the working directory `directory` prints, in one string a line.
fn printed(directory: &Path, options: &[&str]) -> Vec<String> {
    let ran = run(walk(["--print"]).args(options).arg("t").current_dir(directory)).expect_code(0);
    lines(&ran.stdout).into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

fn sources(root: &Path) {
    for directory in ["t", "t/src", "t/cache", "t/src/cache", "t/docs"] {
        make_directory(root.join(directory));
    }
    for file in
        ["t/a.c", "t/a.o", "t/keep.o", "t/src/b.c", "t/src/b.o", "t/cache/x", "t/src/cache/y", "t/docs/z"]
    {
        make_file(root.join(file), b"");
    }
}

#[test]
fn the_last_rule_that_matches_decides() {
    let scratch = scratch("rules");
    sources(scratch.path());
    let all = printed(scratch.path(), &[]);
    let without = |names: &[&str]| -> Vec<String> {
        all.iter().filter(|line| !names.contains(&line.as_str())).cloned().collect()
    };
    let here = |options: &[&str]| printed(scratch.path(), options);
    assert_eq!(here(&["--exclude", "*.o"]), without(&["t/a.o", "t/keep.o", "t/src/b.o"]));
    assert_eq!(here(&["--exclude", "*.o", "--include", "keep.o"]), without(&["t/a.o", "t/src/b.o"]));
    // The other way round the exclude has the last word, and the include before it makes the rest unwanted.
    assert_eq!(
        here(&["--include", "keep.o", "--exclude", "*.o"]).iter().filter(|l| l.ends_with(".o")).count(),
        0
    );
    assert_eq!(here(&["--include=*.c", "--exclude=cache"]), ["t", "t/a.c", "t/docs", "t/src", "t/src/b.c"]);
    // One that begins with a slash is below the PATH; a directory that is left out is not entered.
    assert_eq!(here(&["--exclude", "/cache"]), without(&["t/cache", "t/cache/x"]));
    let both = ["t/cache", "t/cache/x", "t/src/cache", "t/src/cache/y"];
    assert_eq!(here(&["--exclude", "cache/"]), without(&both));
    assert_eq!(here(&["--exclude", "cache", "--include", "y"]), without(&both));
    assert_eq!(
        here(&["--exclude", "src/**"]),
        without(&["t/src/b.c", "t/src/b.o", "t/src/cache", "t/src/cache/y"])
    );
}

#[test]
fn what_was_left_out_is_counted() {
    let scratch = scratch("excluded");
    sources(scratch.path());
    let mut command = walk(["--json", "--exclude", "*.o", "t"]);
    let json = run(command.current_dir(scratch.path())).expect_code(0).json();
    assert_eq!(number(&json, "totals.excluded"), 3);
    assert_eq!(number(&json, "totals.entries"), 10);
    // The PATH itself is walked whatever the rules say.
    let mut command = walk(["--json", "--exclude", "*", "t"]);
    let json = run(command.current_dir(scratch.path())).expect_code(0).json();
    assert_eq!(number(&json, "totals.entries"), 1);
}

#[test]
fn rules_match_names_that_are_not_utf_8() {
    let scratch = scratch("rules-bytes");
    let tree = make_directory(scratch.join("t"));
    make_file(tree.join(crate::support::path_of(*b"\xff.o")), b"");
    make_file(tree.join(crate::support::path_of(*b"\xff.c")), b"");
    let ran = run(walk(["--print", "--exclude", "*.o", "t"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(lines(&ran.stdout), [b"t".to_vec(), b"t/\xff.c".to_vec()]);
}

#[test]
fn depths_are_those_of_find() {
    let scratch = scratch("depth");
    trees::random(&scratch.join("tree"), 17, 400).unwrap();
    trees::chain(&scratch.join("tree/chain"), 30, b"level").unwrap();
    for depth in ["0", "1", "2", "5", "29", "31", "1000000"] {
        let mut command = walk(["--print0", "--max-depth", depth, "tree", "tree/chain"]);
        let ran = run(command.current_dir(scratch.path())).expect_code(0);
        let arguments = ["tree", "tree/chain", "-maxdepth", depth, "-print0"];
        assert_eq!(records(&ran.stdout), records(&find(scratch.path(), arguments)), "depth {depth}");
    }
}

#[test]
fn followed_links_are_those_of_find() {
    let scratch = scratch("follow");
    let tree = make_directory(scratch.join("tree"));
    let data = make_directory(tree.join("data"));
    trees::flat(&data.join("flat"), 30).unwrap();
    make_directory(tree.join("views"));
    make_link("../data/flat", tree.join("views/relative"));
    make_link(data.join("flat"), tree.join("views/absolute"));
    make_link("relative/f0000001", tree.join("views/file"));
    make_link("file", tree.join("views/chain"));
    make_link("data/flat/", tree.join("slash"));
    let mut command = walk(["--print0", "--follow", "tree"]);
    let ran = run(command.current_dir(scratch.path())).expect_code(0);
    assert_eq!(records(&ran.stdout), records(&find(scratch.path(), ["-L", "tree", "-print0"])));
    // Without --follow they are links.
    let ran = run(walk(["--print0", "tree"]).current_dir(scratch.path())).expect_code(0);
    assert_eq!(records(&ran.stdout), records(&find(scratch.path(), ["tree", "-print0"])));
}

#[test]
fn links_that_lead_out_or_in_circles_are_errors() {
    let scratch = scratch("follow-out");
    let tree = scratch.join("tree");
    trees::kinds(&tree, &scratch.join("outside")).unwrap();
    let mut command = walk(["--print", "--verbose", "--follow", "tree"]);
    let ran = run(command.current_dir(scratch.path())).expect_code(3);
    for (name, why) in [
        ("link-outside", "it leads out of the tree (EXDEV)"),
        ("link-outside-file", "it leads out of the tree (EXDEV)"),
        ("link-root", "it leads out of the tree (EXDEV)"),
        ("link-absolute", "it leads out of the tree (EXDEV)"),
        ("link-parent", "it leads out of the tree (EXDEV)"),
        ("link-self", "it leads back to a directory above it, or in a loop (ELOOP)"),
        ("link-here", "it leads back to a directory above it, or in a loop (ELOOP)"),
        ("link-dangling", "no such file or directory (ENOENT)"),
    ] {
        let said = format!("cannot follow link: tree/{name}: {why}\n");
        assert!(ran.err().contains(&said), "{name}: {}", ran.err());
    }
    assert!(!ran.out().contains("secret"));
    // What cannot be followed is still an entry: a link.
    assert!(ran.out().contains("tree/link-outside\n"));
}

#[test]
fn counts_and_bytes_are_those_of_find_and_du() {
    let scratch = scratch("counts");
    let tree = scratch.join("tree");
    make_directory(&tree);
    trees::hostile_names(&tree.join("names")).unwrap();
    trees::kinds(&tree.join("kinds"), &tree.join("outside")).unwrap();
    trees::random(&tree.join("random"), 23, 400).unwrap();
    trees::flat(&tree.join("flat"), 3_000).unwrap();
    let json = run(walk(["--json"]).arg(&tree)).expect_code(0).json();
    for (kind, count) in kinds_by_find(&tree) {
        assert_eq!(number(&json, &format!("totals.by_kind.{kind}")), count, "{kind}");
    }
    let mut du = std::process::Command::new("du");
    let said = run(du.args(["-s", "--block-size=1"]).arg(&tree)).expect_code(0).out();
    let allocated: u64 = said.split('\t').next().and_then(|field| field.parse().ok()).expect("bytes of du");
    assert_eq!(number(&json, "totals.allocated_bytes"), allocated);
    // Apparent bytes are those of files, each inode once.
    let listed = find(&tree, [".", "-type", "f", "-printf", "%i %s\\n"]);
    let distinct: std::collections::BTreeSet<_> = lines(&listed).into_iter().collect();
    let sizes = distinct.iter().map(|line| {
        let line = String::from_utf8_lossy(line);
        line.rsplit(' ').next().and_then(|size| size.parse::<u64>().ok()).expect("a size")
    });
    assert_eq!(number(&json, "totals.apparent_bytes"), sizes.sum::<u64>());
    // Names beyond the first, whatever has them.
    let listed = find(&tree, [".", "!", "-type", "d", "-printf", "%i\\n"]);
    let inodes: std::collections::BTreeSet<_> = lines(&listed).into_iter().collect();
    let links = lines(&listed).len() - inodes.len();
    assert_eq!(number(&json, "totals.extra_links"), links as u64);
    assert!(links >= 5, "of files, a link and a FIFO: {links}");
}
