//! A disk that fails on request: data written to the file system on it is lost, and the caller that syncs it gets the error. And a disk that
//! records: images of it have what was synced.

use std::fs;

use atta_testkit::disk::DyingDisk;
use atta_testkit::lock::Lock;
use atta_testkit::recorded::RecordedDisk;
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

#[test]
fn images_have_what_was_synced() {
    let test = "images_have_what_was_synced";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(disk) = skip::unless_available(test, RecordedDisk::new(kind)) else { return };
        let write = |name: &str| {
            fs::write(disk.path().join(name), vec![b'x'; 300_000]).unwrap();
            fs::File::open(disk.path().join(name)).unwrap()
        };
        disk.mark("begun").unwrap();
        write("synced").sync_all().unwrap();
        fs::File::open(disk.path()).unwrap().sync_all().unwrap();
        disk.mark("synced").unwrap();
        write("not synced");
        let recording = disk.finish().unwrap();
        assert!(recording.flushes() > 0, "{kind}");
        let (mut images, mut lost) = (recording.images(7, 12), 0);
        while let Some(image) = images.make_next().unwrap() {
            let mount = image.mount().unwrap_or_else(|error| panic!("{kind}: {image:?}: {error}"));
            let found = |name: &str| fs::read(mount.path().join(name)).unwrap_or_default();
            if image.marks.iter().any(|mark| mark == "synced") {
                assert_eq!(found("synced"), vec![b'x'; 300_000], "{kind}: {image:?}");
            }
            lost += u64::from(found("not synced") != vec![b'x'; 300_000]);
        }
        assert!(lost > 0, "{kind}: no image has lost anything");
    }
}
