//! Machines driven by hand: each step runs its system call, but one of them fails, or is the last before a stop. In every case
//! all descriptors are closed, no temporary file stays, and the first error is reported.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use atta_testkit::scratch::Scratch;

use super::*;
use crate::{Buffer, Fd, Place, perform};

const STOP: Errno = Errno(libc::ETIMEDOUT);

/// The fault at a step, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The step does not run, and fails.
    Fails(usize, i32),
    /// The step runs, and fails nevertheless.
    DoneAndFails(usize, i32),
    /// The machine is stopped while the step runs; the step completes.
    Stop(usize),
    /// As `Stop`, and the step is cut short if possible.
    Cut(usize),
}

struct Run {
    outcome: Outcome,
    op: Option<Op>,
    /// Names of the steps.
    steps: Vec<&'static str>,
}

/// Drives a machine to its end. `first` replaces the outcome of its first rename.
fn drive<S: Steps>(steps: S, fault: Fault, first: Option<i32>) -> Run {
    let mut machine = machine(steps);
    let (mut open, mut names, mut first) = (BTreeSet::new(), Vec::new(), first);
    let (mut last, mut stop) = (None, None);
    loop {
        let (mut op, may_be_cut) = match machine.next(last.take(), stop) {
            Step::Do(op) => (op, true),
            Step::Finish(op) => (op, false),
            Step::End(outcome, op) => {
                assert!(open.is_empty(), "{fault:?} leaves {open:?} open after {names:?}");
                return Run { outcome, op, steps: names };
            }
        };
        let at = names.len();
        names.push(op.name());
        assert!(at < 200, "{fault:?} does not end");
        if matches!(fault, Fault::Stop(step) | Fault::Cut(step) if step == at) {
            stop = Some(STOP);
        }
        let outcome = match (fault, first) {
            (Fault::Fails(step, errno), _) if step == at => {
                if let Op::Close { .. } = op {
                    assert_eq!(perform(&mut op), Ok(0));
                }
                Err(Errno(errno))
            }
            (Fault::Cut(step), _) if step == at && may_be_cut => Err(Errno(libc::ECANCELED)),
            (_, Some(errno)) if op.name() == "rename" => {
                first = None;
                Err(Errno(errno))
            }
            (Fault::DoneAndFails(step, errno), _) if step == at && !matches!(op, Op::Open { .. }) => {
                let _ = perform(&mut op);
                Err(Errno(errno))
            }
            _ => perform(&mut op),
        };
        match (&op, outcome) {
            (Op::Open { .. }, Ok(fd)) => assert!(open.insert(fd as i32)),
            (Op::Close { fd }, _) => assert!(open.remove(fd), "{fault:?} closes what it did not open"),
            _ => {}
        }
        last = Some((op, outcome));
    }
}

fn place(path: &Path) -> Place {
    Place::path(CString::new(path.as_os_str().as_bytes()).unwrap())
}

fn shared(file: std::fs::File) -> Fd {
    Fd::from(OwnedFd::from(file))
}

fn temporaries(scratch: &Scratch) -> usize {
    #[expect(clippy::disallowed_methods, reason = "a directory of this test")]
    let names = std::fs::read_dir(scratch.path()).unwrap();
    names.filter(|name| name.as_ref().unwrap().file_name().as_bytes().starts_with(b".atta-")).count()
}

/// Tries every fault at every step of `run`. `reset` restores the initial state; `check` inspects the result after a failure,
/// and gets the step that was hit.
fn strike(
    scratch: &Scratch,
    reset: impl Fn(),
    run: impl Fn(Fault) -> Run,
    tolerated: impl Fn(&str, usize, Fault) -> bool,
    check: impl Fn(&Run, usize),
) {
    reset();
    let whole = run(Fault::None);
    assert!(whole.outcome.is_ok(), "{:?} after {:?}", whole.outcome, whole.steps);
    assert_eq!(temporaries(scratch), 0);
    for at in 0..whole.steps.len() {
        for fault in
            [Fault::Fails(at, libc::EIO), Fault::DoneAndFails(at, libc::EIO), Fault::Stop(at), Fault::Cut(at)]
        {
            reset();
            let struck = run(fault);
            let name = whole.steps[at];
            assert_eq!(temporaries(scratch), 0, "{fault:?} of {name} leaves a temporary file");
            match fault {
                _ if tolerated(name, at, fault) => assert!(struck.outcome.is_ok(), "{fault:?} of {name}"),
                Fault::Fails(..) => assert_eq!(struck.outcome, Err(Errno::IO), "{fault:?} of {name}"),
                Fault::DoneAndFails(..) if name != "open" => {
                    assert_eq!(struck.outcome, Err(Errno::IO), "{fault:?} of {name}");
                }
                Fault::Stop(_) | Fault::Cut(_) => {
                    assert_eq!(struck.outcome, Err(STOP), "{fault:?} of {name}");
                }
                _ => {}
            }
            check(&struck, at);
        }
    }
}

