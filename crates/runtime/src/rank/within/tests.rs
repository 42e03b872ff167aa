//! Inner sessions on ranks within this process.

use std::sync::{Barrier, Mutex};
use std::time::Duration;

use atta_fabric::{InProcess, in_process_mortal, in_process_on_hosts};

use super::*;
use crate::Stream;
use crate::conformance::{abort_reaches_all, conformance};
use crate::rank::link::End;
use crate::stop::Stop;

/// Groups of all sizes, and none of adjacent ranks alone.
const HOSTS: [u32; 8] = [0, 1, 0, 1, 0, 2, 3, 3];

/// Runs something on a thread for each rank; no rank leaves before all are done.
fn on_threads<T: Send>(ranks: Vec<InProcess>, run: impl Fn(&mut InProcess) -> T + Sync) -> Vec<T> {
    on_threads_dying(ranks, |rank| run(rank.as_mut().unwrap()))
}

/// The same for ranks that die if the endpoint is taken.
fn on_threads_dying<T: Send>(
    ranks: Vec<InProcess>,
    run: impl Fn(&mut Option<InProcess>) -> T + Sync,
) -> Vec<T> {
    let mut ranks: Vec<_> = ranks.into_iter().map(Some).collect();
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = ranks.iter_mut().map(|rank| scope.spawn(move || run(rank))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs something on each rank with the endpoint of its host's ranks.
fn on_inner<T: Send>(run: impl Fn(u32, &mut Within<'_, '_>) -> T + Sync) -> Vec<T> {
    on_threads(in_process_on_hosts(&HOSTS), |endpoint| {
        let (members, rank) = (endpoint.neighbours().to_vec(), endpoint.rank());
        let mut link = Link::new(End::Lent(endpoint), Stop::new());
        run(rank, &mut Within::new(&mut link, &members, Duration::from_secs(1)).unwrap())
    })
}

fn join(endpoint: &mut InProcess) -> Session<'_> {
    Session::join(endpoint, "test", Stop::new(), Limits::default()).unwrap().unwrap()
}

/// Listens until that fails.
fn listen_on(inner: &mut Session<'_>) -> Result<(), RankError> {
    loop {
        inner.listen()?;
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn jobs_conform_within_groups() {
    let done = on_inner(|rank, within| {
        conformance(within, 100 * u64::from(HOSTS[rank as usize])).inspect_err(|_| within.abort(4))
    });
    done.into_iter().for_each(|done| done.unwrap());
}

#[test]
fn abort_of_one_group_reaches_all() {
    on_inner(|_, within| abort_reaches_all(within)).into_iter().for_each(|done| done.unwrap());
}

#[test]
fn groups_work_by_themselves_and_meet_again() {
    let output = Mutex::new(Vec::new());
    let sums = on_threads(in_process_on_hosts(&HOSTS), |endpoint| {
        let mut session = join(endpoint);
        let (rank, members) = (session.seat().rank, session.neighbours().to_vec());
        let receive =
            |from, stream, bytes: &[u8]| output.lock().unwrap().push((from, stream, bytes.to_vec()));
        session.receiving(receive, |session| {
            for round in 0..3 {
                let outbox = session.outbox();
                let sum = session.within(&members, |inner| {
                    assert_eq!(inner.seat().ranks as usize, members.len());
                    if rank > 0 {
                        outbox.push(Stream(1), &[round]);
                    }
                    let sum = inner.all_reduce(rank, |sum, more| *sum += more)?;
                    inner.close((), |(), ()| ()).map(|_| sum)
                });
                assert_eq!(sum.unwrap(), members.iter().sum::<u32>());
                assert_eq!(session.all_reduce(1, |sum, more| *sum += more).unwrap(), HOSTS.len() as u32);
            }
            session.close(rank, |sum, more| *sum += more).unwrap()
        })
    });
    assert_eq!((sums[0], sums[1..].iter().flatten().count()), (Some((0..8).sum()), 0));
    let mut output = output.into_inner().unwrap();
    output.sort_by_key(|(rank, ..)| *rank);
    let expected: Vec<_> =
        (1..8).flat_map(|rank| (0..3).map(move |round| (rank, Stream(1), vec![round]))).collect();
    let mut pieces = Vec::new();
    for (rank, stream, bytes) in output {
        pieces.extend(bytes.into_iter().map(|byte| (rank, stream, vec![byte])));
    }
    assert_eq!(pieces, expected);
}

#[test]
fn request_to_end_reaches_all_groups() {
    for asking in [0, 3, 5] {
        on_threads(in_process_on_hosts(&HOSTS), |endpoint| {
            let mut session = join(endpoint);
            let (rank, members, stop) = (session.seat().rank, session.neighbours().to_vec(), session.stop());
            let done = session.within(&members, |inner| {
                if rank == asking {
                    stop.set();
                }
                while !stop.is_set() {
                    inner.listen()?;
                    std::thread::sleep(Duration::from_micros(100));
                }
                inner.close((), |(), ()| ()).map(|_| ())
            });
            done.unwrap();
            session.close((), |(), ()| ()).unwrap();
        });
    }
}

#[test]
fn rank_that_cannot_continue_ends_all_groups() {
    const FAILING: u32 = 3;
    let all_have_joined = Barrier::new(HOSTS.len());
    let ended = on_threads(in_process_on_hosts(&HOSTS), |endpoint| {
        let mut session = join(endpoint);
        all_have_joined.wait();
        let (rank, members, stop) = (session.seat().rank, session.neighbours().to_vec(), session.stop());
        let ended = session.within(&members, |inner| match rank {
            FAILING => Err(RankError::Stuck("no disk")),
            _ if members == [rank] => {
                while !stop.is_set() {
                    std::thread::sleep(Duration::from_micros(100));
                }
                Ok(())
            }
            _ => listen_on(inner),
        });
        match rank {
            0 => {
                let error = ended.unwrap_err();
                drop(session);
                endpoint.abort(4);
                error.to_string()
            }
            _ => {
                let error = ended.unwrap_err();
                session.fail(&error.to_string());
                error.to_string()
            }
        }
    });
    // From that rank itself, or from the first one of its group.
    assert!(ended[0].ends_with("rank 3 failed: no disk"), "{ended:?}");
    assert_eq!(ended[3], "no disk");
}

#[test]
fn death_in_a_group_is_seen_in_it() {
    // A death must not be seen outside of inner sessions.
    let others_are_done = Barrier::new(3);
    let ended = on_threads_dying(in_process_mortal(4), |endpoint| {
        let mut session = join(endpoint.as_mut().unwrap());
        let rank = session.seat().rank;
        let members = if rank < 2 { [0, 1] } else { [2, 3] };
        let ended = session.within(&members, |inner| match rank {
            3 => Ok(()),
            2 => listen_on(inner),
            _ => inner.close((), |(), ()| ()).map(|_| ()),
        });
        drop(session);
        if rank != 2 {
            others_are_done.wait();
        }
        if rank == 3 {
            *endpoint = None;
        }
        ended.map_err(|error| error.to_string())
    });
    assert_eq!(ended[..3], [Ok(()), Ok(()), Err("rank 3 has died".to_owned())]);
}

#[test]
fn errors_have_the_numbers_of_all() {
    let members = [4, 9];
    let named = |error| numbered(error, &members).to_string();
    assert_eq!(named(RankError::Lost { ranks: vec![0, 1] }), "ranks 4 and 9 have died");
    assert_eq!(named(RankError::Failed { rank: 1, why: "why".to_owned() }), "rank 9 failed: why");
    let silent = named(RankError::Silent { ranks: vec![0] });
    assert!(silent.ends_with("no answer from rank 4"), "{silent}");
}
