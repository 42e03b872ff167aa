//! Large jobs of which ranks die while the others go on, at any time or at the kill points of the thesis. `cargo test --release -p atta-sim --test deaths --
//! --ignored --nocapture` simulates 1,000 ranks and 10^8 files, which needs some GiB of memory, and prints a table of the kill points at 32 ranks.

use atta_engine::ScheduleKind;
use atta_sim::{
    Costs, Death, DeathCosts, KillPoint, LogRule, Mortal, MortalOutcome, Point, Setup, Shape, Tree,
    run_mortal,
};

/// What a death costs. On two cores with four ranks and logs of 6 to 22 KB, the ranks that were left were at work again after 26 ms: the median of 15 deaths,
/// 12 to 42 ms (`survive --what deaths --directories 1000 --files 200000`). A copy has 13 meetings before its work. A log of 6.3 MB was read in 56 ms and again in 44 ms (`fold`); 540,000 open directories were merged, encoded and settled in 66 ms.
const COSTS: DeathCosts =
    DeathCosts { fixed_ns: 26_000_000, meetings: 13, poll_ns: 100_000, read_ns: 8_000, merge_ns: 130 };

/// Ranks of the runs at kill points: as many as the thesis has processes in its largest runs (16 producers and 16 consumers).
const RANKS: u32 = 32;

/// Trees of the thesis: name, files, directories, and the mean number of files of a directory with which [`Tree`] has about as many directories.
const THESIS: [(&str, u64, u64, u64); 2] =
    [("Many Small Files (table 4.2)", 1_000_000, 17_596, 56), ("table 4.11", 500_000, 181_593, 3)];

/// The kill points; the rank has written what it has noted, or not.
const POINTS: [(&str, KillPoint); 4] = [
    ("traversal", KillPoint { point: Point::Traversal, is_written: false }),
    ("production", KillPoint { point: Point::Production, is_written: false }),
    ("production, written", KillPoint { point: Point::Production, is_written: true }),
    ("consumption", KillPoint { point: Point::Consumption, is_written: false }),
];

fn mortal(tree: Tree, ranks: u32, deaths: u32) -> Mortal {
    let setup = Setup::atta(tree, ScheduleKind::default(), ranks, 1, Costs::FILE_SERVER);
    Mortal {
        setup,
        deaths,
        point: None,
        // As `LogLimits::where_ranks_survive` has it.
        write_ns: 200_000_000,
        names_files: false,
        without: None,
        costs: COSTS,
    }
}

/// A tree of the thesis, or a part of it with so many files.
fn thesis_tree(files: u64, mean: u64) -> Tree {
    Tree::new(Shape::Zipf { fan_out_most: 64 }, files, 1).with_files_per_directory(mean)
}

fn over_ideal(outcome: &MortalOutcome) -> f64 {
    outcome.run_ns as f64 / outcome.ideal_ns as f64
}

