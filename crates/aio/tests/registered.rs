//! Files that a service has at hand: transfers go to the file that has the number, also after it was closed or let go.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use atta_aio::driver::ring::RingOptions;
use atta_aio::{At, Backend, Call, Fd, Op, Options, Outcome, Service};
use atta_entry::Errno;
use atta_testkit::scratch::Scratch;

/// Longer than anything here takes, on any machine.
const LONG: Duration = Duration::from_secs(60);

fn each(body: impl Fn(&Service)) {
    for backend in [Backend::Best(RingOptions::default()), Backend::Threads(2)] {
        body(&Service::new(&Options { backend, ..Options::default() }).unwrap());
    }
}

/// Carried out by the service, not by this thread.
fn run(service: &Service, op: Op) -> Outcome {
    service.submit(op, Call::default()).unwrap().wait_timeout(LONG).unwrap().outcome()
}

fn write(service: &Service, fd: &Fd, text: &str) -> Outcome {
    run(service, Op::Write { fd: fd.clone(), buffer: text.as_bytes().to_vec().into(), at: At::Offset(0) })
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// One test: it needs to know which number a file gets.
#[test]
fn transfers_go_to_the_file_that_has_the_number() {
    numbers_are_given_away();
    there_may_be_more_files_than_places();
}

fn numbers_are_given_away() {
    let scratch = Scratch::new("registered").unwrap();
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    each(|service| {
        let number = File::create(&first).unwrap().into_raw_fd();
        let fd = Fd::Raw(number);
        service.register(fd.clone());
        assert_eq!(write(service, &fd, "one"), Ok(3));
        assert_eq!(run(service, Op::Close { fd: number }), Ok(0));
        let file = own_number(&second, number);
        assert_eq!(write(service, &fd, "two"), Ok(3));
        assert_eq!((text(&first).as_str(), text(&second).as_str()), ("one", "two"));
        // At hand again, and let go.
        service.register(fd.clone());
        assert_eq!(write(service, &fd, "three"), Ok(5));
        service.unregister(number);
        drop(file);
        let file = own_number(&first, number);
        assert_eq!(write(service, &fd, "four"), Ok(4));
        assert_eq!((text(&first).as_str(), text(&second).as_str()), ("four", "three"));
        drop(file);
    });
}

/// A new file, which has this number: it is the lowest one that is free.
fn own_number(path: &Path, number: i32) -> File {
    let file = File::create(path).unwrap();
    assert_eq!(file.as_raw_fd(), number);
    file
}

/// And wrong ones.
fn there_may_be_more_files_than_places() {
    let scratch = Scratch::new("registered").unwrap();
    let path = scratch.path().join("file");
    each(|service| {
        let kept = OwnedFd::from(File::create(&path).unwrap());
        let mut files: Vec<Fd> = (0..1100).map_while(|_| kept.try_clone().ok().map(Fd::from)).collect();
        files.push(kept.into());
        for file in files.iter().chain(&files) {
            service.register(file.clone());
        }
        service.register(Fd::Raw(-1));
        service.unregister(-7);
        assert!(files.iter().all(|file| write(service, file, "five") == Ok(4)));
        assert_eq!(write(service, &Fd::Raw(-1), "six"), Err(Errno(libc::EBADF)));
        assert_eq!(text(&path), "five");
    });
}
