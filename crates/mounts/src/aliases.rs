//! Servers that are one, as several hosts know them: one host mounts by a name, another one by an address, and a third one knows both. It
//! sends nothing, and asks no resolver; whoever gathers the tables of all ranks merges them here.
//!
//! A host name with its own addresses is one server for all types. A mount that lists several hosts says only that each of them leads to
//! its volume: they are one for this scheme and volume, and two servers for everything else.
//!
//! Loopback and link-local addresses mean nothing on other hosts, so they are left out. A name that has one may be another server on each host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::identity::{Holder, Identity};
use crate::server::{Server, Servers, is_one_server, is_set};
use crate::table::MountTable;
use crate::uri::Uri;

/// Scheme and volume for which several hosts are one. None: they are one for all.
type Scope = Option<(Vec<u8>, Vec<u8>)>;

/// Hosts that are one in a scope, each a name or address with its addresses.
type Fact = (Scope, Vec<Vec<Server>>);

/// Classes of names and addresses, each of one server.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    facts: BTreeSet<Fact>,
    /// Names that have a loopback or link-local address on some host.
    host_names: BTreeSet<Server>,
    /// The classes in each scope, made when they are first needed. The classes of no scope are in each of them.
    classes: OnceLock<BTreeMap<Scope, Classes>>,
}

impl PartialEq for Aliases {
    fn eq(&self, other: &Self) -> bool {
        (&self.facts, &self.host_names) == (&other.facts, &other.host_names)
    }
}

impl Eq for Aliases {}

impl Aliases {
    /// What the mounts of a table say of their servers.
    #[must_use]
    pub fn of(table: &MountTable) -> Self {
        let mut aliases = Self::default();
        table.iter().for_each(|(_, root)| aliases.add(root.identity()));
        aliases
    }

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
        let (own, hosts): (Vec<_>, Vec<_>) =
            servers.hosts().iter().partition(|host| host.iter().any(Server::is_of_one_host));
        self.host_names.extend(own.into_iter().flatten().filter(|server| server.is_name()).cloned());
        let single = hosts.iter().filter(|host| is_one_server(host.iter()));
        let mut facts: Vec<_> = single.map(|host| (None, vec![(*host).clone()])).collect();
        if facts.len() != 1 || hosts.len() != 1 {
            facts.push((scope_of(identity), hosts.into_iter().cloned().collect()));
        }
        facts.retain(|(_, hosts)| is_fact(hosts));
        self.facts.extend(facts);
        self.classes = OnceLock::new();
    }

    /// Adds what another host knows. The result does not depend on the order.
    pub fn merge(&mut self, other: Self) {
        self.facts.extend(other.facts);
        self.host_names.extend(other.host_names);
        self.classes = OnceLock::new();
    }

    /// Facts, and names that have an address of one host only.
    pub(crate) const fn parts(&self) -> (&BTreeSet<Fact>, &BTreeSet<Server>) {
        (&self.facts, &self.host_names)
    }

    /// From the bytes of another rank. None: not in order, a fact that says nothing, or a server in the wrong place.
    pub(crate) fn from_parts(facts: Vec<Fact>, host_names: Vec<Server>) -> Option<Self> {
        let is_valid = |(_, hosts): &Fact| hosts.iter().all(|host| is_set(host)) && is_fact(hosts);
        let is_valid = facts.is_sorted_by(|one, other| one < other)
            && host_names.is_sorted_by(|one, other| one < other)
            && facts.iter().all(is_valid)
            && host_names.iter().all(Server::is_name);
        is_valid.then(|| Self {
            facts: facts.into_iter().collect(),
            host_names: host_names.into_iter().collect(),
            classes: OnceLock::new(),
        })
    }

    /// The same name with all that is known of its servers: then names of one file have one canonical name and one hash on all hosts. A file
    /// system that is known only by names that may be several servers becomes unknown.
    #[must_use]
    pub fn completed(&self, uri: &Uri) -> Uri {
        uri.with_servers(&|identity, servers| self.completed_servers(identity, servers))
    }

    /// Without names that may be several servers, and with the first of each class. An address of one host identifies only what nothing else
    /// does: then the first one.
    fn completed_servers(&self, identity: &Identity, servers: &Servers) -> Vec<Server> {
        let classes = self.classes.get_or_init(|| self.joined());
        let Some(classes) = classes.get(&scope_of(identity)).or_else(|| classes.get(&None)) else {
            return servers.known().to_vec();
        };
        let certain = servers.known().iter().filter(|server| !classes.several.contains(*server));
        let (own, others): (Vec<_>, Vec<_>) = certain.partition(|server| server.is_of_one_host());
        if others.is_empty() {
            return own.into_iter().take(1).cloned().collect();
        }
        others.into_iter().flat_map(|server| [server.clone(), classes.first_of(server).clone()]).collect()
    }

    /// Makes the classes from all facts: a later one can show that a name is several servers.
    fn joined(&self) -> BTreeMap<Scope, Classes> {
        let names = self.hosts_by_name();
        let scopes: BTreeSet<_> = self.facts.iter().map(|(scope, _)| scope.clone()).chain([None]).collect();
        let classes = |scope: Scope| {
            let several = names.iter().filter(|(_, hosts)| is_several(hosts, &scope));
            let several = several.map(|(name, _)| *name).chain(&self.host_names);
            let mut classes = Classes { several: several.cloned().collect(), ..Classes::default() };
            for (_, hosts) in self.facts.iter().filter(|(of, _)| of.is_none() || *of == scope) {
                classes.join(hosts.iter().flatten());
            }
            (scope, classes)
        };
        scopes.into_iter().map(classes).collect()
    }

    fn hosts_by_name(&self) -> BTreeMap<&Server, Vec<Named<'_>>> {
        let mut all: BTreeMap<&Server, Vec<Named<'_>>> = BTreeMap::new();
        for (scope, hosts) in &self.facts {
            for host in hosts {
                let names = host.iter().filter(|server| server.is_name());
                names.for_each(|name| all.entry(name).or_default().push((scope, host)));
            }
        }
        all
    }
}

