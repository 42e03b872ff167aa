//! The service from the outside: any thread submits, continuations are called once, dropped or late operations do no harm, and
//! a shutdown always ends.

#![expect(unsafe_code, reason = "a bare fork")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use atta_aio::{At, Backend, Buffer, Call, Limits, Op, Options, Place, Refused, Service, Sync};
use atta_entry::Errno;
use atta_testkit::scratch::Scratch;

fn place(path: &Path) -> Place {
    Place::path(CString::new(path.as_os_str().as_bytes()).unwrap())
}

fn backends() -> Vec<Backend> {
    vec![Backend::Best(atta_aio::driver::ring::RingOptions::default()), Backend::Threads(3)]
}

fn each(body: impl Fn(&Options)) {
    for backend in backends() {
        for continuation_threads in [0, 2] {
            body(&Options { backend: backend.clone(), continuation_threads, ..Options::default() });
        }
    }
}

fn pipe() -> (Arc<OwnedFd>, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Arc::new(reader.into()), writer)
}

fn read_of(pipe: &Arc<OwnedFd>) -> Op {
    Op::Read { fd: pipe.into(), buffer: Buffer::zeroed(8), at: At::Position }
}

/// A minimal executor: one future, one thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(10)),
        }
    }
}

#[test]
fn futures_run_on_any_executor() {
    each(|options| {
        let scratch = Scratch::new("aio-futures").unwrap();
        let service = Service::new(options).unwrap();
        let files = service.files();
        block_on(async {
            files.make_directory(place(&scratch.join("d")), 0o755).await.unwrap();
            let file = place(&scratch.join("d/f"));
            let open = files.open(file.clone(), libc::O_CREAT | libc::O_RDWR, 0o644).await.unwrap();
            let (written, buffer) = files.write_at(&open, b"hello".to_vec(), 3).await;
            assert_eq!((written, buffer.as_slice()), (Ok(5), &b"hello"[..]));
            let (read, buffer) = files.within(Duration::from_secs(60)).read_at(&open, vec![9; 10], 0).await;
            assert_eq!((read, buffer.as_slice()), (Ok(8), &b"\0\0\0hello\x09\x09"[..]));
            files.sync(&open, Sync::Data).await.unwrap();
            files.truncate(&open, 4).await.unwrap();
            assert_eq!(files.stat(file.clone(), 0, libc::STATX_SIZE).await.unwrap().stx_size, 4);
            assert_eq!(files.close(Arc::clone(&open)).await, Err(Errno(libc::EBUSY)));
            files.close(open).await.unwrap();
            let link = place(&scratch.join("l"));
            files.symlink(c"d/f".into(), link.clone()).await.unwrap();
            assert_eq!(files.read_link(link).await.unwrap(), b"d/f");
            assert_eq!(files.unlink(place(&scratch.join("none")), 0).await, Err(Errno::NOENT));
        });
    });
}

#[test]
fn many_submitting_threads_get_one_callback_each() {
    each(|options| {
        let scratch = Scratch::new("aio-many").unwrap();
        let service = Arc::new(Service::new(options).unwrap());
        let open = service.files().open(place(&scratch.join("f")), libc::O_CREAT | libc::O_RDWR, 0o644);
        let file = open.wait().unwrap();
        let called = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (service, file, called) = (Arc::clone(&service), Arc::clone(&file), Arc::clone(&called));
                scope.spawn(move || {
                    for number in 0..500 {
                        let at = At::Offset((thread * 500 + number) * 8);
                        let buffer = Buffer::from(number.to_ne_bytes().to_vec());
                        let op = Op::Write { fd: (&file).into(), buffer, at };
                        let called = Arc::clone(&called);
                        let then = move |done: atta_aio::Done| {
                            assert_eq!(done.outcome(), Ok(8));
                            called.fetch_add(1, Ordering::Relaxed);
                        };
                        match number % 2 {
                            0 => service.submit_then(op, Call::default(), then).unwrap(),
                            _ => service.submit_inline(op, Call::default(), then).unwrap(),
                        }
                    }
                });
            }
        });
        let counts = service.counts();
        assert!(counts.submitted == 2001 && counts.woken <= counts.submitted, "{counts:?}");
        assert!(Arc::into_inner(service).unwrap().shutdown(None));
        assert_eq!(called.load(Ordering::Relaxed), 2000);
    });
}

#[test]
fn continuation_may_submit_or_panic() {
    each(|options| {
        let service = Arc::new(Service::new(options).unwrap());
        let (sender, receiver) = mpsc::channel();
        fn next(service: &Arc<Service>, left: u32, sender: mpsc::Sender<u32>) {
            let again = Arc::clone(service);
            let then = move |_: atta_aio::Done| match left {
                0 => sender.send(left).unwrap(),
                left => next(&again, left - 1, sender),
            };
            service.submit_then(Op::Nop, Call::default(), then).unwrap();
        }
        next(&service, 100, sender);
        assert_eq!(receiver.recv(), Ok(0));
        let panics = |_: atta_aio::Done| std::panic::resume_unwind(Box::new("a continuation that fails"));
        service.submit_then(Op::Nop, Call::default(), panics).unwrap();
        service.submit_inline(Op::Nop, Call::default(), panics).unwrap();
        assert_eq!(service.submit(Op::Nop, Call::default()).unwrap().wait().outcome(), Ok(0));
    });
}

