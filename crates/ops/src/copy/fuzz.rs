//! The decoders of a copy, for `atta_testkit::fuzz`.

use std::time::Duration;

use atta_entry::{Code, Metadata};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::large::Key;
use super::links::claims::Known;
use super::report::{Report, SizeClass, SlowFile};
use super::times::RankReport;
use super::totals::Totals;
use crate::fuzz::version;

pub(crate) fn targets() -> Vec<Target> {
    let key = Key { is_hashed: true, version: version(), temporary: c".atta.0123456789ab".into() };
    let slow = || SlowFile { elapsed: Duration::from_secs(1), bytes: 300, path: b"a/b".to_vec() };
    let known = |bytes: &[u8]| Known::from_bytes(bytes).map(|known| known.to_bytes());
    let digest = Some(blake3::hash(b"x"));
    let complete = [None, digest].map(|digest| Known::new(&Metadata::default(), 5, digest).to_bytes());
    vec![
        fuzz_code!("copy/large.rs: Key", Key, [key]),
        fuzz_code!("copy/times.rs: RankReport", RankReport, [RankReport::default()]),
        fuzz_code!(
            "copy/report.rs: SizeClass",
            SizeClass,
            [SizeClass { below: Some(300), files: 1, bytes: 2 }]
        ),
        fuzz_code!("copy/report.rs: SlowFile", SlowFile, [slow()]),
        fuzz_code!(
            "copy/report.rs: Report",
            Report,
            [Report::default(), Report { slowest: vec![slow(), slow()], ..Report::default() }]
        ),
        fuzz_code!("copy/totals.rs: Totals", Totals, [Totals::default()]),
        Target::new("copy/links/claims.rs: from_bytes", complete.to_vec(), known).of_several_encodings(),
    ]
}
