//! The table of file-system types: one row for each, with the source for how its data becomes durable. To add a type, add a row here and
//! a line to the test of mounts in `crates/mounts/tests/mounts/types.rs`. Nothing is looked up here.

use super::columns::{
    CopyBy, DISK, Durability, Handles, MEMORY, Mounts, PARALLEL, Reach, SERVER, UNKNOWN, UriRule,
};

/// One type of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// What `statfs` reports. None: it reports the number of another row, or one that is not known.
    pub(super) magic: Option<u32>,
    /// As in `/proc/filesystems`.
    pub name: &'static str,
    /// How data on it is made durable.
    pub durability: Durability,
    /// Who copies bytes within it.
    pub copy_by: CopyBy,
    /// Files have layouts over servers that a copy may ask for (`lustre.lov`).
    pub has_layouts: bool,
    /// The kernel makes the contents while they are read, so that sizes say nothing.
    pub is_pseudo: bool,
    /// People keep files on it. Not on what the kernel makes, nor on file systems for devices, sockets, huge pages or other mounts.
    pub stores_files: bool,
    /// A directory may not be renamed while others work below it.
    pub has_fragile_renames: bool,
    /// How it appears in the mount table.
    pub mounts: Mounts,
    /// The source for its durability: files of Linux, unless another source is named.
    pub(super) source: &'static str,
}

/// A row with nothing but a number and a durability.
const fn known(magic: u32, name: &'static str, durability: Durability, source: &'static str) -> FileSystem {
    FileSystem { magic: Some(magic), durability, source, ..unnumbered(name) }
}

/// A type without a number of its own. Each file on it is synced by itself.
const fn unnumbered(name: &'static str) -> FileSystem {
    FileSystem {
        magic: None,
        name,
        durability: Durability::Each,
        copy_by: CopyBy::Nobody,
        has_layouts: false,
        is_pseudo: false,
        stores_files: true,
        has_fragile_renames: false,
        mounts: UNKNOWN,
        source: NOT_EXAMINED,
    }
}

/// A type of which nothing is known about durability.
const fn numbered(magic: u32, name: &'static str) -> FileSystem {
    FileSystem { magic: Some(magic), ..unnumbered(name) }
}

/// What the kernel makes while it is read: `linux/magic.h`, and where that lacks a number, the source named beside the row.
const fn pseudo(magic: u32, types: &'static [&'static str]) -> FileSystem {
    FileSystem { is_pseudo: true, stores_files: false, mounts: MEMORY.of(types), ..numbered(magic, types[0]) }
}

/// The source of rows whose code was not read.
const NOT_EXAMINED: &str = "not examined: each file is synced by itself";

impl FileSystem {
    const fn copied_by(self, copy_by: CopyBy) -> Self {
        Self { copy_by, ..self }
    }

    const fn with_layouts(self) -> Self {
        Self { has_layouts: true, ..self }
    }

    const fn with_fragile_renames(self) -> Self {
        Self { has_fragile_renames: true, ..self }
    }

    const fn without_files(self) -> Self {
        Self { stores_files: false, ..self }
    }

    const fn as_mount(self, mounts: Mounts) -> Self {
        Self { mounts, ..self }
    }

    const fn mounted_as(self, mounts: Mounts, types: &'static [&'static str]) -> Self {
        self.as_mount(mounts.of(types))
    }
}

/// `OVERLAYFS_SUPER_MAGIC`: what it is depends on what is below it.
pub(super) const OVERLAY: u32 = 0x794c_7630;

