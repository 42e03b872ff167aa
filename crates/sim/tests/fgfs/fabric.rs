//! What the model sends, beside what real sessions send: the same messages and bytes. Times are not compared: sessions poll before they send, so
//! that the clock of the simulated fabric may move too early.

use atta_fabric::{Counted, Endpoint as _, in_process};
use atta_runtime::{Limits, Session, Stop};
use atta_sim::RankTree;
use atta_status::{Options, Status};

use crate::ranks::{Asked, Job, RANKS_PER_HOST, ask, cluster, table};

const RANKS: u32 = 100;

/// Fewer classes than are listed, or more.
fn mount(rank: u32, classes: u32) -> String {
    cluster(rank % classes)
}

/// Messages and bytes of all ranks that ask so often.
fn sent(classes: u32, questions: u32) -> (u64, u64) {
    std::thread::scope(|scope| {
        let rank = |(rank, endpoint): (u32, _)| {
            scope.spawn(move || {
                let mut endpoint = Counted::new(endpoint);
                let mounts = format!("2 1 0:40 / /m rw - {}\n", mount(rank, classes));
                let table = table(rank / RANKS_PER_HOST, &mounts);
                let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                let mut session = joined.unwrap().unwrap();
                let status = Status::join(&mut session, &table, Options::default()).unwrap();
                for _ in 0..questions {
                    status.distribution(&mut session, b"/m/f").unwrap();
                }
                session.close((), |(), ()| ()).unwrap();
                drop(session);
                let sent = endpoint.total();
                Box::new(endpoint).leave().unwrap();
                (sent.sent_messages, sent.sent_bytes)
            })
        };
        let threads: Vec<_> = (0..).zip(in_process(RANKS)).map(rank).collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    })
}

/// What sessions send for a question.
fn of_sessions(classes: u32) -> (u64, u64) {
    let (none, one) = (sent(classes, 0), sent(classes, 1));
    (one.0 - none.0, one.1 - none.1)
}

fn of_model(classes: u32) -> Asked<()> {
    ask(Job::mpi(RANKS, RankTree::SESSION), &|rank| mount(rank, classes), |status, seat| {
        status.distribution(seat, b"/m/f").map(|_| ())
    })
}

#[test]
fn model_sends_what_sessions_send() {
    for classes in [1, 5, 70] {
        let model = of_model(classes).traffic;
        assert_eq!(of_sessions(classes), (model.messages, model.bytes), "{classes}");
    }
}
