//! No descriptor stays open, however operations end. A separate program, since it counts the descriptors of the process.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_aio::driver::Driver;
use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::driver::threads::Threads;
use atta_aio::{Limits, Op, Place, Proactor, Terms};
use atta_testkit::scratch::Scratch;

fn descriptors() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the kernel's list of this process")]
    let list = std::fs::read_dir("/proc/self/fd");
    list.unwrap().count()
}

fn open(path: &Path) -> Op {
    let place = Place::path(CString::new(path.as_os_str().as_bytes()).unwrap());
    Op::Open { place, flags: libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, mode: 0o600 }
}

#[test]
fn no_descriptor_is_left_open() {
    let scratch = Scratch::new("aio-leaks").unwrap();
    let before = descriptors();
    for number in 0..20 {
        let driver: Box<dyn Driver> = match Ring::new(&RingOptions::default()) {
            Ok(ring) if number % 2 == 0 => Box::new(ring),
            _ => Box::new(Threads::new(3)),
        };
        let mut proactor = Proactor::new(driver, Limits::default());
        // The descriptor of this operation is not taken,
        proactor.submit(open(&scratch.join("dropped")).into(), Terms::default(), ()).unwrap();
        proactor.advance(None, |(), done| drop(done));
        // this operation is cancelled while it may run,
        let handle = proactor.submit(open(&scratch.join("cancelled")).into(), Terms::default(), ()).unwrap();
        proactor.advance(Some(Duration::ZERO), |(), done| drop(done));
        proactor.cancel(handle);
        // and this operation is not waited for.
        proactor.submit(open(&scratch.join("pending")).into(), Terms::default(), ()).unwrap();
        proactor.advance(Some(Duration::ZERO), |(), done| drop(done));
    }
    // Threads end shortly after their driver, and may open pending files until then.
    let until = Instant::now() + Duration::from_secs(10);
    let mut quiet = 0;
    while quiet < 100 && Instant::now() < until {
        quiet = if descriptors() == before { quiet + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(quiet, 100, "{} descriptors are open, {before} before", descriptors());
}
