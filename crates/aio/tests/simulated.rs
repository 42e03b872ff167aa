//! The simulated driver by itself: its clock, its faults, the state after a loss of power, and that nothing stays open.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::CString;
use std::time::Duration;

use atta_aio::driver::Driver;
use atta_aio::driver::simulated::{Fault, FaultKind, Simulated, SimulatedOptions};
use atta_aio::{At, Buffer, Done, Fd, Limits, Op, Outcome, Place, Proactor, Sync, Terms};
use atta_entry::Errno;

type Bench = Proactor<Simulated, u32>;

fn bench(options: SimulatedOptions) -> Bench {
    Proactor::new(Simulated::new(options), Limits::default())
}

fn place(path: &str) -> Place {
    Place::path(CString::new(path).unwrap())
}

fn run(bench: &mut Bench, op: Op) -> Outcome {
    let handle = bench.submit(op.into(), Terms::default(), 0).unwrap();
    bench.wait_for(handle, |_, _| {}).unwrap().1.into_parts().0
}

fn open(bench: &mut Bench, path: &str, flags: i32) -> Result<Fd, Errno> {
    run(bench, Op::Open { place: place(path), flags, mode: 0o644 }).map(|fd| Fd::Raw(fd as i32))
}

fn write(bench: &mut Bench, fd: &Fd, bytes: &[u8], at: u64) -> Outcome {
    run(bench, Op::Write { fd: fd.clone(), buffer: bytes.to_vec().into(), at: At::Offset(at) })
}

fn content(bench: &mut Bench, path: &str) -> Result<Vec<u8>, Errno> {
    let fd = open(bench, path, libc::O_RDONLY)?;
    let op = Op::Read { fd: fd.clone(), buffer: Buffer::zeroed(1 << 16), at: At::Offset(0) };
    let handle = bench.submit(op.into(), Terms::default(), 0).unwrap();
    let (outcome, buffer) = bench.wait_for(handle, |_, _| {}).unwrap().1.into_buffer();
    run(bench, Op::Close { fd: fd.raw() })?;
    Ok(buffer.as_slice()[..outcome? as usize].to_vec())
}

fn sync(bench: &mut Bench, fd: &Fd) {
    assert_eq!(run(bench, Op::Sync { fd: fd.clone(), what: Sync::All }), Ok(0));
}

