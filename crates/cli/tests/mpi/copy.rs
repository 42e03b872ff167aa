//! `atta copy` on real ranks: what one process makes, whatever the schedule; and errors are reported once.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use atta_testkit::mpi::{self, Mpi};
use atta_testkit::skip::skipped;
use atta_testkit::trees;
use serde_json::Value;

use crate::support::{make_directory, walk};
use crate::{SCHEDULES, expect_code, mpis, text, three_hosts, tree};

fn alone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atta")).arg("copy").args(arguments).output().unwrap()
}

fn on_ranks(mpi: &Mpi, count: u32, arguments: &[&str]) -> Output {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).arg("copy").args(arguments).stdin(Stdio::null());
    mpi::alone(&mut command)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Everything below a root that a copy keeps, by the path below it.
fn kept(root: &str) -> BTreeMap<String, Value> {
    let output = walk(["--format", "ndjson", "-q"]).arg(root).output().unwrap();
    let rows = output.stdout.split(|byte| *byte == b'\n').filter(|row| !row.is_empty());
    let kept = rows.map(|row| {
        let mut row: Value = serde_json::from_slice(row).unwrap();
        let fields = row.as_object_mut().unwrap();
        for field in ["inode", "device", "atime", "ctime", "btime", "blocks", "depth"] {
            fields.remove(field);
        }
        // The file system chooses size and link count of a directory.
        if fields["kind"] == "directory" {
            fields.remove("size");
            fields.remove("nlink");
        }
        let mut path = fields.remove("path").unwrap().to_string().replacen(root, "", 1);
        if let Some(raw) = fields.remove("path_raw") {
            // Two names may look the same.
            path.push_str(&raw.as_str().unwrap()[2 * root.len()..]);
        }
        if path.contains("hard-outside") {
            // Its other name is not copied.
            fields.remove("nlink");
        }
        (path, row)
    });
    kept.collect()
}

fn assert_same(source: &BTreeMap<String, Value>, target: &BTreeMap<String, Value>, what: &str) {
    for (path, row) in source {
        assert_eq!(target.get(path), Some(row), "{what}: {path}");
    }
    assert_eq!(source.len(), target.len(), "{what}");
}

/// The tree of the other tests, with times that a copy may not lose, and a file of several chunks.
fn source(name: &str) -> (atta_testkit::scratch::Scratch, String) {
    let (scratch, tree) = tree(name);
    trees::times(&make_directory(Path::new(&tree).join("times"))).unwrap();
    let bytes: Vec<u8> = (0..6_u32 << 18).flat_map(u32::to_le_bytes).collect();
    std::fs::write(Path::new(&tree).join("large"), bytes).unwrap();
    (scratch, tree)
}

#[test]
fn ranks_copy_what_one_process_copies() {
    let test = "ranks_copy_what_one_process_copies";
    let (scratch, tree) = source("mpi-copy");
    let place = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    let expected = json(&alone(&["--json", &tree, &place("alone")]));
    let source = kept(&tree);
    for (index, mpi) in mpis(test).iter().enumerate() {
        let schedules = SCHEDULES.into_iter().zip([2, 3, 5, 2, 8, 3]).enumerate();
        // The schedules are the same whatever carries their messages: each MPI has some of them.
        let schedules = schedules.filter(|(number, _)| (number + index) % 2 == 0);
        // Each has these numbers of ranks.
        for (number, (schedule, count)) in schedules.chain([(6, ("lifeline", 3)), (7, ("lifeline", 1))]) {
            let what = format!("{}: {schedule}, {count} ranks", mpi.version);
            let target = place(&format!("copy-{number}"));
            let fsync = ["batch", "none", "file"][number / 2 % 3];
            let arguments =
                ["--json", "--chunk", "1M", "--fsync", fsync, "--schedule", schedule, &tree, &target];
            let output = on_ranks(mpi, count, &arguments);
            expect_code(&output, 0, &what);
            let summary = json(&output);
            for field in ["files", "bytes", "directories", "symlinks", "hard_links", "signature", "failed"] {
                assert_eq!(summary[field], expected[field], "{what}: {field}");
            }
            assert_eq!(summary["ranks"], count, "{what}");
            assert_same(&source, &kept(&target), &what);
            // What is there has the same bytes.
            let again = place(&format!("again-{number}"));
            assert_eq!(json(&alone(&["--json", &target, &again]))["signature"], expected["signature"]);
            std::fs::remove_dir_all(&target).unwrap();
            std::fs::remove_dir_all(&again).unwrap();
        }
    }
}

