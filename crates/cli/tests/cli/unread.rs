//! Progress and events that nobody reads: the run goes on. Rows that nobody reads are in `interrupts.rs`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::Signal;

use crate::support::{Running, at, atta, names_in, parse_lines, scratch, walk};

/// Names of the tree. With this rate a run takes 2 s and more on any machine, and progress comes each second.
const NAMES: u64 = 600;
const RATE: [&str; 2] = ["--iops", "250"];

/// Bytes in a page of a pipe.
const PAGE: usize = 4096;
/// Room that is left after the first event: less than any event needs.
const ROOM: usize = 16;

fn tree() -> Scratch {
    let scratch = scratch("unread");
    trees::flat(&scratch.join("tree"), NAMES).unwrap();
    scratch
}

/// Fills a pipe. Returns how many bytes fit.
fn fill(mut pipe: impl Write + AsFd) -> usize {
    fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
    let mut bytes = 0;
    while let Ok(count) = pipe.write(&[b'\n'; PAGE]) {
        bytes += count;
    }
    fcntl_setfl(&pipe, OFlags::empty()).unwrap();
    bytes
}

#[test]
fn full_standard_error_does_not_stop_a_walk() {
    let scratch = tree();
    let (_reader, writer) = std::io::pipe().unwrap();
    assert!(fill(&writer) > 0);
    let mut command = walk(RATE);
    command.args(["-q", "--progress", "always"]).arg(scratch.join("tree"));
    Running::start(command.stdout(Stdio::piped()).stderr(writer)).finish().expect_code(0);
}

/// A named pipe in which only the first event of the command finds room, and its reader, which has not read anything.
fn pipe_for_first_event(path: &Path, command: impl Fn() -> Command) -> File {
    command().stdout(Stdio::null()).status().unwrap();
    let events = std::fs::read(path).unwrap();
    let first = events.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    std::fs::remove_file(path).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap();
    let mut writer = OpenOptions::new().write(true).open(path).unwrap();
    let pages = fill(&writer) / PAGE;
    reader.read_exact(&mut vec![0; pages * PAGE]).unwrap();
    for page in 1..=pages {
        let bytes = if page < pages { PAGE } else { PAGE - first - ROOM };
        writer.write_all(&[b'\n'; PAGE][..bytes]).unwrap();
    }
    reader
}

/// The kinds of the events in a named pipe, until its writers close it.
fn kinds_in(mut reader: File) -> Vec<String> {
    fcntl_setfl(&reader, OFlags::empty()).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    parse_lines(&bytes).iter().map(|event| at(event, "event").as_str().unwrap().to_owned()).collect()
}

fn copy_with_events(scratch: &Scratch, target: &str) -> (PathBuf, Command) {
    let (events, target) = (scratch.join("events"), scratch.join(target));
    let mut command = atta();
    command.arg("copy").args(RATE).arg("--events").arg(&events).arg(scratch.join("tree")).arg(&target);
    (target, command)
}

#[test]
fn events_that_wait_do_not_stop_a_copy() {
    let scratch = tree();
    // The names have the same length, so the first events have, too.
    let reader = pipe_for_first_event(&scratch.join("events"), || copy_with_events(&scratch, "one").1);
    let (target, mut command) = copy_with_events(&scratch, "two");
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // The directory gets its name at the end, and the leftovers' directory beside it goes away.
    let is_complete = || {
        let names = names_in(scratch.path());
        target.exists() && !names.iter().any(|name| name.as_encoded_bytes().starts_with(b".atta."))
    };
    running.wait_until(is_complete);
    assert!(is_complete(), "{:?}", names_in(scratch.path()));
    assert_eq!(names_in(&target).len(), names_in(&scratch.join("tree")).len());
    let kinds = kinds_in(reader);
    running.finish().expect_code(0);
    assert_eq!((kinds[0].as_str(), kinds[kinds.len() - 1].as_str()), ("start", "end"), "{kinds:?}");
    assert!(kinds[1..kinds.len() - 1].iter().all(|kind| kind == "progress"), "{kinds:?}");
}

#[test]
fn a_signal_ends_the_wait_for_a_reader_of_events() {
    let scratch = tree();
    let (events, summary) = (scratch.join("events"), scratch.join("summary"));
    let walking = || {
        let mut command = walk(RATE);
        command.arg("--events").arg(&events).arg(scratch.join("tree"));
        command
    };
    let _reader = pipe_for_first_event(&events, walking);
    let mut command = walking();
    let mut running = Running::start(command.stdout(File::create(&summary).unwrap()).stderr(Stdio::piped()));
    running.wait_for_lines(&summary, 1);
    running.signal(Signal::TERM);
    let ran = running.finish().expect_code(4);
    assert!(ran.err().contains("cannot write events: "), "{}", ran.err());
    assert!(ran.err().contains(": its reader takes nothing\n"), "{}", ran.err());
}
