//! The classes of the tree against a comparison of all pairs.

use std::collections::BTreeSet;

use atta_mounts::{Identity, MountTable, Relation, Server, Uri};
use atta_status::{Answer, Options, Status};
use proptest::prelude::*;

use crate::ranks::{Knows, on_ranks};

const MOUNTS: [&str; 32] = [
    "nfs4 srv:/e rw",
    "nfs4 srv:/e rw,addr=10.0.0.5",
    "nfs4 10.0.0.5:/e rw",
    "nfs4 10.0.0.5:/f rw",
    "nfs4 10.0.0.6:/e rw",
    "nfs4 other:/e rw",
    "nfs4 other:/e rw,addr=10.0.0.6",
    "nfs4 localhost:/e rw",
    "lustre 10.0.0.5@tcp:10.0.0.6@tcp:/e rw",
    "lustre 10.0.0.6@tcp:/e rw",
    "tmpfs none rw",
    "fuse.s3fs s3fs rw",
    "ceph me@aaaa-01.fs=/ rw",
    "fuse.glusterfs srv:v1 rw",
    "fuse.glusterfs other:v1 rw",
    "fuse.glusterfs 10.0.0.5:v1 rw",
    "fuse.glusterfs 10.0.0.6:v1 rw",
    "gpfs gpfs1 rw",
    // IPv6.
    "nfs4 [fd00::5]:/e rw",
    "nfs4 six:/e rw,addr=fd00::5",
    "nfs4 six:/e rw",
    "nfs4 srv:/f rw,addr=fd00::5",
    "nfs4 [fe80::1%eth0]:/e rw,addr=fe80::1%eth0",
    // Round robin, and a name that each host has for itself.
    "nfs4 round:/e rw,addr=10.0.0.7",
    "nfs4 round:/e rw,addr=10.0.0.8",
    "nfs4 round:/e rw",
    "9p round rw,trans=tcp,aname=/e",
    "wekafs round,other/e rw",
    "nfs4 own:/e rw,addr=127.0.0.1",
    "nfs4 own:/e rw",
    // Names of loopback addresses.
    "nfs4 a.localhost:/e rw,addr=127.0.0.2",
    "fuse.glusterfs localhost,srv:v1 rw",
];

/// A rank: its host, what it has at `/m`, and at `/n`.
type Seat = (u32, usize, usize);

fn table((host, here, there): Seat) -> MountTable {
    let line = |at: usize, point: &str| format!("0:{} / /{point} rw - {}", 100 + at, MOUNTS[at]);
    Knows::on(host).table(&[&line(here, "m"), &line(there, "n")])
}

/// The scheme and volume for which servers are one: none if they are one host.
type Scope = Option<(Vec<u8>, Vec<u8>)>;

/// What mounts of all tables say: hosts by scope, each with its names and addresses.
fn said(tables: &[MountTable]) -> Vec<(Scope, Vec<BTreeSet<Server>>)> {
    let mut said = Vec::new();
    for (_, root) in tables.iter().flat_map(MountTable::iter) {
        root.each_servers(&mut |identity, servers| {
            let hosts: Vec<BTreeSet<Server>> =
                servers.hosts().iter().map(|host| host.iter().cloned().collect()).collect();
            said.push((Some((identity.scheme.clone(), identity.volume.clone())), hosts));
        });
    }
    said
}

/// Whether a name has an address that means something on one host only, or addresses that nobody knows to be of one server.
fn is_ambiguous(name: &Server, said: &[(Scope, Vec<BTreeSet<Server>>)]) -> bool {
    let hosts: Vec<_> = said.iter().flat_map(|(_, hosts)| hosts).filter(|host| host.contains(name)).collect();
    let addresses: BTreeSet<&Server> =
        hosts.iter().copied().flatten().filter(|server| !matches!(server, Server::Name(..))).collect();
    let of_family = |is_four: bool| {
        let is_it =
            |server: &&&Server| matches!(server, Server::Address(address, _) if address.is_ipv4() == is_four);
        addresses.iter().filter(is_it).count()
    };
    let is_one = of_family(true) < 2 && of_family(false) < 2;
    let knows_all = |host: &&BTreeSet<Server>| addresses.iter().all(|address| host.contains(*address));
    matches!(name, Server::Name(..))
        && (addresses.iter().any(|server| server.is_of_one_host())
            || !(addresses.is_empty() || (is_one && hosts.iter().any(knows_all))))
}

