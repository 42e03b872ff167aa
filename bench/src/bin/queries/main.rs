//! How long the questions of `atta-status` take on the ranks of an MPI job, or alone. Each time is that of the slowest rank. It starts no ranks:
//! `mpirun -np 4 queries`. The files are not opened.

use std::hint::black_box;
use std::time::{Duration, Instant};

use atta_mounts::{Host, MountTable, Silent, SystemProbes};
use atta_runtime::{Limits, Session, Stop};
use atta_status::{MountMap, Options, Status};
use clap::Parser;

/// Asks questions in turns.
#[derive(Parser)]
struct Arguments {
    /// A file of this host, for the local question.
    #[arg(long, default_value = "/usr/bin/env")]
    path: String,
    /// Times that each is asked, after a tenth as many to warm up.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Why a rank cannot go on.
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let mut endpoint = atta_mpi_loader::join()?;
    let (rank, ranks) = (endpoint.rank(), endpoint.size());
    let mut session = Session::join(&mut *endpoint, "queries", Stop::new(), Limits::default())?
        .map_err(|differs| format!("{differs:?}"))?;
    let times = measure(&mut session, &arguments)?;
    session.close((), |(), ()| ())?;
    endpoint.leave()?;
    if rank == 0 {
        print(ranks, &arguments, &times);
    }
    Ok(())
}

/// The least and the median time of each question.
type Times = Vec<(&'static str, [Duration; 2])>;

/// The tables: of this host, and of one that has an export of a server at `/m`.
fn tables() -> Result<[MountTable; 2], Failure> {
    let probes = SystemProbes::new().map_err(|errno| errno.to_string())?;
    let host = Silent::on(Host::new(b"boot", b"node"));
    let text = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /m rw - nfs4 192.0.2.7:/e rw\n";
    Ok([MountTable::read(&probes)?, MountTable::from_bytes(text, &host).map_err(|_| "a line is invalid")?])
}

fn measure(session: &mut Session<'_>, arguments: &Arguments) -> Result<Times, Failure> {
    let [here, server] = tables()?;
    let here = Status::join(session, &here, Options::default())?;
    let server = Status::join(session, &server, Options::default())?;
    let (path, file) = (arguments.path.as_bytes(), b"/m/lib/libm.so".as_slice());
    let map = MountMap::build(&here, session)?;
    let mut times = vec![Vec::new(); 6];
    for round in 0..arguments.rounds + arguments.rounds / 10 {
        let of_round = [
            time(session, |session| here.is_unique(session, path).map(drop))?,
            time(session, |session| server.is_unique(session, file).map(drop))?,
            time(session, |session| here.is_poorly_distributed(session, path).map(drop))?,
            time(session, |session| server.is_consistent(session, file).map(drop))?,
            time(session, |session| MountMap::build(&here, session).map(drop))?,
            time(session, |_| {
                black_box(map.is_unique(black_box(path)));
                Ok(())
            })?,
        ];
        if round >= arguments.rounds / 10 {
            times.iter_mut().zip(of_round).for_each(|(times, time)| times.push(time));
        }
    }
    let names = [
        "is_unique, a local file",
        "is_unique, one NFS export",
        "is_poorly_distributed, a local file",
        "is_consistent, one NFS export",
        "build the map of this host",
        "is_unique from the map",
    ];
    let least_and_median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        [times[0], times[times.len() / 2]]
    };
    Ok(names.into_iter().zip(times.into_iter().map(least_and_median)).collect())
}

/// What something takes on the slowest rank, from a moment on in which all have ended what was before.
fn time(
    session: &mut Session<'_>,
    run: impl FnOnce(&mut Session<'_>) -> Result<(), atta_status::StatusError<atta_runtime::RankError>>,
) -> Result<Duration, Failure> {
    let together = session.reduce((), |(), ()| ())?;
    session.broadcast(together)?;
    let began = Instant::now();
    run(session)?;
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let slowest = session.reduce(ns, |all, more| *all = more.max(*all))?;
    Ok(Duration::from_nanos(session.broadcast(slowest)?))
}

#[expect(clippy::print_stdout, reason = "the result")]
fn print(ranks: u32, arguments: &Arguments, times: &Times) {
    println!("{ranks} ranks, slowest rank, {} rounds: median, least", arguments.rounds);
    for (name, [least, median]) in times {
        println!("{name}: {:.2} us, {:.2} us", us(*median), us(*least));
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
