//! What is told of a copy when it is done, for people and for machines, and while it runs. No I/O.

use std::fmt::Write as _;
use std::time::Duration;

use atta_ops::copy::{
    Leftovers, NotKept, Outcome, Progress, RankReport, Report, SizeClass, SlowFile, Totals,
};
use atta_ops::digest::Signature;
use serde_json::{Value, json};

use super::arguments::CopyArguments;
use super::by_rank;
use super::pace::{self, Outlook};
use crate::size::{binary, counted, grouped, listed, per_second};

/// Leftovers that are shown; all of them are counted.
const LEFTOVERS_SHOWN: usize = 10;

/// What was copied, by all ranks.
pub(super) struct Whole {
    pub(super) totals: Totals,
    pub(super) report: Report,
    pub(super) signature: Option<Signature>,
    pub(super) elapsed: Duration,
    pub(super) threads: usize,
    /// Each rank; without others this one.
    pub(super) ranks: Vec<RankReport>,
    pub(super) parked: bool,
    /// TARGET is the name of the copy, not a directory that it was put into.
    pub(super) target_is_name: bool,
    pub(super) leftovers: Option<Leftovers>,
    /// Entries of a list of differences that the target alone has; none: it was no such list.
    pub(super) extra: Option<u64>,
}

impl From<Outcome> for Whole {
    fn from(outcome: Outcome) -> Self {
        let Outcome { totals, report, rank, signature, threads, elapsed, parked, leftovers, .. } = outcome;
        let (threads, ranks, target_is_name, extra) = (threads.len(), vec![rank], false, None);
        Self { totals, report, signature, elapsed, threads, ranks, parked, target_is_name, leftovers, extra }
    }
}

/// For people.
pub(super) fn words(arguments: &CopyArguments, outcome: &Whole, was_interrupted: bool) -> String {
    let totals = &outcome.totals;
    let mut text = String::new();
    if was_interrupted {
        text.push_str("interrupted: results are incomplete\n");
    }
    if outcome.parked {
        text.push_str("parked: TARGET is out of space; results are incomplete\n");
    }
    let kinds = [
        (totals.files, "file", "files"),
        (totals.directories, "directory", "directories"),
        (totals.symlinks, "symlink", "symlinks"),
        (totals.hard_links, "hard link", "hard links"),
        (totals.specials, "special file", "special files"),
    ];
    let (kinds, bytes) = (listed(&kinds), binary(totals.bytes));
    if arguments.dry_run {
        let _ = writeln!(text, "{kinds} would be copied, {bytes}; nothing was written");
    } else {
        let seconds = outcome.elapsed.as_secs_f64();
        let rate = binary(per_second(totals.bytes, outcome.elapsed));
        let _ = writeln!(text, "{kinds} copied, {bytes} in {seconds:.2} s ({rate}/s)");
    }
    if let Some(signature) = &outcome.signature {
        let _ = writeln!(text, "signature {}", signature.digest());
    }
    if totals.verified_bytes > 0 {
        let _ = writeln!(text, "{} read back and found right", binary(totals.verified_bytes));
    }
    if totals.not_verified > 0 {
        let left = counted(totals.not_verified, "copy", "copies");
        let _ = writeln!(text, "not read back: {left}, or parts of large ones");
    }
    if totals.not_hashed > 0 {
        let files = counted(totals.not_hashed, "file", "files");
        let _ =
            writeln!(text, "no digest: {files} with more holes than --max-holes; so there is no signature");
    }
    if totals.mended > 0 {
        let _ =
            writeln!(text, "{} written once more", counted(totals.mended, "file or part", "files or parts"));
    }
    if totals.repaired > 0 {
        let repaired = counted(totals.repaired, "entry", "entries");
        let _ = writeln!(text, "attributes repaired: {repaired}");
    }
    if let Some(extra) = outcome.extra.filter(|extra| *extra > 0) {
        let _ = writeln!(text, "left alone: {} that only TARGET has", counted(extra, "entry", "entries"));
    }
    if totals.skipped > 0 {
        let left = counted(totals.skipped, "entry", "entries");
        let why = if arguments.dry_run { "" } else { "; not read, so there is no signature" };
        let _ = writeln!(text, "skipped: {left} already there{why}");
    }
    if totals.unfinished > 0 {
        let names = counted(totals.unfinished, "name", "names");
        let _ = writeln!(text, "left out: {names} in SOURCE of what another copy has not completed");
    }
    let notes = [
        (totals.cloned, "share their bytes with their sources"),
        (totals.not_striped, "not striped as asked for"),
        (totals.not_direct, "went through the page cache although --direct was asked for"),
    ];
    for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{} {what}", counted(count, "file", "files"));
    }
    if totals.elsewhere > 0 {
        let names = counted(totals.elsewhere, "name", "names");
        let _ = writeln!(text, "{names} of copied files without a copy, or with one of their own");
    }
    for (count, what) in not_kept(&totals.not_kept) {
        let _ = writeln!(text, "not kept: {} {what}", grouped(count));
    }
    if arguments.tell.verbose && !arguments.dry_run {
        if totals.files > 0 {
            table(&outcome.report, &mut text);
        }
        by_rank::table(&outcome.ranks, &mut text);
    }
    if let Some(left) = &outcome.leftovers {
        let (entries, bytes) = (counted(left.entries, "entry", "entries"), binary(left.bytes));
        let place = atta_entry::escape(&left.directory);
        let _ = writeln!(text, "left under temporary names: {entries}, {bytes}, in {place}");
        for left in left.some.iter().take(LEFTOVERS_SHOWN) {
            let _ = writeln!(text, "  {:>12}  {}", binary(left.bytes), atta_entry::escape(&left.path));
        }
    }
    if totals.failed() > 0 {
        let _ = writeln!(text, "not copied: {}", counted(totals.failed(), "entry", "entries"));
    }
    text
}

