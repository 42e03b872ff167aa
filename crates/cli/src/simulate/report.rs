//! Results of simulations: as text for people, as JSON for programs. This module only renders.

use std::fmt::Write as _;

use atta_sim::{KINDS, Outcome, RankStats, Volume};
use serde_json::{Value, json};

use super::Done;
use super::arguments::SimulateArguments;
use crate::size::{binary, grouped};

/// Most ranks that JSON lists one by one; with more, `ranks` is null.
const RANKS_LISTED_MAX: usize = 10_000;

/// Data of the report on all runs.
pub(crate) struct Report<'a> {
    pub(crate) arguments: &'a SimulateArguments,
    pub(crate) done: &'a [Done],
    pub(crate) interrupted: bool,
}

impl Report<'_> {
    /// A row for each run; details if there is one run, or with --verbose.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if self.interrupted {
            let _ = writeln!(out, "interrupted: {} runs were done", self.done.len());
        }
        if self.done.is_empty() {
            return out;
        }
        let width = self.done.iter().map(|done| done.case.series.len()).max().unwrap_or(0).max(8);
        let _ = writeln!(
            out,
            "{:<width$} {:>8} {:>7} {:>13} {:>11} {:>10} {:>15} {:>17} {:>9}",
            "schedule", "ranks", "threads", "files", "time", "efficiency", "messages", "bytes", "spread"
        );
        for done in self.done {
            let (setup, outcome, sent) = (&done.case.setup, &done.outcome, done.outcome.sent());
            let _ = writeln!(
                out,
                "{:<width$} {:>8} {:>7} {:>13} {:>9.3} s {:>8.2} % {:>15} {:>17} {:>7.3} %",
                done.case.series,
                grouped(u64::from(setup.ranks)),
                setup.habits.threads,
                grouped(setup.tree.files()),
                seconds(outcome.run_ns),
                outcome.efficiency() * 100.0,
                grouped(sent.messages),
                grouped(sent.bytes),
                outcome.spread() * 100.0,
            );
        }
        if self.done.len() == 1 || self.arguments.verbose {
            self.done.iter().for_each(|done| details(done, &mut out));
        }
        out
    }

    /// All results, as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "schema_version": 1,
            "command": "simulate",
            "interrupted": self.interrupted,
            "runs": self.done.iter().map(json).collect::<Vec<_>>(),
        })
    }
}

/// Details of one run.
fn details(done: &Done, out: &mut String) {
    let Outcome { totals, counts, .. } = &done.outcome;
    let outcome = &done.outcome;
    let sent = outcome.sent();
    let _ = writeln!(out, "\n{} with {} ranks", done.case.series, grouped(u64::from(done.case.setup.ranks)));
    let times = times(&outcome.ranks);
    let rows = [
        ("begun", format!("{:.3} s, the last rank had its first task", seconds(outcome.all_begun_ns))),
        ("announced", format!("{:.3} s, the end was known", seconds(outcome.announced_ns))),
        (
            "end phase",
            format!("{:.2} % of the time, from the first rank out of work", outcome.end_phase() * 100.0),
        ),
        ("directories", grouped(totals.directories)),
        ("readdir", format!("{:.1} s on all threads", times[0])),
        ("stat", format!("{:.1} s", times[1])),
        ("messages", format!("{:.3} s of processor time", times[2])),
        ("per task", format!("{:.6} messages", outcome.messages_per_task())),
        (
            "spread",
            format!(
                "{:.4} % of the tasks and {:.4} % of the time in them, between workers",
                outcome.spread() * 100.0,
                outcome.time_spread() * 100.0
            ),
        ),
        ("waiting", format!("{} tasks on one rank at most", grouped(outcome.waiting_most()))),
        ("no task", format!("{} ranks", outcome.ranks_without_tasks)),
        ("requests", format!("{}, {} refused", grouped(counts.requests), grouped(counts.refused))),
        ("parcels", format!("{} with {} tasks", grouped(counts.parcels_given), grouped(counts.tasks_given))),
        ("sent", format!("{} messages, {}", grouped(sent.messages), binary(sent.bytes))),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "  {name:<12} {value}");
    }
    for (kind, volume) in sent_kinds(outcome) {
        let _ = writeln!(out, "    {kind:<10} {:>15}  {}", grouped(volume.messages), binary(volume.bytes));
    }
    let _ = writeln!(out, "  {:<12} {}, trace {:016x}", "events", grouped(outcome.events), outcome.trace);
}

