//! The decoders of `verify`, for `atta_testkit::fuzz`.

use atta_entry::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::findings::Findings;
use super::large::{Compared, Key};
use super::links::Name;
use super::tally::{self, Tally};
use super::task::Task;
use super::totals::Totals;
use crate::file::error::PairError;
use crate::fuzz::{large_tasks, version};
use crate::tree::task::bytes::samples::names;

fn tasks() -> Vec<Task<'static>> {
    let results = [Ok(compared()), Err(PairError::Changed)];
    let large = large_tasks(key(), results).into_iter().map(Task::Large);
    large.chain([Task::Names(300), Task::LookUp(names(&[c"a", c"b"]))]).collect()
}

fn compared() -> Compared {
    Compared { first: Some(300), bytes: 1 << 30 }
}

fn key() -> Key {
    Key { source: version(), target: version() }
}

fn findings() -> Findings {
    let differences = b"differences".to_vec();
    Findings { differences, names: b"names".to_vec(), lost: 300, ..Findings::default() }
}

pub(crate) fn targets() -> Vec<Target> {
    let task = |bytes: &[u8]| Task::decode_all(bytes).map(|task| task.encoded());
    let name = Name { source: (1, 2), target: (3, 300), path: b"a/b".to_vec() };
    vec![
        fuzz_code!("verify/large.rs: Key", Key, [key()]),
        fuzz_code!("verify/large.rs: Compared", Compared, [compared()]),
        fuzz_code!("verify/tally.rs: Key", tally::Key, [tally::Key::random()]),
        fuzz_code!("verify/tally.rs: Tally", Tally, [Tally::default()]),
        fuzz_code!("verify/links.rs: Name", Name, [name]),
        fuzz_code!("verify/findings.rs: Findings", Findings, [Findings::default(), findings()]),
        fuzz_code!("verify/totals.rs: Totals", Totals, [Totals::default()]),
        Target::new("verify/task.rs: Task", tasks().iter().map(Code::encoded).collect(), task),
    ]
}
