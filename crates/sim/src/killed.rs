//! Jobs of which everything is killed, at any event, or some ranks die, or parts fail, and which go on on other numbers of ranks: the protocol and the logs
//! together. Each run is a [`Scenario`] with logs (`logged.rs`); a kill may take what is not on storage. In the end each file must be in the logs once.

use atta_engine::{Random, ScheduleKind};

use crate::logged::{Journals, LogRule, Paths};
use crate::swarm::Scenario;
use crate::tree::Tree;
use crate::world::World;

/// Most files of a tree: every run reads the logs of all runs before.
const FILES_MOST: u64 = 80;
/// Runs before the last one, at most.
const KILLED_MOST: u64 = 6;
/// An event that no run of this size reaches.
const NEVER: u64 = u64::MAX;

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Runs that were killed after a rank had written what it had done.
    pub killed: u32,
    /// Ranks that died while others went on.
    pub died: u32,
}

/// The same job on other ranks, drawn from another seed.
fn scenario(seed: u64, tree: Tree) -> Scenario {
    let mut scenario = Scenario::from_seed(seed);
    let setup = &mut scenario.setup;
    setup.tree = tree;
    setup.disturbance.stop = None;
    setup.habits.aggregate_files = 0;
    // With a master the first rank does nothing itself, so such a run has no log.
    if matches!(setup.engine.schedule, ScheduleKind::Centralized | ScheduleKind::CentralizedKeep) {
        setup.engine.schedule = ScheduleKind::default();
    }
    scenario
}

/// Events of such a run that does the whole tree and has no log: a kill may come at any of them.
fn events_of(scenario: &Scenario) -> Result<u64, String> {
    scenario.run().map(|outcome| outcome.events).map_err(|violation| violation.to_string())
}

/// Runs a job drawn from a seed: it is killed some times, or parts of it fail, and then it comes to its end.
///
/// # Errors
/// Says what is wrong.
pub fn run_killed(seed: u64, without: Option<LogRule>) -> Result<Killed, String> {
    let (random, deaths) = (&mut Random::stream(seed, 3), &mut Random::stream(seed, 5));
    let first = Scenario::from_seed(seed).setup.tree;
    let tree = if first.files() > FILES_MOST { first.with_files(FILES_MOST) } else { first };
    let mut journals = Journals::new(Paths::of(&tree), without, seed);
    let mut outcome = Killed::default();
    let kills = random.below(KILLED_MOST + 1) as u32;
    for run in 1..=kills + 1 {
        let mut scenario = scenario(seed ^ u64::from(run) << 48, tree);
        let ranks = scenario.setup.ranks;
        // A slice is never split, also one that an earlier run has cut.
        let batch = std::mem::replace(&mut scenario.setup.habits.batch_files, u64::MAX);
        let tasks = journals.begin(&tree, run, (ranks, batch))?;
        let (is_last, fails) = (run > kills, random.below(3) == 0);
        journals.let_fail(fails && !is_last);
        let comes_to_end = is_last || fails && random.below(2) == 0;
        let last = if comes_to_end { NEVER } else { random.below(events_of(&scenario)?) };
        let world = World::new(scenario.setup).with_journals(journals);
        let (is_ended, mut ended) =
            world.run_until(last, tasks).map_err(|violation| violation.to_string())?;
        if is_ended {
            ended.end_run();
        } else {
            outcome.killed += u32::from(ended.has_written());
            match deaths.below(2) {
                // The ranks that are left resume the job.
                0 => outcome.died += ended.some_die(deaths),
                _ => ended.kill(),
            }
        }
        journals = ended;
    }
    journals.verdict().map_or(Ok(outcome), Err)
}
