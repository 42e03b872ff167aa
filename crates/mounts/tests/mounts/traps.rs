//! Mounts that look alike and are not, and mounts that look different and are one: each was seen on a real system, or is a mistake that the
//! original FGFS makes.

use crate::answers::Answers;
use crate::types::{TYPES, answers};
use atta_entry::Code as _;
use atta_mounts::Relation::{Different, Same, Unknown};
use atta_mounts::{Aliases, Holder, Relation, Uri};
use atta_sys::file_systems::Reach;

fn here() -> Answers {
    Answers::on("boot-1", "node1")
}

fn there() -> Answers {
    Answers::on("boot-2", "node2")
}

/// The top of a mount at `/m` on one host.
fn top(answers: &Answers, mounted: &str) -> Uri {
    answers.uri(&format!("0:40 / /m rw - {mounted}"), "/m")
}

/// Whether mounts on two hosts are one file system, from both sides, and whether their canonical names agree.
fn relation(one: &str, other: &str) -> (Relation, bool) {
    relation_of(&top(&here(), one), &top(&there(), other))
}

fn relation_of(one: &Uri, other: &Uri) -> (Relation, bool) {
    let relation = one.file_system_relation(other);
    assert_eq!(other.file_system_relation(one), relation);
    (relation, one.canonical() == other.canonical() && one.hash() == other.hash())
}

/// Equal names mean equal files, and equal files have equal names as soon as all that hosts know of servers is put together. Tried on all
/// pairs of mounts of two hosts.
#[test]
fn names_are_equal_for_equal_files_only() {
    let more = [
        "nfs4 srv:/e rw,addr=10.0.0.5",
        "nfs4 10.0.0.5:/e rw",
        "nfs4 srv:/ rw",
        "nfs srv:/e/m rw,addr=10.0.0.5",
        "nfs alias:/e rw,addr=10.0.0.5",
        "nfs round:/e rw,addr=10.0.0.8",
        "nfs round:/e rw,addr=10.0.0.9",
        "nfs localhost:/e rw",
        "lustre 10.0.0.1@tcp:10.0.0.2@tcp:/fs1 rw",
        "lustre 10.0.0.2@tcp:/fs1 rw",
        "lustre 10.0.0.3@tcp:/fs1 rw",
        "fuse.glusterfs srv:/e rw",
        "fuse.glusterfs g1:v1 rw",
        // Pools, and NFS of their servers.
        "wekafs a,b/fs rw",
        "nfs a:/e rw",
        "nfs b:/e rw",
        "dvs /e rw,path=/e,nodename=nid1:nid2",
        "9p nid1 rw,trans=tcp,aname=/e",
        "9p nid2 rw,trans=tcp,aname=/e",
        "ceph 10.0.0.1:/ rw",
        "ceph 10.0.0.1,10.0.0.2:/ rw",
        "ceph x@aaaa-01.fs=/e rw",
        "gpfs gpfs1 rw",
        "gpfs gpfs1 rw,dev=a:b",
        "fuse.sshfs a@srv: rw",
        "fuse.sshfs srv: rw",
        "afs #e:e rw",
        "overlay o ro,lowerdir=/m:/e",
        "overlay o ro,lowerdir=/e:/m",
        "overlay o ro,lowerdir=/e",
        "smb3 //srv/e rw",
        "tmpfs srv:/e rw",
        "fuse.e srv:/e rw",
    ];
    let more = more.map(|mounted| (format!("0:1 / /m rw - {mounted}"), "/m/e".to_owned()));
    let types = TYPES.iter().map(|(_, line, path, _)| ((*line).to_owned(), (*path).to_owned()));
    // Each has a device of its own, as on a real host.
    let mounts: Vec<_> = types
        .chain(more)
        .zip(100..)
        .map(|((line, path), device)| {
            let (_, rest) = line.split_once(' ').expect("a line");
            (format!("0:{device} {rest}"), path)
        })
        .collect();
    let on = |boot: &str| {
        let answers = answers(boot);
        mounts.iter().map(|(line, path)| answers.uri(line, path)).collect::<Vec<_>>()
    };
    let (here, there) = (on("boot-1"), on("boot-2"));
    let mut aliases = Aliases::default();
    here.iter().chain(&there).for_each(|uri| aliases.add(uri.identity()));
    let mut joined = 0;
    for (one, other) in here.iter().flat_map(|one| here.iter().chain(&there).map(move |other| (one, other))) {
        let relation = one.relation(other);
        assert_eq!(other.relation(one), relation, "{one} {other}");
        assert!(one.canonical() != other.canonical() || relation == Same, "{one} {other}");
        // All together know more than two.
        let completed = [one, other].map(|uri| aliases.completed(uri));
        let is_equal = completed[0].canonical() == completed[1].canonical();
        assert!(!is_equal || relation != Different, "{one} {other}: {relation:?}");
        assert_eq!(completed[0].relation(&completed[1]) == Same, is_equal, "{one} {other}");
        joined += usize::from(is_equal && relation == Unknown);
        let schemes = (&one.identity().scheme, &other.identity().scheme);
        assert!(!is_equal || schemes.0 == schemes.1, "{one} {other}");
    }
    let names: Vec<_> = here.iter().map(|uri| aliases.completed(uri).canonical()).collect();
    for apart in [
        &[&b"nfs://a/e/e"[..], b"nfs://b/e/e"][..],
        &[b"9p://nid1/e/e", b"9p://nid2/e/e"],
        &[b"nfs://10.0.0.8/e/e", b"nfs://10.0.0.9/e/e"],
    ] {
        assert!(apart.iter().all(|name| names.iter().any(|found| found == name)), "{apart:?}");
    }
    assert_eq!(joined, 0, "no two of these are one only by what a third one knows");
}

