//! A disk that fails on request: data written to the file system on it is lost, and the caller that syncs it gets the error.

use std::fs;

use atta_testkit::disk::DyingDisk;
use atta_testkit::lock::Lock;
use atta_testkit::skip;

#[test]
fn broken_disk_keeps_old_files_and_reports_the_rest() {
    let test = "broken_disk_keeps_old_files_and_reports_the_rest";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let disk = DyingDisk::new(16, &["write,fsync:disk:EIO:armed"]);
    let Some(mut disk) = skip::unless_available(test, disk) else { return };
    let write = |disk: &DyingDisk, name: &str| {
        fs::write(disk.path().join(name), vec![b'x'; 1 << 20])?;
        fs::File::open(disk.path().join(name))?.sync_all()
    };
    write(&disk, "before").unwrap();
    disk.break_now().unwrap();
    assert!(write(&disk, "after").is_err(), "the disk is dead");
    disk.revive().unwrap();
    assert_eq!(fs::read(disk.path().join("before")).unwrap(), vec![b'x'; 1 << 20]);
    let after = fs::read(disk.path().join("after"));
    assert!(after.map_or(true, |bytes| bytes != vec![b'x'; 1 << 20]), "it cannot be there");
}