fn fault(names: &[&'static str], kind: FaultKind) -> SimulatedOptions {
    let faults = vec![Fault { names: names.to_vec(), per_mille: 1000, kind }];
    SimulatedOptions { faults, ..SimulatedOptions::default() }
}

#[test]
fn the_clock_moves_to_the_next_end_and_no_further() {
    let second = Duration::from_secs(1);
    let mut driver = Simulated::new(SimulatedOptions { latency: [second; 2], ..SimulatedOptions::default() });
    let mut ended = Vec::new();
    driver.wait(None, &mut ended);
    assert_eq!(driver.now(), Duration::ZERO);
    driver.wait(Some(3 * second), &mut ended);
    assert_eq!(driver.now(), 3 * second);
    driver.start(7, Box::new(Op::Nop));
    driver.wait(Some(Duration::ZERO), &mut ended);
    driver.wait(Some(second / 2), &mut ended);
    assert!(ended.is_empty() && driver.now() == 3 * second + second / 2);
    driver.waker().wake();
    driver.wait(None, &mut ended);
    assert!(ended.is_empty());
    driver.wait(None, &mut ended);
    assert!(ended.len() == 1 && ended[0].token == 7 && driver.now() == 4 * second);
}

#[test]
fn nothing_stays_open_that_nobody_took() {
    let mut bench = bench(SimulatedOptions::default());
    let op = || Op::Open { place: place("/file"), flags: libc::O_CREAT, mode: 0o600 };
    bench.submit(op().into(), Terms::default(), 0).unwrap();
    let mut kept: Option<Done> = None;
    while kept.is_none() {
        bench.advance(None, |_, done| kept = Some(done));
    }
    assert_eq!(bench.driver().open_descriptors(), 1);
    // On another thread, as continuations are.
    std::thread::spawn(move || drop(kept)).join().unwrap();
    assert_eq!(bench.driver().open_descriptors(), 0);
    // The number is reused only when it is free.
    let fd = open(&mut bench, "/file", 0).unwrap();
    assert_eq!(bench.driver().open_descriptors(), 1);
    assert_eq!(run(&mut bench, Op::Close { fd: fd.raw() }), Ok(0));
    assert_eq!(run(&mut bench, Op::Close { fd: fd.raw() }), Err(Errno(libc::EBADF)));
    assert_eq!(bench.driver().open_descriptors(), 0);
}

#[test]
fn operations_fail_before_or_after_they_take_effect() {
    let mut bench = bench(fault(&["mkdir"], FaultKind::Fails(Errno::IO)));
    let make = || Op::MakeDirectory { place: place("/d"), mode: 0o755 };
    assert_eq!(run(&mut bench, make()), Err(Errno::IO));
    bench.driver_mut().set_options(fault(&["mkdir", "open"], FaultKind::FailsAfter(Errno::IO)));
    assert_eq!(run(&mut bench, make()), Err(Errno::IO));
    assert_eq!(run(&mut bench, make()), Err(Errno(libc::EEXIST)));
    assert_eq!(open(&mut bench, "/file", libc::O_CREAT).unwrap_err(), Errno::IO);
    bench.driver_mut().heal();
    assert_eq!(content(&mut bench, "/file"), Ok(Vec::new()));
    assert_eq!(bench.driver().open_descriptors(), 0);
}

#[test]
fn what_hangs_ends_when_cancelled_or_is_given_up() {
    for (kind, comes_back) in [(FaultKind::Hangs, true), (FaultKind::HangsForGood, false)] {
        let mut bench = bench(fault(&["fsync"], kind));
        let op = Op::Sync { fd: Fd::Raw(0), what: Sync::All };
        let handle = bench.submit(op.into(), Terms::default(), 1).unwrap();
        bench.advance(Some(Duration::from_secs(3600)), |_, _| panic!("it hangs"));
        assert!(bench.cancel(handle));
        let mut ended = None;
        while ended.is_none() {
            bench.advance(None, |_, done| ended = Some(done));
        }
        let done = ended.unwrap();
        assert_eq!((done.outcome(), done.op().is_some()), (Err(Errno(libc::ECANCELED)), comes_back));
        // A caller that waits until nothing is pending must not wait for operations that were given up.
        assert_eq!((bench.pending(), bench.running()), (0, usize::from(!comes_back)));
    }
}

#[test]
fn waiting_caller_gets_any_end_of_an_operation() {
    let mut bench = bench(SimulatedOptions::default());
    // It is late before it starts.
    let late = Terms { deadline: Some(Duration::ZERO), position: None };
    let handle = bench.submit(Op::Nop.into(), late, 5).unwrap();
    let (claim, done) = bench.wait_for(handle, |_, _| panic!("the result of another operation")).unwrap();
    assert_eq!((claim, done.outcome()), (5, Err(Errno(libc::ETIMEDOUT))));
    // It ends without the driver.
    let position = bench.add_position(10);
    let seek = Op::Seek { fd: Fd::Raw(0), offset: 5, whence: libc::SEEK_CUR };
    let terms = Terms { deadline: None, position: Some(position) };
    let handle = bench.submit(seek.into(), terms, 6).unwrap();
    let other = bench.submit(Op::Nop.into(), Terms::default(), 7).unwrap();
    let (claim, done) = bench.wait_for(handle, |_, _| {}).unwrap();
    assert_eq!((claim, done.outcome()), (6, Ok(15)));
    assert!(bench.wait_for(handle, |_, _| {}).is_none());
    assert_eq!(bench.wait_for(other, |_, _| {}).unwrap().0, 7);
}

#[test]
fn a_loss_of_power_leaves_what_was_synced() {
    let mut bench = bench(SimulatedOptions::default());
    let root = open(&mut bench, "/", libc::O_DIRECTORY).unwrap();
    let file = open(&mut bench, "/file", libc::O_CREAT | libc::O_RDWR).unwrap();
    let old = vec![b'o'; 3 * 4096];
    write(&mut bench, &file, &old, 0).unwrap();
    sync(&mut bench, &file);
    assert_eq!(content(&mut after(&bench, 0), "/file"), Err(Errno::NOENT));
    sync(&mut bench, &root);
    assert_eq!(content(&mut after(&bench, 0), "/file").as_ref(), Ok(&old));
    // Not synced: each block is old or new, independently; names are in their old state.
    write(&mut bench, &file, &vec![b'n'; 3 * 4096], 0).unwrap();
    let rename = Op::Rename { from: place("/file"), to: place("/moved"), flags: 0 };
    assert_eq!(run(&mut bench, rename), Ok(0));
    open(&mut bench, "/new", libc::O_CREAT).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let mut after = after(&bench, seed);
        let bytes = content(&mut after, "/file").unwrap();
        let blocks: Vec<u8> = bytes.chunks(4096).map(|block| block[0]).collect();
        assert!(bytes.chunks(4096).all(|block| block.iter().all(|byte| *byte == block[0])));
        kinds.insert(blocks);
        for gone in ["/moved", "/new"] {
            assert_eq!(content(&mut after, gone), Err(Errno::NOENT));
        }
        assert_eq!(after.driver().open_descriptors(), 0);
    }
    assert!(kinds.contains(&b"ooo"[..]) && kinds.contains(&b"non"[..]) && kinds.len() == 8, "{kinds:?}");
    // Synced: it stays after any number of crashes.
    sync(&mut bench, &file);
    sync(&mut bench, &root);
    let again = after(&after(&bench, 1), 2);
    assert_eq!(content(&mut { again }, "/moved"), Ok(vec![b'n'; 3 * 4096]));
    // The original file system is unaffected.
    assert_eq!(content(&mut bench, "/moved").unwrap()[0], b'n');
}

