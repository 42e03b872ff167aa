//! Operations with a continuation that are cancelled, or carried out by the waiting thread; and that an operation no longer
//! counts as pending when its continuation is called.

use std::sync::mpsc;
use std::time::Duration;

use atta_aio::driver::ring::RingOptions;
use atta_aio::{At, Backend, Buffer, Call, Fd, Op, Options, Service};
use atta_testkit::skip::skipped;

const CANCELED: i32 = 125;

fn service(backend: Backend, pending: Option<usize>) -> Service {
    Service::new(&Options { backend, pending, ..Options::default() }).expect("a service starts")
}

#[test]
fn who_hears_of_an_end_may_submit_the_next_one() {
    for backend in [Backend::Best(RingOptions::default()), Backend::Threads(2)] {
        for is_inline in [false, true] {
            let service = service(backend.clone(), Some(1));
            for _ in 0..2000 {
                let (sender, receiver) = mpsc::channel();
                let then = move |done: atta_aio::Done| sender.send(done.outcome()).unwrap();
                let _tracked = service.submit_tracked(Op::Nop, Call::default(), is_inline, then).unwrap();
                assert_eq!(receiver.recv().unwrap(), Ok(0));
            }
            assert!(service.shutdown(None));
        }
    }
}

#[test]
fn each_operation_is_reported_once() {
    let service = service(Backend::Threads(2), None);
    let (sender, receiver) = mpsc::channel();
    let mut here = 0;
    for _ in 0..2000 {
        let sender = sender.clone();
        let then = move |done: atta_aio::Done| sender.send(done.outcome()).unwrap();
        let tracked = service.submit_tracked(Op::Nop, Call::default(), true, then).unwrap();
        if let Some(done) = tracked.run_here() {
            assert_eq!(done.outcome(), Ok(0));
            here += 1;
        }
        assert!(tracked.run_here().is_none());
    }
    assert!(service.shutdown(None));
    drop(sender);
    assert_eq!(receiver.iter().count() + here, 2000);
}

#[test]
fn a_read_that_waits_is_cancelled() {
    let Ok(service) =
        Service::new(&Options { backend: Backend::Ring(RingOptions::default()), ..Options::default() })
    else {
        return skipped("a_read_that_waits_is_cancelled", "no ring");
    };
    let (reader, _writer) = std::io::pipe().unwrap();
    let fd = Fd::from(std::os::fd::OwnedFd::from(reader));
    for pause in [0, 1, 20] {
        let (sender, receiver) = mpsc::channel();
        let op = Op::Read { fd: fd.clone(), buffer: Buffer::zeroed(1), at: At::Position };
        let then = move |done: atta_aio::Done| sender.send(done.outcome()).unwrap();
        let tracked = service.submit_tracked(op, Call::default(), false, then).unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        tracked.cancel();
        assert_eq!(receiver.recv().unwrap().unwrap_err().0, CANCELED);
    }
}
