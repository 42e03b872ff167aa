//! Compound operations through a proactor, on every driver: their effects, their errors, and that a stop at any time leaves no
//! descriptor and no temporary file. The tests count the descriptors of the process, and so run one after the other.

#![expect(unsafe_code, reason = "descriptors and structures of the C library")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "helpers of tests, in directories of their own; which driver is being tested"
)]

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use atta_aio::driver::Driver;
use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::driver::threads::Threads;
use atta_aio::{Buffer, Done, Fd, Limits, Op, Outcome, Place, Proactor, Terms, Work, compound, perform};
use atta_entry::Errno;
use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::{mounts, skip};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn c(path: impl AsRef<OsStr>) -> CString {
    CString::new(path.as_ref().as_bytes()).unwrap()
}

fn place(path: impl AsRef<OsStr>) -> Place {
    Place::path(c(path))
}

type Driving = Proactor<Box<dyn Driver>, ()>;

fn drivers() -> Vec<(&'static str, Driving)> {
    let mut drivers: Vec<(&str, Box<dyn Driver>)> =
        vec![("one thread", Box::new(Threads::new(1))), ("threads", Box::new(Threads::new(4)))];
    match Ring::new(&RingOptions { depth: 8, ..RingOptions::default() }) {
        Ok(ring) => drivers.push(("ring", Box::new(ring))),
        Err(error) => skip::skipped("drivers", &format!("no ring: {error}")),
    }
    drivers.into_iter().map(|(name, driver)| (name, Proactor::new(driver, Limits::default()))).collect()
}

/// Runs a body on every driver, in a directory of its own.
fn each(body: fn(&mut Driving, &Scratch)) {
    let _alone = alone();
    each_driver(body);
}

/// The same for tests that mount.
fn each_mounting(body: fn(&mut Driving, &Scratch)) {
    let _alone = alone();
    let _lock = Lock::for_mounts().unwrap();
    each_driver(body);
}

fn each_driver(body: fn(&mut Driving, &Scratch)) {
    for (name, mut proactor) in drivers() {
        println!("{name}");
        let scratch = Scratch::new("compound").unwrap();
        let before = descriptors();
        body(&mut proactor, &scratch);
        assert_eq!(descriptors(), before, "{name}");
        assert_eq!(temporaries(scratch.path()), 0, "{name}");
    }
}

/// The open descriptors of files and directories: threads of earlier drivers open and close others.
fn descriptors() -> usize {
    let list = fs::read_dir("/proc/self/fd").unwrap();
    list.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.as_os_str().as_bytes().starts_with(b"/") && !target.starts_with("/proc"))
        .count()
}

fn temporaries(directory: &Path) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.as_bytes().starts_with(b".atta-")).count()
}

fn done(proactor: &mut Driving, work: Work) -> Done {
    proactor.submit(work, Terms::default(), ()).unwrap();
    let mut found = None;
    while found.is_none() {
        proactor.advance(None, |(), done| found = Some(done));
    }
    found.unwrap()
}

fn run(proactor: &mut Driving, work: Work) -> Outcome {
    done(proactor, work).outcome()
}

fn file(path: &Path, write: bool) -> Fd {
    let mut options = fs::OpenOptions::new();
    let options = if write { options.write(true).create(true) } else { options.read(true) };
    Fd::from(OwnedFd::from(options.open(path).unwrap()))
}

/// A directory on another file system than the scratch directory.
fn elsewhere(scratch: &Scratch, test: &str) -> Option<Scratch> {
    let other = Scratch::below(Path::new("/dev/shm"), "compound").ok()?;
    if fs::metadata(other.path()).unwrap().dev() == fs::metadata(scratch.path()).unwrap().dev() {
        skip::skipped(test, "/dev/shm is no other file system");
        return None;
    }
    Some(other)
}

/// The outcome of the system's `truncate`.
fn truncated_by_system(path: &Path) -> Outcome {
    let path = c(path);
    // SAFETY: the path ends with NUL and lives until the call returns.
    match unsafe { libc::truncate(path.as_ptr(), 0) } {
        0 => Ok(0),
        _ => Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap())),
    }
}

#[test]
fn what_is_no_file_has_no_length() {
    each(|proactor, scratch| {
        let (pipe, socket) = (scratch.join("pipe"), scratch.join("socket"));
        // SAFETY: the path ends with NUL and lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(c(&pipe).as_ptr(), 0o600) }, 0);
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [pipe.as_path(), socket.as_path(), Path::new("/dev/null")] {
            let expected = truncated_by_system(path);
            assert_eq!(expected, Err(Errno::INVAL), "{path:?}");
            assert_eq!(run(proactor, compound::truncate(place(path), 0)), expected, "{path:?}");
        }
    });
}