/// Names with all that any table says of their servers: sets grow until nothing changes.
fn completed(tables: &[MountTable]) -> Vec<Uri> {
    let said = said(tables);
    let is_certain = |server: &&Server| !is_ambiguous(server, &said);
    // Addresses of one host join nothing, and their host says nothing of others.
    let is_of_all = |host: &&BTreeSet<Server>| !host.iter().any(Server::is_of_one_host);
    let mut known: Vec<(Scope, BTreeSet<Server>)> = Vec::new();
    for (scope, hosts) in &said {
        let hosts: Vec<BTreeSet<Server>> = hosts
            .iter()
            .filter(is_of_all)
            .map(|host| host.iter().filter(is_certain).cloned().collect())
            .collect();
        known.push((scope.clone(), hosts.iter().flatten().cloned().collect()));
        known.extend(hosts.into_iter().map(|host| (None, host)));
    }
    let all = |identity: &Identity, servers: &atta_mounts::Servers| {
        let scope = Some((identity.scheme.clone(), identity.volume.clone()));
        let (own, mut all): (BTreeSet<Server>, BTreeSet<Server>) =
            servers.known().iter().filter(is_certain).cloned().partition(Server::is_of_one_host);
        if all.is_empty() {
            return own.into_iter().take(1).collect();
        }
        loop {
            let before = all.len();
            for (_, set) in known.iter().filter(|(of, _)| of.is_none() || *of == scope) {
                if !set.is_disjoint(&all) {
                    all = &all | set;
                }
            }
            if all.len() == before {
                return all.into_iter().collect();
            }
        }
    };
    tables.iter().map(|table| table.uri_of(b"/m/f").unwrap().with_servers(&all)).collect()
}

/// The ranks that see the same file, by all pairs, and whether no other may see it.
fn classes(uris: &[Uri]) -> Vec<(Vec<u32>, bool)> {
    let relation = |one: usize, other: usize| uris[one].relation(&uris[other]);
    let mut classes: Vec<(Vec<u32>, bool)> = Vec::new();
    for one in 0..uris.len() {
        let members: Vec<u32> = (0..uris.len())
            .filter(|other| relation(one, *other) == Relation::Same)
            .map(|other| other as u32)
            .collect();
        let is_certain = (0..uris.len()).all(|other| relation(one, other) != Relation::Unknown);
        if members[0] as usize == one {
            classes.push((members, is_certain));
        }
    }
    classes
}

/// Whether all may be one, are one for certain, or differ for certain.
fn uniqueness(uris: &[Uri]) -> Answer {
    let relations = || uris.iter().flat_map(|one| uris.iter().map(move |other| one.relation(other)));
    match () {
        () if relations().any(|relation| relation == Relation::Different) => Answer::No,
        () if relations().any(|relation| relation == Relation::Unknown) => Answer::Unknown,
        () => Answer::Yes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn classes_are_those_of_all_pairs(
        seats in prop::collection::vec((0_u32..4, 0..MOUNTS.len(), 0..MOUNTS.len()), 1..=16)
    ) {
        let tables: Vec<_> = seats.iter().copied().map(table).collect();
        let uris = completed(&tables);
        let found = on_ranks(seats.len() as u32, |rank, session| {
            let status = Status::join(session, &tables[rank as usize], Options::default()).unwrap();
            status.groups(session, b"/m/f").unwrap()
        });
        let expected = classes(&uris);
        for (rank, found) in (0_u32..).zip(&found) {
            let groups: Vec<(Vec<u32>, bool)> =
                found.list().iter().map(|group| (group.members.iter().collect(), group.is_certain)).collect();
            prop_assert_eq!(&groups, &expected);
            prop_assert_eq!(found.is_unique(), uniqueness(&uris));
            prop_assert_eq!(found.groups().high as usize, expected.len());
            prop_assert!(found.groups().low >= 1 && found.groups().low <= found.groups().high);
            let own = found.descriptor().unwrap();
            let members = &expected[own.group as usize].0;
            prop_assert_eq!(members[own.rank_in_group.unwrap() as usize], rank);
            prop_assert_eq!((own.representative, own.size as usize), (members[0], members.len()));
        }
    }
}
