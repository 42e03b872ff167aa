//! Random jobs on random trees, killed at random moments, with logs cut at random bytes: whatever is lost, a resumed job does each name
//! once. The oracle is the tree itself. Each rule of the design can be switched off, and is then missed.

mod model {
    pub(crate) mod closing;
    pub(crate) mod job;
    pub(crate) mod logs;
    pub(crate) mod target;
    pub(crate) mod tree;
}

use atta_testkit::random::Random;
use model::job::{Job, Rule};

/// Cases in every run of the tests, and in a long one.
const CASES: u64 = 100_000;
const CASES_LONG: u64 = 1_000_000;

/// Plays a job with that seed to its end. Returns what is wrong with its results.
fn play(seed: u64, without: Option<Rule>) -> Option<String> {
    let mut random = Random::new(seed);
    let mut job = Job::new(&mut random, without);
    for _ in 0..random.below(5) {
        job.run(&mut random, false);
    }
    job.run(&mut random, true);
    job.verdict(&mut random)
}

fn play_all(cases: std::ops::Range<u64>) {
    for seed in cases {
        if let Some(wrong) = play(seed, None) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn killed_jobs_do_each_name_once() {
    play_all(0..CASES);
}

#[test]
#[ignore = "long"]
fn killed_jobs_do_each_name_once_long() {
    play_all(CASES..CASES_LONG);
}

#[test]
fn each_rule_is_needed() {
    for rule in Rule::ALL {
        let caught = (0..CASES).find(|seed| play(*seed, Some(rule)).is_some());
        assert!(caught.is_some(), "{rule:?} is switched off and nothing goes wrong");
    }
}
