//! Servers as mounts name them: names, addresses, and sets of both that are one server. It asks no resolver.
//!
//! A name or address says the same on all hosts, except those of loopback and link-local ones.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use crate::identity::Relation;
use crate::probes::Host;

/// One name or address of a server. Addresses sort before names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Server {
    /// An address, and a port or network that is not the usual one (`:2050`, `@o2ib`).
    Address(IpAddr, Vec<u8>),
    /// An address of loopback, which is another server in each network namespace and often the near end of a tunnel, or a link-local one,
    /// which is another server on each link: with its zone and the namespace.
    ThisHost(Vec<u8>, Vec<u8>),
    /// A name in lower case, and a port or network.
    Name(Vec<u8>, Vec<u8>),
}

impl Server {
    /// Reads a name or address, in brackets or not. An IPv4 address in an IPv6 one is that address. A zone (`%eth0`) counts only for a
    /// link-local address.
    #[must_use]
    pub fn new(host: &[u8], suffix: &[u8], here: &Host) -> Self {
        let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
        let end = bare.iter().position(|byte| *byte == b'%').unwrap_or(bare.len());
        let address = std::str::from_utf8(&bare[..end]).ok().and_then(|text| text.parse::<IpAddr>().ok());
        let name = || bare.strip_suffix(b".").unwrap_or(bare).to_ascii_lowercase();
        match address {
            Some(address) => Self::in_zone(address, &bare[end..], suffix, here),
            None if is_loopback_name(&name()) => Self::this_host(b"localhost", suffix, here),
            None => Self::Name(name(), suffix.to_vec()),
        }
    }

    /// A server by its address.
    #[must_use]
    pub fn at(address: IpAddr, suffix: &[u8], here: &Host) -> Self {
        Self::in_zone(address, b"", suffix, here)
    }

    fn in_zone(address: IpAddr, zone: &[u8], suffix: &[u8], here: &Host) -> Self {
        let address = address.to_canonical();
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        match address {
            _ if address.is_loopback() => Self::this_host(address.to_string().as_bytes(), suffix, here),
            _ if is_link_local => {
                Self::this_host(&[address.to_string().as_bytes(), zone].concat(), suffix, here)
            }
            address => Self::Address(address, suffix.to_vec()),
        }
    }

    fn this_host(address: &[u8], suffix: &[u8], here: &Host) -> Self {
        Self::ThisHost([address, b".", &here.network, b"@", &here.boot_id].concat(), suffix.to_vec())
    }

    /// Whether it is a name, not an address.
    pub(crate) const fn is_name(&self) -> bool {
        matches!(self, Self::Name(..))
    }

    /// Whether it is an address that means something on one host only.
    #[must_use]
    pub const fn is_of_one_host(&self) -> bool {
        matches!(self, Self::ThisHost(..))
    }

    /// How it stands in a canonical URI.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Address(IpAddr::V6(address), suffix) => [bracketed(*address).as_bytes(), suffix].concat(),
            Self::Address(address, suffix) => [address.to_string().as_bytes(), suffix].concat(),
            Self::Name(name, suffix) => [&name[..], suffix].concat(),
            Self::ThisHost(place, suffix) => [&place[..], suffix].concat(),
        }
    }

    /// How it is shown.
    fn shown(&self) -> Vec<u8> {
        match self {
            Self::ThisHost(place, suffix) => [address_and_network(place).0, suffix].concat(),
            other => other.text(),
        }
    }
}

/// The address of a server that only one network of one host reaches, and that network.
fn address_and_network(place: &[u8]) -> (&[u8], &[u8]) {
    let end = place.iter().rposition(|byte| *byte == b'@').unwrap_or(place.len());
    let end = place[..end].iter().rposition(|byte| *byte == b'.').unwrap_or(end);
    place.split_at(end)
}

fn bracketed(address: Ipv6Addr) -> String {
    format!("[{address}]")
}

