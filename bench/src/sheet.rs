//! From numbers by round to tables, and to the files that are published. It measures nothing.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::machine::Machine;
use crate::statistics::median_ratio;
use crate::table::{Column, Table};
use crate::turns::Outcome;

/// One table with what is behind it.
#[derive(Serialize)]
pub(crate) struct Sheet {
    /// What was measured, in which unit.
    pub(crate) title: String,
    /// What a reader must know.
    pub(crate) note: String,
    #[serde(skip)]
    heads: Vec<&'static str>,
    /// The first so many columns hold words.
    #[serde(skip)]
    words: usize,
    #[serde(skip)]
    rows: Vec<Vec<String>>,
    /// Every number by round, so that a reader can compute what the table does not show.
    samples: Vec<Sample>,
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct Sample {
    what: String,
    who: String,
    by_round: Vec<f64>,
}

/// A goal of the project beside what was measured.
#[derive(Serialize)]
pub(crate) struct Goal {
    /// The goal in words.
    pub(crate) goal: String,
    /// What was measured, in words.
    pub(crate) measured: String,
    /// Whether it is met.
    pub(crate) is_met: bool,
}

impl Sheet {
    /// A table without rows.
    pub(crate) fn new(title: impl Into<String>, note: &str, words: usize, heads: &[&'static str]) -> Self {
        let (title, note, heads) = (title.into(), note.to_owned(), heads.to_vec());
        Self { title, note, heads, words, rows: vec![], samples: vec![], left_out: vec![] }
    }

    /// The usual table: medians and means of the rounds, quartiles, and the ratio by round to the contender `base`.
    pub(crate) fn comparison(title: impl Into<String>, note: &str) -> Self {
        let heads = ["what", "who", "median", "mean", "lower quartile", "upper quartile", "ratio by round"];
        Self::new(title, note, 2, &heads)
    }

    /// Adds the outcomes of a contest to a comparison: a row for each thing measured and each contender.
    pub(crate) fn compare(&mut self, what: &[String], outcomes: &[Outcome], base: &str) {
        self.note_left_out(outcomes);
        for (index, what) in what.iter().enumerate() {
            let values = |outcome: &Outcome| outcome.values.as_ref().ok().map(|all| all[index].clone());
            let base = outcomes.iter().find(|outcome| outcome.name == base).and_then(values);
            for outcome in outcomes {
                let Some(values) = values(outcome) else { continue };
                let ratio = base.as_ref().map(|base| median_ratio(&values, base));
                let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
                let [median, low, high] = [0.5, 0.25, 0.75].map(|part| number(quantile(&values, part)));
                let mean = number(mean_and_interval(&values).0);
                let row = [what.clone(), outcome.name.clone(), median, mean, low, high, ratio];
                self.rows.push(row.to_vec());
                self.keep(what, &outcome.name, values);
            }
        }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Says something more.
    pub(crate) fn remark(&mut self, text: &str) {
        self.note.push_str(&format!("\n\n{text}"));
    }

    /// Keeps numbers that are behind the table.
    pub(crate) fn keep(&mut self, what: &str, who: &str, by_round: Vec<f64>) {
        self.samples.push(Sample { what: what.to_owned(), who: who.to_owned(), by_round });
    }

    /// Tells who did not end well.
    pub(crate) fn note_left_out(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            if let Err(reason) = &outcome.values {
                self.leave_out(&outcome.name, reason);
            }
        }
    }

    /// Tells that somebody did not end well, and why.
    pub(crate) fn leave_out(&mut self, who: &str, reason: &str) {
        self.left_out.push(format!("{who}: {reason}"));
    }

    /// Heading, note and table, in Markdown.
    pub(crate) fn render(&self) -> String {
        let column = |(index, head): (usize, &&'static str)| match index < self.words {
            true => Column::Words(head),
            false => Column::Numbers(head),
        };
        let mut table = Table::new(self.heads.iter().enumerate().map(column).collect());
        self.rows.iter().for_each(|row| table.push(row.clone()));
        let mut text = format!("\n## {}\n\n{}\n\n{}", self.title, self.note, table.render());
        for left_out in &self.left_out {
            text.push_str(&format!("\nLeft out: {left_out}\n"));
        }
        text
    }
}

/// All that is published of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    /// What was measured, as a heading.
    pub(crate) title: String,
    /// Where; the file systems are named in the tables.
    pub(crate) machine: Machine,
    /// How busy others kept the machine: the load at the start and at the end.
    pub(crate) load: [String; 2],
    /// What else a reader must know.
    pub(crate) notes: Vec<String>,
    /// Goals and whether they are met.
    pub(crate) goals: Vec<Goal>,
    /// The tables.
    pub(crate) sheets: Vec<Sheet>,
    /// Name and SVG text of each figure.
    #[serde(skip)]
    pub(crate) figures: Vec<(String, String)>,
}

impl Report {
    /// The whole report in Markdown.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("# {}\n\n{}", self.title, self.machine.list());
        text.push_str(&format!(
            "- load at the start: {}\n- load at the end: {}\n",
            self.load[0], self.load[1]
        ));
        text.extend(self.notes.iter().map(|note| format!("- {note}\n")));
        if !self.goals.is_empty() {
            let mut table =
                Table::new(vec![Column::Words("goal"), Column::Words("measured"), Column::Words("met")]);
            for goal in &self.goals {
                let met = if goal.is_met { "yes" } else { "no" };
                table.push(vec![goal.goal.clone(), goal.measured.clone(), met.to_owned()]);
            }
            text.push_str(&format!("\n## Goals\n\n{}", table.render()));
        }
        text.extend(self.sheets.iter().map(Sheet::render));
        text
    }