// Defect 1: two exports of one server were one "unique" file.
#[test]
fn two_exports_of_one_server_are_two() {
    let of = |export: &str| format!("nfs4 10.0.0.5:{export} rw,addr=10.0.0.5");
    assert_eq!(relation(&of("/exportA"), &of("/exportB")), (Different, false));
    assert_eq!(relation(&of("/exportA"), &of("/exportA/")), (Same, true));
    assert_eq!(relation("cifs //s/a rw,addr=10.0.0.5", "cifs //s/b rw,addr=10.0.0.5"), (Different, false));
    assert_eq!(relation("fuse.glusterfs s:/a rw", "fuse.glusterfs s:/b rw"), (Different, false));
    assert_eq!(relation("lustre 10.0.0.5@tcp:/a rw", "lustre 10.0.0.5@tcp:/b rw"), (Different, false));
}

// Defects 2 and 3: names without addresses ended the program, and so did a name and an address of one server.
#[test]
fn names_and_addresses_of_a_server_are_one() {
    let by_name = "nfs4 srv:/e rw,addr=10.0.0.5";
    assert_eq!(relation(by_name, "nfs4 10.0.0.5:/e rw,addr=10.0.0.5"), (Same, true));
    assert_eq!(relation(by_name, "nfs4 SRV.:/e rw,addr=10.0.0.5"), (Same, true));
    // It may be another interface of the server, and a name may be several servers.
    assert_eq!(relation(by_name, "nfs4 other:/e rw,addr=10.0.0.6"), (Unknown, false));
    assert_eq!(relation(by_name, "nfs4 srv:/e rw,addr=10.0.0.6"), (Unknown, false));
    // Their addresses are not known.
    assert_eq!(relation("nfs4 one:/e rw", "nfs4 two:/e rw"), (Unknown, false));
    assert_eq!(relation("nfs4 one:/e rw", "nfs4 one:/e rw"), (Same, true));
    // A resolver knows.
    let (here, there) =
        (here().address("master", &["10.0.0.7", "fd00::7"]), there().address("mfs", &["fd00::7"]));
    let (one, other) = (top(&here, r"fuse mfs\043master:9421 rw"), top(&there, r"fuse mfs\043mfs:9421 rw"));
    assert_eq!(relation_of(&one, &other), (Same, false));
    // Together they know that all are one.
    let mut aliases = Aliases::default();
    for uri in [&one, &other] {
        aliases.add(uri.identity());
    }
    assert_eq!(aliases.completed(&one).hash(), aliases.completed(&other).hash());
}

// A.3: `[fd00::1]:/e` became `[fd001]`, and `srv:/` gave two slashes.
#[test]
fn spellings_of_an_export_are_one() {
    for (one, other) in [
        ("nfs4 [fd00::1]:/e rw", "nfs4 [FD00:0::1]:/e rw"),
        ("nfs4 fd00::1:/e rw", "nfs4 [fd00::1]:/e/ rw"),
        ("nfs4 srv:/ rw", "nfs4 srv:// rw"),
        ("nfs srv:/e rw,vers=3", "nfs4 srv:/e rw,vers=4.2"),
        ("nfs srv:/e rw,port=2049", "nfs srv:/e rw,port=0"),
        ("cifs //SRV/Share rw", r"smb3 \134\134srv\134share rw"),
    ] {
        assert_eq!(relation(one, other), (Same, true), "{one}, {other}");
    }
    assert_ne!(
        relation("nfs srv:/e rw,port=2050", "nfs srv:/e rw").0,
        Same,
        "another server behind another port"
    );
    assert_eq!(here().uri("0:4 / /m rw - nfs4 srv:/ rw", "/m//x/").canonical(), b"nfs://srv/x");
}

#[test]
fn exports_that_lie_in_each_other_share_files() {
    let (one, other) = (here(), there());
    let outer = one.uri("0:4 / /m rw - nfs4 srv:/export rw,addr=10.0.0.5", "/m/home/f");
    let inner = other.uri("0:4 / /n rw - nfs4 srv:/export/home rw,addr=10.0.0.5", "/n/f");
    assert_eq!((outer.relation(&inner), outer.canonical() == inner.canonical()), (Same, true));
    assert_eq!(
        outer.relation(&other.uri("0:4 / /n rw - nfs4 srv:/other rw,addr=10.0.0.5", "/n/f")),
        Different
    );
}

// A loopback address is another server on each host, or a tunnel to one server (stunnel, efs-utils).
#[test]
fn loopback_is_another_server_on_each_host() {
    let mounted = "nfs4 127.0.0.1:/ rw,addr=127.0.0.1,port=20049";
    assert_eq!(relation(mounted, mounted), (Unknown, false));
    let (one, other) = (top(&here(), mounted), top(&here(), "nfs4 localhost:/ rw,addr=127.0.0.1,port=20049"));
    assert_eq!(relation_of(&one, &other), (Same, true));
    // Another network namespace of the same host.
    let mut container = here();
    container.host.network = b"4026532".to_vec();
    assert_eq!(relation_of(&one, &top(&container, mounted)).0, Same, "one superblock");
    let another = container.uri(&format!("0:41 / /m rw - {mounted}"), "/m");
    assert_eq!(relation_of(&one, &another), (Unknown, false));
}

