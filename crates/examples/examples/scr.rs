//! **SCR**: where to write a checkpoint. The third use in Ahn et al. 2013 (FGFS), section V.D.
//!
//! The Scalable Checkpoint/Restart library writes most checkpoints to storage near the nodes, which is fast and gets lost with a node. So it keeps
//! a copy of each checkpoint elsewhere. Which storage a machine has, how large and how fast it is and who shares it used to be in a
//! configuration file. With global file status a job finds out by itself:
//!
//! 1. [`places`] returns the mount points that suit: all ranks that share a file system have room for their checkpoints, and can write. The
//!    best one comes first.
//! 2. [`measure`] returns its speed, from which the time of a checkpoint follows, and so how often to write one.
//! 3. [`Status::groups`] returns the ranks that share one file system of it, and so fail together: each copy goes to another group.
//!
//! ```text
//! cargo run -p atta-examples --example scr
//! mpirun -np 16 target/debug/examples/scr
//! ```
//!
//! The hosts are emulated, four ranks each: a tmpfs and an SSD on each host, a burst buffer for two hosts, Lustre for all. Their sizes are made up. The
//! speed is real, but that of the scratch directory, whichever file system is emulated. The program writes no checkpoint.

use std::time::SystemTime;

use atta_entry::Errno;
use atta_examples::{Fabric, Failure, Site, Table, expect, host_table, join, shared};
use atta_fabric::Endpoint;
use atta_mounts::MountTable;
use atta_runtime::Session;
use atta_status::{
    DistributionRequirement, Group, MountMap, NoRoom, Options, Place, Quota, Requirements, Room, Rooms,
    Search, Speeds, Status, SystemRooms, measure, mount_name, own_sources, places,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const RANKS: u32 = 16;
const RANKS_OF_HOST: u32 = 4;
/// The mean time between two failures of the job, in seconds.
const FAILURE_EVERY: f64 = 86_400.0;

/// The storage of the emulated machine: name, and size of each file system.
const STORAGE: [(&str, u64); 4] =
    [("memory", GIB), ("ssd", 40 * GIB), ("burst", 400 * GIB), ("lustre", 8192 * GIB)];

fn mounts(host: u32) -> [(&'static str, String); 4] {
    [
        ("memory", "tmpfs none rw".to_owned()),
        ("ssd", "xfs /dev/nvme0n1 rw".to_owned()),
        ("burst", format!("fuse.daos dfuse rw,pool=burst{},container=job", host / 2)),
        ("lustre", "lustre 10.0.0.9@tcp:/work rw".to_owned()),
    ]
}

/// A job that writes checkpoints, and the expected result.
struct Job {
    bytes_each: u64,
    distribution: Option<DistributionRequirement>,
    best: &'static str,
    /// Hosts that share one file system of it. None: all.
    hosts_of_group: Option<u32>,
}

/// The score of a place is `scalability / max(scalability, ranks for each source) * speed / speed of the fastest`. By the table of types memory
/// has 1 / 4, the burst buffer 6 / 8 * 1 / 10, the SSD 1 / 4 * 2 / 10, Lustre 6 / 16 * 1 / 10: with room everywhere that is their order.
const JOBS: [Job; 4] = [
    Job { bytes_each: 64 * MIB, distribution: None, best: "memory", hosts_of_group: Some(1) },
    Job { bytes_each: 512 * MIB, distribution: None, best: "burst", hosts_of_group: Some(2) },
    Job {
        bytes_each: 512 * MIB,
        distribution: Some(DistributionRequirement::Full),
        best: "ssd",
        hosts_of_group: Some(1),
    },
    Job { bytes_each: 200 * GIB, distribution: None, best: "lustre", hosts_of_group: None },
];

fn main() -> Result<(), Failure> {
    Fabric::print_of(RANKS, run)
}

/// A rank. Returns the text of rank 0.
fn run(endpoint: &mut dyn Endpoint) -> Result<Option<String>, Failure> {
    let mut session = join(endpoint, "scr")?;
    let rank = session.seat().rank;
    let make =
        |top: &std::path::Path| STORAGE.iter().try_for_each(|(name, _)| std::fs::create_dir(top.join(name)));
    let site = Site::share(&mut session, "scr", make)?;
    let host = rank / RANKS_OF_HOST;
    // On a real machine: `MountTable::from_bytes` of /proc/self/mountinfo, with `SystemProbes`.
    let table = host_table(&site, host, &mounts(host))?;
    let status = Status::join(&mut session, &table, Options::default())?;
    let map = MountMap::build(&status, &mut session)?;
    let mut texts = Vec::new();
    for job in &JOBS {
        let scr = Scr { site: &site, table: &table, status: &status, map: &map };
        texts.push(scr.plan(&mut session, job)?);
    }
    session.close((), |(), ()| ())?;
    Ok((rank == 0).then(|| texts.join("\n\n")))
}

/// The space of the emulated file systems. Whether a file can be made is tried in the real directory.
struct Emulated<'s>(&'s Site);

impl Rooms for Emulated<'_> {
    fn rooms(&self, points: &[Vec<u8>], is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
        let real = SystemRooms::default().rooms(points, is_write_wanted);
        let size = |point: &Vec<u8>| STORAGE.iter().find(|(name, _)| self.0.path(name) == *point);
        let emulated = |(point, room): (&Vec<u8>, Result<Room, NoRoom>)| {
            let (_, available) = *size(point).ok_or(NoRoom::Unreadable(Errno::NOENT))?;
            room.map(|room| Room { available, quota: Quota::Unlimited, ..room })
        };
        points.iter().zip(real).map(emulated).collect()
    }
}