fn sent_kinds(outcome: &Outcome) -> impl Iterator<Item = (&'static str, Volume)> {
    KINDS.into_iter().zip(outcome.kinds).filter(|(_, volume)| volume.messages > 0)
}

/// Seconds in directories, in `lstat`, and on messages.
fn times(ranks: &[RankStats]) -> [f64; 3] {
    let sum = |ns: fn(&RankStats) -> u64| seconds(ranks.iter().map(ns).sum());
    [sum(|rank| rank.readdir_ns), sum(|rank| rank.stat_ns), sum(|rank| rank.communication_ns)]
}

fn json(done: &Done) -> Value {
    let (setup, outcome) = (&done.case.setup, &done.outcome);
    let sent = outcome.sent();
    let [readdir, stat, communication] = times(&outcome.ranks);
    let volume = |volume: Volume| json!({"messages": volume.messages, "bytes": volume.bytes});
    let kinds: serde_json::Map<_, _> =
        sent_kinds(outcome).map(|(kind, sent)| (kind.to_owned(), volume(sent))).collect();
    let ranks = (outcome.ranks.len() <= RANKS_LISTED_MAX).then(|| {
        (0..).zip(&outcome.ranks).map(|(rank, stats)| rank_json(outcome, rank, stats)).collect::<Vec<_>>()
    });
    json!({
        "series": done.case.series,
        "schedule": setup.engine.schedule.name(),
        "split": setup.engine.split.name(),
        "termination": setup.engine.termination.name(),
        "workers": done.case.workers,
        "ranks_count": setup.ranks,
        "threads": setup.habits.threads,
        "lock_step": setup.habits.lock_step,
        "ranks_per_host": setup.network.ranks_per_host,
        "seed": setup.engine.seed,
        "files": outcome.totals.files,
        "directories": outcome.totals.directories,
        "run_seconds": seconds(outcome.run_ns),
        "begun_seconds": seconds(outcome.all_begun_ns),
        "announced_seconds": seconds(outcome.announced_ns),
        "efficiency": outcome.efficiency(),
        "end_phase": outcome.end_phase(),
        "spread": outcome.spread(),
        "time_spread": outcome.time_spread(),
        "readdir_seconds": readdir,
        "stat_seconds": stat,
        "communication_seconds": communication,
        "messages": sent.messages,
        "bytes": sent.bytes,
        "messages_per_task": outcome.messages_per_task(),
        "by_kind": kinds,
        "waiting_max": outcome.waiting_most(),
        "ranks_without_tasks": outcome.ranks_without_tasks,
        "requests": outcome.counts.requests,
        "refused": outcome.counts.refused,
        "parcels_given": outcome.counts.parcels_given,
        "tasks_given": outcome.counts.tasks_given,
        "events": outcome.events,
        "trace": format!("{:016x}", outcome.trace),
        "elapsed_seconds": done.elapsed.as_secs_f64(),
        "ranks": ranks,
    })
}

fn rank_json(outcome: &Outcome, rank: usize, stats: &RankStats) -> Value {
    let size = outcome.ranks.len();
    let traffic = outcome.pairs.as_ref().map(|pairs| {
        let sent = pairs[rank * size..(rank + 1) * size].iter().enumerate();
        let sent = sent.filter(|(_, volume)| volume.messages > 0);
        sent.map(|(to, volume)| json!([to, volume.messages, volume.bytes])).collect::<Vec<_>>()
    });
    json!({
        "rank": rank,
        "entries": stats.done.tasks(),
        "readdir_seconds": seconds(stats.readdir_ns),
        "stat_seconds": seconds(stats.stat_ns),
        "communication_seconds": seconds(stats.communication_ns),
        "first_task_seconds": stats.first_task_ns.map(seconds),
        "last_task_seconds": seconds(stats.last_task_ns),
        "waiting_max": stats.waiting_most,
        "traffic": traffic,
    })
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