// A.3: a list of several servers was garbled, and its order was an alias.
#[test]
fn order_of_lustre_servers_does_not_count() {
    let one = "lustre 10.0.0.1@tcp:10.0.0.2@tcp:/fs1 rw";
    assert_eq!(relation(one, "lustre 10.0.0.2@tcp0:10.0.0.1:/fs1 rw"), (Same, true));
    assert_eq!(relation(one, "lustre 10.0.0.2@tcp:/fs1 rw"), (Same, false));
    assert_eq!(
        relation(one, "lustre 10.0.0.3@tcp:/fs1 rw").0,
        Unknown,
        "a third server of it, or another one"
    );
    assert_eq!(relation(one, "lustre 10.0.0.1@o2ib:/fs1 rw").0, Unknown, "another network of it");
    assert_eq!(relation(one, "lustre 10.0.0.1@tcp:/fs2 rw").0, Different);
    let whole = here().uri("0:4 / /m rw - lustre 10.0.0.1@tcp:/fs1 rw", "/m/sub/f");
    let part = there().uri("0:4 / /n rw - lustre 10.0.0.1@tcp:/fs1/sub rw", "/n/f");
    assert_eq!((whole.relation(&part), whole.canonical() == part.canonical()), (Same, true));
}

// A.3: GPFS, PanFS and DVS had the path of the host in the name.
#[test]
fn mount_points_of_hosts_do_not_count() {
    let in_cluster = |answers: Answers| answers.files(&[("/var/mmfs/gen/mmfs.cfg", "clusterName c.org\n")]);
    for mounted in
        ["gpfs gpfs1 rw", "panfs panfs://10.0.0.9/home rw", "dvs /dfs rw,nodename=nid1", "nfs srv:/e rw"]
    {
        let one = in_cluster(here()).uri(&format!("0:4 / /g1 rw - {mounted}"), "/g1/f");
        let other = in_cluster(there()).uri(&format!("0:9 / /a/g2 rw - {mounted}"), "/a/g2/f");
        assert_eq!(
            (one.relation(&other), one.canonical() == other.canonical()),
            (Same, true),
            "{one} {other}"
        );
    }
    let (one, other) = (in_cluster(here()), in_cluster(there()));
    assert_eq!(relation_of(&top(&one, "gpfs gpfs1 rw"), &top(&other, "gpfs /dev/gpfs1 rw")), (Same, true));
    assert_eq!(
        relation_of(&top(&one, "gpfs gpfs1 rw"), &top(&other, "gpfs gpfs1 rw,dev=far.org:gpfs1")).0,
        Different
    );
    // Each cluster has a `gpfs1`.
    assert_eq!(relation("gpfs gpfs1 rw", "gpfs gpfs1 rw"), (Unknown, false));
    assert_eq!(relation("gpfs r rw,dev=far.org:fs", "gpfs x rw,dev=far.org:fs"), (Same, true));
    assert_eq!(relation("gpfs gpfs1 rw", "gpfs gpfs1 rw,dev=far.org:gpfs1"), (Unknown, false));
}

#[test]
fn gluster_volumes_have_two_spellings() {
    assert_eq!(relation("fuse.glusterfs host:/v1 rw", "fuse.glusterfs host:v1 rw"), (Same, true));
    assert_eq!(
        relation("fuse.glusterfs h1:/v1 rw", "fuse.glusterfs h2:/v1 rw"),
        (Unknown, false),
        "one pool, or two"
    );
    // Recorded: two clients of GlusterFS 10.3 on one host.
    let rest = "rw,relatime - fuse.glusterfs 192.0.2.1:v1 rw,user_id=0,group_id=0,default_permissions,max_read=131072";
    let client = |device| here().uri(&format!("0:{device} / /m {rest}"), "/m/f");
    assert_eq!((client(39).relation(&client(40)), client(39).hash() == client(40).hash()), (Same, true));
    let part = here().uri("0:4 / /m rw - fuse.glusterfs host:/v1/a:/b rw", "/m/f");
    assert_eq!(part.canonical(), b"glusterfs://host/v1/a:/b/f");
}

#[test]
fn moosefs_hides_in_plain_fuse() {
    let uri = here().uri(r"0:4 / /m rw - fuse mfs\043host:9421 rw,user_id=0", "/m/f");
    assert_eq!(uri.canonical(), b"moosefs://host/f");
    assert_eq!(relation(r"fuse mfs\043host:9421 rw", r"fuse mfs\043host:9422 rw").0, Unknown);
}

