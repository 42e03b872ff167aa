//! The benchmark `copy`: atta copy beside its peers and the raw limit of the system calls.
//!
//! ```text
//!   case     what is compared, over which data sets, by whom
//!     |  field          everybody's program and arguments
//!     |  set            the data sets;  place  where they are copied;  trial  one set in one place
//!     |  crate::contest   all in turns; only complete copies count
//!     +-> result, memory, crate::sheet   tables and goals
//! ```
//!
//! This file has the options and the order of things: place by place, in each set by set, so that no more than one set lies there
//! at a time.

mod case;
mod field;
mod memory;
mod place;
mod result;
mod set;
mod trial;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::case::Which;
use self::field::Field;
use self::place::{Ground, Kind, Place};
use self::result::Held;
use self::set::{Name, Set};
use self::trial::Trial;
use crate::contest::{Rules, drop_caches};
use crate::machine::{Machine, load};
use crate::programs::{self, PACKAGE_DIRECTORY};
use crate::ranks::launches_taken_off;
use crate::sheet::{Goal, Report, Sheet};
use crate::turns::Told;

/// Compare `atta copy` with its peers and with the raw limit
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds that count, after one to warm up [default: 5; 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: Option<u16>,
    /// Directory to copy in; may be given several times [default: /dev/shm, and both images]
    #[arg(long)]
    dir: Vec<PathBuf>,
    /// Copy in a fresh file system on a loop device, which takes root; may be given several times
    #[arg(long, value_name = "KIND")]
    image: Vec<Kind>,
    /// Directory for image files, on a disk [default: bench-images in the target directory]
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// How much of each data set is taken, beside what is usual [default: 1; 0.02 with --quick]
    #[arg(long, value_name = "FACTOR")]
    scale: Option<f64>,
    /// Take the least of everything, and in images two data sets: about a minute where the programs are built
    #[arg(long)]
    quick: bool,
    /// Take only this case; may be given several times
    #[arg(long, value_name = "CASE")]
    only: Vec<Which>,
    /// Take only this data set; may be given several times
    #[arg(long)]
    set: Vec<Name>,
    /// Drop all caches before each run; needs root
    #[arg(long)]
    cold: bool,
    /// Directory with bin/mpicc and bin/mpirun of an MPI, for ranks; may be given several times
    #[arg(long, value_name = "PREFIX")]
    mpi: Vec<PathBuf>,
    /// Files in the case of memory [default: 2000000; 20000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(20..))]
    memory_files: Option<u64>,
    /// This atta, and not the one that is built here
    #[arg(long, value_name = "PROGRAM")]
    atta: Option<PathBuf>,
    /// This raw limit, and not the one that is built here
    #[arg(long, value_name = "PROGRAM")]
    copy_limit: Option<PathBuf>,
    /// Where a peer is that is not on the search path, as xcp=/opt/bin/xcp; may be given several times
    #[arg(long, value_name = "NAME=PROGRAM", value_parser = named)]
    peer: Vec<(String, PathBuf)>,
    /// Install the peers that are missing, with apt-get and cargo
    #[arg(long)]
    install: bool,
    /// Where the results are written [default: bench/results]
    #[arg(long)]
    results: Option<PathBuf>,
}

/// What the parts add to.
pub(crate) struct Case<'run> {
    /// Tells how far it is.
    tell: &'run dyn Fn(&str),
    /// Tables.
    sheets: Vec<Sheet>,
    /// Goals.
    goals: Vec<Goal>,
    /// What a reader must know.
    notes: Vec<String>,
    /// Commands by contender.
    commands: RefCell<BTreeMap<String, String>>,
}

impl Case<'_> {
    /// Says something now, and in the report.
    fn note(&mut self, text: String) {
        (self.tell)(&text);
        self.notes.push(text);
    }
}