#[test]
fn files_are_truncated_by_path() {
    each(|proactor, scratch| {
        let path = scratch.join("file");
        fs::write(&path, b"0123456789").unwrap();
        assert_eq!(run(proactor, compound::truncate(place(&path), 4)), Ok(0));
        assert_eq!(fs::read(&path).unwrap(), b"0123");
        symlink("file", scratch.join("link")).unwrap();
        assert_eq!(run(proactor, compound::truncate(place(scratch.join("link")), 6)), Ok(0));
        assert_eq!(fs::read(&path).unwrap(), b"0123\0\0");
        assert_eq!(run(proactor, compound::truncate(Place::file(file(&path, true)), 1)), Ok(0));
        assert_eq!(fs::read(&path).unwrap(), b"0");
        assert_eq!(run(proactor, compound::truncate(place(scratch.join("none")), 4)), Err(Errno::NOENT));
        assert_eq!(run(proactor, compound::truncate(place(scratch.path()), 4)), Err(Errno(libc::EISDIR)));
        assert_eq!(run(proactor, compound::truncate(place(path.join("x")), 4)), Err(Errno::NOTDIR));
        assert_eq!(run(proactor, compound::truncate(place(&path), u64::MAX)), Err(Errno::INVAL));
        assert_eq!(run(proactor, compound::truncate(Place::file(file(&path, false)), 1)), Err(Errno::INVAL));
    });
}

#[test]
fn files_are_looked_at_through_a_descriptor() {
    each(|proactor, scratch| {
        fs::write(scratch.join("file"), b"12345").unwrap();
        symlink("file", scratch.join("link")).unwrap();
        let mut look = |name: &str, flags, mask| {
            let work = compound::stat(place(scratch.join(name)), flags, mask);
            let (outcome, op) = done(proactor, work).into_parts();
            match (outcome, op.map(|op| *op)) {
                (Ok(0), Some(Op::Stat { out, .. })) => {
                    Ok((out.stx_size, u32::from(out.stx_mode) & libc::S_IFMT))
                }
                (Err(errno), None) => Err(errno),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(look("file", 0, 1 << 31), Err(Errno::INVAL));
        let mut size = |name, flags| look(name, flags, libc::STATX_BASIC_STATS);
        assert_eq!(size("file", 0), Ok((5, libc::S_IFREG)));
        assert_eq!(size("link", 0), Ok((5, libc::S_IFREG)));
        assert_eq!(size("link", libc::AT_SYMLINK_NOFOLLOW), Ok((4, libc::S_IFLNK)));
        assert_eq!(size("none", 0), Err(Errno::NOENT));
        assert_eq!(size("file/x", 0), Err(Errno::NOTDIR));
    });
}

#[test]
fn ranges_are_copied() {
    each(|proactor, scratch| {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number / 3) as u8).collect();
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        fs::write(&from, &bytes).unwrap();
        let mut copy = |from, at, to, there, bytes| run(proactor, compound::copy(from, at, to, there, bytes));
        assert_eq!(copy(file(&from, false), 1000, file(&to, true), 5, 700_000), Ok(700_000));
        assert!(fs::read(&to).unwrap()[5..] == bytes[1000..701_000]);
        assert_eq!(copy(file(&from, false), 900_000, file(&to, true), 0, u64::MAX), Ok(100_000));
        assert!(fs::read(&to).unwrap()[..100_000] == bytes[900_000..]);
        assert_eq!(copy(file(&from, false), 1_000_000, file(&to, true), 0, 10), Ok(0));
        assert_eq!(copy(file(&from, false), 0, file(&to, true), 0, 0), Ok(0));
        // The kernel does not know the length of these files.
        let maps =
            copy(file(Path::new("/proc/self/maps"), false), 0, file(&scratch.join("maps"), true), 0, 1 << 20);
        assert!(maps.unwrap() > 100);
        assert_eq!(copy(file(&to, true), 0, file(&to, true), 0, 10), Err(Errno(libc::EBADF)));
        assert_eq!(copy(Fd::Raw(-1), 0, file(&to, true), 0, 10), Err(Errno(libc::EBADF)));
        // A file copied to itself: the kernel refuses overlapping ranges.
        let both = fs::OpenOptions::new().read(true).write(true).open(&to).unwrap();
        let both = Fd::from(OwnedFd::from(both));
        assert_eq!(copy(both.clone(), 0, both, 100, 1000), Err(Errno::INVAL));
        if let Some(other) = elsewhere(scratch, "ranges_are_copied") {
            let there = other.join("to");
            assert_eq!(copy(file(&from, false), 0, file(&there, true), 0, u64::MAX), Ok(1_000_000));
            assert!(fs::read(&there).unwrap() == bytes);
        }
        if Path::new("/dev/full").exists() {
            let full = copy(file(&from, false), 0, file(Path::new("/dev/full"), true), 0, 10);
            assert_eq!(full, Err(Errno(libc::ENOSPC)));
        }
    });
}

