//! Properties of file systems by the type that `statfs` reports: how data becomes durable, who can copy bytes within them, which have
//! layouts, and on which sizes are unreliable. One table, with a source for each line. It mounts nothing and measures nothing.
//!
//! Nothing is assumed of a type that is not in the table: each file on it is synced by itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fd::AsFd;
use rustix::fs::StatFs;

use crate::stat;
use crate::stat::Features;

/// How data on a file system is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Not at all: it is in memory.
    Volatile,
    /// One `syncfs` makes durable all that was written to it.
    Whole,
    /// Only an `fsync` of a file or directory is known to make it durable.
    Each,
}

/// Who moves bytes from file to file without this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBy {
    /// The servers.
    Server,
    /// The kernel, from page to page (`copy_file_range`). Some other file systems have lost bytes by it.
    Pages,
    /// None, or unknown.
    Nobody,
}

/// One type of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    magic: u32,
    /// As in `/proc/filesystems`.
    pub name: &'static str,
    /// How data on it is made durable.
    pub durability: Durability,
    /// Who copies bytes within it.
    pub copy_by: CopyBy,
    /// Files have layouts over servers that a copy may ask for (`lustre.lov`).
    pub has_layouts: bool,
    /// The source for its durability: files of Linux, unless another source is named.
    source: &'static str,
}

const fn known(magic: u32, name: &'static str, durability: Durability, source: &'static str) -> FileSystem {
    FileSystem { magic, name, durability, copy_by: CopyBy::Nobody, has_layouts: false, source }
}

const fn copied_by(copy_by: CopyBy, of: FileSystem) -> FileSystem {
    FileSystem { copy_by, ..of }
}

const fn with_layouts(of: FileSystem) -> FileSystem {
    FileSystem { has_layouts: true, ..of }
}

/// `OVERLAYFS_SUPER_MAGIC`: what it is depends on what is below it.
const OVERLAY: u32 = 0x794c_7630;

/// The known types.
pub const KNOWN: &[FileSystem] = &[
    copied_by(
        CopyBy::Pages,
        known(0x0102_1994, "tmpfs", Durability::Volatile, "mm/shmem.c: `noop_fsync`, no backing device"),
    ),
    known(0x8584_58f6, "ramfs", Durability::Volatile, "fs/ramfs: `noop_fsync`, no backing device"),
    copied_by(
        CopyBy::Pages,
        known(
            0x0000_ef53,
            "ext2, ext3, ext4",
            Durability::Whole,
            "fs/ext4/super.c: ext4_sync_fs commits the journal and flushes the disk; fs/ext2/super.c: ext2_sync_fs, sync_blockdev",
        ),
    ),
    known(
        0x5846_5342,
        "xfs",
        Durability::Whole,
        "fs/xfs/xfs_super.c: xfs_fs_sync_fs forces the log, with a flush of the disk",
    ),
    known(
        0x9123_683e,
        "btrfs",
        Durability::Whole,
        "fs/btrfs/super.c: btrfs_sync_fs waits for ordered data and commits the transaction",
    ),
    known(0xf2f5_2010, "f2fs", Durability::Whole, "fs/f2fs/super.c: f2fs_sync_fs writes a checkpoint"),
    known(0xca45_1a4e, "bcachefs", Durability::Whole, "fs/bcachefs/fs.c: bch2_sync_fs flushes the journal"),
    known(
        0x2fc1_2fc1,
        "zfs",
        Durability::Whole,
        "OpenZFS, module/os/linux/zfs/zfs_vfsops.c: zfs_sync commits the intent log of the dataset",
    ),
    copied_by(
        CopyBy::Server,
        known(
            0x0000_6969,
            "nfs",
            Durability::Whole,
            "fs/nfs/write.c: nfs_write_inode with WB_SYNC_ALL writes back and commits; RFC 1813 3.3, RFC 8881 18: names are durable when the server answers",
        ),
    ),
    copied_by(
        CopyBy::Server,
        known(
            0x00c3_6400,
            "ceph",
            Durability::Whole,
            "fs/ceph/super.c: ceph_sync_fs waits for all writes and for the metadata servers",
        ),
    ),
    known(
        0x7461_636f,
        "ocfs2",
        Durability::Whole,
        "fs/ocfs2/super.c: ocfs2_sync_fs commits the journal and waits",
    ),
    known(0x0116_1970, "gfs2", Durability::Whole, "fs/gfs2/super.c: gfs2_sync_fs flushes the log"),
    with_layouts(known(
        0x0bd0_0bd0,
        "lustre",
        Durability::Each,
        "Lustre, llite/super25.c: no sync_fs; its writeback does not wait for the servers' disks",
    )),
    known(
        0x1983_0326,
        "beegfs",
        Durability::Each,
        "BeeGFS client, FhgfsOpsSuper.c: neither sync_fs nor write_inode",
    ),
    copied_by(
        CopyBy::Server,
        known(0xfe53_4d42, "smb2, smb3", Durability::Each, "fs/smb/client/cifsfs.c: no sync_fs"),
    ),
    copied_by(
        CopyBy::Server,
        known(0xff53_4d42, "cifs", Durability::Each, "fs/smb/client/cifsfs.c: no sync_fs"),
    ),
    known(
        0x6573_5546,
        "fuse",
        Durability::Each,
        "fs/fuse/inode.c: fuse_sync_fs asks the server only for virtiofs and the like",
    ),
    known(0x0102_1997, "9p", Durability::Each, "fs/9p/vfs_super.c: no sync_fs"),
];

