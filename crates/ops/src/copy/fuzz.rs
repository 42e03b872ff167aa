//! The decoders of a copy, for `atta_testkit::fuzz`.

use std::time::Duration;

use atta_entry::{Code, Kind, Metadata};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::large::Key;
use super::links::claims::Known;
use super::links::ranks::LinkTask;
use super::plan::repair::later::PutOff;
use super::results::Results;
use super::results::manifest::ManifestRow;
use super::results::report::{Report, SizeClass, SlowFile};
use super::results::times::RankReport;
use super::results::totals::Totals;
use crate::fuzz::version;

pub(crate) fn targets() -> Vec<Target> {
    let key = Key { is_hashed: true, version: version(), temporary: c".atta.0123456789ab".into() };
    let slow = || SlowFile { elapsed: Duration::from_secs(1), bytes: 300, path: b"a/b".to_vec() };
    let known = |bytes: &[u8]| Known::from_bytes(bytes).map(|known| known.to_bytes());
    let digest = Some(blake3::hash(b"x"));
    let wait = LinkTask::Wait { key: c"fe-1a".into(), from: 300 };
    let put_off = |replaced| {
        let (root, path) = (b"s".to_vec(), b"s/a".to_vec());
        PutOff { file: (1, 300), names: 2, replaced, root, path }
    };
    let row = || ManifestRow {
        path: b"t/a".to_vec(),
        kind: Kind::Symlink,
        size: 300,
        digest: Some([7; 32]),
        target: Some(b"b".to_vec()),
        is_failed: false,
    };
    let file = Metadata { mode: 0o100_644, ..Metadata::default() };
    let complete = [None, digest].map(|digest| Known::new(&file, 5, digest).to_bytes());
    vec![
        fuzz_code!("copy/large.rs: Key", Key, [key]),
        fuzz_code!("copy/results/times.rs: RankReport", RankReport, [RankReport::default()]),
        fuzz_code!(
            "copy/results/report.rs: SizeClass",
            SizeClass,
            [SizeClass { below: Some(300), files: 1, bytes: 2 }]
        ),
        fuzz_code!("copy/results/report.rs: SlowFile", SlowFile, [slow()]),
        fuzz_code!(
            "copy/results/report.rs: Report",
            Report,
            [Report::default(), Report { slowest: vec![slow(), slow()], ..Report::default() }]
        ),
        fuzz_code!("copy/results/totals.rs: Totals", Totals, [Totals::default()]),
        fuzz_code!("copy/links/ranks.rs: LinkTask", LinkTask, [wait, LinkTask::Ended { key: c"8-1".into() }]),
        fuzz_code!("copy/plan/repair/later.rs: PutOff", PutOff, [put_off(None), put_off(Some((7, 300)))]),
        fuzz_code!("copy/results/manifest.rs: ManifestRow", ManifestRow, [row()]),
        fuzz_code!(
            "copy/results.rs: Results",
            Results,
            [Results { rows: vec![row(); 2], ..Results::default() }]
        ),
        Target::new("copy/links/claims.rs: from_bytes", complete.to_vec(), known).of_several_encodings(),
    ]
}