#[test]
fn ceph_is_named_by_its_cluster() {
    let (here, there) = (here(), there().attribute("/m", "ceph.cluster_fsid", "aaaa-01"));
    let here = here.attribute("/m", "ceph.cluster_fsid", "AAAA-01");
    let (kernel, old) =
        ("ceph admin@aaaa-01.cephfs=/ rw", "ceph 10.0.0.1:6789,10.0.0.2:6789:/ rw,mds_namespace=cephfs");
    assert_eq!(relation_of(&top(&here, kernel), &top(&there, old)), (Same, true));
    assert_eq!(
        relation_of(&top(&here, kernel), &top(&there, "ceph x@aaaa-01.other=/ rw")),
        (Different, false)
    );
    // The default file system, whose name is not shown.
    let default = top(&here, "ceph 10.0.0.1:/ rw");
    assert_eq!(relation_of(&default, &top(&there, kernel)), (Unknown, false));
    assert_eq!(relation_of(&default, &top(&there, "ceph 10.0.0.2:/ rw")), (Same, true));
    // Without the attribute its monitors are known.
    assert_eq!(relation("ceph 10.0.0.1:/ rw", "ceph 10.0.0.2:6789,10.0.0.1:3300:/ rw").0, Same);
    assert_eq!(relation("ceph 10.0.0.1:/ rw", "ceph 10.0.0.2:/ rw").0, Unknown);
}

// What is asked by its mount point is asked of the mount on top.
#[test]
fn hidden_mounts_are_not_asked() {
    let answers = here().attribute("/m", "user.fqrn", "aa");
    let text = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
        2 1 0:40 / /m rw - fuse cvmfs2 rw\n\
        3 2 0:41 / /m rw - fuse cvmfs2 rw\n";
    let table = atta_mounts::MountTable::from_bytes(text, &answers).unwrap();
    let names: Vec<_> = table.iter().skip(1).map(|(_, root)| root.to_string()).collect();
    assert_eq!(names, ["cvmfs://0:40@node1/", "cvmfs://aa/"]);
}

// `ceph-fuse` shows neither the file system (`--client_fs`) nor the directory (`-r`).
#[test]
fn ceph_fuse_of_one_cluster_may_be_two_file_systems() {
    let of = |answers: Answers, mounted| top(&answers.attribute("/m", "ceph.cluster_fsid", "aa"), mounted);
    let fuse = "fuse.ceph-fuse ceph-fuse rw";
    assert_eq!(relation_of(&of(here(), fuse), &of(there(), fuse)), (Unknown, false));
    assert_eq!(relation_of(&of(here(), fuse), &of(there(), "ceph 10.0.0.1:/ rw")), (Unknown, false));
    assert_eq!(relation_of(&of(here(), fuse), &of(here(), fuse)), (Same, true), "one mount of one kernel");
}

// The place of a name that is not known is no directory.
#[test]
fn directories_are_not_taken_for_volumes() {
    let of = |mounted: &str| here().uri(&format!("0:4 / /m rw - {mounted}"), "/m/x");
    let beside = |mounted: &str| there().uri(&format!("0:4 / /m rw - {mounted}"), "/m/x");
    for (one, other) in [
        ("ceph 10.0.0.1:/cephfs rw", "ceph 10.0.0.1:/ rw,fs=cephfs"),
        ("fuse.sshfs h:/~a rw", "fuse.sshfs a@h: rw"),
    ] {
        assert_eq!(of(one).relation(&beside(other)), Unknown, "{one} {other}");
        assert_ne!(of(one).canonical(), beside(other).canonical());
    }
    // Trees of one server.
    for (outer, inner) in [
        ("dvs /a rw,path=/lus,nodename=n", "dvs /b rw,path=/lus/x,nodename=n"),
        ("9p 10.0.0.1 rw,trans=tcp,aname=/srv", "9p 10.0.0.1 rw,trans=tcp,aname=/srv/x"),
        ("panfs panfs://10.0.0.1/ rw", "panfs panfs://10.0.0.1/x rw"),
    ] {
        let outer = here().uri(&format!("0:4 / /m rw - {outer}"), "/m/x/f");
        let inner = there().uri(&format!("0:4 / /m rw - {inner}"), "/m/f");
        assert_eq!((outer.relation(&inner), outer.canonical() == inner.canonical()), (Same, true), "{inner}");
        assert_eq!(outer.file_system_relation(&inner), Unknown);
    }
}

// An equals sign in the directory is none of the source.
#[test]
fn directories_of_ceph_have_any_names() {
    let uri = top(&here(), "ceph 10.0.0.1:/a@b.c=/d rw");
    assert_eq!(uri.canonical(), b"ceph://10.0.0.1//a@b.c=/d");
}

#[test]
fn unknown_fuse_is_neither_one_nor_two() {
    for mounted in [
        "fuse.other x rw",
        "fuse x rw",
        "fuse.s3fs s3fs rw",
        "virtiofs tag rw",
        "9p tag rw,trans=virtio",
        "autofs a rw",
    ] {
        assert_eq!(relation(mounted, mounted), (Unknown, false), "{mounted}");
        for other in ["ext4 /dev/sda rw", "nfs srv:/e rw,addr=10.0.0.5", "ceph x@aa.fs=/ rw", "fuse.y y rw"] {
            assert_eq!(relation(mounted, other), (Unknown, false), "{mounted}, {other}");
        }
        let uri = top(&here(), mounted);
        assert!(!uri.identity().is_proven() && uri.identity().reach != Reach::Local, "{mounted}");
        assert_eq!(relation_of(&uri, &top(&here(), mounted)), (Same, true), "one mount of one kernel");
    }
}