#[test]
fn files_are_written_as_a_whole() {
    each(|proactor, scratch| {
        let path = scratch.join("file");
        let bytes = vec![7; 3_000_000];
        let (outcome, buffer) =
            done(proactor, compound::write(place(&path), 0o640, bytes.clone())).into_buffer();
        assert_eq!((outcome, buffer.into_vec() == bytes), (Ok(3_000_000), true));
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777 & !0o640, 0);
        assert_eq!(run(proactor, compound::write(place(&path), 0o600, Vec::new())), Ok(0));
        assert_eq!(fs::read(&path).unwrap(), b"");
        // A link is replaced.
        fs::write(scratch.join("target"), b"target").unwrap();
        symlink("target", scratch.join("link")).unwrap();
        assert_eq!(run(proactor, compound::write(place(scratch.join("link")), 0o600, b"x".to_vec())), Ok(1));
        assert!(!scratch.join("link").is_symlink() && fs::read(scratch.join("target")).unwrap() == b"target");
        // Below a directory, with lent memory.
        let directory = Fd::from(OwnedFd::from(fs::File::open(scratch.path()).unwrap()));
        let mut lent = *b"lent";
        // SAFETY: it lives until the operation has ended, for which this test waits.
        let buffer = unsafe { Buffer::foreign(lent.as_mut_ptr(), lent.len()) };
        assert_eq!(run(proactor, compound::write(Place::at(directory, c("lent")), 0o600, buffer)), Ok(4));
        assert_eq!(fs::read(scratch.join("lent")).unwrap(), lent);

        fs::create_dir(scratch.join("dir")).unwrap();
        let errors = [
            ("none/file", libc::ENOENT),
            ("file/file", libc::ENOTDIR),
            ("dir", libc::EISDIR),
            ("dir/", libc::EISDIR),
            ("dir/..", libc::EISDIR),
        ];
        for (name, errno) in errors {
            let work = compound::write(place(scratch.join(name)), 0o600, b"123".to_vec());
            let (outcome, buffer) = done(proactor, work).into_buffer();
            assert_eq!((outcome, buffer.as_slice()), (Err(Errno(errno)), &b"123"[..]), "{name}");
        }
        assert_eq!(run(proactor, compound::write(place(""), 0o600, b"1".to_vec())), Err(Errno::NOENT));
    });
}

#[test]
fn directories_are_made_on_the_way() {
    each(|proactor, scratch| {
        let mut make = |path: PathBuf| run(proactor, compound::make_directories(place(path), 0o750));
        assert_eq!(make(scratch.join("a/b//c/d/")), Ok(4));
        assert_eq!(fs::metadata(scratch.join("a/b/c/d")).unwrap().mode() & 0o777 & !0o750, 0);
        assert_eq!(make(scratch.join("a/b/c/d")), Ok(0));
        assert_eq!(make(scratch.join("a/x/../y/./z")), Ok(3));
        assert!(scratch.join("a/y/z").is_dir() && scratch.join("a/x").is_dir());
        assert_eq!(make(PathBuf::from("/")), Ok(0));
        assert_eq!(make(PathBuf::new()), Err(Errno::NOENT));
        fs::write(scratch.join("file"), b"").unwrap();
        assert_eq!(make(scratch.join("file")), Err(Errno(libc::EEXIST)));
        assert_eq!(make(scratch.join("file/x")), Err(Errno::NOTDIR));
        assert_eq!(make(scratch.join("file/x/y")), Err(Errno::NOTDIR));
        symlink("a", scratch.join("link")).unwrap();
        symlink("none", scratch.join("dangling")).unwrap();
        assert_eq!(make(scratch.join("link")), Ok(0));
        assert_eq!(make(scratch.join("link/new")), Ok(1));
        assert_eq!(make(scratch.join("dangling")), Err(Errno(libc::EEXIST)));
        assert_eq!(make(scratch.join("dangling/x")), Err(Errno::NOENT));
        assert_eq!(make(PathBuf::from("/proc/none/x")), Err(Errno::NOENT));
        let long = scratch.join("l").join("x".repeat(300));
        assert_eq!(make(long), Err(Errno(libc::ENAMETOOLONG)));
    });
}

