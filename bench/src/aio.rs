//! The benchmark `aio`: atta-aio beside plain calls, threads, POSIX aio, tokio and raw io_uring, in the cases of chapter 4 of
//! the PXFS thesis (Snyder 2013).
//!
//! ```text
//!   cases   blocking, metadata, threads (case 1), sequential (case 2), overlap (case 3, figure 4.9), continuations (4.12),
//!           answered (writes that a server has answered), registered (what the ring knows beforehand)
//!     |  port            who moves bytes, behind one face; posix, raw_ring, spinning: three of them
//!     |  crate::turns    all in turns within this process
//!     +-> figures, crate::sheet   tables, goals, files
//! ```
//!
//! This file has the options and the order of things.

mod answered;
mod block_on;
mod blocking;
mod continuations;
mod cores;
mod figures;
mod metadata;
mod overlap;
mod place;
mod port;
mod posix;
mod raw_ring;
mod registered;
mod sequential;
mod spinning;
mod threads;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::place::Place;
use self::work::{Work, clock_cost_ns};
use crate::machine::{Machine, load};
use crate::programs::{self, PACKAGE_DIRECTORY};
use crate::sheet::{Goal, Report, Sheet, number};
use crate::turns::{BenchResult, Turns};

/// Bytes of a MiB.
pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// Compare asynchronous file operations with plain calls, threads, POSIX aio, tokio and raw io_uring
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds that count, after one to warm up; case 3 has 30 at least [default: 9; 5 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: Option<u16>,
    /// Directory to measure in; may be given several times [default: /dev/shm and the target directory]
    #[arg(long)]
    dir: Vec<PathBuf>,
    /// Take less of everything: about a minute
    #[arg(long)]
    quick: bool,
    /// Take only this case; may be given several times
    #[arg(long)]
    only: Vec<Which>,
    /// Seconds that each round waits at most for a moment in which others leave the cores alone
    #[arg(long, default_value_t = 0.0)]
    patience: f64,
    /// Where the results are written [default: bench/results]
    #[arg(long)]
    results: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// How long submissions block the caller
    Blocking,
    /// Create, open, close, truncate, stat, remove, mkdir, rmdir
    Metadata,
    /// Case 1: threads that move random blocks
    Threads,
    /// Case 2: a file in sequence
    Sequential,
    /// Case 3: computation overlapped
    Overlap,
    /// Figure 4.9: apparent I/O time over computation time
    Apparent,
    /// Figure 4.12: throughput over what continuations take
    Continuations,
    /// Files and buffers registered with the ring beforehand
    Registered,
}

impl Which {
    const ALL: [Self; 8] = [
        Self::Blocking,
        Self::Metadata,
        Self::Threads,
        Self::Sequential,
        Self::Overlap,
        Self::Apparent,
        Self::Continuations,
        Self::Registered,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Metadata => "metadata",
            Self::Threads => "threads",
            Self::Sequential => "sequential",
            Self::Overlap => "overlap",
            Self::Apparent => "apparent",
            Self::Continuations => "continuations",
            Self::Registered => "registered",
        }
    }
}

/// How much is done.
pub(crate) struct Scale {
    is_quick: bool,
    /// Less of everything is done, whatever the number of rounds.
    is_small: bool,
    /// Rounds, and the patience for each.
    pub(crate) turns: Turns,
    /// Computation that is overlapped.
    pub(crate) work: Work,
}

impl Scale {
    /// Whether it is over soon.
    pub(crate) fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// For a place: less of everything where each operation takes a server's answer, but as many rounds.
    fn at(&self, place: &Place) -> Self {
        Self { is_small: self.is_quick || place.is_remote(), ..*self }
    }

    /// The first in a full run, the second in a quick one.
    pub(crate) fn pick(&self, full: u64, quick: u64) -> u64 {
        if self.is_small { quick } else { full }
    }

    /// The same for sizes in memory.
    pub(crate) fn pick_usize(&self, full: usize, quick: usize) -> usize {
        if self.is_small { quick } else { full }
    }

    /// The same for lists.
    pub(crate) fn some<T: Clone>(&self, full: &[T], quick: &[T]) -> Vec<T> {
        if self.is_small { quick.to_vec() } else { full.to_vec() }
    }

    /// Names for metadata at depth: fewer where each takes a server's answer.
    pub(crate) fn many_names(&self, place: &Place) -> usize {
        if place.is_remote() { 128 } else { self.pick_usize(2048, 512) }
    }
}