#[test]
fn users_and_ports_of_sshfs_are_not_known() {
    // Users may have roots of their own (`ChrootDirectory`), and ports servers of their own; neither is shown.
    for (one, other) in [
        ("fuse.sshfs a@h:/d rw", "fuse.sshfs b@h:/d rw"),
        ("fuse.sshfs a@h: rw", "fuse.sshfs b@h: rw"),
        ("fuse.sshfs a@[fd00::1]:d rw", "fuse.sshfs a@[fd00::1]:d rw"),
    ] {
        assert_eq!(relation(one, other), (Unknown, false), "{one} {other}");
        assert_eq!(relation_of(&top(&here(), one), &top(&here(), one)), (Same, true));
    }
}

#[test]
fn two_containers_that_share_a_disk_are_one() {
    let (one, other) = (Answers::on("boot-1", "pod-a"), Answers::on("boot-1", "pod-b"));
    // One has the whole directory, the other one a part of it, both through bind mounts.
    let first = one.uri("8:2 /volumes/v /data rw - ext4 /dev/sda2 rw", "/data/sub/f");
    let second = other.uri("8:2 /volumes/v/sub /mnt rw - ext4 /dev/sda2 rw", "/mnt/f");
    assert_eq!((first.relation(&second), first.hash() == second.hash()), (Same, true));
    assert_ne!(first.to_string(), second.to_string());
    let tmpfs =
        |answers: &Answers, device| answers.uri(&format!("0:{device} / /tmp rw - tmpfs tmpfs rw"), "/tmp/f");
    assert_eq!(tmpfs(&one, 50).relation(&tmpfs(&other, 51)), Different);
}

// Disks of two machines have one device number, virtual machines of one image have one UUID, and host names may be the same.
#[test]
fn equal_disks_of_two_machines_are_two() {
    let disk = |boot| {
        let answers = Answers::on(boot, "localhost").links(&[("/dev/disk/by-uuid/1111-aa", "../../sda2")]);
        answers.uri("8:2 / /m rw - xfs /dev/sda2 rw", "/m/f")
    };
    let (one, other) = (disk("boot-1"), disk("boot-2"));
    assert_eq!((one.relation(&other), one.hash() == other.hash()), (Different, false));
    assert_eq!(one.identity().uuid, other.identity().uuid);
    assert_eq!(one.to_string(), other.to_string());
}

#[test]
fn subvolumes_of_btrfs_are_apart() {
    let of =
        |root: &str| here().uri(&format!("0:42 {root} /m rw - btrfs /dev/sdb1 rw,subvol={root}"), "/m/f");
    assert_eq!(of("/@home").relation(&of("/@")), Different);
    assert!(of("/@home").is_same_file_system(&of("/@")));
    let nested = here().uri("0:42 / /m rw - btrfs /dev/sdb1 rw,subvolid=5", "/m/@home/f");
    assert_eq!(nested.canonical(), of("/@home").canonical());
}

// Defect 5: a bind mount was reported as the device, and its path as that of the mount point.
#[test]
fn bind_mounts_lead_to_what_they_show() {
    let table = here().table(&[
        "8:1 /usr/lib /bound rw - ext4 /dev/sda1 rw",
        "0:46 / /nfs rw - nfs4 srv:/e/sub rw,addr=10.0.0.5",
        "8:1 /etc/hosts /file rw - ext4 /dev/sda1 rw",
        "8:1 /gone//deleted /old rw - ext4 /dev/sda1 rw",
        "8:1 /gone//deleted /older rw - ext4 /dev/sda1 rw",
    ]);
    let of = |path: &str| table.uri_of(path.as_bytes()).unwrap();
    assert_eq!(of("/bound/f").relation(&of("/usr/lib/f")), Same);
    assert_eq!(of("/bound/f").canonical(), b"ext4://8:1@boot-1/usr/lib/f");
    assert_eq!(of("/file").canonical(), of("/etc/hosts").canonical());
    assert_eq!(of("/nfs/f").canonical(), b"nfs://10.0.0.5/e/sub/f");
    // Removed directories: two of one name are two.
    let removed = of("/old/f");
    for other in ["/older/f", "/gone/deleted/f", "/gone/f"] {
        assert_eq!(
            (removed.relation(&of(other)), removed.is_same_file_system(&of(other))),
            (Unknown, true),
            "{other}"
        );
        assert_ne!(removed.canonical(), of(other).canonical());
    }
    assert_eq!((removed.relation(&of("/old/f")), removed.relation(&of("/old/g"))), (Same, Different));
}

// An NFS server exports its disk or a parallel file system; both are mounted on its own host, or by another protocol elsewhere.
#[test]
fn exported_file_systems_may_be_others() {
    for exported in [
        "nfs4 srv:/home rw,addr=10.0.0.5",
        "smb3 //srv/home rw,addr=10.0.0.5",
        "fuse.sshfs srv:/home rw",
        "dvs /home rw,path=/home,nodename=srv",
        "9p srv rw,trans=tcp,aname=/home",
    ] {
        for other in [
            "ext4 /dev/sda3 rw",
            "gpfs gpfs1 rw,dev=c:gpfs1",
            "lustre 10.0.0.1@tcp:/fs1 rw",
            "ceph x@aa.fs=/ rw",
            "fuse.glusterfs g:/v1 rw",
            "nfs gateway:/gw/home rw,addr=10.0.0.6",
        ] {
            assert_eq!(relation(exported, other), (Unknown, false), "{exported} {other}");
            assert_eq!(top(&here(), exported).relation(&top(&there(), other)), Unknown);
        }
    }
    assert_eq!(relation("ext4 /dev/sda3 rw", "gpfs gpfs1 rw,dev=c:gpfs1"), (Different, false));
    assert_eq!(relation("lustre 10.0.0.1@tcp:/fs1 rw", "gpfs gpfs1 rw,dev=c:gpfs1"), (Different, false));
}

