//! Queries of `atta-status` on all ranks of a job, one after the other.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use atta_code::Code;
use atta_entry::Errno;
use atta_mounts::{Host, MountTable, Silent};
use atta_sim::{Network, NotYet, RankTree, StepCosts, StepTraffic, Steps, Topology, Turn};
use atta_status::{Collective, Contents, Digest, Options, Ranks, Status, StatusError};

/// Ranks on each host of the paper's machines.
pub(crate) const RANKS_PER_HOST: u32 = 16;

/// Where ranks run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) ranks: u32,
    pub(crate) tree: RankTree,
    pub(crate) network: Network,
    pub(crate) costs: StepCosts,
}

impl Job {
    /// MPI on the interconnect of a large machine.
    pub(crate) fn mpi(ranks: u32, tree: RankTree) -> Self {
        let network = Network::interconnect(Topology::FatTree { arity: 32 }, RANKS_PER_HOST);
        Self { ranks, tree, network, costs: StepCosts::QUERIES }
    }

    /// TCP on the same machine, as MRNet has it: assumed, 30 us for a message and 5 us more on either side.
    pub(crate) fn tcp(ranks: u32) -> Self {
        let mpi = Self::mpi(ranks, RankTree::Binomial);
        let network = Network { base_ns: 30_000, shared_ns: 10_000, bytes_per_us: 1_000, ..mpi.network };
        Self { network, costs: StepCosts { send_ns: 5_000, receive_ns: 5_000, ..mpi.costs }, ..mpi }
    }

    pub(crate) fn hosts(&self) -> u32 {
        self.ranks.div_ceil(RANKS_PER_HOST)
    }

    /// The host of a rank.
    pub(crate) fn host(&self, rank: u32) -> u32 {
        self.network.host(rank)
    }
}

/// What a query gave, and cost.
#[derive(Clone, Debug)]
pub(crate) struct Asked<T> {
    /// By rank.
    pub(crate) values: Vec<T>,
    /// From all ranks' begin to the last rank's end.
    pub(crate) us: f64,
    pub(crate) traffic: StepTraffic,
    pub(crate) merged: Merged,
}

/// Messages that ranks have decoded and merged here, and what this took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Merged {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    counting: Duration,
}

impl Merged {
    fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            took: self.took + other.took,
            counting: self.counting + other.counting,
        }
    }
}

impl<T: PartialEq + std::fmt::Debug> Asked<T> {
    /// The value that all ranks have.
    pub(crate) fn common(&self) -> &T {
        let first = &self.values[0];
        assert!(self.values.iter().all(|value| value == first), "ranks have different answers");
        first
    }
}

/// The mount at `/m` of a rank, as a mount table has it from the type on.
pub(crate) type Mount<'m> = &'m dyn Fn(u32) -> String;

/// The table of a rank: a local root, and mounts.
pub(crate) fn table(host: u32, mounts: &str) -> MountTable {
    let text = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{mounts}");
    let (boot, name) = (format!("boot-{host}"), format!("node{host}"));
    MountTable::from_bytes(text.as_bytes(), &Silent::on(Host::new(boot.as_bytes(), name.as_bytes()))).unwrap()
}

fn at_m(mount: &str) -> String {
    format!("2 1 0:40 / /m rw - {mount}\n")
}

/// Files whose contents are equal on all ranks, with the time that it takes to read them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) bytes: u64,
    /// Nanoseconds for each KiB.
    pub(crate) kib_ns: u64,
    /// What this rank has read since its last step, in nanoseconds.
    spent_ns: Cell<u64>,
    /// How often a file was read, over all passes.
    pub(crate) reads: Cell<u64>,
}

impl Files {
    pub(crate) fn of(bytes: u64, kib_ns: u64) -> Self {
        Self { bytes, kib_ns, ..Self::default() }
    }
}

impl Contents for Files {
    fn size(&self, _path: &[u8]) -> Result<Option<u64>, Errno> {
        Ok(Some(self.bytes))
    }

