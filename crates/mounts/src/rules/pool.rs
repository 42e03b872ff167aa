//! File systems that a set of servers holds, of which a mount names some.

use super::{Found, first_name, port_suffix, servers, setting, split_once, split_port};
use crate::identity::Holder;
use crate::mount::Mount;
use crate::namer::Asker;

/// `NID,NID:NID:/NAME/DIRECTORY`: a comma separates addresses of one management server, a colon servers that can take over from each other
/// (mount.lustre(8)). Their order does not count.
pub(super) fn lustre(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let (nids, path) = split_once(&mount.source, b":/")?;
    let nids: Vec<_> =
        nids_of(nids).into_iter().map(|(host, network)| (host, network_suffix(network))).collect();
    let named: Vec<_> = nids.iter().map(|(host, suffix)| (*host, &suffix[..])).collect();
    let servers = servers(&named, asker)?;
    let (name, directory) = first_name(path);
    (!name.is_empty()).then(|| Found::new(Holder::Servers(servers), name, directory))
}

/// `HOST@NETWORK`s. An IPv6 address has colons of its own, so that a colon ends a NID only after its network.
fn nids_of(list: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut nids = Vec::new();
    for part in list.split(|byte| *byte == b',') {
        let mut rest = part;
        while let Some((host, after)) = split_once(rest, b"@") {
            let (network, more) = split_once(after, b":").unwrap_or((after, b""));
            nids.push((host, network));
            rest = more;
        }
        let hosts = rest.split(|byte| *byte == b':').filter(|host| !host.is_empty());
        nids.extend(hosts.map(|host| (host, &b""[..])));
    }
    nids
}

/// The first network of a kind may be written with or without its number, and `tcp` need not be written at all.
fn network_suffix(network: &[u8]) -> Vec<u8> {
    let digits = network.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (kind, number) = network.split_at(network.len() - digits);
    match (network, number) {
        (b"", _) => b"@tcp".to_vec(),
        // `o2ib` ends in no digit, but its kind has one.
        (_, b"0") => [b"@", kind].concat(),
        _ => [b"@", network].concat(),
    }
}

/// `HOST:/VOLUME/DIRECTORY` or `HOST:VOLUME`. Any server of the pool may be named.
pub(super) fn glusterfs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let source = &mount.source;
    let colon = source.iter().rposition(|byte| *byte == b':')?;
    // A directory may have a colon in its name.
    let colon = split_once(source, b":/").map_or(colon, |(host, _)| host.len());
    let hosts: Vec<_> =
        source[..colon].split(|byte| *byte == b',').map(|host| (split_port(host).0, &b""[..])).collect();
    let servers = servers(&hosts, asker)?;
    let (volume, directory) = first_name(&source[colon + 1..]);
    (!volume.is_empty()).then(|| Found::new(Holder::Servers(servers), volume, directory))
}

/// `mfs#HOST:PORT/DIRECTORY`: the master.
pub(super) fn moosefs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let source = mount.source.strip_prefix(b"mfs#")?;
    let end = source.iter().position(|byte| *byte == b'/').unwrap_or(source.len());
    let (host, port) = split_port(&source[..end]);
    let servers = servers(&[(host, &port_suffix(port, b"9421"))], asker)?;
    Some(Found::new(Holder::Servers(servers), b"", &source[end..]))
}

/// `HOST,HOST/NAME`: some of the cluster's back ends.
pub(super) fn weka(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let (hosts, name) = split_once(&mount.source, b"/")?;
    let hosts: Vec<_> =
        hosts.split(|byte| *byte == b',').map(|host| (split_port(host).0, &b""[..])).collect();
    let servers = servers(&hosts, asker)?;
    let (name, directory) = first_name(name);
    (!name.is_empty()).then(|| Found::new(Holder::Servers(servers), name, directory))
}

