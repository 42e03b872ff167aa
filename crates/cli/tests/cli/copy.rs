//! `atta copy` as a program: what it prints, how it ends, and what is left when it is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{self, atta, make_directory, scratch};

/// `atta copy` with these arguments.
fn copy(arguments: &[&Path]) -> std::process::Command {
    let mut command = atta();
    command.arg("copy").args(arguments);
    command
}

/// Files of one size, in some directories, and one that is copied in chunks.
fn tree(below: &Path) -> PathBuf {
    let tree = make_directory(below.join("tree"));
    for directory in 0..10 {
        let directory = make_directory(tree.join(directory.to_string()));
        for file in 0..100 {
            fs::write(directory.join(file.to_string()), format!("{file:05}").repeat(4_000)).unwrap();
        }
    }
    fs::write(tree.join("large"), vec![b'x'; 48 << 20]).unwrap();
    tree
}

/// How many files there are under names of their own; each of them is whole.
fn whole_files(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let mut count = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(".atta.") {
            continue;
        }
        if path.is_dir() {
            count += whole_files(&path);
            continue;
        }
        let content = fs::read(&path).unwrap();
        let expected = match name.as_str() {
            "large" => vec![b'x'; 48 << 20],
            _ => format!("{:05}", name.parse::<u32>().unwrap()).repeat(4_000).into_bytes(),
        };
        assert!(content == expected, "{}: {} bytes", path.display(), content.len());
        count += 1;
    }
    count
}

/// Row 25 of docs/hazards.md.
#[test]
fn kill_at_any_time_leaves_whole_files() {
    let scratch = scratch("copy-killed");
    let tree = tree(scratch.path());
    let target = scratch.join("target");
    let started = Instant::now();
    assert_eq!(copy(&[&tree, &scratch.join("warm")]).stdout(Stdio::null()).status().unwrap().code(), Some(0));
    let whole = started.elapsed();
    let mut counts = Vec::new();
    for step in 0..12_u32 {
        let target = scratch.join(format!("target-{}", step % 3));
        let command = &mut copy(&[&tree, &target]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * (step + 1) / 14);
        // It may have ended.
        let _ = child.kill();
        child.wait().unwrap();
        counts.push(whole_files(scratch.path()));
    }
    let ran = copy(&[&tree.join("."), &make_directory(target.clone())]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(whole_files(&target), 1001, "{counts:?}");
}

#[test]
fn summary_is_printed_as_text_and_as_json() {
    let scratch = scratch("copy-summary");
    let tree = tree(scratch.path());
    std::os::unix::fs::symlink("0", tree.join("link")).unwrap();
    let ran = copy(&[&tree, &scratch.join("one")]).output().unwrap();
    assert_eq!((ran.status.code(), ran.stderr.as_slice()), (Some(0), &b""[..]));
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(text.starts_with("1,001 files, 11 directories, 1 symlink copied, 67.1 MiB in "), "{text}");
    let signature = text.lines().find_map(|line| line.strip_prefix("signature ")).unwrap().to_owned();
    assert_eq!(signature.len(), 64);
    let ran = copy(&[Path::new("--json"), &scratch.join("one"), &scratch.join("two")]).output().unwrap();
    let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
    // A copy of the copy has the same signature.
    assert_eq!(summary["signature"], signature.as_str());
    assert_eq!((&summary["files"], &summary["bytes"]), (&Value::from(1001), &Value::from(70_331_648)));
    assert_eq!(summary["failed"], 0);
}

#[test]
fn uncopied_entries_are_listed_and_set_the_exit_code() {
    let scratch = scratch("copy-failed");
    let tree = make_directory(scratch.join("tree"));
    fs::write(tree.join("file"), "content").unwrap();
    fs::write(tree.join("other"), "content").unwrap();
    let target = make_directory(scratch.join("target"));
    make_directory(target.join("tree"));
    make_directory(target.join("tree/file"));
    fs::write(target.join("tree/file/in"), "").unwrap();
    let errors = scratch.join("errors");
    let ran = copy(&[Path::new("--errors"), &errors, &tree, &target]).output().unwrap();
    assert_eq!(ran.status.code(), Some(3));
    let message = String::from_utf8(ran.stderr).unwrap();
    let file = tree.join("file");
    assert!(message.contains(&format!("cannot give the copy its name: {}: ", file.display())), "{message}");
    assert!(String::from_utf8(ran.stdout).unwrap().contains("not copied: 1 entry"));
    let row: Value = serde_json::from_str(fs::read_to_string(&errors).unwrap().trim()).unwrap();
    assert_eq!(row["path"], file.display().to_string().as_str());
    // Arguments that make no sense, and things that are not there.
    for (arguments, code) in [
        (vec![tree.as_path(), tree.as_path()], 2),
        (vec![tree.as_path()], 2),
        (vec![Path::new("nothing-here"), target.as_path()], 4),
        (vec![Path::new(""), target.as_path()], 2),
    ] {
        let ran = copy(&arguments).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty());
    }
}