#[test]
fn refusal_or_failure_of_any_rank_is_reported_once() {
    let test = "refusal_or_failure_of_any_rank_is_reported_once";
    let (scratch, tree) = source("mpi-copy-failed");
    let target = make_directory(scratch.join("target"));
    // Directories where files are to go.
    for number in 0..10 {
        std::fs::create_dir_all(target.join(format!("tree/flat/again-{number}/x"))).unwrap();
    }
    let (inside, errors) = (format!("{tree}/flat"), scratch.join("errors"));
    let (target, errors) = (target.to_str().unwrap(), errors.to_str().unwrap());
    for mpi in mpis(test) {
        let fails = |output: &Output, code, what: &str, times| {
            expect_code(output, code, what);
            assert_eq!(text(&output.stderr).matches(what).count(), times, "{}", text(&output.stderr));
        };
        fails(&on_ranks(mpi, 3, &[&tree, &inside]), 2, "TARGET is in it", 1);
        fails(&on_ranks(mpi, 3, &["/nothing/here", target]), 4, "cannot stat SOURCE", 1);
        let output = on_ranks(mpi, 3, &["--json", "--errors", errors, &tree, target]);
        fails(&output, 3, "is a directory (EISDIR)", 5);
        let summary = json(&output);
        assert_eq!((&summary["failed"], &summary["signature"]), (&Value::from(5), &Value::Null));
        assert_eq!(std::fs::read_to_string(errors).unwrap().lines().count(), 5);
    }
}

/// A copy of an earlier run, of which some files have changed since, and where directories are in the way of others.
fn earlier(tree: &str, target: &str) {
    expect_code(&alone(&["--quiet", "--fsync", "none", tree, target]), 0, "an earlier run");
    std::fs::write(format!("{target}/large"), "shorter").unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    for number in 0..90 {
        let path = Path::new(target).join(format!("flat/f{number:07}"));
        assert!(path.exists(), "{}", path.display());
        if number % 9 == 0 {
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
            std::fs::File::open(&path).unwrap().set_modified(old).unwrap();
        } else {
            std::fs::write(&path, "longer than its source").unwrap();
        }
    }
}

fn inodes(target: &str) -> Vec<u64> {
    let inode = |number| std::fs::metadata(format!("{target}/flat/f{number:07}")).unwrap().ino();
    (1..9).map(inode).collect()
}

/// What a summary has of what was done, and not of how.
fn counts(summary: &Value) -> Vec<Value> {
    let fields = [
        "files",
        "bytes",
        "directories",
        "symlinks",
        "hard_links",
        "names_elsewhere",
        "special_files",
        "skipped",
        "failed",
        "errors",
        "not_kept",
        "mended",
        "signature",
    ];
    fields.iter().map(|field| summary[field].clone()).collect()
}

/// Each rank has a row; all bytes, and all the time, are in them.
fn assert_rows(summary: &Value, ranks: usize, what: &str) {
    let rows = summary["by_rank"].as_array().unwrap();
    assert_eq!((rows.len(), &summary["ranks"]), (ranks, &Value::from(ranks)), "{what}");
    let files: u64 = rows.iter().map(|row| row["files"].as_u64().unwrap()).sum();
    assert_eq!(summary["files"], files, "{what}");
    for (rank, row) in rows.iter().enumerate() {
        let phases = row["phase_seconds"].as_object().unwrap().values();
        let sum: f64 = phases.map(|seconds| seconds.as_f64().unwrap()).sum();
        assert_eq!(row["rank"], rank, "{what}");
        assert!((sum - row["elapsed_seconds"].as_f64().unwrap()).abs() < 1e-6, "{what}: {row}");
    }
}

