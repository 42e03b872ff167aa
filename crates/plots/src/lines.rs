//! Values over the number of ranks, one line for each series, with a distinct mark at each point. It fits no curves.

use plotters::style::RGBColor;

use crate::axis::{Axis, bounds};
use crate::canvas::{Area, Canvas, Place, picture};
use crate::colour::{self, INK};
use crate::frame::{
    Header, MARGIN_PX, draw_foot_label, draw_range_axis, draw_side_label, draw_value_axis, foot_label,
    foot_px, side_label, side_px,
};
use crate::groups::many_series;
use crate::number::checked;
use crate::text::TEXT;
use crate::{Labels, PlotError, Scale};

/// The name of a series, and its points: position and value.
pub type Line = (String, Vec<(f64, f64)>);

/// Most points of one line: more points than pixels show nothing.
pub const POINTS_MAX: usize = 2000;

/// Most points of one line that have marks: more would look like a thick line.
const MARKS_MAX: usize = 60;

const PLOT_WIDTH_PX: i32 = 780;
const PLOT_HEIGHT_PX: i32 = 380;

/// Distance from the sides of the plot to its outermost points, whose marks would overlap the texts of the axis.
const INSET_PX: i32 = 12;

/// Draws lines through points, in the order of their positions.
///
/// A logarithmic vertical axis has no place for zero: the line is broken there.
///
/// # Errors
///
/// No lines, or a line without points; more than [`SERIES_MAX`](crate::SERIES_MAX) lines or [`POINTS_MAX`] points; a
/// position or value that is negative, not finite or too large, or a position of zero on a logarithmic axis.
pub fn lines(labels: &Labels, lines: &[Line], x: Scale, y: Scale) -> Result<String, PlotError> {
    let lines = checked_lines(lines, x)?;
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    let (low, high) = bounds(points().map(|(x, _)| *x)).unwrap_or((1.0, 1.0));
    let across = match x {
        Scale::Linear => Axis::around(low, high, 8),
        Scale::Logarithmic => Axis::decades(low, high, false),
    };
    let upwards = Axis::of_values(points().map(|(_, y)| *y), y);

    let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    let side = side_label(labels, PLOT_HEIGHT_PX);
    let left = side_px(&side, upwards.ticks().iter().map(|(_, text)| text.as_str()));
    let right = left + PLOT_WIDTH_PX;
    let header = Header::new(labels, "", &names, right + 2 * MARGIN_PX);
    let foot = foot_label(labels, PLOT_WIDTH_PX);
    let top = header.bottom + MARGIN_PX;
    let plot = Area { left, top, right, bottom: top + PLOT_HEIGHT_PX };
    let inner = Area { left: left + INSET_PX, right: right - INSET_PX, ..plot };
    picture(right + 2 * MARGIN_PX, plot.bottom + foot_px(&foot, TEXT.line_px()), |canvas| {
        header.draw(canvas, |canvas, (x, y), index| {
            canvas.path(&[(x - 9, y), (x + 9, y)], colour::series(index), 2)?;
            mark(canvas, (x, y), index)
        })?;
        draw_side_label(canvas, plot, &side)?;
        draw_value_axis(canvas, plot, &upwards)?;
        canvas.path(&[(plot.left, plot.bottom), (plot.right, plot.bottom)], INK, 1)?;
        draw_range_axis(canvas, inner, &across)?;
        draw_foot_label(canvas, plot, TEXT.line_px(), &foot)?;
        for (index, (_, points)) in lines.iter().enumerate() {
            for part in points.split(|(_, value)| y == Scale::Logarithmic && *value == 0.0) {
                let place =
                    |(x, y): &(f64, f64)| (inner.x(across.fraction(*x)), inner.y(upwards.fraction(*y)));
                let places: Vec<Place> = part.iter().map(place).collect();
                draw_line(canvas, &places, index, points.len() <= MARKS_MAX)?;
            }
        }
        Ok(())
    })
}

/// A line's name and its points by position.
type CheckedLine<'a> = (&'a str, Vec<(f64, f64)>);

fn checked_lines(lines: &[Line], x: Scale) -> Result<Vec<CheckedLine<'_>>, PlotError> {
    many_series(lines.len())?;
    if lines.is_empty() {
        return Err(PlotError::Empty { what: "lines".to_owned() });
    }
    lines.iter().map(|(name, points)| Ok((name.as_str(), checked_points(name, points, x)?))).collect()
}

fn checked_points(name: &str, points: &[(f64, f64)], scale: Scale) -> Result<Vec<(f64, f64)>, PlotError> {
    if points.is_empty() {
        return Err(PlotError::Empty { what: format!("points of {name}") });
    }
    if points.len() > POINTS_MAX {
        return Err(PlotError::TooMany { what: "points", count: points.len(), count_max: POINTS_MAX });
    }
    let mut places = Vec::with_capacity(points.len());
    for (x, y) in points {
        let position = checked(*x, || format!("{name}, a position"))?;
        if scale == Scale::Logarithmic && position == 0.0 {
            return Err(PlotError::NotPositive { whose: format!("{name}, a position"), value: *x });
        }
        places.push((position, checked(*y, || format!("{name} at {x}"))?));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(places)
}

fn draw_line(canvas: &Canvas<'_>, places: &[Place], index: usize, marks: bool) -> Result<(), PlotError> {
    if places.len() > 1 {
        canvas.path(places, colour::series(index), 2)?;
    }
    if marks || places.len() == 1 {
        for place in places {
            mark(canvas, *place, index)?;
        }
    }
    Ok(())
}

/// The mark of a series: its shape distinguishes it from its neighbours without colours.
fn mark(canvas: &Canvas<'_>, (x, y): Place, index: usize) -> Result<(), PlotError> {
    let colour: RGBColor = colour::series(index);
    match index % 4 {
        0 => canvas.disc((x, y), 4, colour),
        1 => canvas.rectangle(Area { left: x - 4, top: y - 4, right: x + 4, bottom: y + 4 }, colour),
        2 => canvas.polygon(&[(x - 5, y + 4), (x + 5, y + 4), (x, y - 5)], colour),
        _ => canvas.polygon(&[(x - 5, y), (x, y + 5), (x + 5, y), (x, y - 5)], colour),
    }
}
