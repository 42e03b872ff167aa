//! Space, writability and speed of real file systems: full ones, ones that do not answer, ones without files that have no name.

use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use atta_entry::Errno;
use atta_status::{NoRoom, Room, Rooms as _, SystemRooms, measure, measure_in_time};
use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip::unless_available;
use atta_testkit::slow::SlowFs;

fn asked(path: &Path, wait_max: Duration) -> Result<Room, NoRoom> {
    let points = [path.to_path_buf().into_os_string().into_vec()];
    SystemRooms { wait_max }.rooms(&points, true).remove(0)
}

const LONG: Duration = Duration::from_secs(600);

fn count(directory: &Path) -> usize {
    #[expect(clippy::disallowed_methods, reason = "a directory of this test")]
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_file_system_that_hangs_has_no_answer() {
    let _lock = Lock::for_own_mount().unwrap();
    let builder = SlowFs::builder().latency(Duration::ZERO).flat(1).fail("opendir:.:delay=600000");
    let Some(slow) = unless_available("a file system that hangs", builder.mount()) else { return };
    assert_eq!(asked(slow.path(), Duration::from_millis(200)), Err(NoRoom::NoAnswer));
    drop(slow);
    let scratch = Scratch::new("hangs").unwrap();
    let rule = "fsync:*:delay=600000";
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&scratch.join("")).fail(rule);
    let Some(slow) = unless_available("a file system that hangs", builder.mount()) else { return };
    assert_eq!(measure_in_time(slow.path(), Duration::from_millis(200)), None);
}

// access(2) says that the directory can be written.
#[test]
fn a_file_system_without_inodes_is_not_writable() {
    let _lock = Lock::for_own_mount().unwrap();
    let scratch = Scratch::new("inodes").unwrap();
    let mounted = Mount::tmpfs_of_entries(&scratch.join(""), 1);
    let Some(mount) = unless_available("a file system without inodes", mounted) else { return };
    let room = asked(mount.path(), LONG).unwrap();
    assert!(room.available > 1 << 20);
    assert_eq!(room.writable, Err(Errno::NOSPC));
}

#[test]
fn space_of_a_small_file_system_is_reported() {
    let _lock = Lock::for_own_mount().unwrap();
    let Some(small) = unless_available("a small file system", Scratch::on_tmpfs(1 << 20)) else { return };
    let space = || asked(&small.join(""), LONG).unwrap().available;
    assert_eq!(space(), 1 << 20);
    std::fs::write(small.join("file"), vec![7; 1 << 18]).unwrap();
    assert_eq!(space(), (1 << 20) - (1 << 18));
}

// As on NFS: files have names, also while they are open.
#[test]
fn nothing_is_left_where_files_need_names() {
    let _lock = Lock::for_own_mount().unwrap();
    let scratch = Scratch::new("named").unwrap();
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&scratch.join("")).keep_open_names();
    let Some(slow) = unless_available("files without a name", builder.mount()) else { return };
    assert_eq!(asked(slow.path(), LONG).unwrap().writable, Ok(()));
    let speed = measure(slow.path()).unwrap();
    assert!(speed.write > 0 && speed.read > 0);
    drop(slow);
    assert_eq!(count(&scratch.join("")), 0);
}

#[test]
fn a_failed_measurement_leaves_nothing() {
    let _lock = Lock::for_own_mount().unwrap();
    let scratch = Scratch::new("failed").unwrap();
    for (rule, expected) in
        [("write:*:EIO", Errno::IO), ("fsync:*:EIO", Errno::IO), ("read:*:EIO", Errno::IO)]
    {
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&scratch.join("")).fail(rule);
        let Some(slow) = unless_available("a failed measurement", builder.mount()) else { return };
        assert_eq!(measure(slow.path()), Err(expected), "{rule}");
        drop(slow);
        assert_eq!(count(&scratch.join("")), 0);
    }
}
