//! The summary of `atta sum`: as text for people, as JSON for programs. This module only renders.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use atta_ops::sum::check::Compared;
use serde_json::{Value, json};

use super::arguments::SumArguments;
use super::totals::Summed;
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;
use crate::run::file::print;
use crate::run::job;
use crate::run::report;
use crate::size::{binary, counted, grouped, listed, per_second};

/// Prints the summary: on standard error if rows are on standard output.
pub(super) fn report(arguments: &SumArguments, outcome: &Summed, was_interrupted: bool) -> Result<(), Fatal> {
    let text = if arguments.report.json {
        format!("{:#}\n", json(outcome, was_interrupted))
    } else if arguments.report.quiet || arguments.signature {
        String::new()
    } else {
        words(outcome, was_interrupted)
    };
    write(arguments, &text)
}

/// Prints the summary of a comparison.
pub(super) fn report_compared(
    arguments: &SumArguments,
    outcome: &Summed,
    compared: Option<&Compared>,
    failed: u64,
) -> Result<(), Fatal> {
    let text = if arguments.report.json {
        format!("{:#}\n", compared_json(outcome, compared, failed))
    } else if arguments.report.quiet {
        String::new()
    } else {
        compared_words(outcome, compared, failed)
    };
    write(arguments, &text)
}

fn write(arguments: &SumArguments, text: &str) -> Result<(), Fatal> {
    if arguments.prints() {
        // An error of standard error cannot be reported.
        let _ = io::stderr().write_all(text.as_bytes());
        return Ok(());
    }
    print(text)
}

/// The counts, without times: the totals that a catalog records.
pub(super) fn totals(outcome: &Summed) -> Value {
    let totals = &outcome.totals;
    let signature = outcome.signature.as_ref().map(|signature| signature.digest().to_string());
    report::object(totals, json!({"entries": totals.entries(), "signature": signature}))
}

/// The summary in both forms, and the exit code, as a job that is complete keeps them.
pub(super) fn kept(outcome: &Summed, code: u8) -> Vec<u8> {
    job::kept(code, &json(outcome, false).to_string(), &words(outcome, false))
}

fn json(outcome: &Summed, was_interrupted: bool) -> Value {
    json!({
        "schema_version": 1,
        "command": "sum",
        "interrupted": was_interrupted,
        "totals": totals(outcome),
        "errors": {"count": outcome.totals.failed(), "by_errno": report::by_errno(&outcome.totals.failures)},
        "changed": outcome.totals.changed,
        "earlier": outcome.earlier.as_ref().map(Earlier::json),
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "bytes_per_second": per_second(own_bytes(outcome), outcome.elapsed),
        "threads": outcome.threads,
    })
}

fn speed(outcome: &Summed) -> String {
    let (bytes, seconds) = (binary(outcome.totals.bytes), outcome.elapsed.as_secs_f64());
    let (own, rate) = (own_bytes(outcome), binary(per_second(own_bytes(outcome), outcome.elapsed)));
    match bytes_before(outcome) {
        0 => format!("{bytes} in {seconds:.2} s ({rate}/s)"),
        _ => format!("{bytes}, {} of them by this run in {seconds:.2} s ({rate}/s)", binary(own)),
    }
}

/// Bytes that this run has hashed.
fn own_bytes(outcome: &Summed) -> u64 {
    outcome.totals.bytes.saturating_sub(bytes_before(outcome))
}

/// Bytes that earlier runs of the job have hashed.
fn bytes_before(outcome: &Summed) -> u64 {
    outcome.earlier.as_ref().and_then(|earlier| earlier.bytes).unwrap_or(0)
}

fn words(outcome: &Summed, was_interrupted: bool) -> String {
    let totals = &outcome.totals;
    let mut text = String::new();
    if was_interrupted {
        text.push_str("interrupted: results are incomplete\n");
    }
    let _ = writeln!(text, "{} summed up, {}", report::kinds(totals), speed(outcome));
    if let Some(signature) = &outcome.signature {
        let _ = writeln!(text, "signature {}", signature.digest());
    }
    if totals.left_out > 0 {
        text.push_str("left out: the file that standard output goes to\n");
    }
    if totals.failed() > 0 {
        let _ = writeln!(text, "not summed up: {}", counted(totals.failed(), "entry", "entries"));
    }
    if let Some(earlier) = &outcome.earlier {
        earlier.lines("summed up", "", &mut text);
    }
    text
}

fn compared_json(outcome: &Summed, compared: Option<&Compared>, failed: u64) -> Value {
    let differences = compared.map(|compared| {
        json!({
            "same": compared.same,
            "by_size": compared.by_size,
            "missing": compared.missing,
            "extra": compared.extra,
            "different": compared.different,
            "unknown": compared.unknown,
        })
    });
    json!({
        "schema_version": 1,
        "command": "sum",
        "interrupted": compared.is_none(),
        "compared": differences,
        "failed": failed,
        "changed": outcome.totals.changed,
        "bytes": outcome.totals.bytes,
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "bytes_per_second": per_second(outcome.totals.bytes, outcome.elapsed),
        "threads": outcome.threads,
    })
}

fn compared_words(outcome: &Summed, compared: Option<&Compared>, failed: u64) -> String {
    let mut text = String::new();
    match compared {
        None => text.push_str("interrupted: nothing was compared\n"),
        Some(compared) => {
            let same = if compared.same == 1 { "entry is" } else { "entries are" };
            let _ = writeln!(text, "{} {same} as recorded, {}", grouped(compared.same), speed(outcome));
            if compared.by_size > 0 {
                let files = counted(compared.by_size, "file", "files");
                let _ = writeln!(text, "compared by size only: {files}, recorded without a digest");
            }
            let counts = [
                (compared.missing, "missing", "missing"),
                (compared.extra, "extra", "extra"),
                (compared.different, "different", "different"),
                (compared.unknown, "unknown", "unknown"),
            ];
            if compared.differences() + compared.unknown > 0 {
                let _ = writeln!(text, "not as recorded: {}", listed(&counts));
            }
        }
    }
    if failed > 0 {
        let _ = writeln!(text, "not read: {}", counted(failed, "entry", "entries"));
    }
    text
}
