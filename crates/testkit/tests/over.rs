//! A directory served over FUSE: it is what it is without, whatever is done in it; and what rules say goes wrong, goes wrong that
//! way and no other. Each test that mounts holds the lock of mounts.

#![expect(clippy::disallowed_methods, reason = "directories of the test's own, looked at by their paths")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::slow::{Builder, Operation, SlowFs};
use atta_testkit::{oracle, skip, trees};
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;

/// A directory, and what shows it.
struct Served {
    shown: SlowFs,
    directory: PathBuf,
    _scratch: Scratch,
    _lock: Lock,
}

impl Served {
    fn file(&self, name: &str) -> PathBuf {
        self.shown.path().join(name)
    }
}

/// Mounts with the lock held, or says why the test is skipped.
fn serve(test: &str, fill: impl FnOnce(&Path), rules: &[&str]) -> Option<Served> {
    let lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("over").expect("make a scratch directory");
    let directory = scratch.join("directory");
    fs::create_dir(&directory).expect("make a directory");
    fill(&directory);
    let builder: Builder = SlowFs::builder().latency(Duration::ZERO).over(&directory);
    let builder = rules.iter().fold(builder, |builder, rule| builder.fail(rule));
    let shown = skip::unless_available(test, builder.mount())?;
    Some(Served { shown, directory, _scratch: scratch, _lock: lock })
}

