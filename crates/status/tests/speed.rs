//! How long queries take on ranks that are threads of this process. It prints and judges nothing: times say as much about the machine.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::time::{Duration, Instant};

use atta_fabric::in_process;
use atta_mounts::{Host, MountTable, Silent};
use atta_runtime::{Limits, Session, Stop};
use atta_status::{Answer, MountMap, Options, Status};

const TIMES: usize = 200;

/// 40 mounts: NFS of one server for all, and buckets of which each rank has its own, in turns.
fn table(rank: u32) -> MountTable {
    let line = |at: u32| {
        let mounted = match at % 2 {
            0 => format!("nfs4 10.0.0.{at}:/e"),
            _ => format!("fuse.goofys b{rank}-{at}"),
        };
        format!("{} 1 0:{at} / /m{at} rw - {mounted} rw\n", at + 2)
    };
    let text: String = (0..40).map(line).collect();
    let text = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{text}");
    let boot = format!("boot-{rank}");
    MountTable::from_bytes(text.as_bytes(), &Silent::on(Host::new(boot.as_bytes(), b"node"))).unwrap()
}

fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let began = Instant::now();
        std::hint::black_box(run());
        began.elapsed()
    };
    let mut times: Vec<_> = (0..TIMES).map(time).collect();
    times.sort();
    times[TIMES / 2]
}

fn expected(session: &Session<'_>) -> Answer {
    if session.seat().ranks == 1 { Answer::Yes } else { Answer::No }
}

fn times(rank: u32, session: &mut Session<'_>) -> [Duration; 5] {
    let table = table(rank);
    let status = Status::join(session, &table, Options::default()).unwrap();
    let map = MountMap::build(&status, session).unwrap();
    let (one, many) = (b"/m2/some/directory/f".as_slice(), b"/m3/some/directory/f".as_slice());
    [
        median(|| status.is_unique(session, one).unwrap()),
        median(|| assert_eq!(status.is_unique(session, many).unwrap(), expected(session))),
        median(|| status.is_consistent(session, one).unwrap()),
        median(|| MountMap::build(&status, session).unwrap()),
        median(|| map.is_unique(one)),
    ]
}

#[test]
#[ignore = "measures"]
fn times_of_queries() {
    println!(
        "ranks: unique, not unique, consistent, map of 41 mounts, unique from the map (longest of all ranks)"
    );
    for ranks in [1, 4, 8, 16] {
        let times = std::thread::scope(|scope| {
            let rank = |(rank, mut endpoint): (u32, _)| {
                scope.spawn(move || {
                    let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                    let mut session = joined.unwrap().unwrap();
                    let times = times(rank, &mut session);
                    session.close((), |(), ()| ()).unwrap();
                    times
                })
            };
            let threads: Vec<_> = (0..).zip(in_process(ranks)).map(rank).collect();
            let all = threads.into_iter().map(|thread| thread.join().unwrap());
            all.reduce(|one, two| std::array::from_fn(|at| one[at].max(two[at]))).unwrap()
        });
        println!("{ranks}: {times:?}");
    }
}
