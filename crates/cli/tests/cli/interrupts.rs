//! Signals while the program waits: for its rate limit, or for the reader of its output. Those of a slow file system are in
//! `tests/fs`.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::scratch::Scratch;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ran, Running, at, atta, make_directory, scratch, walk};

/// Long enough for the program to come to where it waits. If it is not there yet, a test proves less; it never fails.
const MEANWHILE: Duration = Duration::from_millis(700);

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Lists a tree to a reader that stops reading, so that the last rows of the only thread find no room in the pipe.
fn blocked_on_its_last_rows() -> (Scratch, Child) {
    let scratch = scratch("blocked");
    let tree = make_directory(scratch.join("tree"));
    for number in 0..2548 {
        std::fs::File::create(tree.join(format!("{number:026}"))).unwrap();
    }
    let mut command = walk(["--print", "--threads", "1", "tree"]);
    command.current_dir(scratch.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Rows are written 32 KiB at a time: two such writes fit, with what is read here; the 16 KB at the end do not.
    let mut read = [0; 8192];
    child.stdout.as_mut().unwrap().read_exact(&mut read).unwrap();
    std::thread::sleep(MEANWHILE);
    (scratch, child)
}

/// Waits for the end without reading what the program still wants to say on standard output.
fn code(mut child: Child) -> Option<i32> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_signal_ends_a_run_whose_last_rows_nobody_reads() {
    let (_scratch, child) = blocked_on_its_last_rows();
    signal(&child, Signal::INT);
    assert_eq!(code(child), Some(130));
}

#[test]
fn a_second_signal_of_another_kind_ends_it_at_once() {
    let (_scratch, child) = blocked_on_its_last_rows();
    signal(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, Signal::TERM);
    // Had it waited for its threads, it would have gone with the code of the first one.
    assert_eq!(code(child), Some(143));
}

#[test]
fn a_cap_does_not_hold_back_the_end() {
    let scratch = scratch("capped");
    let tree = make_directory(scratch.join("tree"));
    // One PATH for each thread, so that the last in line is to wait for a minute.
    let roots = (0..64).map(|index| make_directory(tree.join(format!("d{index}"))));
    let mut command = walk(["--iops", "1", "--threads", "64"]);
    let child = command.args(roots).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(MEANWHILE);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // A thread that slept through it would have been given up on, without a summary.
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.starts_with("interrupted: "), "{out}{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a command whose standard input stays open and brings nothing more, and sends it one signal.
fn interrupted_at_its_input(arguments: &[&str], input: &[u8]) -> Ran {
    let scratch = scratch("input");
    make_directory(scratch.join("tree"));
    let mut command = atta();
    command.args(arguments).current_dir(scratch.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut held = running.take_input().unwrap();
    held.write_all(input).unwrap();
    running.wait_for_handlers();
    running.signal(Signal::TERM);
    running.finish()
}

#[test]
fn first_signal_ends_a_read_of_standard_input() {
    let ran = interrupted_at_its_input(&["sum", "-"], b"some bytes").expect_code(143);
    assert_eq!(ran.out(), "", "a digest of a part is none");
    let record = b"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262  tree/x\n";
    interrupted_at_its_input(&["sum", "--check", "-"], record).expect_code(143);
    for command in
        [&["walk", "--json", "--from-list", "-"][..], &["copy", "--json", "--from-list", "-", "tree", "new"]]
    {
        let json = interrupted_at_its_input(command, b"").expect_code(143).json();
        assert_eq!(at(&json, "interrupted").as_bool(), Some(true), "{command:?}");
    }
}
