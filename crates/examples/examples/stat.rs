//! **STAT**: read the files of a debugged program once for all daemons. The first use in Ahn et al. 2013 (FGFS), section V.B.
//!
//! The Stack Trace Analysis Tool has a daemon on each node, which needs the executable when it attaches, and later the libraries that are on the stack at
//! that moment. All daemons reading them from one server takes an hour at 16,384 processes. With global status a daemon asks first how the
//! file is distributed. If it is well distributed, the daemon reads it. Else its request goes up a tree of processes to the front end:
//!
//! ```text
//!            front end ── opens the file, once
//!            /   |   \
//!         inner inner inner ── keep files for later requests
//!         / | \
//!   daemon daemon daemon ── those who asked get it
//! ```
//!
//! The front end sends the contents only down paths to daemons that asked, and inner processes keep them. So a daemon that asks later costs no read, and
//! no message above the process that has the file.
//!
//! In the paper the front end reads all files that are not well distributed. Here the lowest rank of each class does, as the front end may see another
//! file under the path; the files of this program are unique, so that this rank is the front end. Where all daemons need a file at one time,
//! `atta_status::Sources` does the same with one collective call, in parts, for files of any size.
//!
//! ```text
//! cargo run -p atta-examples --example stat
//! mpirun -np 21 target/debug/examples/stat
//! ```
//!
//! Figures 8 and 9 of the paper show the time of attaching and sampling over the number of processes. The first table has the calls of open from which
//! these times follow; `docs/where.md` has the times of a model. Ranks are emulated hosts. The ranks without children are the daemons, for 16
//! processes each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use atta_examples::{
    Counts, Fabric, Failure, File, Opens, Reader, Routes, Server, Site, Table, Traffic, expect, host_table,
    join, lanes, shared,
};
use atta_fabric::Endpoint;
use atta_runtime::Session;
use atta_status::{Answer, MountMap, Options, Status, SystemFiles};

/// Front end, inner processes and daemons: trees of 1 to 4 levels below the front end.
const RANKS: [u32; 4] = [5, 21, 85, 341];
const DEGREE: u32 = 4;
const PROCESSES_OF_DAEMON: u32 = 16;
/// Of this tree the second table shows who receives what.
const SHOWN: u32 = 21;

const EXECUTABLE: &str = "project/app";
const LIBRARY: &str = "project/libmesh.so";
/// On a disk of each host.
const SYSTEM_LIBRARY: &str = "system/libc.so";
const SERVER: &str = "nfs://10.0.0.5/project";