/// What the cases add to.
pub(crate) struct Case<'run> {
    /// Tells how far it is.
    pub(crate) log: &'run dyn Fn(&str),
    /// Tables.
    pub(crate) sheets: Vec<Sheet>,
    /// Goals.
    pub(crate) goals: Vec<Goal>,
    /// Figures.
    pub(crate) figures: Vec<figures::Figure>,
}

/// Runs the benchmark; reports its progress with `log`. Returns the report and the path of the written file.
///
/// # Errors
///
/// Why there is no result.
pub(crate) fn run(options: &Options, log: impl Fn(&str)) -> BenchResult<(String, PathBuf)> {
    let launcher = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let target = programs::target_directory(&launcher)?;
    let default = if options.quick { 5 } else { 9 };
    let rounds = options.rounds.map_or(default, usize::from);
    let turns = Turns { rounds, patience: Duration::from_secs_f64(options.patience) };
    let scale = Scale { is_quick: options.quick, is_small: options.quick, turns, work: Work::calibrated() };
    let machine = Machine::describe(&target, Path::new(PACKAGE_DIRECTORY));
    let load_before = load();
    let (cost, cost_p99) = clock_cost_ns();
    let mut case = Case { log: &log, sheets: vec![], goals: vec![], figures: vec![] };
    for dir in options.places(&target) {
        let place = Place::new(&dir)?;
        log(&format!("in {}", place.kind));
        for which in Which::ALL.into_iter().filter(|which| options.wants(*which)) {
            which.run(&place, &scale.at(&place), &mut case)?;
        }
    }
    let clock =
        format!("clock: two readings in a row are {} ns apart (p99 {})", number(cost), number(cost_p99));
    let patience = format!("patience: each round waited up to {} s for idle cores", options.patience);
    let notes = vec![format!("rounds: {rounds}, after one to warm up"), patience, clock];
    let Case { sheets, goals, figures, .. } = case;
    let title = "atta-aio beside other ways to do file operations".to_owned();
    let load = [load_before, load()];
    let report = Report { title, machine, load, notes, goals, sheets, figures };
    let results = options.results.clone().unwrap_or_else(|| Path::new(PACKAGE_DIRECTORY).join("results"));
    let path = report.write(&results, &options.results_name());
    Ok((report.render(), path.map_err(|error| format!("writing the results: {error}"))?))
}

impl Which {
    fn run(self, place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
        match self {
            Self::Blocking => blocking::run(place, scale, case),
            Self::Metadata => metadata::run(place, scale, case),
            Self::Threads => threads::run(place, scale, case),
            Self::Sequential => {
                sequential::run(place, scale, case)?;
                // Where files are local, the disk is measured, and not how it is asked.
                if place.is_remote() { answered::run(place, scale, case) } else { Ok(()) }
            }
            Self::Overlap => overlap::run(place, scale, case),
            Self::Apparent => overlap::apparent(place, scale, case),
            Self::Continuations => continuations::run(place, scale, case),
            // What a server takes would hide it.
            Self::Registered if place.is_remote() => Ok(()),
            Self::Registered => registered::run(place, scale, case),
        }
    }
}

impl Options {
    fn wants(&self, which: Which) -> bool {
        self.only.is_empty() || self.only.contains(&which)
    }

    fn places(&self, target: &Path) -> Vec<PathBuf> {
        match self.dir.is_empty() {
            true => vec!["/dev/shm".into(), target.to_owned()],
            false => self.dir.clone(),
        }
    }

    /// Partial runs get names of their own, so that they never take the place of a full run.
    fn results_name(&self) -> String {
        let mut name = if self.quick { "aio-quick".to_owned() } else { "aio".to_owned() };
        for which in Which::ALL.into_iter().filter(|which| self.only.contains(which)) {
            name.push_str(&format!("-{}", which.name()));
        }
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

    #[test]
    fn a_partial_run_never_takes_the_place_of_a_full_one() {
        let name =
            |line: &[&str]| Line::parse_from(std::iter::once(&"aio").chain(line)).options.results_name();
        assert_eq!(name(&[]), "aio");
        assert_eq!(
            name(&["--quick", "--only", "overlap", "--only", "blocking"]),
            "aio-quick-blocking-overlap"
        );
    }
}
