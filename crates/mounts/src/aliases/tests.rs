//! What hosts know of servers, put together.

use super::*;
use crate::{Host, Relation, Silent};

/// The name of the top of a mount.
fn uri(mounted: &str) -> Uri {
    on(b"boot", mounted)
}

fn on(boot: &[u8], mounted: &str) -> Uri {
    let line = format!("1 0 0:4 / / rw - {mounted}");
    let table = MountTable::from_bytes(line.as_bytes(), &Silent::on(Host::new(boot, b"node"))).unwrap();
    table.uri_of(b"/").unwrap()
}

fn text(aliases: &Aliases, uri: &Uri) -> String {
    match &aliases.completed(uri).identity().holder {
        Holder::Servers(servers) => String::from_utf8(servers.known()[0].text()).unwrap(),
        Holder::Unknown(_) => "unknown".to_owned(),
        holder => panic!("{holder:?}"),
    }
}

fn of(uris: &[&Uri]) -> Aliases {
    let mut aliases = Aliases::default();
    uris.iter().for_each(|uri| aliases.add(uri.identity()));
    aliases
}

#[test]
fn classes_do_not_depend_on_the_order() {
    let known = [
        uri("nfs a:/e rw,addr=10.0.0.2"),
        uri("nfs b:/f rw,addr=10.0.0.2"),
        uri("nfs 10.0.0.2:/g rw"),
        uri("nfs c:/e rw"),
    ];
    let other = uri("cifs //b/e rw,addr=10.0.0.2");
    for order in [[0, 1, 2, 3], [2, 1, 0, 3], [1, 3, 0, 2]] {
        let aliases = of(&order.map(|at| &known[at]));
        for same in known[..3].iter().chain([&other]) {
            assert_eq!(text(&aliases, same), "10.0.0.2");
        }
        assert_eq!(text(&aliases, &known[3]), "c");
    }
}

// A client of a pool names some of its servers. These are no less two servers for NFS, and for another volume.
#[test]
fn servers_of_a_pool_are_one_for_its_volume_only() {
    for pool in [
        "wekafs a,b/fs rw",
        "dvs /lus rw,path=/lus,nodename=a:b",
        "ceph a,b:/ rw",
        "fuse.glusterfs a,b:/v1 rw",
        "lustre a:b:/fs rw",
        "pvfs2 tcp://a:3334/fs,tcp://b:3334/fs rw",
    ] {
        let aliases = of(&[&uri(pool)]);
        let (one, other) = (uri("nfs4 a:/e rw"), uri("nfs4 b:/e rw"));
        assert_ne!(text(&aliases, &one), text(&aliases, &other), "{pool}");
    }
    let aliases = of(&[&uri("wekafs a,b/fs rw"), &uri("dvs /lus rw,path=/lus,nodename=a:b")]);
    assert_eq!(text(&aliases, &uri("wekafs b/fs rw")), "a");
    // Each node has a directory of its own, which it also exports.
    assert_eq!(text(&aliases, &uri("dvs /var rw,path=/var,nodename=b")), "b");
}

// Round robin: two hosts got other addresses for one name. Who has only the name may be on another server than others.
#[test]
fn a_name_with_several_addresses_is_no_server() {
    let known = [uri("nfs filers:/e rw,addr=10.0.0.1"), uri("nfs filers:/e rw,addr=10.0.0.2")];
    let aliases = of(&[&known[0], &known[1]]);
    assert_eq!(
        (text(&aliases, &known[0]), text(&aliases, &known[1])),
        ("10.0.0.1".into(), "10.0.0.2".into())
    );
    for name in ["nfs filers:/f rw", "9p filers rw,trans=tcp", r"fuse mfs\043filers:9421 rw"] {
        let one = aliases.completed(&on(b"boot-1", name));
        let other = aliases.completed(&on(b"boot-2", name));
        assert_eq!((one.relation(&other), one.hash() == other.hash()), (Relation::Unknown, false));
        let again = aliases.completed(&on(b"boot-1", name));
        assert_eq!((one.relation(&again), one.hash() == again.hash()), (Relation::Same, true));
    }
    // Another name of the mount is one server.
    assert_eq!(text(&aliases, &uri("wekafs filers,a/fs rw")), "a");
    assert_eq!(text(&of(&[&known[0]]), &uri("nfs filers:/f rw")), "10.0.0.1");
}