// NFS has one superblock for all exports of one file system of a server.
#[test]
fn one_superblock_is_one_file_system() {
    let of = |answers: Answers, export: &str| top(&answers, &format!("nfs4 srv:{export} rw,addr=10.0.0.5"));
    assert_eq!(relation_of(&of(here(), "/e/alice"), &of(here(), "/e/bob")), (Same, false));
    assert_eq!(of(here(), "/e/alice").relation(&of(here(), "/e/bob")), Different, "other directories");
    assert_eq!(
        relation_of(&of(here(), "/e"), &of(there(), "/e/bob")).0,
        Unknown,
        "a directory or a mount of the server"
    );
    assert_eq!(relation_of(&of(here(), "/"), &of(there(), "/e")).0, Unknown);
    assert_eq!(relation_of(&of(here(), "/e/alice"), &of(there(), "/e/bob")).0, Different);
    assert_eq!(relation_of(&of(here(), "/e"), &of(there(), "/ef")).0, Different);
}

// The kernel has `/dir` as root of `//srv/share/dir`, unless the client may not read the share's top.
#[test]
fn directories_of_smb_count_once() {
    let of = |answers: Answers, root: &str, source: &str| {
        answers.uri(&format!("0:47 {root} /m rw - smb3 {source} rw,addr=10.0.0.5"), "/m/f")
    };
    let direct = of(here(), "/dir", "//srv/share/dir");
    assert_eq!(direct.canonical(), b"smb://10.0.0.5/share/dir/f");
    assert_eq!(direct.relation(&of(there(), "/dir", "//srv/share")), Same);
    assert_eq!(of(here(), "/dir/sub", "//srv/share/dir").canonical(), b"smb://10.0.0.5/share/dir/sub/f");
    for root in ["/", "/other", "/dirx"] {
        let unclear = of(there(), root, "//srv/share/dir");
        assert_eq!(direct.relation(&unclear), Unknown, "{root}");
        assert!(!unclear.identity().is_proven());
    }
}

// systemd-nspawn and LXC mount a random boot id over that of the kernel.
#[test]
fn containers_with_own_boot_ids_may_be_on_one_host() {
    let of = |boot: &str, more: &str| {
        let lines = ["8:2 / /m rw - xfs /dev/sda2 rw", more];
        let table = Answers::on(boot, "node").table(&lines[..if more.is_empty() { 1 } else { 2 }]);
        table.uri_of(b"/m/f").unwrap()
    };
    let random = of("random", "0:5 /boot-id /proc/sys/kernel/random/boot_id ro - tmpfs t rw");
    assert_eq!(random.relation(&of("boot-1", "")), Unknown);
    assert_eq!(of("boot-1", "").relation(&random), Unknown);
    assert_eq!(random.relation(&of("random", "")), Same);
    let bound = of("boot-2", "0:22 /sys /proc/sys ro - proc proc rw");
    assert_eq!(bound.relation(&of("boot-1", "")), Different, "as containers have it");
    assert_eq!(of("boot-2", "0:5 / /proc/sys/kernel rw - tmpfs t rw").relation(&of("boot-1", "")), Unknown);
}

// A host name that resolves to several servers (round robin).
#[test]
fn names_of_several_servers_prove_nothing() {
    let of =
        |answers: Answers, mounted: &str| top(&answers.address("login", &["10.0.0.1", "10.0.0.2"]), mounted);
    for mounted in ["fuse.sshfs me@login:/tmp rw", "9p login rw,trans=tcp,aname=/tmp"] {
        assert_eq!(relation_of(&of(here(), mounted), &of(there(), mounted)), (Unknown, false), "{mounted}");
    }
    // Each server of a pool leads to the volume.
    assert_eq!(
        relation_of(&of(here(), "wekafs login/fs rw"), &of(there(), "wekafs login/fs rw")),
        (Same, true)
    );
}

// Defect 6: no path was normal, so that `/r/../nfs/x` was local.
#[test]
fn paths_are_made_normal_first() {
    let table = here().table(&["0:46 / /nfs rw - nfs4 srv:/e rw,addr=10.0.0.5"]);
    for path in ["/nfs/x", "/r/../nfs/x", "/nfs//x", "/nfs/./x/", "//nfs/y/../x", "/../nfs/x"] {
        assert_eq!(table.uri_of(path.as_bytes()).unwrap().canonical(), b"nfs://10.0.0.5/e/x", "{path}");
    }
    assert_eq!(table.uri_of(b"/nfsx").unwrap().canonical(), b"ext4://8:1@boot-1/nfsx");
    let bytes = table.uri_of(b"/nfs/\xff[]").unwrap();
    assert_eq!((bytes.canonical(), bytes.path()), (b"nfs://10.0.0.5/e/%ff%5b%5d".to_vec(), &b"/\xff[]"[..]));
}