fn paused_ns(outcome: &MortalOutcome) -> u64 {
    outcome.deaths.iter().map(|death| death.pause.ns).sum()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Each file is counted once, or the run says what is wrong.
#[test]
fn deaths_lose_nothing_of_a_large_job() {
    for (files, ranks, deaths) in [(50_000, 32, 5), (60_000, 64, 8), (20_000, 3, 2)] {
        let outcome = run_mortal(&mortal(Tree::scaled(files), ranks, deaths)).unwrap();
        assert_eq!(outcome.deaths.len() as u32, deaths);
        assert!(outcome.ideal_ns > outcome.undisturbed_ns, "{outcome:?}");
        assert!(outcome.run_ns > paused_ns(&outcome), "{outcome:?}");
    }
}

/// What the point says of a task that has come so far.
fn assert_is_at(point: Point, death: &Death) {
    let at = death.progress.expect("it has died at a point");
    let is_at = match point {
        Point::Traversal => at.is_directory && at.is_open && at.read == 0 && at.handled == 0,
        Point::Production => at.is_directory && at.entries > 0 && at.read == at.entries && at.handled == 0,
        Point::Consumption => at.read == at.entries && at.handled < at.names && at.handled.is_multiple_of(32),
    };
    assert!(is_at, "{point:?}: {at:?}");
}

/// Logs name each file, so each counts once, or the run says that it does not. The tree of 200,000 files has so many open directories that the first rank
/// forgets some while it reads what the others have selected.
#[test]
fn ranks_die_at_each_kill_point() {
    for (_, point) in POINTS {
        for (files, mean, write_ns) in
            [(40_000, 50, 20_000_000), (200_000, 30, 100_000_000), (20_000, 3, 5_000_000)]
        {
            let job = mortal(thesis_tree(files, mean), RANKS, 5);
            let job = Mortal { point: Some(point), write_ns, names_files: true, ..job };
            let outcome = run_mortal(&job).unwrap();
            assert_eq!(outcome.deaths.len(), 5);
            outcome.deaths.iter().for_each(|death| assert_is_at(point.point, death));
            // What a rank has not written is done again; tasks that deaths interrupt do not count here.
            assert_eq!(outcome.files == files, point.is_written, "{outcome:?}");
            assert!(outcome.run_ns > outcome.undisturbed_ns + paused_ns(&outcome), "{outcome:?}");
        }
    }
}

/// So a run that counts wrong does not pass.
#[test]
fn kill_points_notice_rules_that_are_off() {
    for rule in [LogRule::Given, LogRule::Known, LogRule::ResultsBesideDone] {
        let wrong = POINTS.into_iter().find_map(|(name, point)| {
            let job = mortal(thesis_tree(40_000, 50), RANKS, 5);
            let (point, without) = (Some(point), Some(rule));
            let job = Mortal { point, without, write_ns: 20_000_000, names_files: true, ..job };
            run_mortal(&job).err().map(|wrong| (name, wrong))
        });
        let (name, wrong) = wrong.unwrap_or_else(|| panic!("{rule:?} is off, and nothing is noticed"));
        println!("{rule:?}: {name}: {wrong:.100}");
    }
}

#[test]
#[ignore = "takes a minute"]
fn kill_points_at_32_ranks() {
    for (name, files, directories, mean) in THESIS {
        let tree = thesis_tree(files, mean);
        let found = tree.size(&tree.root()).directories;
        println!("{name}: {files} files, {found} directories (thesis: {directories})");
        println!(
            "| ranks die in | deaths | without | with | ideal | over ideal | pauses | longest | files again |"
        );
        for (name, point) in POINTS {
            for deaths in [1, 4, 16] {
                let job = Mortal { point: Some(point), ..mortal(tree, RANKS, deaths) };
                let outcome = run_mortal(&job).unwrap();
                outcome.deaths.iter().for_each(|death| assert_is_at(point.point, death));
                let longest = outcome.deaths.iter().map(|death| death.pause.ns).max().unwrap_or_default();
                println!(
                    "| {name} | {deaths} | {:.2} | {:.2} | {:.2} | {:.3} | {:.2} | {:.3} | {} |",
                    seconds(outcome.undisturbed_ns),
                    seconds(outcome.run_ns),
                    seconds(outcome.ideal_ns),
                    over_ideal(&outcome),
                    seconds(paused_ns(&outcome)),
                    seconds(longest),
                    outcome.files - files
                );
            }
        }
    }
}

#[test]
#[ignore = "takes minutes and some GiB of memory"]
fn sixteen_of_a_thousand_ranks_die() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let tree = Tree::scaled(number("ATTA_SIM_FILES", 100_000_000));
    let mut mortal = mortal(tree, number("ATTA_SIM_RANKS", 1000) as u32, 16);
    mortal.costs.fixed_ns = number("ATTA_SIM_FIXED_NS", COSTS.fixed_ns);
    let outcome = run_mortal(&mortal).unwrap();
    for Death { pause, .. } in &outcome.deaths {
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
        seconds(paused_ns(&outcome))
    );
}