/// Runs the benchmark; everything about it is told with `tell`. The report, and the path of what was written.
///
/// # Errors
///
/// Why there is no result.
pub(crate) fn run(options: &Options, tell: &dyn Fn(&str)) -> Told<(String, PathBuf)> {
    // Before anything is built: a program that cargo replaces while it runs has no path any more.
    let launcher = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let target = programs::target_directory(&launcher)?;
    let load_before = load();
    raise_descriptor_limit(tell);
    if options.cold {
        drop_caches().map_err(|error| format!("dropping caches, which needs root: {error}"))?;
    }
    let field = Field::gather(options, &target, tell)?;
    let rules = Rules { launcher, rounds: options.rounds(), cold: options.cold };
    let commands = RefCell::new(BTreeMap::new());
    let mut case = Case { tell, sheets: vec![], goals: vec![], notes: vec![], commands };
    case.notes = options.notes();
    case.notes.extend(field.missing.iter().map(|missing| format!("missing: {missing}")));
    let grounds = options.grounds(&target);
    let sets = options.sets().into_iter().map(|name| Ok((name, name.at(options.scale())?)));
    let sets = sets.collect::<Told<Vec<_>>>()?;
    case.notes.extend(sets.iter().map(|(name, set)| format!("set {}: {}", name.word(), set.described)));
    for ground in &grounds {
        over_ground(options, &field, ground, &sets, &rules, &mut case)?;
    }
    if options.wants(Which::Memory) {
        memory::run(&field, &options.memory_ground(), options.memory_files(), &rules, &mut case)?;
    }
    let report = report(options, &field, case, [load_before, load()], &target);
    let results = options.results.clone().unwrap_or_else(|| Path::new(PACKAGE_DIRECTORY).join("results"));
    let path = report.write(&results, &options.results_name());
    Ok((report.render(), path.map_err(|error| format!("writing the results: {error}"))?))
}

fn report(options: &Options, field: &Field, case: Case<'_>, load: [String; 2], target: &Path) -> Report {
    let Case { sheets, goals, mut notes, commands, .. } = case;
    notes.extend(field.versions());
    notes.extend(commands.into_inner().iter().map(|(name, command)| format!("{name}: `{command}`")));
    let cache = if options.cold { "cold" } else { "warm" };
    Report {
        title: format!("atta copy beside its peers, {cache} cache"),
        machine: Machine::describe(target, Path::new(PACKAGE_DIRECTORY)),
        load,
        notes,
        goals,
        sheets,
        figures: vec![],
    }
}

/// Every set and every case in one place. What there is no room or no right for is noted.
fn over_ground(
    options: &Options,
    field: &Field,
    ground: &Ground,
    sets: &[(Name, Set)],
    rules: &Rules,
    case: &mut Case<'_>,
) -> Told<()> {
    let mut is_described = false;
    for (name, set) in sets {
        let cases: Vec<_> = options.cases().into_iter().filter(|which| which.takes(*name)).collect();
        if cases.is_empty() || !options.takes(*name, ground) {
            continue;
        }
        let place = match ground.prepare(set.bytes, case.tell) {
            Ok(place) => place,
            Err(reason) => {
                case.note(format!("skipped: {} in {}: {reason}", name.word(), ground.word()));
                continue;
            }
        };
        if !std::mem::replace(&mut is_described, true) {
            case.notes.push(format!("place {}: {}", place.name, place.described));
        }
        over_set(field, &place, *name, set, &cases, rules, case)?;
    }
    Ok(())
}

/// All cases over one set in one place.
fn over_set(
    field: &Field,
    place: &Place,
    name: Name,
    set: &Set,
    cases: &[Which],
    rules: &Rules,
    case: &mut Case<'_>,
) -> Told<()> {
    let commands = std::mem::take(&mut case.commands);
    let trial = match Trial::new(place, set, rules, &field.limit, &commands) {
        Ok(trial) => trial,
        Err(reason) => {
            case.commands = commands;
            case.note(format!("skipped: {} in {}: {reason}", name.word(), place.name));
            return Ok(());
        }
    };
    for which in cases {
        let entrants = which.entrants(field, &trial);
        if entrants.is_empty() {
            continue;
        }
        (case.tell)(&format!("{}: {} in {}", which.word(), name.word(), place.name));
        let mut outcomes = trial.hold(entrants, case.tell)?;
        if *which == Which::Ranks {
            outcomes = launches_taken_off(outcomes);
        }
        let held = Held { case: *which, set: name, place, outcomes: &outcomes };
        case.sheets.push(held.sheet(which.note()));
        case.goals.extend(held.goals());
    }
    case.commands = commands;
    Ok(())
}

