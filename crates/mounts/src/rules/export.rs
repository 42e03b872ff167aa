//! Directories that a server exports: NFS, SMB, sshfs, DVS, 9p.

use super::{Found, address_option, first_name, port_suffix, server, servers, split_once, split_port};
use crate::identity::Holder;
use crate::mount::Mount;
use crate::namer::Asker;
use crate::path::below;
use crate::uri::as_suffix;

/// `HOST:/EXPORT`. The kernel shows the mounted directory in the source, also for a directory that was bound, and `/` as the root
/// (`nfs_show_devname`, `nfs_show_path`). It resolves the name itself and shows the address.
pub(super) fn nfs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let (host, export) = split_host(&mount.source)?;
    let suffix = port_suffix(mount.option("port").as_deref(), b"2049");
    let server = server(host, &suffix, &address_option(mount, "addr"), asker)?;
    // Exports may lie in each other, so that where one ends says nothing about a file.
    Some(Found::new(Holder::Servers(server), trimmed(&as_suffix(export)), b""))
}

/// `//HOST/SHARE/DIRECTORY`, from Windows also with backslashes. Names of servers and shares have no case (MS-SMB2).
pub(super) fn smb(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let source: Vec<u8> = mount.source.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect();
    let (host, rest) = first_name(source.strip_prefix(b"//")?);
    let (share, directory) = first_name(rest);
    // The source is that of the first mount of the superblock. The root counts from the top of the share, except where the client may not
    // read the directories above: then it counts from the directory in the source, which is not shown (`cifs_show_devname`,
    // `CIFS_MOUNT_USE_PREFIX_PATH`). So both must agree.
    let directory = as_suffix(directory);
    below(&mount.root, &directory)?;
    let suffix = port_suffix(mount.option("port").as_deref(), b"445");
    let server = server(host, &suffix, &address_option(mount, "addr"), asker)?;
    Some(Found::new(Holder::Servers(server), &share.to_ascii_lowercase(), b""))
}

/// A path on the servers that forward the operations: `nodename=HOST:HOST`. What is below that path there is not visible here.
pub(super) fn dvs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let listed = match mount.option("nodename") {
        Some(names) => names.into_owned(),
        None => asker.probes.file(&mount.option("nodefile")?)?,
    };
    let names = listed.split(|byte| *byte == b':' || byte.is_ascii_whitespace());
    let names: Vec<_> = names.map(|name| (name, &b""[..])).collect();
    // Each host may have its own subset of servers.
    let servers = servers(&names, asker)?;
    let path = mount.option("path").map_or_else(|| mount.source.clone(), std::borrow::Cow::into_owned);
    Some(Found::new(Holder::Servers(servers), trimmed(&as_suffix(&path)), b""))
}

/// A server over the network. With virtio and the like the source is a tag of the hypervisor.
pub(super) fn nine_p(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let transport = mount.option("trans")?;
    if !matches!(&transport[..], b"tcp" | b"rdma") {
        return None;
    }
    let suffix = port_suffix(mount.option("port").as_deref(), b"564");
    let server = server(&mount.source, &suffix, &[], asker)?;
    let name = mount.option("aname").unwrap_or_default();
    Some(Found::new(Holder::Servers(server), trimmed(&as_suffix(&name)), b""))
}

/// `HOST:/PATH`, where the host may be an IPv6 address, with or without brackets.
fn split_host(source: &[u8]) -> Option<(&[u8], &[u8])> {
    let (host, _) = split_once(source, b":/")?;
    Some((split_port(host).0, &source[host.len() + 1..]))
}

/// Without the slash at the begin.
fn trimmed(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/").unwrap_or(path)
}
