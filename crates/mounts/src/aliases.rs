//! Servers that are one, as several hosts know them: one host mounts by a name, another one by an address, and a third one knows both. It
//! sends nothing; whoever gathers the sets of all ranks adds them here.

use std::collections::BTreeMap;

use crate::server::{Server, Servers};

/// Classes of names and addresses, each of one server.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    /// Each name or address that is not the first of its class, with one that sorts before it.
    earlier: BTreeMap<Server, Server>,
}

impl Aliases {
    /// Adds that these are one server. The result does not depend on the order of calls.
    pub fn add(&mut self, servers: &Servers) {
        let Some((first, others)) = servers.known().split_first() else { return };
        others.iter().for_each(|other| self.join(first, other));
    }

    fn join(&mut self, one: &Server, other: &Server) {
        let (one, other) = (self.first_of(one).clone(), self.first_of(other).clone());
        if one != other {
            let (early, late) = if one < other { (one, other) } else { (other, one) };
            self.earlier.insert(late, early);
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

    /// How servers stand in a canonical name: the first of all that is known to be the same.
    pub(crate) fn text_of(&self, servers: &Servers) -> Vec<u8> {
        servers.known().iter().map(|server| self.first_of(server)).min().map(Server::text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::Host;

    fn servers(hosts: &[&str]) -> Servers {
        let here = Host::new(b"boot", b"node");
        Servers::new(hosts.iter().map(|host| Server::new(host.as_bytes(), b"", &here)).collect()).unwrap()
    }

    #[test]
    fn classes_do_not_depend_on_the_order() {
        let known =
            [servers(&["a", "10.0.0.2"]), servers(&["b", "10.0.0.1"]), servers(&["a", "b"]), servers(&["c"])];
        for order in [[0, 1, 2, 3], [2, 1, 0, 3], [1, 3, 0, 2]] {
            let mut aliases = Aliases::default();
            order.into_iter().for_each(|at: usize| aliases.add(&known[at]));
            for same in &known[..3] {
                assert_eq!(aliases.text_of(same), b"10.0.0.1");
            }
            assert_eq!(aliases.text_of(&servers(&["10.0.0.2"])), b"10.0.0.1");
            assert_eq!(aliases.text_of(&known[3]), b"c");
        }
    }

    #[test]
    fn without_aliases_the_first_address_counts() {
        assert_eq!(Aliases::default().text_of(&servers(&["name", "10.0.0.10", "10.0.0.9"])), b"10.0.0.9");
    }
}
