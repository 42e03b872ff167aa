//! Rows for programs come back through other programs' readers and say what `lstat` says.

use atta_testkit::trees;

use crate::support::{python, run, run_with_input, scratch, walk};

/// Walks hostile trees with these options and lets `rows.py` compare each row with `os.lstat`.
fn compare(test: &str, format: &str, options: &[&str]) {
    let scratch = scratch("rows");
    let root = scratch.join("tree");
    std::fs::create_dir(&root).unwrap();
    trees::hostile_names(&root.join("names")).unwrap();
    trees::kinds(&root.join("kinds"), &scratch.join("outside")).unwrap();
    trees::times(&root.join("times")).unwrap();
    trees::random(&root.join("random"), 3, 300).unwrap();
    let Some(mut reader) = python(test, "rows.py", &["csv", "json"]) else { return };
    let ran = run(walk(["--format", format]).args(options).arg(&root)).expect_code(0);
    reader.arg(format).arg(&root).args(options);
    let compared = run_with_input(&mut reader, &ran.stdout).expect_code(0);
    assert!(compared.out().starts_with("equal: "), "{}", compared.out());
}

#[test]
fn ndjson_says_what_lstat_says() {
    compare("ndjson_says_what_lstat_says", "ndjson", &["--targets"]);
    compare("ndjson_says_what_lstat_says", "ndjson", &[]);
    compare("ndjson_says_what_lstat_says", "ndjson", &["--lite"]);
}

#[test]
fn csv_says_what_lstat_says() {
    compare("csv_says_what_lstat_says", "csv", &["--targets"]);
    compare("csv_says_what_lstat_says", "csv", &[]);
    compare("csv_says_what_lstat_says", "csv", &["--lite", "--targets"]);
}

#[test]
fn text_says_what_lstat_says() {
    compare("text_says_what_lstat_says", "text", &["--targets"]);
    compare("text_says_what_lstat_says", "text", &[]);
    compare("text_says_what_lstat_says", "text", &["--lite"]);
}

#[test]
fn csv_of_nothing_has_its_header() {
    let scratch = scratch("header");
    let ran = run(walk(["--format", "csv", "missing"]).current_dir(scratch.path())).expect_code(3);
    assert_eq!(
        ran.out(),
        "path,path_raw,kind,depth,inode,device,mode,nlink,uid,gid,size,blocks,atime,mtime,ctime,btime\n"
    );
}
