//! Servers that are one, as several hosts know them: one host mounts by a name, another one by an address, and a third one knows both. It
//! sends nothing; whoever gathers the identities of all ranks adds them here.
//!
//! A host name with its own addresses is one server for all types. A mount that lists several hosts says only that each of them leads to
//! its volume: they are one for this scheme and volume, and two servers for everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::identity::{Holder, Identity};
use crate::server::{Server, Servers, is_one_server, is_set};

/// Scheme and volume for which several hosts are one. None: they are one for all.
type Scope = Option<(Vec<u8>, Vec<u8>)>;

/// Hosts that are one in a scope, each a name or address with its addresses.
type Fact = (Scope, Vec<Vec<Server>>);

/// Classes of names and addresses, each of one server.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    facts: BTreeSet<Fact>,
    /// The classes in each scope, once they are asked for. That of all is in each of them.
    classes: OnceLock<BTreeMap<Scope, Classes>>,
}

impl PartialEq for Aliases {
    fn eq(&self, other: &Self) -> bool {
        self.facts == other.facts
    }
}

impl Eq for Aliases {}

impl Aliases {
    /// Adds what a mount knows of its servers. The result does not depend on the order of calls.
    ///
    /// A name that has several addresses, in one mount or in several, may be several servers (round robin). It joins nothing; its addresses
    /// are joined only if the mount says that each host leads to the volume.
    pub fn add(&mut self, identity: &Identity) {
        match &identity.holder {
            Holder::Servers(servers) => self.add_servers(identity, servers),
            Holder::Image(image) => self.add(image.identity()),
            Holder::Layers(layers) => layers.iter().for_each(|layer| self.add(layer.identity())),
            Holder::Cluster(_) | Holder::Local(_) | Holder::Unknown(_) => {}
        }
    }

    fn add_servers(&mut self, identity: &Identity, servers: &Servers) {
        let hosts = servers.hosts();
        let single = hosts.iter().filter(|host| is_one_server(host.iter()));
        let mut facts: Vec<_> = single.map(|host| (None, vec![host.clone()])).collect();
        if facts.len() != 1 || hosts.len() != 1 {
            facts.push((scope_of(identity), hosts.to_vec()));
        }
        // One name or address alone says nothing.
        facts.retain(|(_, hosts)| hosts.iter().flatten().nth(1).is_some());
        self.facts.extend(facts);
        self.classes = OnceLock::new();
    }

    /// Adds what another host knows. The result does not depend on the order.
    pub fn merge(&mut self, other: Self) {
        self.facts.extend(other.facts);
        self.classes = OnceLock::new();
    }

    /// What was added, in order.
    pub(crate) fn facts(&self) -> impl ExactSizeIterator<Item = &Fact> {
        self.facts.iter()
    }

    /// Of what another rank sent. None: not in order, or a fact says nothing.
    pub(crate) fn of_facts(facts: Vec<Fact>) -> Option<Self> {
        let says_something = |(_, hosts): &Fact| {
            hosts.iter().all(|host| is_set(host)) && hosts.iter().flatten().nth(1).is_some()
        };
        let is_valid = facts.is_sorted_by(|one, other| one < other) && facts.iter().all(says_something);
        is_valid.then(|| Self { facts: facts.into_iter().collect(), classes: OnceLock::new() })
    }

    /// Makes the classes from all facts: a later one can show that a name is several servers.
    fn joined(&self) -> BTreeMap<Scope, Classes> {
        let several = several_servers(self.facts.iter().flat_map(|(_, hosts)| hosts));
        let scopes: BTreeSet<_> = self.facts.iter().map(|(scope, _)| scope.clone()).chain([None]).collect();
        let classes = |scope: Scope| {
            let mut classes = Classes::default();
            let known = self.facts.iter().filter(|(of, _)| of.is_none() || *of == scope);
            for (_, hosts) in known {
                classes.join(hosts.iter().flatten().filter(|server| !several.contains(*server)));
            }
            (scope, classes)
        };
        scopes.into_iter().map(classes).collect()
    }

    fn classes_for(&self, identity: &Identity) -> Option<&Classes> {
        let classes = self.classes.get_or_init(|| self.joined());
        classes.get(&scope_of(identity)).or_else(|| classes.get(&None))
    }

    /// For each known server of a file system the first of all that is known to be the same. Names that get them have one canonical name
    /// if they are one server.
    #[must_use]
    pub fn firsts(&self, identity: &Identity, servers: &Servers) -> Vec<Server> {
        let classes = self.classes_for(identity);
        let first = |server| classes.map_or(server, |classes| classes.first_of(server)).clone();
        let mut firsts: Vec<Server> = servers.known().iter().map(first).collect();
        firsts.sort();
        firsts.dedup();
        firsts
    }

