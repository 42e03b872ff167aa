//! Many small jobs, each drawn from a seed, under the eyes of the checkers. `ATTA_SIM_SEEDS` says how many (10,000 if
//! unset), `ATTA_SIM_SEED` repeats one and prints its parameters.

use std::collections::BTreeSet;
use std::panic::resume_unwind;

use atta_engine::{Reason, Rule, Rules, Termination};
use atta_sim::{Scenario, Shape, Tree, Violation, Wrong};

/// Seeds that failed once, and why. What a seed means changes with the drawing; the list is then made anew from engines
/// with the old faults.
const KEPT: &[(u64, &str)] = &[
    (0, "a task that the master had sent was handed in again before it ran, for ever"),
    (2, "a job was stopped, and its token reached a rank that had left"),
    (126, "a rank reported its sums, failed a probe, and did not report again: the end was never detected"),
    (512, "a job was stopped, and a wave that began afterwards reached a rank that had left"),
];

/// Threads that run seeds.
const THREADS: usize = 2;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// What is wrong with two runs of a scenario, which must take the same course, with all that is needed to repeat it.
fn judge(scenario: &Scenario) -> Result<Reason, String> {
    let seed = scenario.seed;
    let repeat = format!("repeat: ATTA_SIM_SEED={seed} cargo test -p atta-sim --test seeds");
    let outcome = scenario.run().map_err(|violation| format!("{violation}\n{scenario}\n{repeat}"))?;
    if scenario.run().as_ref() != Ok(&outcome) {
        return Err(format!("two runs took different courses\n{scenario}\n{repeat}"));
    }
    let tree = scenario.setup.tree;
    let directories = tree.size(&tree.root()).directories;
    if outcome.reason == Reason::Done && outcome.totals.directories != directories {
        return Err(format!(
            "{} directories of {directories}\n{scenario}\n{repeat}",
            outcome.totals.directories
        ));
    }
    Ok(outcome.reason)
}

/// Judges the part of a thread: the seeds that are kept, and those below `count`. Tells how many jobs were stopped.
fn judge_some(thread: usize, count: u64) -> u64 {
    let kept = KEPT.iter().map(|(seed, _)| *seed);
    let mut stopped = 0;
    for seed in kept.chain(0..count).skip(thread).step_by(THREADS) {
        match judge(&Scenario::from_seed(seed)) {
            Ok(reason) => stopped += u64::from(reason != Reason::Done),
            Err(wrong) => panic!("{wrong}"),
        }
    }
    stopped
}

#[test]
fn many_seeds() {
    if let Some(seed) = variable("ATTA_SIM_SEED") {
        let scenario = Scenario::from_seed(seed);
        println!("{scenario}");
        println!("{:?}", judge(&scenario).unwrap_or_else(|wrong| panic!("{wrong}")));
        return;
    }
    let count = variable("ATTA_SIM_SEEDS").unwrap_or(10_000);
    let stopped: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || judge_some(thread, count))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|wrong| resume_unwind(wrong))).sum()
    });
    assert!(stopped < count / 5, "{stopped} of {count} jobs were stopped early: the others are what counts");
}

/// Violations among many seeds with a rule switched off.
fn caught(rule: Rule, change: impl Fn(&mut Scenario)) -> impl Iterator<Item = Violation> {
    (0..20_000).filter_map(move |seed| {
        let mut scenario = Scenario::from_seed(seed).with_rules(Rules::without(rule));
        change(&mut scenario);
        scenario.run().err()
    })
}

#[test]
fn each_rule_that_is_switched_off_is_noticed() {
    let mut seen = BTreeSet::new();
    for rule in Rule::ALL {
        let mut violations = caught(rule, |scenario| {
            let setup = &mut scenario.setup;
            setup.disturbance.duplicate_one_in = u32::from(rule == Rule::AcceptOnce) * 3;
            setup.engine.termination = match rule {
                Rule::AwaitAcceptance | Rule::Blacken => Termination::Token,
                _ => Termination::Counters,
            };
        });
        let violation = violations.next();
        let violation =
            violation.unwrap_or_else(|| panic!("{rule:?} is switched off, and nothing is noticed"));
        println!("{rule:?}: {violation}");
        seen.insert(rule);
    }
    assert_eq!(seen.len(), Rule::ALL.len());
}

#[test]
fn parcels_that_come_twice_are_taken_in_once() {
    for seed in 0..2000 {
        let mut scenario = Scenario::from_seed(seed);
        scenario.setup.disturbance.duplicate_one_in = 3;
        if let Err(wrong) = judge(&scenario) {
            panic!("with every third parcel delivered twice: {wrong}");
        }
    }
}

#[test]
fn parcel_accepted_twice_is_detected() {
    let mut violations = caught(Rule::AcceptOnce, |scenario| {
        scenario.setup.tree = Tree::new(Shape::Flat, 200, 1);
        scenario.setup.disturbance.duplicate_one_in = 1;
        scenario.setup.disturbance.stop = None;
        scenario.setup.ranks = 2;
        scenario.setup.engine.termination = Termination::Token;
    });
    assert!(violations.any(|violation| matches!(violation.wrong, Wrong::Tasks { files_done: 201.., .. })));
}
