//! From the runs of a contest to the table on the terminal and to the files that are published.
//!
//! Every single run is in the JSON file, so that a reader can compute what the table does not show. Paths of this
//! machine are in neither: commands are written with `TREE` for the tree and without directories.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::contest::Outcome;
use crate::machine::Machine;
use crate::measure::Run;
use crate::sheet::quantile;
use crate::statistics::{median, median_ratio};
use crate::table::{Column, Table};

/// A benchmark with everything that is published of it.
#[derive(Serialize)]
pub(crate) struct Report {
    /// What was measured, as a heading.
    pub(crate) title: String,
    /// Where.
    pub(crate) machine: Machine,
    /// The first line of what each program says about its version.
    pub(crate) versions: Vec<String>,
    /// One for each tree.
    pub(crate) sections: Vec<Section>,
}

/// The contest on one tree.
#[derive(Serialize)]
pub(crate) struct Section {
    title: String,
    rounds: usize,
    /// Whom the ratios compare with; `None` if no raw limit ended well.
    base: Option<String>,
    /// How our program compares with an older one, where one was named.
    changes: Vec<String>,
    results: Vec<Summary>,
    left_out: Vec<LeftOut>,
}

/// One contender's runs and what they come to.
#[derive(Serialize)]
struct Summary {
    name: String,
    command: String,
    note: &'static str,
    median_seconds: f64,
    min_seconds: f64,
    /// The median divided by the median of the base.
    ratio_of_medians: Option<f64>,
    /// The median of the ratios within each round.
    median_of_ratios: Option<f64>,
    cpu_seconds: f64,
    peak_rss_mib: f64,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct LeftOut {
    name: String,
    command: String,
    reason: String,
}

impl Section {
    /// Sums a contest up. `hidden` are paths and the words that stand for them.
    pub(crate) fn new(
        title: String,
        rounds: usize,
        outcomes: Vec<Outcome>,
        hidden: &[(&Path, &str)],
    ) -> Self {
        let base = fastest_limit(&outcomes);
        let mut section = Self {
            title,
            rounds,
            base: base.as_ref().map(|(name, _)| name.clone()),
            changes: changes(&outcomes),
            results: vec![],
            left_out: vec![],
        };
        let base = base.map(|(_, seconds)| seconds);
        for Outcome { contender, runs } in outcomes {
            let command = shown(&contender.command, hidden);
            let (name, note) = (contender.name, contender.note);
            match runs {
                Ok(runs) => {
                    let summary = Summary::new(name, command, note, runs, base.as_deref());
                    section.results.push(summary);
                }
                Err(reason) => {
                    let reason = hide(&reason, hidden);
                    section.left_out.push(LeftOut { name, command, reason });
                }
            }
        }
        section
    }

    /// Heading, table and who was left out, in Markdown.
    pub(crate) fn render(&self) -> String {
        let columns =
            ["median s", "min s", "ratio", "ratio by round", "CPU s", "peak MiB"].map(Column::Numbers);
        let columns = [Column::Words("contender")].into_iter().chain(columns);
        let mut table = Table::new(columns.chain([Column::Words("note")]).collect());
        self.results.iter().for_each(|result| table.push(result.row()));
        let base = self.base.as_deref().unwrap_or("nothing");
        let mut text = format!(
            "## {}\n\nRounds: {}. Ratios compare with {base}.\n\n{}",
            self.title,
            self.rounds,
            table.render()
        );
        if !self.changes.is_empty() {
            text.push_str(&format!("\n{}\n", self.changes.join("\n")));
        }
        if !self.left_out.is_empty() {
            text.push_str("\nLeft out:\n\n");
        }
        for LeftOut { name, reason, .. } in &self.left_out {
            text.push_str(&format!("- {name}: {reason}\n"));
        }
        text
    }

    /// The command of each contender, as a list in Markdown.
    fn commands(&self) -> String {
        let results = self.results.iter().map(|result| (&result.name, &result.command));
        let all = results.chain(self.left_out.iter().map(|left| (&left.name, &left.command)));
        all.map(|(name, command)| format!("- {name}: `{command}`\n")).collect()
    }
}

impl Summary {
    fn new(name: String, command: String, note: &'static str, runs: Vec<Run>, base: Option<&[f64]>) -> Self {
        let seconds = wall(&runs);
        let median_seconds = median(seconds.iter().copied());
        Self {
            name,
            command,
            note,
            median_seconds,
            min_seconds: seconds.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_of_medians: base.map(|base| median_seconds / median(base.iter().copied())),
            median_of_ratios: base.map(|base| median_ratio(&seconds, base)),
            cpu_seconds: median(runs.iter().map(|run| run.cpu_seconds)),
            peak_rss_mib: median(runs.iter().map(peak_mib)),
            runs,
        }
    }

