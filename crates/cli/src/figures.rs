//! Figures of one run on several ranks (`--plots`): how evenly the work was shared, how the time was spent, and the traffic between ranks.
//! It chooses the figures, the same for a walk and for a simulation; `atta-plots` draws them.

use std::path::Path;

use atta_plots::{Group, Labels, Matrix, PlotError, Scale, Shares, Stack};

use crate::run::fatal::Fatal;
use crate::run::file;

/// Most ranks whose profiles are drawn side by side; with more, their sum is drawn.
const PROFILES_MAX: usize = 40;
/// Bars of a histogram.
const BINS: usize = 20;

/// Traffic from one rank to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Data of a run that figures show.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Shares of the work in percent: of each rank, of each thread.
    pub(crate) shares: Vec<Shares>,
    /// Time of each rank by part, in seconds summed over its threads; empty if there are no ranks.
    pub(crate) ranks: Vec<Group>,
    /// Time of all ranks together, by part.
    pub(crate) all: Vec<(String, f64)>,
    /// Rows of the traffic matrix: ranks, or groups of them.
    pub(crate) size: usize,
    /// Consecutive ranks in one row; 0 means 1.
    pub(crate) ranks_per_row: u32,
    /// Traffic of each pair of ranks; `None` if it was not counted.
    pub(crate) pairs: Option<Vec<Sent>>,
    /// Messages and bytes of all ranks together.
    pub(crate) sent: (u64, u64),
}

/// The name of a figure's file, and the figure.
pub(crate) type Figure = (String, Result<String, PlotError>);

impl Run {
    /// All figures of this run.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![
            ("work.svg".to_owned(), work("Work distribution", &self.shares)),
            ("time.svg".to_owned(), self.time()),
        ];
        if self.pairs.is_some() {
            figures.push(("bytes.svg".to_owned(), self.bytes("")));
            figures.push(("messages.svg".to_owned(), self.messages("")));
        }
        figures.push(("sent.svg".to_owned(), self.sent()));
        figures
    }

    /// How each rank spent its time, as figure 3(b) of the paper.
    fn time(&self) -> Result<String, PlotError> {
        let all = [("all".to_owned(), self.all.clone())];
        let groups = if (1..=PROFILES_MAX).contains(&self.ranks.len()) { &self.ranks[..] } else { &all };
        time("Where the time went", "rank", groups)
    }

    /// Bytes between ranks, as figures 1 and 5 of the paper.
    pub(crate) fn bytes(&self, of: &str) -> Result<String, PlotError> {
        self.heat("Bytes between ranks", of, "bytes", |sent| sent.bytes)
    }

    /// Messages between ranks.
    pub(crate) fn messages(&self, of: &str) -> Result<String, PlotError> {
        self.heat("Messages between ranks", of, "messages", |sent| sent.messages)
    }

    fn heat(
        &self,
        title: &str,
        of: &str,
        unit: &str,
        value: impl Fn(&Sent) -> u64,
    ) -> Result<String, PlotError> {
        let size = self.size.max(1);
        let mut matrix = Matrix::new(size, size)?;
        for sent in self.pairs.iter().flatten() {
            matrix.add(sent.from as usize, sent.to as usize, value(sent) as f64)?;
        }
        let (x, y) = match self.ranks_per_row {
            0 | 1 => ("to rank".to_owned(), "from rank".to_owned()),
            ranks => (format!("to group of {ranks} ranks"), format!("from group of {ranks} ranks")),
        };
        let labels = Labels::new(title).subtitle(of).x(x).y(y).value(unit);
        atta_plots::heat_map(&labels, &matrix, Scale::Linear)
    }

    /// Traffic of all ranks together, as figure 4 of the paper.
    fn sent(&self) -> Result<String, PlotError> {
        let group = |name: &str, value: u64| (name.to_owned(), vec![("this run".to_owned(), value as f64)]);
        let groups = [group("messages", self.sent.0), group("bytes", self.sent.1)];
        let labels = Labels::new("Messages and bytes between ranks").y("messages, bytes");
        atta_plots::bars(&labels, &groups, Scale::Logarithmic)
    }
}

/// Distribution of work shares over ranks or threads, as figure 6 of the paper.
pub(crate) fn work(title: &str, series: &[Shares]) -> Result<String, PlotError> {
    let labels = Labels::new(title).x("share of the entries in percent").y("how many");
    atta_plots::histogram(&labels, series, BINS)
}

/// How each group spent its time.
pub(crate) fn time(title: &str, of: &str, groups: &[Group]) -> Result<String, PlotError> {
    let labels = Labels::new(title).x(of).y("seconds, summed over threads");
    atta_plots::stacked(&labels, groups, Stack::Sum)
}

/// Writes figures into a directory, which is created if it does not exist.
pub(crate) fn write(directory: &Path, figures: Vec<Figure>) -> Result<(), Fatal> {
    let drawn = figures.into_iter().map(|(name, figure)| match figure {
        Ok(figure) => Ok((name, figure)),
        Err(error) => {
            let path = file::printable(&directory.join(name));
            Err(Fatal::Failed { what: format!("cannot draw: {path}: {error}"), hint: None })
        }
    });
    file::write_all(directory, &drawn.collect::<Result<Vec<_>, _>>()?)
}