fn code(error: &std::io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

/// All that is below a directory, without what another file system must have of its own.
fn seen(root: &Path) -> Vec<(Vec<u8>, oracle::Record)> {
    let below = root.as_os_str().len();
    let listed = oracle::list(root).expect("list a tree").into_iter();
    listed
        .map(|(path, mut record)| {
            record.dev = 0;
            if record.kind == 'd' && path.len() == below {
                record.ino = 0;
            }
            (path[below..].to_vec(), record)
        })
        .collect()
}

#[test]
fn a_directory_is_shown_as_it_is() {
    let test = "a_directory_is_shown_as_it_is";
    let fill = |directory: &Path| {
        let outside = directory.with_file_name("outside");
        trees::kinds(&directory.join("kinds"), &outside).unwrap();
        trees::hostile_names(&directory.join("names")).unwrap();
        trees::flat(&directory.join("flat"), 3000).unwrap();
        trees::chain(&directory.join("deep"), 300, b"0123456789").unwrap();
    };
    let Some(served) = serve(test, fill, &[]) else { return };
    assert_eq!(seen(served.shown.path()), seen(&served.directory));
}

#[test]
fn what_is_done_is_done_in_the_directory() {
    let test = "what_is_done_is_done_in_the_directory";
    let Some(served) = serve(test, |_| {}, &[]) else { return };
    let (a, b) = (served.file("d/a"), served.file("d/b"));
    fs::create_dir(served.file("d")).unwrap();
    fs::write(&a, b"0123456789").unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&a).unwrap();
    file.write_all_at(b"end", 1 << 20).unwrap();
    file.set_len((2 << 20) + 5).unwrap();
    file.sync_all().unwrap();
    assert!(rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap() < 1 << 20);
    assert!(rustix::fs::seek(&file, SeekFrom::Data(8192)).unwrap() > 8192);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 3 << 20).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
    rustix::fs::fsetxattr(&file, "user.one", b"value", XattrFlags::empty()).unwrap();
    rustix::fs::fsetxattr(&file, "user.two", b"", XattrFlags::empty()).unwrap();
    rustix::fs::fremovexattr(&file, "user.two").unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789)).unwrap();
    fs::hard_link(&a, &b).unwrap();
    fs::rename(&b, served.file("c")).unwrap();
    symlink("d/a", served.file("link")).unwrap();
    rustix::fs::mknodat(CWD, served.file("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let exchange = RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(CWD, served.file("link"), CWD, served.file("fifo"), exchange).unwrap();
    let found = fs::symlink_metadata(served.directory.join("c")).unwrap();
    assert_eq!((found.len(), found.mode() & 0o7777, found.nlink()), (3 << 20, 0o640, 2));
    assert_eq!((found.mtime(), found.mtime_nsec()), (1_000_000_000, 123_456_789));
    let content = fs::read(served.directory.join("d/a")).unwrap();
    assert_eq!((&content[..11], &content[1 << 20..][..4]), (&b"0123456789\0"[..], &b"end\0"[..]));
    let mut names = [0; 100];
    let length = rustix::fs::listxattr(&a, &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.one\0");
    assert_eq!(fs::read_link(served.directory.join("fifo")).unwrap(), Path::new("d/a"));
    assert_eq!(fs::read(served.file("fifo")).unwrap(), content, "through a link within it");
    assert_eq!(seen(served.shown.path()), seen(&served.directory));
    drop(file);
    for name in ["c", "d/a", "link", "fifo"] {
        fs::remove_file(served.file(name)).unwrap();
    }
    fs::remove_dir(served.file("d")).unwrap();
    assert_eq!(fs::read_dir(&served.directory).unwrap().count(), 0);
}

#[test]
fn every_operation_fails_as_the_rules_say() {
    let test = "every_operation_fails_as_the_rules_say";
    let fill = |directory: &Path| {
        fs::write(directory.join("file"), "file").unwrap();
        fs::create_dir(directory.join("directory")).unwrap();
        symlink("file", directory.join("link")).unwrap();
    };
    let operations = "lookup stat readlink open read opendir create write fsync rename mkdir link symlink mknod unlink \
                      rmdir chmod chown utimes truncate setxattr getxattr listxattr removexattr statfs fallocate flush";
    for operation in operations.split_whitespace() {
        let rule = format!("{operation}:*:EREMOTEIO");
        let Some(served) = serve(test, fill, &[&rule]) else { return };
        assert_eq!(perform(&served, operation), Some(Errno::REMOTEIO), "{operation}");
    }
}

/// Does one thing, whose error is of one operation; none: it did not fail.
fn perform(served: &Served, operation: &str) -> Option<Errno> {
    let (file, new) = (served.file("file"), served.file("new"));
    let open = || fs::OpenOptions::new().read(true).write(true).open(&file);
    let done = match operation {
        "lookup" => fs::symlink_metadata(&file).map(drop),
        "stat" => fs::symlink_metadata(served.shown.path()).map(drop),
        "readlink" => fs::read_link(served.file("link")).map(drop),
        "open" => open().map(drop),
        "read" => open().and_then(|mut file| file.read(&mut [0]).map(drop)),
        "opendir" => fs::read_dir(served.file("directory")).map(drop),
        "create" => fs::File::create_new(&new).map(drop),
        "write" => open().and_then(|mut file| file.write(b"x").map(drop)),
        "fsync" => open().and_then(|file| file.sync_all()),
        "rename" => fs::rename(&file, &new),
        "mkdir" => fs::create_dir(&new),
        "link" => fs::hard_link(&file, &new),
        "symlink" => symlink("x", &new),
        "mknod" => Ok(rustix::fs::mknodat(CWD, &new, rustix::fs::FileType::Fifo, 0o600.into(), 0))
            .and_then(|done| Ok(done?)),
        "unlink" => fs::remove_file(&file),
        "rmdir" => fs::remove_dir(served.file("directory")),
        "chmod" => fs::set_permissions(&file, fs::Permissions::from_mode(0o600)),
        "chown" => std::os::unix::fs::chown(&file, Some(1), None),
        "utimes" => open().and_then(|file| file.set_modified(std::time::UNIX_EPOCH)),
        "truncate" => open().and_then(|file| file.set_len(1)),
        "setxattr" => rustix::fs::setxattr(&file, "user.x", b"x", XattrFlags::empty()).map_err(Into::into),
        "getxattr" => rustix::fs::getxattr(&file, "user.x", &mut [0; 9][..]).map(drop).map_err(Into::into),
        "listxattr" => rustix::fs::listxattr(&file, &mut [0; 9][..]).map(drop).map_err(Into::into),
        "removexattr" => rustix::fs::removexattr(&file, "user.x").map_err(Into::into),
        "statfs" => rustix::fs::statfs(served.shown.path()).map(drop).map_err(Into::into),
        "fallocate" => {
            open().and_then(|file| Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 100)?))
        }
        "flush" => close(&file),
        other => panic!("{other}"),
    };
    done.err().as_ref().and_then(code)
}