    /// Writes `<date>-<name>.md`, `.json` and `-<figure>.svg` below `place`; the path of the first.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn write(&self, place: &Path, name: &str) -> io::Result<PathBuf> {
        std::fs::create_dir_all(place)?;
        let path = place.join(format!("{}-{name}.md", self.machine.date));
        std::fs::write(&path, self.render())?;
        std::fs::write(path.with_extension("json"), serde_json::to_string(self)? + "\n")?;
        for (figure, svg) in &self.figures {
            std::fs::write(place.join(format!("{}-{name}-{figure}.svg", self.machine.date)), svg)?;
        }
        Ok(path)
    }
}

/// The value below which this part of the values lies, 0 to 1: between two values in proportion (type 7 of Hyndman and Fan,
/// 1996, the default of R and numpy). NaN: there are no values.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    #[expect(clippy::cast_precision_loss, reason = "an index of a list in memory")]
    let position = last as f64 * part.clamp(0.0, 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and at most the last index"
    )]
    let below = position as usize;
    let at = |index: usize| values.get(index.min(last)).copied().unwrap_or(f64::NAN);
    at(below) + (at(below + 1) - at(below)) * position.fract()
}

/// Mean, and half of its 95 % confidence interval (Student's t, for 30 values and more close to 2.04).
#[expect(clippy::cast_precision_loss, reason = "counts of rounds")]
pub(crate) fn mean_and_interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, 2.04 * (variance / count).sqrt())
}

/// A number with three or four digits that count.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_intervals() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(
            (quantile(&values, 0.5), quantile(&values, 0.99), quantile(&values, 1.0)),
            (50.0, 99.0, 100.0)
        );
        assert_eq!([0.25, 0.5, 0.75].map(|part| quantile(&[5.0, 1.0, 3.0], part)), [2.0, 3.0, 4.0]);
        assert_eq!([0.25, 0.5, 0.75].map(|part| quantile(&[4.0, 1.0, 2.0, 3.0], part)), [1.75, 2.5, 3.25]);
        assert_eq!((quantile(&[7.0], 0.25), quantile(&[], 0.5).is_nan()), (7.0, true));
        let (mean, half) = mean_and_interval(&[1.0, 1.0, 1.0, 1.0]);
        assert_eq!((mean, half), (1.0, 0.0));
    }

    #[test]
    fn a_comparison_has_a_row_for_each_contender() {
        let outcome =
            |name: &str, values: &[f64]| Outcome { name: name.into(), values: Ok(vec![values.to_vec()]) };
        let mut sheet = Sheet::comparison("Reads", "");
        let mut outcomes = vec![outcome("sync", &[1.0, 2.0, 3.0]), outcome("ring", &[2.0, 4.0, 6.0])];
        outcomes.push(Outcome { name: "broken".into(), values: Err("no".into()) });
        sheet.compare(&["read".to_owned()], &outcomes, "sync");
        let text = sheet.render();
        assert!(text.contains("| read | ring |   4.00 | 4.00 |"), "{text}");
        assert!(text.contains("2.000 |") && text.contains("Left out: broken: no"), "{text}");
    }
}