/// File systems whose contents the kernel makes while they are read: `linux/magic.h`, and where that lacks them, the source of each.
const PSEUDO: &[u32] = &[
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xcafe_4a11, // bpf
    0x4249_4e4d, // binfmt_misc
    0x6265_6570, // configfs: fs/configfs/mount.c
    0x6573_5543, // fusectl: fs/fuse/control.c
    0x1980_0202, // mqueue: ipc/mqueue.c
    0x0765_5821, // resctrl
    0x9fa1,      // openpromfs
    0xabba_1974, // xenfs
];

/// Whether the kernel makes the contents of the file system that something is on while they are read, so that sizes say nothing.
pub fn is_pseudo(descriptor: impl AsFd) -> bool {
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    let magic = |found: StatFs| low(i64::from(found.f_type));
    rustix::fs::fstatfs(descriptor).is_ok_and(|found| PSEUDO.contains(&magic(found)))
}

/// Whether something is on an NFS mount.
pub fn is_nfs(descriptor: impl AsFd) -> bool {
    rustix::fs::fstatfs(descriptor)
        .is_ok_and(|found| known_type(&found).is_some_and(|known| known.name == "nfs"))
}

/// What is known of the type that a `statfs` reported.
pub fn known_type(found: &StatFs) -> Option<&'static FileSystem> {
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    find(i64::from(found.f_type))
}

fn find(magic: i64) -> Option<&'static FileSystem> {
    KNOWN.iter().find(|known| known.magic == low(magic))
}

/// Some architectures extend the sign of a magic number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the lower half is what is meant"
)]
const fn low(magic: i64) -> u32 {
    magic as u32
}

/// What is known of the file system that something is on.
pub fn type_of(descriptor: impl AsFd) -> Option<&'static FileSystem> {
    rustix::fs::fstatfs(descriptor).ok().as_ref().and_then(known_type)
}

/// Whether bytes of the file system that something is on are copied so.
pub fn is_copied_by(descriptor: impl AsFd, copy_by: CopyBy) -> bool {
    type_of(descriptor).is_some_and(|known| known.copy_by == copy_by)
}

/// How data in a directory is made durable.
pub fn durability_of(directory: impl AsFd, features: Features) -> Durability {
    let Ok(found) = rustix::fs::fstatfs(&directory) else { return Durability::Each };
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    let magic = i64::from(found.f_type);
    durability(magic, || upper_layer(&directory, features, &found))
}

