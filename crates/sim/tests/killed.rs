//! Jobs of which everything is killed at any event, or some ranks die, and which go on on other numbers of ranks, drawn from seeds. `ATTA_SIM_SEEDS` says how many
//! (20,000 if unset), `ATTA_SIM_SEED` repeats one.

use std::panic::resume_unwind;

use atta_sim::{Killed, LogRule, run_killed};

/// Seeds that failed once, and why.
const KEPT: &[u64] = &[29_908, 67_087];

/// Threads that run seeds.
const THREADS: usize = 2;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

fn judged(seed: u64) -> Killed {
    run_killed(seed, None).unwrap_or_else(|wrong| {
        panic!("{wrong}\nrepeat: ATTA_SIM_SEED={seed} cargo test -p atta-sim --test killed")
    })
}

/// Counts kills and deaths.
fn added((killed, died): (u64, u64), more: Killed) -> (u64, u64) {
    (killed + u64::from(more.killed), died + u64::from(more.died))
}

#[test]
fn killed_jobs_do_each_file_once() {
    if let Some(seed) = variable("ATTA_SIM_SEED") {
        println!("{:?}", judged(seed));
        return;
    }
    let count = variable("ATTA_SIM_SEEDS").unwrap_or(20_000);
    let part = |thread| KEPT.iter().copied().chain(0..count).skip(thread).step_by(THREADS);
    let (killed, died) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || part(thread).map(judged).fold((0, 0), added)))
            .collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|wrong| resume_unwind(wrong)));
        ended.fold((0, 0), |(killed, died): (u64, u64), more| (killed + more.0, died + more.1))
    });
    println!("{killed} kills of {count} jobs, {died} deaths of ranks");
    assert!(died > count, "{died} ranks died while others went on");
    assert!(killed > count / 2, "{killed} kills of {count} jobs: most are to be killed before their end");
}

#[test]
fn each_rule_of_logs_is_needed() {
    for rule in LogRule::ALL {
        let wrong = (0..5_000).find_map(|seed| run_killed(seed, Some(rule)).err().map(|wrong| (seed, wrong)));
        let (seed, wrong) =
            wrong.unwrap_or_else(|| panic!("{rule:?} is switched off, and nothing is noticed"));
        println!("{rule:?}: seed {seed}: {wrong}");
    }
}
