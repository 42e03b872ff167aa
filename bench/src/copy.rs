//! The benchmark `copy`: atta copy beside its peers and the raw limit of the system calls.
//!
//! ```text
//!   options, case   what is wanted, what is compared, over which data sets, by whom
//!     |  field          everybody's program and arguments
//!     |  set            the data sets;  place  where they are copied;  trial  one set in one place
//!     |  crate::contest   all in turns; only complete copies count
//!     +-> result, memory, crate::sheet   tables and goals
//! ```
//!
//! This file has the order of things: place by place, in each set by set, so that no more than one set lies there
//! at a time.

mod case;
mod field;
mod memory;
mod options;
mod place;
mod result;
mod set;
mod trial;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::case::Which;
use self::field::Field;
pub(crate) use self::options::Options;
use self::place::{Ground, Place};
use self::result::Held;
use self::set::{Name, Set};
use self::trial::Trial;
use crate::contest::{Rules, drop_caches};
use crate::machine::{Machine, load};
use crate::programs::{self, PACKAGE_DIRECTORY};
use crate::ranks::launches_taken_off;
use crate::sheet::{Goal, Report, Sheet};
use crate::turns::BenchResult;

/// What the parts add to.
pub(crate) struct Case<'run> {
    /// Tells how far it is.
    log: &'run dyn Fn(&str),
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
        (self.log)(&text);
        self.notes.push(text);
    }
}

/// Runs the benchmark; reports its progress with `log`. Returns the report and the path of the written file.
///
/// # Errors
///
/// Why there is no result.
pub(crate) fn run(options: &Options, log: &dyn Fn(&str)) -> BenchResult<(String, PathBuf)> {
    // Before anything is built: a program that cargo replaces while it runs has no path any more.
    let launcher = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let target = programs::target_directory(&launcher)?;
    let load_before = load();
    // Before anything is built: the source may be changed while programs run that were built from this state of it.
    let machine = Machine::describe(&target, Path::new(PACKAGE_DIRECTORY));
    raise_descriptor_limit(log);
    if options.cold {
        drop_caches().map_err(|error| format!("dropping caches, which needs root: {error}"))?;
    }
    let field = Field::gather(options, &target, log)?;
    let rules = Rules { launcher, rounds: options.rounds(), cold: options.cold };
    let commands = RefCell::new(BTreeMap::new());
    let mut case = Case { log, sheets: vec![], goals: vec![], notes: vec![], commands };
    case.notes = options.notes();
    case.notes.extend(field.missing.iter().map(|missing| format!("missing: {missing}")));
    let grounds = options.grounds(&target);
    let sets = options.sets().into_iter().map(|name| Ok((name, name.at(options.scale())?)));
    let sets = sets.collect::<BenchResult<Vec<_>>>()?;
    case.notes.extend(sets.iter().map(|(name, set)| format!("set {}: {}", name.word(), set.described)));
    for ground in &grounds {
        over_ground(options, &field, ground, &sets, &rules, &mut case)?;
    }
    if options.wants(Which::Memory) {
        memory::run(&field, &options.memory_ground(), options.memory_files(), &rules, &mut case)?;
    }
    let report = report(options, &field, case, [load_before, load()], machine);
    let results = options.results.clone().unwrap_or_else(|| Path::new(PACKAGE_DIRECTORY).join("results"));
    let path = report.write(&results, &options.results_name());
    Ok((report.render(), path.map_err(|error| format!("writing the results: {error}"))?))
}

fn report(options: &Options, field: &Field, case: Case<'_>, load: [String; 2], machine: Machine) -> Report {
    let Case { sheets, goals, mut notes, commands, .. } = case;
    notes.extend(field.versions());
    notes.extend(commands.into_inner().iter().map(|(name, command)| format!("{name}: `{command}`")));
    let cache = if options.cold { "cold" } else { "warm" };
    Report {
        title: format!("atta copy beside its peers, {cache} cache"),
        machine,
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
) -> BenchResult<()> {
    let mut is_described = false;
    for (name, set) in sets {
        let cases: Vec<_> = options.cases().into_iter().filter(|which| which.takes(*name)).collect();
        if cases.is_empty() || !options.takes(*name, ground) {
            continue;
        }
        let place = match ground.prepare(set.bytes, case.log) {
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
) -> BenchResult<()> {
    let commands = std::mem::take(&mut case.commands);
    let trial = match Trial::new(place, set, rules, &commands).and_then(|trial| trial.with_list(&field.limit))
    {
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
        (case.log)(&format!("{}: {} in {}", which.word(), name.word(), place.name));
        let mut outcomes = trial.hold(entrants, case.log)?;
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
fn raise_descriptor_limit(log: &dyn Fn(&str)) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        log(&format!("raising the limit of open files: {error}"));
    }
}
