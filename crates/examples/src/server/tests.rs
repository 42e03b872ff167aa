//! Servers on threads, over emulated mounts and files that are counted.

use std::collections::BTreeMap;

use atta_entry::Errno;
use atta_fabric::Endpoint;
use atta_status::{MountMap, Options, Status, SystemFiles};

use super::*;
use crate::hosts::{Site, host_table};
use crate::job::{Fabric, join, shared};
use crate::lanes::lanes;
use crate::reader::{Counts, Opens};

const RANKS: u32 = 13;
/// Two servers for 13 ranks are few.
const FEW: Options =
    Options { ranks_per_server: 4, classes_max: 64, servers_max: 1000, assume_servers_differ: false };

/// What a rank saw: files or errors, traffic of each phase, and what all ranks opened.
type Seen = (Vec<File>, Vec<Vec<Traffic>>, Counts);

/// Each rank asks for the paths that `wanted` gives it in each phase. Returns what rank 0 knows at the end.
fn served(
    mounts: impl Fn(u32) -> Vec<(&'static str, String)> + Sync,
    phases: u32,
    wanted: impl Fn(u32, u32) -> Vec<&'static str> + Sync,
) -> Vec<Seen> {
    Fabric::Threads.run(RANKS, |endpoint| run(endpoint, &mounts, phases, &wanted)).expect("no rank fails")
}

fn run(
    endpoint: &mut dyn Endpoint,
    mounts: &(impl Fn(u32) -> Vec<(&'static str, String)> + Sync),
    phases: u32,
    wanted: &(impl Fn(u32, u32) -> Vec<&'static str> + Sync),
) -> Result<Vec<Seen>, Failure> {
    let (rank, [mut first, mut second]) = (endpoint.rank(), lanes(endpoint));
    let mut session = join(&mut first, "test")?;
    let site = Site::share(&mut session, "servers", |top| {
        ["one", "two", "own"].iter().try_for_each(|name| {
            std::fs::create_dir(top.join(name))?;
            std::fs::write(top.join(name).join("f"), format!("{name}/f"))
        })
    })?;
    let table = host_table(&site, rank, &mounts(rank))?;
    let status = Status::join(&mut session, &table, FEW)?;
    let map = MountMap::build(&status, &mut session)?;
    let routes = Routes::new(&map, (rank, RANKS), 3);
    let mut server = Server::new(&mut second, routes, Reader::new(&table, &map, &SystemFiles));
    let (mut files, mut traffic) = (Vec::new(), Vec::new());
    for phase in 0..phases {
        for name in wanted(phase, rank) {
            files.push(server.get(&site.path(name))?);
        }
        server.end_phase()?;
        let own = server.take_traffic();
        traffic.push(shared(&mut session, own)?);
    }
    let counts = shared(&mut session, server.reader().take_counts())?;
    let seen = shared(&mut session, files)?.into_iter().zip(counts);
    let seen = seen.map(|(files, counts)| (files, traffic.clone(), counts)).collect();
    session.close((), |(), ()| ())?;
    Ok(seen)
}

fn export(_rank: u32) -> Vec<(&'static str, String)> {
    vec![("one", "nfs4 10.0.0.5:/one rw".to_owned()), ("own", "tmpfs none rw".to_owned())]
}

/// The ranks of which something was counted.
fn ranks_of(traffic: &[Traffic], count: impl Fn(&Traffic) -> u64) -> BTreeMap<u32, u64> {
    (0..).zip(traffic).map(|(rank, traffic)| (rank, count(traffic))).filter(|(_, count)| *count > 0).collect()
}

fn opens(opened: u64, failed: u64) -> Opens {
    Opens { opened, failed }
}

#[test]
fn only_asking_paths_receive() {
    // The tree: 0 has 1 to 3, 1 has 4 to 6, 2 has 7 to 9, 3 has 10 to 12.
    let seen =
        served(export, 1, |_, rank| if [5, 6, 10].contains(&rank) { vec!["one/f"] } else { Vec::new() });
    let traffic = &seen[0].1[0];
    let once = |ranks: &[u32]| ranks.iter().map(|rank| (*rank, 1)).collect::<BTreeMap<u32, u64>>();
    assert_eq!(ranks_of(traffic, |traffic| traffic.answers), once(&[1, 3, 5, 6, 10]));
    assert_eq!(ranks_of(traffic, |traffic| traffic.requests), [(0, 2), (1, 2), (3, 1)].into());
    let opened: Vec<_> =
        seen.iter().map(|(_, _, counts)| counts.values().copied().collect::<Vec<_>>()).collect();
    assert_eq!(opened[0], [opens(1, 0)]);
    assert!(opened[1..].iter().all(Vec::is_empty), "{opened:?}");
    assert_eq!((&seen[10].0, seen[11].0.len()), (&vec![Ok(b"one/f".to_vec())], 0));
}

#[test]
fn later_request_is_answered_below() {
    // 5 asks, then its neighbours 4 and 6, then 5 again.
    let wanted = |phase, rank| match (phase, rank) {
        (0 | 2, 5) | (1, 4 | 6) => vec!["one/f", "one/none"],
        _ => Vec::new(),
    };
    let seen = served(export, 3, wanted);
    let phases = &seen[0].1;
    assert_eq!(ranks_of(&phases[0], |traffic| traffic.requests), [(0, 2), (1, 2)].into());
    assert_eq!(ranks_of(&phases[1], |traffic| traffic.requests), [(1, 4)].into());
    assert_eq!(ranks_of(&phases[2], |traffic| traffic.requests), BTreeMap::new());
    assert_eq!(seen[0].2.values().copied().collect::<Vec<_>>(), [opens(1, 1)]);
    let both = vec![Ok(b"one/f".to_vec()), Err(Errno::NOENT)];
    assert_eq!((&seen[4].0, &seen[6].0), (&both, &both));
    assert_eq!(seen[5].0, [both.clone(), both].concat());
}

#[test]
fn failed_lookups_reach_the_source_once() {
    let seen = served(export, 2, |_, _| vec!["one/none", "own/none"]);
    let counted = |is_own: bool| {
        let all = seen.iter().flat_map(|(_, _, counts)| counts.iter());
        all.filter(|(source, _)| (*source == "each host") == is_own)
            .map(|(_, opens)| *opens)
            .collect::<Vec<_>>()
    };
    assert_eq!(counted(false), [opens(0, 1)]);
    // What is well distributed is not kept.
    assert_eq!(counted(true), vec![opens(0, 2); RANKS as usize]);
    assert!(seen.iter().all(|(files, _, _)| *files == vec![Err(Errno::NOENT); 4]));
}

#[test]
fn each_group_has_a_tree_of_its_own() {
    let servers = |rank: u32| vec![("two", format!("nfs4 10.0.0.{}:/two rw", 5 + rank % 2))];
    let seen = served(servers, 1, |_, _| vec!["two/f", "two/f"]);
    let opened: Vec<_> =
        seen.iter().map(|(_, _, counts)| counts.values().copied().collect::<Vec<_>>()).collect();
    assert_eq!(opened[..2], [vec![opens(1, 0)], vec![opens(1, 0)]]);
    assert!(opened[2..].iter().all(Vec::is_empty), "{opened:?}");
    // Only from ranks of the same group: each of the others has one answer.
    let answers: Vec<_> = seen[0].1[0].iter().map(|traffic| traffic.answers).collect();
    assert_eq!(answers, [vec![0, 0], vec![1; RANKS as usize - 2]].concat());
    assert!(seen.iter().all(|(files, _, _)| *files == vec![Ok(b"two/f".to_vec()); 2]));
}
