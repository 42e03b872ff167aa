//! The summary of a walk: as text for people, as JSON for programs. This module only renders.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use atta_entry::Kind;
use atta_ops::walk::{Profile, ThreadReport, Totals};
use atta_runtime::SpillReport;
use serde_json::{Value, json};

use super::arguments::WalkArguments;
use super::threads::RankReport;
use crate::run::earlier::Earlier;
use crate::run::fatal::Fatal;
use crate::run::file;
use crate::run::job;
use crate::run::messages::complain;
use crate::run::report::{self, by_errno};
use crate::size::{binary, counted, grouped, per_second};

/// Data of the summary of a walk.
pub(crate) struct Report<'a> {
    pub(crate) arguments: &'a WalkArguments,
    pub(crate) totals: &'a Totals,
    pub(crate) outcome: &'a Whole,
    pub(crate) interrupted: bool,
}

/// Results of all threads of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) elapsed: Duration,
    pub(crate) profile: Profile,
    pub(crate) thread_count: u64,
    /// A row for each thread, ordered by rank; on more than 64 ranks, a row for each rank.
    pub(crate) threads: Vec<ThreadReport>,
    pub(crate) spill: SpillReport,
    /// A report for each rank; empty if this process is alone.
    pub(crate) ranks: Vec<RankReport>,
    /// What earlier runs of the job have done.
    pub(crate) earlier: Option<Earlier>,
}