#[test]
fn truncate_merges_errors() {
    let scratch = Scratch::new("compound").unwrap();
    let path = scratch.join("file");
    let reset = || std::fs::write(&path, b"0123456789").unwrap();
    // open, ftruncate, close: from the second on, a stop is too late, unless the step was cut.
    let tolerated = |name: &str, _, fault| match fault {
        Fault::Stop(_) => name != "open",
        Fault::Cut(_) => name == "close",
        _ => false,
    };
    let run = |fault| drive(truncate::steps(place(&path), 4), fault, None);
    strike(&scratch, reset, run, tolerated, |_, _| {});
    assert_eq!(run(Fault::None).steps, ["open", "ftruncate", "close"]);
}

#[test]
fn stat_merges_errors_and_gives_back_what_it_found() {
    let scratch = Scratch::new("compound").unwrap();
    std::fs::write(scratch.join("file"), b"12345").unwrap();
    let tolerated = |name: &str, _, fault| match fault {
        Fault::Stop(_) => name != "open",
        _ => name == "close",
    };
    let run = |fault| drive(stat::steps(place(&scratch.join("file")), 0, libc::STATX_SIZE), fault, None);
    let check = |run: &Run, _| match (&run.op, run.outcome) {
        (Some(Op::Stat { out, place, .. }), Ok(0)) => assert!(out.stx_size == 5 && !place.is_file()),
        (None, Err(_)) => {}
        other => panic!("{other:?}"),
    };
    strike(&scratch, || {}, run, tolerated, check);
}

#[test]
fn copy_merges_errors_on_both_ways() {
    let scratch = Scratch::new("compound").unwrap();
    let bytes: Vec<u8> = (0..600_000_u32).map(|number| (number / 7) as u8).collect();
    std::fs::write(scratch.join("from"), &bytes).unwrap();
    let run = |fault| {
        let (from, to) =
            (std::fs::File::open(scratch.join("from")), std::fs::File::create(scratch.join("to")));
        let (from, to) = (shared(from.unwrap()), shared(to.unwrap()));
        drive(copy::Copy::new(from, 0, to, 0, 1 << 40), fault, None)
    };
    let copied = || std::fs::read(scratch.join("to")).unwrap();
    assert_eq!(run(Fault::None).outcome, Ok(600_000));
    assert!(copied() == bytes);
    // The kernel cannot copy, or cannot continue after the first range.
    for (errno, read) in
        [(libc::EXDEV, true), (libc::EINVAL, true), (libc::EIO, false), (libc::ENOSPC, false)]
    {
        let run = run(Fault::Fails(0, errno));
        assert_eq!(run.outcome, if read { Ok(600_000) } else { Err(Errno(errno)) });
        assert!(!read || copied() == bytes);
        assert_eq!(run.steps.contains(&"read"), read);
    }
}

/// Reads and writes that move a part of the requested bytes.
#[test]
fn short_reads_and_writes_are_gone_on_with() {
    let scratch = Scratch::new("compound").unwrap();
    let bytes: Vec<u8> = (0..50_000_u32).map(|number| (number / 7) as u8).collect();
    std::fs::write(scratch.join("from"), &bytes).unwrap();
    let files = (std::fs::File::open(scratch.join("from")), std::fs::File::create(scratch.join("to")));
    let (from, to) = (shared(files.0.unwrap()), shared(files.1.unwrap()));
    let copying = machine(copy::Copy::new(from, 100, to, 7, 40_000));
    assert_eq!(in_parts(copying).0, Ok(40_000));
    assert!(std::fs::read(scratch.join("to")).unwrap()[7..] == bytes[100..40_100]);
    let mut buffer = Buffer::from(bytes.clone());
    buffer.show(10..30_010);
    let (outcome, op) = in_parts(machine(write::steps(place(&scratch.join("whole")), 0o644, buffer)));
    assert_eq!(outcome, Ok(30_000));
    assert!(std::fs::read(scratch.join("whole")).unwrap() == bytes[10..30_010]);
    let buffer = op.and_then(Op::into_buffer).unwrap();
    assert!(buffer.as_slice() == &bytes[10..30_010] && buffer.into_vec() == bytes);
}