#[test]
fn options_mean_on_ranks_what_they_mean_alone() {
    let test = "options_mean_on_ranks_what_they_mean_alone";
    let (scratch, tree) = source("mpi-copy-options");
    let tree = format!("{tree}/.");
    let place = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    let (errors, list) = (place("errors"), place("list"));
    // Nothing with holes, which take no time.
    std::fs::write(&list, b"large\0flat/f0000001\0flat/again-0\0flat/again-1\0names\0chain\0gone\0").unwrap();
    let mut update = vec!["--json", "--update", "--verify", "--fsync", "file", "--errors", &errors];
    update.extend(["--preserve", "mode,owner,times,links,xattrs", "--xattrs", "user.b*"]);
    if atta_testkit::skip::is_root() {
        update.extend(["--chown", "uid:0=70000,gid:0-9=70010-70019"]);
    }
    let in_place = ["--json", "--in-place", "--digest", "none", "--fsync", "none"];
    let listed =
        ["--json", "--ignore-existing", "--from-list", &list, "--bandwidth", "8M", "--iops", "100000"];
    let runs = [(&update[..], true), (&in_place, true), (&listed, false)];
    // Each with what is there beforehand.
    let run = |number: usize, options: &[&str], is_there: bool, run: &dyn Fn(&[&str]) -> Output| {
        let target = place(&format!("target-{number}"));
        if is_there {
            earlier(&tree, &target);
        }
        let before = is_there.then(|| inodes(&target));
        let output = run(&[options, &["--chunk", "1M", &tree, &target]].concat());
        expect_code(&output, 3, &options.join(" "));
        let kept = kept(&target);
        let is_in_place = before.map(|before| before == inodes(&target));
        std::fs::remove_dir_all(&target).unwrap();
        (json(&output), kept, is_in_place)
    };
    let expected = runs.map(|(options, is_there)| run(0, options, is_there, &|all| alone(all)));
    assert_eq!(expected[1].2, Some(true));
    for mpi in mpis(test) {
        for (number, (options, is_there)) in runs.iter().enumerate() {
            let what = format!("{}: {}", mpi.version, options.join(" "));
            let (summary, kept, is_in_place) = run(1, options, *is_there, &|all| on_ranks(mpi, 3, all));
            let (alone_summary, alone_kept, alone_is_in_place) = &expected[number];
            assert_eq!(counts(&summary), counts(alone_summary), "{what}");
            // What has several names is read back by each rank that met one.
            let verified =
                [&summary, alone_summary].map(|summary| summary["verified_bytes"].as_u64().unwrap());
            assert!(verified[0] >= verified[1], "{what}: {verified:?}");
            assert_same(alone_kept, &kept, &what);
            assert_eq!(is_in_place, *alone_is_in_place, "{what}");
            assert_rows(&summary, 3, &what);
            if number == 0 {
                let failed = std::fs::read_to_string(&errors).unwrap().lines().count();
                assert_eq!(summary["failed"], failed, "{what}");
            }
            if options.contains(&"--bandwidth") {
                // A third for each rank, but for what it does not wait for: the last block and some moments.
                let share = f64::from(8 << 20) / 3.0;
                for row in summary["by_rank"].as_array().unwrap() {
                    let least = (row["bytes"].as_f64().unwrap() - f64::from(256 << 10)) / share - 0.1;
                    assert!(row["elapsed_seconds"].as_f64().unwrap() >= least, "{what}: {row}");
                }
            }
        }
    }
}

#[test]
fn ranks_of_three_hosts_copy_a_tree_together() {
    let test = "ranks_of_three_hosts_copy_a_tree_together";
    let Some(hosts) = three_hosts(test) else { return };
    let (scratch, tree) = source("mpi-copy-hosts");
    let source = kept(&tree);
    for (number, mpi) in mpis(test).iter().enumerate() {
        let target = scratch.join(format!("copy-{number}"));
        let target = target.to_str().unwrap();
        let Some(mut command) = mpi.launch_on(&hosts, 2, Some(&mpi.plugin)) else {
            skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
            continue;
        };
        command.arg(env!("CARGO_BIN_EXE_atta")).args(["copy", "--json", "--chunk", "1M", &tree, target]);
        let output = mpi::alone(command.stdin(Stdio::null()));
        expect_code(&output, 0, &mpi.version);
        assert_eq!(json(&output)["ranks"], 6);
        assert_same(&source, &kept(target), &mpi.version);
    }
}
