//! What identifies a mounted file system, by the rule of its type: one function for each rule. They read the source and options of the
//! mount, and ask for what these do not say. Stacks of file systems are the subject of `namer.rs`.

mod cluster;
mod export;
mod layers;
mod pool;

use std::net::IpAddr;

use atta_sys::file_systems::UriRule;

use crate::identity::Holder;
use crate::mount::Mount;
use crate::namer::Asker;
use crate::server::{Server, Servers, is_one_server};
use crate::uri::as_suffix;

pub(crate) use layers::lower_layers;

/// What a rule finds.
pub(crate) struct Found {
    pub(crate) holder: Holder,
    /// Export, share, volume or name, without slashes at its ends.
    pub(crate) volume: Vec<u8>,
    /// Where the mounted directory is in the volume; empty, or with a slash at its begin.
    pub(crate) prefix: Vec<u8>,
}

impl Found {
    /// `path`: of the mounted directory in the volume.
    fn new(holder: Holder, volume: &[u8], path: &[u8]) -> Self {
        Self { holder, volume: volume.to_vec(), prefix: as_suffix(path) }
    }
}

/// What the rule of a mount finds. None: neither the mount nor the system knows what it is.
pub(crate) fn found(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    match mount.rule() {
        UriRule::Export => export::nfs(mount, asker),
        UriRule::Share => export::smb(mount, asker),
        UriRule::Dvs => export::dvs(mount, asker),
        UriRule::NineP => export::nine_p(mount, asker),
        UriRule::Lustre => pool::lustre(mount, asker),
        UriRule::Volume => pool::glusterfs(mount, asker),
        UriRule::MooseFs => pool::moosefs(mount, asker),
        UriRule::Weka => pool::weka(mount, asker),
        UriRule::Pvfs => pool::pvfs(mount, asker),
        UriRule::PanFs => pool::panfs(mount, asker),
        UriRule::BeeGfs => pool::beegfs(mount, asker),
        UriRule::Ceph => cluster::ceph(mount, asker),
        UriRule::ClusterName => cluster::gpfs(mount, asker),
        UriRule::Daos => cluster::daos(mount, asker),
        UriRule::Afs => Some(cluster::afs(mount)),
        UriRule::Bucket => cluster::bucket(mount),
        UriRule::Repository => cluster::repository(mount, asker),
        UriRule::SharedDisk => cluster::shared_disk(mount, asker),
        // The source has neither the port, nor the aliases of `~/.ssh/config`, nor the root directory that the server gives to a user.
        UriRule::Ssh => None,
        UriRule::Device | UriRule::Layers | UriRule::Unknown => None,
    }
}

/// Hosts that a mount lists, each with a port or network that is not the usual one. Each of them, at each of its addresses, leads to the
/// same volume.
fn servers(named: &[(&[u8], &[u8])], asker: &mut Asker<'_>) -> Option<Servers> {
    let named = named.iter().filter(|(name, _)| !name.is_empty());
    Servers::new(named.map(|(name, suffix)| host(name, suffix, &[], asker)).collect())
}

/// The only host of a mount. `known`: its address, if the mount has it; otherwise its name is asked for. None: the name has several
/// addresses, so that it may be several servers, and it is not known which one this mount uses.
fn server(name: &[u8], suffix: &[u8], known: &[IpAddr], asker: &mut Asker<'_>) -> Option<Servers> {
    let servers = Servers::new(vec![host(name, suffix, known, asker)]).filter(|_| !name.is_empty())?;
    is_one_server(servers.known()).then_some(servers)
}

/// A name or address, and its addresses.
fn host(name: &[u8], suffix: &[u8], known: &[IpAddr], asker: &mut Asker<'_>) -> Vec<Server> {
    let named = Server::new(name, suffix, &asker.host);
    let found = match named {
        _ if !known.is_empty() => known,
        Server::Name(..) => asker.addresses(name),
        _ => &[],
    };
    let found = found.to_vec();
    let addresses = found.into_iter().map(|address| Server::at(address, suffix, &asker.host));
    std::iter::once(named.clone()).chain(addresses).collect()
}

/// The addresses in an option of a mount, such as `addr=`.
fn address_option(mount: &Mount, name: &str) -> Vec<IpAddr> {
    let address = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
    mount.option(name).and_then(|value| address(&value)).into_iter().collect()
}

/// A port as the end of a server's name, unless it is the usual one.
fn port_suffix(port: Option<&[u8]>, usual: &[u8]) -> Vec<u8> {
    match port {
        Some(port) if !port.is_empty() && port != usual && port != b"0" => [b":", port].concat(),
        _ => Vec::new(),
    }
}

/// `HOST:PORT`, `[HOST]:PORT` or only the host. An address with several colons has no port.
fn split_port(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(colon) = text.iter().rposition(|byte| *byte == b':') else { return (text, None) };
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    let is_whole = host.ends_with(b"]") || !host.contains(&b':');
    if is_whole && port.iter().all(u8::is_ascii_digit) { (host, Some(port)) } else { (text, None) }
}

/// What stands before and after the first of these bytes in a row.
fn split_once<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..start], &text[start + at.len()..]))
}

/// The first name of a path, and the rest.
fn first_name(path: &[u8]) -> (&[u8], &[u8]) {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.split_at(path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()))
}

/// The last name of a path.
pub(crate) fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The value of a line `KEY = VALUE` or `KEY VALUE` of a configuration.
fn setting<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let value = |line: &'a [u8]| {
        let rest = line.trim_ascii().strip_prefix(key)?;
        let value = rest.trim_ascii_start();
        let value = value.strip_prefix(b"=").unwrap_or(value);
        let is_whole = rest.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'=');
        let value = value.trim_ascii();
        (is_whole && !value.is_empty()).then_some(value)
    };
    text.split(|byte| *byte == b'\n').find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_told_from_addresses() {
        assert_eq!(split_port(b"host:12"), (&b"host"[..], Some(&b"12"[..])));
        assert_eq!(split_port(b"[::1]:12"), (&b"[::1]"[..], Some(&b"12"[..])));
        for whole in [&b"fe80::12"[..], b"host", b"[::1]", b"host:tcp"] {
            assert_eq!(split_port(whole), (whole, None));
        }
    }

    #[test]
    fn settings_are_found_by_whole_keys() {
        let text = b"# sysMgmtdHost = none\nsysMgmtdHostX = x\n sysMgmtdHost   = mgmt1 \nclusterName c.example\nempty =\n";
        assert_eq!(setting(text, b"sysMgmtdHost"), Some(&b"mgmt1"[..]));
        assert_eq!(setting(text, b"clusterName"), Some(&b"c.example"[..]));
        assert_eq!((setting(text, b"empty"), setting(text, b"none")), (None, None));
    }
}
