//! The figures of a walk on several ranks (`--plots`): how even the work was, where the time went, who sent how much to
//! whom. It chooses what is drawn; `atta-plots` draws.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use atta_ops::walk::Profile;
use atta_plots::{Group, Labels, Matrix, PlotError, Scale, Shares, Stack};

use super::failures::{create, describe, printable};
use super::ranks::RankReport;
use super::report::Whole;
use super::sink::Fatal;

/// Ranks whose profiles stand beside each other; of more the sum is drawn.
const PROFILES_MAX: usize = 40;
/// Bars of a histogram.
const BINS: usize = 20;

/// Draws all figures into a directory, which is made if it is not there.
pub(crate) fn draw(directory: &Path, whole: &Whole) -> Result<(), Fatal> {
    let failed = |what: &Path, why: String| Fatal::Failed {
        what: format!("cannot draw: {}: {why}", printable(what)),
        hint: None,
    };
    if let Err(error) = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(directory) {
        return Err(failed(directory, describe(&error)));
    }
    let figures = [
        ("work.svg", work(whole)),
        ("time.svg", time(whole)),
        ("bytes.svg", heat(whole, "Bytes between ranks", "bytes", |(_, _, bytes)| bytes)),
        ("messages.svg", heat(whole, "Messages between ranks", "messages", |(_, messages, _)| messages)),
        ("sent.svg", sent(whole)),
    ];
    for (name, figure) in figures {
        let path = directory.join(name);
        let figure = figure.map_err(|error| failed(&path, error.to_string()))?;
        let written = create(&path).and_then(|mut file| file.write_all(figure.as_bytes()));
        written.map_err(|error| failed(&path, describe(&error)))?;
    }
    Ok(())
}

/// How many ranks did which share of the work, as figure 6 of the paper.
fn work(whole: &Whole) -> Result<String, PlotError> {
    let all = whole.profile.entries.max(1) as f64;
    let share = |entries: u64| entries as f64 / all * 100.0;
    let mut series: Vec<Shares> = Vec::new();
    if !whole.ranks.is_empty() {
        series.push(("ranks".to_owned(), whole.ranks.iter().map(|rank| share(rank.entries)).collect()));
    }
    let threads = whole.threads.iter().map(|thread| share(thread.profile.entries)).collect();
    series.push(("threads".to_owned(), threads));
    let labels = Labels::new("Work distribution").x("share of the entries in percent").y("how many");
    atta_plots::histogram(&labels, &series, BINS)
}

/// Where the time of each rank went, as figure 3(b) of the paper.
fn time(whole: &Whole) -> Result<String, PlotError> {
    let parts = |name: String, profile: Profile, communication: f64, waiting: f64| -> Group {
        let seconds = [
            ("readdir", profile.readdir.as_secs_f64()),
            ("stat", profile.stat.as_secs_f64()),
            ("callback", profile.callback.as_secs_f64()),
            ("communication", communication),
            ("idle", waiting),
        ];
        (name, seconds.map(|(part, seconds)| (part.to_owned(), seconds)).to_vec())
    };
    let labels = Labels::new("Where the time went").y("seconds, summed over threads");
    let groups: Vec<Group> = if (1..=PROFILES_MAX).contains(&whole.ranks.len()) {
        whole
            .ranks
            .iter()
            .map(|rank| {
                parts(rank.rank.to_string(), rank.profile(), rank.communication_seconds, rank.waiting())
            })
            .collect()
    } else {
        let communication = whole.ranks.iter().map(|rank| rank.communication_seconds).sum();
        let waiting = whole.threads.iter().map(|thread| thread.worker.waiting.as_secs_f64()).sum();
        vec![parts("all".to_owned(), whole.profile, communication, waiting)]
    };
    atta_plots::stacked(&labels.x("rank"), &groups, Stack::Sum)
}

/// Who sent how much to whom, as figures 1 and 5 of the paper.
fn heat(
    whole: &Whole,
    title: &str,
    unit: &str,
    value: impl Fn((u32, u64, u64)) -> u64,
) -> Result<String, PlotError> {
    let size = whole.ranks.len().max(1);
    let mut matrix = Matrix::new(size, size)?;
    for rank in &whole.ranks {
        for &sent in &rank.traffic {
            matrix.add(rank.rank as usize, sent.0 as usize, value(sent) as f64)?;
        }
    }
    let labels = Labels::new(title).x("to rank").y("from rank").value(unit);
    atta_plots::heat_map(&labels, &matrix, Scale::Linear)
}

/// What all ranks together sent, as figure 4 of the paper.
fn sent(whole: &Whole) -> Result<String, PlotError> {
    let sum = |value: fn(&(u32, u64, u64)) -> u64| {
        let sent = whole.ranks.iter().flat_map(|rank: &RankReport| rank.traffic.iter().map(value));
        sent.sum::<u64>() as f64
    };
    let group = |name: &str, value: f64| (name.to_owned(), vec![("this run".to_owned(), value)]);
    let groups = [group("messages", sum(|sent| sent.1)), group("bytes", sum(|sent| sent.2))];
    let labels = Labels::new("Messages and bytes between ranks").y("messages, bytes");
    atta_plots::bars(&labels, &groups, Scale::Logarithmic)
}