#[test]
fn an_interrupted_copy_says_so() {
    let scratch = scratch("copy-interrupted");
    let tree = tree(scratch.path());
    let mut command = copy(&[Path::new("--iops"), Path::new("20"), &tree, &scratch.join("target")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(130));
    assert!(String::from_utf8(ran.stdout).unwrap().starts_with("interrupted: results are incomplete\n"));
    whole_files(&scratch.join("target"));
}

#[test]
fn what_is_kept_is_named_as_cp_and_chown_name_it() {
    let scratch = scratch("copy-keep");
    let tree = make_directory(scratch.join("tree"));
    fs::write(tree.join("file"), "content").unwrap();
    let ran = |arguments: &[&str], name: &str| {
        let arguments: Vec<_> = arguments.iter().map(Path::new).collect();
        copy(&[&arguments[..], &[&tree, &scratch.join(name)]].concat()).output().unwrap()
    };
    let old = fs::File::options().write(true).open(tree.join("file")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let modified = |name: &str| fs::metadata(scratch.join(name)).unwrap().modified().unwrap();
    assert_eq!(ran(&["--preserve", "mode,times"], "times").status.code(), Some(0));
    assert_eq!(modified("times/file"), std::time::UNIX_EPOCH);
    assert_eq!(ran(&["--preserve=none"], "none").status.code(), Some(0));
    assert!(modified("none/file") > std::time::UNIX_EPOCH);
    if rustix::process::geteuid().is_root() {
        let rules = scratch.join("list-of-rules");
        fs::write(&rules, "# those of the old machine\nuid:0=12345   # root\n\ngid:*=54321\n").unwrap();
        let rules = format!("@{}", rules.display());
        for (name, map) in
            [("all", "12345:54321"), ("rules", "uid:root=12345,gid:0-9=54321"), ("file", &rules)]
        {
            assert_eq!(ran(&["--chown", map], name).status.code(), Some(0));
            let stat = rustix::fs::stat(scratch.join(name).join("file")).unwrap();
            assert_eq!((stat.st_uid, stat.st_gid), (12345, 54321), "{map}");
        }
    }
    for arguments in [
        &["--preserve", "all,mode"][..],
        &["--preserve", "mode", "--xattrs", "user.*"],
        &["--xattrs", "all,user.*"],
        &["--chown", "no-such-user"],
        &["--chown", "uid:1=2,5"],
    ] {
        let ran = ran(arguments, "refused");
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8(ran.stderr).unwrap().contains("hint: "), "{arguments:?}");
        assert!(!scratch.join("refused").exists());
    }
}

#[test]
fn what_is_there_is_left_or_mended_as_asked() {
    let scratch = scratch("copy-again");
    let tree = make_directory(scratch.join("tree"));
    fs::write(tree.join("file"), "content").unwrap();
    let target = make_directory(scratch.join("target"));
    let ran = |option: &str| {
        let ran = copy(&[Path::new(option), &tree.join("."), &target]).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
    };
    assert!(ran("--update").1.contains("signature "));
    for option in ["--update", "--ignore-existing"] {
        let (code, text) = ran(option);
        assert_eq!(code, Some(0));
        let line = "\nskipped: 1 entry already there; not read, so there is no signature\n";
        assert!(text.contains(line) && !text.contains("\nsignature "), "{text}");
    }
    fs::write(tree.join("file"), "other").unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&target.join("file"));
    assert_eq!(ran("--in-place").0, Some(0));
    assert_eq!(
        (fs::read(target.join("file")).unwrap(), inode(&target.join("file"))),
        (b"other".to_vec(), before)
    );
    let both =
        copy(&[Path::new("--update"), Path::new("--ignore-existing"), &tree, &target]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_rehearsal_lists_names_and_leaves_nothing() {
    let scratch = scratch("copy-dry");
    let tree = make_directory(scratch.join("tree"));
    fs::write(tree.join("odd\nname"), "content").unwrap();
    fs::write(tree.join("there"), "content").unwrap();
    let target = make_directory(scratch.join("target"));
    fs::write(target.join("there"), "old").unwrap();
    let options = [Path::new("--dry-run"), Path::new("-v"), &tree.join("."), &target];
    let ran = copy(&options).current_dir(scratch.path()).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    let text = String::from_utf8(ran.stdout).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let path = |name: &str| tree.join(".").join(name).display().to_string();
    let expected = [format!("new       {}", path("odd\\nname")), format!("replaced  {}", path("there"))];
    assert_eq!(lines, expected);
    let summary = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(summary, "2 files, 1 directory would be copied, 14 B; nothing was written\n");
    let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((names, fs::read(target.join("there")).unwrap()), (vec!["there".into()], b"old".to_vec()));
}

#[test]
fn what_failed_is_copied_from_the_list_of_it() {
    let scratch = scratch("copy-listed");
    let tree = make_directory(scratch.join("tree"));
    for name in ["one", "two\n"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let target = make_directory(scratch.join("target"));
    make_directory(target.join("two\n"));
    make_directory(target.join("two\n/in the way"));
    let errors = scratch.join("errors");
    let ran = copy(&[Path::new("--errors"), &errors, &tree.join("."), &target]).output().unwrap();
    assert_eq!(ran.status.code(), Some(3));
    atta_testkit::trees::flat(&tree.join("later"), 1).unwrap();
    fs::remove_dir_all(target.join("two\n")).unwrap();
    let again = [Path::new("--json"), Path::new("--from-list"), &errors, &tree.join("."), &target];
    let ran = copy(&again).output().unwrap();
    let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), &summary["files"]), (Some(0), &Value::from(1)));
    assert!(!target.join("later").exists());
    assert_eq!(fs::read_to_string(target.join("two\n")).unwrap(), "two\n");
    // Names below SOURCE; a list that is broken, one that leads out, one that is written over.
    let list = scratch.join("list");
    for (content, code) in
        [("later\0one\0", 0), ("later\none\n", 4), ("../tree/one\0", 4), ("/etc/passwd\0", 4), ("none\0", 3)]
    {
        fs::write(&list, content).unwrap();
        let ran = copy(&[Path::new("--from-list"), &list, &tree, &target]).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{content:?}");
    }
    assert!(target.join("tree/later").is_dir() && target.join("tree/one").is_file());
    let same = [Path::new("--from-list"), &list, Path::new("--errors"), &list, &tree, &target];
    assert_eq!(copy(&same).output().unwrap().status.code(), Some(2));
}

