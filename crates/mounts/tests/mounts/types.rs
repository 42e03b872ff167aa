//! One line of `mountinfo` for each type of the table, written after what the clients of these file systems show, and the name that a file
//! on it has. No such file system is mounted here.

use crate::answers::Answers;
use atta_mounts::Mount;
use atta_sys::file_systems::{KNOWN, Reach};

/// Row of the table, line without its first two fields, path, canonical name.
pub(crate) const TYPES: &[(&str, &str, &str, &str)] = &[
    ("tmpfs", "0:40 / /m rw - tmpfs t rw,size=1m", "/m/a", "tmpfs://0:40@boot/a"),
    ("ramfs", "0:40 / /m rw - ramfs r rw", "/m/a", "ramfs://0:40@boot/a"),
    ("devtmpfs", "0:6 / /dev rw - devtmpfs udev rw", "/dev/null", "devtmpfs://0:6@boot/null"),
    ("hugetlbfs", "0:41 / /m rw - hugetlbfs h rw,pagesize=2M", "/m/a", "hugetlbfs://0:41@boot/a"),
    ("ext2, ext3, ext4", "8:2 / /m rw - ext4 /dev/sda2 rw", "/m/a", "ext4://8:2@boot/a"),
    ("xfs", "253:1 / /m rw - xfs /dev/mapper/vg-lv rw,attr2", "/m/a", "xfs://253:1@boot/a"),
    (
        "btrfs",
        "0:42 /@home /m rw - btrfs /dev/sdb1 rw,subvolid=256,subvol=/@home",
        "/m/a",
        "btrfs://0:42@boot/@home/a",
    ),
    ("f2fs", "8:3 / /m rw - f2fs /dev/sda3 rw", "/m/a", "f2fs://8:3@boot/a"),
    ("bcachefs", "0:43 / /m rw - bcachefs /dev/sdc:/dev/sdd rw", "/m/a", "bcachefs://0:43@boot/a"),
    ("zfs", "0:44 / /m rw - zfs tank/home rw,xattr", "/m/a", "zfs://0:44@boot/a"),
    ("jfs", "8:4 / /m rw - jfs /dev/sda4 rw", "/m/a", "jfs://8:4@boot/a"),
    ("reiserfs", "8:4 / /m rw - reiserfs /dev/sda4 rw", "/m/a", "reiserfs://8:4@boot/a"),
    ("nilfs2", "8:4 / /m rw - nilfs2 /dev/sda4 rw", "/m/a", "nilfs2://8:4@boot/a"),
    ("vfat", "8:4 / /m rw - vfat /dev/sda4 rw", "/m/a", "vfat://8:4@boot/a"),
    ("exfat", "8:4 / /m rw - exfat /dev/sda4 rw", "/m/a", "exfat://8:4@boot/a"),
    ("ntfs3", "8:4 / /m rw - ntfs3 /dev/sda4 rw", "/m/a", "ntfs3://8:4@boot/a"),
    ("hfsplus", "8:4 / /m rw - hfsplus /dev/sda4 rw", "/m/a", "hfsplus://8:4@boot/a"),
    ("iso9660", "11:0 / /m ro - iso9660 /dev/sr0 ro", "/m/a", "iso9660://11:0@boot/a"),
    ("udf", "11:0 / /m ro - udf /dev/sr0 ro", "/m/a", "udf://11:0@boot/a"),
    ("squashfs", "8:5 / /m ro - squashfs /dev/sda5 ro", "/m/a", "squashfs://8:5@boot/a"),
    ("erofs", "8:5 / /m ro - erofs /dev/sda5 ro", "/m/a", "erofs://8:5@boot/a"),
    ("ubifs", "0:45 / /m rw - ubifs ubi0:root rw", "/m/a", "ubifs://0:45@boot/a"),
    ("fuseblk", "8:6 / /m rw - fuseblk /dev/sda6 rw,user_id=0", "/m/a", "fuseblk://8:6@boot/a"),
    ("ocfs2", "8:32 / /m rw - ocfs2 /dev/sdc rw", "/m/a", "ocfs2://6c0f-11/a"),
    ("gfs2", "253:7 /x /m rw - gfs2 /dev/dm-7 rw", "/m/a", "gfs2://77aa-22/x/a"),
    (
        "nfs",
        "0:46 / /m rw - nfs4 srv:/export/home rw,vers=4.2,addr=192.0.2.7",
        "/m/a",
        "nfs://192.0.2.7/export/home/a",
    ),
    (
        "smb2, smb3",
        "0:47 /Sub /m rw - smb3 //Server/Share/Sub rw,addr=192.0.2.8",
        "/m/A",
        "smb://192.0.2.8/share/Sub/A",
    ),
    (
        "cifs",
        "0:47 / /m rw - cifs //smb/share rw,vers=3.1.1,addr=192.0.2.8",
        "/m/a",
        "smb://192.0.2.8/share/a",
    ),
    ("9p", "0:48 / /m rw - 9p 192.0.2.9 rw,trans=tcp,port=564,aname=/srv", "/m/a", "9p://192.0.2.9/srv/a"),
    ("afs", "0:49 / /m rw - afs #example.org:home. rw", "/m/a", "afs://example.org/home/a"),
    ("openafs", "0:49 / /m rw - auristorfs AFS rw", "/m/example.org/a", "afs:///example.org/a"),
    (
        "lustre",
        "0:50 / /m rw - lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/fs1/sub rw",
        "/m/a",
        "lustre://10.0.0.1@o2ib/fs1/sub/a",
    ),
    ("gpfs", "0:51 / /m rw - gpfs /dev/gpfs1 rw,relatime", "/m/a", "gpfs://hpc.example.org/gpfs1/a"),
    (
        "beegfs",
        "0:52 / /m rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/c.conf",
        "/m/a",
        "beegfs://192.0.2.10/a",
    ),
    (
        "ceph",
        "0:53 / /m rw - ceph admin@AAAA-01.cephfs=/vol rw,mon_addr=192.0.2.1:6789",
        "/m/a",
        "ceph://aaaa-01/cephfs/vol/a",
    ),
    ("ceph-fuse", "0:54 / /fuse rw - fuse.ceph-fuse ceph-fuse rw,user_id=0", "/fuse/a", "ceph://0:54@boot/a"),
    ("glusterfs", "0:55 / /m rw - fuse.glusterfs g1:/v1/sub rw,user_id=0", "/m/a", "glusterfs://g1/v1/sub/a"),
    ("moosefs", r"0:56 / /m rw - fuse mfs\043master:9421/sub rw,user_id=0", "/m/a", "moosefs://master/sub/a"),
    ("wekafs", "0:57 / /m rw - wekafs 10.0.3.2,10.0.3.1/fs1 rw", "/m/a", "weka://10.0.3.1/fs1/a"),
    ("dfuse", "0:58 / /m rw - fuse.daos dfuse rw,user_id=0", "/m/a", "daos://pool-1/cont-1/a"),
    ("pvfs2", "0:59 / /m rw - pvfs2 tcp://meta1:3334/orangefs rw", "/m/a", "pvfs2://meta1/orangefs/a"),
    ("panfs", "0:60 / /m rw - panfs panfs://10.0.0.9/home rw", "/m/a", "panfs://10.0.0.9/home/a"),
    ("dvs", "0:61 / /m rw - dvs /lus rw,path=/lus,nodename=nid2:nid1,nomaxnodes", "/m/a", "dvs://nid1/lus/a"),
    ("fuse", "0:62 / /m rw - fuse.other x rw,user_id=0", "/m/a", "fuse.other://0:62@boot/a"),
    ("virtiofs", "0:63 / /m rw - virtiofs tag rw", "/m/a", "virtiofs://0:63@boot/a"),
    ("sshfs", "0:64 / /m rw - fuse.sshfs me@10.0.0.3:/data rw,user_id=1000", "/m/a", "sshfs://0:64@boot/a"),
    ("gcsfuse", "0:65 / /m rw - fuse.gcsfuse bucket-1 rw,user_id=0", "/m/a", "gs://0:65@boot/a"),
    ("goofys", "0:65 / /m rw - fuse.goofys bucket-1:pre/fix rw,user_id=0", "/m/a", "s3://bucket-1/pre/fix/a"),
    ("s3fs", "0:66 / /m rw - fuse.s3fs s3fs rw,user_id=0", "/m/a", "fuse.s3fs://0:66@boot/a"),
    ("mountpoint-s3", "0:67 / /m rw - fuse mountpoint-s3 rw,user_id=0", "/m/a", "fuse://0:67@boot/a"),
    ("cvmfs", "0:68 / /cvmfs/x ro - fuse cvmfs2 ro,user_id=0", "/cvmfs/x/a", "cvmfs://atlas.cern.ch/a"),
    (
        "overlay",
        "0:69 / /m rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w",
        "/m/a",
        "overlay://0:69@boot/a",
    ),
    ("autofs", "0:70 / /m rw - autofs /etc/auto.m rw,fd=7,direct", "/m/a", "autofs://0:70@boot/a"),
    ("devpts", "0:24 / /m rw - devpts devpts rw", "/m/0", "devpts://0:24@boot/0"),
    ("nsfs", "0:4 mnt:[4026532] /m rw - nsfs nsfs rw", "/m", "nsfs://0:4@boot/mnt:%5b4026532%5d"),
    ("rpc_pipefs", "0:71 / /m rw - rpc_pipefs sunrpc rw", "/m/a", "rpc_pipefs://0:71@boot/a"),
    ("nfsd", "0:72 / /m rw - nfsd nfsd rw", "/m/a", "nfsd://0:72@boot/a"),
];

