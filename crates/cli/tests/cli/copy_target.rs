//! `atta copy`: what TARGET means, and that the commands that messages advise do what they say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::{atta, scratch};

fn make_directory(path: PathBuf) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    path
}

fn copy_in(directory: &Path, words: &[&str]) -> Output {
    atta().arg("copy").args(words).current_dir(directory).output().unwrap()
}

fn err(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// The command that a hint advises, run as it is printed.
fn follow(directory: &Path, message: &str) -> Output {
    let hint =
        message.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_else(|| panic!("{message}"));
    let (_, command) = hint.split_once(": ").unwrap_or_else(|| panic!("{hint}"));
    Command::new("bash").args(["-c", command]).current_dir(directory).output().unwrap()
}

fn verify(directory: &Path, source: &str, target: &str) {
    // What an interrupted copy has left under other names is not compared.
    let words = ["verify", "--content", "--exclude", ".atta.*", source, target];
    let ran = atta().args(words).current_dir(directory).output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), err(&ran));
}

#[test]
fn advice_at_an_interrupt_completes_the_tree() {
    let scratch = scratch("copy-advice");
    let here = scratch.path();
    for directory in 0..30 {
        let directory = make_directory(here.join(format!("big tree/{directory}")));
        fs::write(directory.join("file"), vec![b'x'; 1000]).unwrap();
    }
    let mut command = atta();
    command.args(["copy", "--no-job", "--iops", "40", "big tree", "new"]).current_dir(here);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // If it has not begun by then, or is done, the test proves less.
    std::thread::sleep(Duration::from_millis(700));
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(130), "{}", err(&ran));
    let message = err(&ran);
    assert!(message.contains(" copy --update -T --no-job --iops 40 'big tree' new"), "{message}");
    let ran = follow(here, &message);
    assert!(ran.status.success(), "{}", err(&ran));
    assert!(!here.join("new/big tree").exists(), "the tree was copied into itself");
    verify(here, "big tree", "new");
}

#[test]
fn no_target_directory_makes_target_the_copy() {
    let scratch = scratch("copy-T");
    let here = scratch.path();
    fs::write(make_directory(here.join("tree")).join("file"), "new").unwrap();
    fs::write(make_directory(here.join("there")).join("kept"), "old").unwrap();
    fs::write(here.join("plain"), "plain").unwrap();
    for target in ["there", "there/", "fresh", "other/"] {
        let ran = copy_in(here, &["-T", "tree", target]);
        assert!(ran.status.success(), "{target}: {}", err(&ran));
        assert_eq!(fs::read_to_string(here.join(target).join("file")).unwrap(), "new", "{target}");
        assert!(!here.join(target).join("tree").exists(), "{target}");
    }
    assert_eq!(fs::read_to_string(here.join("there/kept")).unwrap(), "old");
    // As cp has it: a file does not replace a directory, and one name is for one SOURCE.
    for (words, code) in [
        (&["-T", "plain", "there"][..], 2),
        (&["-T", "plain", "there/"], 2),
        (&["-T", "plain", "tree", "there"], 2),
    ] {
        let ran = copy_in(here, words);
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {}", err(&ran));
    }
    let ran = copy_in(here, &["--dry-run", "-T", "tree", "there"]);
    assert!(String::from_utf8_lossy(&ran.stdout).starts_with("1 file, 1 directory would be copied"));
}

#[test]
fn a_file_is_not_copied_to_a_new_name_with_a_slash() {
    let scratch = scratch("copy-slash");
    let here = scratch.path();
    fs::write(here.join("file"), "file").unwrap();
    std::os::unix::fs::symlink("file", here.join("link")).unwrap();
    make_directory(here.join("tree"));
    for source in ["file", "link"] {
        for more in [&[][..], &["-T"], &["--dry-run"]] {
            let ran = copy_in(here, &[more, &[source, "new/"]].concat());
            assert_eq!(ran.status.code(), Some(4), "{source} {more:?}: {}", err(&ran));
            let message =
                "atta: cannot make TARGET: ./new/: not a directory (ENOTDIR)\nhint: SOURCE is not a";
            assert!(err(&ran).starts_with(message), "{}", err(&ran));
            assert!(fs::symlink_metadata(here.join("new")).is_err());
        }
    }
    assert!(copy_in(here, &["tree", "new/"]).status.success());
    assert!(here.join("new").is_dir());
}

#[test]
fn directory_not_made_is_reported_by_its_path() {
    let scratch = scratch("copy-not-made");
    let here = scratch.path();
    make_directory(here.join("tree/in"));
    let target = make_directory(here.join("target/tree"));
    fs::write(target.join("in"), "in the way").unwrap();
    for (more, counted) in [(&[][..], "1 directory copied"), (&["--dry-run"], "1 directory would be copied")]
    {
        let errors = here.join("errors");
        let words = [more, &["--errors", "errors", "tree", "target"]].concat();
        let ran = copy_in(here, &words);
        assert_eq!(ran.status.code(), Some(3), "{}", err(&ran));
        assert_eq!(err(&ran), "cannot make the directory: target/tree/in: not a directory (ENOTDIR)\n");
        let out = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(out.starts_with(counted), "{out}");
        let row: serde_json::Value =
            serde_json::from_str(fs::read_to_string(&errors).unwrap().trim()).unwrap();
        // A list for --from-list names the source.
        assert_eq!((&row["path"], &row["at"]), (&"tree/in".into(), &"target/tree/in".into()));
    }
}
