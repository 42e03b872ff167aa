//! Counters in summaries: as text and as JSON, according to their declarations. This module neither counts nor prints.

use std::collections::BTreeMap;

use atta_entry::Errno;
use atta_runtime::{Counter, Results, Text};
use serde_json::{Map, Value, json};

use crate::size::{binary, counted, grouped, listed};

/// Counts by kind of thing: `3 files, 1 directory`, or `nothing`.
pub(crate) fn kinds(of: &impl Results) -> String {
    let mut kinds = Vec::new();
    of.show(&mut |counter| {
        if let Text::Kind(one, many) = counter.text {
            kinds.push((counter.count, one, many));
        }
    });
    listed(&kinds)
}

/// The line of a counter; `None` if it has no line or is 0.
pub(crate) fn line(counter: &Counter) -> Option<String> {
    let count = Some(counter.count).filter(|count| *count > 0)?;
    match counter.text {
        Text::Own | Text::Kind(..) => None,
        Text::Line(before, ["", _], after) => Some(format!("{before}{}{after}", grouped(count))),
        Text::Line(before, [one, many], after) => {
            Some(format!("{before}{}{after}", counted(count, one, many)))
        }
        Text::Bytes(after) => Some(format!("{}{after}", binary(count))),
    }
}

/// Puts all counters into an object; each group is an object of its own.
fn insert(of: &impl Results, into: &mut Map<String, Value>) {
    of.show(&mut |counter| {
        let count = json!(counter.count);
        if counter.group.is_empty() {
            into.insert(counter.name.to_owned(), count);
        } else if let Some(group) = into.entry(counter.group).or_insert_with(|| json!({})).as_object_mut() {
            group.insert(counter.name.to_owned(), count);
        }
    });
}

/// An object with these members and all counters.
pub(crate) fn object(of: &impl Results, mut others: Value) -> Value {
    if let Some(members) = others.as_object_mut() {
        insert(of, members);
    }
    others
}

/// Failed entries by error name.
pub(crate) fn by_errno(failures: &BTreeMap<Errno, u64>) -> BTreeMap<String, u64> {
    failures.iter().map(|(errno, count)| (errno.label(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use atta_ops::copy::{NotKept, Totals};

    use super::*;

    fn totals() -> Totals {
        let not_kept = NotKept { owners: 1_234, ..NotKept::default() };
        Totals { files: 2, directories: 1, verified_bytes: 2048, mended: 1, not_kept, ..Totals::default() }
    }

    #[test]
    fn counters_that_are_not_zero_have_lines() {
        let mut lines = Vec::new();
        totals().show(&mut |counter| lines.extend(line(&counter)));
        let expected = [
            "2.0 KiB verified",
            "1 file or part written once more",
            "not kept: 1,234 owners or groups: only root may give files away",
        ];
        assert_eq!(lines, expected);
        assert_eq!(kinds(&totals()), "2 files, 1 directory");
        assert_eq!(kinds(&Totals::default()), "nothing");
    }

    #[test]
    fn groups_are_objects_in_json() {
        let object = object(&totals(), json!({"other": true}));
        assert_eq!((&object["files"], &object["other"]), (&json!(2), &json!(true)));
        assert_eq!(
            (&object["not_kept"]["owners"], &object["not_kept"]["hard_links"]),
            (&json!(1234), &json!(0))
        );
    }
}
