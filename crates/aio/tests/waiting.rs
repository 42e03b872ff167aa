//! A waiting thread is woken in time and alone, and code on the library's threads blocks nothing else. Other tests check the
//! operations.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::{At, Backend, Buffer, Call, Errno, Fd, Limits, Op, Options, Pending, Service};
use atta_testkit::scratch::Scratch;

/// Longer than any step of these tests takes, and shorter than a limit of a test run.
const LONG: Duration = Duration::from_secs(20);

fn backends() -> [Backend; 2] {
    [Backend::Best(RingOptions::default()), Backend::Threads(3)]
}

fn pipe() -> (Arc<OwnedFd>, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Arc::new(reader.into()), writer)
}

fn read(fd: &Arc<OwnedFd>, bytes: usize, at: At) -> Op {
    Op::Read { fd: fd.into(), buffer: Buffer::zeroed(bytes), at }
}

#[test]
fn long_reads_of_pipes_block_nothing() {
    let service = Service::new(&Options::default()).unwrap();
    let (reader, writer) = pipe();
    let reads: Vec<Pending> = (0..60)
        .map(|_| service.submit(read(&reader, 128 << 10, At::Position), Call::default()).unwrap())
        .collect();
    let scratch = Scratch::new("aio-long").unwrap();
    let file = Arc::new(OwnedFd::from(std::fs::File::create(scratch.join("f")).unwrap()));
    // No kernel has an opcode for this operation.
    let seek = Op::Seek { fd: Fd::from(&file), offset: 7, whence: libc::SEEK_SET };
    let sought = service.submit(seek, Call::default()).unwrap().wait_timeout(LONG);
    assert_eq!(sought.unwrap().outcome(), Ok(7));
    if Ring::new(&RingOptions::default()).is_ok() {
        reads.iter().for_each(Pending::cancel);
        for read in reads {
            let done = read.wait_timeout(LONG).unwrap();
            assert_eq!(done.outcome(), Err(Errno(libc::ECANCELED)));
            // It was ended, not given up: its buffer was returned.
            assert!(done.was_cut() && done.op().is_some());
        }
    }
    drop(writer);
}

#[test]
fn long_reads_beside_each_other_bring_what_is_there() {
    const BLOCK: usize = 200 << 10;
    let scratch = Scratch::new("aio-long").unwrap();
    let file =
        std::fs::File::options().read(true).write(true).create_new(true).open(scratch.join("f")).unwrap();
    for block in 0..40_u8 {
        file.write_all_at(&vec![block; BLOCK], u64::from(block) * BLOCK as u64).unwrap();
    }
    let file = Arc::new(OwnedFd::from(file));
    for backend in backends() {
        let service = Service::new(&Options { backend, ..Options::default() }).unwrap();
        for _ in 0..20 {
            let reads = (0..40_u8).map(|block| {
                let op = read(&file, BLOCK, At::Offset(u64::from(block) * BLOCK as u64));
                (block, service.submit(op, Call::default()).unwrap())
            });
            for (block, read) in reads.collect::<Vec<_>>() {
                let (outcome, buffer) = read.wait_timeout(LONG).unwrap().into_buffer();
                assert_eq!(outcome, Ok(BLOCK as u64));
                assert!(buffer.as_slice().iter().all(|byte| *byte == block), "block {block}");
            }
        }
        assert_eq!(service.pending(), 0);
    }
}

#[test]
fn empty_share_is_followed_by_a_later_one() {
    // One thread ends operations in their order. With several threads the last one may end first, and alone.
    for backend in [Backend::Best(RingOptions::default()), Backend::Threads(1)] {
        let options = Options { backend, continuation_threads: 0, ..Options::default() };
        let service = Arc::new(Service::new(&options).unwrap());
        let (go, gone) = mpsc::channel::<()>();
        // It holds the progress thread until the next two are submitted: they end together.
        service.submit_then(Op::Nop, Call::default(), move |_| gone.recv().unwrap()).unwrap();
        let first = service.submit(Op::Nop, Call::default()).unwrap();
        let (sender, receiver) = mpsc::channel();
        let was_woken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&was_woken);
        let then = move |_| seen.store(receiver.recv_timeout(LONG).is_ok(), Ordering::Relaxed);
        service.submit_then(Op::Nop, Call::default(), then).unwrap();
        let waiter = std::thread::spawn(move || {
            // Not `wait`, which would carry it out.
            assert!(first.wait_timeout(LONG).is_ok());
            sender.send(()).unwrap();
        });
        // The waiter sleeps by now, most likely.
        std::thread::sleep(Duration::from_millis(20));
        go.send(()).unwrap();
        waiter.join().unwrap();
        assert!(Arc::into_inner(service).unwrap().shutdown(None));
        assert!(was_woken.load(Ordering::Relaxed));
    }
}