/// Drives a machine whose kernel copies no ranges and moves about a thousand bytes at a time.
fn in_parts(mut machine: impl Machine) -> (Outcome, Option<Op>) {
    let (mut last, mut part) = (None, 1000);
    loop {
        let mut op = match machine.next(last.take(), None) {
            Step::Do(op) | Step::Finish(op) => op,
            Step::End(outcome, op) => return (outcome, op),
        };
        part = part * 7 % 5003 + 1;
        let outcome = match &mut op {
            Op::CopyRange { .. } => Err(Errno(libc::ENOSYS)),
            Op::Read { buffer, .. } | Op::Write { buffer, .. } => {
                let start = buffer.start();
                let shown = start..start + buffer.len();
                buffer.show(start..shown.end.min(start + part));
                let outcome = perform(&mut op);
                if let Op::Read { buffer, .. } | Op::Write { buffer, .. } = &mut op {
                    buffer.show(shown);
                }
                outcome
            }
            _ => perform(&mut op),
        };
        last = Some((op, outcome));
    }
}

#[test]
fn write_is_whole_or_not_at_all() {
    let scratch = Scratch::new("compound").unwrap();
    let path = scratch.join("file");
    let reset = || std::fs::write(&path, b"old").unwrap();
    let run = |fault| drive(write::steps(place(&path), 0o600, b"the new one".to_vec().into()), fault, None);
    reset();
    let steps = run(Fault::None).steps;
    assert_eq!(steps, ["open", "open", "write", "fsync", "close", "rename", "fsync", "close"]);
    // From the rename on, a stop is too late.
    let tolerated = |_: &str, at, fault| match fault {
        Fault::Stop(_) | Fault::Cut(_) => at >= 5,
        _ => at == 7,
    };
    strike(&scratch, reset, run, tolerated, |run, at| {
        let now = std::fs::read(&path).unwrap();
        match run.outcome {
            Ok(bytes) => assert!(bytes == 11 && now == b"the new one"),
            // `DoneAndFails` of the rename itself has renamed.
            Err(_) if at == 5 => assert!(now == b"old" || now == b"the new one"),
            Err(_) => assert_eq!(now, if at < 5 { &b"old"[..] } else { b"the new one" }, "step {at}"),
        }
        let buffer = run.op.as_ref().map(|op| match op {
            Op::Write { buffer, .. } => buffer.as_slice().to_vec(),
            _ => Vec::new(),
        });
        assert_eq!(buffer.as_deref(), Some(&b"the new one"[..]));
    });
    // A name that is taken, and a directory that cannot be made durable.
    reset();
    assert_eq!(run(Fault::Fails(1, libc::EEXIST)).outcome, Ok(11));
    assert_eq!(run(Fault::Fails(6, libc::EINVAL)).outcome, Ok(11));
}

#[test]
fn directories_merge_errors() {
    let scratch = Scratch::new("compound").unwrap();
    let reset = || {
        for name in ["a/b/c", "a/b", "a"] {
            let _ = std::fs::remove_dir(scratch.join(name));
        }
    };
    let run = |fault| drive(directories::steps(place(&scratch.join("a/b/c")), 0o755), fault, None);
    reset();
    assert_eq!(run(Fault::None).steps, ["mkdir"; 5]);
    let tolerated = |_: &str, at, fault| fault == Fault::Stop(at) && at == 4;
    strike(&scratch, reset, run, tolerated, |_, _| {});
    // Another process created one meanwhile, then removed them repeatedly.
    reset();
    assert_eq!(run(Fault::DoneAndFails(3, libc::EEXIST)).outcome, Ok(2));
    let mut steps = machine(directories::steps(place(&scratch.join("a/b/c")), 0o755));
    let (mut last, mut turns) = (None, 0);
    let outcome = loop {
        match steps.next(last, None) {
            Step::Do(op) => {
                let is_first =
                    matches!(&op, Op::MakeDirectory { place, .. } if place.path.as_bytes().ends_with(b"/a"));
                last = Some((op, if is_first { Err(Errno(libc::EEXIST)) } else { Err(Errno::NOENT) }));
                turns += 1;
            }
            Step::End(outcome, _) => break outcome,
            Step::Finish(op) => panic!("{op:?}"),
        }
    };
    assert!(outcome == Err(Errno::NOENT) && turns < 50, "{outcome:?} after {turns}");
}

