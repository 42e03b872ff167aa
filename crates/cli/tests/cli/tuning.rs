//! How a walk is done changes nothing of what it finds: threads, memory, rates, kernels.

use std::path::Path;

use atta_testkit::trees;

use crate::support::{at, find, make_directory, number, records, run, scratch, walk};

/// A tree with what is split over threads: one large directory, many small ones, a chain.
fn mixed(root: &Path) {
    make_directory(root);
    trees::flat(&root.join("flat"), 20_000).unwrap();
    trees::random(&root.join("random"), 31, 500).unwrap();
    trees::chain(&root.join("chain"), 200, b"level").unwrap();
    let wide = make_directory(root.join("wide"));
    for number in 0..2_000 {
        make_directory(wide.join(format!("directory-{number}")));
    }
}

#[test]
fn every_way_to_walk_finds_the_same() {
    let scratch = scratch("ways");
    let tree = scratch.join("tree");
    mixed(&tree);
    let listed = records(&find(scratch.path(), ["tree", "-print0"]));
    let ways: [&[&str]; 10] = [
        &[],
        &["--threads", "1"],
        &["--threads", "3"],
        &["--threads", "64"],
        &["-j", "auto"],
        &["--memory", "1M"],
        &["--memory", "1M", "--threads", "3"],
        &["--without", "statx-mount-id", "--threads", "2"],
        &["--lite", "--threads", "2"],
        &["--callback", "full"],
    ];
    let mut totals = Vec::new();
    for way in ways {
        let mut command = walk(["--print0", "--json"]);
        let ran = run(command.args(way).arg("tree").current_dir(scratch.path())).expect_code(0);
        assert!(records(&ran.stdout) == listed, "{way:?} lists something else than find");
        let json = crate::support::parse(&ran.stderr);
        assert_eq!(number(&json, "totals.entries"), listed.len() as u64, "{way:?}");
        if way.contains(&"--lite") {
            // It asks for the metadata of few entries: sums over those would pass for the tree's.
            for unknown in ["apparent_bytes", "allocated_bytes", "extra_links"] {
                assert!(at(&json, &format!("totals.{unknown}")).is_null(), "{unknown}");
            }
        } else {
            totals.push(at(&json, "totals").clone());
        }
        if let ["--threads", count] = way {
            assert_eq!(at(&json, "threads").as_array().map(Vec::len), count.parse().ok(), "{way:?}");
        }
    }
    assert!(totals.iter().all(|each| *each == totals[0]), "{totals:?}");
}

#[test]
fn hard_links_count_once_also_when_memory_is_short() {
    let scratch = scratch("links");
    let (one, two) = (scratch.join("one"), make_directory(scratch.join("two")));
    trees::flat(&one, 10_000).unwrap();
    for number in 0..10_000 {
        let name = format!("f{number:07}");
        std::fs::hard_link(one.join(&name), two.join(&name)).unwrap();
    }
    for options in [&["--threads", "2"][..], &["--threads", "2", "--memory", "1M"]] {
        let json = run(walk(["--json"]).args(options).arg(scratch.path())).expect_code(0).json();
        assert_eq!(number(&json, "totals.by_kind.file"), 20_000);
        assert_eq!(number(&json, "totals.extra_links"), 10_000, "{options:?}");
    }
}

#[test]
fn a_rate_is_kept_on_average() {
    let scratch = scratch("rate");
    trees::flat(&scratch.join("flat"), 300).unwrap();
    // A lower bound on the time alone: a busy machine makes it longer, never shorter.
    let json = run(walk(["--json", "--iops", "300"]).arg(scratch.path())).expect_code(0).json();
    assert_eq!(number(&json, "totals.entries"), 302);
    let elapsed = at(&json, "elapsed_seconds").as_f64().unwrap();
    assert!(elapsed > 0.25, "302 operations at 300 a second in {elapsed} s");
}

#[test]
fn missing_spill_directory_loses_no_entries() {
    let scratch = scratch("spill");
    let wide = make_directory(scratch.join("wide"));
    for number in 0..3_000 {
        make_directory(wide.join(format!("directory-with-a-long-name-{number}")));
    }
    let mut command = walk(["--json", "--memory", "1M", "--threads", "1"]);
    let ran = run(command.arg(&wide).env("TMPDIR", scratch.join("missing"))).expect_code(0);
    assert_eq!(number(&ran.json(), "totals.entries"), 3_001);
}