/// RFC 6761: `localhost` and what is below it; the others are in the `hosts` files of distributions.
fn is_loopback_name(name: &[u8]) -> bool {
    name == b"localhost"
        || name.ends_with(b".localhost")
        || name == b"localhost.localdomain"
        || name == b"ip6-localhost"
}

/// Whether a host with these names and addresses is one server: it has at most one address of each family, or is on one host itself. A name with
/// more of them may be one server with several interfaces, or several servers of which each client gets another one (round robin).
pub(crate) fn is_one_server<'a>(host: impl IntoIterator<Item = &'a Server>) -> bool {
    let (mut four, mut six, mut networks) = (0, 0, BTreeSet::new());
    for server in host {
        match server {
            Server::Address(IpAddr::V4(_), _) => four += 1,
            Server::Address(IpAddr::V6(_), _) => six += 1,
            Server::ThisHost(place, _) => drop(networks.insert(address_and_network(place).1)),
            Server::Name(..) => {}
        }
    }
    matches!((four, six, networks.len()), (0 | 1, 0 | 1, 0) | (0, 0, 1))
}

/// At least one, sorted, each once.
pub(crate) fn is_set(servers: &[Server]) -> bool {
    !servers.is_empty() && servers.is_sorted_by(|one, other| one < other)
}

/// Names and addresses of one server, or of servers of which each leads to the same volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// Each host that the mount names, with its addresses, sorted, each once.
    hosts: Vec<Vec<Server>>,
    /// What identifies them, sorted, each once: all of them, and what other hosts know of them.
    known: Vec<Server>,
    /// The first one that the mount names.
    shown: Vec<u8>,
}

impl Servers {
    /// The hosts that a mount names, in its order, each followed by its addresses. None: it names none.
    pub(crate) fn new(mut hosts: Vec<Vec<Server>>) -> Option<Self> {
        let shown = hosts.first()?.first()?.shown();
        let mut known = hosts.concat();
        for servers in hosts.iter_mut().chain([&mut known]) {
            servers.sort();
            servers.dedup();
        }
        Some(Self { hosts, known, shown })
    }

    /// The same hosts, identified by these names and addresses. None: there are none.
    pub(crate) fn known_by(&self, mut known: Vec<Server>) -> Option<Self> {
        known.sort();
        known.dedup();
        (!known.is_empty()).then(|| Self { known, ..self.clone() })
    }

    /// Hosts, all names and addresses, and the one for people.
    pub(crate) fn parts(&self) -> (&Vec<Vec<Server>>, &Vec<Server>, &Vec<u8>) {
        (&self.hosts, &self.known, &self.shown)
    }

    /// Of what another rank sent. None: it names no server, or not in order.
    pub(crate) fn from_parts(hosts: Vec<Vec<Server>>, known: Vec<Server>, shown: Vec<u8>) -> Option<Self> {
        let is_valid = !hosts.is_empty() && hosts.iter().all(|host| is_set(host)) && is_set(&known);
        is_valid.then_some(Self { hosts, known, shown })
    }

    /// Each host that the mount names, with its addresses.
    #[must_use]
    pub fn hosts(&self) -> &[Vec<Server>] {
        &self.hosts
    }

    /// All names and addresses that identify them: at least one, sorted, addresses first.
    #[must_use]
    pub fn known(&self) -> &[Server] {
        &self.known
    }

