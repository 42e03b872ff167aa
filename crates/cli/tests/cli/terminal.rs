//! On a terminal: no byte of a name reaches it raw, rows come as they are found, progress is taken off again.

use std::process::Command;

use atta_testkit::trees;

use crate::support::{
    Ran, atta, bytes_of, give_to_nobody, lines, make_directory, names_in, python, run, scratch, set_mode,
    unprivileged,
};

/// Runs a command with standard output, or standard error, on a terminal; what arrived there is the standard output.
fn on_terminal(test: &str, which: &str, command: &Command) -> Option<Ran> {
    let mut terminal = python(test, "terminal.py", &["pty"])?;
    terminal.arg(which).arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        terminal.current_dir(directory);
    }
    Some(run(&mut terminal))
}

#[track_caller]
fn assert_harmless(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("bytes on the terminal are UTF-8");
    let raw = text.chars().find(|&each| each.is_control() && !matches!(each, '\n' | '\t'));
    assert_eq!(raw, None, "a control character on the terminal");
    for turning in ['\u{202e}', '\u{200b}', '\u{feff}'] {
        assert!(!text.contains(turning), "{turning:?} on the terminal");
    }
}

#[test]
fn names_are_escaped_on_a_terminal() {
    let scratch = scratch("terminal");
    trees::hostile_names(&scratch.join("tree")).unwrap();
    let mut command = atta();
    command.args(["walk", "--print", "--progress", "never", "tree"]).current_dir(scratch.path());
    let Some(ran) = on_terminal("names_are_escaped_on_a_terminal", "stdout", &command) else { return };
    let ran = ran.expect_code(0);
    assert_harmless(&ran.stdout);
    let raw = run(&mut command).expect_code(0);
    let mut expected: Vec<_> = atta_testkit::oracle::list(&scratch.join("tree"))
        .unwrap()
        .into_keys()
        .map(|path| atta_entry::escape(&path[bytes_of(scratch.path()).len() + 1..]).into_bytes())
        .collect();
    expected.sort();
    assert_eq!(lines(&ran.stdout), expected);
    assert_ne!(raw.stdout, ran.stdout, "through a pipe the names are as they are");
    let mut command = atta();
    command.args(["walk", "--format", "text", "--targets", "tree"]).current_dir(scratch.path());
    let Some(ran) = on_terminal("names_are_escaped_on_a_terminal", "stdout", &command) else { return };
    assert_harmless(&ran.expect_code(0).stdout);
}

#[test]
fn names_in_errors_are_escaped() {
    let test = "names_in_errors_are_escaped";
    let Some((scratch, nobody)) = unprivileged(test) else { return };
    let tree = make_directory(scratch.join("tree"));
    trees::hostile_names(&tree).unwrap();
    for name in names_in(&tree.join("directories")) {
        set_mode(&tree.join("directories").join(name), 0o000);
    }
    give_to_nobody(scratch.path());
    let mut command = nobody();
    let ran = run(command.args(["walk", "-q", "-v", "tree"]).current_dir(scratch.path()));
    // -q and -v exclude each other.
    ran.expect_code(2);
    let mut command = nobody();
    command.args(["walk", "-v", "--progress", "never", "tree"]).current_dir(scratch.path());
    let ran = run(&mut command).expect_code(3);
    assert_harmless(&ran.stderr);
    assert_eq!(ran.errors("cannot open directory: tree/directories/"), trees::HOSTILE_NAMES.len());
}

#[test]
fn messages_about_arguments_are_escaped() {
    let scratch = scratch("arguments");
    let hostile = "a\u{1b}[31m\nb";
    for arguments in [
        &["--output", "./a\u{1b}[31m\nb/c", "."][..],
        &["--errors", "./a\u{1b}[31m\nb/c", "."],
        &["--events", "./a\u{1b}[31m\nb/c", "."],
        &["--from-list", hostile, "."],
    ] {
        let mut command = atta();
        let ran = run(command.arg("walk").args(arguments).current_dir(scratch.path())).expect_code(4);
        assert!(!ran.err().contains('\u{1b}'), "{arguments:?}: {}", ran.err());
    }
}

#[test]
fn progress_shows_that_remaining_work_grows() {
    let test = "progress_shows_that_remaining_work_grows";
    let scratch = scratch("copy-progress");
    trees::flat(&scratch.join("tree"), 300).unwrap();
    let mut command = atta();
    // By its rate it takes a second and more: time enough for the line to be drawn.
    command.args([
        "copy",
        "--quiet",
        "--iops",
        "300",
        "--progress",
        "always",
        "--fsync",
        "none",
        "tree",
        "copy",
    ]);
    command.current_dir(scratch.path());
    let Some(ran) = on_terminal(test, "stderr", &command) else { return };
    let ran = ran.expect_code(0);
    assert!(
        ran.out().contains(" copied; still finding; ") && ran.out().contains(" found so far; "),
        "{:?}",
        ran.out()
    );
    assert!(ran.out().trim_end_matches(['\r', '\n']).ends_with("\u{1b}[2K"), "{:?}", ran.out());
}

#[test]
fn progress_is_shown_and_taken_off_again() {
    let scratch = scratch("progress");
    trees::flat(&scratch.join("flat"), 300).unwrap();
    let mut command = atta();
    // By its rate it takes a second and more: time enough for the line to be drawn.
    command.args(["walk", "--quiet", "--iops", "300", "--progress", "always", "."]);
    command.current_dir(scratch.path());
    let Some(ran) = on_terminal("progress_is_shown_and_taken_off_again", "stderr", &command) else { return };
    let ran = ran.expect_code(0);
    assert!(ran.out().contains(" entries so far, "), "{:?}", ran.out());
    // The last thing that happens to the line is that it is cleared.
    assert!(ran.out().trim_end_matches(['\r', '\n']).ends_with("\u{1b}[2K"), "{:?}", ran.out());
    // Quiet means no progress either, unless asked for.
    let mut command = atta();
    command.args(["walk", "--quiet", "."]).current_dir(scratch.path());
    let Some(ran) = on_terminal("progress_is_shown_and_taken_off_again", "stderr", &command) else { return };
    assert_eq!(ran.expect_code(0).out(), "");
}
