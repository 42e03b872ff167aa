//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_code::Code;
use atta_entry::Errno;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::reader::Opens;
use crate::server::{Message, Traffic};

fn targets() -> Vec<Target> {
    let path = b"/m/f".to_vec();
    let request = Message::Request { path: path.clone() };
    let found = Message::Answer { path: path.clone(), file: Ok(b"contents".to_vec()) };
    let failed = Message::Answer { path, file: Err(Errno::NOENT) };
    vec![
        fuzz_code!("reader.rs: Opens", Opens, [Opens { opened: 1, failed: 300 }]),
        fuzz_code!("server.rs: Message", Message, [request, found, failed, Message::Done, Message::End]),
        fuzz_code!("server.rs: Traffic", Traffic, [Traffic { requests: 1, answers: 300 }]),
    ]
}

atta_testkit::fuzz_tests!(targets);