/// The known types.
pub const KNOWN: &[FileSystem] = &[
    // Memory.
    known(0x0102_1994, "tmpfs", Durability::Volatile, "mm/shmem.c: `noop_fsync`, no backing device")
        .copied_by(CopyBy::Pages)
        .mounted_as(MEMORY, &["tmpfs"]),
    known(0x8584_58f6, "ramfs", Durability::Volatile, "fs/ramfs: `noop_fsync`, no backing device")
        .mounted_as(MEMORY, &["ramfs", "rootfs"]),
    // It has the number of tmpfs or ramfs.
    unnumbered("devtmpfs").without_files().mounted_as(MEMORY, &["devtmpfs"]),
    numbered(0x9584_58f6, "hugetlbfs").without_files().mounted_as(MEMORY, &["hugetlbfs"]),
    // Local disks.
    known(
        0x0000_ef53,
        "ext2, ext3, ext4",
        Durability::Whole,
        "fs/ext4/super.c: ext4_sync_fs commits the journal and flushes the disk; fs/ext2/super.c: ext2_sync_fs, sync_blockdev",
    )
    .copied_by(CopyBy::Pages)
    .mounted_as(DISK, &["ext2", "ext3", "ext4"]),
    known(
        0x5846_5342,
        "xfs",
        Durability::Whole,
        "fs/xfs/xfs_super.c: xfs_fs_sync_fs forces the log, with a flush of the disk",
    )
    .mounted_as(DISK, &["xfs"]),
    known(
        0x9123_683e,
        "btrfs",
        Durability::Whole,
        "fs/btrfs/super.c: btrfs_sync_fs waits for ordered data and commits the transaction",
    )
    .mounted_as(DISK, &["btrfs"]),
    known(0xf2f5_2010, "f2fs", Durability::Whole, "fs/f2fs/super.c: f2fs_sync_fs writes a checkpoint")
        .mounted_as(DISK, &["f2fs"]),
    known(0xca45_1a4e, "bcachefs", Durability::Whole, "fs/bcachefs/fs.c: bch2_sync_fs flushes the journal")
        .mounted_as(DISK, &["bcachefs"]),
    known(
        0x2fc1_2fc1,
        "zfs",
        Durability::Whole,
        "OpenZFS, module/os/linux/zfs/zfs_vfsops.c: zfs_sync commits the intent log of the dataset",
    )
    .mounted_as(DISK, &["zfs"]),
    numbered(0x3153_464a, "jfs").mounted_as(DISK, &["jfs"]),
    numbered(0x5265_4973, "reiserfs").mounted_as(DISK, &["reiserfs"]),
    numbered(0x0000_3434, "nilfs2").mounted_as(DISK, &["nilfs2"]),
    numbered(0x0000_4d44, "vfat").mounted_as(DISK, &["vfat", "msdos"]),
    numbered(0x2011_bab0, "exfat").mounted_as(DISK, &["exfat"]),
    numbered(0x7366_746e, "ntfs3").mounted_as(DISK, &["ntfs3", "ntfs"]),
    numbered(0x0000_482b, "hfsplus").mounted_as(DISK, &["hfsplus"]),
    numbered(0x0000_9660, "iso9660").mounted_as(DISK, &["iso9660"]),
    numbered(0x1501_3346, "udf").mounted_as(DISK, &["udf"]),
    numbered(0x7371_7368, "squashfs").mounted_as(DISK, &["squashfs"]),
    numbered(0xe0f5_e1e2, "erofs").mounted_as(DISK, &["erofs"]),
    numbered(0x2405_1905, "ubifs").mounted_as(DISK, &["ubifs"]),
    // FUSE over a block device (ntfs-3g). It has the number of FUSE.
    unnumbered("fuseblk").mounted_as(DISK.with_handles(Handles::Nowhere), &["fuseblk"]),
    // Disks that several hosts write to.
    known(
        0x7461_636f,
        "ocfs2",
        Durability::Whole,
        "fs/ocfs2/super.c: ocfs2_sync_fs commits the journal and waits",
    )
    .mounted_as(PARALLEL.named_by(UriRule::SharedDisk, "ocfs2").with_handles(Handles::AllHosts), &["ocfs2"]),
    known(0x0116_1970, "gfs2", Durability::Whole, "fs/gfs2/super.c: gfs2_sync_fs flushes the log")
        .mounted_as(PARALLEL.named_by(UriRule::SharedDisk, "gfs2").with_handles(Handles::AllHosts), &["gfs2"]),
    // Servers.
    known(
        0x0000_6969,
        "nfs",
        Durability::Whole,
        "fs/nfs/write.c: nfs_write_inode with WB_SYNC_ALL writes back and commits; RFC 1813 3.3, RFC 8881 18: names are durable when the server answers",
    )
    .copied_by(CopyBy::Server)
    .mounted_as(SERVER.named_by(UriRule::Export, "nfs").with_handles(Handles::AllHosts), &["nfs", "nfs4"]),
    known(0xfe53_4d42, "smb2, smb3", Durability::Each, "fs/smb/client/cifsfs.c: no sync_fs")
        .copied_by(CopyBy::Server)
        .mounted_as(SERVER.named_by(UriRule::Share, "smb"), &["smb3"]),
    known(0xff53_4d42, "cifs", Durability::Each, "fs/smb/client/cifsfs.c: no sync_fs")
        .copied_by(CopyBy::Server)
        .mounted_as(SERVER.named_by(UriRule::Share, "smb"), &["cifs", "smbfs"]),
    known(0x0102_1997, "9p", Durability::Each, "fs/9p/vfs_super.c: no sync_fs")
        .mounted_as(SERVER.named_by(UriRule::NineP, "9p"), &["9p"]),
    numbered(0x6b41_4653, "afs").mounted_as(SERVER.named_by(UriRule::Afs, "afs"), &["afs"]),
    // OpenAFS, src/afs/LINUX/osi_vfsops.c. It is mounted as `afs`, too.
    numbered(0x5346_414f, "openafs").mounted_as(SERVER.named_by(UriRule::Afs, "afs"), &["openafs", "auristorfs"]),
    // Parallel file systems.
    known(
        0x0bd0_0bd0,
        "lustre",
        Durability::Each,
        "Lustre, llite/super25.c: no sync_fs; its writeback does not wait for the servers' disks",
    )
    .with_layouts()
    .mounted_as(PARALLEL.named_by(UriRule::Lustre, "lustre").with_handles(Handles::AllHosts), &["lustre"]),
    numbered(0x4750_4653, "gpfs").mounted_as(PARALLEL.named_by(UriRule::ClusterName, "gpfs"), &["gpfs"]),
    known(
        0x1983_0326,
        "beegfs",
        Durability::Each,
        "BeeGFS client, FhgfsOpsSuper.c: neither sync_fs nor write_inode",
    )
    .mounted_as(PARALLEL.named_by(UriRule::BeeGfs, "beegfs"), &["beegfs"]),
    known(
        0x00c3_6400,
        "ceph",
        Durability::Whole,
        "fs/ceph/super.c: ceph_sync_fs waits for all writes and for the metadata servers",
    )
    .copied_by(CopyBy::Server)
    .mounted_as(PARALLEL.named_by(UriRule::Ceph, "ceph").with_handles(Handles::AllHosts), &["ceph"]),
    unnumbered("ceph-fuse").mounted_as(PARALLEL.named_by(UriRule::Ceph, "ceph"), &["fuse.ceph-fuse", "fuse.ceph"]),
    // Renames: its servers find entries by paths; see `has_fragile_renames`.
    unnumbered("glusterfs")
        .with_fragile_renames()
        .mounted_as(PARALLEL.named_by(UriRule::Volume, "glusterfs"), &["fuse.glusterfs", "glusterfs"]),
    unnumbered("moosefs").as_mount(
        PARALLEL.named_by(UriRule::MooseFs, "moosefs").with_source("mfs#").of(&["fuse.mfs", "fuse.moosefs"]),
    ),
    unnumbered("wekafs").mounted_as(PARALLEL.named_by(UriRule::Weka, "weka"), &["wekafs"]),
    unnumbered("dfuse").mounted_as(PARALLEL.named_by(UriRule::Daos, "daos"), &["fuse.daos", "fuse.dfuse"]),
    numbered(0x2003_0528, "pvfs2")
        .mounted_as(PARALLEL.named_by(UriRule::Pvfs, "pvfs2"), &["pvfs2", "orangefs", "fuse.orangefs"]),
    numbered(0xaad7_aaea, "panfs").mounted_as(PARALLEL.named_by(UriRule::PanFs, "panfs"), &["panfs"]),
    unnumbered("dvs").mounted_as(PARALLEL.named_by(UriRule::Dvs, "dvs").rated(1, 2), &["dvs"]),
    // FUSE.
    known(
        0x6573_5546,
        "fuse",
        Durability::Each,
        "fs/fuse/inode.c: fuse_sync_fs asks the server only for virtiofs and the like",
    )
    .mounted_as(UNKNOWN, &["fuse"]),
    // A tag of the hypervisor, which means something else in another machine.
    unnumbered("virtiofs").mounted_as(UNKNOWN, &["virtiofs"]),
    unnumbered("sshfs").mounted_as(SERVER.named_by(UriRule::Ssh, "sshfs"), &["fuse.sshfs"]),
    unnumbered("gcsfuse").mounted_as(PARALLEL.named_by(UriRule::Bucket, "gs"), &["fuse.gcsfuse", "fuse.gcsfs"]),
    unnumbered("goofys").mounted_as(PARALLEL.named_by(UriRule::Bucket, "s3"), &["fuse.goofys"]),
    // Their mounts do not name the bucket, or name it by the configuration of a host.
    unnumbered("s3fs").mounted_as(
        Mounts { reach: Reach::Remote, is_parallel: true, ..UNKNOWN },
        &["fuse.s3fs", "fuse.mountpoint-s3", "fuse.rclone", "fuse.juicefs"],
    ),
    unnumbered("mountpoint-s3")
        .as_mount(Mounts { reach: Reach::Remote, is_parallel: true, ..UNKNOWN }.with_source("mountpoint-s3")),
    unnumbered("cvmfs").as_mount(
        SERVER.named_by(UriRule::Repository, "cvmfs").with_source("cvmfs2").of(&["fuse.cvmfs2", "fuse.cvmfs"]),
    ),
    // What is made of other file systems, or is not there yet.
    numbered(OVERLAY, "overlay").mounted_as(
        Mounts { reach: Reach::Layers, rule: UriRule::Layers, ..DISK },
        &["overlay", "overlayfs"],
    ),
    numbered(0x0000_0187, "autofs").without_files().mounted_as(UNKNOWN, &["autofs"]),
    // What the kernel makes. Those that are not pseudo have files with sizes, or none.
    numbered(0x0000_1cd1, "devpts").without_files().mounted_as(MEMORY, &["devpts"]),
    numbered(0x6e73_6673, "nsfs").without_files().mounted_as(MEMORY, &["nsfs"]),
    numbered(0x6759_6969, "rpc_pipefs").without_files().mounted_as(MEMORY, &["rpc_pipefs"]),
    numbered(0x6e66_7364, "nfsd").without_files().mounted_as(MEMORY, &["nfsd"]),
    pseudo(0x9fa0, &["proc"]),
    pseudo(0x6265_6572, &["sysfs"]),
    pseudo(0x6462_6720, &["debugfs"]),
    pseudo(0x7472_6163, &["tracefs"]),
    pseudo(0x7363_6673, &["securityfs"]),
    pseudo(0x0027_e0eb, &["cgroup", "cpuset"]),
    pseudo(0x6367_7270, &["cgroup2"]),
    pseudo(0xf97c_ff8c, &["selinuxfs"]),
    pseudo(0x4341_5d53, &["smackfs"]),
    pseudo(0x5a3c_69f0, &["apparmorfs"]),
    pseudo(0x6165_676c, &["pstore"]),
    pseudo(0xde5e_81e4, &["efivarfs"]),
    pseudo(0xcafe_4a11, &["bpf"]),
    pseudo(0x4249_4e4d, &["binfmt_misc"]),
    pseudo(0x6265_6570, &["configfs"]), // fs/configfs/mount.c
    pseudo(0x6573_5543, &["fusectl"]),  // fs/fuse/control.c
    pseudo(0x1980_0202, &["mqueue"]),   // ipc/mqueue.c
    pseudo(0x0765_5821, &["resctrl"]),
    pseudo(0x9fa1, &["openpromfs"]),
    pseudo(0xabba_1974, &["xenfs"]),
];
