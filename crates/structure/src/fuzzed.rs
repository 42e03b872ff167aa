//! Whether every decoder has a target in a fuzz table. It reads the source as text: implementations of `Code`, the macros that write some,
//! and functions whose names say that they decode.
//!
//! A crate's targets are in its files `fuzz.rs`, named as `FILE: TYPE` or `FILE: FUNCTION`, the file below `src`.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Crates whose values stay in one process, or that serve tests.
const LEFT_OUT: [&str; 3] = ["sim", "structure", "testkit"];
/// Functions that decode without the trait. Those with common names (`unpack`, `receive`) are not looked for.
const FUNCTIONS: [&str; 4] = ["from_bytes", "from_text", "receive_records", "receive_differences"];
/// Macros that implement the trait.
const MACROS: [&str; 4] = ["record!(", "choice!(", "atta_entry::record!(", "atta_entry::choice!("];
/// Decoders without a target.
pub(crate) fn missing(root: &Path, crates: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut missing = Vec::new();
    for name in crates.iter().filter(|name| !LEFT_OUT.contains(name)) {
        let (mut decoders, mut targets) = (BTreeSet::new(), String::new());
        let top = root.join("crates").join(name).join("src");
        read_below(&top, &mut |path, text| {
            let file = path.strip_prefix(&top).unwrap_or(path).display().to_string();
            if path.ends_with("fuzz.rs") {
                targets += text;
            } else if !["tests.rs", "conformance.rs"].iter().any(|test| file.ends_with(test)) {
                decoders.extend(decoders_of(text).map(|decoder| format!("{file}: {decoder}")));
            }
        })?;
        let is_missing = |decoder: &String| !targets.contains(&format!("\"{decoder}"));
        missing.extend(decoders.into_iter().filter(is_missing).map(|decoder| format!("{name}: {decoder}")));
    }
    Ok(missing)
}

fn read_below(directory: &Path, each: &mut impl FnMut(&Path, &str)) -> Result<(), Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "the workspace's own source, which nobody attacks")]
    let entries = fs::read_dir(directory)?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read_below(&path, each)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path, &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The types and functions of a file that decode, without its tests.
fn decoders_of(text: &str) -> impl Iterator<Item = String> {
    let source = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut in_counters = false;
    source.lines().filter_map(move |line| {
        in_counters |= line == "counters! {";
        if in_counters && let Some((_, rest)) = line.split_once("struct ") {
            in_counters = false;
            return Some(name_of(rest));
        }
        decoder(line)
    })
}

fn decoder(line: &str) -> Option<String> {
    let implemented = line.strip_prefix("impl").and_then(|rest| rest.split_once("Code for "));
    if let Some((_, of)) = implemented {
        return Some(of.trim_end_matches(" {").replace("'_, ", "")).map(|of| name_of_type(&of));
    }
    let line = line.trim_start_matches("atta_code::").trim_start_matches("crate::");
    if let Some(of) = MACROS.iter().find_map(|name| line.strip_prefix(name)) {
        let of = if of.starts_with('<') { of.split_once("> ").map_or(of, |(_, of)| of) } else { of };
        return Some(name_of(of));
    }
    let function = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    let name = name_of(function.strip_prefix("fn ")?);
    FUNCTIONS.contains(&name.as_str()).then_some(name)
}

/// A type without its parameters, unless it is known by them.
fn name_of_type(of: &str) -> String {
    let is_known_by_them = of.starts_with("Cow<[u8]") || of.starts_with("Cow<CStr") || of.starts_with("Arc<");
    if is_known_by_them || !of.starts_with(char::is_alphabetic) { of.to_owned() } else { name_of(of) }
}

fn name_of(text: &str) -> String {
    text.chars().take_while(|each| each.is_alphanumeric() || *each == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_are_found_by_how_they_are_written() {
        let text = "atta_entry::record!(One { a });\nrecord!(<K> Two<K> { a } if is_valid);\nimpl Code for Three {\n\
                    impl<T: Code> Code for Four<T> {\nimpl Code for Cow<'_, [u8]> {\ncrate::choice!(Five {\n\
                    counters! {\n    /// Counts.\n    pub struct Six {\n    pub(crate) fn from_bytes(a: &[u8]) {}\n\
                    fn other() {}\n// Code for none\n#[cfg(test)]\nmod tests {\nrecord!(None { a });\n";
        let found: Vec<_> = decoders_of(text).collect();
        assert_eq!(found, ["One", "Two", "Three", "Four", "Cow<[u8]>", "Five", "Six", "from_bytes"]);
    }
}