    /// The one that the mount names, for people.
    #[must_use]
    pub fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// Whether both are one server. Never different: a server may have more addresses than are known of it. A common name proves nothing
    /// if both have addresses and none is common: the name may be several servers, or another one on each host.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        let is_common = |server| other.known.binary_search(server).is_ok();
        let (addresses, names) = self.known.split_at(self.addresses());
        let is_same = addresses.iter().any(is_common)
            || (self.addresses().min(other.addresses()) == 0 && names.iter().any(is_common));
        if is_same { Relation::Same } else { Relation::Unknown }
    }

    /// How many of the known ones are addresses.
    fn addresses(&self) -> usize {
        self.known.partition_point(|server| !server.is_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Host {
        Host { network: b"7".to_vec(), ..Host::new(b"boot", b"node") }
    }

    fn text(host: &[u8]) -> String {
        String::from_utf8(Server::new(host, b"", &here()).text()).unwrap()
    }

    /// One host by all of these.
    fn server(names: &[&str]) -> Servers {
        let known = names.iter().map(|name| Server::new(name.as_bytes(), b"", &here())).collect();
        Servers::new(vec![known]).unwrap()
    }

    #[test]
    fn one_server_has_one_spelling() {
        assert_eq!(text(b"Server.Example.ORG."), "server.example.org");
        assert_eq!(text(b"010.0.0.1"), "010.0.0.1", "no address: octal is ambiguous");
        for same in [&b"[FD00::1]"[..], b"fd00::1", b"[fd00:0:0::1%eth0]", b"fd00::0001"] {
            assert_eq!(text(same), "[fd00::1]");
        }
        assert_eq!(
            (text(b"::ffff:10.0.0.1"), text(b"10.0.0.1")),
            ("10.0.0.1".to_owned(), "10.0.0.1".to_owned())
        );
        for same in [&b"localhost"[..], b"LOCALHOST.", b"a.localhost"] {
            assert_eq!(text(same), "localhost.7@boot");
        }
    }

    // Each loopback address has its own listeners, and each link its own machine with a link-local address.
    #[test]
    fn loopback_and_link_local_addresses_are_apart() {
        assert_eq!(
            (text(b"127.0.0.1"), text(b"127.0.0.2")),
            ("127.0.0.1.7@boot".into(), "127.0.0.2.7@boot".into())
        );
        assert_eq!(text(b"[::1]"), "::1.7@boot");
        assert_eq!(
            (text(b"fe80::1%eth0"), text(b"[FE80::1%eth1]")),
            ("fe80::1%eth0.7@boot".into(), "fe80::1%eth1.7@boot".into())
        );
        for (one, other) in
            [("127.0.0.1", "127.0.0.2"), ("fe80::1%eth0", "fe80::1%eth1"), ("localhost", "::1")]
        {
            assert_eq!(server(&[one]).relation(&server(&[other])), Relation::Unknown, "{one} {other}");
            assert_eq!(server(&[one]).relation(&server(&[one])), Relation::Same);
        }
        let there = Server::new(b"fe80::1%eth0", b"", &Host::new(b"other", b"node"));
        assert_ne!(there, Server::new(b"fe80::1%eth0", b"", &here()));
        assert_eq!(server(&["fe80::1%eth0"]).shown(), b"fe80::1%eth0");
    }

    #[test]
    fn common_names_make_servers_one() {
        let (both, name, address) =
            (server(&["srv", "10.0.0.5"]), server(&["SRV"]), server(&["10.0.0.5", "10.0.0.6"]));
        assert_eq!((both.relation(&name), both.relation(&address)), (Relation::Same, Relation::Same));
        assert_eq!(name.relation(&address), Relation::Unknown, "no address of the name is known");
        assert_eq!(server(&["localhost"]).relation(&both), Relation::Unknown, "a tunnel");
    }

    // A server has several interfaces, and a name may be several servers.
    #[test]
    fn other_addresses_prove_nothing() {
        let both = server(&["srv", "10.0.0.5"]);
        for other in [server(&["10.0.0.7"]), server(&["other", "10.0.0.7"]), server(&["srv", "10.0.0.7"])] {
            assert_eq!(
                (both.relation(&other), other.relation(&both)),
                (Relation::Unknown, Relation::Unknown)
            );
        }
    }

    #[test]
    fn one_address_of_each_family_is_one_server() {
        for (one, names) in [
            (true, &["srv", "10.0.0.5", "fd00::5"][..]),
            (true, &["srv"]),
            (false, &["srv", "10.0.0.5", "10.0.0.6"]),
            (false, &["srv", "10.0.0.5", "127.0.1.1"]),
        ] {
            assert_eq!(is_one_server(server(names).known()), one, "{names:?}");
        }
    }
}
