//! Figures of simulations (`--plots`): of one run, the figures of a walk; of several runs, comparisons; of an experiment of the paper, its
//! figure. The program's `figures.rs` defines how a figure of one run looks.

use atta_engine::ScheduleKind;
use atta_plots::{Group, Labels, PlotError, Scale, Shares};
use atta_sim::{Habits, Outcome, RankStats, Setup, Volume};

use super::Done;
use super::arguments::SimulateArguments;
use super::experiment::Experiment;
use super::report::seconds;
use crate::figures::{Figure, Run, Sent, time, work};

/// All figures of these runs.
pub(crate) fn figures(arguments: &SimulateArguments, done: &[Done]) -> Vec<Figure> {
    let label = arguments.group_label();
    match (arguments.figure, done) {
        (Some(figure), _) => of_paper(figure, label, done),
        (None, [one]) => run(one).figures(),
        (None, _) => comparison(label, done),
    }
}

/// The figure of an experiment.
fn of_paper(figure: Experiment, label: &str, done: &[Done]) -> Vec<Figure> {
    match figure {
        Experiment::Centralized => maps(done, "figure-1"),
        Experiment::Pairs => maps(done, "figure-5"),
        Experiment::RunningTime => {
            let of_hybrid = profiles(label, done, "figure-3b-");
            let mut figures = vec![("figure-3a.svg".to_owned(), running_time(label, done))];
            figures.extend(of_hybrid.into_iter().filter(|(name, _)| name.contains("hybrid")));
            figures
        }
        Experiment::Volume => volumes(label, done, "figure-4-"),
        Experiment::Work => {
            let mut figures = vec![("figure-6a.svg".to_owned(), span(done))];
            figures.extend(distribution(label, done, "figure-6b"));
            figures
        }
    }
}

/// Figures that compare several runs.
fn comparison(label: &str, done: &[Done]) -> Vec<Figure> {
    let mut figures = vec![("running-time.svg".to_owned(), running_time(label, done))];
    figures.extend(volumes(label, done, "sent-"));
    figures.extend(profiles(label, done, "time-"));
    figures.extend(distribution(label, done, "work"));
    figures.extend(maps(done, "bytes"));
    figures
}

/// Running times, as figure 3(a).
fn running_time(label: &str, done: &[Done]) -> Result<String, PlotError> {
    let groups = groups(done, |outcome| seconds(outcome.run_ns));
    atta_plots::bars(&Labels::new("Running time").x(label).y("seconds"), &groups, Scale::Linear)
}

/// Messages and bytes, as figure 4.
fn volumes(label: &str, done: &[Done], prefix: &str) -> Vec<Figure> {
    let draw = |title: &str, unit: &str, value: fn(&Outcome) -> u64| {
        let groups = groups(done, |outcome| value(outcome) as f64);
        atta_plots::bars(&Labels::new(title).x(label).y(unit), &groups, Scale::Logarithmic)
    };
    vec![
        (format!("{prefix}messages.svg"), draw("Messages", "messages", |outcome| outcome.sent().messages)),
        (format!("{prefix}bytes.svg"), draw("Bytes in messages", "bytes", |outcome| outcome.sent().bytes)),
    ]
}

/// How the time was spent, one figure for each series, as figure 3(b).
fn profiles(label: &str, done: &[Done], prefix: &str) -> Vec<Figure> {
    let of = |series: &str| {
        let runs = done.iter().filter(|done| done.case.series == series);
        let groups: Vec<Group> = runs.map(|done| (done.case.group.clone(), run(done).all)).collect();
        time(&format!("Where the time of {series} went"), label, &groups)
    };
    names(done, |done| &done.case.series)
        .into_iter()
        .map(|series| (format!("{prefix}{series}.svg"), of(series)))
        .collect()
}

/// Shares of the workers, one figure for each group of runs, as figure 6.
fn distribution(label: &str, done: &[Done], prefix: &str) -> Vec<Figure> {
    let groups = names(done, |done| &done.case.group);
    let draw = |group: &&str| {
        let runs = done.iter().filter(|done| done.case.group == **group);
        let shares: Vec<Shares> = runs.map(|done| (done.case.series.clone(), shares(done))).collect();
        let name = if groups.len() == 1 { String::new() } else { format!("-{}", group.replace(", ", "-")) };
        (format!("{prefix}{name}.svg"), work(&format!("Work of each worker, {group} {label}"), &shares))
    };
    groups.iter().map(draw).collect()
}

