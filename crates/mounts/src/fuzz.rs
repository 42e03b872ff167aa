//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_entry::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::{Aliases, Device, DeviceOn, Holder, Host, MountTable, Server, Servers, Silent, Uri};

/// The lines of a table, written again without shared subtrees. Each name that it makes must be equal to itself.
fn again(text: &[u8]) -> Option<Vec<u8>> {
    let table = MountTable::from_bytes(text, &Silent::on(Host::new(b"boot", b"node"))).ok()?;
    let mut out = Vec::new();
    for (mount, root) in table.iter() {
        if let Some(found) = table.uri_of(&mount.point) {
            let again = table.uri_of(&[&mount.point[..], b"/./"].concat());
            assert_eq!(Some(found.hash()), again.map(|again| again.hash()));
        }
        assert!(!root.canonical().is_empty() && root.relation(root) == crate::Relation::Same);
        let (id, parent, device) = (mount.id, mount.parent, mount.device);
        out.extend(format!("{id} {parent} {}:{} ", device.major, device.minor).into_bytes());
        for field in [&mount.root[..], &mount.point] {
            out.extend([&escaped(field)[..], b" "].concat());
        }
        out.extend([mount.options(), b" - "].concat());
        for field in [&mount.kind, &mount.source] {
            out.extend([&escaped(field)[..], b" "].concat());
        }
        out.extend([mount.super_options(), b"\n"].concat());
    }
    Some(out)
}

fn escaped(field: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'#' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    field.iter().flat_map(escape).collect()
}

/// The names of all mounts of a table.
fn uris(text: &[u8]) -> Vec<Uri> {
    let table = MountTable::from_bytes(text, &Silent::on(Host::new(b"boot", b"node"))).unwrap();
    table.iter().map(|(_, root)| root.clone()).collect()
}

/// The decoders of names that other ranks send.
fn sent(table: &[u8]) -> Vec<Target> {
    let uris = uris(table);
    let of_servers = |uri: &Uri| match &uri.identity().holder {
        Holder::Servers(servers) => Some(servers.clone()),
        _ => None,
    };
    let host = Host::new(b"boot", b"node");
    let servers: Vec<Servers> = uris.iter().filter_map(of_servers).collect();
    let on = DeviceOn { host: std::sync::Arc::new(host.clone()), device: Device { major: 8, minor: 300 } };
    let server = |name: &[u8]| Server::new(name, b":1", &host);
    let servers = servers.iter().map(Code::encoded).collect();
    let mut aliases = Aliases::default();
    uris.iter().for_each(|uri| aliases.add(uri.identity()));
    let again = |bytes: &[u8]| Servers::decode_all(bytes).map(|value| value.encoded());
    let uris = uris.iter().map(Code::encoded).collect();
    let uri_again = |bytes: &[u8]| Uri::decode_all(bytes).map(|value| value.encoded());
    let four = [server(b"a"), server(b"10.0.0.1"), server(b"fe80::1"), server(b"localhost")];
    let four = four.iter().map(Code::encoded).collect();
    let server_again = |bytes: &[u8]| Server::decode_all(bytes).map(|value| value.encoded());
    vec![
        fuzz_code!("wire.rs: Aliases", Aliases, [aliases]).holding(80),
        fuzz_code!("wire.rs: Host", Host, [host]),
        fuzz_code!("wire.rs: Device", Device, [on.device]),
        fuzz_code!("wire.rs: DeviceOn", DeviceOn, [on]).holding(64),
        Target::new("wire.rs: Server", four, server_again),
        // The enum behind it.
        Target::new("wire.rs: Sent", vec![server(b"a").encoded()], server_again),
        Target::new("wire.rs: Servers", servers, again).holding(80),
        Target::new("wire.rs: Uri", uris, uri_again).holding(80),
    ]
}

fn targets() -> Vec<Target> {
    let table = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        36 21 0:40 / /home rw - nfs4 server:/export/home rw,addr=192.0.2.7\n\
        37 36 0:41 / /l\\040u rw - lustre 10.0.0.1@tcp:10.0.0.2@o2ib:/fs1/a rw\n\
        38 21 0:42 / /o ro - overlay overlay ro,lowerdir=/home/a:/l\n\
        39 21 0:43 /a /m rw - fuse mfs\\043master:9421/a rw,user_id=0\n\
        40 39 0:44 / /m rw - fuse.sshfs me@host: rw\n";
    let options = b"rw,sysMgmtdHost=h,pool=p,cont=c,nodename=a:b,trans=tcp,path=/x,dev=c:f,fs=n\n";
    let kinds = [
        "cifs",
        "beegfs",
        "ceph",
        "fuse.glusterfs",
        "fuse.daos",
        "gpfs",
        "pvfs2",
        "panfs",
        "dvs",
        "9p",
        "wekafs",
    ];
    let line = |(kind, id): (&str, u64)| {
        [format!("{id} 1 0:{id} / /{id} rw - {kind} //h:1/v:/w=x@y.z ").as_bytes(), options].concat()
    };
    let others: Vec<u8> = kinds.into_iter().zip(50..).flat_map(line).collect();
    // What stands beside each line: owned fields, an identity and its entry in the index.
    let mut targets = sent(&[&table[..], &others].concat());
    targets.push(
        Target::new("table.rs: from_bytes", vec![table.to_vec(), others], again)
            .of_several_encodings()
            .holding(400),
    );
    targets
}

atta_testkit::fuzz_tests!(targets);
