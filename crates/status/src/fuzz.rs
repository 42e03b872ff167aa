//! The decoders of this crate, for `atta_testkit::fuzz`.

use std::time::SystemTime;

use atta_code::Code;
use atta_entry::Errno;
use atta_mounts::{Aliases, Host, MountTable, Silent};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::class::{Class, Run, Wanted};
use crate::consistency::{Digests, Failed, Sizes};
use crate::evidence::{Detail, Evidence, Sighting, Space};
use crate::inspection::{Finding, Findings};
use crate::measure::Speed;
use crate::sameness::{Differing, View};
use crate::saved_map::SavedMap;
use crate::seen::{Kinds, Reaches, Seen, named};
use crate::source_file::Facts;
use crate::speeds::{Measured, Speeds};
use crate::spread::Ended;
use crate::verdict::{Group, Groups, Verdict};
use crate::{Alone, Estimate, Filter, MountMap, Options, Ranks, Status};

/// What three ranks see of two files.
fn seen_by_three(table: &MountTable) -> Seen {
    let seen = |path: &[u8], rank| Seen::of(named(table, &Aliases::of(table), path), rank, Wanted::ALL);
    let mut all = seen(b"/home/f", 1);
    all.merge(seen(b"/f", 300), Wanted::ALL);
    all.merge(seen(b"/home/f", 2), Wanted::ALL);
    all
}

fn sampled_view() -> View {
    let (uri, fact) = ("nfs://server/e".to_owned(), "/e is inode 2".to_owned());
    View { rank: 300, host: b"node".to_vec(), uri, fact, key: Some([7; 16]) }
}

fn filter(names: u8, names_max: u32) -> Filter {
    let mut filter = Filter::new(names_max);
    (0..names).for_each(|name| filter.insert(&[name.wrapping_mul(37); 16]));
    filter
}

/// A map and speeds, as they are kept in files.
fn files(table: &MountTable) -> Vec<Target> {
    let status = Status::join(&mut Alone, table, Options::default()).unwrap();
    let map = MountMap::build(&status, &mut Alone).unwrap();
    let saved = SavedMap::gather(&status, &mut Alone, &map, SystemTime::UNIX_EPOCH).unwrap();
    let speed = Speed { write: 300, read: 5 };
    let mut speeds = Speeds::default();
    speeds.insert(b"nfs://h/e".to_vec(), speed, SystemTime::UNIX_EPOCH);
    let read_map = |bytes: &[u8]| SavedMap::from_bytes(bytes).ok().map(|map| map.to_bytes());
    let read_speeds = |bytes: &[u8]| Speeds::from_bytes(bytes).ok().map(|speeds| speeds.to_bytes());
    vec![
        fuzz_code!("measure.rs: Speed", Speed, [speed]),
        fuzz_code!("speeds.rs: Measured", Measured, [Measured { speed, at: 300 }]),
        Target::new("speeds.rs: from_bytes", vec![speeds.to_bytes()], read_speeds),
        fuzz_code!("speeds.rs: Speeds", Speeds, [speeds]).holding(200),
        Target::new("saved_map.rs: from_bytes", vec![saved.to_bytes()], read_map),
        fuzz_code!("saved_map.rs: SavedMap", SavedMap, [saved]).holding(200),
    ]
}

fn targets() -> Vec<Target> {
    let text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        36 21 0:40 / /home rw - nfs4 server:/export/home rw,addr=192.0.2.7\n";
    let table = MountTable::from_bytes(text, &Silent::on(Host::new(b"boot", b"node"))).unwrap();
    let seen = seen_by_three(&table);
    let verdict = Verdict::of(seen.clone(), 400, false);
    let class = seen.run.classes.values().next().unwrap().clone();
    let group = verdict.list[0].clone();
    let mut ranks = Ranks::of(0);
    ranks.add(&Ranks::of(7));
    let failed = Failed(Some((300, Errno::NOENT)));
    let sizes = Sizes { any: Some(Some(300)), differ: true, failed };
    let digests = Digests { shares: [(1, [7; 32])].into(), differ: false, failed: Failed(None) };
    let groups = Groups { low: 1, high: 300, is_estimate: true };
    let time = atta_entry::Timestamp { seconds: -3, nanoseconds: 999_999_999 };
    let facts = Facts { size: 1 << 40, blocks: 300, mode: 0o640, accessed: time, modified: time };
    let reaches = Reaches { local: 1, remote: 300, unknown: 0 };
    let space = Space { total: 300, available: 200, is_read_only: true };
    let sighting = Sighting { evidence: Evidence::NoAnswer, space: Some(space), mark: Some(300) };
    let finding = Finding { evidence: Evidence::Absent, ranks: ranks.clone() };
    let findings = Findings {
        by_evidence: [(Evidence::Directory(None), ranks.clone()), (Evidence::NotMounted, ranks.clone())]
            .into(),
        others: 300,
        space: Some(space),
        mark: Some(300),
        marks_differ: true,
    };
    let view = sampled_view();
    let mut all = files(&table);
    all.extend(crate::places::fuzz::targets());
    all.extend([
        fuzz_code!("class.rs: Class", Class, [class]).holding(100),
        fuzz_code!("class.rs: Run", Run, [seen.run.clone()]).holding(200),
        fuzz_code!("consistency.rs: Failed", Failed, [failed]),
        fuzz_code!("consistency.rs: Sizes", Sizes, [sizes]),
        fuzz_code!("consistency.rs: Digests", Digests, [digests]).holding(64),
        fuzz_code!(
            "evidence.rs: Evidence",
            Evidence,
            [Evidence::File(300, Some([7; 32])), Evidence::Other(0o120_000), Evidence::Failed(Errno::NOENT)]
        ),
        fuzz_code!("evidence.rs: Detail", Detail, [Detail::Kind, Detail::Names, Detail::Contents]),
        fuzz_code!("evidence.rs: Space", Space, [space]),
        fuzz_code!("evidence.rs: Sighting", Sighting, [sighting]),
        fuzz_code!("filter.rs: Estimate", Estimate, [Estimate { number: 300, is_full: true }]),
        fuzz_code!("filter.rs: Filter", Filter, [filter(3, 400), filter(200, 40)]),
        fuzz_code!("inspection.rs: Finding", Finding, [finding]),
        fuzz_code!("inspection.rs: Findings", Findings, [findings]).holding(64),
        fuzz_code!("options.rs: Options", Options, [Options::default()]),
        fuzz_code!("ranks.rs: Ranks", Ranks, [ranks]),
        fuzz_code!("sameness.rs: View", View, [view.clone()]).holding(64),
        fuzz_code!("sameness.rs: Differing", Differing, [Differing { first: view.clone(), other: view }])
            .holding(128),
        fuzz_code!("seen.rs: Kinds", Kinds, [seen.kinds]),
        fuzz_code!("seen.rs: Reaches", Reaches, [reaches]),
        fuzz_code!("seen.rs: Seen", Seen, [seen]).holding(200),
        fuzz_code!("source_file.rs: Facts", Facts, [facts]),
        fuzz_code!("spread.rs: Ended", Ended, [Ended { size: 300, digest: [7; 32] }]),
        fuzz_code!("verdict.rs: Groups", Groups, [groups]),
        fuzz_code!("verdict.rs: Group", Group, [group]),
        fuzz_code!("verdict.rs: Verdict", Verdict, [verdict]).holding(100),
    ]);
    all
}

atta_testkit::fuzz_tests!(targets);
