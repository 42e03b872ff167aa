//! What all ranks know of names and addresses of servers: one rank mounts by a name, another one by an address, and a third one knows that
//! both are one server. Gathered once, before names are compared. It asks no resolver.
//!
//! [`Aliases`] has the rules: hosts that lead to one volume of a pool are not one server for NFS.

use atta_code::record;
use atta_mounts::{Aliases, MountTable, Uri};

/// Names and addresses that are one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    aliases: Aliases,
}

record!(Known { aliases });

impl Known {
    /// What a table says.
    pub(crate) fn of(table: &MountTable) -> Self {
        let mut aliases = Aliases::default();
        table.iter().for_each(|(_, root)| aliases.add(root.identity()));
        Self { aliases }
    }

    /// Adds what another rank knows. The result does not depend on the order.
    pub(crate) fn merge(&mut self, other: Self) {
        self.aliases.merge(other.aliases);
    }

    /// A name with what all ranks know of its servers, so that names of one file are equal on all ranks.
    pub(crate) fn completed(&self, uri: &Uri) -> Uri {
        uri.with_servers(&|identity, servers| self.aliases.firsts(identity, servers))
    }
}

#[cfg(test)]
mod tests {
    use atta_mounts::{Host, Relation, Silent};

    use super::*;

    fn table(lines: &str) -> MountTable {
        let lines = format!("9 0 8:1 / / rw - ext4 /dev/sda1 rw\n{lines}");
        MountTable::from_bytes(lines.as_bytes(), &Silent::on(Host::new(b"boot", b"node"))).unwrap()
    }

    #[test]
    fn knowledge_does_not_depend_on_the_order() {
        let tables = [
            table("1 9 0:4 / /m rw - nfs a:/e rw,addr=10.0.0.2\n"),
            table("1 9 0:4 / /m rw - nfs b:/e rw\n"),
            table(
                "1 9 0:4 / /m rw - nfs b:/g rw,addr=10.0.0.2\n2 9 0:5 / /n rw - nfs c:/e rw,addr=10.0.0.9\n",
            ),
        ];
        let all = [[0, 1, 2], [2, 1, 0], [1, 0, 2]].map(|order| {
            let mut all = Known::default();
            order.into_iter().for_each(|at: usize| all.merge(Known::of(&tables[at])));
            all
        });
        assert_eq!(all[0], all[1]);
        assert_eq!(all[0], all[2]);
        let by = |at: usize| all[0].completed(&tables[at].uri_of(b"/m/f").unwrap());
        assert_eq!(by(0).hash(), by(1).hash());
        assert_eq!(by(0).relation(&by(1)), Relation::Same);
        let other = all[0].completed(&tables[2].uri_of(b"/n/f").unwrap());
        assert_eq!(by(0).relation(&other), Relation::Unknown);
    }

    // Round robin: each rank got another address for one name.
    #[test]
    fn name_of_several_servers_joins_nothing() {
        let tables = ["10.0.0.1", "10.0.0.2"]
            .map(|address| table(&format!("1 9 0:4 / /m rw - nfs filers:/e rw,addr={address}\n")));
        let mut all = Known::of(&tables[0]);
        all.merge(Known::of(&tables[1]));
        let [one, other] = tables.map(|table| all.completed(&table.uri_of(b"/m/f").unwrap()));
        assert_ne!(one.hash(), other.hash());
    }

    // Each of the hosts of a DVS mount leads to the same file systems. That does not make them one NFS server.
    #[test]
    fn hosts_of_a_pool_are_not_one_nfs_server() {
        let text = "1 9 0:4 / /d rw - dvs /x rw,path=/x,nodename=10.0.0.1:10.0.0.2\n\
                    2 9 0:5 / /a rw - nfs 10.0.0.1:/e rw,addr=10.0.0.1\n\
                    3 9 0:6 / /b rw - nfs 10.0.0.2:/e rw,addr=10.0.0.2\n";
        let table = table(text);
        let known = Known::of(&table);
        let by = |path: &[u8]| known.completed(&table.uri_of(path).unwrap());
        assert_eq!(by(b"/a/f").relation(&by(b"/b/f")), Relation::Unknown);
        assert_ne!(by(b"/a/f").hash(), by(b"/b/f").hash());
    }
}
