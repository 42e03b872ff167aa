//! The decoders of this crate, for `atta_testkit::fuzz`: what ranks tell each other before and after a run, and the rows that the first
//! rank writes for others. Fields of samples are private, so samples are bytes.

use std::time::Duration;

use atta_entry::{Change, Code, Difference, Errno, Kind};
use atta_ops::copy::{RankReport as CopyRankReport, Report};
use atta_ops::digest::Signature;
use atta_ops::resume::Rechecked;
use atta_ops::{copy, verify};
use atta_testkit::fuzz::Target;

use crate::copy::logged::Begins;
use crate::copy::part::Part;
use crate::copy::per_node::node::NodeEnd;
use crate::copy::setting::Begun;
use crate::launch::host_file::HostFile;
use crate::launch::host_list::HostList;
use crate::location::Question;
use crate::run::earlier::Earlier;
use crate::run::going::Going;
use crate::run::inject;
use crate::run::logged::{self, RunOfJob};
use crate::run::outcome::Outcome;
use crate::run::parts::Gathered;
use crate::run::same::Judged;
use crate::run::share::Share;
use crate::run::together::FromAll;
use crate::sum::sink::FirstSide;
use crate::sum::totals::Summed;
use crate::verify::run as verify_run;
use crate::verify::run::Refusal;
use crate::verify::totals::Compared;
use crate::walk::threads::RankReport;
use crate::walk::totals::RankTotals;
use crate::{sum, walk};

fn of<T: Code>(name: &'static str, sample: Vec<u8>) -> Target {
    Target::new(name, vec![sample], |bytes| T::decode_all(bytes).map(|value| value.encoded())).holding(64)
}

/// Values one after another, as another rank sends them to the first one.
fn rows<T: Code>(name: &'static str, samples: &[T]) -> Target {
    let samples = samples.iter().flat_map(Code::encoded).collect();
    let read = |mut bytes: &[u8]| {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            T::decode(&mut bytes)?.encode(&mut out);
        }
        Some(out)
    };
    Target::new(name, vec![samples], read).holding(64)
}

fn copied() -> Vec<u8> {
    let signature = Some(Signature::default()).encoded();
    let ranks = vec![CopyRankReport::default(), CopyRankReport::default()].encoded();
    let end = ((Duration::from_secs(1), 4_usize, 130_u8), (true, true, Some("why".to_owned()))).encoded();
    [copy::Totals::default().encoded(), Report::default().encoded(), ranks, signature, end].concat()
}

fn node_end() -> Vec<u8> {
    let (node, text) = (("node1".to_owned(), vec![1_u32, 300], 3_u8), ("{}".to_owned(), "1 file".to_owned()));
    let end = (Some("why".to_owned()), text).encoded();
    [node.encoded(), end, Some("atta clean a".to_owned()).encoded()].concat()
}

fn begun() -> Vec<u8> {
    let rows = vec![(1_u32, 2_u32, 300_u32, true)];
    let job = (Some(([7_u8; 16], 300_u32, Some(3_u32), true)), b"a/job".to_vec(), true);
    ((rows.clone(), rows), job, true, Some(9_u64)).encoded()
}

fn earlier() -> Vec<u8> {
    let one = b"a/b".to_vec();
    let failed_one = Some((one.clone(), Errno(5)));
    let rechecked = Rechecked { changed: 2, one: Some(one), failed: 1, failed_one };
    let since = "2026-01-02T03:04:05Z".to_owned();
    Earlier { entries: 300, bytes: Some(5), since, rechecked }.encoded()
}

fn compared() -> Vec<u8> {
    let end = (Duration::from_secs(1), 4_usize, true, 130_u8).encoded();
    let end = [end, Some("why".to_owned()).encoded(), vec![1], earlier()].concat();
    [verify::Totals::default().encoded(), end].concat()
}

/// A report with a row of traffic, before its last two fields.
fn ranked() -> Vec<u8> {
    let mut bytes = RankReport::default().encoded();
    let at = bytes.len() - 3;
    bytes.splice(at..=at, vec![(1_u32, 2_u64, 300_u64)].encoded());
    bytes
}

fn injected(bytes: &[u8]) -> Option<Vec<u8>> {
    inject::Line::from_text(std::str::from_utf8(bytes).ok()?).map(|line| line.to_text().into_bytes())
}

