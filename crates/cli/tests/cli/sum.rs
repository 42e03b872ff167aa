//! `atta sum` as a program: lines as `b3sum` prints them, record checks, exit codes and reports.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use atta_testkit::trees;
use serde_json::{Value, json};

use crate::support::{
    at, atta, bytes_of, lines, make_directory, make_file, make_link, number, parse, parse_lines, path_of,
    run, run_with_input, scratch, set_mode, unprivileged,
};

/// `atta sum` with these arguments, in a directory.
fn sum(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = atta();
    command.arg("sum").args(arguments).current_dir(directory);
    command
}

/// The line of a file, as the manual of `b3sum` says.
fn line(path: &str, content: &[u8]) -> Vec<u8> {
    let digest = digest(content);
    let escaped = path.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let mark = if escaped == path { "" } else { "\\" };
    format!("{mark}{digest}  {escaped}").into_bytes()
}

/// The digest of bytes by the program itself, from standard input; `crates/ops/tests/sum.rs` says that it is right.
fn digest(content: &[u8]) -> String {
    let ran = run_with_input(atta().args(["sum", "-"]), content).expect_code(0);
    ran.out().strip_suffix("  -\n").unwrap().to_owned()
}

/// Files with odd names, a link and a directory.
fn tree(below: &Path) -> PathBuf {
    let tree = make_directory(below.join("tree"));
    make_file(tree.join("one"), b"1");
    make_file(tree.join("back\\slash"), b"2");
    make_file(tree.join("line\nend\r"), b"3");
    make_directory(tree.join("below"));
    make_file(tree.join("below/empty"), b"");
    make_file(tree.join("below/large"), &vec![b'x'; 20 << 20]);
    make_link("one", tree.join("link"));
    tree
}

