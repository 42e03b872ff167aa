//! Large jobs of which ranks die while the others go on. `cargo test --release -p atta-sim --test deaths -- --ignored --nocapture` simulates 1,000 ranks
//! and 10^8 files; it needs some GiB of memory.

use atta_engine::ScheduleKind;
use atta_sim::{Costs, DeathCosts, Mortal, MortalOutcome, Setup, Tree, run_mortal};

/// What a death costs. On two cores with four ranks and small logs, the ranks that were left were at work again after 64 ms. A copy has 13 meetings before
/// its work. A log of 6.3 MB was read in 56 ms and again in 44 ms (`fold`); 540,000 open directories were merged, encoded and settled in 66 ms.
const COSTS: DeathCosts =
    DeathCosts { fixed_ns: 60_000_000, meetings: 13, poll_ns: 100_000, read_ns: 8_000, merge_ns: 130 };

fn mortal(files: u64, ranks: u32, deaths: u32) -> Mortal {
    let setup = Setup::atta(Tree::scaled(files), ScheduleKind::default(), ranks, 1, Costs::FILE_SERVER);
    Mortal { setup, deaths, write_ns: 1_000_000_000, costs: COSTS }
}

fn over_ideal(outcome: &MortalOutcome) -> f64 {
    outcome.run_ns as f64 / outcome.ideal_ns as f64
}

/// Each file is counted once, or the run says what is wrong.
#[test]
fn deaths_lose_nothing_of_a_large_job() {
    for (files, ranks, deaths) in [(50_000, 32, 5), (60_000, 64, 8), (20_000, 3, 2)] {
        let outcome = run_mortal(&mortal(files, ranks, deaths)).unwrap();
        assert_eq!(outcome.pauses.len() as u32, deaths);
        assert!(outcome.ideal_ns > outcome.undisturbed_ns, "{outcome:?}");
        let paused: u64 = outcome.pauses.iter().map(|pause| pause.ns).sum();
        assert!(outcome.run_ns > paused, "{outcome:?}");
    }
}

#[test]
#[ignore = "takes minutes and some GiB of memory"]
fn sixteen_of_a_thousand_ranks_die() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let mut mortal = mortal(number("ATTA_SIM_FILES", 100_000_000), number("ATTA_SIM_RANKS", 1000) as u32, 16);
    mortal.costs.fixed_ns = number("ATTA_SIM_FIXED_NS", COSTS.fixed_ns);
    let outcome = run_mortal(&mortal).unwrap();
    let seconds = |ns: u64| ns as f64 / 1e9;
    for pause in &outcome.pauses {
        println!(
            "paused {:.3} s: {:.3} s to agree, {:.3} s to read {} MB of logs with {} open directories, {} KB selected",
            seconds(pause.ns),
            seconds(pause.agreement_ns),
            seconds(pause.reading_ns),
            pause.log_bytes / 1_000_000,
            pause.open,
            pause.selected_bytes / 1_000
        );
    }
    println!(
        "undisturbed {:.2} s; with 16 deaths {:.2} s, ideal {:.2} s: {:.3}; pauses {:.2} s",
        seconds(outcome.undisturbed_ns),
        seconds(outcome.run_ns),
        seconds(outcome.ideal_ns),
        over_ideal(&outcome),
        seconds(outcome.pauses.iter().map(|pause| pause.ns).sum())
    );
}
