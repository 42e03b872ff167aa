//! Queries of a process that is its only rank.

use atta_status::{Alone, Answer, Collective, Options, Ranks, Status};

use crate::queries::answers;
use crate::ranks::{mounted, on_ranks};
use Answer::{No, Yes};

#[test]
fn process_alone_needs_no_fabric() {
    let table = mounted(0, "nfs4 10.0.0.5:/e rw");
    let status = Status::join(&mut Alone, &table, Options::default()).unwrap();
    let found = status.groups(&mut Alone, b"/m/f").unwrap();
    assert_eq!(answers(&found), [No, No, Yes, Yes]);
    assert_eq!(found.descriptor().unwrap().rank_in_group, Some(0));
}

// What a process alone returns is what a session of one rank returns.
#[test]
fn process_alone_behaves_as_one_rank() {
    fn results<C: Collective>(collective: &mut C) -> Vec<String>
    where
        C::Error: std::fmt::Debug,
    {
        let (mine, others) = (Ranks::of(0), Ranks::of(3));
        let mut results = Vec::new();
        for value in [None, Some(5_u32)] {
            results.push(format!("{:?}", collective.broadcast(value)));
            for group in [&mine, &others, &Ranks::default()] {
                results.push(format!("{:?}", collective.multicast(group, value)));
            }
            results.push(format!("{:?}", collective.reduce(value, |_, _| {})));
        }
        results
    }
    let session = on_ranks(1, |_, session| results(session));
    assert_eq!(results(&mut Alone), session[0]);
}