/// What a rank knows.
struct Scr<'s> {
    site: &'s Site,
    table: &'s MountTable,
    status: &'s Status<'s>,
    map: &'s MountMap,
}

impl Scr<'_> {
    /// Finds the best place for the checkpoints of a job, its speed, and partners. All ranks call this together.
    fn plan(&self, session: &mut Session<'_>, job: &Job) -> Result<String, Failure> {
        // 1. Where?
        let found = self.search(session, job, &Speeds::default())?;
        let best = found.first().filter(|place| place.is_suitable());
        let best = best.ok_or_else(|| Failure::new("no place suits"))?;
        expect("best place", &best.point, &self.site.path(job.best))?;
        // 2. How fast? The answer is that of the slowest rank which measured.
        let speeds = self.measured(session, &best.point)?;
        let again = self.search(session, job, &speeds)?;
        let speed =
            again.iter().find(|place| place.point == best.point).and_then(|place| place.speed.measured);
        let speed = speed.filter(|speed| *speed > 0).ok_or_else(|| Failure::new("nothing was measured"))?;
        // 3. Who shares it? Of this answer each rank has all groups with all members.
        let shares = self.status.groups(session, &best.point)?;
        let partner = shares.own_group().and_then(|own| partner(shares.list(), own, session.seat().rank));
        let partners = shared(session, partner)?;
        check(job, shares.list(), &partners)?;
        let seconds = seconds_of_checkpoint(job, best, speed);
        Ok([self.places_text(job, &found), speed_text(speed, seconds), groups_text(shares.list(), &partners)]
            .join("\n"))
    }

    fn search(&self, session: &mut Session<'_>, job: &Job, speeds: &Speeds) -> Result<Vec<Place>, Failure> {
        let requirements = Requirements {
            space_each: job.bytes_each,
            distribution: job.distribution,
            writable: true,
            ..Requirements::default()
        };
        let rooms = Emulated(self.site);
        Ok(places(self.status, session, self.map, &Search { requirements, speeds, rooms: &rooms })?)
    }

    /// The speed of a place, measured by one rank of each group that shares it. To base the choice on measured speeds, too, a job measures all
    /// places that `own_sources` returns, before it searches. Speeds can be kept in a file from job to job (`Speeds::save`).
    fn measured(&self, session: &mut Session<'_>, point: &[u8]) -> Result<Speeds, Failure> {
        let mut speeds = Speeds::default();
        let is_own = own_sources(self.status, session, self.map)?.iter().any(|own| own == point);
        let name = self.table.uri_of(point).map(|uri| mount_name(&uri));
        if let (true, Some(name)) = (is_own, name) {
            let directory = self.site.real(&self.site.short(point)[1..]);
            // `beside`: this rank answers others meanwhile.
            let speed = session.beside(|| measure(&directory))?;
            let speed = speed.map_err(|errno| Failure::new(format!("{}: {errno}", directory.display())))?;
            speeds.insert(name, speed, SystemTime::now());
        }
        Ok(speeds)
    }

    fn places_text(&self, job: &Job, found: &[Place]) -> String {
        let each = job.bytes_each / MIB;
        let full = if job.distribution.is_some() { ", each host its own" } else { "" };
        let mut table =
            Table::new(&["place", "type", "file systems", "MiB needed", "MiB available", "score", "suits"]);
        for place in found {
            let (needed, available) =
                place.tightest.map_or((0, 0), |tightest| (tightest.need / MIB, tightest.available / MIB));
            let unmet: Vec<_> = place.unmet.iter().map(ToString::to_string).collect();
            let suits = if unmet.is_empty() { "yes".to_owned() } else { unmet.join(", ") };
            let (kind, score) = (String::from_utf8_lossy(&place.kind), format!("{:.4}", place.score));
            let name = self.site.short(&place.point);
            table.row(&[&name, &kind, &place.sources, &needed, &available, &score, &suits]);
        }
        format!("{each} MiB for each rank{full}:\n{table}")
    }
}

