//! The memory of a waiting operation: 200 bytes at most beyond the caller's buffers. A separate program, since it counts the
//! allocations of the whole process, as the allocator rounds them up, with a word in front of each block.

#![expect(unsafe_code, reason = "an allocator that counts; memory that is lent")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests; what was measured")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use atta_aio::driver::simulated::{Simulated, SimulatedOptions};
use atta_aio::{At, Backend, Buffer, Call, Fd, Limits, Op, Options, Pending, Proactor, Service, Terms};

const OPERATIONS: usize = 1_000_000;
const BYTES_MOST: usize = 200;
/// The allocator's header of each block.
const HEAD: usize = size_of::<usize>();

static USED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: it is the system's allocator, with a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let pointer = unsafe { System.alloc(layout) };
        // SAFETY: the block is allocated, or null.
        USED.fetch_add(unsafe { libc::malloc_usable_size(pointer.cast()) } + HEAD, Ordering::Relaxed);
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the block is still allocated.
        USED.fetch_sub(unsafe { libc::malloc_usable_size(pointer.cast()) } + HEAD, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn used() -> usize {
    USED.load(Ordering::Relaxed)
}

/// The number of bytes per operation since `before`.
fn each(what: &str, before: usize) -> usize {
    let each = used().saturating_sub(before) / OPERATIONS;
    println!("{what}: {each} bytes for each operation; an Op has {}", size_of::<Op>());
    each
}

/// A read into lent memory, which outlives the operation.
fn read(fd: &Fd) -> Op {
    static mut ROOM: [u8; 1] = [0];
    let room = (&raw mut ROOM).cast();
    // SAFETY: nothing reads it, and nothing is written there: the pipe ends without a byte.
    let buffer = unsafe { Buffer::foreign(room, 1) };
    Op::Read { fd: fd.clone(), buffer, at: At::Offset(7) }
}

/// One test only: the memory of another one would be counted.
#[test]
fn what_waits_takes_little_memory() {
    proactor();
    for is_inline in [true, false] {
        service(is_inline);
    }
}

fn proactor() {
    let mut proactor = Proactor::new(Simulated::new(SimulatedOptions::default()), Limits::default());
    let before = used();
    for number in 0..OPERATIONS as u64 {
        proactor.submit(read(&Fd::Raw(0)).into(), Terms::default(), [number; 3]).unwrap();
    }
    let bytes = each("proactor", before);
    let mut next = 0;
    while proactor.pending() > 0 {
        proactor.advance(None, |_, _| next += 1);
    }
    assert_eq!(next, OPERATIONS);
    assert!(bytes <= BYTES_MOST);
}

fn service(is_inline: bool) {
    let (reader, writer) = std::io::pipe().unwrap();
    let options = Options {
        backend: Backend::Threads(1),
        limits: Limits { running: Some(1), ..Limits::default() },
        ..Options::default()
    };
    let service = Service::new(&options).unwrap();
    let fd = Fd::Raw(reader.as_raw_fd());
    let mut pending = Vec::with_capacity(OPERATIONS);
    // It blocks all others.
    let mut first = read(&fd);
    if let Op::Read { at, .. } = &mut first {
        *at = At::Position;
    }
    let first = service.submit(first, Call::default()).unwrap();
    let before = used();
    for _ in 0..OPERATIONS {
        match is_inline {
            true => service.submit_inline(read(&fd), Call::default(), drop).unwrap(),
            false => pending.push(service.submit(read(&fd), Call::default()).unwrap()),
        }
    }
    settle();
    let what = if is_inline { "service, with a continuation" } else { "service, to be waited for" };
    let bytes = each(what, before);
    // The first one ends; all others end with the service.
    drop(writer);
    drop(service);
    assert!(first.has_ended() && pending.iter().all(Pending::has_ended));
    assert!(bytes <= BYTES_MOST);
}

/// Waits until allocations are stable: the progress thread has taken all operations.
fn settle() {
    let (mut last, mut same) = (0, 0);
    while same < 10 {
        std::thread::sleep(Duration::from_millis(100));
        same = if last == used() { same + 1 } else { 0 };
        last = used();
    }
}
