//! Sessions of ranks within this process: every wait ends, a request to end reaches all, output of all ranks is written. Jobs of sessions are
//! in `ranks.rs` and `meetings.rs`.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use atta_engine::Config;
use atta_fabric::{Endpoint, InProcess, in_process};
use atta_runtime::conformance::Endless;
use atta_runtime::{Limits, Options, RankError, Session, Stop, Stream, Threads, Work};

/// Gives up soon after a request to end.
const SOON: Limits =
    Limits { report: Duration::from_secs(60), give_up: Duration::from_millis(20), waiting: |_| {} };

fn join(endpoint: &mut dyn Endpoint, limits: Limits) -> Session<'_> {
    Session::join(endpoint, "test", Stop::new(), limits).unwrap().unwrap()
}

/// Ends all ranks with the first one, also if it panics: they would wait for it.
struct EndsAll(InProcess);

impl Drop for EndsAll {
    fn drop(&mut self) {
        self.0.abort(4);
    }
}

/// Runs a part on each rank, until the first one has ended.
fn with_first<T: Send>(ranks: u32, part: impl Fn(&mut InProcess) -> T + Sync) -> T {
    let mut endpoints = in_process(ranks).into_iter();
    let mut first = EndsAll(endpoints.next().unwrap());
    std::thread::scope(|scope| {
        for mut endpoint in endpoints {
            let part = &part;
            scope.spawn(move || {
                part(&mut endpoint);
                // Nobody leaves before the end.
                says_nothing(&mut endpoint);
            });
        }
        let ended = part(&mut first.0);
        drop(first);
        ended
    })
}

/// Waits until the session is ended by another rank.
fn says_nothing(endpoint: &mut InProcess) {
    while endpoint.unsent().is_ok() && endpoint.receive().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Reduce,
    AllReduce,
    Agree,
    Run,
    Close,
    Listen,
}

const PHASES: [Phase; 6] =
    [Phase::Reduce, Phase::AllReduce, Phase::Agree, Phase::Run, Phase::Close, Phase::Listen];

fn takes_part(session: &mut Session<'_>, phase: Phase) -> Result<(), RankError> {
    match phase {
        Phase::Reduce => session.reduce((), |(), ()| ()).map(|_| ()),
        Phase::AllReduce => session.all_reduce((), |(), ()| ()),
        Phase::Agree => session.agree(vec!["a fact".to_owned()]).map(|_| ()),
        Phase::Run => {
            let options = Options {
                threads: Threads::Fixed(std::num::NonZeroUsize::MIN),
                stop: session.stop(),
                ..Options::default()
            };
            let seeds = if session.is_first() { vec![()] } else { Vec::new() };
            session.run(&Endless, Work { seeds, options: &options }, |_| (), |_, _| {}).map(|_| ())
        }
        Phase::Close => session.close((), |(), ()| ()).map(|_| ()),
        // Whoever has something to do meanwhile.
        Phase::Listen => loop {
            session.listen()?;
            std::thread::sleep(Duration::from_millis(1));
        },
    }
}

#[test]
fn first_rank_gives_up_on_a_silent_one_after_a_stop() {
    for phase in PHASES.into_iter().filter(|phase| *phase != Phase::Listen) {
        let ended = with_first(4, |endpoint| {
            let mut session = join(endpoint, SOON);
            match session.seat().rank {
                2 => Ok(()),
                rank => {
                    if rank == 3 {
                        session.stop().set();
                    }
                    takes_part(&mut session, phase)
                }
            }
        });
        match ended {
            // Others that are late on a busy machine may be named, too.
            Err(RankError::Silent { ranks }) => assert!(ranks.contains(&2), "{phase:?}: {ranks:?}"),
            ended => panic!("{phase:?}: {ended:?}"),
        }
    }
}

#[test]
fn ranks_that_wait_for_a_silent_one_are_not_at_work() {
    // In the tree of the job 3 and 4 wait for 1; in that of meetings they are next to the first rank.
    let config = Config { tree_width: 2, ..Config::default() };
    let ended = with_first(6, |endpoint| {
        let limits = Limits { give_up: Duration::from_millis(500), ..SOON };
        let mut session = join(endpoint, limits).with_schedule(config);
        if session.seat().rank == 1 {
            return Ok(());
        }
        session.stop().set();
        takes_part(&mut session, Phase::Run)
    });
    match ended {
        Err(RankError::Silent { ranks }) => assert!(ranks.contains(&1), "{ranks:?}"),
        ended => panic!("{ended:?}"),
    }
}

