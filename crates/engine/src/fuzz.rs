//! The decoders of this crate, for `atta_testkit::fuzz`.

use alloc::vec;
use alloc::vec::Vec;

use atta_code::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::{Call, Census, Message, Reason, Tasks, Way};

fn messages() -> Vec<Message> {
    let census = Census { idle: true, sent: 300, received: u64::MAX };
    vec![
        Message::Request { idle: true, wait: false },
        Message::Nothing,
        Message::Parcel { sequence: 1000, answer: true, tasks: tasks() },
        Message::Accepted { sequence: 7 },
        Message::Quiet(census),
        Message::Probe { wave: 3 },
        Message::Census { wave: 3, census },
        Message::Token { black: true },
        Message::Totals { last: true, value: vec![1, 2, 3] },
        Message::Stop(Reason::Stopped),
        Message::Finish(Reason::Done),
        Message::Farewell,
        Message::TotalsTaken,
    ]
}

fn tasks() -> Tasks {
    Tasks { count: 2, bytes: vec![5; 40].into() }
}

fn targets() -> Vec<Target> {
    let census = Census { idle: false, sent: 1, received: 300 };
    let message = |bytes: &[u8]| Message::decode(bytes).ok().map(|message| message.encode());
    vec![
        fuzz_code!("engine.rs: Reason", Reason, [Reason::Failed]),
        fuzz_code!("message.rs: Tasks", Tasks, [tasks()]),
        fuzz_code!("message.rs: Census", Census, [census]),
        fuzz_code!("regroup.rs: Way", Way, [Way::Ends, Way::From(vec![1, 2])]),
        fuzz_code!(
            "regroup.rs: Call",
            Call,
            [
                Call::Ready { dead: vec![1, 300], way: Way::From(vec![7; 20]) },
                Call::Go { dead: vec![0], way: Way::Anew },
                Call::End(Way::Over(vec![3]))
            ]
        ),
        Target::new("message.rs: Message", messages().iter().map(Message::encode).collect(), message),
    ]
}

atta_testkit::fuzz_tests!(targets);