    fn row(&self) -> Vec<String> {
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        vec![
            self.name.clone(),
            format!("{:.3}", self.median_seconds),
            format!("{:.3}", self.min_seconds),
            ratio(self.ratio_of_medians),
            ratio(self.median_of_ratios),
            format!("{:.3}", self.cpu_seconds),
            format!("{:.1}", self.peak_rss_mib),
            self.note.to_owned(),
        ]
    }
}

/// The name of a contender run with the older program that `--before` names.
pub(crate) fn name_before(name: &str) -> String {
    format!("{name}, before")
}

/// For each contender that also ran with an older program: its time over the older one's, by round.
pub(crate) fn changes(outcomes: &[Outcome]) -> Vec<String> {
    let seconds = |outcome: &Outcome| outcome.runs.as_ref().ok().map(|runs| wall(runs));
    let change = |now: &Outcome| {
        let name = &now.contender.name;
        let before = outcomes.iter().find(|outcome| outcome.contender.name == name_before(name))?;
        let pairs = seconds(now)?.into_iter().zip(seconds(before)?);
        let ratios: Vec<f64> = pairs.map(|(now, before)| now / before).collect();
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(&ratios, part));
        Some(format!("- {name}: {middle:.3} ({low:.3} to {high:.3}) times the older program, by round"))
    };
    outcomes.iter().filter_map(change).collect()
}

impl Report {
    /// The whole report in Markdown.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("# {}\n\n{}", self.title, self.machine.list());
        text.extend(self.versions.iter().map(|version| format!("- version: {version}\n")));
        for section in &self.sections {
            text.push_str(&format!("\n{}\n{}", section.render(), section.commands()));
        }
        text
    }

    /// Writes `<date>-<name>.md` and `.json` below `place`; the path of the first.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn write(&self, place: &Path, name: &str) -> io::Result<PathBuf> {
        std::fs::create_dir_all(place)?;
        let path = place.join(format!("{}-{name}.md", self.machine.date));
        std::fs::write(&path, self.render())?;
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        std::fs::write(path.with_extension("json"), json)?;
        Ok(path)
    }
}

/// The raw limit with the lowest median (cold, more threads than cores pay), and its wall times.
pub(crate) fn fastest_limit(outcomes: &[Outcome]) -> Option<(String, Vec<f64>)> {
    let limits = outcomes.iter().filter(|outcome| outcome.contender.is_limit);
    let times =
        limits.filter_map(|limit| Some((limit.contender.name.clone(), wall(limit.runs.as_ref().ok()?))));
    times.min_by(|(_, a), (_, b)| median(a.iter().copied()).total_cmp(&median(b.iter().copied())))
}

/// Wall times in the order of the rounds.
pub(crate) fn wall(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.seconds).collect()
}

/// The largest resident set in MiB.
#[expect(clippy::cast_precision_loss, reason = "kibibytes of memory fit an f64")]
pub(crate) fn peak_mib(run: &Run) -> f64 {
    run.peak_rss_kib as f64 / 1024.0
}

/// A command line as one would type it, without the directories of this machine.
fn shown(command: &[OsString], hidden: &[(&Path, &str)]) -> String {
    let word = |(index, word): (usize, &OsString)| {
        let name = Path::new(word).file_name().filter(|_| index == 0).unwrap_or(word);
        let text = hide(&name.to_string_lossy(), hidden);
        if text.contains([' ', '%', '\\']) { format!("'{text}'") } else { text }
    };
    command.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// The text with words for paths.
pub(crate) fn hide(text: &str, hidden: &[(&Path, &str)]) -> String {
    hidden.iter().fold(text.to_owned(), |text, (path, word)| text.replace(&*path.to_string_lossy(), word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Contender;

    fn outcome(name: &str, is_limit: bool, seconds: &[f64]) -> Outcome {
        let run = |&seconds: &f64| Run { seconds, cpu_seconds: seconds * 2.0, peak_rss_kib: 2048 };
        let command = vec!["/opt/bin/tool".into(), "-x %p\\n".into(), "/big/tree".into()];
        let contender = Contender { name: name.into(), command, note: "", is_limit, product: None };
        Outcome { contender, runs: Ok(seconds.iter().map(run).collect()) }
    }

    #[test]
    fn section_compares_with_the_fastest_limit() {
        let mut failed = outcome("broken", false, &[]);
        failed.runs = Err("exit code 1: /big/tree: no".into());
        let slow = outcome("slow limit", true, &[2.0, 2.0, 2.0]);
        let fast = outcome("limit", true, &[1.0, 1.0, 2.0]);
        let other = outcome("other", false, &[3.0, 1.5, 2.0]);
        let outcomes = vec![slow, fast, other, failed];
        let section = Section::new("A tree".into(), 3, outcomes, &[(Path::new("/big/tree"), "TREE")]);
        let text = section.render();
        assert!(text.contains("Rounds: 3. Ratios compare with limit."), "{text}");
        assert!(
            text.contains("| other      |    2.000 | 1.500 | 2.000 |          1.500 | 4.000 |      2.0 |"),
            "{text}"
        );
        assert!(text.contains("- broken: exit code 1: TREE: no\n"), "{text}");
        assert!(section.commands().contains("- other: `tool '-x %p\\n' TREE`\n"), "{}", section.commands());
    }

    #[test]
    fn without_a_limit_there_are_no_ratios() {
        let section = Section::new("A tree".into(), 1, vec![outcome("other", false, &[3.0])], &[]);
        assert!(section.render().contains("|     - |              - |"), "{}", section.render());
    }
}