#[test]
fn data_path_is_selected_and_reported() {
    let scratch = scratch("copy-ways");
    let tree = make_directory(scratch.join("tree"));
    fs::write(tree.join("file"), vec![b'x'; 2 << 20]).unwrap();
    let ran = |options: &[&str], name: &str| {
        let options: Vec<_> = options.iter().map(Path::new).collect();
        copy(&[&options[..], &[&tree, &scratch.join(name)]].concat()).output().unwrap()
    };
    let summary: Value = serde_json::from_slice(&ran(&["--direct", "--json"], "direct").stdout).unwrap();
    assert_eq!((&summary["files"], &summary["cloned"]), (&Value::from(1), &Value::from(0)));
    assert!(summary["not_direct"].as_u64().unwrap() <= 1);
    let slow = ran(&["--bandwidth", "20M", "--json"], "slow");
    let summary: Value = serde_json::from_slice(&slow.stdout).unwrap();
    assert!(summary["elapsed_seconds"].as_f64().unwrap() >= 0.06, "{summary}");
    for name in ["direct/file", "slow/file"] {
        assert_eq!(fs::read(scratch.join(name)).unwrap(), fs::read(tree.join("file")).unwrap());
    }
    for options in [&["--reflink", "always"][..], &["--bandwidth", "0"]] {
        let ran = ran(options, "refused");
        assert_eq!(ran.status.code(), Some(2), "{options:?}");
        assert!(!scratch.join("refused").exists());
    }
}