#[test]
fn many_make_the_same_directories() {
    each(|proactor, scratch| {
        for round in 0..20 {
            for _ in 0..8 {
                let path = scratch.join(format!("{round}/a/b/c/d/e/f"));
                proactor
                    .submit(compound::make_directories(place(path), 0o755), Terms::default(), ())
                    .unwrap();
            }
            let mut made = 0;
            while proactor.pending() > 0 {
                proactor.advance(None, |(), done| made += done.outcome().unwrap());
            }
            assert_eq!(made, 7);
        }
    });
}

#[test]
fn names_change_within_a_file_system() {
    each(|proactor, scratch| {
        let at = |name: &str| place(scratch.join(name));
        fs::write(scratch.join("a"), b"a").unwrap();
        fs::write(scratch.join("b"), b"b").unwrap();
        assert_eq!(run(proactor, compound::rename(at("a"), at("c"), 0)), Ok(0));
        let refused = run(proactor, compound::rename(at("b"), at("c"), libc::RENAME_NOREPLACE));
        assert_eq!(refused, Err(Errno(libc::EEXIST)));
        assert_eq!(run(proactor, compound::rename(at("none"), at("c"), 0)), Err(Errno::NOENT));
        assert_eq!(run(proactor, compound::rename(at("c/x"), at("d"), 0)), Err(Errno::NOTDIR));
        assert_eq!(fs::read(scratch.join("c")).unwrap(), b"a");
    });
}