/// What the lines do not say.
pub(crate) fn answers(boot: &str) -> Answers {
    Answers::on(boot, "node1")
        .files(&[
            ("/etc/beegfs/c.conf", "sysMgmtdHost = wrong\n"),
            ("/proc/fs/beegfs/1-A/config", "cfgFile = /etc/beegfs/other.conf\nsysMgmtdHost = other\n"),
            ("/proc/fs/beegfs/2-B/config", "cfgFile = /etc/beegfs/c.conf\nsysMgmtdHost = mgmt\n"),
            ("/var/mmfs/gen/mmfs.cfg", "# settings\nclusterName hpc.example.org\n"),
        ])
        .links(&[("/dev/disk/by-uuid/6c0f-11", "../../sdc"), ("/dev/disk/by-uuid/77aa-22", "../../dm-7")])
        .attribute("/fuse", "ceph.cluster_fsid", "AAAA-01")
        .attribute("/m", "user.daos", "DAOS.POSIX://pool-1/cont-1")
        .attribute("/cvmfs/x", "user.fqrn", "atlas.cern.ch")
        .address("mgmt", &["192.0.2.10"])
}

#[test]
fn each_type_has_a_row_a_line_and_a_name() {
    let answers = answers("boot");
    for (row, line, path, expected) in TYPES {
        let table = answers.table(&[line]);
        let uri = table.uri_of(path.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&uri.canonical()), *expected, "{row}");
        let mount = table.mount_of(path.as_bytes()).unwrap();
        assert_eq!(mount.known().map(|known| known.name), Some(*row), "{line}");
        assert_eq!(uri.identity().known(), mount.known());
    }
    let missing =
        KNOWN.iter().filter(|known| !known.is_pseudo && !TYPES.iter().any(|(row, ..)| *row == known.name));
    assert_eq!(missing.map(|known| known.name).collect::<Vec<_>>(), [""; 0]);
}

