//! **SPINDLE**: load a program's shared libraries on many nodes. The second use in Ahn et al. 2013 (FGFS), section V.C.
//!
//! The loader of each process looks for each library in one directory after the other, until it finds it. Most of these calls fail, and no client
//! of a file system may keep that a name does not exist. With thousands of processes the file server gets millions of them. SPINDLE has a
//! server on each node, which answers the loaders of its node; the servers form trees. For each path a server asks the map of mount points,
//! which takes no message ([`Routes`]):
//!
//! | the path is | who opens it |
//! | --- | --- |
//! | unique: on one server for all | the root of one tree, for all |
//! | poorly distributed: on few servers | one representative of each class, the root of a tree of its own |
//! | well distributed: on many, or on each host | each loader for itself |
//!
//! Servers keep files, and that a name does not exist ([`Cache`](atta_examples::Cache)). So each name of a tree is looked up at its source once.
//!
//! ```text
//! cargo run -p atta-examples --example spindle
//! mpirun -np 16 target/debug/examples/spindle
//! ```
//!
//! Each rank is the server of an emulated host with four processes. These load the same libraries twice: by themselves, and through the servers. The
//! libraries are small text files, and what is emulated is who has mounted what.

use std::collections::BTreeMap;
use std::path::Path;

use atta_examples::{
    Counts, Fabric, Failure, File, Opens, Reader, Routes, Server, Site, Table, expect, host_table, join,
    lanes, shared,
};
use atta_fabric::Endpoint;
use atta_status::{Answer, MountMap, Options, Status, SystemFiles};

const RANKS: u32 = 16;
const PROCESSES_OF_HOST: u64 = 4;
/// Children of a server.
const DEGREE: u32 = 2;
/// Two servers for 16 ranks are few. The default is a server for 64 ranks.
const OPTIONS: Options =
    Options { ranks_per_server: 4, classes_max: 64, servers_max: 420_000, assume_servers_differ: false };

/// The search path of the loader, with the number of libraries in each directory.
const SEARCH_PATH: [(&str, usize); 4] = [("compiler", 0), ("system", 2), ("packages", 8), ("project", 10)];
/// What each process calls at each directory: names that it finds, and names that are not there. One library is in none.
const CALLS: [(&str, Opens); 4] = [
    ("compiler", Opens { opened: 0, failed: 21 }),
    ("system", Opens { opened: 2, failed: 19 }),
    ("packages", Opens { opened: 8, failed: 11 }),
    ("project", Opens { opened: 10, failed: 1 }),
];