/// Closes a file with a program that reports the result of `close`, which the standard library hides.
fn close(path: &Path) -> std::io::Result<()> {
    let mut to = std::ffi::OsString::from("of=");
    to.push(path);
    let ran =
        Command::new("dd").args(["if=/dev/null", "conv=notrunc"]).arg(to).env("LC_ALL", "C").output()?;
    match String::from_utf8_lossy(&ran.stderr).contains("Remote I/O error") {
        true => Err(Errno::REMOTEIO.into()),
        false => Ok(()),
    }
}

#[test]
fn a_directory_breaks_off_part_way() {
    let test = "a_directory_breaks_off_part_way";
    let fill = |directory: &Path| assert_eq!(trees::flat(&directory.join("flat"), 100).unwrap(), 100);
    let Some(served) = serve(test, fill, &["readdir:flat:EIO"]) else { return };
    let mut names = 0;
    let mut failed = None;
    for entry in fs::read_dir(served.file("flat")).unwrap() {
        match entry {
            Ok(_) => names += 1,
            Err(error) => failed = code(&error),
        }
    }
    assert_eq!((names, failed), (10, Some(Errno::IO)));
}

#[test]
fn bytes_are_short_wrong_or_lost_silently() {
    let test = "bytes_are_short_wrong_or_lost_silently";
    let fill = |directory: &Path| {
        for name in ["short", "flip"] {
            fs::write(directory.join(name), [0; 100]).unwrap();
        }
    };
    let rules = ["read,write:*short:short=7", "read,write:*flip:flip", "write:*lose:lose"];
    let Some(served) = serve(test, fill, &rules) else { return };
    let read = |name: &str| fs::File::open(served.file(name)).unwrap().read(&mut [0; 100]).unwrap();
    assert_eq!((read("short"), read("flip")), (7, 100));
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert_eq!(ones(&fs::read(served.file("flip")).unwrap()), 1);
    let write = |name: &str| fs::File::create(served.file(name)).unwrap().write(&[0; 100]).unwrap();
    assert_eq!((write("new-short"), write("new-flip"), write("new-lose")), (7, 100, 100));
    assert_eq!(ones(&fs::read(served.directory.join("new-flip")).unwrap()), 1);
    assert_eq!(fs::read(served.directory.join("new-lose")).unwrap(), b"");
}

#[test]
fn a_full_disk_takes_what_there_is_room_for() {
    let test = "a_full_disk_takes_what_there_is_room_for";
    let Some(served) = serve(test, |_| {}, &["write,create:*:ENOSPC:after=10000"]) else { return };
    fs::write(served.file("one"), [1; 6000]).unwrap();
    let full = fs::write(served.file("two"), [1; 6000]).unwrap_err();
    assert_eq!(code(&full), Some(Errno::NOSPC));
    assert_eq!(fs::read(served.directory.join("two")).unwrap().len(), 4000);
    assert_eq!(code(&fs::File::create_new(served.file("three")).unwrap_err()), Some(Errno::NOSPC));
}

#[test]
fn somebody_else_changes_a_file_at_the_right_moment() {
    let test = "somebody_else_changes_a_file_at_the_right_moment";
    let fill = |directory: &Path| {
        for name in ["grow", "cut", "rewrite", "vanish"] {
            fs::write(directory.join(name), "0123456789").unwrap();
        }
    };
    let rules = [
        "read:grow:grow:times=1",
        "read:cut:cut:times=1",
        "read:rewrite:rewrite:times=1",
        "read:vanish:vanish:times=1",
    ];
    let Some(served) = serve(test, fill, &rules) else { return };
    let before = fs::metadata(served.directory.join("rewrite")).unwrap();
    let read = |name: &str| {
        let mut bytes = [0; 100];
        let read = fs::File::open(served.file(name)).unwrap().read(&mut bytes).unwrap();
        bytes[..read].to_vec()
    };
    assert_eq!((read("grow"), read("cut")), (b"0123456789+".to_vec(), b"01234".to_vec()));
    assert_eq!((read("rewrite"), read("vanish")), (b"\xcf123456789".to_vec(), b"0123456789".to_vec()));
    let after = fs::metadata(served.directory.join("rewrite")).unwrap();
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    assert_ne!((after.ctime(), after.ctime_nsec()), (before.ctime(), before.ctime_nsec()));
    assert!(!served.file("vanish").exists());
}