#[test]
fn known_digests() {
    // From the test vectors of BLAKE3 and the manual of b3sum.
    let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(digest(b""), empty);
    assert_eq!(digest(b"abc"), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    let scratch = scratch("sum");
    make_file(scratch.join("empty"), b"");
    let ran = run(&mut sum(scratch.path(), &["empty"])).expect_code(0);
    assert_eq!(ran.out(), format!("{empty}  empty\n"));
}

#[test]
fn lines_match_b3sum_and_can_be_sorted() {
    let scratch = scratch("sum");
    tree(scratch.path());
    let expected = [
        line("tree/back\\slash", b"2"),
        line("tree/below/empty", b""),
        line("tree/below/large", &vec![b'x'; 20 << 20]),
        line("tree/line\nend\r", b"3"),
        line("tree/one", b"1"),
    ];
    let ran = run(&mut sum(scratch.path(), &["--sort", "tree"])).expect_code(0);
    let printed: Vec<_> = ran.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(printed, expected);
    assert!(
        ran.err().starts_with("5 files, 2 directories, 1 symlink summed up, 20.0 MiB in "),
        "{}",
        ran.err()
    );
    let mut unsorted = expected.to_vec();
    unsorted.sort();
    for threads in ["1", "8"] {
        let ran = run(&mut sum(scratch.path(), &["-j", threads, "--chunk", "1M", "tree"])).expect_code(0);
        assert_eq!(lines(&ran.stdout), unsorted);
    }
    // Little memory: what is sorted goes through a file.
    trees::flat(&scratch.join("tree/flat"), 20_000).unwrap();
    let ran = run(&mut sum(scratch.path(), &["--sort", "--memory", "1M", "tree"])).expect_code(0);
    let paths: Vec<_> = ran.out().lines().map(|line| line.rsplit("  ").next().unwrap().to_owned()).collect();
    assert_eq!(paths.len(), 20_005);
    assert!(paths.iter().filter(|path| path.contains("flat")).is_sorted());
}

#[test]
fn signature_is_that_of_the_copy_anywhere() {
    let scratch = scratch("sum");
    tree(scratch.path());
    let mut copy = atta();
    let ran = run(copy.args(["copy", "tree", "copied"]).current_dir(scratch.path())).expect_code(0);
    let copied =
        ran.out().lines().find_map(|line| line.strip_prefix("signature ").map(str::to_owned)).unwrap();
    for path in ["tree", "copied", "./copied/"] {
        let ran = run(&mut sum(scratch.path(), &["--signature", path])).expect_code(0);
        assert_eq!((ran.out(), ran.err()), (format!("{copied}\n"), String::new()));
    }
    let ran = run(&mut sum(scratch.path(), &["--json", "tree"])).expect_code(0);
    assert_eq!(at(&parse(&ran.stderr), "totals.signature"), copied.as_str());
    make_link("other", scratch.join("tree/another"));
    let ran = run(&mut sum(scratch.path(), &["--signature", "tree"])).expect_code(0);
    assert_ne!(ran.out(), format!("{copied}\n"));
}

#[test]
fn a_list_is_checked_and_each_difference_is_named() {
    let scratch = scratch("sum");
    let tree = tree(scratch.path());
    // The list lies in the tree that it is of, and is left out.
    let list = std::fs::File::create(tree.join("list")).unwrap();
    let ran = run_to(sum(scratch.path(), &["tree"]), list);
    assert!(ran.contains("left out: the file that standard output goes to"), "{ran}");
    fs::rename(tree.join("list"), scratch.join("list")).unwrap();
    for arguments in [&["--check", "list"][..], &["--check", "list", "tree"], &["-c", "list", "./tree/below"]]
    {
        let ran = run(&mut sum(scratch.path(), arguments)).expect_code(0);
        assert_eq!(ran.out(), "", "{arguments:?}");
        assert!(ran.err().contains("as recorded"), "{}", ran.err());
    }
    let bytes = fs::read(scratch.join("list")).unwrap();
    run_with_input(&mut sum(scratch.path(), &["--check", "-"]), &bytes).expect_code(0);
    fs::write(tree.join("one"), "x").unwrap();
    fs::remove_file(tree.join("line\nend\r")).unwrap();
    fs::remove_file(tree.join("below/empty")).unwrap();
    make_directory(tree.join("below/empty"));
    make_file(tree.join("extra"), b"");
    let listed = "different: tree/below/empty: type file -> directory\nmissing: tree/line\\nend\\r\ndifferent: tree/one: content\n";
    let ran = run(&mut sum(scratch.path(), &["--check", "list"])).expect_code(1);
    assert_eq!(ran.out(), listed);
    let ran = run(&mut sum(scratch.path(), &["--check", "list", "tree"])).expect_code(1);
    let with_extra = "different: tree/below/empty: type file -> directory\nextra: tree/extra\nmissing: tree/line\\nend\\r\n\
                      different: tree/one: content\n";
    assert_eq!(ran.out(), with_extra);
    assert!(ran.err().contains("not as recorded: 1 missing, 1 extra, 2 different"), "{}", ran.err());
    // Only a part of it, and not all of that.
    let ran = run(&mut sum(scratch.path(), &["-q", "--check", "list", "tree/below"])).expect_code(1);
    assert_eq!(
        (ran.out(), ran.err()),
        ("different: tree/below/empty: type file -> directory\n".to_owned(), String::new())
    );
    let rules = [
        "--check",
        "list",
        "tree",
        "--exclude",
        "one",
        "--exclude",
        "line*",
        "--exclude",
        "below/",
        "--exclude",
        "extra",
    ];
    let ran = run(&mut sum(scratch.path(), &rules)).expect_code(0);
    assert!(ran.err().starts_with("1 entry is as recorded"), "{}", ran.err());
}

/// Runs a command whose output goes to a file; what it says on standard error.
fn run_to(mut command: Command, file: fs::File) -> String {
    let ran = command.stdout(file).stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    String::from_utf8(ran.stderr).unwrap()
}

#[test]
fn catalogs_and_rows_cover_all_kinds() {
    let scratch = scratch("sum");
    let tree = tree(scratch.path());
    trees::hostile_names(&tree.join("names")).unwrap();
    let ran = run(&mut sum(scratch.path(), &["--output", "sums", "tree"])).expect_code(0);
    assert!(ran.out().contains("summed up"), "the summary is all there is: {}", ran.out());
    let ran = run(&mut sum(scratch.path(), &["--format", "ndjson", "tree"])).expect_code(0);
    fs::write(scratch.join("rows"), &ran.stdout).unwrap();
    let rows = parse_lines(&ran.stdout);
    let manifest = parse(&fs::read(scratch.join("sums/_manifest.json")).unwrap());
    assert_eq!(number(&manifest, "totals.entries"), rows.len() as u64);
    let row = rows.iter().find(|row| row["path"] == "tree/one").unwrap();
    assert_eq!((at(row, "digest"), number(row, "size")), (&Value::from(digest(b"1")), 1));
    for record in ["sums", "rows"] {
        for paths in [&[][..], &["tree"]] {
            let arguments = [&["--check", record], paths].concat();
            let ran = run(&mut sum(scratch.path(), &arguments)).expect_code(0);
            assert!(
                ran.err().starts_with(&format!("{} entries are as recorded", rows.len())),
                "{}",
                ran.err()
            );
        }
    }
    fs::remove_file(tree.join("link")).unwrap();
    make_link("elsewhere", tree.join("link"));
    fs::write(tree.join("one"), "longer").unwrap();
    make_directory(tree.join("new"));
    make_file(path_of([&bytes_of(&tree.join("new/"))[..], b"\xff"].concat()), b"");
    let ran = run(&mut sum(scratch.path(), &["--json", "--check", "sums", "-j", "1"])).expect_code(1);
    let reported: Vec<_> = parse_lines(&ran.stdout)
        .into_iter()
        .map(|row| (at(&row, "path").clone(), at(&row, "change").clone(), row.get("fields").cloned()))
        .collect();
    let word = |text: &str| Value::from(text);
    assert_eq!(
        reported,
        [
            (
                word("tree/link"),
                word("different"),
                Some(json!({"target": {"source": "one", "target": "elsewhere"}}))
            ),
            (word("tree/new"), word("extra"), None),
            (word("tree/new/\u{fffd}"), word("extra"), None),
            (word("tree/one"), word("different"), Some(json!({"size": {"source": 1, "target": 6}}))),
        ]
    );
    let summary = parse(&ran.stderr);
    assert_eq!((number(&summary, "compared.extra"), number(&summary, "compared.different")), (2, 2));
}

#[test]
fn unreadable_entry_is_neither_missing_nor_same() {
    let Some((scratch, command)) = unprivileged("unreadable_entry_is_neither_missing_nor_same") else {
        return;
    };
    let tree = make_directory(scratch.join("tree"));
    make_file(tree.join("open"), b"1");
    make_file(tree.join("secret"), b"2");
    make_directory(tree.join("closed"));
    make_file(tree.join("closed/file"), b"3");
    let sum = |arguments: &[&str]| {
        let mut command = command();
        command.arg("sum").args(arguments).current_dir(scratch.path());
        run(&mut command)
    };
    let list = sum(&["tree"]).expect_code(0).stdout;
    fs::write(scratch.join("list"), &list).unwrap();
    set_mode(&scratch.join("list"), 0o644);
    set_mode(&tree.join("secret"), 0);
    set_mode(&tree.join("closed"), 0);
    let ran = sum(&["--check", "list", "tree"]).expect_code(3);
    assert_eq!(ran.out(), "");
    assert_eq!(ran.errors("cannot open"), 2, "{}", ran.err());
    assert!(ran.err().contains("not as recorded: 2 unknown\nnot read: 2 entries"), "{}", ran.err());
    let ran = sum(&["tree"]).expect_code(3);
    assert!(
        ran.err().contains("not summed up: 2 entries") && !ran.err().contains("signature"),
        "{}",
        ran.err()
    );
    let ran = sum(&["--signature", "tree"]).expect_code(3);
    assert_eq!(ran.out(), "");
    set_mode(&tree.join("closed"), 0o755);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scratch = scratch("sum");
    let tree = tree(scratch.path());
    let list = run(&mut sum(scratch.path(), &["tree"])).expect_code(0).stdout;
    fs::write(scratch.join("list"), &list).unwrap();
    fs::write(scratch.join("broken"), [&list[..], b"what is this\n"].concat()).unwrap();
    fs::write(scratch.join("above"), line("../tree/one", b"1")).unwrap();
    make_directory(scratch.join("catalog"));
    for (arguments, code) in [
        (&["tree", "-"][..], 2),
        (&[""], 2),
        (&["--sort", "--check", "list"], 2),
        (&["--signature", "--sort", "tree"], 2),
        (&["--check", "list", "elsewhere"], 2),
        (&["--check", "above"], 2),
        (&["--check", "nothing-here"], 4),
        (&["--check", "broken"], 4),
        (&["--check", "catalog"], 4),
        (&["--output", "catalog/in/nothing", "tree"], 4),
        (&["--format", "ndjson", "-"], 2),
        (&["--exclude", "[", "tree"], 2),
        (&["nothing-here"], 3),
    ] {
        let ran = run(&mut sum(scratch.path(), arguments)).expect_code(code);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{arguments:?}");
    }
    // A catalog of another command has no digests.
    let mut walk = atta();
    run(walk.args(["walk", "-q", "--output", "walked", "tree"]).current_dir(scratch.path())).expect_code(0);
    let ran = run(&mut sum(scratch.path(), &["--check", "walked"])).expect_code(4);
    assert!(ran.err().contains("it has no digests"), "{}", ran.err());
    // A shard with a flipped byte, and one that is cut.
    run(&mut sum(scratch.path(), &["--output", "sums", "-j", "1", "tree"])).expect_code(0);
    let shard = scratch.join("sums/part-00000.parquet");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
    run(&mut sum(scratch.path(), &["--check", "sums"])).expect_code(4);
    fs::remove_file(&shard).unwrap();
    run(&mut sum(scratch.path(), &["--check", "sums"])).expect_code(4);
    assert!(tree.as_os_str().as_bytes().ends_with(b"tree"));
}

#[test]
fn a_record_without_a_digest_is_an_error() {
    let scratch = scratch("sum-blank");
    fs::write(scratch.join("file"), "file").unwrap();
    for record in ["", "\n", " \n\r\n\n"] {
        for more in [&[][..], &["file"]] {
            let mut command = sum(scratch.path(), &[&["--check", "-"][..], more].concat());
            let ran = run_with_input(&mut command, record.as_bytes()).expect_code(4);
            assert_eq!(ran.err(), "atta: cannot read record: -: there is no digest in it\n");
            assert_eq!(ran.out(), "");
        }
    }
}

#[test]
fn damaged_catalog_is_an_error_without_panic() {
    let scratch = scratch("sum-damaged");
    let tree = make_directory(scratch.join("tree"));
    fs::write(tree.join("a"), "a\n").unwrap();
    std::os::unix::fs::symlink("t", tree.join("l")).unwrap();
    run(&mut sum(scratch.path(), &["-q", "--output", "sums", "-j", "1", "tree"])).expect_code(0);
    let shard = scratch.join("sums/part-00000.parquet");
    let bytes = fs::read(&shard).unwrap();
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x01;
        fs::write(&shard, &damaged).unwrap();
        let ran = run(&mut sum(scratch.path(), &["--check", "sums"]));
        assert!([0, 1, 4].contains(&ran.code()), "byte {at}: {} {}", ran.code(), ran.err());
        assert!(
            !ran.err().contains("panicked") && !ran.err().contains("backtrace"),
            "byte {at}: {}",
            ran.err()
        );
        if ran.code() == 4 {
            refused += 1;
            let beginning = "atta: cannot read ";
            assert!(
                ran.err().starts_with(beginning) && ran.err().lines().count() == 1,
                "byte {at}: {}",
                ran.err()
            );
        }
    }
    assert!(refused > 50, "{refused}");
}