#[test]
fn files_are_reported_by_size_time_and_event() {
    let scratch = scratch("copy-report");
    let tree = tree(scratch.path());
    let events = scratch.join("events");
    let options = ["-v", "--events"].map(Path::new);
    let ran = copy(&[options[0], options[1], &events, &tree, &scratch.join("one")]).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["below", "64.0", "KiB", "1,000", "19.1", "MiB"]), "{text}");
    assert!(lines.contains(&vec!["below", "256.0", "MiB", "1", "48.0", "MiB"]), "{text}");
    let slow = lines.iter().skip_while(|line| line[0] != "slowest").skip(1);
    let slow: Vec<_> = slow.take_while(|line| line[0] != "rank").collect();
    assert_eq!(slow.len(), 10, "{text}");
    assert!(slow.iter().all(|line| line.last().unwrap().starts_with(tree.to_str().unwrap())), "{text}");
    let [.., head, row] = lines.as_slice() else { panic!("{text}") };
    assert_eq!(head[..6], ["rank", "files", "bytes", "rate", "copying", "links"], "{text}");
    assert_eq!(row[..4], ["0", "1,001", "67.1", "MiB"], "{text}");
    let lines = fs::read_to_string(&events).unwrap();
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["event"], "start");
    let end = rows.last().unwrap();
    assert_eq!((&end["event"], &end["summary"]["files"]), (&"end".into(), &1001.into()));
    assert_eq!(end["summary"]["sizes"][2]["files"], 1000);
    let [row] = end["summary"]["by_rank"].as_array().unwrap().as_slice() else { panic!("{end}") };
    assert_eq!((&row["files"], &row["bytes"]), (&end["summary"]["files"], &end["summary"]["bytes"]));
    let phases = row["phase_seconds"].as_object().unwrap();
    let sum: f64 = phases.values().map(|seconds| seconds.as_f64().unwrap()).sum();
    assert!((sum - end["summary"]["elapsed_seconds"].as_f64().unwrap()).abs() < 1e-6, "{row}");
    assert!(
        phases["copying"].as_f64().unwrap() > 0.0 && row["busy_seconds"].as_f64().unwrap() > 0.0,
        "{row}"
    );
    // Slow enough for a line a second.
    let slowly = [Path::new("--bandwidth"), Path::new("30M"), options[1], &events, &tree];
    let ran = copy(&[&slowly[..], &[&scratch.join("two")]].concat()).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    let lines = fs::read_to_string(&events).unwrap();
    let progress = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let progress: Vec<_> = progress.filter(|event| event["event"] == "progress").collect();
    assert!(!progress.is_empty() && progress[0]["entries_found"].as_u64().unwrap() > 0, "{lines}");
    // The scan has not finished so early.
    let first = progress[0].as_object().unwrap();
    assert!(first["is_growing"] == true && first.contains_key("seconds_left"), "{lines}");
    let nowhere = [Path::new("--events"), Path::new("/no/where"), &tree, &scratch.join("three")];
    assert_eq!(copy(&nowhere).output().unwrap().status.code(), Some(4));
    assert!(!scratch.join("three").exists());
}

#[test]
fn a_copy_that_is_refused_leaves_target_alone() {
    use std::os::unix::fs::MetadataExt;
    let scratch = scratch("copy-refused");
    let (source, target) = (make_directory(scratch.join("source")), make_directory(scratch.join("target")));
    make_directory(source.join("new"));
    let changed = || fs::metadata(&target).map(|found| (found.ctime(), found.ctime_nsec())).unwrap();
    let before = changed();
    for arguments in
        [&["--verify", "--digest", "none"][..], &["--from-list", "/nowhere"], &["--reflink", "always"]]
    {
        let output = copy(&[&source, &target]).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!(changed(), before, "{arguments:?}");
    }
}

#[test]
fn stripes_are_refused_where_there_are_none() {
    let scratch = scratch("copy-stripe");
    let tree = make_directory(scratch.join("tree"));
    for (stripe, words) in [("4:1M", "TARGET is not on Lustre"), ("keep", "not on Lustre"), ("4:1", "64K")] {
        let ran = copy(&[Path::new("--stripe"), Path::new(stripe), &tree, &scratch.join("target")]).output();
        let ran = ran.unwrap();
        assert_eq!(ran.status.code(), Some(2), "{stripe}");
        assert!(String::from_utf8(ran.stderr).unwrap().contains(words), "{stripe}");
        assert!(!scratch.join("target").exists());
    }
}

#[test]
fn another_copy_to_the_same_target_is_reported() {
    let scratch = scratch("copy-crowded");
    let (source, target) = (make_directory(scratch.join("source")), make_directory(scratch.join("target")));
    // As a copy has it while it runs.
    let other = fs::File::open(&target).unwrap();
    other.lock().unwrap();
    let messages = |more: &[&str]| {
        let ran = copy(&[&source, &target]).args(more).output().unwrap();
        assert!(ran.status.success());
        String::from_utf8(ran.stderr).unwrap()
    };
    let said = "atta: note: another copy is writing to TARGET (who is not known)\nhint: files stay whole";
    assert!(messages(&[]).starts_with(said), "{}", messages(&[]));
    let refused = copy(&[Path::new("--exclusive"), &source, &target]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    assert_eq!(messages(&["--quiet"]), "");
    // Also for a child process of another test, which has the descriptor until it runs a program.
    other.unlock().unwrap();
    assert!(!messages(&[]).contains("note"));
}

#[test]
fn chunks_larger_than_any_file_are_taken() {
    let scratch = scratch("huge-chunks");
    let (tree, target) = (make_directory(scratch.join("tree")), scratch.join("target"));
    fs::write(tree.join("file"), vec![b'x'; 17 << 20]).unwrap();
    for size in ["1P", "4E", "8E"] {
        let one = ["sum", "--signature", "--chunk", size];
        let signature = support::run(atta().args(one).arg(&tree)).expect_code(0).out();
        let copied =
            support::run(atta().args(["copy", "--chunk", size]).args([&tree, &target])).expect_code(0);
        assert!(copied.out().contains(signature.trim()), "{}", copied.out());
        support::run(atta().args(["verify", "--content", "--chunk", size]).args([&tree, &target]))
            .expect_code(0);
        fs::remove_dir_all(&target).unwrap();
    }
}