/// The steps of a rename that the kernel refuses, with a fault at each of them.
fn rename_merges_errors(is_link: bool, whole: &[&str]) {
    let scratch = Scratch::new("compound").unwrap();
    let (old, new) = (scratch.join("old"), scratch.join("new"));
    let content = |path: &Path| {
        let link = std::fs::read_link(path).map(|target| target.as_os_str().as_bytes().to_vec());
        link.or_else(|_| std::fs::read(path)).ok()
    };
    let reset = || {
        let _ = (std::fs::remove_file(&old), std::fs::remove_file(&new));
        std::fs::write(&new, b"what was there").unwrap();
        if is_link {
            std::os::unix::fs::symlink("the old one", &old).unwrap();
        } else {
            std::fs::write(&old, b"the old one").unwrap();
        }
    };
    let run = |fault| drive(rename::steps(place(&old), place(&new), 0), fault, Some(libc::EXDEV));
    reset();
    let steps = run(Fault::None).steps;
    assert_eq!(steps, whole);
    assert_eq!((content(&old), content(&new)), (None, Some(b"the old one".to_vec())));
    let replaced = 1 + steps.iter().skip(1).position(|name| *name == "rename").unwrap();
    let removed = steps.iter().position(|name| *name == "unlink").unwrap();
    let tolerated = |_: &str, at, fault| match fault {
        Fault::Stop(_) | Fault::Cut(_) => at >= replaced,
        // The first one fails in any case, and errors of closing a file that was only read are ignored.
        Fault::DoneAndFails(0, _) => true,
        _ => at > removed,
    };
    strike(&scratch, reset, run, tolerated, |run, at| {
        let is_old = content(&old) == Some(b"the old one".to_vec());
        let is_new = content(&new) == Some(b"the old one".to_vec());
        assert!(is_old || is_new, "lost at {at}");
        match run.outcome {
            Ok(_) => assert!(!is_old && is_new),
            Err(_) if at < replaced => assert!(is_old && !is_new, "something was done before step {at}"),
            Err(_) => {}
        }
    });
}

#[test]
fn rename_of_a_file_merges_errors() {
    let start = ["rename", "open", "open", "stat", "stat", "open", "stat", "open"];
    // The kernel's first range, and the call that returns 0.
    let carry =
        ["copy_file_range", "copy_file_range", "chown", "listxattr", "chmod", "utimens", "fsync", "close"];
    let end = ["stat", "rename", "fsync", "unlink", "close", "close", "close"];
    rename_merges_errors(false, &[&start[..], &carry, &end].concat());
}

#[test]
fn rename_of_a_link_merges_errors() {
    let steps = ["rename", "open", "open", "stat", "stat", "readlink", "symlink", "chown", "utimens"];
    let end = ["stat", "rename", "fsync", "unlink", "close", "close"];
    rename_merges_errors(true, &[&steps[..], &end].concat());
}

#[test]
fn rename_of_one_file_onto_itself_loses_nothing() {
    let scratch = Scratch::new("compound").unwrap();
    let (old, new) = (scratch.join("old"), scratch.join("new"));
    std::fs::write(&old, b"x").unwrap();
    // Two mounts of one directory: the kernel reports two file systems.
    let same = drive(rename::steps(place(&old), place(&old), 0), Fault::None, Some(libc::EXDEV));
    assert_eq!((same.outcome, std::fs::read(&old).unwrap()), (Ok(0), b"x".to_vec()));
    std::fs::hard_link(&old, &new).unwrap();
    let linked = drive(rename::steps(place(&old), place(&new), 0), Fault::None, Some(libc::EXDEV));
    assert_eq!((linked.outcome, old.exists()), (Ok(0), true));
    let flags = libc::RENAME_NOREPLACE;
    let refused = drive(rename::steps(place(&old), place(&new), flags), Fault::None, Some(libc::EXDEV));
    assert_eq!(refused.outcome, Err(Errno(libc::EEXIST)));
}

