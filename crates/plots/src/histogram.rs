//! Numbers of ranks by share, one plot for each series above the next, with common axes: a narrow distribution is even. It computes no
//! shares; the caller does.

use crate::axis::{Axis, bounds};
use crate::canvas::{Anchor, Area, Canvas, Place, picture};
use crate::colour::{self, INK};
use crate::frame::{
    Header, MARGIN_PX, TICK_GAP_PX, draw_base, draw_foot_label, draw_range_axis, draw_side_label,
    draw_value_axis, foot_label, foot_px, side_label, side_px,
};
use crate::groups::many_series;
use crate::number::{checked, number};
use crate::text::{HEADING, TEXT};
use crate::{Labels, PlotError};

/// The name of a series, and the share of each of its ranks, in percent if the labels say so.
pub type Shares = (String, Vec<f64>);

/// The most bins of a histogram: narrower bars cannot be seen.
pub const BINS_MAX: usize = 200;

const PLOT_WIDTH_PX: i32 = 780;

/// Height of a plot if there are few series, and of all if there are many.
const PLOT_HEIGHT_PX: i32 = 130;
const PLOT_HEIGHT_PX_MIN: i32 = 60;
const PLOTS_HEIGHT_PX: i32 = 560;

/// Draws how many shares of each series lie in each of `bins` equal ranges, and the mean as a dashed line.
///
/// A share on the border of two ranges counts in the upper one, the largest of all in the last one.
///
/// # Errors
///
/// No series, or a series without shares; no bins, or more than [`BINS_MAX`]; more than
/// [`SERIES_MAX`](crate::SERIES_MAX) series; a share that is negative, not finite or too large.
pub fn histogram(labels: &Labels, series: &[Shares], bins: usize) -> Result<String, PlotError> {
    let series = checked_series(series, bins)?;
    let all = || series.iter().flat_map(|(_, shares)| shares.iter().copied());
    let (low, high) = bounds(all()).unwrap_or((0.0, 0.0));
    let range = Axis::around(low, high, 8);
    let counts: Vec<Vec<usize>> = series.iter().map(|(_, shares)| counted(shares, &range, bins)).collect();
    let highest = counts.iter().flatten().max().copied().unwrap_or(0);
    let ranks = Axis::whole(highest as f64, 3);

    let plots = series.len() as i32;
    let plot_px = (PLOTS_HEIGHT_PX / plots).clamp(PLOT_HEIGHT_PX_MIN, PLOT_HEIGHT_PX);
    let pitch_px = plot_px + HEADING.line_px() + 3 * TICK_GAP_PX;
    let side = side_label(labels, pitch_px * (plots - 1) + plot_px);
    let left = side_px(&side, ranks.ticks().iter().map(|(_, text)| text.as_str()));
    let right = left + PLOT_WIDTH_PX;
    let header = Header::new(labels, "Dashed: the mean.", &[], right + 2 * MARGIN_PX);
    let top = header.bottom + HEADING.line_px() + 2 * TICK_GAP_PX;
    let plot = |index: i32| {
        let top = top + index * pitch_px;
        Area { left, top, right, bottom: top + plot_px }
    };
    let last = plot(plots - 1);
    let foot = foot_label(labels, PLOT_WIDTH_PX);
    let height_px = last.bottom + foot_px(&foot, TEXT.line_px());
    picture(right + 2 * MARGIN_PX, height_px, |canvas| {
        header.draw(canvas, |_, _, _| Ok(()))?;
        draw_side_label(canvas, Area { top, ..last }, &side)?;
        for (index, ((name, shares), counts)) in (0..).zip(series.iter().zip(&counts)) {
            draw_value_axis(canvas, plot(index), &ranks)?;
            draw_counts(canvas, plot(index), &ranks, counts)?;
            draw_base(canvas, plot(index))?;
            draw_mean(canvas, plot(index), &range, shares)?;
            draw_heading(canvas, plot(index), name, shares)?;
        }
        draw_range_axis(canvas, last, &range)?;
        draw_foot_label(canvas, last, TEXT.line_px(), &foot)
    })
}

fn checked_series(series: &[Shares], bins: usize) -> Result<Vec<(&str, Vec<f64>)>, PlotError> {
    many_series(series.len())?;
    if bins > BINS_MAX {
        return Err(PlotError::TooMany { what: "bins", count: bins, count_max: BINS_MAX });
    }
    if series.is_empty() || bins == 0 {
        let what = if bins == 0 { "bins" } else { "series" };
        return Err(PlotError::Empty { what: what.to_owned() });
    }
    let shares_of = |(name, shares): &Shares| {
        if shares.is_empty() {
            return Err(PlotError::Empty { what: format!("shares of {name}") });
        }
        shares.iter().map(|share| checked(*share, || name.clone())).collect::<Result<Vec<_>, _>>()
    };
    series.iter().map(|each| Ok((each.0.as_str(), shares_of(each)?))).collect()
}

fn counted(shares: &[f64], range: &Axis, bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    for share in shares {
        // A share on a border may be computed slightly below it.
        let bin = (range.fraction(*share) * bins as f64 + 1e-9) as usize;
        counts[bin.min(bins - 1)] += 1;
    }
    counts
}

fn draw_counts(canvas: &Canvas<'_>, plot: Area, ranks: &Axis, counts: &[usize]) -> Result<(), PlotError> {
    let end = |bin: usize| plot.x(bin as f64 / counts.len() as f64);
    for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // One rank among many stays visible.
        let top = plot.y(ranks.fraction(*count as f64)).min(plot.bottom - 1);
        let bar = Area { left: end(bin), top, right: end(bin + 1) - 1, bottom: plot.bottom };
        canvas.rectangle(bar, colour::series(0))?;
    }
    Ok(())
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().map(|share| share / shares.len() as f64).sum()
}

fn draw_mean(canvas: &Canvas<'_>, plot: Area, range: &Axis, shares: &[f64]) -> Result<(), PlotError> {
    let x = plot.x(range.fraction(mean(shares)));
    for y in (plot.top..plot.bottom).step_by(8) {
        canvas.path(&[(x, y), (x, (y + 4).min(plot.bottom))], INK, 1)?;
    }
    Ok(())
}

/// The name of a series on the left, the range of its shares on the right.
fn draw_heading(canvas: &Canvas<'_>, plot: Area, name: &str, shares: &[f64]) -> Result<(), PlotError> {
    let (low, high) = bounds(shares.iter().copied()).unwrap_or((0.0, 0.0));
    let range = format!(
        "{} values, {} to {}, mean {}",
        shares.len(),
        number(low),
        number(high),
        number(mean(shares))
    );
    let y = plot.top - TICK_GAP_PX - HEADING.line_px() / 2;
    let name = HEADING.shortened(name, plot.width() - TEXT.width_px(&range) - MARGIN_PX);
    let left: Place = (plot.left, y);
    canvas.text(&name, left, HEADING, Anchor::Left)?;
    canvas.text(&range, (plot.right, y), TEXT, Anchor::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_is_in_one_bin() {
        let range = Axis::around(0.0, 10.0, 8);
        assert_eq!((range.fraction(0.0), range.fraction(10.0)), (0.0, 1.0));
        assert_eq!(counted(&[0.0, 1.0, 2.5, 9.9, 10.0], &range, 4), [2, 1, 0, 2]);
        let close = Axis::around(4.9, 5.3, 8);
        assert_eq!(counted(&[5.04], &close, 60), counted(&[5.041], &close, 60));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    }
}