impl Report<'_> {
    /// Prints the requested summary: to standard output, or to standard error if rows went to standard output.
    pub(crate) fn print(&self) -> Result<(), Fatal> {
        if let Some(error) = &self.outcome.spill.error {
            complain(&format!("{error}; tasks stayed in memory, beyond --memory"), None);
        }
        let text = self.printed();
        if self.arguments.row_format().is_some() {
            let _ = io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        file::print(&text)
    }

    /// The summary as it is printed; empty if none is.
    fn printed(&self) -> String {
        let mut text = String::new();
        if self.arguments.report.json {
            text = format!("{}\n", self.json());
        } else if !self.arguments.report.quiet {
            self.text(&mut text);
        }
        text
    }

    /// The summary in both forms, and the exit code, as a job that is complete keeps them.
    pub(crate) fn kept(&self, code: u8) -> Vec<u8> {
        let mut text = String::new();
        self.text(&mut text);
        job::kept(code, &self.json().to_string(), &text)
    }

    fn text(&self, out: &mut String) {
        let elapsed = self.outcome.elapsed;
        let entries = self.totals.entries();
        let state = if self.interrupted { "interrupted: " } else { "" };
        let threads = self.outcome.thread_count;
        let _ = writeln!(
            out,
            "{state}{} in {} ({}/s, {}{})",
            counted(entries, "entry", "entries"),
            seconds(elapsed),
            grouped(self.per_second()),
            self.ranks_of(),
            counted(threads, "thread", "threads"),
        );
        for kind in Kind::ALL {
            let count = self.totals.of(kind);
            if count > 0 {
                let _ = writeln!(out, "  {:<12} {:>15}", plural(kind), grouped(count));
            }
        }
        if !self.arguments.lite {
            let sizes =
                [("apparent", self.totals.apparent_bytes), ("allocated", self.totals.allocated_bytes)];
            for (name, bytes) in sizes {
                let _ = writeln!(out, "  {name:<12} {:>15}  {}", grouped(bytes), binary(bytes));
            }
        }
        let extras = [
            ("extra links", self.totals.extra_links),
            ("excluded", self.totals.excluded),
            ("levels", self.totals.depth_max.0),
            ("spilled", self.outcome.spill.tasks),
            ("errors", self.totals.failed()),
        ];
        for (name, count) in extras.into_iter().filter(|(_, count)| *count > 0) {
            let _ = writeln!(out, "  {name:<12} {:>15}", grouped(count));
        }
        for (errno, &count) in &self.totals.failures {
            let _ = writeln!(out, "    {:<10} {:>15}  {}", errno.label(), grouped(count), errno.message());
        }
        self.time(out);
        self.threads(out);
        if let Some(earlier) = &self.outcome.earlier {
            earlier.lines("walked", "", out);
        }
    }

    /// Entries that this run has visited each second. Earlier runs of a job may have visited others.
    fn per_second(&self) -> u64 {
        per_second(self.outcome.profile.entries, self.outcome.elapsed)
    }

    fn ranks_of(&self) -> String {
        match self.outcome.ranks.len() {
            0 => String::new(),
            ranks => format!("{}, ", counted(ranks as u64, "rank", "ranks")),
        }
    }

    /// The profile of the paper: how the threads spent their time.
    fn time(&self, out: &mut String) {
        let shares = self.shares();
        let parts: Vec<_> =
            shares.iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
        let _ = writeln!(out, "  {:<12} {}", "time", parts.join(", "));
    }

    fn shares(&self) -> [(&'static str, f64); 4] {
        let Profile { readdir, stat, callback, .. } = self.outcome.profile;
        let waiting = self.waiting();
        let whole = (readdir + stat + callback + waiting).as_secs_f64().max(1e-9);
        [("readdir", readdir), ("stat", stat), ("callback", callback), ("waiting", waiting)]
            .map(|(name, time)| (name, time.as_secs_f64() / whole))
    }

    fn waiting(&self) -> Duration {
        self.outcome.threads.iter().map(|thread| thread.worker.waiting).sum()
    }

    /// Whether each thread has a row; if not, each rank has one.
    fn has_each_thread(&self) -> bool {
        self.outcome.thread_count == self.outcome.threads.len() as u64
    }

    /// How evenly the work was shared: one line, or with --verbose a row for each thread.
    fn threads(&self, out: &mut String) {
        let threads = &self.outcome.threads;
        let entries = self.outcome.profile.entries.max(1) as f64;
        let mut shares: Vec<_> =
            threads.iter().map(|thread| thread.profile.entries as f64 / entries * 100.0).collect();
        if self.arguments.report.verbose {
            let what = if self.has_each_thread() { "thread" } else { "  rank" };
            let _ =
                writeln!(out, "  {what}       entries   tasks  steals  readdir     stat callback  waiting");
            for (index, thread) in threads.iter().enumerate() {
                let (profile, worker) = (&thread.profile, &thread.worker);
                let _ = writeln!(
                    out,
                    "  {index:>6} {:>13} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8}",
                    profile.entries,
                    worker.tasks,
                    worker.steals,
                    seconds(profile.readdir),
                    seconds(profile.stat),
                    seconds(profile.callback),
                    seconds(worker.waiting),
                );
            }
        } else if threads.len() > 1 && self.has_each_thread() {
            spread("per thread", &mut shares, out);
        }
        if self.outcome.ranks.len() > 1 {
            let share = |rank: &RankReport| rank.entries as f64 / entries * 100.0;
            let mut shares: Vec<_> = self.outcome.ranks.iter().map(share).collect();
            spread("per rank", &mut shares, out);
        }
    }

    /// The counts, without times: the totals that a catalog records.
    pub(crate) fn totals_json(&self) -> Value {
        let totals = self.totals;
        let kinds: serde_json::Map<_, _> =
            Kind::ALL.into_iter().map(|kind| (kind.name().to_owned(), json!(totals.of(kind)))).collect();
        let others = json!({
            "entries": totals.entries(),
            "by_kind": kinds,
            "depth_max": totals.depth_max.0,
        });
        let mut all = report::object(totals, others);
        if self.arguments.lite {
            // Only a few entries have metadata: their sum would look like that of the tree.
            for unknown in ["apparent_bytes", "allocated_bytes", "extra_links"] {
                all[unknown] = Value::Null;
            }
        }
        all
    }

    /// Writes all results to a file.
    pub(crate) fn write_stats(&self, path: &std::path::Path) -> Result<(), Fatal> {
        file::write_stats(path, &self.json())
    }

    /// All results, as JSON.
    pub(crate) fn json(&self) -> Value {
        let outcome = self.outcome;
        let threads: Vec<_> = outcome
            .threads
            .iter()
            .map(|thread| {
                json!({
                    "entries": thread.profile.entries,
                    "directories": thread.profile.directories,
                    "tasks": thread.worker.tasks,
                    "steals": thread.worker.steals,
                    "readdir_seconds": thread.profile.readdir.as_secs_f64(),
                    "stat_seconds": thread.profile.stat.as_secs_f64(),
                    "callback_seconds": thread.profile.callback.as_secs_f64(),
                    "waiting_seconds": thread.worker.waiting.as_secs_f64(),
                })
            })
            .collect();
        let shares: serde_json::Map<_, _> =
            self.shares().into_iter().map(|(name, share)| (name.to_owned(), json!(share))).collect();
        json!({
            "schema_version": 1,
            "command": "walk",
            "interrupted": self.interrupted,
            "totals": self.totals_json(),
            "errors": {"count": self.totals.failed(), "by_errno": by_errno(&self.totals.failures)},
            "earlier": outcome.earlier.as_ref().map(Earlier::json),
            "elapsed_seconds": outcome.elapsed.as_secs_f64(),
            "entries_per_second": self.per_second(),
            "time_shares": shares,
            "threads": threads,
            "ranks": outcome.ranks.iter().map(RankReport::json).collect::<Vec<_>>(),
            "spill": {"tasks": outcome.spill.tasks, "bytes": outcome.spill.bytes, "error": outcome.spill.error},
        })
    }
}

/// Writes how even shares are, in percent of the entries.
fn spread(of: &str, shares: &mut [f64], out: &mut String) {
    shares.sort_by(f64::total_cmp);
    let middle = shares[shares.len() / 2];
    let (least, most) = (shares.first().unwrap_or(&0.0), shares.last().unwrap_or(&0.0));
    let _ = writeln!(out, "  {of:<12} {least:.1} % to {most:.1} % of the entries each, median {middle:.1} %");
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "files",
        Kind::Directory => "directories",
        Kind::Symlink => "symlinks",
        Kind::Fifo => "fifos",
        Kind::Socket => "sockets",
        Kind::CharDevice => "char devices",
        Kind::BlockDevice => "block devices",
        Kind::Unknown => "unknown",
    }
}

/// A time as `0.42 s`, or `1:02:03` from one minute on.
pub(crate) fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 60 {
        return format!("{:.2} s", time.as_secs_f64());
    }
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_people() {
        assert_eq!(seconds(Duration::from_millis(420)), "0.42 s");
        assert_eq!(seconds(Duration::from_secs(3723)), "1:02:03");
    }
}