/// Sets metadata to copy. Returns whether the file system has attributes.
fn dress(path: &Path) -> bool {
    let times = fs::FileTimes::new();
    let at = |seconds| UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    let value: Buffer = b"value".to_vec().into();
    let mut set =
        Op::SetAttribute { place: Box::new(place(path)), name: c("user.name"), value, create: 0, flags: 0 };
    let has_attributes = perform(&mut set).is_ok();
    fs::set_permissions(path, fs::Permissions::from_mode(0o4751)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_times(times.set_accessed(at(1_000)).set_modified(at(2_000))).unwrap();
    has_attributes
}

#[test]
fn files_go_to_another_file_system() {
    each(|proactor, scratch| {
        let Some(other) = elsewhere(scratch, "files_go_to_another_file_system") else { return };
        let bytes: Vec<u8> = (0..700_000_u32).map(|number| (number / 3) as u8).collect();
        let (old, new) = (scratch.join("old"), other.join("new"));
        for is_there in [false, true] {
            fs::write(&old, &bytes).unwrap();
            let has_attributes = dress(&old);
            let was = fs::metadata(&old).unwrap();
            assert_eq!(new.exists(), is_there);
            let outcome = run(proactor, compound::rename(place(&old), place(&new), 0));
            if outcome == Err(Errno(libc::EOPNOTSUPP)) {
                return skip::skipped("files_go_to_another_file_system", "no attributes on /dev/shm");
            }
            assert_eq!(outcome, Ok(0));
            let is = fs::metadata(&new).unwrap();
            assert_eq!((is.mode(), is.uid(), is.gid()), (was.mode(), was.uid(), was.gid()));
            assert_eq!((is.atime(), is.mtime(), is.mtime_nsec()), (1_000, 2_000, 123_456_789));
            let (name, buffer) = (c("user.name"), Buffer::zeroed(10));
            let mut get = Op::GetAttribute { place: Box::new(place(&new)), name, buffer, flags: 0 };
            assert_eq!(perform(&mut get).is_ok(), has_attributes);
            assert!(fs::read(&new).unwrap() == bytes && !old.exists());
        }
        assert_eq!(temporaries(other.path()), 0);
    });
}

#[test]
fn links_to_another_file_system_are_not_followed() {
    each(|proactor, scratch| {
        let test = "links_to_another_file_system_are_not_followed";
        let Some(other) = elsewhere(scratch, test) else { return };
        fs::write(scratch.join("target"), b"x").unwrap();
        symlink("target", scratch.join("link")).unwrap();
        let was = fs::symlink_metadata(scratch.join("link")).unwrap();
        let (from, to) = (place(scratch.join("link")), place(other.join("link")));
        assert_eq!(run(proactor, compound::rename(from, to, 0)), Ok(0));
        assert_eq!(fs::read_link(other.join("link")).unwrap(), Path::new("target"));
        let is = fs::symlink_metadata(other.join("link")).unwrap();
        assert_eq!((is.mtime(), is.mtime_nsec()), (was.mtime(), was.mtime_nsec()));
        assert!(scratch.join("target").exists() && !scratch.join("link").is_symlink());
        // A file replaces a link, not the link's target.
        let to = place(other.join("link"));
        assert_eq!(run(proactor, compound::rename(place(scratch.join("target")), to, 0)), Ok(0));
        assert!(!other.join("link").is_symlink() && fs::read(other.join("link")).unwrap() == b"x");
    });
}

#[test]
fn what_cannot_go_to_another_file_system_stays() {
    each(|proactor, scratch| {
        let Some(other) = elsewhere(scratch, "what_cannot_go_to_another_file_system_stays") else { return };
        fs::write(scratch.join("file"), b"x").unwrap();
        fs::create_dir(scratch.join("dir")).unwrap();
        fs::create_dir(other.join("dir")).unwrap();
        fs::write(other.join("file"), b"y").unwrap();
        let mut rename = |from: &str, to: &str, flags| {
            run(proactor, compound::rename(place(scratch.join(from)), place(other.join(to)), flags))
        };
        assert_eq!(rename("dir", "new", 0), Err(Errno::XDEV));
        assert_eq!(rename("file", "dir", 0), Err(Errno(libc::EISDIR)));
        assert_eq!(rename("file", "file", libc::RENAME_NOREPLACE), Err(Errno(libc::EEXIST)));
        assert_eq!(rename("file", "file", libc::RENAME_EXCHANGE), Err(Errno::XDEV));
        assert_eq!(rename("none", "new", 0), Err(Errno::NOENT));
        assert_eq!(rename("file", "none/new", 0), Err(Errno::NOENT));
        assert_eq!(rename("file", "file/new", 0), Err(Errno::NOTDIR));
        assert_eq!(fs::read(scratch.join("file")).unwrap(), b"x");
        assert_eq!(fs::read(other.join("file")).unwrap(), b"y");
        assert_eq!(rename("file", "new", libc::RENAME_NOREPLACE), Ok(0));
        assert_eq!(temporaries(other.path()), 0);
    });
}

#[test]
fn full_file_system_keeps_the_old_file() {
    each_mounting(|proactor, scratch| {
        let Some(small) = skip::unless_available("full_file_system", Scratch::on_tmpfs(1 << 20)) else {
            return;
        };
        fs::write(small.join("file"), b"old").unwrap();
        let path = place(small.join("file"));
        let work = compound::write(path.clone(), 0o600, vec![1; 4 << 20]);
        let (outcome, buffer) = done(proactor, work).into_buffer();
        assert_eq!((outcome, buffer.len()), (Err(Errno(libc::ENOSPC)), 4 << 20));
        fs::write(scratch.join("big"), vec![1; 4 << 20]).unwrap();
        let work = compound::rename(place(scratch.join("big")), path, 0);
        assert_eq!(run(proactor, work), Err(Errno(libc::ENOSPC)));
        assert_eq!(fs::read(small.join("file")).unwrap(), b"old");
        assert_eq!(fs::metadata(scratch.join("big")).unwrap().len(), 4 << 20);
        assert_eq!(temporaries(small.path()), 0);
    });
}

#[test]
fn one_directory_mounted_twice_loses_nothing() {
    each_mounting(|proactor, scratch| {
        fs::create_dir(scratch.join("one")).unwrap();
        fs::create_dir(scratch.join("two")).unwrap();
        let (one, two) = (scratch.join("one"), scratch.join("two"));
        let bind = mounts::Mount::bind(&one, &two);
        let Some(_bind) = skip::unless_available("one_directory_mounted_twice", bind) else { return };
        fs::write(one.join("file"), b"x").unwrap();
        assert_eq!(
            run(proactor, compound::rename(place(one.join("file")), place(two.join("file")), 0)),
            Ok(0)
        );
        assert_eq!(fs::read(one.join("file")).unwrap(), b"x");
        assert_eq!(
            run(proactor, compound::rename(place(one.join("file")), place(two.join("new")), 0)),
            Ok(0)
        );
        assert!(fs::read(one.join("new")).unwrap() == b"x" && !one.join("file").exists());
    });
}

#[test]
fn places_that_may_not_be_written_are_errors() {
    each(|proactor, scratch| {
        // A place where even root has no permission.
        let proc = |name: &str| place(format!("/proc/{name}"));
        assert!(run(proactor, compound::write(proc("file"), 0o600, b"x".to_vec())).is_err());
        assert!(run(proactor, compound::make_directories(proc("a/b"), 0o700)).is_err());
        fs::write(scratch.join("file"), b"x").unwrap();
        assert!(run(proactor, compound::rename(place(scratch.join("file")), proc("file"), 0)).is_err());
        if !skip::is_root() {
            fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o500)).unwrap();
            let denied = Err(Errno::ACCES);
            assert_eq!(
                run(proactor, compound::write(place(scratch.join("f")), 0o600, b"x".to_vec())),
                denied
            );
            assert_eq!(run(proactor, compound::make_directories(place(scratch.join("a/b")), 0o700)), denied);
            fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).unwrap();
        }
        assert_eq!(fs::read(scratch.join("file")).unwrap(), b"x");
    });
}

