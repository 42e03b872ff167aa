//! Which mounts of a rank may hold files of a job, from the mount table alone.

use atta_mounts::{Mount, MountTable, Uri};

/// A directory of devices, whatever file system is mounted there: containers have a tmpfs.
const DEVICES: &[u8] = b"/dev";

/// Mounts on which files can be kept: paths lead to them, and neither they nor what they are mounted in are made by the kernel (`/proc`,
/// `/sys/fs/cgroup`, `/dev`). The directory may be read-only, or be no directory.
pub fn candidates(table: &MountTable) -> impl Iterator<Item = (&Mount, &Uri)> {
    table.iter().filter(|(mount, _)| {
        candidate_at(table, &mount.point).is_some_and(|visible| std::ptr::eq(visible, *mount))
    })
}

/// The name of a file system that is the same for all its mounts under one kernel, by which its speed is kept. For what is not on servers it
/// holds until the file system is unmounted or the kernel is started again.
#[must_use]
pub fn mount_name(root: &Uri) -> Vec<u8> {
    root.file_system().canonical()
}

/// The mount with this mount point, if files can be kept there.
pub(crate) fn candidate_at<'t>(table: &'t MountTable, point: &[u8]) -> Option<&'t Mount> {
    let mount = table.mount_of(point).filter(|mount| mount.point == point)?;
    let stores = mount.known().is_none_or(|known| known.stores_files);
    let is_in_pseudo =
        parent(point).and_then(|parent| table.mount_of(parent)?.known()).is_some_and(|known| known.is_pseudo);
    (stores && !is_in_pseudo && point != DEVICES).then_some(mount)
}

/// The directory that a mount point is in.
fn parent(point: &[u8]) -> Option<&[u8]> {
    let end = point.iter().rposition(|byte| *byte == b'/')?;
    match (end, point.len()) {
        (0, 1) => None,
        (0, _) => Some(b"/"),
        (end, _) => Some(&point[..end]),
    }
}

#[cfg(test)]
mod tests {
    use atta_mounts::{Host, Silent};

    use super::*;

    fn table(lines: &[&str]) -> MountTable {
        let text: String = (1..).zip(lines).map(|(id, line)| format!("{id} {line}\n")).collect();
        MountTable::from_bytes(text.as_bytes(), &Silent::on(Host::new(b"boot", b"node"))).unwrap()
    }

    // A.7: the original proposes /dev and /sys/fs/cgroup.
    #[test]
    fn pseudo_file_systems_are_no_candidates() {
        let table = table(&[
            "0 8:1 / / rw - ext4 /dev/sda1 rw",
            "1 0:5 / /dev rw - devtmpfs udev rw",
            "2 0:6 / /dev/shm rw - tmpfs tmpfs rw",
            "2 0:7 / /dev/pts rw - devpts devpts rw",
            "1 0:8 / /sys rw - sysfs sysfs rw",
            "5 0:9 / /sys/fs/cgroup rw - tmpfs tmpfs rw",
            "1 0:10 / /proc rw - proc proc rw",
            "7 0:11 / /proc/acpi rw - tmpfs tmpfs rw",
            "1 0:12 / /net rw - autofs auto.net rw",
            "1 0:13 / /odd rw - newfs it rw",
            "1 0:14 / /hidden rw - tmpfs below rw",
            "11 0:15 / /hidden rw - tmpfs top rw",
        ]);
        let found: Vec<_> = candidates(&table).map(|(mount, _)| (mount.id, &mount.point[..])).collect();
        assert_eq!(found, [(1, &b"/"[..]), (3, b"/dev/shm"), (10, b"/odd"), (12, b"/hidden")]);
    }

    #[test]
    fn devices_of_containers_are_no_candidate() {
        let table = table(&["0 0:3 / / rw - overlay o rw", "1 0:5 / /dev rw - tmpfs tmpfs rw"]);
        assert_eq!(candidates(&table).count(), 1);
    }

    #[test]
    fn mounts_of_one_file_system_have_one_name() {
        let table = table(&[
            "0 8:1 / / rw - ext4 /dev/sda1 rw",
            "1 8:1 /srv /bound rw - ext4 /dev/sda1 rw",
            "1 0:4 / /a rw - nfs 10.0.0.2:/e rw",
            "1 0:4 /d /b rw - nfs 10.0.0.2:/e rw",
        ]);
        let names: Vec<_> = candidates(&table).map(|(_, root)| mount_name(root)).collect();
        assert_eq!((&names[0], &names[2]), (&names[1], &names[3]));
        assert_ne!(names[0], names[2]);
    }
}