// A.3: everything that the original did not know was local.
#[test]
fn no_network_file_system_is_taken_for_local() {
    let answers = answers("boot");
    for (row, line, path, _) in TYPES {
        let known = KNOWN.iter().find(|known| known.name == *row).unwrap();
        let reach = answers.table(&[line]).reach_of(path.as_bytes()).unwrap();
        let is_local = known.mounts.types.iter().all(|kind| !kind.starts_with("fuse."))
            && known.mounts.scheme.is_empty();
        assert!(reach != Reach::Local || is_local, "{row}");
    }
    let table = answers.table(&["0:80 / /m rw - newfs what rw"]);
    assert_eq!(table.reach_of(b"/m/a"), Some(Reach::Unknown), "a type that is in no table");
    assert_eq!(table.mount_of(b"/m").map(Mount::known), Some(None));
    assert!(!table.uri_of(b"/m/a").unwrap().identity().is_proven());
}

#[test]
fn host_names_are_only_shown() {
    let answers = answers("boot");
    let shown = |line, path| answers.uri(line, path).to_string();
    assert_eq!(shown("8:2 / /m rw - ext4 /dev/sda2 rw", "/m/a b"), "ext4://8:2@node1/a%20b");
    assert_eq!(shown("0:4 / /m rw - nfs Srv:/e rw,addr=192.0.2.7", "/m/\u{e9}"), "nfs://srv/e/%c3%a9");
    assert_eq!(shown("0:4 / /m rw - nfs localhost:/e rw,addr=127.0.0.1", "/m"), "nfs://localhost/e");
    assert_eq!(shown("0:4 / /m rw - nfs srv:/ rw,addr=192.0.2.7", "/m"), "nfs://srv/");
}

#[test]
fn disks_have_their_uuid() {
    let answers = Answers::on("boot", "node1").links(&[
        ("/dev/disk/by-uuid/1111-aa", "../../sda2"),
        ("/dev/disk/by-uuid/3333-cc", "../../dm-1"),
        ("/sys/dev/block/253:1", "../../devices/virtual/block/dm-1"),
        ("/sys/fs/btrfs/2222-bb/devices/sdb1", "../../../../sdb1"),
    ]);
    let uuid = |line| answers.uri(line, "/m").identity().uuid.clone();
    assert_eq!(uuid("8:2 / /m rw - xfs /dev/sda2 rw").as_deref(), Some(&b"1111-aa"[..]));
    assert_eq!(uuid("0:42 /@ /m rw - btrfs /dev/sdb1 rw").as_deref(), Some(&b"2222-bb"[..]));
    // The source has another name of the disk.
    assert_eq!(uuid("253:1 / /m rw - xfs /dev/mapper/vg-sda2 rw").as_deref(), Some(&b"3333-cc"[..]));
    assert_eq!((uuid("8:3 / /m rw - xfs /dev/sda3 rw"), uuid("0:9 / /m rw - tmpfs sda2 rw")), (None, None));
}