/// The rank to which this one copies its checkpoint: one of the next group, so that no group keeps both. None: all ranks share one file system, or
/// two groups may share one.
fn partner(groups: &[Group], own: &Group, rank: u32) -> Option<u32> {
    let next = (groups.iter().position(|group| group == own)? + 1) % groups.len();
    let next = groups.get(next).filter(|next| *next != own && next.is_certain && own.is_certain)?;
    let place = own.members.position(rank)? % next.members.len();
    next.members.iter().nth(usize::try_from(place).ok()?)
}

/// Each group can be lost as a whole: all its checkpoints have a copy in another one.
fn check(job: &Job, groups: &[Group], partners: &[Option<u32>]) -> Result<(), Failure> {
    let hosts = RANKS / RANKS_OF_HOST;
    let expected = hosts / job.hosts_of_group.unwrap_or(hosts);
    expect("groups", &groups.len(), &(expected as usize))?;
    for group in groups {
        for rank in group.members.iter() {
            let partner = partners[rank as usize];
            expect("has a partner", &partner.is_some(), &(groups.len() > 1))?;
            expect(
                "partner in the same group",
                &partner.is_some_and(|partner| group.members.contains(partner)),
                &false,
            )?;
        }
    }
    let mut copies: Vec<u32> = partners.iter().copied().flatten().collect();
    copies.sort_unstable();
    copies.dedup();
    expect("ranks with one copy each", &copies.len(), &if groups.len() > 1 { RANKS as usize } else { 0 })
}

/// Ranks beyond those that the file system serves at full speed wait for each other.
fn seconds_of_checkpoint(job: &Job, best: &Place, speed: u64) -> f64 {
    let sharing = best.ranks_per_source(RANKS) / f64::from(best.scalability.max(1));
    job.bytes_each as f64 / speed as f64 * sharing.max(1.0)
}

fn speed_text(speed: u64, seconds: f64) -> String {
    // Young 1974: the time between two checkpoints that loses least.
    let interval = (2.0 * seconds * FAILURE_EVERY).sqrt();
    let mib = speed / MIB;
    format!(
        "measured: {mib} MiB/s for one process, a checkpoint takes {seconds:.1} s: one every {:.0} min",
        interval / 60.0
    )
}

fn groups_text(groups: &[Group], partners: &[Option<u32>]) -> String {
    let ranks = |all: Vec<u32>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let mut table = Table::new(&["group", "ranks that share it", "their copies go to"]);
    for (number, group) in groups.iter().enumerate() {
        let members: Vec<u32> = group.members.iter().collect();
        let copies: Vec<u32> = members.iter().filter_map(|rank| partners[*rank as usize]).collect();
        let copies = if copies.is_empty() { "nowhere: all share it".to_owned() } else { ranks(copies) };
        table.row(&[&number, &ranks(members), &copies]);
    }
    table.to_string()
}