#[test]
fn ranks_that_never_join_are_named_after_a_stop() {
    let ended = with_first(40, |endpoint| {
        // 33 has nobody below it; 2 is above it.
        if endpoint.rank() == 33 {
            return Ok(());
        }
        let stop = Stop::new();
        let limits = Limits { report: Duration::from_millis(5), give_up: Duration::from_secs(2), ..SOON };
        if endpoint.rank() == 0 {
            stop.set();
        }
        Session::join(endpoint, "test", stop, limits).map(|_| ())
    });
    match ended {
        Err(RankError::Silent { ranks }) => {
            assert_eq!(ranks, [33], "the rank that is silent, not the one that waits for it");
        }
        ended => panic!("{ended:?}"),
    }
}

/// The ranks that were reported as missing.
static REPORTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

#[test]
fn long_wait_is_reported_with_missing_ranks() {
    let is_reported = AtomicBool::new(false);
    let waiting = |ranks: &[u32]| *REPORTED.lock().unwrap() = ranks.to_vec();
    let limits = Limits { report: Duration::from_millis(5), waiting, ..SOON };
    std::thread::scope(|scope| {
        for mut endpoint in in_process(40) {
            let is_reported = &is_reported;
            scope.spawn(move || {
                let rank = endpoint.rank();
                let mut session = join(&mut endpoint, limits);
                // Two that report to 1 and to 2 in the tree, late.
                let is_late = [17, 33].contains(&rank);
                for _ in (0..60_000).take_while(|_| is_late && !is_reported.load(Ordering::Relaxed)) {
                    is_reported.fetch_or(*REPORTED.lock().unwrap() == [17, 33], Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
                let sum = session.all_reduce(1_u32, |sum, more| *sum += more).unwrap();
                session.close((), |(), ()| ()).unwrap();
                assert_eq!(sum, 40);
            });
        }
    });
    assert!(is_reported.load(Ordering::Relaxed), "reported: {:?}", REPORTED.lock().unwrap());
}

#[test]
fn first_rank_hears_of_one_that_fails_in_each_phase() {
    for phase in PHASES {
        let ended = with_first(4, |endpoint| {
            let mut session = Session::join(endpoint, "test", Stop::new(), Limits::default())?.unwrap();
            if session.seat().rank == 3 {
                session.fail("no disk");
                return Ok(());
            }
            takes_part(&mut session, phase)
        });
        match ended {
            Err(RankError::Failed { rank: 3, why }) => assert_eq!(why, "no disk", "{phase:?}"),
            ended => panic!("{phase:?}: {ended:?}"),
        }
    }
}

#[test]
fn stop_on_one_rank_reaches_all_waiting_ranks() {
    std::thread::scope(|scope| {
        for mut endpoint in in_process(40) {
            scope.spawn(move || {
                let mut session = join(&mut endpoint, Limits { give_up: Duration::from_secs(60), ..SOON });
                let (stop, rank) = (session.stop(), session.seat().rank);
                if rank == 23 {
                    stop.set();
                }
                // Some have something to do, which takes until they hear of it.
                let mut looks = 0;
                while rank.is_multiple_of(5) && !stop.is_set() && looks < 60_000 {
                    session.listen().unwrap();
                    looks += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert!(!rank.is_multiple_of(5) || stop.is_set(), "rank {rank} heard of nothing");
                session.all_reduce((), |(), ()| ()).unwrap();
                assert!(stop.is_set(), "rank {rank} heard of nothing while it waited");
                // What is still on its way disturbs no later step.
                assert_eq!(session.all_reduce(1_u32, |sum, more| *sum += more).unwrap(), 40);
                session.close((), |(), ()| ()).unwrap();
            });
        }
    });
}

#[test]
fn stop_at_the_end_does_not_reach_the_next_session() {
    for round in 0..50 {
        std::thread::scope(|scope| {
            for mut endpoint in in_process(20) {
                scope.spawn(move || {
                    for part in 0..3 {
                        let limits = Limits { give_up: Duration::from_secs(60), ..SOON };
                        let mut session = join(&mut endpoint, limits);
                        if session.seat().rank == (round * 7 + part) % 20 {
                            session.stop().set();
                        }
                        let ranks = session.close(1_u32, |sum, more| *sum += more).unwrap();
                        assert_eq!(ranks, session.is_first().then_some(20));
                    }
                });
            }
        });
    }
}

#[test]
fn all_output_is_written_when_a_session_closes() {
    const EACH: u64 = 3000;
    let bytes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for mut endpoint in in_process(5) {
            let bytes = &bytes;
            scope.spawn(move || {
                let mut session = join(&mut endpoint, Limits::default());
                let write = |rank: u32, stream, piece: &[u8]| {
                    assert_eq!(stream, Stream(7));
                    assert!(rank > 0 && piece.iter().all(|byte| u32::from(*byte) == rank));
                    bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
                };
                session.receiving(write, |session| {
                    let (outbox, rank) = (session.outbox(), session.seat().rank as u8);
                    // The communicating thread itself: it must not wait for room.
                    (0..EACH).filter(|_| rank > 0).for_each(|_| outbox.push(Stream(7), &[rank; 4096]));
                    session.close((), |(), ()| ()).unwrap();
                });
                if rank_of(&session) == 0 {
                    assert_eq!(bytes.load(Ordering::Relaxed), 4 * EACH * 4096);
                }
            });
        }
    });
}

fn rank_of(session: &Session<'_>) -> u32 {
    session.seat().rank
}

#[test]
fn a_rank_that_is_at_work_after_a_stop_is_waited_for() {
    let limits = Limits { give_up: Duration::from_secs(1), ..SOON };
    std::thread::scope(|scope| {
        for mut endpoint in in_process(40) {
            scope.spawn(move || {
                let rank = endpoint.rank();
                let mut session = join(&mut endpoint, limits);
                session.stop().set();
                // 33 reports to 2, which passes it on to the first rank.
                let work = Duration::from_millis(if rank == 33 { 2500 } else { 0 });
                session.beside(|| std::thread::sleep(work)).unwrap();
                assert_eq!(session.all_reduce(1_u32, |sum, more| *sum += more).unwrap(), 40);
                let ranks = session.close(1_u32, |sum, more| *sum += more).unwrap();
                assert_eq!(ranks, session.is_first().then_some(40));
            });
        }
    });
}

#[test]
fn slow_output_after_a_stop_is_reported() {
    let limits = Limits { give_up: Duration::from_secs(1), ..SOON };
    std::thread::scope(|scope| {
        for mut endpoint in in_process(3) {
            scope.spawn(move || {
                let mut session = join(&mut endpoint, limits);
                let write = |_, _, _: &[u8]| std::thread::sleep(Duration::from_millis(50));
                session.receiving(write, |session| {
                    let outbox = session.outbox();
                    session.stop().set();
                    // More than two seconds of writing.
                    let count = if session.is_first() { 0 } else { 25 };
                    (0..count).for_each(|_| outbox.push(Stream(0), &[1; 1 << 16]));
                    let ranks = session.close(1_u32, |sum, more| *sum += more).unwrap();
                    assert_eq!(ranks, session.is_first().then_some(3));
                });
            });
        }
    });
}

#[test]
fn ranks_meet_while_output_cannot_be_written() {
    let (may_write, changed) = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        for mut endpoint in in_process(3) {
            let (may_write, changed) = (&may_write, &changed);
            scope.spawn(move || {
                let mut session = join(&mut endpoint, Limits::default());
                let write = |_, _, _: &[u8]| {
                    let guard = may_write.lock().unwrap();
                    drop(changed.wait_while(guard, |may| !*may).unwrap());
                };
                session.receiving(write, |session| {
                    let outbox = session.outbox();
                    if !session.is_first() {
                        outbox.push(Stream(0), b"a row");
                    }
                    for _ in 0..100 {
                        assert_eq!(session.all_reduce(1_u32, |sum, more| *sum += more).unwrap(), 3);
                    }
                    if session.is_first() {
                        *may_write.lock().unwrap() = true;
                        changed.notify_all();
                    }
                    session.close((), |(), ()| ()).unwrap();
                });
            });
        }
    });
}

#[test]
fn a_session_of_one_needs_nobody() {
    let mut session = Session::alone(Stop::new());
    assert!(session.is_alone() && session.is_first() && session.seat().ranks == 1);
    assert_eq!(session.reduce(3, |_, _: u32| unreachable!()).unwrap(), Some(3));
    assert_eq!(session.broadcast(Some(4_u32)).unwrap(), 4);
    assert!(session.broadcast::<u32>(None).is_err());
    assert_eq!(session.agree(vec!["a".to_owned()]).unwrap(), None);
    session.listen().unwrap();
    assert_eq!(session.close(5_u32, |_, _| unreachable!()).unwrap(), Some(5));
}