fn outcome(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Outcome::from_text(bytes).to_text().into_bytes())
}

fn host_list(bytes: &[u8]) -> Option<Vec<u8>> {
    let list = HostList::from_text(bytes)?;
    assert!(list.slots().all(|(name, _)| !name.is_empty()));
    Some(list.keeping(|_| true))
}

fn host_file(bytes: &[u8]) -> Option<Vec<u8>> {
    let file = HostFile::from_text(bytes)?;
    assert!(file.slots().all(|(name, _)| !name.is_empty()));
    Some(file.keeping(|_| true))
}

fn questions() -> Vec<Question> {
    let path = b"/a/b".to_vec();
    vec![
        Question::Look(path.clone(), atta_status::Detail::Names),
        Question::Resolve(path.clone()),
        Question::File(path.clone()),
        Question::Attribute(path, b"user.fqrn".to_vec()),
        Question::Addresses(b"server".to_vec()),
    ]
}

fn targets() -> Vec<Target> {
    let failures = [("a line\n".to_owned(), b"{}\n".to_vec()), (String::new(), Vec::new())];
    let records = [(b"a key".to_vec(), b"a value".to_vec())];
    let difference = Difference { path: b"a/b".to_vec().into(), kind: Kind::File, change: Change::Missing };
    let refusal = (300_u32, "what".to_owned(), "hint".to_owned(), true);
    vec![
        of::<walk::run::Verdict>("walk/run.rs: Verdict", walk::run::Verdict::default().encoded()),
        of::<logged::Begins>("run/logged.rs: Begins", (true, 300_usize).encoded()),
        of::<Earlier>("run/earlier.rs: Earlier", earlier()),
        of::<Going>("run/going.rs: Going", (b"a/job".to_vec(), [7_u8; 16], 300_u32).encoded()),
        of::<Gathered>("run/parts.rs: Gathered", b"{}\n".to_vec().encoded()),
        of::<Share>("run/share.rs: Share", Share::default().encoded()),
        of::<RunOfJob>("run/logged.rs: RunOfJob", ([7_u8; 16], 300_u32, Some(3_u32), true).encoded()),
        of::<FromAll<Share>>("run/together.rs: FromAll", FromAll::<Share>::default().encoded()),
        of::<Judged>("run/same.rs: Judged", (2_u8, 300_u64, true).encoded()),
        of::<RankReport>("walk/threads.rs: RankReport", ranked()),
        of::<RankTotals>("walk/totals.rs: RankTotals", RankTotals::default().encoded()),
        of::<sum::run::Verdict>("sum/run.rs: Verdict", sum::run::Verdict::default().encoded()),
        of::<FirstSide>("sum/sink.rs: FirstSide", FirstSide::default().encoded()),
        of::<Summed>("sum/totals.rs: Summed", Summed::default().encoded()),
        of::<verify_run::Verdict>("verify/run.rs: Verdict", verify_run::Verdict::default().encoded()),
        of::<Refusal>("verify/run.rs: Refusal", refusal.encoded()),
        of::<Compared>("verify/totals.rs: Compared", compared()),
        of::<Part>("copy/part.rs: Part", copied()),
        of::<NodeEnd>("copy/per_node/node.rs: NodeEnd", node_end()),
        of::<Begun>("copy/setting.rs: Begun", begun()),
        rows::<Question>("location/answer.rs: Question", &questions()),
        of::<Begins>("copy/logged.rs: Begins", Begins::Unlogged.encoded()),
        Target::new("run/inject.rs: from_text", vec![b"1 consumption 20".to_vec()], injected)
            .of_several_encodings(),
        Target::new("run/outcome.rs: from_text", vec![b"begun\ncomplete 3\nended 143\n".to_vec()], outcome)
            .of_several_encodings(),
        Target::new("launch/host_list.rs: from_text", vec![b"a:2,b,c:4:core".to_vec()], host_list)
            .holding(64),
        Target::new("launch/host_file.rs: from_text", vec![b"# all\na slots=2\n\nb:3\n".to_vec()], host_file)
            .holding(200),
        rows::<(String, Vec<u8>)>("run/failures.rs: receive", &failures),
        rows::<(Vec<u8>, Vec<u8>)>("sum/sink.rs: receive_records", &records),
        rows::<Difference<'_>>("verify/rows.rs: receive_differences", &[difference]),
    ]
}

atta_testkit::fuzz_tests!(targets);