/// `tcp://HOST:PORT/NAME`, several separated by commas.
pub(super) fn pvfs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let mut name = &b""[..];
    let mut hosts = Vec::new();
    for address in mount.source.split(|byte| *byte == b',') {
        let (_, rest) = split_once(address, b"://")?;
        let (host, path) = first_name(rest);
        let (host, port) = split_port(host);
        hosts.push((host, port_suffix(port, b"3334")));
        name = first_name(path).0;
    }
    let hosts: Vec<_> = hosts.iter().map(|(host, suffix)| (*host, &suffix[..])).collect();
    let servers = servers(&hosts, asker)?;
    (!name.is_empty()).then(|| Found::new(Holder::Servers(servers), name, b""))
}

/// `panfs://HOST/VOLUME` or `HOST:VOLUME`: a realm has one address for all of its volumes.
pub(super) fn panfs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let source = mount.source.strip_prefix(b"panfs://").unwrap_or(&mount.source);
    let end = source.iter().position(|byte| matches!(byte, b'/' | b':'))?;
    let servers = servers(&[(&source[..end], b"")], asker)?;
    let (volume, directory) = first_name(&source[end + 1..]);
    Some(Found::new(Holder::Servers(servers), volume, directory))
}

/// The management host. The source is `beegfs_nodev` everywhere; the options name the configuration, and `/proc/fs/beegfs` has the
/// settings of each client.
pub(super) fn beegfs(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let (host, port) = match mount.option("sysMgmtdHost") {
        Some(host) => (host.into_owned(), mount.option("connMgmtdPortTCP").map(std::borrow::Cow::into_owned)),
        None => beegfs_settings(&mount.option("cfgFile")?, asker)?,
    };
    let servers = servers(&[(&host, &port_suffix(port.as_deref(), b"8008"))], asker)?;
    Some(Found::new(Holder::Servers(servers), b"", b""))
}

/// Management host and port, as a client in `/proc` has them for this configuration; else those of the configuration.
fn beegfs_settings(configuration: &[u8], asker: &Asker<'_>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let read = |text: &[u8]| {
        let port = setting(text, b"connMgmtdPortTCP").or_else(|| setting(text, b"connMgmtdPort"));
        Some((setting(text, b"sysMgmtdHost")?.to_vec(), port.map(<[u8]>::to_vec)))
    };
    let mut clients = asker.probes.names(b"/proc/fs/beegfs");
    clients.sort();
    let client =
        |client: Vec<u8>| asker.probes.file(&[b"/proc/fs/beegfs/", &client[..], b"/config"].concat());
    let mut clients = clients.into_iter().filter_map(client);
    let running = clients.find(|text| setting(text, b"cfgFile") == Some(configuration));
    running.and_then(|text| read(&text)).or_else(|| read(&asker.probes.file(configuration)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nids_are_separated_by_commas_and_colons() {
        let text = |list: &[u8]| {
            let nids = nids_of(list);
            let texts = nids.iter().map(|(host, network)| [*host, &network_suffix(network)].concat());
            texts.map(|nid| String::from_utf8(nid).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            text(b"10.0.0.1@tcp,10.1.0.1@o2ib0:10.0.0.2@tcp0"),
            ["10.0.0.1@tcp", "10.1.0.1@o2ib", "10.0.0.2@tcp"]
        );
        assert_eq!(text(b"fe80::1@tcp:fe80::2@tcp10"), ["fe80::1@tcp", "fe80::2@tcp10"]);
        assert_eq!(
            text(b"mgs1:mgs2,mgs3@o2ib1"),
            ["mgs1:mgs2@tcp"]
                .map(|_| "mgs1@tcp")
                .into_iter()
                .chain(["mgs2@tcp", "mgs3@o2ib1"])
                .collect::<Vec<_>>()
        );
        assert_eq!(text(b"1@gni"), ["1@gni"]);
        assert!(text(b"").is_empty() && text(b",:").is_empty());
    }
}
