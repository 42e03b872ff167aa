//! The surroundings of a plot: title, legend, axes with their ticks and labels. Everything is measured before anything is drawn, and the
//! picture grows as needed, so that no texts overlap. It draws no values.

use plotters::style::RGBColor;

use crate::axis::Axis;
use crate::canvas::{Anchor, Area, Canvas, Place};
use crate::colour::{GRID, INK};
use crate::text::{Font, TEXT, TITLE};
use crate::{Labels, PlotError};

/// Free space at the edges of a picture.
pub(crate) const MARGIN_PX: i32 = 16;

/// Distance from an axis to the texts of its ticks.
pub(crate) const TICK_GAP_PX: i32 = 6;

/// Least space on the left of a plot: the first text of a horizontal axis may extend into it.
const SIDE_PX_MIN: i32 = 3 * MARGIN_PX;

/// Most lines of a title or subtitle.
const TITLE_LINES_MAX: usize = 3;

/// Most lines of the label of an axis.
const LABEL_LINES_MAX: usize = 2;

/// Largest width of the name of a series.
const NAME_PX_MAX: i32 = 400;

/// Largest height of a category's label that reads upwards.
const CATEGORY_PX_MAX: i32 = 170;

/// Distance from the start of a series' mark in the legend to its name.
const MARK_PX: i32 = 24;

/// Title, subtitle and legend.
pub(crate) struct Header {
    lines: Vec<(String, Font, i32)>,
    keys: Vec<(String, Place)>,
    /// Bottom of the header.
    pub(crate) bottom: i32,
}

impl Header {
    /// Lays out the header of a picture of the given width. Notes are sentences of the picture itself, below the subtitle.
    pub(crate) fn new(labels: &Labels, notes: &str, series: &[&str], width_px: i32) -> Self {
        let mut header = Self { lines: Vec::new(), keys: Vec::new(), bottom: MARGIN_PX };
        for (text, font) in [(labels.title.as_str(), TITLE), (&labels.subtitle, TEXT), (notes, TEXT)] {
            for line in font.wrapped(text, width_px - 2 * MARGIN_PX, TITLE_LINES_MAX) {
                header.lines.push((line, font, header.bottom + font.line_px() / 2));
                header.bottom += font.line_px();
            }
        }
        if series.iter().any(|name| !name.is_empty()) {
            header.push_keys(series, width_px);
        }
        header
    }

    fn push_keys(&mut self, series: &[&str], width_px: i32) {
        let mut x = MARGIN_PX;
        let mut y = self.bottom + TEXT.line_px();
        for name in series {
            let name = TEXT.shortened(name, NAME_PX_MAX.min(width_px - 2 * MARGIN_PX - MARK_PX));
            let key_px = MARK_PX + TEXT.width_px(&name);
            if x > MARGIN_PX && x + key_px > width_px - MARGIN_PX {
                x = MARGIN_PX;
                y += TEXT.line_px() + 2;
            }
            self.keys.push((name, (x, y)));
            x += key_px + MARGIN_PX;
        }
        self.bottom = y + TEXT.line_px() / 2;
    }

    /// Draws the header; `mark` draws the mark of a series around a position.
    pub(crate) fn draw(
        &self,
        canvas: &Canvas<'_>,
        mark: impl Fn(&Canvas<'_>, Place, usize) -> Result<(), PlotError>,
    ) -> Result<(), PlotError> {
        for (line, font, y) in &self.lines {
            canvas.text(line, (MARGIN_PX, *y), *font, Anchor::Left)?;
        }
        for (index, (name, (x, y))) in self.keys.iter().enumerate() {
            mark(canvas, (x + MARK_PX / 2 - 3, *y), index)?;
            canvas.text(name, (x + MARK_PX, *y), TEXT, Anchor::Left)?;
        }
        Ok(())
    }
}

/// The mark of a series of bars.
pub(crate) fn square(canvas: &Canvas<'_>, (x, y): Place, colour: RGBColor) -> Result<(), PlotError> {
    canvas.rectangle(Area { left: x - 6, top: y - 6, right: x + 6, bottom: y + 6 }, colour)
}

/// The label of a vertical axis, laid out for its height.
pub(crate) fn side_label(labels: &Labels, height_px: i32) -> Vec<String> {
    TEXT.wrapped(&labels.y, height_px, LABEL_LINES_MAX)
}

/// Space that a vertical axis takes on the left of its plot.
pub(crate) fn side_px<'a>(label: &[String], ticks: impl Iterator<Item = &'a str>) -> i32 {
    let ticks_px = ticks.map(|tick| TEXT.width_px(tick)).max().unwrap_or(0);
    (MARGIN_PX + text_block_px(label.len()) + ticks_px + TICK_GAP_PX).max(SIDE_PX_MIN)
}

/// Draws the label of a vertical axis at the left edge of the picture.
pub(crate) fn draw_side_label(canvas: &Canvas<'_>, plot: Area, label: &[String]) -> Result<(), PlotError> {
    let mut x = MARGIN_PX + TEXT.line_px() / 2;
    for line in label {
        canvas.text(line, (x, i32::midpoint(plot.top, plot.bottom)), TEXT, Anchor::UpwardMiddle)?;
        x += TEXT.line_px();
    }
    Ok(())
}