    fn digest(&self, _path: &[u8], begin: u64, end: Option<u64>) -> Result<Digest, Errno> {
        let bytes = end.unwrap_or(self.bytes) - begin;
        self.spent_ns.set(self.spent_ns.get() + bytes.div_ceil(1024) * self.kib_ns);
        self.reads.set(self.reads.get() + 1);
        Ok([7; 32])
    }
}

/// The turn of a rank, as the queries need it.
pub(crate) struct Seat<'s, 't> {
    turn: &'s mut Turn<'t>,
    files: &'s Files,
    merged: &'s Cell<Merged>,
}

impl Seat<'_, '_> {
    fn work(&mut self) {
        self.turn.work(self.files.spent_ns.take());
    }
}

impl Collective for Seat<'_, '_> {
    type Error = NotYet;

    fn rank(&self) -> u32 {
        self.turn.rank()
    }

    fn size(&self) -> u32 {
        self.turn.size()
    }

    fn reduce<T: Code>(&mut self, own: T, mut merge: impl FnMut(&mut T, T)) -> Result<Option<T>, NotYet> {
        self.work();
        let is_measured = self.turn.is_measured();
        let (mut merged, began) = (Merged::default(), Instant::now());
        let all = self.turn.reduce(own, |all, more| {
            let began = Instant::now();
            merged.messages += 1;
            merged.bytes += more.encoded().len() as u64;
            // Counting is not part of it.
            merged.counting += began.elapsed();
            merge(all, more);
        })?;
        if is_measured && merged.messages > 0 {
            merged.took = began.elapsed().saturating_sub(merged.counting);
            self.merged.set(self.merged.get().and(merged));
        }
        Ok(all)
    }

    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, NotYet> {
        self.work();
        self.turn.broadcast(value)
    }

    fn multicast<T: Code>(&mut self, group: &Ranks, value: Option<T>) -> Result<Option<T>, NotYet> {
        self.work();
        self.turn.multicast(&group.iter().collect::<Vec<_>>(), value)
    }
}

/// Asks something on all ranks, each with a mount at `/m`. What `Status::join` costs does not count.
pub(crate) fn ask<T>(
    job: Job,
    mount: Mount<'_>,
    query: impl Fn(&Status<'_>, &mut Seat<'_, '_>) -> Result<T, StatusError<NotYet>>,
) -> Asked<T> {
    ask_of(job, &|rank| at_m(&mount(rank)), &Files::default(), query)
}

/// The same with all mounts of a rank, and contents of files.
pub(crate) fn ask_of<T>(
    job: Job,
    mounts: Mount<'_>,
    files: &Files,
    query: impl Fn(&Status<'_>, &mut Seat<'_, '_>) -> Result<T, StatusError<NotYet>>,
) -> Asked<T> {
    let mut steps = Steps::new(job.ranks, job.tree, job.network, job.costs).measured_from(2);
    let (merged, last) = (Cell::default(), RefCell::new(None::<(u32, String, MountTable)>));
    let values = steps.run(|turn| {
        let (host, text) = (job.host(turn.rank()), mounts(turn.rank()));
        let mut last = last.borrow_mut();
        // Ranks of a host mostly have one table.
        if !last.as_ref().is_some_and(|(of, with, _)| *of == host && *with == text) {
            *last = Some((host, text.clone(), table(host, &text)));
        }
        let (_, _, table) = last.as_ref().unwrap();
        let mut seat = Seat { turn, files, merged: &merged };
        let status = Status::join(&mut seat, table, Options::default())?.with_contents(files);
        query(&status, &mut seat)
    });
    Asked {
        values: values.unwrap(),
        us: steps.end_ns() as f64 / 1e3,
        traffic: steps.traffic(),
        merged: merged.get(),
    }
}

/// One NFS export for all.
pub(crate) fn unique(_rank: u32) -> String {
    "nfs4 10.0.0.5:/e rw".to_owned()
}

/// A file system in memory on each host.
pub(crate) fn local(_rank: u32) -> String {
    "tmpfs none rw".to_owned()
}

/// A GPFS cluster, whose name differs from those of all others.
pub(crate) fn cluster(number: u32) -> String {
    format!("gpfs /dev/fs rw,dev=c{number}:fs")
}