#[test]
fn rename_of_a_file_that_changes_is_refused() {
    let scratch = Scratch::new("compound").unwrap();
    let (old, new) = (scratch.join("old"), scratch.join("new"));
    std::fs::write(&old, b"x").unwrap();
    let mut machine = machine(rename::steps(place(&old), place(&new), 0));
    let (mut last, mut is_first) = (None, true);
    let outcome = loop {
        let mut op = match machine.next(last, None) {
            Step::Do(op) | Step::Finish(op) => op,
            Step::End(outcome, _) => break outcome,
        };
        if op.name() == "fsync" {
            std::fs::write(&old, b"somebody wrote").unwrap();
        }
        let is_refused = std::mem::take(&mut is_first);
        let outcome = if is_refused { Err(Errno::XDEV) } else { perform(&mut op) };
        last = Some((op, outcome));
    };
    assert_eq!(outcome, Err(BUSY));
    assert!(!new.exists() && temporaries(&scratch) == 0);
    assert_eq!(std::fs::read(&old).unwrap(), b"somebody wrote");
}

const BUSY: Errno = Errno(libc::EBUSY);

#[test]
fn waiting_for_room_ends_with_room_or_the_end() {
    let scratch = Scratch::new("compound").unwrap();
    let (old, new) = (scratch.join("old"), scratch.join("new"));
    std::fs::write(&old, b"x").unwrap();
    let mode = Op::SetMode { place: place(&old), mode: 0o6751 };
    assert_eq!(perform(&mut { mode }), Ok(0));
    let run =
        drive(rename::steps(place(&old), place(&new), 0), Fault::Fails(10, libc::EPERM), Some(libc::EXDEV));
    assert_eq!((run.steps[10], run.outcome), ("chown", Ok(0)));
    assert_eq!(std::fs::File::open(&new).unwrap().metadata().unwrap().mode() & 0o7777, 0o751);
}

#[test]
fn first_of_two_errors_is_reported() {
    let scratch = Scratch::new("compound").unwrap();
    std::fs::write(scratch.join("file"), b"x").unwrap();
    for (truncating, stop, expected) in
        [(Err(Errno::IO), None, Errno::IO), (Ok(0), None, FULL), (Ok(0), Some(STOP), FULL)]
    {
        let mut machine = machine(truncate::steps(place(&scratch.join("file")), 4));
        let mut last = None;
        let outcome = loop {
            let is_done = last.as_ref().is_some_and(|(op, _): &(Op, Outcome)| op.name() == "ftruncate");
            let mut op = match machine.next(last, stop.filter(|_| is_done)) {
                Step::Do(op) | Step::Finish(op) => op,
                Step::End(outcome, _) => break outcome,
            };
            let outcome = match op.name() {
                "ftruncate" => truncating,
                "close" => perform(&mut op).and(Err(FULL)),
                _ => perform(&mut op),
            };
            last = Some((op, outcome));
        };
        assert_eq!(outcome, Err(expected));
    }
}

const FULL: Errno = Errno(libc::ENOSPC);

#[test]
fn kernel_copy_of_nothing_is_not_believed() {
    let scratch = Scratch::new("compound").unwrap();
    std::fs::write(scratch.join("from"), b"0123456789").unwrap();
    let files = (std::fs::File::open(scratch.join("from")), std::fs::File::create(scratch.join("to")));
    let mut machine = machine(copy::Copy::new(shared(files.0.unwrap()), 0, shared(files.1.unwrap()), 0, 100));
    let mut last = None;
    let outcome = loop {
        let mut op = match machine.next(last, None) {
            Step::Do(op) | Step::Finish(op) => op,
            Step::End(outcome, _) => break outcome,
        };
        let outcome = if op.name() == "copy_file_range" { Ok(0) } else { perform(&mut op) };
        last = Some((op, outcome));
    };
    assert_eq!((outcome, std::fs::read(scratch.join("to")).unwrap()), (Ok(10), b"0123456789".to_vec()));
}