/// The smallest and the largest share of a worker, as figure 6(a).
fn span(done: &[Done]) -> Result<String, PlotError> {
    let group = |done: &Done| {
        let shares = shares(done);
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let mean = 100.0 / shares.len() as f64;
        let parts = [("least", least), ("mean", mean), ("most", most)];
        (done.case.series.clone(), parts.map(|(name, share)| (name.to_owned(), share)).to_vec())
    };
    let groups: Vec<Group> = done.iter().map(group).collect();
    let labels = Labels::new("Work of a worker").x("schedule").y("share of the entries in percent");
    atta_plots::bars(&labels, &groups, Scale::Linear)
}

/// Bytes between ranks, one map for each run, as figures 1 and 5.
fn maps(done: &[Done], prefix: &str) -> Vec<Figure> {
    let several = names(done, |done| &done.case.group).len() > 1;
    let counted = done.iter().filter(|done| done.outcome.pairs.is_some());
    counted
        .map(|done| {
            let (series, group) = (&done.case.series, done.case.group.replace(", ", "-"));
            let name = if several {
                format!("{prefix}-{series}-{group}.svg")
            } else {
                format!("{prefix}-{series}.svg")
            };
            (name, run(done).bytes(&format!("{series}, {} ranks", done.outcome.ranks.len())))
        })
        .collect()
}

/// One value of each run, by group and series.
fn groups(done: &[Done], value: impl Fn(&Outcome) -> f64) -> Vec<Group> {
    let of = |group: &str| {
        let runs = done.iter().filter(|done| done.case.group == group);
        runs.map(|done| (done.case.series.clone(), value(&done.outcome))).collect()
    };
    names(done, |done| &done.case.group).into_iter().map(|group| (group.to_owned(), of(group))).collect()
}

/// Names in order of first occurrence.
fn names(done: &[Done], name: impl Fn(&Done) -> &String) -> Vec<&str> {
    let mut names = Vec::new();
    for name in done.iter().map(name) {
        if !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    names
}

/// Share of each worker in all tasks, in percent.
fn shares(done: &Done) -> Vec<f64> {
    let all = done.outcome.totals.tasks().max(1) as f64;
    let workers = done.outcome.workers.iter().skip(usize::from(has_master(&done.case.setup)));
    workers.map(|worker| worker.tasks as f64 / all * 100.0).collect()
}

/// Whether rank 0 only hands out tasks and runs none.
fn has_master(setup: &Setup) -> bool {
    let is_centralized =
        matches!(setup.engine.schedule, ScheduleKind::Centralized | ScheduleKind::CentralizedKeep);
    is_centralized && setup.ranks > 1
}

/// A run in the form that is drawn.
fn run(done: &Done) -> Run {
    let Done { case, outcome, .. } = done;
    let size = outcome.ranks.len();
    let mut all: Vec<(String, f64)> = Vec::new();
    let mut ranks = Vec::with_capacity(size);
    for (number, rank) in outcome.ranks.iter().enumerate() {
        let parts = parts(outcome.run_ns, &case.setup.habits, rank);
        all.resize_with(parts.len(), Default::default);
        for (sum, part) in all.iter_mut().zip(&parts) {
            *sum = (part.0.clone(), sum.1 + part.1);
        }
        ranks.push((number.to_string(), parts));
    }
    let sent = outcome.sent();
    let pairs = outcome.pairs.as_ref().map(|pairs| {
        let sent = |(index, volume): (usize, &Volume)| Sent {
            from: (index / size) as u32,
            to: (index % size) as u32,
            messages: volume.messages,
            bytes: volume.bytes,
        };
        pairs.iter().enumerate().filter(|(_, volume)| volume.messages > 0).map(sent).collect()
    });
    let shares = vec![("workers".to_owned(), shares(done))];
    Run { shares, ranks, all, size, ranks_per_row: 1, pairs, sent: (sent.messages, sent.bytes) }
}

/// How the threads of a rank spent their time, in seconds. The work of a separate communication thread does not reduce their idle time.
fn parts(run_ns: u64, habits: &Habits, rank: &RankStats) -> Vec<(String, f64)> {
    let communication = if habits.communication_thread { 0 } else { rank.communication_ns };
    let idle = (run_ns * u64::from(habits.threads)).saturating_sub(rank.work_ns() + communication);
    let parts = [
        ("readdir", rank.readdir_ns),
        ("stat", rank.stat_ns),
        ("communication", rank.communication_ns),
        ("idle", idle),
    ];
    parts.map(|(name, ns)| (name.to_owned(), seconds(ns))).to_vec()
}