/// Trees are counted and removed with a descriptor for each level.
fn raise_descriptor_limit(tell: &dyn Fn(&str)) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tell(&format!("raising the limit of open files: {error}"));
    }
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.map_or(if self.quick { 1 } else { 5 }, usize::from)
    }

    fn scale(&self) -> f64 {
        self.scale.unwrap_or(if self.quick { 0.02 } else { 1.0 })
    }

    fn memory_files(&self) -> u64 {
        self.memory_files.unwrap_or(if self.quick { 20_000 } else { 2_000_000 })
    }

    /// Whether a case is taken.
    fn wants(&self, which: Which) -> bool {
        self.only.is_empty() || self.only.contains(&which)
    }

    fn cases(&self) -> Vec<Which> {
        Which::value_variants().iter().copied().filter(|which| self.wants(*which)).collect()
    }

    fn sets(&self) -> Vec<Name> {
        let wanted = |name: &&Name| self.set.is_empty() || self.set.contains(name);
        let is_taken = |name: &&Name| self.cases().iter().any(|which| which.takes(**name));
        Name::value_variants().iter().filter(wanted).filter(is_taken).copied().collect()
    }

    /// Whether a set is copied there: a file system that is made for each takes most of a quick run's time.
    fn takes(&self, name: Name, ground: &Ground) -> bool {
        let is_usual = matches!(name, Name::Small | Name::Large) || self.set.contains(&name);
        !self.quick || matches!(ground, Ground::Directory(_)) || is_usual
    }

    fn grounds(&self, target: &Path) -> Vec<Ground> {
        let images = self.images.clone().unwrap_or_else(|| target.join("bench-images"));
        let (dirs, kinds) = match self.dir.is_empty() && self.image.is_empty() {
            true => (vec![PathBuf::from("/dev/shm")], vec![Kind::Ext4, Kind::Xfs]),
            false => (self.dir.clone(), self.image.clone()),
        };
        let kinds = kinds.into_iter().map(|kind| Ground::Image(kind, images.clone()));
        dirs.into_iter().map(Ground::Directory).chain(kinds).collect()
    }

    /// Where trees of many files are made: /dev/shm may have fewer inodes than they need.
    fn memory_ground(&self) -> Ground {
        let below = self.dir.first().cloned().unwrap_or_else(|| "/dev/shm".into());
        match rustix::process::geteuid().is_root() {
            true => Ground::Memory(below),
            false => Ground::Directory(below),
        }
    }

    fn notes(&self) -> Vec<String> {
        let caches = match self.cold {
            true => "caches: dropped before each run",
            false => "caches: warm; the source was read in the round before",
        };
        let mut notes = vec![
            format!("rounds: {}, after one to warm up; targets are removed between runs", self.rounds()),
            format!("scale: {}", self.scale()),
            caches.to_owned(),
            "durability: on a disk everyone's time ends when syncfs has ended; nothing is dirty when it begins".to_owned(),
            "complete: only copies with as many files, directories and bytes as their source count".to_owned(),
        ];
        if self.quick {
            notes.push("quick: too small for goals to mean anything".to_owned());
        }
        notes
    }

    /// Partial runs get names of their own, so that they never take the place of a full run.
    fn results_name(&self) -> String {
        let mut name = "copy".to_owned();
        for (is_wanted, part) in [(self.cold, "-cold"), (self.quick, "-quick")] {
            name.push_str(if is_wanted { part } else { "" });
        }
        let cases = self.only.iter().map(|which| which.word());
        let sets = self.set.iter().map(|set| set.word());
        cases.chain(sets).for_each(|part| name.push_str(&format!("-{part}")));
        name
    }
}

/// A name and a path with '=' between.
fn named(text: &str) -> Told<(String, PathBuf)> {
    let (name, path) = text.split_once('=').ok_or("not NAME=PROGRAM")?;
    Ok((name.to_owned(), path.into()))
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
        Line::parse_from(std::iter::once(&"copy").chain(line)).options
    }

    #[test]
    fn a_partial_run_never_takes_the_place_of_a_full_one() {
        assert_eq!(parsed(&[]).results_name(), "copy");
        let partial = parsed(&["--quick", "--only", "one-large", "--set", "fcp3", "--cold"]);
        assert_eq!(partial.results_name(), "copy-cold-quick-one-large-fcp3");
    }

    #[test]
    fn places_sets_and_peers_follow_the_options() {
        let target = Path::new("/t");
        let image = |kind| Ground::Image(kind, "/t/bench-images".into());
        let shm = Ground::Directory("/dev/shm".into());
        assert_eq!(parsed(&[]).grounds(target), [shm, image(Kind::Ext4), image(Kind::Xfs)]);
        assert_eq!(parsed(&["--image", "xfs"]).grounds(target), [image(Kind::Xfs)]);
        assert_eq!(parsed(&["--set", "fcp3", "--set", "small"]).sets(), [Name::Small, Name::Fcp3]);
        assert_eq!(parsed(&["--only", "one-large"]).sets(), [Name::OneLarge]);
        assert_eq!(parsed(&["--peer", "xcp=/a=b"]).peer, [("xcp".to_owned(), PathBuf::from("/a=b"))]);
        assert!(Line::try_parse_from(["copy", "--peer", "xcp"]).is_err());
        assert_eq!((parsed(&["--quick"]).rounds(), parsed(&["--quick"]).scale()), (1, 0.02));
    }
}