/// How data on a file system of a type is made durable. `upper`: the type of an overlay's upper layer; none if that is not known, or
/// if the overlay is mounted `volatile`.
pub fn durability(magic: i64, upper: impl FnOnce() -> Option<i64>) -> Durability {
    // fs/overlayfs/super.c: ovl_sync_fs syncs the file system of the upper layer, unless it is volatile.
    let magic = if low(magic) == OVERLAY { upper() } else { Some(magic) };
    magic.and_then(find).map_or(Durability::Each, |known| known.durability)
}

/// The type of the file system that the upper layer of an overlay is on.
fn upper_layer(directory: impl AsFd, features: Features, overlay: &StatFs) -> Option<i64> {
    let mount = stat::place_of(&directory, features).ok()?.mount;
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let upper = upper_directory(&mounts, mount)?;
    let found = rustix::fs::statfs(OsStr::from_bytes(&upper)).ok()?;
    // The path is of whoever mounted the overlay. Here something else may have it: an overlay reports the size of its upper layer.
    let size = |of: &StatFs| (of.f_bsize, of.f_blocks, of.f_files);
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    (size(&found) == size(overlay)).then(|| i64::from(found.f_type))
}

/// The upper layer's path, from the line of a mount in `/proc/self/mountinfo` (proc(5)). None: there is none, or the overlay is
/// volatile.
fn upper_directory(mounts: &[u8], mount: u64) -> Option<Vec<u8>> {
    let mut options = field_of(mounts, mount, 3)?.split(|byte| *byte == b',');
    // Newer kernels report it as `fsync=volatile`: then no sync does anything.
    let is_volatile = |option: &[u8]| {
        option == b"volatile"
            || option.strip_prefix(b"fsync=").is_some_and(|how| !matches!(how, b"auto" | b"strict"))
    };
    if options.clone().any(is_volatile) {
        return None;
    }
    options.find_map(|option| option.strip_prefix(b"upperdir=")).map(unescaped)
}

/// A field of the line of a mount: 1: type, 2: source, 3: options. Any number of optional fields end with a dash before them.
fn field_of(mounts: &[u8], mount: u64, field: usize) -> Option<&[u8]> {
    let mount = mount.to_string();
    let line = mounts
        .split(|byte| *byte == b'\n')
        .find(|line| line.split(|byte| *byte == b' ').next() == Some(mount.as_bytes()))?;
    line.split(|byte| *byte == b' ').skip_while(|field| *field != b"-").nth(field)
}

/// Whether a directory may not be renamed while others work below it: GlusterFS. Its servers find entries by paths, so a rename of a directory makes
/// changes below it fail on some servers at the same moment, also other renames. Then directories are missing, with all below them, or are there under their old names, and
/// the rename has reported success (GlusterFS 10.3, log of a client: "Rename ... failed, No such file or directory").
pub fn has_fragile_renames(directory: impl AsFd, features: Features) -> bool {
    let Ok(place) = stat::place_of(&directory, features) else { return false };
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    field_of(&mounts, place.mount, 1) == Some(b"fuse.glusterfs")
}