#[test]
fn names_that_differ_in_case_are_one_if_asked() {
    let test = "names_that_differ_in_case_are_one_if_asked";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("case").unwrap();
    let builder = SlowFs::builder().latency(Duration::ZERO).over(scratch.path()).fold_case();
    let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
    fs::write(shown.path().join("Name"), "one").unwrap();
    assert_eq!(fs::read(shown.path().join("nAME")).unwrap(), b"one");
    assert!(fs::File::create_new(shown.path().join("name")).is_err());
    fs::write(shown.path().join("other"), "two").unwrap();
    fs::rename(shown.path().join("OTHER"), shown.path().join("NAME")).unwrap();
    let names: Vec<_> =
        fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["Name"]);
    assert_eq!(fs::read(scratch.join("Name")).unwrap(), b"two");
}

#[test]
fn removed_open_files_keep_a_name_if_asked() {
    let test = "removed_open_files_keep_a_name_if_asked";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("open-names").unwrap();
    let builder = SlowFs::builder().latency(Duration::ZERO).over(scratch.path()).keep_open_names();
    let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
    let directory = shown.path().join("directory");
    fs::create_dir(&directory).unwrap();
    let opened = fs::File::create_new(directory.join("open")).unwrap();
    fs::write(directory.join("closed"), "").unwrap();
    // The server learns a moment later that a file was closed.
    let happens = |what: &dyn Fn() -> bool| {
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            what()
        })
    };
    fs::remove_file(directory.join("closed")).unwrap();
    fs::remove_file(directory.join("open")).unwrap();
    let names = || -> Vec<_> {
        let listed = fs::read_dir(scratch.join("directory")).unwrap();
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(happens(&|| names().len() == 1), "{:?}", names());
    assert!(names()[0].starts_with(".nfs"), "{:?}", names());
    let refused = fs::remove_file(directory.join(&names()[0])).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::BUSY.raw_os_error()));
    let refused = fs::remove_dir(&directory).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    drop(opened);
    assert!(happens(&|| fs::remove_dir(&directory).is_ok()), "{:?}", names());
}

#[test]
fn who_asks_is_killed() {
    let Some(served) = serve("who_asks_is_killed", |_| {}, &["mkdir:victim:kill"]) else { return };
    let status = Command::new("mkdir").arg(served.file("victim")).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    let status = Command::new("mkdir").arg(served.file("other")).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_delay_is_one() {
    let fill = |directory: &Path| fs::write(directory.join("file"), "file").unwrap();
    let Some(served) = serve("a_delay_is_one", fill, &["read:file:delay=300:times=1", "read:file:EIO"])
    else {
        return;
    };
    let start = Instant::now();
    let error = fs::read(served.file("file")).unwrap_err();
    assert_eq!(code(&error), Some(Errno::IO), "the next rule counts as well");
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn who_may_not_may_not_and_what_users_make_is_theirs() {
    let test = "who_may_not_may_not_and_what_users_make_is_theirs";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two users");
    }
    let fill = |directory: &Path| {
        fs::create_dir(directory.join("open")).unwrap();
        fs::set_permissions(directory.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(directory.join("closed"), "closed").unwrap();
        fs::set_permissions(directory.join("closed"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let Some(served) = serve(test, fill, &[]) else { return };
    fs::set_permissions(served._scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (open, closed) = (rustix::fs::open(served.shown.path(), OFlags::PATH, 0.into()).unwrap(), "closed");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
            let read = rustix::fs::openat(&open, closed, OFlags::RDONLY, 0.into());
            assert_eq!(read.err(), Some(Errno::ACCESS));
            rustix::fs::mkdirat(&open, "open/made", 0o700.into()).unwrap();
        });
    });
    let made = rustix::fs::statat(&open, "open/made", AtFlags::SYMLINK_NOFOLLOW).unwrap();
    assert_eq!(made.st_uid, 65534);
    let counted = served.shown.finish().unwrap();
    assert_eq!((counted.of(Operation::Mkdir), counted.of(Operation::Create)), (1, 0));
}
