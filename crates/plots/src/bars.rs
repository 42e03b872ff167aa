//! Bars of several series in groups: side by side, or stacked. It sums and scales values, and computes no means or errors of repeated
//! runs: the caller gives one value for each bar.

use crate::axis::Axis;
use crate::canvas::{Anchor, Area, Canvas, picture};
use crate::colour;
use crate::frame::{
    Categories, Header, MARGIN_PX, draw_base, draw_foot_label, draw_side_label, draw_value_axis, foot_label,
    foot_px, side_label, side_px, square,
};
use crate::groups::Table;
use crate::number::{checked, number};
use crate::text::TEXT;
use crate::{Group, Labels, PlotError, Scale};

const PLOT_WIDTH_PX: i32 = 780;
const PLOT_HEIGHT_PX: i32 = 340;

/// Least width of a bar, and of the gap between two groups. The picture grows if there are many.
const BAR_PX_MIN: usize = 2;

/// The share of a group's width that is left free between it and the next.
const GAP: f64 = 0.2;

/// Largest width of a bar, so that a single one does not fill the picture.
const BAR_PX_MAX: f64 = 90.0;

/// Meaning of the height of a stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stack {
    /// The sum of its values.
    Sum,
    /// Always 100: the parts are percent of the sum. A group whose values are all zero stays empty.
    Percent,
}

/// Draws the series of each group as bars side by side, with their values above them if there is room.
///
/// On a logarithmic axis zero has no bar.
///
/// # Errors
///
/// No groups or no values; a value that is negative, not finite or too large; two values of one series in one group;
/// more than [`SERIES_MAX`](crate::SERIES_MAX) series or [`GROUPED_BARS_MAX`](crate::GROUPED_BARS_MAX) bars.
pub fn bars(labels: &Labels, groups: &[Group], scale: Scale) -> Result<String, PlotError> {
    let table = Table::new(groups)?;
    table.fits(table.series.len())?;
    let axis = Axis::of_values(table.values(), scale);
    let bars = table.series.len();
    chart(labels, &table, &axis, bars, |canvas, plot| {
        let columns = Columns::new(plot, table.groups.len(), bars);
        let values = table.values().all(|value| TEXT.width_px(&number(value)) + 2 <= columns.bar_px());
        for (group, (_, row)) in table.groups.iter().enumerate() {
            for (series, value) in row.iter().enumerate() {
                let Some(value) = *value else { continue };
                let (left, right) = columns.bar(group, series);
                let top = plot.y(axis.fraction(value));
                if top < plot.bottom {
                    let bar = Area { left, top, right, bottom: plot.bottom };
                    canvas.rectangle(bar, colour::series(series))?;
                }
                if values {
                    let place = (i32::midpoint(left, right), top - TEXT.line_px() / 2);
                    canvas.text(&number(value), place, TEXT, Anchor::Middle)?;
                }
            }
        }
        Ok(())
    })
}

/// Draws the series of each group as one bar with a part for each series, the first at the bottom.
///
/// # Errors
///
/// As [`bars`], and a sum that is too large.
pub fn stacked(labels: &Labels, groups: &[Group], stack: Stack) -> Result<String, PlotError> {
    let table = Table::new(groups)?;
    table.fits(1)?;
    let sums: Vec<f64> = table
        .groups
        .iter()
        .map(|(label, row)| checked(row.iter().flatten().sum(), || format!("sum of {label}")))
        .collect::<Result<_, _>>()?;
    let axis = match stack {
        Stack::Sum => Axis::of_values(sums.iter().copied(), Scale::Linear),
        Stack::Percent => Axis::from_zero(100.0, 5),
    };
    chart(labels, &table, &axis, 1, |canvas, plot| {
        let columns = Columns::new(plot, table.groups.len(), 1);
        for (group, ((_, row), sum)) in table.groups.iter().zip(&sums).enumerate() {
            let factor = match stack {
                Stack::Sum => 1.0,
                Stack::Percent if *sum > 0.0 => 100.0 / sum,
                Stack::Percent => 0.0,
            };
            let (left, right) = columns.bar(group, 0);
            let mut below = 0.0;
            for (series, value) in row.iter().enumerate() {
                let (bottom, part) = (plot.y(axis.fraction(below)), value.unwrap_or(0.0) * factor);
                below += part;
                let top = plot.y(axis.fraction(below));
                // White between parts, unless it would hide a thin one.
                let gap = i32::from(bottom - top > 3);
                if bottom > top {
                    canvas.rectangle(Area { left, top: top + gap, right, bottom }, colour::series(series))?;
                }
            }
        }
        Ok(())
    })
}

/// Draws everything but the bars; `draw` draws them in between.
fn chart(
    labels: &Labels,
    table: &Table<'_>,
    axis: &Axis,
    bars_per_group: usize,
    draw: impl FnOnce(&Canvas<'_>, Area) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    // At most `GROUPED_BARS_MAX` bars and as many gaps.
    let bars_px = (table.groups.len() * (bars_per_group + 1) * BAR_PX_MIN) as i32;
    let side = side_label(labels, PLOT_HEIGHT_PX);
    let left = side_px(&side, axis.ticks().iter().map(|(_, text)| text.as_str()));
    let right = left + PLOT_WIDTH_PX.max(bars_px);
    let header = Header::new(labels, "", &table.series, right + MARGIN_PX);
    let names: Vec<&str> = table.groups.iter().map(|(label, _)| *label).collect();
    let categories = Categories::new(&names, right - left);
    let foot = foot_label(labels, right - left);
    // Room for a value above the highest bar.
    let top = header.bottom + TEXT.line_px() + 4;
    let plot = Area { left, top, right, bottom: top + PLOT_HEIGHT_PX };
    let height_px = plot.bottom + foot_px(&foot, categories.height_px);
    picture(right + MARGIN_PX, height_px, |canvas| {
        header.draw(canvas, |canvas, place, index| square(canvas, place, colour::series(index)))?;
        draw_side_label(canvas, plot, &side)?;
        draw_value_axis(canvas, plot, axis)?;
        draw(canvas, plot)?;
        draw_base(canvas, plot)?;
        categories.draw(canvas, plot)?;
        draw_foot_label(canvas, plot, categories.height_px, &foot)
    })
}

/// Positions of the bars.
struct Columns {
    plot: Area,
    slot_px: f64,
    bar_px: f64,
    bars_per_group: usize,
}

impl Columns {
    fn new(plot: Area, groups: usize, bars_per_group: usize) -> Self {
        let slot_px = f64::from(plot.width()) / groups as f64;
        let bar_px = (slot_px * (1.0 - GAP) / bars_per_group as f64).min(BAR_PX_MAX);
        Self { plot, slot_px, bar_px, bars_per_group }
    }

    /// The least width of a bar.
    fn bar_px(&self) -> i32 {
        self.bar_px as i32
    }

    /// Left and right end of a bar. Neighbours share an end; no bar vanishes.
    fn bar(&self, group: usize, bar: usize) -> (i32, i32) {
        let middle = (group as f64 + 0.5) * self.slot_px;
        let start = middle - self.bar_px * self.bars_per_group as f64 / 2.0;
        let end = |bar: usize| self.plot.left + (start + self.bar_px * bar as f64).round() as i32;
        (end(bar), end(bar + 1).max(end(bar) + 1))
    }
}
