//! The benchmark `walk`: atta, its peers and the raw limit over the same trees.
//!
//! This file has the options and the order of things. Who competes stands in `field`; trees, measuring, statistics and
//! the written results are the other modules', which a benchmark of another kind can use as well.

use std::path::{Path, PathBuf};

use crate::contest::{Rules, drop_caches, hold};
use crate::field::Field;
use crate::machine::{Machine, cores};
use crate::programs::{self, PACKAGE_DIRECTORY};
use crate::report::{Report, Section};
use crate::trees::Shape;

/// Compare `atta walk` with its peers and with the raw limit.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds that count, after one to warm up [default: 7; 5 with --cold or --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(5..))]
    rounds: Option<u16>,
    /// Where the trees are made and kept, on a disk [default: bench-trees in the target directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Take trees of a tenth of the size
    #[arg(long)]
    quick: bool,
    /// Another program for the raw limit, run as `PROGRAM -t THREADS -f -s TREE`
    #[arg(long)]
    yardstick: Option<PathBuf>,
    /// An older atta, which walks in turns with the new one
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Leave the peers out: atta and the raw limit alone
    #[arg(long)]
    alone: bool,
    /// Drop all caches before each run; needs root
    #[arg(long)]
    cold: bool,
    /// Take only one of the trees
    #[arg(long)]
    only: Option<Which>,
    /// Where the results are written [default: bench/results]
    #[arg(long)]
    results: Option<PathBuf>,
    /// Install the peers that are missing, with apt-get and cargo
    #[arg(long)]
    install: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Many directories
    Tree,
    /// One directory with all files
    Flat,
}

/// Runs the benchmark; reports its progress with `log`. Returns the report and the path of the written file.
///
/// # Errors
///
/// Why there is no result.
pub(crate) fn run(options: &Options, log: impl Fn(&str)) -> Result<(Report, PathBuf), String> {
    // Before anything is built: a program that cargo replaces while it runs has no path any more.
    let launcher = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let target = programs::target_directory(&launcher)?;
    let place = options.dir.clone().unwrap_or_else(|| target.join("bench-trees"));
    std::fs::create_dir_all(&place).map_err(|error| format!("making {}: {error}", place.display()))?;
    let machine = Machine::describe(&place, Path::new(PACKAGE_DIRECTORY));
    if machine.in_memory() {
        return Err(format!("{} lies in memory; name a directory on a disk with --dir", place.display()));
    }
    let mut field = Field::gather(&target, options.yardstick.clone(), &log)?;
    field.before.clone_from(&options.before);
    if !options.alone {
        field.find_peers(&target, options.install, &log)?;
    }
    if options.cold {
        drop_caches().map_err(|error| format!("dropping caches, which needs root: {error}"))?;
    }
    let rules = Rules { launcher, rounds: options.rounds(), cold: options.cold };
    let contests = options.shapes().into_iter().map(|shape| contest(&field, shape, &place, &rules, &log));
    let sections = contests.collect::<Result<_, _>>()?;

    let title = format!("atta walk beside its peers, {} cache", if options.cold { "cold" } else { "warm" });
    let report = Report { title, machine, versions: field.versions(), sections };
    let results = options.results.clone().unwrap_or_else(|| Path::new(PACKAGE_DIRECTORY).join("results"));
    let path = report.write(&results, &options.results_name());
    Ok((report, path.map_err(|error| format!("writing the results: {error}"))?))
}

/// Everybody over one tree, which is made below `place` if it is missing.
fn contest(
    field: &Field,
    shape: Shape,
    place: &Path,
    rules: &Rules,
    log: impl Fn(&str),
) -> Result<Section, String> {
    let title = format!("{}: {}", shape.name, shape.describe());
    log(&format!("{title} (made if missing)"));
    let tree = shape.ensure(place, 2 * cores()).map_err(|error| format!("making a tree: {error}"))?;
    let catalog = place.join(format!("catalog-{}", std::process::id()));
    let contenders = if rules.cold { field.cold(&tree) } else { field.warm(&tree, &catalog) };
    let outcomes = hold(contenders, rules, &log).map_err(|error| format!("between two runs: {error}"))?;
    Ok(Section::new(title, rules.rounds, outcomes, &[(&tree, "TREE"), (&catalog, "DIR")]))
}

impl Options {
    fn rounds(&self) -> usize {
        let default = if self.cold || self.quick { 5 } else { 7 };
        self.rounds.map_or(default, usize::from)
    }

    fn shapes(&self) -> Vec<Shape> {
        let all = [(Which::Tree, Shape::tree(self.quick)), (Which::Flat, Shape::flat(self.quick))];
        let wanted = all.into_iter().filter(|(which, _)| self.only.is_none_or(|only| only == *which));
        wanted.map(|(_, shape)| shape).collect()
    }

    /// Partial runs get names of their own, so that they never take the place of a full run.
    fn results_name(&self) -> String {
        let mut name = "walk".to_owned();
        let parts = [
            (self.cold, "-cold"),
            (self.quick, "-quick"),
            (self.alone, "-alone"),
            (self.before.is_some(), "-before"),
            (self.only == Some(Which::Tree), "-tree"),
            (self.only == Some(Which::Flat), "-flat"),
        ];
        parts.iter().filter(|(wanted, _)| *wanted).for_each(|(_, part)| name.push_str(part));
        name
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &[&str]) -> Options {
        Line::parse_from(std::iter::once(&"walk").chain(line)).options
    }

    #[test]
    fn a_partial_run_never_takes_the_place_of_a_full_one() {
        let name = |line: &[&str]| parsed(line).results_name();
        assert_eq!(name(&[]), "walk");
        assert_eq!(name(&["--cold", "--quick", "--only", "flat"]), "walk-cold-quick-flat");
    }

    #[test]
    fn rounds_and_trees_follow_the_options() {
        assert_eq!((parsed(&[]).rounds(), parsed(&["--cold"]).rounds()), (7, 5));
        assert_eq!(parsed(&["--cold", "--rounds", "9"]).rounds(), 9);
        assert!(Line::try_parse_from(["walk", "--rounds", "4"]).is_err());
        assert_eq!(parsed(&["--only", "tree"]).shapes(), [Shape::tree(false)]);
        assert_eq!(parsed(&["--quick"]).shapes(), [Shape::tree(true), Shape::flat(true)]);
    }
}