/// A name or address alone says nothing.
fn is_fact(hosts: &[Vec<Server>]) -> bool {
    let mut servers = hosts.iter().flatten();
    servers.clone().nth(1).is_some() && servers.all(|server| !server.is_of_one_host())
}

fn scope_of(identity: &Identity) -> Scope {
    Some((identity.scheme.clone(), identity.volume.clone()))
}

/// A host that has a name, and the scope of the fact.
type Named<'a> = (&'a Scope, &'a Vec<Server>);

/// Whether a name may be several servers: it has addresses that are not known to be of one server. An IPv4 address on one host and an IPv6
/// address on another one have nothing in common but the name. In a scope, a mount that lists all of them says that each leads to the volume.
fn is_several(hosts: &[Named<'_>], scope: &Scope) -> bool {
    let addresses: BTreeSet<_> =
        hosts.iter().flat_map(|(_, host)| host.iter()).filter(|server| !server.is_name()).collect();
    let is_one = is_one_server(addresses.iter().copied());
    let joins = |(of, host): &Named<'_>| {
        (is_one || (of.is_some() && *of == scope)) && addresses.iter().all(|address| host.contains(address))
    };
    !addresses.is_empty() && !hosts.iter().any(joins)
}

#[derive(Clone, Debug, Default)]
struct Classes {
    /// Names that may be several servers. They are in no class.
    several: BTreeSet<Server>,
    /// Each name or address that is not the first of its class, with one that sorts before it.
    earlier: BTreeMap<Server, Server>,
}

impl Classes {
    fn join<'a>(&mut self, servers: impl Iterator<Item = &'a Server>) {
        let mut first: Option<Server> = None;
        for server in servers {
            if self.several.contains(server) {
                continue;
            }
            let one = self.first_of(server).clone();
            let other = first.take().map_or_else(|| one.clone(), |first| self.first_of(&first).clone());
            if one != other {
                let (early, late) = if one < other { (&one, &other) } else { (&other, &one) };
                self.earlier.insert(late.clone(), early.clone());
            }
            first = Some(one.min(other));
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
mod tests;
