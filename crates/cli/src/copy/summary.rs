//! The summary of a copy, for people and for programs, and its progress. No I/O.

use std::fmt::Write as _;
use std::time::Duration;

use atta_ops::copy::{Leftovers, Progress, RankReport, Report, SizeClass, SlowFile, Totals};
use atta_ops::digest::Signature;
use atta_runtime::{Counter, Results as _};
use serde_json::{Value, json};

use super::arguments::CopyArguments;
use super::by_rank;
use super::manifest::Written;
use super::pace::{self, Outlook};
use super::per_node::node::{self, NodeEnd};
use crate::run::earlier::Earlier;
use crate::run::report;
use crate::size::{binary, counted, grouped, per_second};

/// Most leftovers that are listed; all of them are counted.
const LEFTOVERS_SHOWN: usize = 10;

/// Results of all ranks.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) totals: Totals,
    pub(super) report: Report,
    pub(super) signature: Option<Signature>,
    pub(super) elapsed: Duration,
    pub(super) threads: usize,
    /// A report for each rank; if alone, that of this process.
    pub(super) ranks: Vec<RankReport>,
    pub(super) parked: bool,
    /// TARGET is the name of the copy, not a directory that contains it.
    pub(super) target_is_name: bool,
    /// The directory that the copy is put into is itself a copy.
    pub(super) makes_top: bool,
    pub(super) leftovers: Option<Leftovers>,
    /// Entries of a list of differences that only the target has; `None` if there was no such list.
    pub(super) extra: Option<u64>,
    /// The manifest, if one was written.
    pub(super) manifest: Option<Written>,
    /// What earlier runs of the job have done, if there is a log of it.
    pub(super) earlier: Option<Earlier>,
    /// What each node has come to, if each has copied by itself.
    pub(super) nodes: Vec<NodeEnd>,
}

/// The result as text for people.
pub(super) fn words(arguments: &CopyArguments, outcome: &Whole, was_interrupted: bool) -> String {
    let totals = &outcome.totals;
    let mut text = String::new();
    if was_interrupted {
        text.push_str("interrupted: results are incomplete\n");
    }
    if outcome.parked {
        text.push_str("stopped: TARGET is out of space; results are incomplete\n");
    }
    let (kinds, bytes) = (report::kinds(totals), binary(totals.bytes));
    if arguments.dry_run {
        let _ = writeln!(text, "{kinds} would be copied, {bytes}; nothing was written");
    } else {
        let seconds = outcome.elapsed.as_secs_f64();
        let own = own_bytes(outcome);
        let rate = binary(per_second(own, outcome.elapsed));
        let of_run = match own == totals.bytes {
            true => String::new(),
            false => format!(", {} of them by this run", binary(own)),
        };
        let _ = writeln!(text, "{kinds} copied, {bytes}{of_run} in {seconds:.2} s ({rate}/s)");
    }
    if let Some(signature) = &outcome.signature {
        let _ = writeln!(text, "signature {}", signature.digest());
    }
    match &outcome.manifest {
        Some(Written { name, entries, without_digest }) => {
            let entries = counted(*entries, "entry", "entries");
            let without = match without_digest {
                0 => String::new(),
                _ => format!("; {} without a digest", counted(*without_digest, "file", "files")),
            };
            let _ = writeln!(text, "manifest {name}: {entries}{without}");
        }
        None if arguments.manifest.is_some() => text.push_str("manifest: not written\n"),
        None => {}
    }
    totals.show(&mut |counter| lines(counter, arguments.dry_run, outcome.extra, &mut text));
    if arguments.report.verbose && !arguments.dry_run {
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
    if let Some(earlier) = &outcome.earlier {
        earlier.lines("copied", " of SOURCE", &mut text);
    }
    if totals.failed() > 0 {
        let _ = writeln!(text, "not copied: {}", counted(totals.failed(), "entry", "entries"));
    }
    node::lines(&outcome.nodes, &mut text);
    text
}

/// Bytes that this run has copied, of those that all runs of the job have.
fn own_bytes(outcome: &Whole) -> u64 {
    let copied = outcome.ranks.iter().fold(0_u64, |sum, rank| sum.saturating_add(rank.bytes));
    match outcome.earlier {
        Some(_) => copied.min(outcome.totals.bytes),
        None => outcome.totals.bytes,
    }
}

/// The lines of a counter. `extra`: entries of a list of differences that only the target has.
fn lines(counter: Counter, is_dry_run: bool, extra: Option<u64>, text: &mut String) {
    if let Some(line) = report::line(&counter) {
        let is_unread = counter.name == "skipped" && !is_dry_run;
        let why = if is_unread { "; not read, so there is no signature" } else { "" };
        let _ = writeln!(text, "{line}{why}");
    }
    if let ("repaired", Some(extra @ 1..)) = (counter.name, extra) {
        let _ = writeln!(text, "left alone: {} that only TARGET has", counted(extra, "entry", "entries"));
    }
}

/// A table of files by size, and of the slowest files.
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

/// The result as JSON for programs.
pub(super) fn summary(arguments: &CopyArguments, outcome: &Whole, was_interrupted: bool) -> Value {
    let totals = &outcome.totals;
    let sizes = totals_by_size(&outcome.report);
    let slowest: Vec<_> = outcome.report.slowest.iter().map(slow).collect();
    let mut others = json!({
        "schema_version": 1,
        "interrupted": was_interrupted,
        "parked": outcome.parked,
        "dry_run": arguments.dry_run,
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "extra": outcome.extra,
        "failed": totals.failed(),
        "errors": report::by_errno(&totals.failures),
        "signature": outcome.signature.as_ref().map(|signature| signature.digest().to_string()),
        "sizes": sizes,
        "slowest": slowest,
        "manifest": outcome.manifest.as_ref().map(|Written { name, entries, without_digest }| {
            json!({"file": name, "entries": entries, "without_digest": without_digest})
        }),
        "leftovers": outcome.leftovers.as_ref().map(leftovers),
        "earlier": outcome.earlier.as_ref().map(Earlier::json),
        "threads": outcome.threads,
        "ranks": outcome.ranks.len(),
        "by_rank": by_rank::rows(&outcome.ranks),
    });
    if !outcome.nodes.is_empty() {
        others["nodes"] = Value::from(node::json(&outcome.nodes));
    }
    report::object(totals, others)
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
        // As in rows: the exact bytes as hexadecimal digits, if the text is not exact.
        "path_raw": std::str::from_utf8(&file.path).is_err().then(|| hex(&file.path)),
        "bytes": file.bytes,
        "seconds": file.elapsed.as_secs_f64(),
    })
}

fn hex(bytes: &[u8]) -> String {
    let digit = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digit)
}

/// The progress line. The most wanted values come first: a narrow terminal cuts off the rest.
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

/// The progress as an event.
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
