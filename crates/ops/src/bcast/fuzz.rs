//! The decoders of a broadcast, for `atta_testkit::fuzz`.

use atta_entry::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::rows::{Checked, Done, Ended, Failed, Ready};

pub(crate) fn targets() -> Vec<Target> {
    let failed = || Failed { rank: 300, host: "node1".to_owned(), reason: "no space".to_owned() };
    let done = Done { stopped: true, digests: vec![([7; 32], 300)], failed: vec![failed()] };
    let ended =
        Ended { written: 300, readers: vec![0, 300], file: Some((1 << 40, [7; 32])), failed: vec![failed()] };
    let ready = Ready { writer: Some(300), failed: Some(failed()) };
    vec![
        fuzz_code!("bcast/rows.rs: Failed", Failed, [failed()]),
        fuzz_code!("bcast/rows.rs: Ready", Ready, [ready]),
        fuzz_code!(
            "bcast/rows.rs: Checked",
            Checked,
            [
                Checked::Writes,
                Checked::Itself,
                Checked::Exists("/t on a".to_owned()),
                Checked::Failed(failed()),
            ]
        ),
        fuzz_code!("bcast/rows.rs: Done", Done, [done]).holding(64),
        fuzz_code!("bcast/rows.rs: Ended", Ended, [ended]).holding(64),
    ]
}
