//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_code::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::status::ranks::message::Header;

fn targets() -> Vec<Target> {
    let headers = [Header::new(1, 0, 300), Header::new(13, 32, 0)];
    vec![fuzz_code!("status/ranks/message.rs: Header", Header, [headers[0], headers[1]])]
}

atta_testkit::fuzz_tests!(targets);