/// What the target does not have, and how often.
fn not_kept(not_kept: &NotKept) -> impl Iterator<Item = (u64, &'static str)> {
    let all = [
        (not_kept.owners, "owners or groups: only root may give files away"),
        (not_kept.set_id_bits, "set-id bits, of files whose owner was not kept"),
        (not_kept.modes_and_times, "modes and times, which the target does not take"),
        (not_kept.extended, "extended attributes that cannot be read, or that the target does not take"),
        (not_kept.hard_links, "hard links: these names have files of their own"),
    ];
    all.into_iter().filter(|(count, _)| *count > 0)
}

/// How many files there were of which size, and which took longest.
fn table(report: &Report, text: &mut String) {
    let _ = writeln!(text, "  {:<16} {:>15} {:>12}", "size", "files", "bytes");
    for class in report.sizes.iter().filter(|class| class.files > 0) {
        let name = match class.below {
            Some(1) => "empty".to_owned(),
            Some(end) => format!("below {}", binary(end)),
            None => "larger".to_owned(),
        };
        let _ = writeln!(text, "  {name:<16} {:>15} {:>12}", grouped(class.files), binary(class.bytes));
    }
    let _ = writeln!(text, "  slowest files");
    for file in &report.slowest {
        let (seconds, path) = (file.elapsed.as_secs_f64(), atta_entry::escape(&file.path));
        let _ = writeln!(text, "  {seconds:>12.3} s {:>12}  {path}", binary(file.bytes));
    }
}

