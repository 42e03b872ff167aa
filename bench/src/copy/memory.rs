//! The case `memory`: how much of it `atta copy` takes for two million files, in trees of several shapes.
//!
//! The files are empty: in a file system in memory each that is not takes a page, and what a copy keeps does not depend on it.

use atta_ops::generate::{Sizes, Spec, SpecError, Spread};

use super::field::{ATTA, Field};
use super::place::Ground;
use super::set::Set;
use super::trial::Trial;
use super::{Case, Which};
use crate::contest::{Outcome, Rules};
use crate::report::peak_mib;
use crate::sheet::{Goal, Sheet, number, quantile};
use crate::turns::BenchResult;

/// The goal.
const MOST_MIB: f64 = 256.0;
/// What a file system in memory takes for an empty file, roughly.
const BYTES_PER_FILE: u64 = 1024;

/// A name, and the tree with so many names of files.
type Shape = (&'static str, fn(u64) -> Spec);

const SHAPES: [Shape; 5] = [
    ("flat: all files in one directory", |files| Spec { directories: 0, ..base(files) }),
    ("tree: ten files in each directory", |files| Spec { directories: files / 10, ..base(files) }),
    ("wide: ten files in each directory, all in one", |files| Spec {
        directories: files / 10,
        depth_max: 1,
        fan_out_max: u32::MAX,
        spread: Spread::Even,
        ..base(files)
    }),
    ("deep: a chain of 2,000 directories", |files| Spec {
        directories: 2_000,
        depth_max: u32::MAX,
        fan_out_max: 1,
        spread: Spread::Even,
        ..base(files)
    }),
    ("links: two names for each file", |files| Spec {
        directories: files / 10,
        hard_links: files / 2,
        ..base(files - files / 2)
    }),
];

fn base(files: u64) -> Spec {
    Spec { files, sizes: empty().unwrap_or_else(|error| unreachable!("{error}")), ..Spec::default() }
}

fn empty() -> Result<Sizes, SpecError> {
    Sizes::fixed(0)
}

/// Runs the case.
///
/// # Errors
///
/// If what a run left cannot be removed. What cannot be made is noted.
pub(crate) fn run(
    field: &Field,
    ground: &Ground,
    files: u64,
    rules: &Rules,
    case: &mut Case<'_>,
) -> BenchResult<()> {
    // One round to warm up, and one that counts.
    let rules = Rules { launcher: rules.launcher.clone(), rounds: 1, cold: false };
    let note = format!(
        "{files} names of empty files in {}; one run after another one. Peak: the largest resident set.",
        ground.word()
    );
    let title = format!("{}: {files} files", Which::Memory.word());
    let mut sheet = Sheet::new(title, &note, 2, &["shape", "who", "seconds", "peak MiB"]);
    for (name, spec) in SHAPES {
        let set = Set { spec: spec(files), bytes: files * BYTES_PER_FILE, described: name.to_owned() };
        (case.log)(&format!("{}: {name}", Which::Memory.word()));
        match copied(field, ground, &set, &rules, case) {
            Ok(outcomes) => outcomes.iter().for_each(|outcome| add(&mut sheet, name, outcome, case)),
            Err(reason) => sheet.leave_out(name, &reason),
        }
    }
    case.sheets.push(sheet);
    Ok(())
}

fn copied(
    field: &Field,
    ground: &Ground,
    set: &Set,
    rules: &Rules,
    case: &Case<'_>,
) -> BenchResult<Vec<Outcome>> {
    let place = ground.prepare(set.bytes, case.log)?;
    let trial = Trial::new(&place, set, rules, &case.commands)?;
    // Without digests it keeps less.
    trial.hold(vec![field.atta(ATTA, &[], "")], case.log)
}

fn add(sheet: &mut Sheet, shape: &str, outcome: &Outcome, case: &mut Case<'_>) {
    let name = &outcome.contender.name;
    let what = shape.split(':').next().unwrap_or(shape);
    let measured = match &outcome.runs {
        Ok(runs) => {
            let peaks: Vec<f64> = runs.iter().map(peak_mib).collect();
            let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
            let peak = quantile(&peaks, 1.0);
            let row = [shape.to_owned(), name.clone(), number(quantile(&seconds, 0.5)), number(peak)];
            sheet.push(row.to_vec());
            sheet.keep(what, name, peaks);
            Some(peak)
        }
        Err(reason) => {
            sheet.leave_out(&format!("{what}, {name}"), reason);
            None
        }
    };
    if name == ATTA {
        case.goals.push(Goal {
            goal: format!("memory, {what}: {name} at most {MOST_MIB} MiB"),
            measured: measured.map_or("not measured".to_owned(), |peak| format!("{} MiB", number(peak))),
            is_met: measured.is_some_and(|peak| peak <= MOST_MIB),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_as_many_names_of_files() {
        for files in [20_000, 2_000_000] {
            for (name, spec) in SHAPES {
                let spec = spec(files);
                assert_eq!((spec.files + spec.hard_links, spec.check()), (files, Ok(())), "{name}");
            }
        }
    }
}
