//! What the threads of this process wait for in the kernel: the system call, and the path of its file, as `/proc/self/task` shows them. The threads
//! themselves do nothing for it. It knows calls on files only, and decides nothing.
//!
//! A thread may return from its call at any time. So a call is described from two equal readings of its arguments, with two of the name between them.

use std::ffi::CStr;
use std::fmt::Write;

use libc::c_long;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, open, openat, readlinkat, statx};
use rustix::io::pread;

use crate::listing::names_of;
use crate::retry::retry;

/// Most threads that are looked at.
const THREADS_MOST: usize = 1 << 16;
/// Bytes of the longest path, and of the longest line of `/proc/self/task/N/syscall`.
const PATH_MOST: usize = 4096;

/// Where a call has the path of its file.
#[derive(Clone, Copy, Debug)]
enum File {
    /// A descriptor, in this argument.
    Descriptor(usize),
    /// A name in a directory: the directory's descriptor in this argument, the name in the next one.
    NameIn(usize),
    /// A path in this argument.
    Path(usize),
}

/// Calls on files that the program makes, and that may take long.
const CALLS: [(c_long, &str, File); 45] = [
    (libc::SYS_read, "read", File::Descriptor(0)),
    (libc::SYS_pread64, "pread", File::Descriptor(0)),
    (libc::SYS_readv, "readv", File::Descriptor(0)),
    (libc::SYS_preadv, "preadv", File::Descriptor(0)),
    (libc::SYS_write, "write", File::Descriptor(0)),
    (libc::SYS_pwrite64, "pwrite", File::Descriptor(0)),
    (libc::SYS_writev, "writev", File::Descriptor(0)),
    (libc::SYS_pwritev, "pwritev", File::Descriptor(0)),
    (libc::SYS_copy_file_range, "copy_file_range", File::Descriptor(2)),
    (libc::SYS_sendfile, "sendfile", File::Descriptor(0)),
    (libc::SYS_lseek, "lseek", File::Descriptor(0)),
    (libc::SYS_getdents64, "getdents64", File::Descriptor(0)),
    (libc::SYS_fsync, "fsync", File::Descriptor(0)),
    (libc::SYS_fdatasync, "fdatasync", File::Descriptor(0)),
    (libc::SYS_syncfs, "syncfs", File::Descriptor(0)),
    (libc::SYS_sync_file_range, "sync_file_range", File::Descriptor(0)),
    (libc::SYS_ftruncate, "ftruncate", File::Descriptor(0)),
    (libc::SYS_fallocate, "fallocate", File::Descriptor(0)),
    (libc::SYS_fadvise64, "fadvise", File::Descriptor(0)),
    (libc::SYS_flock, "flock", File::Descriptor(0)),
    (libc::SYS_fcntl, "fcntl", File::Descriptor(0)),
    (libc::SYS_ioctl, "ioctl", File::Descriptor(0)),
    (libc::SYS_fchmod, "fchmod", File::Descriptor(0)),
    (libc::SYS_fchown, "fchown", File::Descriptor(0)),
    (libc::SYS_fgetxattr, "fgetxattr", File::Descriptor(0)),
    (libc::SYS_fsetxattr, "fsetxattr", File::Descriptor(0)),
    (libc::SYS_flistxattr, "flistxattr", File::Descriptor(0)),
    (libc::SYS_fremovexattr, "fremovexattr", File::Descriptor(0)),
    (libc::SYS_fstatfs, "fstatfs", File::Descriptor(0)),
    (libc::SYS_openat, "openat", File::NameIn(0)),
    (libc::SYS_openat2, "openat2", File::NameIn(0)),
    (libc::SYS_statx, "statx", File::NameIn(0)),
    (libc::SYS_newfstatat, "fstatat", File::NameIn(0)),
    (libc::SYS_readlinkat, "readlinkat", File::NameIn(0)),
    (libc::SYS_unlinkat, "unlinkat", File::NameIn(0)),
    (libc::SYS_mkdirat, "mkdirat", File::NameIn(0)),
    (libc::SYS_mknodat, "mknodat", File::NameIn(0)),
    (libc::SYS_symlinkat, "symlinkat", File::NameIn(1)),
    (libc::SYS_linkat, "linkat", File::NameIn(0)),
    (libc::SYS_renameat2, "renameat2", File::NameIn(0)),
    (libc::SYS_fchmodat, "fchmodat", File::NameIn(0)),
    (libc::SYS_fchownat, "fchownat", File::NameIn(0)),
    (libc::SYS_utimensat, "utimensat", File::NameIn(0)),
    (libc::SYS_lgetxattr, "lgetxattr", File::Path(0)),
    (libc::SYS_llistxattr, "llistxattr", File::Path(0)),
];

