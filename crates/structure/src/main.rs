//! Measures the structure of the workspace and compares it with limits. `./check lint` runs it.
//!
//! ```text
//! atta-structure [--goals] [ROOT]
//! ```
//!
//! It also looks whether the tests of `docs/design/0020-tests.txt` are there, and whether every decoder has a target in a fuzz table. It prints one line for each measure and exits with 1 if one is above its limit. The limits are those of
//! `structure.limits` beside `Cargo.toml`, which may only fall; with `--goals`, those of the design. Tests are left out
//! everywhere. It reads source files only; it builds nothing and knows no types.
//!
//! A file imports another one if it names an item that is defined there, also through a re-export. Calls of methods do not
//! count: their type was named somewhere.

mod circles;
mod crate_source;
mod fuzzed;
mod kept_tests;
mod measures;
mod names;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use measures::Measure;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _unwritable = writeln!(io::stderr(), "atta-structure: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all measures are within their limits.
fn run() -> Result<bool, Box<dyn Error>> {
    let (mut goals, mut root) = (false, PathBuf::from("."));
    for argument in std::env::args_os().skip(1) {
        if argument == "--goals" {
            goals = true;
        } else {
            root = argument.into();
        }
    }
    let limits = if goals { BTreeMap::new() } else { read_limits(&root.join("structure.limits"))? };
    let measured = measures::of(&root)?;
    let mut out = io::stdout().lock();
    for line in &measured.lines {
        writeln!(out, "{line}")?;
    }
    let mut all_within = true;
    for Measure { name, value, goal, details } in &measured.measures {
        let limit = limits.get(name.as_str()).copied().unwrap_or(*goal);
        let is_within = *value <= limit;
        let verdict = if is_within { "" } else { ": ABOVE THE LIMIT" };
        writeln!(out, "{name}: {value:.1} (limit {limit:.1}, goal {goal:.1}){verdict}")?;
        if !is_within || goals {
            for detail in details {
                writeln!(out, "    {detail}")?;
            }
        }
        if is_within && limit > *goal && *value < limit {
            writeln!(out, "    lower its limit in structure.limits to {value:.1}")?;
        }
        all_within &= is_within;
    }
    Ok(all_within)
}

/// Lines `NAME: NUMBER`; a `#` begins a comment.
fn read_limits(file: &Path) -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let limit = |line: &str| -> Result<(String, f64), Box<dyn Error>> {
        let (name, number) = line.rsplit_once(": ").ok_or_else(|| format!("{}: {line}", file.display()))?;
        Ok((name.to_owned(), number.trim().parse()?))
    };
    lines.map(limit).collect()
}
