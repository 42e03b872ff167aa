//! Servers as mounts name them: names, addresses, and sets of both that are one server. It asks no resolver.
//!
//! A name or address says the same on all hosts, except those of loopback, which are another server in each network namespace.

use std::net::{IpAddr, Ipv6Addr};

use crate::identity::Relation;
use crate::probes::Host;

/// One name or address of a server. Addresses sort before names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Server {
    /// An address, and a port or network that is not the usual one (`:2050`, `@o2ib`).
    Address(IpAddr, Vec<u8>),
    /// A name in lower case, and a port or network.
    Name(Vec<u8>, Vec<u8>),
    /// What listens on the loopback interface of a network namespace: often the near end of a tunnel.
    Loopback(Vec<u8>, Vec<u8>),
}

impl Server {
    /// Reads a name or address, in brackets or not. A zone (`%eth0`) is dropped; an IPv4 address in an IPv6 one is that address.
    #[must_use]
    pub fn new(host: &[u8], suffix: &[u8], here: &Host) -> Self {
        let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
        let end = bare.iter().position(|byte| *byte == b'%').unwrap_or(bare.len());
        let address = std::str::from_utf8(&bare[..end]).ok().and_then(|text| text.parse::<IpAddr>().ok());
        let name = || bare.strip_suffix(b".").unwrap_or(bare).to_ascii_lowercase();
        match address {
            Some(address) => Self::at(address, suffix, here),
            None if is_loopback_name(&name()) => Self::loopback(suffix, here),
            None => Self::Name(name(), suffix.to_vec()),
        }
    }

    /// A server by its address.
    #[must_use]
    pub fn at(address: IpAddr, suffix: &[u8], here: &Host) -> Self {
        let address = address.to_canonical();
        if address.is_loopback() {
            Self::loopback(suffix, here)
        } else {
            Self::Address(address, suffix.to_vec())
        }
    }

    fn loopback(suffix: &[u8], here: &Host) -> Self {
        Self::Loopback([&here.network[..], b"@", &here.boot_id].concat(), suffix.to_vec())
    }

    /// How it stands in a canonical URI.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Address(IpAddr::V6(address), suffix) => [bracketed(*address).as_bytes(), suffix].concat(),
            Self::Address(address, suffix) => [address.to_string().as_bytes(), suffix].concat(),
            Self::Name(name, suffix) => [&name[..], suffix].concat(),
            Self::Loopback(place, suffix) => [b"loopback", &suffix[..], b".", place].concat(),
        }
    }

    /// How it is shown.
    fn shown(&self) -> Vec<u8> {
        match self {
            Self::Loopback(_, suffix) => [b"localhost", &suffix[..]].concat(),
            other => other.text(),
        }
    }
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

/// Names and addresses of one server, or of servers of which each leads to the same file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// Sorted, each once.
    known: Vec<Server>,
    /// The first one that the mount names.
    shown: Vec<u8>,
    /// Other servers may lead to the same volume: any server of a pool can be named when it is mounted.
    are_entries: bool,
}

impl Servers {
    /// Those that a mount names, in its order. None: it names none.
    pub(crate) fn new(named: Vec<Server>) -> Option<Self> {
        let shown = named.first()?.shown();
        let mut servers = Self { known: named, shown, are_entries: false };
        servers.sort();
        Some(servers)
    }

    /// Any server of a pool leads to the same file systems.
    pub(crate) fn of_a_pool(self) -> Self {
        Self { are_entries: true, ..self }
    }

    /// Adds what is known to be another name or address of it.
    pub(crate) fn add(&mut self, more: impl IntoIterator<Item = Server>) {
        self.known.extend(more);
        self.sort();
    }

    pub(crate) fn parts(&self) -> (&Vec<Server>, &Vec<u8>, bool) {
        (&self.known, &self.shown, self.are_entries)
    }

    /// Of what another rank sent. None: it names no server, or not in order.
    pub(crate) fn from_parts(known: Vec<Server>, shown: Vec<u8>, are_entries: bool) -> Option<Self> {
        let is_sorted = !known.is_empty() && known.windows(2).all(|pair| pair[0] < pair[1]);
        is_sorted.then_some(Self { known, shown, are_entries })
    }

    /// Whether its relation to every other such set is known: it has an address, and stands for one server.
    pub(crate) fn is_definite(&self) -> bool {
        !self.are_entries && self.has_address()
    }

    fn sort(&mut self) {
        self.known.sort();
        self.known.dedup();
    }

    /// All names and addresses: at least one, sorted, addresses first.
    #[must_use]
    pub fn known(&self) -> &[Server] {
        &self.known
    }

    /// The one that the mount names, for people.
    #[must_use]
    pub fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// Whether both are one server. Different only where an address of each is known, and none is a loopback address: that may be the
    /// near end of a tunnel, or another address of a known server.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        let is_common = |server| other.known.binary_search(server).is_ok();
        if self.known.iter().any(is_common) {
            return Relation::Same;
        }
        if self.are_entries || other.are_entries || !(self.has_address() && other.has_address()) {
            return Relation::Unknown;
        }
        Relation::Different
    }

    /// Whether it is known by an address, and by no loopback address.
    fn has_address(&self) -> bool {
        let is_address = |server: &Server| matches!(server, Server::Address(..));
        let is_loopback = |server: &Server| matches!(server, Server::Loopback(..));
        self.known.iter().any(is_address) && !self.known.iter().any(is_loopback)
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

    fn servers(hosts: &[&str]) -> Servers {
        Servers::new(hosts.iter().map(|host| Server::new(host.as_bytes(), b"", &here())).collect()).unwrap()
    }

    #[test]
    fn one_server_has_one_spelling() {
        assert_eq!(text(b"Server.Example.ORG."), "server.example.org");
        assert_eq!(text(b"010.0.0.1"), "010.0.0.1", "no address: octal is ambiguous");
        for same in [&b"[FE80::1]"[..], b"fe80::1", b"[fe80:0:0::1%eth0]", b"fe80::0001"] {
            assert_eq!(text(same), "[fe80::1]");
        }
        assert_eq!(
            (text(b"::ffff:10.0.0.1"), text(b"10.0.0.1")),
            ("10.0.0.1".to_owned(), "10.0.0.1".to_owned())
        );
        for same in [&b"localhost"[..], b"127.0.0.1", b"127.8.9.1", b"[::1]", b"LOCALHOST."] {
            assert_eq!(text(same), "loopback.7@boot");
        }
    }

    #[test]
    fn common_names_make_servers_one() {
        let (both, name, address) =
            (servers(&["srv", "10.0.0.5"]), servers(&["SRV"]), servers(&["10.0.0.5", "10.0.0.6"]));
        assert_eq!((both.relation(&name), both.relation(&address)), (Relation::Same, Relation::Same));
        assert_eq!(name.relation(&address), Relation::Unknown, "no address of the name is known");
        let other = servers(&["10.0.0.7"]);
        assert_eq!(
            (both.relation(&other), other.relation(&both)),
            (Relation::Different, Relation::Different)
        );
        assert_eq!(other.relation(&both.of_a_pool()), Relation::Unknown);
        assert_eq!(servers(&["localhost"]).relation(&other), Relation::Unknown, "a tunnel");
        assert_eq!(servers(&["localhost"]).relation(&servers(&["127.0.0.1"])), Relation::Same);
    }
}