/// Draws a vertical axis with lines across its plot.
pub(crate) fn draw_value_axis(canvas: &Canvas<'_>, plot: Area, axis: &Axis) -> Result<(), PlotError> {
    for (value, text) in axis.ticks() {
        let y = plot.y(axis.fraction(*value));
        canvas.path(&[(plot.left, y), (plot.right, y)], GRID, 1)?;
        canvas.text(text, (plot.left - TICK_GAP_PX, y), TEXT, Anchor::Right)?;
    }
    Ok(())
}

/// Draws the base line of the bars.
pub(crate) fn draw_base(canvas: &Canvas<'_>, plot: Area) -> Result<(), PlotError> {
    canvas.path(&[(plot.left, plot.bottom), (plot.right, plot.bottom)], INK, 1)
}

/// The label of a horizontal axis, laid out for its width.
pub(crate) fn foot_label(labels: &Labels, width_px: i32) -> Vec<String> {
    TEXT.wrapped(&labels.x, width_px, LABEL_LINES_MAX)
}

/// Space that a horizontal axis takes below its plot.
pub(crate) fn foot_px(label: &[String], ticks_px: i32) -> i32 {
    TICK_GAP_PX + ticks_px + text_block_px(label.len()) + MARGIN_PX
}

/// Draws the label of a horizontal axis below its ticks.
pub(crate) fn draw_foot_label(
    canvas: &Canvas<'_>,
    plot: Area,
    ticks_px: i32,
    label: &[String],
) -> Result<(), PlotError> {
    let mut y = plot.bottom + TICK_GAP_PX + ticks_px + TICK_GAP_PX + TEXT.line_px() / 2;
    for line in label {
        canvas.text(line, (i32::midpoint(plot.left, plot.right), y), TEXT, Anchor::Middle)?;
        y += TEXT.line_px();
    }
    Ok(())
}

/// Draws the ticks of a horizontal axis; they are one line high.
pub(crate) fn draw_range_axis(canvas: &Canvas<'_>, plot: Area, axis: &Axis) -> Result<(), PlotError> {
    for (value, text) in axis.ticks() {
        let x = plot.x(axis.fraction(*value));
        canvas.path(&[(x, plot.bottom), (x, plot.bottom + TICK_GAP_PX / 2)], INK, 1)?;
        canvas.text(text, (x, plot.bottom + TICK_GAP_PX + TEXT.line_px() / 2), TEXT, Anchor::Middle)?;
    }
    Ok(())
}

fn text_block_px(lines: usize) -> i32 {
    if lines == 0 { 0 } else { lines as i32 * TEXT.line_px() + TICK_GAP_PX }
}

/// Labels of categories side by side: in a few short lines if all fit that way; otherwise upwards, and as many as there is room for.
pub(crate) struct Categories {
    labels: Vec<Vec<String>>,
    upwards: bool,
    /// One in this many categories has a label.
    step: usize,
    /// Height of the labels.
    pub(crate) height_px: i32,
}

impl Categories {
    pub(crate) fn new(labels: &[&str], plot_px: i32) -> Self {
        let slot_px = f64::from(plot_px) / labels.len().max(1) as f64;
        let whole = |label: &str, lines: &[String]| lines.join(" ").split(' ').eq(label.split_whitespace());
        let wrapped: Vec<_> =
            labels.iter().map(|label| TEXT.wrapped(label, slot_px as i32 - 8, TITLE_LINES_MAX)).collect();
        if labels.iter().zip(&wrapped).all(|(label, lines)| label.trim().is_empty() || whole(label, lines)) {
            let lines = wrapped.iter().map(Vec::len).max().unwrap_or(0);
            return Self {
                labels: wrapped,
                upwards: false,
                step: 1,
                height_px: lines as i32 * TEXT.line_px(),
            };
        }
        let labels: Vec<_> =
            labels.iter().map(|label| vec![TEXT.shortened(label, CATEGORY_PX_MAX)]).collect();
        let height_px = labels.iter().flatten().map(|label| TEXT.width_px(label)).max().unwrap_or(0);
        let step = (f64::from(TEXT.line_px()) / slot_px).ceil().max(1.0) as usize;
        Self { labels, upwards: true, step, height_px }
    }

    pub(crate) fn draw(&self, canvas: &Canvas<'_>, plot: Area) -> Result<(), PlotError> {
        for (index, lines) in self.labels.iter().enumerate().step_by(self.step) {
            let x = plot.x((index as f64 + 0.5) / self.labels.len() as f64);
            let top = plot.bottom + TICK_GAP_PX;
            for (line, text) in (0..).zip(lines) {
                if self.upwards {
                    canvas.text(text, (x, top), TEXT, Anchor::UpwardEnd)?;
                } else {
                    let y = top + TEXT.line_px() * line + TEXT.line_px() / 2;
                    canvas.text(text, (x, y), TEXT, Anchor::Middle)?;
                }
            }
        }
        Ok(())
    }
}