/// A thread in a call on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    call: usize,
    arguments: [u64; 6],
}

/// The numbers of the threads of this process.
#[must_use]
pub fn threads() -> Vec<u32> {
    let opened =
        open(c"/proc/self/task", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let names = opened.ok().and_then(|task| names_of(task, THREADS_MOST).ok()).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str().ok()?.parse().ok()).collect()
}

/// How often a thread has got a processor. Does not grow while it waits. None: the kernel does not count it, or the thread is gone.
#[must_use]
pub fn runs(thread: u32) -> Option<u64> {
    text_of(thread, "schedstat")?.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// The name of a thread.
#[must_use]
pub fn name(thread: u32) -> Option<String> {
    text_of(thread, "comm").map(|name| name.trim_end().to_owned())
}

impl Blocked {
    /// What a thread waits for. None: it runs, or waits for no file.
    #[must_use]
    pub fn of(thread: u32) -> Option<Self> {
        let text = text_of(thread, "syscall")?;
        let mut words = text.split_ascii_whitespace();
        let number: c_long = words.next()?.parse().ok()?;
        let call = CALLS.iter().position(|(each, ..)| *each == number)?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Self { call, arguments })
    }

    /// The name of the call.
    #[must_use]
    pub fn call(&self) -> &'static str {
        CALLS[self.call].1
    }

    /// The path of its file, if the thread is still in the call. None also if it is a pipe, a socket or a device.
    #[must_use]
    pub fn path(&self, thread: u32) -> Option<Vec<u8>> {
        let path = self.read_path()?;
        let is_file = path.starts_with(b"/") && !path.starts_with(b"/dev/");
        // A thread may make the same call again, with another name in the same place.
        let is_whole = self.read_path().as_ref() == Some(&path);
        (is_file && is_whole && Self::of(thread).as_ref() == Some(self)).then_some(path)
    }

    fn read_path(&self) -> Option<Vec<u8>> {
        match CALLS[self.call].2 {
            File::Descriptor(argument) => path_of(self.descriptor(argument)?),
            File::NameIn(argument) => self.path_in(argument),
            File::Path(argument) => Some(named_by(self.name(argument)?)),
        }
    }

    fn path_in(&self, argument: usize) -> Option<Vec<u8>> {
        let name = self.name(argument + 1)?;
        if name.starts_with(b"/") {
            return Some(named_by(name));
        }
        let mut path = match self.descriptor(argument) {
            Some(directory) => path_of(directory)?,
            None => readlinkat(CWD, c"/proc/self/cwd", Vec::new()).ok()?.into_bytes(),
        };
        if !name.is_empty() {
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend(name);
        }
        Some(path)
    }

    /// The descriptor in an argument. None: the working directory.
    fn descriptor(&self, argument: usize) -> Option<i32> {
        // The kernel, too, takes the lower half alone.
        #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
        let descriptor = self.arguments[argument] as u32;
        i32::try_from(descriptor).ok()
    }

    /// The string that an argument points to.
    fn name(&self, argument: usize) -> Option<Vec<u8>> {
        let memory = open(c"/proc/self/mem", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut bytes = vec![0; PATH_MOST];
        let read = retry(|| pread(&memory, &mut bytes, self.arguments[argument])).ok()?;
        bytes.truncate(read);
        CStr::from_bytes_until_nul(&bytes).ok().map(|name| name.to_bytes().to_vec())
    }
}

/// The path of an open file. None: it is closed by now, or a pipe with a name.
fn path_of(descriptor: i32) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{descriptor}");
    // What the kernel knows already: this must not wait for a server.
    let found = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    let is_pipe = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Fifo;
    let path = readlinkat(CWD, link, Vec::new()).ok().filter(|_| !is_pipe);
    path.map(std::ffi::CString::into_bytes)
}