/// Stops `work` after this many turns of the proactor, and returns its outcome.
fn stopped(proactor: &mut Driving, work: Work, turns: usize, wait: Option<Duration>) -> Outcome {
    let handle = proactor.submit(work, Terms::default(), ()).unwrap();
    let mut found = None;
    for _ in 0..turns {
        if found.is_none() {
            proactor.advance(wait, |(), done| found = Some(done.outcome()));
        }
    }
    proactor.cancel(handle);
    while found.is_none() || proactor.pending() > 0 {
        proactor.advance(None, |(), done| found = Some(done.outcome()));
    }
    found.unwrap()
}

#[test]
fn stop_at_any_turn_leaves_nothing() {
    each(|proactor, scratch| {
        let other = elsewhere(scratch, "stop_at_any_turn_leaves_nothing");
        let target = other.as_ref().unwrap_or(scratch);
        let (old, new) = (scratch.join("old"), target.join("new"));
        let before = descriptors();
        // Without a wait the stop hits the driver within a step, with a wait after one more step at each turn.
        for wait in [Some(Duration::ZERO), None] {
            let mut ended = [0; 3];
            for turns in 0..60 {
                let _ = (fs::remove_file(&new), fs::remove_dir_all(scratch.join("a")));
                fs::write(&old, vec![1; 300_000]).unwrap();
                let works = [
                    compound::rename(place(&old), place(&new), 0),
                    compound::write(place(scratch.join("file")), 0o600, vec![turns as u8; 100_000]),
                    compound::make_directories(place(scratch.join("a/b/c/d/e")), 0o700),
                ];
                for (work, ended) in works.into_iter().zip(&mut ended) {
                    match stopped(proactor, work, turns, wait) {
                        Ok(_) => *ended += 1,
                        outcome => assert_eq!(outcome, Err(Errno(libc::ECANCELED)), "{turns} turns"),
                    }
                }
                assert!(old.exists() != new.exists(), "{turns} turns");
                assert_eq!(temporaries(target.path()) + temporaries(scratch.path()), 0, "{turns} turns");
                assert_eq!(descriptors(), before, "{turns} turns");
                if let Ok(bytes) = fs::read(scratch.join("file")) {
                    assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| *byte == bytes[0]));
                }
            }
            println!("with {wait:?} a turn, of 60 ended before they were stopped: {ended:?}");
            assert!(wait.is_some() || ended.iter().all(|ended| *ended > 0), "{ended:?}");
        }
    });
}

#[test]
fn dropped_proactor_leaves_no_temporary_file() {
    let _alone = alone();
    let scratch = Scratch::new("compound").unwrap();
    let before = descriptors();
    for turns in 0..12 {
        for (_, mut proactor) in drivers() {
            let work = compound::write(place(scratch.join("file")), 0o600, vec![1; 1000]);
            proactor.submit(work, Terms::default(), ()).unwrap();
            for _ in 0..turns {
                proactor.advance(Some(Duration::from_millis(1)), |(), done| drop(done));
            }
            drop(proactor);
            assert_eq!(temporaries(scratch.path()), 0, "{turns} turns");
        }
    }
    // Threads end shortly after their driver.
    let until = Instant::now() + Duration::from_secs(10);
    while descriptors() > before && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(descriptors(), before);
}