#[test]
fn woken_sleeper_passes_on_a_wake_for_another() {
    let service = Service::new(&Options::default()).unwrap();
    let (reader, writer) = pipe();
    let pending = service.submit(read(&reader, 8, At::Position), Call::default()).unwrap();
    let here = std::thread::current();
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        // As for a future on this thread.
        here.unpark();
        std::thread::sleep(Duration::from_millis(30));
        drop(writer);
    });
    assert_eq!(pending.wait_timeout(LONG).unwrap().outcome(), Ok(0));
    other.join().unwrap();
    let start = Instant::now();
    std::thread::park_timeout(LONG);
    assert!(start.elapsed() < LONG / 2);
}

#[test]
fn pending_count_never_exceeds_its_limit() {
    const MOST: usize = 3;
    let options = Options { pending: Some(MOST), ..Options::default() };
    let service = Service::new(&options).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    // A refusal is an answer, too.
                    let _ = service.submit(Op::Nop, Call::default()).map(Pending::wait);
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        while !is_over.load(Ordering::Relaxed) {
            // Operations that are being refused may be counted: one per thread.
            assert!(service.pending() <= MOST + 2);
        }
    });
    assert_eq!(service.pending(), 0);
}

/// A service whose one slot is taken by a read of an empty pipe: further operations wait. It ends with the writer.
fn held_up() -> (Service, Pending, std::io::PipeWriter, Arc<OwnedFd>) {
    let limits = Limits { running: Some(1), ..Limits::default() };
    let service = Service::new(&Options { limits, ..Options::default() }).unwrap();
    let (reader, writer) = pipe();
    let first = service.submit(read(&reader, 1, At::Position), Call::default()).unwrap();
    // Another one that waits: the proactor does not take further ones yet.
    let second = service.submit(read(&reader, 1, At::Position), Call::default()).unwrap();
    second.detach();
    (service, first, writer, reader)
}

/// An operation that holds a reference, so that a test can observe when it is dropped.
fn watched(held: &Arc<OwnedFd>) -> Op {
    Op::Sync { fd: held.into(), what: atta_aio::Sync::Data }
}

#[test]
fn queued_operation_ends_at_once_when_cancelled() {
    let (service, first, writer, _reader) = held_up();
    let (held, _held_writer) = pipe();
    let mut pending: Vec<Pending> =
        (0..100).map(|_| service.submit(watched(&held), Call::default()).unwrap()).collect();
    let (sender, receiver) = mpsc::channel();
    let with_continuation = {
        let sender = sender.clone();
        let then = move |done: atta_aio::Done| sender.send(done.outcome()).unwrap();
        service.submit_tracked(watched(&held), Call::default(), false, then).unwrap()
    };
    assert_eq!(Arc::strong_count(&held), 102);
    with_continuation.cancel();
    assert_eq!(receiver.recv_timeout(LONG), Ok(Err(Errno(libc::ECANCELED))));
    for pending in pending.drain(..50) {
        pending.cancel();
        let done = pending.wait_timeout(LONG).unwrap();
        assert_eq!((done.outcome(), done.op().is_some()), (Err(Errno(libc::ECANCELED)), true));
    }
    // Dropped operations release what they hold, although the first one has not ended.
    drop(pending);
    let until = Instant::now() + LONG;
    while Arc::strong_count(&held) > 1 {
        assert!(Instant::now() < until, "{} hold it", Arc::strong_count(&held));
        std::thread::yield_now();
    }
    assert!(!first.has_ended());
    drop(writer);
    assert_eq!(first.wait_timeout(LONG).unwrap().outcome(), Ok(0));
    assert!(service.shutdown(Some(LONG)));
}

#[test]
fn waiting_caller_runs_queued_operations() {
    let (service, first, writer, _reader) = held_up();
    let scratch = Scratch::new("aio-behind").unwrap();
    let file = Arc::new(OwnedFd::from(std::fs::File::create(scratch.join("f")).unwrap()));
    let pending: Vec<_> = (0..10).map(|_| service.submit(watched(&file), Call::default()).unwrap()).collect();
    for pending in pending {
        assert_eq!(pending.wait().outcome(), Ok(0));
    }
    assert_eq!(service.counts().run_by_waiter, 10);
    assert!(!first.has_ended());
    drop(writer);
    assert!(service.shutdown(Some(LONG)));
}

#[test]
fn shutdown_and_deadline_reach_queued_operations() {
    let (service, first, writer, _reader) = held_up();
    let (held, _held_writer) = pipe();
    let behind = service.submit(watched(&held), Call::default()).unwrap();
    // It goes to the proactor, with all operations before it.
    let late = Call { within: Some(Duration::from_millis(5)), position: None };
    let done = service.submit(watched(&held), late).unwrap().wait_timeout(LONG).unwrap();
    assert_eq!(done.outcome(), Err(Errno(libc::ETIMEDOUT)));
    let last = service.submit(watched(&held), Call::default()).unwrap();
    drop(service);
    for pending in [behind, last, first] {
        assert_eq!(pending.wait_timeout(LONG).unwrap().outcome(), Err(Errno(libc::ECANCELED)));
    }
    drop(writer);
}