fn mounts() -> [(&'static str, String); 2] {
    [("project", "nfs4 10.0.0.5:/project rw".to_owned()), ("system", "xfs /dev/nvme0n1 rw".to_owned())]
}

fn make(top: &Path) -> std::io::Result<()> {
    ["project", "system"].iter().try_for_each(|name| std::fs::create_dir(top.join(name)))?;
    std::fs::write(top.join(EXECUTABLE), b"symbols of the program\n".repeat(10_000))?;
    std::fs::write(top.join(LIBRARY), b"symbols of the mesh\n".repeat(1_000))?;
    std::fs::write(top.join(SYSTEM_LIBRARY), b"symbols of the system\n")
}

/// The shape of the tree: rank 0 has the ranks 1 to 4 as children, these have the next 16, and so on.
#[derive(Clone, Copy)]
struct Tree {
    ranks: u32,
}

impl Tree {
    fn parent(rank: u32) -> Option<u32> {
        rank.checked_sub(1).map(|before| before / DEGREE)
    }

    fn daemons(self) -> BTreeSet<u32> {
        let inner: BTreeSet<u32> = (0..self.ranks).filter_map(Self::parent).collect();
        (0..self.ranks).filter(|rank| !inner.contains(rank)).collect()
    }

    fn levels(self) -> usize {
        std::iter::successors(Some(self.ranks - 1), |rank| Self::parent(*rank)).count() - 1
    }
}

/// A time at which daemons ask for a file.
struct Phase {
    what: &'static str,
    file: &'static str,
    askers: BTreeSet<u32>,
}

/// All attach; then one daemon sees the library on its stack, later those beside it do, then the last one.
fn phases(tree: Tree) -> [Phase; 4] {
    let all = tree.daemons();
    let (first, last) =
        (all.iter().next().copied().unwrap_or(0), all.iter().next_back().copied().unwrap_or(0));
    let beside =
        all.iter().copied().filter(|rank| *rank != first && Tree::parent(*rank) == Tree::parent(first));
    let beside = beside.collect();
    let phase = |what, file, askers| Phase { what, file, askers };
    [
        phase("all daemons attach", EXECUTABLE, all),
        phase("one samples", LIBRARY, [first].into()),
        phase("those beside it sample later", LIBRARY, beside),
        phase("the last one samples later", LIBRARY, [last].into()),
    ]
}

/// What happened in a phase.
struct Seen {
    traffic: Vec<Traffic>,
    counts: Counts,
}

/// A row of the first table: calls of open for executable and library, without and with the tree.
struct Row {
    tree: Tree,
    direct: [u64; 2],
    multicast: [u64; 2],
    text: Option<String>,
}

#[expect(clippy::print_stdout, reason = "a program for a terminal")]
fn main() -> Result<(), Failure> {
    let mut fabric = Fabric::find()?;
    let headings =
        ["processes", "daemons", "levels", "each reads: attach", "sample", "multicast: attach", "sample"];
    let (mut table, mut texts, mut is_first) = (Table::new(&headings), Vec::new(), false);
    for ranks in fabric.sizes(&RANKS) {
        expect("more than one rank", &(ranks > 1), &true)?;
        let (row, rank) = fabric.run(ranks, |endpoint| Ok((run(endpoint)?, endpoint.rank())))?;
        let (daemons, [attach, sample], [one_attach, one_sample]) =
            (row.tree.daemons().len() as u32, row.direct, row.multicast);
        let (processes, levels) = (daemons * PROCESSES_OF_DAEMON, row.tree.levels());
        table.row(&[&processes, &daemons, &levels, &attach, &sample, &one_attach, &one_sample]);
        texts.extend(row.text);
        is_first = rank == 0;
    }
    if is_first {
        println!("opens at {SERVER}:\n{table}\n\n{}", texts.join("\n"));
    }
    fabric.leave()
}

fn run(endpoint: &mut dyn Endpoint) -> Result<Row, Failure> {
    let (rank, tree) = (endpoint.rank(), Tree { ranks: endpoint.size() });
    let [mut queries, mut overlay] = lanes(endpoint);
    let mut session = join(&mut queries, "stat")?;
    let site = Site::share(&mut session, "stat", make)?;
    let table = host_table(&site, rank, &mounts())?;
    let status = Status::join(&mut session, &table, Options::default())?;
    // Asked before each file; no question needs a message.
    let map = MountMap::build(&status, &mut session)?;
    expect("executable is unique", &map.is_unique(&site.path(EXECUTABLE)), &Answer::Yes)?;
    expect("system is well distributed", &map.is_well_distributed(&site.path(SYSTEM_LIBRARY)), &Answer::Yes)?;

    let phases = phases(tree);
    // Without the tree: each daemon reads by itself.
    let mut reader = Reader::new(&table, &map, &SystemFiles);
    let direct = run_phases(&mut session, &site, &phases, &mut reader)?;

    // With it.
    let routes = Routes::new(&map, (rank, tree.ranks), DEGREE);
    let mut server = Server::new(&mut overlay, routes, Reader::new(&table, &map, &SystemFiles));
    let multicast = run_phases(&mut session, &site, &phases, &mut server)?;
    session.close((), |(), ()| ())?;

    expect("files are the same", &(direct.1 == multicast.1), &true)?;
    check(&phases, &direct.0, &multicast.0)?;
    let opens =
        |all: &[Seen]| [0..1, 1..4].map(|range| all[range].iter().map(|seen| opened(&seen.counts)).sum());
    let text = (rank == 0 && tree.ranks == SHOWN).then(|| text(tree, &phases, &multicast.0));
    Ok(Row { tree, direct: opens(&direct.0), multicast: opens(&multicast.0), text })
}

/// How a daemon gets files.
trait Access {
    fn get(&mut self, path: &[u8]) -> Result<File, Failure>;
    /// All daemons have what they wanted. Returns what this rank has received, and opened.
    fn end_phase(&mut self) -> Result<(Traffic, Counts), Failure>;
}

impl Access for Reader<'_> {
    fn get(&mut self, path: &[u8]) -> Result<File, Failure> {
        Ok(self.read(path))
    }

    fn end_phase(&mut self) -> Result<(Traffic, Counts), Failure> {
        Ok((Traffic::default(), self.take_counts()))
    }
}

