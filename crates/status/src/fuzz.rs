//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_code::Code;
use atta_entry::Errno;
use atta_mounts::{Aliases, Host, MountTable, Silent};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::class::{Class, Run, Wanted};
use crate::consistency::{Digests, Failed, Sizes};
use crate::seen::{Kinds, Reaches, Seen, named};
use crate::verdict::{Group, Groups, Verdict};
use crate::{Estimate, Filter, Options, Ranks};

/// What three ranks see of two files.
fn seen_by_three(table: &MountTable) -> Seen {
    let seen = |path: &[u8], rank| Seen::of(named(table, &Aliases::of(table), path), rank, Wanted::ALL);
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
    let reaches = Reaches { local: 1, remote: 300, unknown: 0 };
    vec![
        fuzz_code!("class.rs: Class", Class, [class]).holding(100),
        fuzz_code!("class.rs: Run", Run, [seen.run.clone()]).holding(200),
        fuzz_code!("consistency.rs: Failed", Failed, [failed]),
        fuzz_code!("consistency.rs: Sizes", Sizes, [sizes]),
        fuzz_code!("consistency.rs: Digests", Digests, [digests]).holding(64),
        fuzz_code!("filter.rs: Estimate", Estimate, [Estimate { number: 300, is_full: true }]),
        fuzz_code!("filter.rs: Filter", Filter, [filter(3, 400), filter(200, 40)]),
        fuzz_code!("options.rs: Options", Options, [Options::default()]),
        fuzz_code!("ranks.rs: Ranks", Ranks, [ranks]),
        fuzz_code!("seen.rs: Kinds", Kinds, [seen.kinds]),
        fuzz_code!("seen.rs: Reaches", Reaches, [reaches]),
        fuzz_code!("seen.rs: Seen", Seen, [seen]).holding(200),
        fuzz_code!("verdict.rs: Groups", Groups, [groups]),
        fuzz_code!("verdict.rs: Group", Group, [group]),
        fuzz_code!("verdict.rs: Verdict", Verdict, [verdict]).holding(100),
    ]
}

atta_testkit::fuzz_tests!(targets);
