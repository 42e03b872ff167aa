//! Whether the tests that there were before a change of the whole structure are there still, or have a replacement. Tests are known by
//! their names alone.
//!
//! The list has a line for each test: `NAME`, `NAME -> NAME OF ITS REPLACEMENT` or `NAME: WHY THERE IS NONE`; a `#` begins a comment.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

/// The list, below the root of the workspace.
pub(crate) const LIST: &str = "docs/design/0020-tests.txt";

/// The outcome for the tests of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) same: usize,
    pub(crate) replaced: usize,
    /// Gone for a reason.
    pub(crate) dropped: usize,
    /// Gone without one.
    pub(crate) missing: Vec<String>,
    /// Tests whose names are too long.
    pub(crate) long: Vec<String>,
}

/// A name of this many characters is too long.
const LONG: usize = 50;

/// Looks for the tests of the list in all sources below `crates` and `bench`.
pub(crate) fn of(root: &Path) -> Result<Kept, Box<dyn Error>> {
    let list = fs::read_to_string(root.join(LIST))?;
    let mut there = BTreeMap::new();
    for directory in ["crates", "bench"] {
        add_tests_below(&root.join(directory), &mut there)?;
    }
    let long = there.keys().filter(|name| name.len() >= LONG).cloned().collect();
    Ok(Kept { long, ..compare(&list, &there) })
}

fn compare(list: &str, there: &BTreeMap<String, usize>) -> Kept {
    let mut kept = Kept::default();
    let mut seen = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((_, new)) = line.split_once(" -> ") {
            if there.contains_key(new) { kept.replaced += 1 } else { kept.missing.push(line.to_owned()) }
        } else if line.contains(": ") {
            kept.dropped += 1;
        } else {
            // Several tests may have one name.
            let times = seen.entry(line).or_insert(0);
            *times += 1;
            let is_there = there.get(line).is_some_and(|count| count >= times);
            if is_there { kept.same += 1 } else { kept.missing.push(line.to_owned()) }
        }
    }
    kept
}

fn add_tests_below(directory: &Path, there: &mut BTreeMap<String, usize>) -> Result<(), Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "the workspace's own source, which nobody attacks")]
    let entries = fs::read_dir(directory)?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            add_tests_below(&path, there)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            add_tests(&fs::read_to_string(&path)?, there);
        }
    }
    Ok(())
}

/// Adds the functions that stand behind `#[test]`, also in macros.
fn add_tests(text: &str, there: &mut BTreeMap<String, usize>) {
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line == "#[test]";
        let name = line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
        if let (true, Some(name)) = (is_test, name) {
            *there.entry(name.to_owned()).or_default() += 1;
            is_test = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_gone_without_a_word_are_missing() {
        let mut there = BTreeMap::new();
        add_tests(
            "#[test]\n#[ignore]\nfn one() {}\nfn none() {}\n  #[test]\n  fn two(x in 0..3) {}\n",
            &mut there,
        );
        assert_eq!(there.keys().collect::<Vec<_>>(), ["one", "two"]);
        let list = "# before\n\none\none\nolder -> two\nother -> none\nnone\ngone: it tested nothing\n";
        let expected = ["one", "other -> none", "none"].map(str::to_owned).to_vec();
        let found = compare(list, &there);
        assert_eq!(found, Kept { same: 1, replaced: 1, dropped: 1, missing: expected, long: Vec::new() });
    }
}