// Defect 10: two branches of aufs only, and no overlay.
#[test]
fn overlays_lead_to_their_layers() {
    let lines = |lower: &str| {
        format!(
            "0:46 / /nfs rw - nfs4 srv:/images rw,addr=10.0.0.5\n\
             0:69 / /ro ro - overlay o ro,lowerdir={lower}\n\
             0:70 / /rw rw - overlay o rw,lowerdir={lower},upperdir=/u,workdir=/w"
        )
    };
    let table = |answers: &Answers, lower: &str| answers.table(&lines(lower).split('\n').collect::<Vec<_>>());
    let (one, other) = (table(&here(), "/nfs/b:/nfs/a"), table(&there(), "/nfs/b:/nfs/a"));
    let of = |table: &atta_mounts::MountTable, path: &str| table.uri_of(path.as_bytes()).unwrap();
    assert_eq!(relation_of(&of(&one, "/ro"), &of(&table(&here(), "/nfs/b:/nfs/a"), "/ro")), (Same, true));
    // There a later mount may have covered the layers.
    assert_eq!(relation_of(&of(&one, "/ro"), &of(&other, "/ro")), (Unknown, false));
    assert_eq!(
        of(&one, "/ro/f").canonical(),
        b"overlay://[nfs://10.0.0.5/images/b][nfs://10.0.0.5/images/a]@boot-1/f"
    );
    assert_eq!((one.reach_of(b"/ro"), one.reach_of(b"/rw/x")), (Some(Reach::Remote), Some(Reach::Remote)));
    // What is written to the upper layer no other host sees.
    assert_eq!(relation_of(&of(&one, "/rw"), &of(&other, "/rw")), (Different, false));
    let layers = one.layers_of(one.mount_of(b"/rw").unwrap());
    assert_eq!(layers.len(), 3);
    assert_eq!(layers[0].as_ref().unwrap().canonical(), b"ext4://8:1@boot-1/u");
    // Another overlay of one kernel, with another device.
    let order = here().table(&[
        "0:46 / /nfs rw - nfs4 srv:/images rw,addr=10.0.0.5",
        "0:71 / /ro ro - overlay o ro,lowerdir=/nfs/a:/nfs/b",
    ]);
    assert_eq!(relation_of(&of(&one, "/ro"), &of(&order, "/ro")), (Different, false));
    let more = table(&here(), "/a");
    assert_eq!((more.reach_of(b"/ro"), more.reach_of(b"/etc")), (Some(Reach::Local), Some(Reach::Local)));
    assert!(one.layers_of(one.mount_of(b"/nfs").unwrap()).is_empty());
}

// The layers of a container's root have paths of the host.
#[test]
fn layers_of_another_namespace_are_not_guessed() {
    let text = b"1 0 0:69 / / rw - overlay overlay rw,lowerdir=/var/lib/c/1:/var/lib/c/2,upperdir=/var/lib/c/u,workdir=/w\n\
        2 1 0:70 / /ro ro - overlay o ro,lowerdir=/a:/b\n\
        3 2 0:70 / /ro ro - overlay o ro,lowerdir=/ro/a:/ro/b\n";
    let table = atta_mounts::MountTable::from_bytes(text, &here()).unwrap();
    assert_eq!(table.uri_of(b"/x").unwrap().canonical(), b"overlay://0:69@boot-1/x");
    assert_eq!(table.layers_of(table.mount_of(b"/x").unwrap()), [None, None, None]);
    assert_eq!(
        (table.reach_of(b"/x"), table.reach_of(b"/ro/x")),
        (Some(Reach::Unknown), Some(Reach::Unknown))
    );
}

#[test]
fn loop_devices_lead_to_their_images() {
    let image = |answers: Answers, device: &str, offset: &str| {
        let answers = answers.files(&[
            (&format!("/sys/block/{device}/loop/backing_file"), "/nfs/images/root image.sqsh\n"),
            (&format!("/sys/block/{device}/loop/offset"), offset),
        ]);
        let lines = [
            "0:46 / /nfs rw - nfs4 srv:/e rw,addr=10.0.0.5",
            &format!("7:{} / /m ro - squashfs /dev/{device} ro", &device[4..]),
        ];
        let table = answers.table(&lines);
        (table.uri_of(b"/m/f").unwrap(), table.reach_of(b"/m/f").unwrap())
    };
    let ((one, reach), (other, _)) = (image(here(), "loop3", "0\n"), image(here(), "loop12", "0\n"));
    assert_eq!(one.canonical(), b"squashfs://[nfs://10.0.0.5/e/images/root%20image.sqsh]@boot-1/f");
    assert_eq!((one.relation(&other), one.hash() == other.hash(), reach), (Same, true, Reach::Remote));
    assert_eq!(one.relation(&image(here(), "loop1", "1048576\n").0), Different, "another part of the image");
    // There a later mount may have covered the image.
    let far = image(there(), "loop3", "0\n").0;
    assert_eq!((relation_of(&one, &far), one.relation(&far)), ((Unknown, false), Unknown));
    assert_eq!(one.to_string(), "squashfs://[nfs://srv/e/images/root%20image.sqsh]/f");
}

