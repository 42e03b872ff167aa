//! The decoders of this crate, for `atta_testkit::fuzz`.

use std::time::Duration;

use atta_engine::Rank;
use atta_entry::Code;
use atta_fabric::{Endpoint as _, in_process};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::rank::agree::Disagreement;
use crate::rank::link::{End, Link};
use crate::rank::outbox;
use crate::{Maximum, Stop, WorkerReport};

/// What the first rank of two makes of a message of the other one: the message, if it is none that ends the run.
fn taken_in(message: &[u8]) -> Option<Vec<u8>> {
    let mut ranks = in_process(2);
    ranks[1].send(Rank::ROOT.0, message.to_vec()).ok()?;
    let mut link = Link::new(End::Lent(&mut ranks[0]), Stop::new());
    link.take_in().ok().map(|_| message.to_vec())
}

/// Messages of a meeting, control words, output of a stream, and one of the engine.
fn frames() -> Vec<Vec<u8>> {
    let word = |step: u32, bytes: &[u8]| [&[0x7f][..], &step.to_le_bytes(), bytes].concat();
    let texts = "why".to_owned().encoded();
    vec![
        word(1, b"of a meeting"),
        word(u32::MAX, b""),
        word(u32::MAX - 1, &texts),
        word(u32::MAX - 2, &vec![1_u32, 300].encoded()),
        word(u32::MAX - 3, b""),
        [&[0x81], b"rows".as_slice()].concat(),
        vec![0xff],
        vec![2],
    ]
}

fn targets() -> Vec<Target> {
    let report = WorkerReport { tasks: 1, steals: 300, waiting: Duration::from_secs(1) };
    let disagreement = Disagreement { first: (0, "a".to_owned()), other: (300, "b".to_owned()) };
    let opened = |bytes: &[u8]| outbox::open(bytes).map(|(stream, rest)| [&[0x80 | stream.0], rest].concat());
    vec![
        fuzz_code!("results.rs: Maximum", Maximum, [Maximum(300)]),
        fuzz_code!("options.rs: WorkerReport", WorkerReport, [report]),
        fuzz_code!("rank/agree.rs: Disagreement", Disagreement, [disagreement]),
        Target::new("rank/link.rs: take_in", frames(), taken_in),
        Target::new("rank/outbox.rs: open", vec![vec![0x81, 5, 6], vec![0x80]], opened),
    ]
}

atta_testkit::fuzz_tests!(targets);
