//! Statistics of runs as pictures: numbers in, the text of an SVG file out. The figures are those of LaFon, Misra and
//! Bringhurst, "On Distributed File Tree Walk of Parallel File Systems" (2012).
//!
//! | function | draws | figure of the paper |
//! | --- | --- | --- |
//! | [`bars`] | values by group, one bar for each series: running time, messages, bytes | 3(a), 4 |
//! | [`stacked`] | parts on top of each other: where the time goes | 3(b) |
//! | [`heat_map`] | a [`Matrix`] in colours: what each pair of ranks exchanged | 1, 5 |
//! | [`histogram`] | how many ranks did which share of the work | 6 |
//! | [`lines`] | values over the number of ranks | |
//!
//! ```
//! use atta_plots::{Labels, Scale, bars};
//!
//! let group = |ranks: &str, seconds| (ranks.to_owned(), vec![("ring".to_owned(), seconds)]);
//! let labels = Labels::new("Running time").x("ranks").y("seconds");
//! let svg = bars(&labels, &[group("1", 12.5), group("2", 6.4)], Scale::Linear)?;
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), atta_plots::PlotError>(())
//! ```
//!
//! The same input gives the same bytes. Text is SVG text in the viewer's sans-serif font: its width is estimated generously, and text that
//! does not fit is wrapped, left out or cut with an ellipsis. Labels may contain any characters; those that XML cannot hold are shown as
//! U+FFFD. Values are zero or more and at most [`VALUE_MAX`]; below [`VALUE_MIN`] they count as zero.
//!
//! This crate reads and writes no files and measures nothing; runs and ranks appear only in the words of its labels.

mod axis;
mod bars;
mod canvas;
mod colour;
mod error;
mod frame;
mod groups;
mod heat_map;
mod histogram;
mod labels;
mod lines;
mod matrix;
mod number;
mod text;

#[cfg(test)]
mod tests;

pub use bars::{Stack, bars, stacked};
pub use error::PlotError;
pub use groups::{GROUPED_BARS_MAX, Group, SERIES_MAX};
pub use heat_map::heat_map;
pub use histogram::{BINS_MAX, Shares, histogram};
pub use labels::{Labels, Scale};
pub use lines::{Line, POINTS_MAX, lines};
pub use matrix::{BINS_PER_SIDE, Matrix};
pub use number::{VALUE_MAX, VALUE_MIN};
