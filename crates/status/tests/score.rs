//! Measured speeds of 1 to 16 writers beside what the score predicts, as in figure 5 of Ahn et al. 2013, and the time of a search. It prints and judges
//! nothing: speeds say as much about the machine.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use atta_fabric::in_process;
use atta_mounts::{Host, MountTable, Silent};
use atta_runtime::{Limits, Session, Stop};
use atta_status::{
    MountMap, NoRoom, Options, Quota, Requirements, Room, Rooms, Search, Speed, Speeds, Status, measure,
    places,
};
use atta_testkit::scratch::Scratch;

/// Writers measure at once. The average in MB/s of write and read of one of them.
fn average(directory: &Path, writers: usize) -> (f64, f64) {
    let barrier = Barrier::new(writers);
    let one = || {
        barrier.wait();
        measure(directory).unwrap()
    };
    let speeds: Vec<Speed> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let average = |of: fn(&Speed) -> u64| {
        speeds.iter().map(|speed| of(speed) as f64).sum::<f64>() / writers as f64 / 1e6
    };
    (average(|speed| speed.write), average(|speed| speed.read))
}

fn median(directory: &Path, writers: usize) -> (f64, f64) {
    let mut found: Vec<_> = (0..5).map(|_| average(directory, writers)).collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    found[found.len() / 2]
}

#[test]
#[ignore = "measures"]
fn speed_of_many_writers() {
    println!("writers: MB/s of one when writing (as the score predicts), reading; median of 5");
    let memory = Scratch::below(Path::new("/dev/shm"), "score").unwrap();
    let disk = Scratch::new("score").unwrap();
    for (name, directory) in [("memory", memory.join("")), ("disk", disk.join(""))] {
        let found: Vec<_> = [1, 2, 4, 8, 16].map(|writers| (writers, median(&directory, writers))).into();
        let (_, (alone, _)) = found[0];
        for (writers, (write, read)) in found {
            println!("{name}, {writers}: {write:.0} ({:.0}), {read:.0}", alone / writers as f64);
        }
    }
}

struct Plenty;

impl Rooms for Plenty {
    fn rooms(&self, points: &[Vec<u8>], _is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
        points
            .iter()
            .map(|_| Ok(Room { available: 1 << 40, quota: Quota::Unlimited, writable: Ok(()) }))
            .collect()
    }
}

/// 41 mounts, half of them of all hosts, half of each host.
fn table(rank: u32) -> MountTable {
    let line = |at: u32| match at % 2 {
        0 => format!("{} 1 0:{at} / /m{at} rw - nfs4 10.0.0.{at}:/e rw\n", at + 2),
        _ => format!("{} 1 0:{at} / /m{at} rw - tmpfs none rw\n", at + 2),
    };
    let text: String = (0..40).map(line).collect();
    let text = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{text}");
    let boot = format!("boot-{rank}");
    MountTable::from_bytes(text.as_bytes(), &Silent::on(Host::new(boot.as_bytes(), b"node"))).unwrap()
}

fn search(rank: u32, session: &mut Session<'_>) -> std::time::Duration {
    let table = table(rank);
    let status = Status::join(session, &table, Options::default()).unwrap();
    let map = MountMap::build(&status, session).unwrap();
    let requirements = Requirements { space_each: 1 << 20, ..Requirements::default() };
    let search = Search { requirements, speeds: &Speeds::default(), rooms: &Plenty };
    let mut times: Vec<_> = (0..100)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(places(&status, session, &map, &search).unwrap().len(), 41);
            began.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
#[ignore = "measures"]
fn times_of_a_search() {
    println!("ranks: search among 41 mounts, without system calls; median of 100, longest of all ranks");
    for ranks in [1, 4, 8, 16] {
        let longest = std::thread::scope(|scope| {
            let rank = |(rank, mut endpoint): (u32, _)| {
                scope.spawn(move || {
                    let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                    let mut session = joined.unwrap().unwrap();
                    let time = search(rank, &mut session);
                    session.close((), |(), ()| ()).unwrap();
                    time
                })
            };
            let threads: Vec<_> = (0..).zip(in_process(ranks)).map(rank).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
        });
        println!("{ranks}: {longest:?}");
    }
}