// Debian gives a host's own name a loopback address, and each end of a tunnel has one.
#[test]
fn names_with_an_address_of_one_host_are_no_server() {
    let own = on(b"boot-1", "nfs srv:/e rw,addr=127.0.1.1");
    let aliases = of(&[&own]);
    assert_eq!(text(&aliases, &own), "127.0.1.1.@boot-1");
    assert_eq!(text(&aliases, &on(b"boot-2", "nfs srv:/e rw")), "unknown");
    assert_eq!(text(&aliases, &on(b"boot-2", "nfs srv:/e rw,addr=10.0.0.1")), "10.0.0.1");
    // A pool with other servers is known by these.
    for boot in [b"boot-1", b"boot-2"] {
        assert_eq!(text(&aliases, &on(boot, "fuse.glusterfs localhost,g1:v rw")), "g1");
        let alone = format!("localhost.@{}", String::from_utf8_lossy(boot));
        assert_eq!(text(&aliases, &on(boot, "fuse.glusterfs localhost:v rw")), alone);
    }
    // Addresses of one host are not sent.
    assert_eq!(of(&[&uri("nfs localhost:/e rw,addr=127.0.0.1")]), Aliases::default());
    assert_eq!(of(&[&uri("nfs [fe80::1%eth0]:/e rw,addr=fe80::1%eth0")]), Aliases::default());
}

#[test]
fn facts_do_not_depend_on_the_order_of_ranks() {
    let known = [uri("nfs a:/e rw,addr=10.0.0.2"), uri("nfs b:/e rw"), uri("nfs b:/g rw,addr=10.0.0.2")];
    let all = [[0, 1, 2], [2, 1, 0], [1, 0, 2]].map(|order| {
        let mut all = Aliases::default();
        order.into_iter().for_each(|at: usize| all.merge(of(&[&known[at]])));
        all
    });
    assert!(all.iter().all(|aliases| *aliases == all[0]));
    let by = |at: usize| all[0].completed(&known[at]);
    assert_eq!((by(0).hash(), by(0).relation(&by(1))), (by(1).hash(), Relation::Same));
    let other = all[0].completed(&uri("nfs c:/e rw,addr=10.0.0.9"));
    assert_ne!(by(0).hash(), other.hash());
}

// Each of the hosts of a DVS mount leads to the same file systems. That does not make them one NFS server.
#[test]
fn hosts_of_a_pool_are_not_one_nfs_server() {
    let nfs = [1, 2].map(|at| uri(&format!("nfs 10.0.0.{at}:/e rw,addr=10.0.0.{at}")));
    let aliases = of(&[&uri("dvs /x rw,path=/x,nodename=10.0.0.1:10.0.0.2"), &nfs[0], &nfs[1]]);
    let [one, other] = nfs.map(|uri| aliases.completed(&uri).hash());
    assert_ne!(one, other);
}

// A resolver that answers on one rank alone: the mount says that all addresses lead to the volume.
#[test]
fn pools_may_have_a_name_with_several_addresses() {
    let hosts = vec![vec![
        Server::new(b"10.0.0.1", b"", &Host::new(b"boot", b"node")),
        Server::new(b"10.0.0.2", b"", &Host::new(b"boot", b"node")),
        Server::new(b"pool", b"", &Host::new(b"boot", b"node")),
    ]];
    let scope = Some((b"weka".to_vec(), b"fs".to_vec()));
    let aliases = Aliases::from_parts(vec![(scope, hosts)], Vec::new()).unwrap();
    assert_eq!(text(&aliases, &uri("wekafs pool/fs rw")), "10.0.0.1");
    assert_eq!(text(&aliases, &uri("wekafs pool/other rw")), "unknown");
    assert_eq!(text(&aliases, &uri("nfs pool:/fs rw")), "unknown");
}