impl Access for Server<'_> {
    fn get(&mut self, path: &[u8]) -> Result<File, Failure> {
        Server::get(self, path)
    }

    fn end_phase(&mut self) -> Result<(Traffic, Counts), Failure> {
        Server::end_phase(self)?;
        Ok((self.take_traffic(), self.reader().take_counts()))
    }
}

/// Runs all phases on this rank. Returns what was counted on all ranks, and the files of this one.
fn run_phases(
    session: &mut Session<'_>,
    site: &Site,
    phases: &[Phase],
    access: &mut dyn Access,
) -> Result<(Vec<Seen>, Vec<File>), Failure> {
    let (rank, mut files, mut all) = (session.seat().rank, Vec::new(), Vec::new());
    for phase in phases {
        if phase.askers.contains(&rank) {
            files.push(access.get(&site.path(phase.file))?);
            files.push(access.get(&site.path(SYSTEM_LIBRARY))?);
        }
        let (traffic, counts) = access.end_phase()?;
        let traffic = shared(session, traffic)?;
        let counts = session.all_reduce(counts, |all, more| {
            for (source, opens) in more {
                let sum: &mut Opens = all.entry(source).or_default();
                (sum.opened, sum.failed) = (sum.opened + opens.opened, sum.failed + opens.failed);
            }
        })?;
        all.push(Seen { traffic, counts });
    }
    Ok((all, files))
}

/// Files that were opened at the server.
fn opened(counts: &Counts) -> u64 {
    counts.get(SERVER).map_or(0, |opens| opens.opened)
}

/// The first request for a file opens it, and no later one. Files come to those who asked, through the processes above them that had none.
fn check(phases: &[Phase], direct: &[Seen], multicast: &[Seen]) -> Result<(), Failure> {
    let mut known: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (phase, (direct, multicast)) in phases.iter().zip(direct.iter().zip(multicast)) {
        let askers = phase.askers.len() as u64;
        expect("opens of a phase, each reads", &opened(&direct.counts), &askers)?;
        let known = known.entry(phase.file).or_default();
        expect("opens of a phase, multicast", &opened(&multicast.counts), &u64::from(known.is_empty()))?;
        known.insert(0);
        let mut receivers = BTreeSet::new();
        for asker in &phase.askers {
            let path = std::iter::successors(Some(*asker), |rank| Tree::parent(*rank));
            receivers.extend(path.take_while(|rank| !known.contains(rank)));
        }
        let received: BTreeSet<u32> = receivers_of(&multicast.traffic).collect();
        expect("ranks that received the file", &received, &receivers)?;
        let answers: u64 = multicast.traffic.iter().map(|traffic| traffic.answers).sum();
        expect("times that it was sent", &answers, &(receivers.len() as u64))?;
        known.extend(receivers);
        for seen in [direct, multicast] {
            let at_hosts = seen.counts.get("each host").copied().unwrap_or_default();
            expect("system libraries are read directly", &at_hosts, &Opens { opened: askers, failed: 0 })?;
        }
    }
    Ok(())
}

fn receivers_of(traffic: &[Traffic]) -> impl Iterator<Item = u32> {
    (0..).zip(traffic).filter(|(_, traffic)| traffic.answers > 0).map(|(rank, _)| rank)
}

fn text(tree: Tree, phases: &[Phase], seen: &[Seen]) -> String {
    let ranks =
        |all: &mut dyn Iterator<Item = u32>| all.map(|rank| rank.to_string()).collect::<Vec<_>>().join(" ");
    let mut table = Table::new(&[
        "phase",
        "opens",
        "requests at the front end",
        "daemons that ask",
        "ranks that receive",
    ]);
    for (phase, seen) in phases.iter().zip(seen) {
        let (opens, requests) = (opened(&seen.counts), seen.traffic[0].requests);
        let (mut askers, mut receivers) = (phase.askers.iter().copied(), receivers_of(&seen.traffic));
        let (askers, receivers) = match phase.askers.len() == tree.daemons().len() {
            true => ("all".to_owned(), "all but the front end".to_owned()),
            false => (ranks(&mut askers), ranks(&mut receivers)),
        };
        table.row(&[&phase.what, &opens, &requests, &askers, &receivers]);
    }
    let ranks = tree.ranks;
    format!(
        "paths in the tree of {ranks} ranks (rank 0 is the front end, 1 to {DEGREE} are inner processes):\n{table}"
    )
}
