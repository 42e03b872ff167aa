//! The decoders of tasks, for `atta_testkit::fuzz`: each record, and whole parcels and segments of the spill file.

use atta_entry::Code;
use atta_ledger::SliceNumber;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::record::{Level, OwnOf, Record};
use super::samples::{One, names, pack_all, root, tasks};
use super::{PackedBy, pack_payments, pack_with_anchor, unpack};
use crate::tree::debts::{Debt, Payment, Unit};
use crate::tree::listing::names::Names;
use crate::tree::start::Differs;

/// Ranks of the job.
const RANKS: u32 = 4;
/// Bytes of memory for each byte of tasks: a directory or a slice takes some hundred bytes, and its record four.
const HELD_PER_BYTE: usize = 128;

fn level() -> Level<'static> {
    Level { name: c"d".into(), place: Some((1, 300, 5)), target: Some(b"x/y".into()) }
}

fn records() -> Vec<Record<'static>> {
    vec![
        Record::Root { path: b"/given".into(), inode: 7 },
        Record::Directory { shared: 0, levels: vec![level(), Level { target: None, ..level() }] },
        Record::Anchor { number: 8, unit: Unit::Child },
        Record::Lent(debt()),
        Record::Listed(SliceNumber { run: 1, rank: 2, number: 300 }),
        Record::Paid(vec![payment()]),
        Record::Start { below: Some(b"a/b".into()), differs: Some(Differs::default()) },
        Record::Enter { name: c"c".into(), target: None },
        Record::Look(std::borrow::Cow::Owned(names(&[c"a", c"b"]))),
        Record::Own { to: Some(1), of: OwnOf::Part(true), bytes: b"own".into() },
    ]
}

fn debt() -> Debt {
    Debt { rank: 1, directory: 1 << 40, slice: 5 }
}

fn payment() -> Payment {
    Payment { to: 0, number: 9, unit: Unit::Part, count: 2, report: vec![1, 2], has_failed: true }
}

/// A parcel: tasks with debts, and payments.
fn parcel() -> Vec<u8> {
    let mut bytes = Vec::new();
    pack_all(&tasks(&root()), &mut bytes);
    let [root, directory, _, lent, listed, _, _, enter, look, own] = records().try_into().unwrap();
    let rest = [root, directory, lent.clone(), enter, lent.clone(), listed, look, lent, own];
    rest.iter().for_each(|record| record.encode(&mut bytes));
    pack_payments(vec![payment()], &mut bytes);
    bytes
}

/// A segment of the spill file.
fn segment() -> Vec<u8> {
    let mut bytes = Vec::new();
    for task in tasks(&root()) {
        if let Some((_, unit)) = task.anchor() {
            pack_with_anchor(&task, (8, unit), &mut bytes);
        }
    }
    bytes
}

/// Whether these bytes are tasks. There is no need to pack them again: each record has a target of its own.
fn unpacked(bytes: &[u8], by: PackedBy) -> Option<Vec<u8>> {
    unpack(bytes, by, &One(root())).ok().map(|_| bytes.to_vec())
}

pub(crate) fn targets() -> Vec<Target> {
    let record = |bytes: &[u8]| Record::decode_all(bytes).map(|record| record.encoded());
    let another = |bytes: &[u8]| unpacked(bytes, PackedBy::Another { ranks: RANKS });
    let itself = |bytes: &[u8]| unpacked(bytes, PackedBy::Itself);
    let mut unrooted = Vec::new();
    pack_all(&tasks(&root()), &mut unrooted);
    vec![
        Target::new(
            "tree/task/bytes/record.rs: Record",
            records().iter().map(Code::encoded).collect(),
            record,
        )
        .holding(64),
        fuzz_code!("tree/task/bytes/record.rs: Level", Level<'_>, [level()]),
        fuzz_code!("tree/task/bytes/record.rs: OwnOf", OwnOf, [OwnOf::Directory, OwnOf::Part(false)]),
        fuzz_code!("tree/task/bytes/record.rs: Differs", Differs, [Differs::default()]),
        fuzz_code!("tree/task/bytes/record.rs: Unit", Unit, [Unit::Names]),
        fuzz_code!("tree/task/bytes/record.rs: Debt", Debt, [debt()]),
        fuzz_code!("tree/task/bytes/record.rs: Payment", Payment, [payment()]),
        fuzz_code!("tree/listing/names.rs: Names", Names, [names(&[c"a", c"b\xff"])]),
        Target::new("tree/task/bytes/reader.rs: unpack", vec![parcel(), unrooted.clone()], another)
            .holding(HELD_PER_BYTE),
        Target::new("tree/task/bytes/reader.rs: unpack of this process", vec![segment(), unrooted], itself)
            .holding(HELD_PER_BYTE),
    ]
}
