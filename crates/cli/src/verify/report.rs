//! The summary of a comparison: as text for people, as JSON for programs. This module only renders.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use atta_entry::Field;
use atta_ops::verify::Totals;
use serde_json::{Value, json};

use super::totals::Compared;
use crate::run::earlier::Earlier;
use crate::run::report;
use crate::size::{binary, counted, grouped, per_second};

/// The result as text for people.
pub(crate) fn words(outcome: &Compared, was_interrupted: bool) -> String {
    let totals = &outcome.totals;
    let seconds = outcome.elapsed.as_secs_f64();
    let mut text = String::new();
    if was_interrupted {
        text.push_str("interrupted: results are incomplete\n");
    }
    let _ = write!(text, "{} compared", counted(totals.compared, "entry", "entries"));
    if totals.files > 0 {
        let rate = per_second(totals.bytes, outcome.elapsed);
        let files = counted(totals.files, "file", "files");
        let _ = write!(text, ", {} of {files} at {}/s", binary(totals.bytes), binary(rate));
    }
    let _ = writeln!(text, " in {seconds:.2} s");
    let _ = writeln!(text, "{}", found(totals));
    if totals.failed() > 0 {
        let _ = writeln!(text, "not compared: {}", counted(totals.failed(), "entry", "entries"));
    }
    if let Some(earlier) = &outcome.earlier {
        earlier.lines("compared", "", &mut text);
    }
    text
}

fn found(totals: &Totals) -> String {
    if totals.differences() == 0 {
        return "no difference".to_owned();
    }
    let fields: Vec<_> =
        by_field(totals).map(|(field, count)| format!("{} {}", field.name(), grouped(count))).collect();
    let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
    format!("{}{fields}", report::kinds(totals))
}

/// The fields that differ, with their counts.
fn by_field(totals: &Totals) -> impl Iterator<Item = (Field, u64)> {
    Field::ALL.into_iter().zip(totals.fields).filter(|(_, count)| *count > 0)
}

/// The result as JSON for programs.
pub(crate) fn summary(outcome: &Compared, was_interrupted: bool) -> Value {
    let totals = &outcome.totals;
    let fields: BTreeMap<_, _> = by_field(totals).map(|(field, count)| (field.name(), count)).collect();
    let others = json!({
        "schema_version": 1,
        "interrupted": was_interrupted,
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "same": outcome.is_same() && !outcome.stopped,
        "fields": fields,
        "failed": totals.failed(),
        "errors": report::by_errno(&totals.failures),
        "earlier": outcome.earlier.as_ref().map(Earlier::json),
        "threads": outcome.threads,
    });
    report::object(totals, others)
}
