//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_code::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::record::{At, Fact, Record, Records, Seen, SliceNumber, records};
use crate::{Extent, Fold, Frame, Key, LogName, Open, PartRead, Selected, SomeLogs, frame, read, sections};

/// Records of each kind, in an order in which paths grow and shrink.
fn samples() -> Vec<Vec<u8>> {
    let slice = SliceNumber { run: 1, rank: 300, number: 1 << 40 };
    let seen = Seen { source_inode: 1 << 33, target_inode: 9, changed: (-1, 999_999_999) };
    let facts = [
        (&b"a/b"[..], Fact::Found { name: b"c\xff\n", mark: 0 }),
        (&b"a/b"[..], Fact::Found { name: b"d", mark: 1 << 31 }),
        (&b""[..], Fact::Marked { mark: 300 }),
        (b"a/b", Fact::Listed { slice, names: vec![b"x", b"yy"] }),
        (b"a/b/c", Fact::Done { slice: None, seen: Some(seen) }),
        (b"a", Fact::Done { slice: Some(slice), seen: None }),
        (b"", Fact::Closed),
        (b"ab", Fact::Planned { name: b"large", plan: b"plan" }),
        (b"ab", Fact::Chunk { name: b"large", index: 7, value: b"" }),
        (b"a/b", Fact::Failed { name: b"", row: b"why" }),
        (b"a/b", Fact::Mended { name: b"f" }),
    ];
    let mut all = Records::default();
    let mut samples = Vec::new();
    for (path, fact) in &facts {
        let at = At { root: 2, path };
        let mut one = Records::default();
        one.add_fact(at, fact);
        samples.push(one.take());
        all.add_fact(at, fact);
    }
    all.add(&Record::Results(b"sums"));
    all.add(&Record::Part(b"part"));
    all.add(&Record::Cut { log: LogName { run: 1, rank: 0, part: 1 }, bytes: 1 << 40 });
    all.add(&Record::Void { log: LogName { run: 1, rank: 0, part: 1 }, offset: u64::MAX, by: 2 });
    samples.push(all.take());
    samples
}

/// The records of a section, written again.
fn again(section: &[u8]) -> Option<Vec<u8>> {
    let mut out = Records::default();
    records(section, &mut |record| out.add(record)).then(|| out.take())
}

/// The bytes of a log that count, if it is not refused.
fn counted(bytes: &[u8]) -> Option<Vec<u8>> {
    let key = Key::of_job(&[1; 16]);
    let name = LogName { run: 1, rank: 0, part: 0 };
    let mut log = bytes;
    let contents = read((&key, name), &mut log, None, &mut |_, frame| {
        sections(frame, &mut |section| again(section).is_some())
    })
    .ok()?;
    Some(bytes[..contents.bytes as usize].to_vec())
}

fn log() -> Vec<u8> {
    let (key, name) = (Key::of_job(&[1; 16]), LogName { run: 1, rank: 0, part: 0 });
    let mut log = Vec::new();
    for (sequence, section) in samples().into_iter().enumerate() {
        let head =
            Frame { offset: log.len() as u64, sequence: sequence as u64, synced: log.len() as u64 / 2 };
        log.extend(frame(&key, name, head, &[section]).unwrap());
    }
    log
}

/// What is open in a log with some directories.
fn open() -> Open {
    let (key, name) = (Key::of_job(&[1; 16]), LogName { run: 1, rank: 0, part: 0 });
    let bytes = log();
    let extent = Extent { log: name, until: None };
    let mut logs = SomeLogs::new(&key, vec![(extent, bytes.as_slice())]);
    let fold = Fold { key, closes: true, memory: 1 << 20 };
    PartRead::read(&fold, &mut logs).unwrap().unwrap().take_open()
}

fn targets() -> Vec<Target> {
    let slice = SliceNumber { run: 1, rank: 2, number: 3 };
    let log_name = LogName { run: 1, rank: 300, part: 0 };
    vec![
        fuzz_code!("record.rs: SliceNumber", SliceNumber, [slice]),
        fuzz_code!("record.rs: Seen", Seen, [Seen::default()]),
        fuzz_code!("log.rs: LogName", LogName, [LogName { run: 1, rank: 300, part: 0 }]),
        fuzz_code!("extents.rs: Extent", Extent, [Extent { log: log_name, until: Some(1 << 40) }]),
        fuzz_code!("fold/together.rs: Open", Open, [open()]),
        fuzz_code!("fold/together.rs: Selected", Selected, [Selected::default()]),
        Target::new("record.rs: records", samples(), again).holding(64),
        Target::new("log.rs: read", vec![log()], counted).of_several_encodings(),
    ]
}

atta_testkit::fuzz_tests!(targets);
