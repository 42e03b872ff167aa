//! The decoders of this crate, for `atta_testkit::fuzz`.

use std::time::SystemTime;

use atta_code::Code;
use atta_entry::Errno;
use atta_mounts::{Host, MountTable, Silent};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::class::{Class, Run, Wanted};
use crate::consistency::{Digests, Failed, Sizes};
use crate::known::Known;
use crate::look::{Look, Reaches, named};
use crate::measure::Speed;
use crate::saved_map::SavedMap;
use crate::speeds::{Measured, Speeds};
use crate::verdict::{Group, Groups, Verdict};
use crate::{Alone, Estimate, Filter, MountMap, Options, Ranks, Status};

/// A look of three ranks at two files.
fn seen_by_three(table: &MountTable) -> Look {
    let seen = |path: &[u8], rank| Look::of(named(table, &Known::of(table), path), rank);
    let mut all = seen(b"/home/f", 1);
    all.merge(seen(b"/f", 300), Wanted::ALL);
    all.merge(seen(b"/home/f", 2), Wanted::ALL);
    all
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
    let look = seen_by_three(&table);
    let verdict = Verdict::of(look.clone(), 400);
    let class = look.run.classes.values().next().unwrap().clone();
    let group = verdict.list[0].clone();
    let mut ranks = Ranks::of(0);
    ranks.add(&Ranks::of(7));
    let failed = Failed(Some((300, Errno::NOENT)));
    let sizes = Sizes { any: Some(Some(300)), differ: true, failed };
    let digests = Digests { shares: [(1, [7; 32])].into(), differ: false, failed: Failed(None) };
    let groups = Groups { low: 1, high: 300, is_estimate: true };
    let reaches = Reaches { local: 1, remote: 300, unknown: 0 };
    let mut all = files(&table);
    all.extend(crate::places::fuzz::targets());
    all.extend([
        fuzz_code!("class.rs: Class", Class, [class]).holding(100),
        fuzz_code!("class.rs: Run", Run, [look.run]).holding(200),
        fuzz_code!("consistency.rs: Failed", Failed, [failed]),
        fuzz_code!("consistency.rs: Sizes", Sizes, [sizes]),
        fuzz_code!("consistency.rs: Digests", Digests, [digests]).holding(64),
        fuzz_code!("filter.rs: Estimate", Estimate, [Estimate { number: 300, is_full: true }]),
        fuzz_code!("filter.rs: Filter", Filter, [filter(3, 400), filter(200, 40)]),
        fuzz_code!("known.rs: Known", Known, [Known::of(&table)]).holding(100),
        fuzz_code!("look.rs: Look", Look, [look]).holding(200),
        fuzz_code!("look.rs: Reaches", Reaches, [reaches]),
        fuzz_code!("options.rs: Options", Options, [Options::default()]),
        fuzz_code!("ranks.rs: Ranks", Ranks, [ranks]),
        fuzz_code!("verdict.rs: Groups", Groups, [groups]),
        fuzz_code!("verdict.rs: Group", Group, [group]),
        fuzz_code!("verdict.rs: Verdict", Verdict, [verdict]).holding(100),
    ]);
    all
}

atta_testkit::fuzz_tests!(targets);