fn after(bench: &Bench, seed: u64) -> Bench {
    Proactor::new(bench.driver().crash(seed), Limits::default())
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut bench = bench(SimulatedOptions { room: 100, file_bytes_most: 80, ..SimulatedOptions::default() });
    let file = open(&mut bench, "/a", libc::O_CREAT | libc::O_RDWR).unwrap();
    assert_eq!(write(&mut bench, &file, &[1; 90], 0), Ok(80));
    assert_eq!(write(&mut bench, &file, &[1; 90], 80), Err(Errno(libc::EFBIG)));
    let other = open(&mut bench, "/b", libc::O_CREAT | libc::O_RDWR).unwrap();
    assert_eq!(write(&mut bench, &other, &[2; 30], 0), Ok(20));
    assert_eq!(write(&mut bench, &other, &[2; 30], 20), Err(Errno(libc::ENOSPC)));
    // Existing data can be overwritten, and a removed file frees its room once it is closed.
    assert_eq!(write(&mut bench, &other, &[3; 30], 10), Ok(10));
    assert_eq!(run(&mut bench, Op::Unlink { place: place("/a"), flags: 0 }), Ok(0));
    assert_eq!(write(&mut bench, &other, &[2; 1], 20), Err(Errno(libc::ENOSPC)));
    assert_eq!(run(&mut bench, Op::Close { fd: file.raw() }), Ok(0));
    assert_eq!(write(&mut bench, &other, &[2; 30], 20), Ok(30));
}

#[test]
fn paths_that_lead_nowhere_are_errors() {
    let mut bench = bench(SimulatedOptions::default());
    bench.driver_mut().mount("other").unwrap();
    open(&mut bench, "/file", libc::O_CREAT).unwrap();
    let symlink = Op::Symlink { target: CString::new("loop").unwrap(), place: place("/loop") };
    assert_eq!(run(&mut bench, symlink), Ok(0));
    let long = format!("/{}", "n".repeat(256));
    let deep = "/.".repeat(2048);
    for (path, errno) in [
        ("/loop", libc::ELOOP),
        ("/loop/x", libc::ELOOP),
        ("/file/x", libc::ENOTDIR),
        ("/file/", libc::ENOTDIR),
        ("/none/x", libc::ENOENT),
        (&long, libc::ENAMETOOLONG),
        (&deep, libc::ENAMETOOLONG),
    ] {
        assert_eq!(open(&mut bench, path, 0).unwrap_err(), Errno(errno), "{path}");
    }
    let rename = |from: &str, to: &str| Op::Rename { from: place(from), to: place(to), flags: 0 };
    assert_eq!(run(&mut bench, rename("/file", "/other/file")), Err(Errno::XDEV));
    assert_eq!(run(&mut bench, rename("/other", "/moved")), Err(Errno(libc::EBUSY)));
    let link = Op::Link { from: place("/file"), to: place("/other/file"), flags: 0 };
    assert_eq!(run(&mut bench, link), Err(Errno::XDEV));
    let remove = |path: &str| Op::Unlink { place: place(path), flags: libc::AT_REMOVEDIR };
    for (path, errno) in [("/other", libc::EBUSY), ("/", libc::EBUSY), ("/other/.", libc::EINVAL)] {
        assert_eq!(run(&mut bench, remove(path)), Err(Errno(errno)), "{path}");
    }
}