    /// How servers stand in a canonical name: the first of all that is known to be the same.
    pub(crate) fn text_of(&self, identity: &Identity, servers: &Servers) -> Vec<u8> {
        let classes = if self.facts.is_empty() { None } else { self.classes_for(identity) };
        let first = |server| classes.map_or(server, |classes| classes.first_of(server));
        servers.known().iter().map(first).min().map(Server::text).unwrap_or_default()
    }
}

fn scope_of(identity: &Identity) -> Scope {
    Some((identity.scheme.clone(), identity.volume.clone()))
}

/// Names whose addresses are not those of one server, or of which nobody knows that they are: an IPv4 address on one host and an IPv6 address on
/// another one have nothing in common but the name.
fn several_servers<'a>(hosts: impl Iterator<Item = &'a Vec<Server>>) -> BTreeSet<Server> {
    let is_name = |server: &&Server| matches!(server, Server::Name(..));
    let mut all: BTreeMap<&Server, Vec<&Vec<Server>>> = BTreeMap::new();
    for host in hosts {
        host.iter().filter(is_name).for_each(|name| all.entry(name).or_default().push(host));
    }
    let is_one = |hosts: &[&Vec<Server>]| {
        let addresses: BTreeSet<_> =
            hosts.iter().copied().flatten().filter(|server| !is_name(server)).collect();
        let knows_all = |host: &&Vec<Server>| addresses.iter().all(|address| host.contains(address));
        is_one_server(addresses.iter().copied()) && (addresses.is_empty() || hosts.iter().any(knows_all))
    };
    all.into_iter().filter(|(_, hosts)| !is_one(hosts)).map(|(name, _)| name.clone()).collect()
}

#[derive(Clone, Debug, Default)]
struct Classes {
    /// Each name or address that is not the first of its class, with one that sorts before it.
    earlier: BTreeMap<Server, Server>,
}

impl Classes {
    fn join<'a>(&mut self, mut servers: impl Iterator<Item = &'a Server>) {
        let Some(first) = servers.next() else { return };
        for other in servers {
            let (one, other) = (self.first_of(first).clone(), self.first_of(other).clone());
            if one != other {
                let (early, late) = if one < other { (one, other) } else { (other, one) };
                self.earlier.insert(late, early);
            }
        }
    }

    /// The first of the class.
    fn first_of<'a>(&'a self, server: &'a Server) -> &'a Server {
        let mut first = server;
        while let Some(earlier) = self.earlier.get(first) {
            first = earlier;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, MountTable, Silent};

    /// What a mount knows, with its table of types.
    fn identity(mounted: &str) -> Identity {
        let line = format!("1 0 0:4 / / rw - {mounted}");
        let table =
            MountTable::from_bytes(line.as_bytes(), &Silent::on(Host::new(b"boot", b"node"))).unwrap();
        table.uri_of(b"/").unwrap().identity().clone()
    }

    fn text(aliases: &Aliases, identity: &Identity) -> String {
        let Holder::Servers(servers) = &identity.holder else { panic!("no servers") };
        String::from_utf8(aliases.text_of(identity, servers)).unwrap()
    }

    fn of(identities: &[&Identity]) -> Aliases {
        let mut aliases = Aliases::default();
        identities.iter().for_each(|identity| aliases.add(identity));
        aliases
    }

    #[test]
    fn classes_do_not_depend_on_the_order() {
        let known = [
            identity("nfs a:/e rw,addr=10.0.0.2"),
            identity("nfs b:/f rw,addr=10.0.0.2"),
            identity("nfs 10.0.0.2:/g rw"),
            identity("nfs c:/e rw"),
        ];
        let other = identity("cifs //b/e rw,addr=10.0.0.2");
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
            let aliases = of(&[&identity(pool)]);
            let (one, other) = (identity("nfs4 a:/e rw"), identity("nfs4 b:/e rw"));
            assert_ne!(text(&aliases, &one), text(&aliases, &other), "{pool}");
        }
        let aliases = of(&[&identity("wekafs a,b/fs rw"), &identity("dvs /lus rw,path=/lus,nodename=a:b")]);
        assert_eq!(text(&aliases, &identity("wekafs b/fs rw")), "a");
        // Each node has a directory of its own, which it also exports.
        assert_eq!(text(&aliases, &identity("dvs /var rw,path=/var,nodename=b")), "b");
    }

    // Round robin: two hosts got other addresses for one name.
    #[test]
    fn a_name_with_several_addresses_joins_nothing() {
        let known = [identity("nfs filers:/e rw,addr=10.0.0.1"), identity("nfs filers:/e rw,addr=10.0.0.2")];
        let aliases = of(&[&known[0], &known[1]]);
        assert_eq!(
            (text(&aliases, &known[0]), text(&aliases, &known[1])),
            ("10.0.0.1".into(), "10.0.0.2".into())
        );
        assert_eq!(text(&of(&[&known[0]]), &identity("nfs filers:/f rw")), "10.0.0.1");
    }
}
