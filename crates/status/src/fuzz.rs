//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_code::Code;
use atta_entry::Errno;
use atta_mounts::{Host, MountTable, Silent};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::class::{Class, Run, Wanted};
use crate::consistency::{Digests, Failed, Sizes};
use crate::known::Known;
use crate::look::{Look, Reaches, named};
use crate::source_file::Facts;
use crate::spread::Ended;
use crate::verdict::{Group, Groups, Verdict};
use crate::{Estimate, Filter, Options, Ranks};

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
    let time = atta_entry::Timestamp { seconds: -3, nanoseconds: 999_999_999 };
    let facts = Facts { size: 1 << 40, blocks: 300, mode: 0o640, accessed: time, modified: time };
    let reaches = Reaches { local: 1, remote: 300, unknown: 0 };
    vec![
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
        fuzz_code!("source_file.rs: Facts", Facts, [facts]),
        fuzz_code!("spread.rs: Ended", Ended, [Ended { size: 300, digest: [7; 32] }]),
        fuzz_code!("verdict.rs: Groups", Groups, [groups]),
        fuzz_code!("verdict.rs: Group", Group, [group]),
        fuzz_code!("verdict.rs: Verdict", Verdict, [verdict]).holding(100),
    ]
}

atta_testkit::fuzz_tests!(targets);
