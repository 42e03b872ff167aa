//! Who waits is woken in time and alone, and what runs on threads of the library holds up nothing else. What operations do is
//! tested elsewhere.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::{At, Backend, Buffer, Call, Errno, Fd, Op, Options, Pending, Service};
use atta_testkit::scratch::Scratch;

/// Longer than anything here takes, and shorter than anybody's patience.
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
fn long_reads_of_pipes_hold_up_nothing_and_can_be_cancelled() {
    let service = Service::new(&Options::default()).unwrap();
    let (reader, writer) = pipe();
    let reads: Vec<Pending> = (0..60)
        .map(|_| service.submit(read(&reader, 128 << 10, At::Position), Call::default()).unwrap())
        .collect();
    let scratch = Scratch::new("aio-long").unwrap();
    let file = Arc::new(OwnedFd::from(std::fs::File::create(scratch.join("f")).unwrap()));
    // No kernel has an opcode for it.
    let seek = Op::Seek { fd: Fd::from(&file), offset: 7, whence: libc::SEEK_SET };
    let sought = service.submit(seek, Call::default()).unwrap().wait_timeout(LONG);
    assert_eq!(sought.unwrap().outcome(), Ok(7));
    if Ring::new(&RingOptions::default()).is_ok() {
        reads.iter().for_each(Pending::cancel);
        for read in reads {
            let done = read.wait_timeout(LONG).unwrap();
            assert_eq!(done.outcome(), Err(Errno(libc::ECANCELED)));
            // It was ended, not given up: its buffer is back.
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
fn who_waits_is_woken_before_a_continuation_that_waits_for_them() {
    for backend in backends() {
        let options = Options { backend, continuation_threads: 0, ..Options::default() };
        let service = Arc::new(Service::new(&options).unwrap());
        let (go, gone) = mpsc::channel::<()>();
        // It holds the progress thread until what follows is there: the next two end together.
        service.submit_then(Op::Nop, Call::default(), move |_| gone.recv().unwrap()).unwrap();
        let first = service.submit(Op::Nop, Call::default()).unwrap();
        let (told, heard) = mpsc::channel();
        let was_woken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&was_woken);
        let then = move |_| seen.store(heard.recv_timeout(LONG).is_ok(), Ordering::Relaxed);
        service.submit_then(Op::Nop, Call::default(), then).unwrap();
        let waiter = std::thread::spawn(move || {
            // Not `wait`, which would carry it out.
            assert!(first.wait_timeout(LONG).is_ok());
            told.send(()).unwrap();
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
fn who_has_slept_hands_on_what_may_have_been_for_somebody_else() {
    let service = Service::new(&Options::default()).unwrap();
    let (reader, writer) = pipe();
    let pending = service.submit(read(&reader, 8, At::Position), Call::default()).unwrap();
    let here = std::thread::current();
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        // For a future on this thread, say.
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
fn what_is_pending_is_never_said_to_be_more_than_may_be() {
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
            // Those that are just being refused may be counted: one for each thread.
            assert!(service.pending() <= MOST + 2);
        }
    });
    assert_eq!(service.pending(), 0);
}