#[test]
fn a_continuation_may_drop_the_service() {
    each(|options| {
        for is_inline in [false, true] {
            let service = Arc::new(Service::new(options).unwrap());
            let (sender, receiver) = mpsc::channel();
            let again = Arc::clone(&service);
            let (go, gone) = mpsc::channel::<()>();
            let then = move |_: atta_aio::Done| {
                assert!(gone.recv().is_err());
                drop(Arc::into_inner(again).unwrap());
                sender.send(()).unwrap();
            };
            match is_inline {
                true => service.submit_inline(Op::Nop, Call::default(), then).unwrap(),
                false => service.submit_then(Op::Nop, Call::default(), then).unwrap(),
            }
            drop(service);
            drop(go);
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(()));
        }
    });
}

#[test]
fn late_cancel_or_drop_is_harmless() {
    for backend in backends() {
        let limits = Limits { grace: Some(Duration::from_millis(10)), ..Limits::default() };
        let service = Service::new(&Options { backend, limits, ..Options::default() }).unwrap();
        let (reader, writer) = pipe();
        let pending = service.submit(read_of(&reader), Call::default()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert!(!pending.has_ended());
        let pending = pending.wait_timeout(Duration::from_millis(1)).unwrap_err();
        pending.cancel();
        assert_eq!(pending.wait().outcome(), Err(Errno(libc::ECANCELED)));
        let within = Some(Duration::from_millis(5));
        let call = Call { within, position: None };
        // Not by `wait`, which would carry it out here.
        let done = block_on(service.submit(read_of(&reader), call).unwrap());
        assert_eq!(done.outcome(), Err(Errno(libc::ETIMEDOUT)));
        for _ in 0..100 {
            drop(service.submit(read_of(&reader), Call::default()).unwrap());
            service.submit(Op::Nop, Call::default()).unwrap().detach();
        }
        drop(writer);
        assert!(service.shutdown(Some(Duration::from_secs(60))));
    }
}

#[test]
fn limit_of_pending_operations_is_reported_at_once() {
    let options = Options { pending: Some(3), ..Options::default() };
    let service = Service::new(&options).unwrap();
    let (reader, writer) = pipe();
    let held: Vec<_> = (0..3).map(|_| service.submit(read_of(&reader), Call::default()).unwrap()).collect();
    let refused = service.submit(read_of(&reader), Call::default()).unwrap_err();
    assert_eq!((refused.errno(), service.pending()), (Errno(libc::EAGAIN), 3));
    assert!(matches!(refused, Refused::Full(_)));
    drop(writer);
    assert!(held.into_iter().all(|pending| pending.wait().outcome() == Ok(0)));
    assert_eq!(service.submit(Op::Nop, Call::default()).unwrap().wait().outcome(), Ok(0));
}

#[test]
fn who_waits_for_what_has_not_begun_carries_it_out() {
    // The progress thread is busy with its own continuation, so it starts no operation.
    let options = Options { continuation_threads: 0, ..Options::default() };
    let service = Service::new(&options).unwrap();
    let (hold, held) = mpsc::channel::<()>();
    let busy = move |_: atta_aio::Done| assert!(held.recv().is_err());
    service.submit_inline(Op::Nop, Call::default(), busy).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while service.counts().run_by_waiter == 0 {
        assert!(Instant::now() < deadline);
        // It may not have taken the first one yet, and then starts this one, too.
        let pending = service.submit(Op::Nop, Call::default()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        if let Ok(done) = pending.wait_timeout(Duration::ZERO) {
            assert_eq!(done.outcome(), Ok(0));
            continue;
        }
        assert_eq!(service.submit(Op::Nop, Call::default()).unwrap().wait().outcome(), Ok(0));
    }
    drop(hold);
    assert!(service.shutdown(None));
}

#[test]
fn a_shutdown_ends_though_something_hangs() {
    for backend in backends() {
        let limits = Limits { grace: Some(Duration::from_millis(10)), ..Limits::default() };
        let service = Service::new(&Options { backend, limits, ..Options::default() }).unwrap();
        let (reader, _writer) = pipe();
        let (sender, receiver) = mpsc::channel();
        let then = move |done: atta_aio::Done| sender.send(done.outcome()).unwrap();
        service.submit_then(read_of(&reader), Call::default(), then).unwrap();
        assert!(!service.shutdown(Some(Duration::from_millis(20))));
        assert_eq!(receiver.recv(), Ok(Err(Errno(libc::ECANCELED))));
    }
}

#[test]
fn after_a_bare_fork_everything_says_so() {
    let service = Service::new(&Options::default()).unwrap();
    // SAFETY: the child calls nothing that could wait for a lock of another thread, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(service.submit(Op::Nop, Call::default()), Err(Refused::Forked(_)));
        drop(service);
        // SAFETY: ends this process.
        unsafe { libc::_exit(if refused { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: `status` lives until the call returns.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, libc::WEXITSTATUS(status)), (child, 7));
    assert_eq!(service.submit(Op::Nop, Call::default()).unwrap().wait().outcome(), Ok(0));
}