/// A path, or that of the open file that it names.
fn named_by(path: Vec<u8>) -> Vec<u8> {
    let descriptor = path.strip_prefix(b"/proc/self/fd/");
    let descriptor = descriptor.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
    descriptor.and_then(path_of).unwrap_or(path)
}

/// A file of `/proc` about a thread.
fn text_of(thread: u32, name: &str) -> Option<String> {
    let mut path = String::from("/proc/self/task/");
    let _written = write!(path, "{thread}/{name}");
    let file: OwnedFd = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; PATH_MOST];
    let read = retry(|| rustix::io::read(&file, &mut bytes)).ok()?;
    bytes.truncate(read);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::fs::{FlockOperation, flock, mkfifoat};

    use super::*;

    /// What a thread waits for while `act` runs on it. `release` lets it go on.
    fn seen_of(act: impl FnOnce() + Send, release: impl FnOnce()) -> (String, Vec<u8>) {
        std::thread::scope(|scope| {
            let (says, hears) = channel();
            scope.spawn(move || {
                says.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
                act();
            });
            let thread = hears.recv().unwrap();
            assert!(threads().contains(&thread));
            let seen = loop {
                if let Some(blocked) = Blocked::of(thread)
                    && let Some(path) = blocked.path(thread)
                {
                    let runs = runs(thread);
                    std::thread::sleep(Duration::from_millis(5));
                    assert_eq!(self::runs(thread), runs, "a thread that waits gets no processor");
                    break (blocked.call().to_owned(), path);
                }
                std::thread::yield_now();
            };
            release();
            seen
        })
    }

    fn file(path: &std::path::Path, flags: OFlags) -> OwnedFd {
        open(path, flags | OFlags::CLOEXEC, Mode::RWXU).unwrap()
    }

    #[test]
    fn thread_that_waits_for_a_lock_is_seen() {
        let scratch = atta_testkit::scratch::Scratch::new("blocked").unwrap();
        let path = scratch.join("locked");
        let (held, asks) = (file(&path, OFlags::CREATE | OFlags::RDWR), file(&path, OFlags::RDWR));
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let seen = seen_of(
            || flock(&asks, FlockOperation::LockExclusive).unwrap(),
            || flock(&held, FlockOperation::Unlock).unwrap(),
        );
        assert_eq!(seen, ("flock".to_owned(), path.into_os_string().into_encoded_bytes()));
    }

    #[test]
    fn name_of_a_blocked_open_is_read() {
        let scratch = atta_testkit::scratch::Scratch::new("blocked").unwrap();
        let directory = file(scratch.path(), OFlags::RDONLY | OFlags::DIRECTORY);
        mkfifoat(&directory, "a fifo", Mode::RWXU).unwrap();
        let path = scratch.join("a fifo");
        let opened = || openat(&directory, "a fifo", OFlags::RDONLY, Mode::empty());
        let seen = seen_of(|| drop(opened().unwrap()), || drop(file(&path, OFlags::WRONLY)));
        assert_eq!(seen, ("openat".to_owned(), path.into_os_string().into_encoded_bytes()));
    }

    #[test]
    fn waits_for_no_file_are_not_seen() {
        let scratch = atta_testkit::scratch::Scratch::new("blocked").unwrap();
        mkfifoat(CWD, scratch.join("a fifo"), Mode::RWXU).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let named = file(&scratch.join("a fifo"), OFlags::RDWR);
        let release = named.try_clone().unwrap();
        no_path_is_seen(reader.into(), || drop(writer));
        no_path_is_seen(named, || {
            rustix::io::write(&release, b"x").unwrap();
        });
    }

    fn no_path_is_seen(reader: OwnedFd, release: impl FnOnce()) {
        std::thread::scope(|scope| {
            let (says, hears) = channel();
            scope.spawn(move || {
                says.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
                rustix::io::read(&reader, &mut [0; 1]).unwrap();
            });
            let thread = hears.recv().unwrap();
            let blocked = loop {
                if let Some(blocked) = Blocked::of(thread) {
                    break blocked;
                }
                std::thread::yield_now();
            };
            assert_eq!((blocked.call(), blocked.path(thread)), ("read", None));
            release();
        });
    }
}
