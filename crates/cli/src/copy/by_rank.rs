//! Work and time of each rank of a copy: as a table and as JSON. No I/O. Only `atta_ops::copy` knows what is measured, and how.

use std::fmt::Write as _;

use atta_ops::copy::{Phase, RankReport};
use serde_json::{Map, Value, json};

use crate::size::{binary, grouped, per_second};

/// Width of the column of a phase: its name or seven characters, and a blank.
fn width(phase: Phase) -> usize {
    phase.name().len().max(7) + 1
}

/// Writes a row for each rank: what it copied, seconds of each phase, how busy its threads were, seconds of syncs over all its threads.
pub(super) fn table(reports: &[RankReport], text: &mut String) {
    let _ = write!(text, "  {:<5} {:>15} {:>10} {:>12}", "rank", "files", "bytes", "rate");
    Phase::ALL.iter().for_each(|phase| {
        let _ = write!(text, "{:>1$}", phase.name(), width(*phase));
    });
    let _ = writeln!(text, "  busy   syncs");
    for report in reports {
        let rate = binary(per_second(report.bytes, report.elapsed()));
        let (files, bytes) = (grouped(report.files), binary(report.bytes));
        let _ = write!(text, "  {:<5} {files:>15} {bytes:>10} {:>12}", report.rank, format!("{rate}/s"));
        for (phase, time) in Phase::ALL.iter().zip(report.phases) {
            let _ = write!(text, "{:>1$.2}", time.as_secs_f64(), width(*phase));
        }
        let busy = busy_share(report) * 100.0;
        let _ = writeln!(text, " {busy:>3.0} % {:>7.2}", report.syncing.as_secs_f64());
    }
}

/// The share of their time in which threads had a task.
fn busy_share(report: &RankReport) -> f64 {
    report.busy.as_secs_f64() / (report.busy + report.waiting).as_secs_f64().max(1e-9)
}

/// The same as JSON for programs.
pub(super) fn rows(reports: &[RankReport]) -> Vec<Value> {
    reports.iter().map(row).collect()
}

fn row(report: &RankReport) -> Value {
    let phases = Phase::ALL.iter().zip(report.phases);
    let phases: Map<_, _> =
        phases.map(|(phase, time)| (phase.name().to_owned(), json!(time.as_secs_f64()))).collect();
    json!({
        "rank": report.rank,
        "files": report.files,
        "bytes": report.bytes,
        "bytes_per_second": per_second(report.bytes, report.elapsed()),
        "elapsed_seconds": report.elapsed().as_secs_f64(),
        "phase_seconds": phases,
        "busy_seconds": report.busy.as_secs_f64(),
        "finding_seconds": report.finding.as_secs_f64(),
        "waiting_seconds": report.waiting.as_secs_f64(),
        "syncs": report.syncs,
        "sync_seconds": report.syncing.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample() -> RankReport {
        let second = Duration::from_secs;
        RankReport {
            rank: 12,
            files: 1_234_567,
            bytes: 10 << 30,
            phases: [second(10), second(1), second(2), second(3), second(0), second(4), second(5)],
            busy: second(9),
            finding: second(7),
            waiting: second(3),
            syncs: 11,
            syncing: Duration::from_millis(2500),
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_rank_under_its_heads() {
        let mut text = String::new();
        let long = RankReport { phases: [Duration::from_secs(9_999); 7], ..sample() };
        table(&[sample(), RankReport::default(), long], &mut text);
        let lines: Vec<&str> = text.lines().collect();
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
        let times = ["10.00", "1.00", "2.00", "3.00", "0.00", "4.00", "5.00", "75", "%", "2.50"];
        let start = ["12", "1,234,567", "10.0", "GiB", "409.6", "MiB/s"];
        assert_eq!(words[1], [&start[..], &times].concat());
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        for phase in Phase::ALL {
            let ends = lines[0].find(&format!(" {}", phase.name())).unwrap() + 1 + phase.name().len();
            // The number ends in the same column as its head.
            assert_eq!(&lines[3][ends - 7..ends], "9999.00", "{}\n{text}", phase.name());
        }
    }

    #[test]
    fn machines_get_each_phase_by_its_name() {
        let row = row(&sample());
        assert_eq!((&row["phase_seconds"]["verify"], &row["sync_seconds"]), (&json!(3.0), &json!(2.5)));
        let phases = row["phase_seconds"].as_object().unwrap();
        let sum: f64 = phases.values().map(|time| time.as_f64().unwrap()).sum();
        assert_eq!((phases.len(), json!(sum)), (7, row["elapsed_seconds"].clone()));
    }
}
