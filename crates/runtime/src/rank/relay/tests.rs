//! Relays between threads: bounds, panics, deaths, and messages that are none.

use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use atta_fabric::{Endpoint as _, InProcess, in_process, in_process_mortal};

use super::*;
use crate::rank::link::End;
use crate::rank::wait::Limits;
use crate::stop::Stop;

const PATIENCE: Duration = Duration::from_secs(60);

fn on_ranks<T: Send>(
    endpoints: Vec<InProcess>,
    run: impl Fn(u32, &mut Meeting<'_>) -> T + Sync,
) -> Vec<std::thread::Result<T>> {
    std::thread::scope(|scope| {
        let run = &run;
        let one = |mut endpoint: InProcess| {
            scope.spawn(move || {
                let rank = endpoint.rank();
                let link = Link::new(End::Lent(&mut endpoint), Stop::new());
                run(rank, &mut Meeting::new(link, Limits::default()))
            })
        };
        let threads: Vec<_> = endpoints.into_iter().map(one).collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    })
}

/// The last rank of a chain takes nothing until the first one has made as many parts as may be under way without it.
#[test]
fn slow_rank_bounds_what_is_under_way() {
    const RANKS: u64 = 3;
    // Each rank keeps a window, and more parts wait at the thread that makes them.
    const MOST: u64 = (RANKS * WINDOW as u64) + AHEAD as u64 + 2;
    let (made, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    let members: Vec<u32> = (0..RANKS as u32).collect();
    let began = Instant::now();
    let ended = on_ranks(in_process(RANKS as u32), |rank, meeting| {
        let next = || {
            let number = made.fetch_add(1, Ordering::SeqCst);
            assert!(number < taken.load(Ordering::SeqCst) + MOST, "{number} are under way");
            (number < 200).then(|| vec![number as u8; 10])
        };
        let take = |_: &[u8]| {
            if rank + 1 < RANKS as u32 {
                return;
            }
            let least = (taken.load(Ordering::SeqCst) + WINDOW as u64).min(200);
            while made.load(Ordering::SeqCst) < least && began.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_micros(50));
            }
            taken.fetch_add(1, Ordering::SeqCst);
        };
        meeting.relay((&members, Shape::Chain), next, take).unwrap();
    });
    ended.into_iter().for_each(|ended| ended.unwrap());
    assert_eq!((made.into_inner(), taken.into_inner()), (201, 200));
}

#[test]
fn panic_of_a_taker_is_passed_on() {
    let ended = on_ranks(in_process(1), |_, meeting| {
        let parts = AtomicUsize::new(0);
        let next = || (parts.fetch_add(1, Ordering::SeqCst) < 50).then(|| vec![1]);
        meeting.relay((&[0], Shape::Tree), next, |_| panic!("cannot take it"))
    });
    assert!(ended.into_iter().all(|ended| ended.is_err()));
}

#[test]
fn death_of_a_rank_ends_the_relay_of_others() {
    let members = [0, 1, 2];
    let ended = on_ranks(in_process_mortal(3), |rank, meeting| {
        // It dies without any part.
        if rank == 1 {
            return Ok(());
        }
        meeting.relay((&members, Shape::Chain), || Some(vec![0; 1000]), |_| {})
    });
    let errors = ended.into_iter().map(Result::unwrap).filter(Result::is_err);
    assert_eq!(errors.filter(|error| error.as_ref().is_err_and(RankError::is_lost)).count(), 2);
}

#[test]
fn what_is_no_part_is_an_error() {
    for message in [vec![0x7f, 1, 0, 0, 0], vec![0x7f, 1, 0, 0, 0, 2], vec![0x7f, 1, 0, 0, 0, END, 0]] {
        let mut ranks = in_process(2);
        ranks[0].send(1, message).unwrap();
        let mut meeting = Meeting::new(Link::new(End::Lent(&mut ranks[1]), Stop::new()), Limits::default());
        let error = meeting.relay((&[0, 1], Shape::Tree), || None, |_| {}).unwrap_err();
        assert!(matches!(error, RankError::Wire { from: Rank(0), .. }), "{error}");
    }
    // An answer with something in it.
    let mut ranks = in_process(2);
    ranks[1].send(0, vec![0x7f, 1, 0, 0, 0, 0]).unwrap();
    let mut meeting = Meeting::new(Link::new(End::Lent(&mut ranks[0]), Stop::new()), Limits::default());
    let error = meeting.relay((&[0, 1], Shape::Tree), || Some(vec![1]), |_| {}).unwrap_err();
    assert!(matches!(error, RankError::Wire { from: Rank(1), .. }), "{error}");
}
