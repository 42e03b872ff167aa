//! How queries grow with the ranks: figures 6(a), 6(b) and 7.

use atta_sim::{Fit, NotYet, RankTree, StepTraffic};
use atta_status::{Answer, Status, StatusError};

use crate::ranks::{Asked, Job, RANKS_PER_HOST, Seat, ask, cluster, local, unique};

/// Ranks that share an NFS server in the paper: a scalable unit of 156 nodes.
const RANKS_PER_UNIT: u32 = 156 * RANKS_PER_HOST;

/// A query of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// `is_unique` of one NFS export.
    Unique,
    /// `is_poorly_distributed` of four NFS servers.
    FourServers,
    /// The same of one server for each scalable unit.
    Units,
    /// `is_well_distributed` of one GPFS cluster for two hosts each.
    Well,
    /// `is_fully_distributed` of what each host has in memory.
    Local,
    /// `is_consistent` of one NFS export.
    Consistent,
}

impl Question {
    const ALL: [Self; 6] =
        [Self::Unique, Self::FourServers, Self::Units, Self::Well, Self::Local, Self::Consistent];

    fn mount(self, job: Job, rank: u32) -> String {
        let server = |number: u32| format!("nfs4 10.{}.{}.5:/e rw", number / 256, number % 256);
        match self {
            Self::Unique | Self::Consistent => unique(rank),
            Self::FourServers => server(rank / job.ranks.div_ceil(4)),
            Self::Units => server(rank / RANKS_PER_UNIT),
            Self::Well => cluster(job.host(rank) / 2),
            Self::Local => local(rank),
        }
    }

    fn ask(self, status: &Status<'_>, seat: &mut Seat<'_, '_>) -> Result<Answer, StatusError<NotYet>> {
        let path = b"/m/lib/libm.so";
        match self {
            Self::Unique => status.is_unique(seat, path),
            Self::FourServers | Self::Units => status.is_poorly_distributed(seat, path),
            Self::Well => status.is_well_distributed(seat, path),
            Self::Local => status.is_fully_distributed(seat, path),
            Self::Consistent => status.is_consistent(seat, path),
        }
    }

    fn run(self, job: Job) -> Asked<Answer> {
        ask(job, &|rank| self.mount(job, rank), |status, seat| self.ask(status, seat))
    }

    /// From how many ranks on the answer is yes.
    fn ranks_min(self) -> u32 {
        match self {
            // Fewer ranks for each server are well distributed.
            Self::FourServers => 4 * 64,
            // Fewer hosts have one cluster.
            Self::Well => 4 * RANKS_PER_HOST,
            _ => 4,
        }
    }
}

/// Times over ranks, with what the largest job sent.
struct Curve {
    points: Vec<(f64, f64)>,
    last: StepTraffic,
}

/// Asks jobs of 4 to `ranks_max` ranks, each four times as large as the one before. Checks answers, messages and rounds.
fn curve(question: Question, ranks_max: u32, job: impl Fn(u32) -> Job) -> Curve {
    let mut curve = Curve { points: Vec::new(), last: StepTraffic::default() };
    let mut ranks = question.ranks_min();
    while ranks <= ranks_max {
        let asked = question.run(job(ranks));
        assert_eq!(*asked.common(), Answer::Yes, "{question:?} of {ranks}");
        let steps = asked.traffic.messages / u64::from(ranks - 1);
        assert_eq!(asked.traffic.messages, steps * u64::from(ranks - 1));
        assert!(
            steps == 2 || (steps == 4 && matches!(question, Question::Units | Question::Well)),
            "{question:?}: {steps}"
        );
        let rounds_max = steps as f64 * f64::from(ranks).log2();
        assert!(f64::from(asked.traffic.rounds) <= rounds_max, "{:?} of {ranks}", asked.traffic);
        curve.points.push((f64::from(ranks), asked.us));
        curve.last = asked.traffic;
        ranks *= 4;
    }
    curve
}

fn print(question: Question, tree: &str, curve: &Curve) -> Fit {
    let fit = Fit::logarithm(&curve.points).unwrap();
    let times: Vec<_> = curve.points.iter().map(|(ranks, us)| format!("{ranks}: {us:.1}")).collect();
    println!(
        "{question:?}, {tree}: {:.1} + {:.2} log2 N us, R^2 {:.3}; {:?}; us by ranks: {}",
        fit.constant,
        fit.slope,
        fit.r_squared,
        curve.last,
        times.join(", ")
    );
    fit
}

/// All questions in all trees.
fn compare(ranks_max: u32) {
    for question in Question::ALL {
        let binomial = curve(question, ranks_max, |ranks| Job::mpi(ranks, RankTree::Binomial));
        let fit = print(question, "binomial", &binomial);
        // Messages of one length.
        if matches!(question, Question::Unique | Question::FourServers | Question::Consistent) {
            assert!(fit.slope > 0.0 && fit.r_squared > 0.95, "{question:?}: {fit:?}");
        }
        let session = curve(question, ranks_max, |ranks| Job::mpi(ranks, RankTree::SESSION));
        print(question, "16 wide", &session);
    }
    let tcp = curve(Question::Unique, ranks_max.min(32_768), Job::tcp);
    let fit = print(Question::Unique, "binomial, TCP", &tcp);
    assert!(fit.r_squared > 0.95, "{fit:?}");
}

#[test]
fn unique_and_poor_grow_with_the_logarithm() {
    compare(16_384);
}

#[test]
#[ignore = "takes minutes"]
fn queries_of_a_million_ranks() {
    compare(1 << 20);
}

/// The paper says yes. Two addresses may be one server, so this is not known.
#[test]
fn many_nfs_servers_may_be_few() {
    let job = Job::mpi(4096, RankTree::Binomial);
    let mount = |rank: u32| format!("nfs4 10.0.{}.5:/e rw", job.host(rank) / 2);
    let asked = ask(job, &mount, |status, seat| status.is_well_distributed(seat, b"/m/f"));
    assert_eq!(*asked.common(), Answer::Unknown);
}