/// The packages are on two servers, and each half of the hosts has mounted one of them.
fn mounts(host: u32) -> [(&'static str, String); 4] {
    [
        ("compiler", "nfs4 10.0.0.5:/compiler rw".to_owned()),
        ("system", "xfs /dev/nvme0n1 rw".to_owned()),
        ("packages", format!("nfs4 10.0.0.{}:/packages rw", 8 + host % 2)),
        ("project", "nfs4 10.0.0.5:/project rw".to_owned()),
    ]
}

/// The names that the program needs, in an order of its own.
fn libraries() -> Vec<String> {
    let of = |(directory, count): &(&str, usize)| {
        (0..*count).map(|number| format!("lib{directory}{number}.so")).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = SEARCH_PATH.iter().rev().flat_map(of).collect();
    all.push("libplugin.so".to_owned());
    all
}

fn make(top: &Path) -> std::io::Result<()> {
    SEARCH_PATH.iter().try_for_each(|(directory, count)| {
        std::fs::create_dir(top.join(directory))?;
        (0..*count).try_for_each(|number| {
            let name = format!("lib{directory}{number}.so");
            std::fs::write(top.join(directory).join(&name), format!("code of {name}\n").repeat(100))
        })
    })
}

fn main() -> Result<(), Failure> {
    Fabric::print_of(RANKS, run)
}

/// A rank. Returns the text of rank 0.
fn run(endpoint: &mut dyn Endpoint) -> Result<Option<String>, Failure> {
    let rank = endpoint.rank();
    let [mut queries, mut tree] = lanes(endpoint);
    let mut session = join(&mut queries, "spindle")?;
    let site = Site::share(&mut session, "spindle", make)?;
    let table = host_table(&site, rank, &mounts(rank))?;
    let status = Status::join(&mut session, &table, OPTIONS)?;
    // From here on no question needs a message.
    let map = MountMap::build(&status, &mut session)?;
    let distributions = SEARCH_PATH.map(|(directory, _)| distribution(&map, &site.path(directory)));
    expect("distributions", &distributions, &["unique", "well distributed", "poorly distributed", "unique"])?;

    // Without servers.
    let mut reader = Reader::new(&table, &map, &SystemFiles);
    let mut alone = Vec::new();
    for _process in 0..PROCESSES_OF_HOST {
        alone.push(load(&site, &mut |path| Ok(reader.read(path)))?);
    }
    let counts_alone = summed(shared(&mut session, reader.take_counts())?);

    // With them.
    let routes = Routes::new(&map, (rank, RANKS), DEGREE);
    let mut server = Server::new(&mut tree, routes, Reader::new(&table, &map, &SystemFiles));
    let mut served = Vec::new();
    for _process in 0..PROCESSES_OF_HOST {
        served.push(load(&site, &mut |path| server.get(path))?);
    }
    server.end_phase()?;
    let counts_served = summed(shared(&mut session, server.reader().take_counts())?);
    let answers = shared(&mut session, server.take_traffic().answers)?;
    session.close((), |(), ()| ())?;

    expect("libraries that were found", &alone[0].len(), &20)?;
    expect("same libraries with and without servers", &(alone == served), &true)?;
    check(&counts_alone, &counts_served, &answers)?;
    Ok((rank == 0).then(|| text(&site, &map, &counts_alone, &counts_served)))
}

/// How a directory is distributed.
fn distribution(map: &MountMap, path: &[u8]) -> &'static str {
    match (map.is_well_distributed(path), map.is_unique(path), map.is_poorly_distributed(path)) {
        (Answer::Yes, _, _) => "well distributed",
        (_, Answer::Yes, _) => "unique",
        (_, _, Answer::Yes) => "poorly distributed",
        _ => "unknown",
    }
}

/// What a process has loaded, by name: where it was, and its contents.
type Loaded = BTreeMap<String, (Vec<u8>, Vec<u8>)>;

/// The loader: each library from the first directory that has it. A name that is not there is no error before the last directory.
fn load(site: &Site, read: &mut dyn FnMut(&[u8]) -> Result<File, Failure>) -> Result<Loaded, Failure> {
    let mut loaded = Loaded::new();
    for library in libraries() {
        for (directory, _) in SEARCH_PATH {
            let path = site.path(&format!("{directory}/{library}"));
            if let Ok(contents) = read(&path)? {
                loaded.insert(library, (path, contents));
                break;
            }
        }
    }
    Ok(loaded)
}

fn summed(all: Vec<Counts>) -> Counts {
    let mut sum = Counts::new();
    for (source, opens) in all.into_iter().flatten() {
        let total = sum.entry(source).or_default();
        total.opened += opens.opened;
        total.failed += opens.failed;
    }
    sum
}

/// The source of a directory, and how many of all processes use it.
fn sources() -> [(&'static str, &'static str, u64); 5] {
    let all = u64::from(RANKS) * PROCESSES_OF_HOST;
    [
        ("compiler", "nfs://10.0.0.5/compiler", all),
        ("system", "each host", all),
        ("packages", "nfs://10.0.0.8/packages", all / 2),
        ("packages", "nfs://10.0.0.9/packages", all / 2),
        ("project", "nfs://10.0.0.5/project", all),
    ]
}

/// Without servers each process calls at each source. With them one server does, but where the source is the host itself.
fn check(alone: &Counts, served: &Counts, answers: &[u64]) -> Result<(), Failure> {
    let times =
        |opens: Opens, times: u64| Opens { opened: opens.opened * times, failed: opens.failed * times };
    let expected = |is_served: bool| -> Counts {
        let of = |(directory, source, processes): (&str, &str, u64)| {
            let calls = CALLS
                .iter()
                .find(|(name, _)| *name == directory)
                .map_or(Opens::default(), |(_, calls)| *calls);
            let callers = if is_served && directory != "system" { 1 } else { processes };
            (source.to_owned(), times(calls, callers))
        };
        sources().into_iter().map(of).collect()
    };
    expect("calls without servers", alone, &expected(false))?;
    expect("calls with servers", served, &expected(true))?;
    // 21 names of the compiler, 11 of the project, 19 of the packages: each server receives each of them once, though four processes ask. Rank 0
    // is the root for all of them, rank 1 for the packages of the second server.
    let mut expected = vec![21 + 11 + 19; RANKS as usize];
    (expected[0], expected[1]) = (0, 21 + 11);
    expect("answers that servers received", &answers.to_vec(), &expected)
}

fn text(site: &Site, map: &MountMap, alone: &Counts, served: &Counts) -> String {
    let headings =
        ["directory", "source", "distribution", "opened", "not found", "with trees: opened", "not found"];
    let mut table = Table::new(&headings);
    let mut sum = [0; 4];
    for (directory, source, _) in sources() {
        let of = |counts: &Counts| counts.get(source).copied().unwrap_or_default();
        let (alone, served) = (of(alone), of(served));
        let numbers = [alone.opened, alone.failed, served.opened, served.failed];
        if directory != "system" {
            sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        let [opened, failed, few_opened, few_failed] = numbers;
        let distribution = distribution(map, &site.path(directory));
        table.row(&[&directory, &source, &distribution, &opened, &failed, &few_opened, &few_failed]);
    }
    let [opened, failed, few_opened, few_failed] = sum;
    table.row(&[&"all", &"file servers", &"", &opened, &failed, &few_opened, &few_failed]);
    let (processes, libraries) = (u64::from(RANKS) * PROCESSES_OF_HOST, libraries().len());
    format!("{processes} processes on {RANKS} hosts look for {libraries} libraries:\n{table}")
}