#[test]
fn images_that_are_gone_are_not_guessed() {
    for backing in ["/nfs/a (deleted)", "relative", ""] {
        let answers = here().files(&[("/sys/block/loop3/loop/backing_file", backing)]);
        let uri = answers.uri("7:3 / /m ro - squashfs /dev/loop3 ro", "/m/f");
        assert_eq!(uri.canonical(), b"squashfs://7:3@boot-1/f", "{backing}");
    }
    // It may be an image on a server.
    let gone = |answers: Answers| answers.uri("7:3 / /m ro - squashfs /dev/loop3 ro", "/m/f");
    assert_eq!(
        (gone(here()).relation(&gone(there())), gone(here()).identity().reach),
        (Unknown, Reach::Unknown)
    );
    assert_eq!(gone(here()).relation(&gone(here())), Same);
    // An image that lies on itself, as seen from here.
    let answers = here().files(&[("/sys/block/loop3/loop/backing_file", "/m/image")]);
    let uri = answers.uri("7:3 / /m ro - squashfs /dev/loop3 ro", "/m/f");
    assert_eq!(uri.canonical(), b"squashfs://7:3@boot-1/f");
}

/// Overlays of one layer each, of which the first lies on NFS and each other one on the one before.
fn stacked_overlays(count: u64) -> Vec<String> {
    let overlay = |at: u64| format!("0:{} / /o{at} ro - overlay o ro,lowerdir=/o{}", 50 + at, at - 1);
    let nfs = "0:50 / /o0 rw - nfs4 srv:/e rw,addr=10.0.0.5".to_owned();
    std::iter::once(nfs).chain((1..=count).map(overlay)).collect()
}

// A name that was deeper than a decoder goes made the query fail on all ranks.
#[test]
fn names_are_no_deeper_than_other_ranks_decode() {
    let mut lines = stacked_overlays(9);
    let names = |lines: &[String]| {
        let table = here().table(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        (0..10).map(|at| table.uri_of(format!("/o{at}/f").as_bytes()).unwrap()).collect::<Vec<_>>()
    };
    let found = names(&lines);
    for (at, uri) in found.iter().enumerate() {
        assert_eq!(Uri::decode_all(&uri.encoded()).as_ref(), Some(uri), "{at}: {uri}");
        assert_eq!(matches!(uri.identity().holder, Holder::Unknown(_)), at > 4, "{at}: {uri}");
    }
    // In another order of lines.
    lines.reverse();
    assert_eq!(names(&lines), found);
}

// Layers of layers: 125,000 names in one.
#[test]
fn names_contain_a_bounded_number_of_others() {
    let list = |below: u64| (0..50).map(|at| format!("/o{below}/{at}")).collect::<Vec<_>>().join(":");
    let overlay = |at: u64| format!("0:{} / /o{at} ro - overlay o ro,lowerdir={}", 50 + at, list(at - 1));
    let lines: Vec<_> = (1..=3).map(overlay).collect();
    let table = here().table(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let names: Vec<_> =
        (1..=3).map(|at| table.uri_of(format!("/o{at}/f").as_bytes()).unwrap().canonical()).collect();
    assert!(names[0].starts_with(b"overlay://[ext4://"));
    let bytes: Vec<_> = names.iter().map(Vec::len).collect();
    assert!(bytes.iter().all(|bytes| *bytes < 64 << 10), "{bytes:?}");
}

// A file system without a server's name that was mounted in the place of another one looks the same.
#[test]
fn sources_that_look_like_nfs_are_not() {
    let uri = here().uri("0:46 / /m rw - tmpfs 10.0.0.1:/export rw", "/m/f");
    assert_eq!(uri.canonical(), b"tmpfs://0:46@boot-1/f");
    // bindfs with a subtype.
    let uri = here().uri("0:46 / /m rw - fuse.nfs4 10.0.0.1:/export rw", "/m/f");
    assert!(!uri.identity().is_proven());
}

// Another path starts where its process does.
#[test]
fn relative_paths_have_no_name() {
    let table = here().table(&["0:46 / /nfs rw - nfs4 srv:/e rw"]);
    for path in [&b""[..], b"nfs/x", b"./nfs", b"../nfs"] {
        assert_eq!((table.uri_of(path), table.mount_of(path), table.reach_of(path)), (None, None, None));
    }
}

#[test]
fn parts_of_images_are_no_directories() {
    let of = |device: &str, offset: &str, path: &str| {
        let answers = here().files(&[
            ("/sys/block/loop3/loop/backing_file", "/images/a \n"),
            ("/sys/block/loop3/loop/offset", offset),
        ]);
        answers.uri(&format!("7:3 / /m ro - ext4 /dev/{device} ro"), path)
    };
    let (whole, partition, moved) =
        (of("loop3", "0\n", "/m/0p1/f"), of("loop3p1", "0\n", "/m/f"), of("loop3p1", "512\n", "/m/f"));
    assert_eq!(
        whole.canonical(),
        b"ext4://[ext4://8:1@boot-1/images/a%20]@boot-1/0p1/f",
        "a space ends the name"
    );
    assert_eq!(partition.canonical(), b"ext4://[ext4://8:1@boot-1/images/a%20]0p1@boot-1/f");
    assert_eq!(moved.canonical(), b"ext4://[ext4://8:1@boot-1/images/a%20]512p1@boot-1/f");
}

#[test]
fn invalid_lines_are_refused() {
    let long = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw,{}", "x".repeat(1 << 22));
    assert!(atta_mounts::MountTable::from_bytes(long.as_bytes(), &here()).is_err());
    let text = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n";
    let error = atta_mounts::MountTable::from_bytes(text, &here()).unwrap_err();
    assert_eq!(error.to_string(), "invalid line of mountinfo: line 2");
}