/// The same for machines.
pub(super) fn summary(arguments: &CopyArguments, outcome: &Whole, was_interrupted: bool) -> Value {
    let totals = &outcome.totals;
    let errors: std::collections::BTreeMap<_, _> =
        totals.failures.iter().map(|(errno, count)| (errno.label(), count)).collect();
    let sizes = totals_by_size(&outcome.report);
    let slowest: Vec<_> = outcome.report.slowest.iter().map(slow).collect();
    json!({
        "schema_version": 1,
        "interrupted": was_interrupted,
        "parked": outcome.parked,
        "dry_run": arguments.dry_run,
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "files": totals.files,
        "bytes": totals.bytes,
        "directories": totals.directories,
        "symlinks": totals.symlinks,
        "hard_links": totals.hard_links,
        "names_elsewhere": totals.elsewhere,
        "special_files": totals.specials,
        "skipped": totals.skipped,
        "unfinished_left_out": totals.unfinished,
        "repaired": totals.repaired,
        "extra": outcome.extra,
        "cloned": totals.cloned,
        "not_striped": totals.not_striped,
        "not_direct": totals.not_direct,
        "failed": totals.failed(),
        "changed": totals.changed,
        "verified_bytes": totals.verified_bytes,
        "not_verified": totals.not_verified,
        "not_hashed": totals.not_hashed,
        "mended": totals.mended,
        "errors": errors,
        "not_kept": {
            "owners": totals.not_kept.owners,
            "set_id_bits": totals.not_kept.set_id_bits,
            "modes_and_times": totals.not_kept.modes_and_times,
            "extended_attributes": totals.not_kept.extended,
            "hard_links": totals.not_kept.hard_links,
        },
        "signature": outcome.signature.as_ref().map(|signature| signature.digest().to_string()),
        "sizes": sizes,
        "slowest": slowest,
        "leftovers": outcome.leftovers.as_ref().map(leftovers),
        "threads": outcome.threads,
        "ranks": outcome.ranks.len(),
        "by_rank": by_rank::rows(&outcome.ranks),
    })
}

fn leftovers(left: &Leftovers) -> Value {
    let directory = String::from_utf8_lossy(&left.directory);
    json!({"directory": directory, "entries": left.entries, "bytes": left.bytes})
}

fn totals_by_size(report: &Report) -> Vec<Value> {
    let class = |class: &SizeClass| json!({"below": class.below, "files": class.files, "bytes": class.bytes});
    report.sizes.iter().map(class).collect()
}

fn slow(file: &SlowFile) -> Value {
    json!({
        "path": String::from_utf8_lossy(&file.path),
        // As in rows: what the text has lost, in hexadecimal digits.
        "path_raw": std::str::from_utf8(&file.path).is_err().then(|| hex(&file.path)),
        "bytes": file.bytes,
        "seconds": file.elapsed.as_secs_f64(),
    })
}

fn hex(bytes: &[u8]) -> String {
    let digit = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digit)
}

/// While it runs. What is wanted most comes first: a narrow terminal cuts the rest off.
pub(super) fn line(progress: &Progress, outlook: &Outlook) -> String {
    let found = &progress.walk.profile;
    let rate = outlook.bytes_per_second.map(|rate| format!(", {}/s", binary(rate as u64)));
    let left = pace::words(outlook).map(|left| format!("; {left}"));
    format!(
        "{} files, {} copied{}{}; {} entries, {} found{}; {} threads",
        grouped(progress.files),
        binary(progress.bytes),
        rate.unwrap_or_default(),
        left.unwrap_or_default(),
        grouped(found.entries),
        binary(found.bytes),
        if outlook.is_growing { " so far" } else { "" },
        progress.walk.threads
    )
}

/// The same as an event.
pub(super) fn event(progress: &Progress, outlook: &Outlook) -> Value {
    let found = &progress.walk.profile;
    json!({
        "event": "progress",
        "elapsed_seconds": progress.walk.elapsed.as_secs_f64(),
        "files": progress.files,
        "bytes": progress.bytes,
        "entries_found": found.entries,
        "bytes_found": found.bytes,
        "failures": found.failures,
        "threads": progress.walk.threads,
        "bytes_per_second": outlook.bytes_per_second,
        "seconds_left": outlook.seconds_left,
        "is_growing": outlook.is_growing,
    })
}
