//! Checks that every driver must pass, through a proactor and through a service: each operation works as its system call, bad
//! arguments are errors, buffers are returned, and nothing is leaked.

#![expect(unsafe_code, reason = "descriptors and structures of the C library")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests; which driver is being tested"
)]

use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use atta_aio::driver::Driver;
use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::driver::simulated::{Fault, FaultKind, Simulated, SimulatedOptions};
use atta_aio::driver::threads::Threads;
use atta_aio::{At, Buffer, Done, Fd, Limits, Op, Outcome, Place, Proactor, Sync, Terms, Vectors};
use atta_entry::Errno;
use atta_testkit::scratch::Scratch;

/// A driver to test, and a directory.
struct Bench {
    proactor: Proactor<Box<dyn Driver>, ()>,
    /// The directory of the files; a simulated driver has its own root.
    scratch: Option<Scratch>,
    open: Vec<RawFd>,
}

/// An open file of a bench, which closes it.
struct File(RawFd);

impl From<&File> for Fd {
    fn from(file: &File) -> Self {
        Self::Raw(file.0)
    }
}

fn c(path: impl AsRef<OsStr>) -> CString {
    CString::new(path.as_ref().as_bytes()).unwrap()
}

impl Bench {
    fn new(driver: Box<dyn Driver>) -> Self {
        let scratch = driver.is_kernel().then(|| Scratch::new("aio").unwrap());
        Self { proactor: Proactor::new(driver, Limits::default()), scratch, open: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.as_ref().map_or_else(|| PathBuf::from("/").join(name), |scratch| scratch.join(name))
    }

    fn place(&self, name: &str) -> Place {
        Place::path(c(self.path(name)))
    }

    fn done(&mut self, op: Op) -> Done {
        let handle = self.proactor.submit(op.into(), Terms::default(), ()).unwrap();
        // Through the driver, not by this thread.
        let mut found = None;
        while found.is_none() {
            self.proactor.advance(None, |(), done| found = Some(done));
        }
        let _ = handle;
        found.unwrap()
    }

    fn run(&mut self, op: Op) -> Outcome {
        let (outcome, _) = self.done(op).into_parts();
        outcome
    }

    fn open(&mut self, name: &str, flags: i32) -> File {
        let place = self.place(name);
        let fd = self.run(Op::Open { place, flags: flags | libc::O_CLOEXEC, mode: 0o640 }).unwrap();
        self.open.push(fd as RawFd);
        File(fd as RawFd)
    }

    fn write(&mut self, file: &File, bytes: &[u8], at: u64) -> Outcome {
        self.run(Op::Write { fd: file.into(), buffer: bytes.to_vec().into(), at: At::Offset(at) })
    }

    fn read(&mut self, file: &File, bytes: usize, at: u64) -> Vec<u8> {
        let op = Op::Read { fd: file.into(), buffer: Buffer::zeroed(bytes), at: At::Offset(at) };
        let (outcome, buffer) = self.done(op).into_buffer();
        let mut bytes = buffer.into_vec();
        bytes.truncate(outcome.unwrap() as usize);
        bytes
    }

    fn stat(&mut self, place: Place, flags: i32) -> Result<libc::statx, Errno> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let out = Box::new(unsafe { std::mem::zeroed::<libc::statx>() });
        let done = self.done(Op::Stat { place, flags, mask: libc::STATX_BASIC_STATS, out });
        let (outcome, op) = done.into_parts();
        outcome?;
        match op.map(|op| *op) {
            Some(Op::Stat { out, .. }) => Ok(*out),
            _ => panic!("another operation came back"),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for fd in std::mem::take(&mut self.open) {
            let outcome = self.run(Op::Close { fd });
            assert!(outcome == Ok(0) || std::thread::panicking(), "{outcome:?}");
        }
    }
}

fn drivers() -> Vec<(&'static str, Box<dyn Driver>)> {
    let mut drivers: Vec<(&'static str, Box<dyn Driver>)> =
        vec![("one thread", Box::new(Threads::new(1))), ("threads", Box::new(Threads::new(4)))];
    drivers.push(("simulated", Box::new(Simulated::new(SimulatedOptions::default()))));
    match Ring::new(&RingOptions { depth: 8, ..RingOptions::default() }) {
        Ok(ring) => drivers.push(("ring", Box::new(ring))),
        Err(error) => atta_testkit::skip::skipped("drivers", &format!("no ring: {error}")),
    }
    // As on a kernel that supports only reads and writes.
    let without = (0..=255).filter(|opcode| ![1, 2, 22, 23].contains(opcode)).collect();
    if let Ok(ring) = Ring::new(&RingOptions { depth: 8, without, ..RingOptions::default() }) {
        drivers.push(("ring without opcodes", Box::new(ring)));
    }
    drivers
}

/// A driver whose reads end only when they are cancelled.
fn hanging() -> Box<dyn Driver> {
    let faults = vec![Fault { names: vec!["read"], per_mille: 1000, kind: FaultKind::Hangs }];
    Box::new(Simulated::new(SimulatedOptions { faults, ..SimulatedOptions::default() }))
}

fn each(body: fn(&mut Bench)) {
    for (name, driver) in drivers() {
        println!("{name}");
        body(&mut Bench::new(driver));
    }
}

#[test]
fn files_are_written_and_read() {
    each(|bench| {
        let file = bench.open("file", libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
        assert_eq!(bench.write(&file, b"0123456789", 0), Ok(10));
        assert_eq!(bench.write(&file, b"ab", 4), Ok(2));
        assert_eq!(bench.read(&file, 100, 2), b"23ab6789");
        assert_eq!(bench.read(&file, 3, 100), b"");
        let vectors = Vectors::new(vec![b"XX".to_vec().into(), b"YYY".to_vec().into()]);
        assert_eq!(bench.run(Op::WriteVectors { fd: (&file).into(), vectors, at: At::Offset(8) }), Ok(5));
        let vectors = Vectors::new(vec![Buffer::zeroed(4), Buffer::zeroed(0), Buffer::zeroed(20)]);
        let done = bench.done(Op::ReadVectors { fd: (&file).into(), vectors, at: At::Offset(6) });
        let (outcome, op) = done.into_parts();
        assert_eq!(outcome, Ok(7));
        let Some(Op::ReadVectors { vectors, .. }) = op.map(|op| *op) else { panic!() };
        let parts: Vec<_> = vectors.into_buffers().into_iter().map(Buffer::into_vec).collect();
        assert_eq!((&parts[0][..], &parts[2][..3]), (&b"67XX"[..], &b"YYY"[..]));
        let seek = |offset, whence| Op::Seek { fd: (&file).into(), offset, whence };
        assert_eq!(bench.run(seek(3, libc::SEEK_SET)), Ok(3));
        let read = Op::Read { fd: (&file).into(), buffer: Buffer::zeroed(2), at: At::Position };
        assert_eq!(bench.done(read).into_buffer().1.as_slice(), b"3a");
        assert_eq!(bench.run(seek(0, libc::SEEK_CUR)), Ok(5));
        assert_eq!(bench.run(seek(0, libc::SEEK_END)), Ok(13));
        assert_eq!(bench.run(Op::Truncate { fd: (&file).into(), bytes: 4 }), Ok(0));
        assert_eq!(bench.read(&file, 100, 0), b"0123");
        let allocate = |mode, bytes| Op::Allocate { fd: (&file).into(), mode, offset: 0, bytes };
        assert_eq!(bench.run(allocate(0, 2)), Ok(0));
        assert_eq!(bench.read(&file, 100, 0), b"0123");
        assert_eq!(bench.run(allocate(0, 6)), Ok(0));
        assert_eq!(bench.read(&file, 100, 0), b"0123\0\0");
        let shorten = allocate(libc::FALLOC_FL_COLLAPSE_RANGE, 4096);
        assert_eq!(bench.run(shorten), Err(Errno(libc::EOPNOTSUPP)));
        assert_eq!(bench.read(&file, 100, 0), b"0123\0\0");
        for what in [Sync::All, Sync::Data] {
            assert_eq!(bench.run(Op::Sync { fd: (&file).into(), what }), Ok(0));
        }
        for bytes in [0, 6, 1 << 40] {
            let flags = libc::SYNC_FILE_RANGE_WRITE;
            assert_eq!(bench.run(Op::SyncRange { fd: (&file).into(), offset: 0, bytes, flags }), Ok(0));
            let advice = libc::POSIX_FADV_SEQUENTIAL;
            assert_eq!(bench.run(Op::Advise { fd: (&file).into(), offset: 0, bytes, advice }), Ok(0));
        }
        let copy = bench.open("copy", libc::O_RDWR | libc::O_CREAT);
        let range = Op::CopyRange {
            from: (&file).into(),
            from_offset: 1,
            to: (&copy).into(),
            to_offset: 2,
            bytes: 3,
        };
        assert_eq!(bench.run(range), Ok(3));
        assert_eq!(bench.read(&copy, 10, 0), b"\0\x00123");
    });
}

#[test]
fn names_are_made_moved_and_removed() {
    each(|bench| {
        let place = bench.place("dir");
        assert_eq!(bench.run(Op::MakeDirectory { place: place.clone(), mode: 0o755 }), Ok(0));
        assert_eq!(bench.run(Op::MakeDirectory { place, mode: 0o755 }), Err(Errno(libc::EEXIST)));
        let dir = bench.open("dir", libc::O_RDONLY | libc::O_DIRECTORY);
        let below = |name: &str| Place::at(&dir, c(name));
        let made =
            bench.run(Op::Open { place: below("a"), flags: libc::O_CREAT | libc::O_WRONLY, mode: 0o600 });
        assert_eq!(bench.run(Op::Close { fd: made.unwrap() as i32 }), Ok(0));
        assert_eq!(bench.run(Op::Link { from: below("a"), to: below("b"), flags: 0 }), Ok(0));
        assert_eq!(bench.run(Op::Symlink { target: c("a"), place: below("l") }), Ok(0));
        let (outcome, buffer) =
            bench.done(Op::ReadLink { place: below("l"), buffer: Buffer::zeroed(10) }).into_buffer();
        assert_eq!((outcome, buffer.as_slice()[0]), (Ok(1), b'a'));
        assert_eq!(bench.stat(below("b"), 0).unwrap().stx_nlink, 2);
        let link = bench.stat(below("l"), libc::AT_SYMLINK_NOFOLLOW).unwrap();
        assert_eq!(u32::from(link.stx_mode) & libc::S_IFMT, libc::S_IFLNK);
        let rename = |from, to, flags| Op::Rename { from: below(from), to: below(to), flags };
        assert_eq!(bench.run(rename("b", "c", 0)), Ok(0));
        assert_eq!(bench.run(rename("a", "c", libc::RENAME_NOREPLACE)), Err(Errno(libc::EEXIST)));
        assert_eq!(bench.run(rename("b", "d", 0)), Err(Errno::NOENT));
        let mut names = Vec::new();
        loop {
            let op = Op::ReadDirectory { fd: (&dir).into(), buffer: Buffer::zeroed(1024) };
            let (outcome, buffer) = bench.done(op).into_buffer();
            let bytes = outcome.unwrap() as usize;
            if bytes == 0 {
                break;
            }
            let mut rest = &buffer.as_slice()[..bytes];
            while let Some(length) = rest.get(16..18) {
                let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
                let name = &rest[19..length];
                names.push(
                    String::from_utf8(name[..name.iter().position(|b| *b == 0).unwrap()].to_vec()).unwrap(),
                );
                rest = &rest[length..];
            }
        }
        names.sort();
        assert_eq!(names, [".", "..", "a", "c", "l"]);
        for name in ["a", "c", "l"] {
            assert_eq!(bench.run(Op::Unlink { place: below(name), flags: 0 }), Ok(0));
        }
        let remove = Op::Unlink { place: bench.place("dir"), flags: libc::AT_REMOVEDIR };
        assert_eq!(bench.run(remove), Ok(0));
    });
}

#[test]
fn attributes_are_set_and_read() {
    each(|bench| {
        let file = bench.open("file", libc::O_RDWR | libc::O_CREAT);
        let (by_name, by_file) = (bench.place("file"), Place::file(&file));
        let directory = bench.open(".", libc::O_RDONLY | libc::O_DIRECTORY);
        let below = Place::at(&directory, c("file"));
        for (number, place) in (0_u32..).zip([&by_name, &by_file, &below]) {
            assert_eq!(bench.run(Op::SetMode { place: place.clone(), mode: 0o600 + number }), Ok(0));
            let stat = bench.stat(place.clone(), 0).unwrap();
            assert_eq!(u32::from(stat.stx_mode), libc::S_IFREG | 0o600 | number);
            let owner = Op::SetOwner { place: place.clone(), owner: u32::MAX, group: u32::MAX, flags: 0 };
            assert_eq!(bench.run(owner), Ok(0));
            let time = |seconds| libc::timespec { tv_sec: seconds, tv_nsec: 7 };
            let times = Box::new([time(1000), time(2000 + i64::from(number))]);
            assert_eq!(bench.run(Op::SetTimes { place: place.clone(), times, flags: 0 }), Ok(0));
            let stat = bench.stat(place.clone(), 0).unwrap();
            assert_eq!((stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec), (2000 + i64::from(number), 7));
            assert_eq!(bench.run(Op::Access { place: place.clone(), mode: libc::R_OK, flags: 0 }), Ok(0));
            let name = || c(format!("user.n{number}"));
            let value = || vec![number as u8; 3].into();
            let set = Op::SetAttribute {
                place: Box::new(place.clone()),
                name: name(),
                value: value(),
                create: 0,
                flags: 0,
            };
            if bench.run(set) == Err(Errno(libc::EOPNOTSUPP)) {
                atta_testkit::skip::skipped("attributes_are_set_and_read", "no extended attributes here");
                return;
            }
            for (room, expected) in [(0, Ok(3)), (3, Ok(3)), (2, Err(Errno(libc::ERANGE)))] {
                let buffer = Buffer::zeroed(room);
                let get = Op::GetAttribute { place: Box::new(place.clone()), name: name(), buffer, flags: 0 };
                assert_eq!(bench.run(get), expected);
            }
            let list = Op::ListAttributes { place: place.clone(), buffer: Buffer::zeroed(100), flags: 0 };
            let (outcome, buffer) = bench.done(list).into_buffer();
            assert_eq!(
                &buffer.as_slice()[..outcome.unwrap() as usize],
                format!("user.n{number}\0").as_bytes()
            );
            let remove = || Op::RemoveAttribute { place: place.clone(), name: name(), flags: 0 };
            assert_eq!(bench.run(remove()), Ok(0));
            assert_eq!(bench.run(remove()), Err(Errno(libc::ENODATA)));
        }
        // SAFETY: a structure of numbers, for which zero is a value.
        let out = || Box::new(unsafe { std::mem::zeroed::<libc::statfs>() });
        for place in [by_name, by_file] {
            let (outcome, op) = bench.done(Op::StatFs { place, out: out() }).into_parts();
            let Some(Op::StatFs { out, .. }) = op.map(|op| *op) else { panic!() };
            assert!(outcome == Ok(0) && out.f_bsize > 0);
        }
    });
}

#[test]
fn bad_arguments_are_errors() {
    each(|bench| {
        let bad = Fd::Raw(999_999);
        let read = |fd, at| Op::Read { fd, buffer: Buffer::zeroed(3), at };
        let (outcome, buffer) = bench.done(read(bad.clone(), At::Offset(0))).into_buffer();
        assert_eq!((outcome, buffer.len()), (Err(Errno(libc::EBADF)), 3));
        assert_eq!(bench.run(Op::Close { fd: -1 }), Err(Errno(libc::EBADF)));
        assert_eq!(bench.run(Op::Sync { fd: bad.clone(), what: Sync::All }), Err(Errno(libc::EBADF)));
        assert_eq!(bench.run(Op::Truncate { fd: bad, bytes: 0 }), Err(Errno(libc::EBADF)));
        let file = bench.open("file", libc::O_RDWR | libc::O_CREAT);
        for at in [u64::MAX, 1 << 63] {
            assert_eq!(bench.run(read((&file).into(), At::Offset(at))), Err(Errno::INVAL));
        }
        let read_only = bench.open("file", libc::O_RDONLY);
        assert_eq!(bench.write(&read_only, b"x", 0), Err(Errno(libc::EBADF)));
        let place = bench.place("none/file");
        assert_eq!(bench.run(Op::Open { place, flags: 0, mode: 0 }), Err(Errno::NOENT));
        let place = Place::path(CString::default());
        assert_eq!(bench.run(Op::Open { place: place.clone(), flags: 0, mode: 0 }), Err(Errno::NOENT));
        assert_eq!(bench.run(Op::Unlink { place, flags: 0 }), Err(Errno::NOENT));
        assert_eq!(
            bench.run(Op::Allocate { fd: (&file).into(), mode: 1 << 20, offset: 0, bytes: 1 }),
            Err(Errno(libc::EOPNOTSUPP))
        );
    });
}

#[test]
fn many_run_at_once_and_each_ends_once() {
    each(|bench| {
        let file = bench.open("file", libc::O_RDWR | libc::O_CREAT);
        for number in 0..1000_u64 {
            let buffer = number.to_ne_bytes().to_vec().into();
            let op = Op::Write { fd: (&file).into(), buffer, at: At::Offset(number * 8) };
            bench.proactor.submit(op.into(), Terms::default(), ()).unwrap();
        }
        let mut ended = 0;
        while bench.proactor.pending() > 0 {
            bench.proactor.advance(Some(Duration::from_secs(10)), |(), done| {
                assert_eq!(done.outcome(), Ok(8));
                ended += 1;
            });
        }
        assert_eq!(ended, 1000);
        let all = bench.read(&file, 8000, 0);
        assert!(all.chunks(8).zip(0_u64..).all(|(bytes, number)| bytes == number.to_ne_bytes()));
    });
}

#[test]
fn what_waits_or_runs_can_be_cancelled_or_be_late() {
    each(|bench| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let reader = Arc::new(OwnedFd::from(reader));
        let read = || Op::Read { fd: (&reader).into(), buffer: Buffer::zeroed(1), at: At::Position };
        // Waits, as it has not been handed to the driver.
        let handle = bench.proactor.submit(read().into(), Terms::default(), ()).unwrap();
        assert!(bench.proactor.cancel(handle));
        let mut results = Vec::new();
        bench.proactor.advance(Some(Duration::ZERO), |(), done| results.push(done.into_buffer()));
        assert_eq!((results[0].0, results[0].1.len()), (Err(Errno(libc::ECANCELED)), 1));
        assert!(!bench.proactor.cancel(handle));
    });
    // A thread in `read` cannot be interrupted: the operation is given up.
    for (name, driver) in drivers() {
        // A simulated file system has no pipes: a read hangs because of a fault.
        let driver = if driver.is_kernel() { driver } else { hanging() };
        let limits = Limits { grace: Some(Duration::from_millis(20)), ..Limits::default() };
        let mut proactor = Proactor::new(driver, limits);
        let (reader, writer) = std::io::pipe().unwrap();
        let reader = Arc::new(OwnedFd::from(reader));
        assert!(reader.as_raw_fd() > 0);
        let op = Op::Read { fd: (&reader).into(), buffer: Buffer::zeroed(1), at: At::Position };
        let deadline = Some(proactor.driver().now() + Duration::from_millis(20));
        proactor.submit(op.into(), Terms { deadline, position: None }, ()).unwrap();
        let mut ended = None;
        while ended.is_none() {
            proactor.advance(None, |(), done| ended = Some(done.into_parts()));
        }
        let (outcome, op) = ended.unwrap();
        assert_eq!(outcome, Err(Errno(libc::ETIMEDOUT)), "{name}");
        // Threads still have the buffer; all other drivers return it.
        assert_eq!(op.is_some(), !name.contains("thread"), "{name}");
        drop(writer);
    }
}

#[test]
fn reads_without_an_offset_never_get_the_same_bytes() {
    each(|bench| {
        let file = bench.open("file", libc::O_RDWR | libc::O_CREAT);
        let all: Vec<u8> = (0..255).collect();
        assert_eq!(bench.write(&file, &all, 0), Ok(255));
        let position = bench.proactor.add_position(0);
        let terms = Terms { deadline: None, position: Some(position) };
        for _ in 0..30 {
            let op = Op::Read { fd: (&file).into(), buffer: Buffer::zeroed(10), at: At::Position };
            bench.proactor.submit(op.into(), terms, ()).unwrap();
        }
        bench.proactor.remove_position(position);
        let mut seen = Vec::new();
        while bench.proactor.pending() > 0 {
            bench.proactor.advance(None, |(), done| {
                let (outcome, buffer) = done.into_buffer();
                seen.extend_from_slice(&buffer.as_slice()[..outcome.unwrap() as usize]);
            });
        }
        assert_eq!(seen, all);
        // The kernel's own position has not moved.
        let seek = Op::Seek { fd: (&file).into(), offset: 0, whence: libc::SEEK_CUR };
        assert_eq!(bench.run(seek), Ok(0));
        let late = Op::Read { fd: (&file).into(), buffer: Buffer::zeroed(10), at: At::Position };
        bench.proactor.submit(late.into(), terms, ()).unwrap();
        let mut outcome = None;
        bench.proactor.advance(None, |(), done| outcome = Some(done.outcome()));
        assert_eq!(outcome, Some(Err(Errno(libc::EBADF))));
    });
}