/// `\NNN`, three octal digits, stands for a byte.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, more)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        let escaped = more.get(..3).filter(|_| first == b'\\').and_then(octal);
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &more[3..] } else { more };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(magic: i64) -> Durability {
        durability(magic, || panic!("no overlay: {magic:x}"))
    }

    #[test]
    fn type_of_a_mount_follows_the_optional_fields() {
        let mounts = b"24 1 0:22 / / rw - ext4 /dev/a rw\n\
            31 24 0:48 / /volume rw,relatime shared:9 master:2 - fuse.glusterfs host:/volume rw,user_id=0\n";
        let of = |mount| field_of(mounts, mount, 1);
        assert_eq!((of(24), of(31), of(3)), (Some(&b"ext4"[..]), Some(&b"fuse.glusterfs"[..]), None));
    }

    // Hazard 31.
    #[test]
    fn syncfs_is_trusted_only_where_it_is_known() {
        // Numbers of statfs(2), linux/magic.h, and of file systems that are not part of Linux.
        let whole = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0xf2f5_2010,
            0xca45_1a4e,
            0x2fc1_2fc1,
            0x6969,
            0x00c3_6400,
            0x7461_636f,
            0x0116_1970,
        ];
        assert!(whole.into_iter().all(|magic| plain(magic) == Durability::Whole));
        assert!([0x0102_1994, 0x8584_58f6].into_iter().all(|magic| plain(magic) == Durability::Volatile));
        // Lustre, BeeGFS, SMB, FUSE, 9p; GPFS, JFS, exFAT, FAT, AFS; nothing that there is.
        let each = [
            0x0bd0_0bd0,
            0x1983_0326,
            0xfe53_4d42,
            0xff53_4d42,
            0x6573_5546,
            0x0102_1997,
            0x4750_4653,
            0x3153_464a,
            0x2011_bab0,
            0x4d44,
            0x5346_414f,
            0,
            -1,
            0x1234_5678,
        ];
        assert!(each.into_iter().all(|magic| plain(magic) == Durability::Each));
        let negative = i64::from(0x9123_683e_u32.cast_signed());
        assert_eq!(plain(negative), Durability::Whole, "as 32-bit systems report it");
    }

    // Hazard 31.
    #[test]
    fn an_overlay_is_what_its_upper_layer_is() {
        let over = |upper| durability(0x794c_7630, || upper);
        assert_eq!(over(Some(0xef53)), Durability::Whole);
        assert_eq!(over(Some(0x0102_1994)), Durability::Volatile);
        assert_eq!(over(Some(0x6573_5546)), Durability::Each);
        // Volatile, or unknown.
        assert_eq!(over(None), Durability::Each);
        assert_eq!(over(Some(0x794c_7630)), Durability::Each, "an overlay on an overlay");
    }

    #[test]
    fn upper_layer_is_read_from_the_mount_line() {
        let mounts = b"22 1 0:5 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            36 22 0:31 / /m rw - overlay overlay rw,lowerdir=/l,upperdir=/a\\040b\\134c,workdir=/w\n\
            37 22 0:32 / /n rw shared:2 master:1 - overlay o rw,upperdir=/u,workdir=/w,volatile\n\
            38 22 0:33 / /o rw - overlay none ro,lowerdir=/l\n\
            39 22 0:34 / /p rw - overlay o rw,upperdir=/u,workdir=/w,uuid=on,fsync=volatile\n\
            40 22 0:35 / /q rw - overlay o rw,upperdir=/u,workdir=/w,fsync=strict\n";
        assert_eq!(upper_directory(mounts, 36).as_deref(), Some(&b"/a b\\c"[..]));
        assert_eq!(upper_directory(mounts, 40).as_deref(), Some(&b"/u"[..]));
        for mount in [22, 37, 38, 39, 3, 99] {
            assert_eq!(upper_directory(mounts, mount), None, "{mount}");
        }
        assert_eq!(unescaped(b"\\04"), b"\\04");
    }

    #[test]
    fn each_type_is_there_once_and_has_a_source() {
        for (at, known) in KNOWN.iter().enumerate() {
            assert!(!known.source.is_empty() && !known.name.is_empty());
            assert!(KNOWN[at + 1..].iter().all(|other| other.magic != known.magic), "{}", known.name);
        }
        let with_layouts: Vec<_> = KNOWN.iter().filter(|known| known.has_layouts).collect();
        assert_eq!(with_layouts.len(), 1);
    }

    #[test]
    fn the_memory_of_this_machine_is_volatile() {
        let Ok(shared) = std::fs::File::open("/dev/shm") else { return };
        if type_of(&shared).is_some_and(|known| known.name == "tmpfs") {
            assert_eq!(durability_of(&shared, Features::default()), Durability::Volatile);
        }
    }
}
