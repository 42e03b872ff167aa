//! A matrix in colours, from white for zero to dark for the largest value, beside a colour scale. The matrix defines the bins.

use plotters::style::RGBColor;

use crate::axis::{Axis, bounds};
use crate::canvas::{Anchor, Area, Canvas, Place, picture};
use crate::colour::{self, HEAT_LEVELS, INK};
use crate::frame::{
    Header, MARGIN_PX, TICK_GAP_PX, draw_foot_label, draw_side_label, foot_label, foot_px, side_label,
    side_px,
};
use crate::number::number;
use crate::text::TEXT;
use crate::{Labels, Matrix, PlotError, Scale};

/// The longer side of a map, unless its cells get larger than `CELL_PX_MAX`.
const MAP_PX: i32 = 576;
const CELL_PX_MAX: i32 = 96;

/// Least size of the area of a map, so that there is room for labels and the colour scale beside it.
const PLACE_PX: (i32, i32) = (400, 260);

const COLOURS_PX: i32 = 18;

/// Draws a matrix, row 0 at the top. `labels.x` names the columns, `labels.y` the rows, `labels.value` the values. Rows and columns are
/// numbered from zero.
///
/// A matrix with more than [`BINS_PER_SIDE`](crate::BINS_PER_SIDE) rows or columns is drawn in bins; each has the mean
/// of its cells, and a line below the subtitle says so. On a logarithmic scale the lightest colour is the smallest
/// value above zero.
///
/// # Errors
///
/// A sum of cells that is too large.
pub fn heat_map(labels: &Labels, matrix: &Matrix, scale: Scale) -> Result<String, PlotError> {
    let cells = matrix.means()?;
    let heat = Heat::new(&cells, scale);
    let bins = matrix.bin_lengths();
    let (rows, columns) = (cells.len() as i32, cells.first().map_or(0, Vec::len) as i32);
    let cell_px = (MAP_PX / rows.max(columns)).min(CELL_PX_MAX);
    let size = (columns * cell_px, rows * cell_px);

    let side = side_label(labels, size.1.max(PLACE_PX.1));
    let row_ticks = ticks(rows, bins.0, |_| TEXT.line_px(), cell_px);
    let left = side_px(&side, row_ticks.iter().map(|(_, text)| text.as_str()));
    let colours_left = left + size.0.max(PLACE_PX.0) + 2 * MARGIN_PX;
    let width_px = colours_left + COLOURS_PX + TICK_GAP_PX + heat.width_px(labels) + MARGIN_PX;
    let header = Header::new(labels, &note(bins), &[], width_px);
    let top = header.bottom + MARGIN_PX;
    let map = Area { left, top, right: left + size.0, bottom: top + size.1 };
    let foot = foot_label(labels, size.0.max(PLACE_PX.0));
    let bottom = (map.bottom + foot_px(&foot, TEXT.line_px())).max(top + PLACE_PX.1 + MARGIN_PX);
    picture(width_px, bottom, |canvas| {
        header.draw(canvas, |_, _, _| Ok(()))?;
        heat.draw_cells(canvas, &cells, map, cell_px)?;
        canvas.outline(map, INK)?;
        draw_side_label(canvas, Area { bottom: map.bottom.max(top + PLACE_PX.1), ..map }, &side)?;
        draw_ticks(canvas, map, &row_ticks, cell_px, bins.1)?;
        let foot_area = Area { right: map.right.max(left + PLACE_PX.0), ..map };
        draw_foot_label(canvas, foot_area, TEXT.line_px(), &foot)?;
        heat.draw_scale(canvas, labels, (colours_left, top), size.1.max(PLACE_PX.1))
    })
}

fn note((rows, columns): (usize, usize)) -> String {
    if rows == 1 && columns == 1 {
        return String::new();
    }
    format!("Each cell is the mean over up to {rows} rows and {columns} columns.")
}

/// Rows or columns that have a number, and the number: as many as there is room for.
fn ticks(count: i32, bin: usize, length_px: impl Fn(&str) -> i32, cell_px: i32) -> Vec<(i32, String)> {
    let text =
        |index: i32| index.unsigned_abs().saturating_mul(u32::try_from(bin).unwrap_or(u32::MAX)).to_string();
    let needed_px = length_px(&text(count - 1)) + TICK_GAP_PX;
    // Powers of two, as numbers of ranks often are.
    let steps = (0..16).map(|power| 1 << power);
    let step = steps.into_iter().find(|step| step * cell_px >= needed_px).unwrap_or(1 << 16);
    (0..count).step_by(step.unsigned_abs() as usize).map(|index| (index, text(index))).collect()
}

fn draw_ticks(
    canvas: &Canvas<'_>,
    map: Area,
    rows: &[(i32, String)],
    cell_px: i32,
    column_bin: usize,
) -> Result<(), PlotError> {
    for (row, text) in rows {
        let place = (map.left - TICK_GAP_PX, map.top + row * cell_px + cell_px / 2);
        canvas.text(text, place, TEXT, Anchor::Right)?;
    }
    for (column, text) in ticks(map.width() / cell_px, column_bin, |text| TEXT.width_px(text), cell_px) {
        let x = map.left + column * cell_px + cell_px / 2;
        canvas.text(&text, (x, map.bottom + TICK_GAP_PX + TEXT.line_px() / 2), TEXT, Anchor::Middle)?;
    }
    Ok(())
}

/// Assignment of colours to values.
struct Heat {
    scale: Scale,
    /// The value of the lightest colour.
    low: f64,
    /// The value of the darkest colour; zero if no value is above zero.
    high: f64,
}

impl Heat {
    fn new(cells: &[Vec<f64>], scale: Scale) -> Self {
        let above_zero = cells.iter().flatten().copied().filter(|value| *value > 0.0);
        let (low, high) = bounds(above_zero).unwrap_or((0.0, 0.0));
        Self { scale, low: if scale == Scale::Linear { 0.0 } else { low }, high }
    }

    /// 0 for the lightest colour, 1 for the darkest.
    fn fraction(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            _ if value >= self.high => 1.0,
            Scale::Linear => value / self.high,
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        fraction.clamp(0.0, 1.0)
    }

    fn level(&self, value: f64) -> Option<u8> {
        let level = || (self.fraction(value) * f64::from(HEAT_LEVELS - 1)).round() as u8;
        (value > 0.0).then(level)
    }

    /// Draws the cells above zero. Neighbours in a row with the same colour are one rectangle.
    fn draw_cells(
        &self,
        canvas: &Canvas<'_>,
        cells: &[Vec<f64>],
        map: Area,
        cell_px: i32,
    ) -> Result<(), PlotError> {
        for (row, values) in (0..).zip(cells) {
            let top = map.top + row * cell_px;
            let mut left = map.left;
            let levels: Vec<Option<u8>> = values.iter().map(|value| self.level(*value)).collect();
            for run in levels.chunk_by(|a, b| a == b) {
                let right = left + run.len() as i32 * cell_px;
                if let Some(Some(level)) = run.first() {
                    canvas
                        .rectangle(Area { left, top, right, bottom: top + cell_px }, colour::heat(*level))?;
                }
                left = right;
            }
        }
        Ok(())
    }

    /// Values marked on the colour scale, from the lowest: both ends, and round ones not too close to them.
    fn marks(&self) -> Vec<(f64, String)> {
        if self.high == 0.0 {
            return Vec::new();
        }
        let mut marks = vec![(0.0, number(self.low))];
        if self.low < self.high {
            let axis = match self.scale {
                Scale::Linear => Axis::from_zero(self.high, 5),
                Scale::Logarithmic => Axis::decades(self.low, self.high, false),
            };
            let inside = axis.ticks().iter().filter(|(value, _)| (self.low..self.high).contains(value));
            let marked = inside.map(|(value, text)| (self.fraction(*value), text.clone()));
            marks.extend(marked.filter(|(fraction, _)| (0.08..0.92).contains(fraction)));
            marks.push((1.0, number(self.high)));
        }
        marks
    }

    /// Width of the texts beside the colours.
    fn width_px(&self, labels: &Labels) -> i32 {
        let marks = self.marks();
        let marks_px = marks.iter().map(|(_, text)| TEXT.width_px(text)).max().unwrap_or(0);
        let label_px = TEXT.wrapped(&labels.value, PLACE_PX.1, 2).len() as i32 * TEXT.line_px();
        marks_px.max(TEXT.width_px("white: 0") - COLOURS_PX) + TICK_GAP_PX + label_px
    }

    fn draw_scale(
        &self,
        canvas: &Canvas<'_>,
        labels: &Labels,
        (left, top): Place,
        height_px: i32,
    ) -> Result<(), PlotError> {
        let right = left + COLOURS_PX;
        // The meaning of white is below the colours.
        let bottom = top + height_px - 2 * TEXT.line_px();
        let colours = Area { left, top, right, bottom };
        let marks = self.marks();
        if !marks.is_empty() {
            draw_colours(canvas, colours, |level| {
                colour::heat(if self.low < self.high { level } else { HEAT_LEVELS - 1 })
            })?;
            canvas.outline(colours, INK)?;
        }
        for (fraction, text) in &marks {
            let y = colours.y(*fraction);
            canvas.path(&[(right, y), (right + TICK_GAP_PX / 2, y)], INK, 1)?;
            canvas.text(text, (right + TICK_GAP_PX, y), TEXT, Anchor::Left)?;
        }
        canvas.text("white: 0", (left, top + height_px - TEXT.line_px() / 2), TEXT, Anchor::Left)?;
        let lines = TEXT.wrapped(&labels.value, PLACE_PX.1, 2);
        let mut x = right + TICK_GAP_PX + self.width_px(labels) - TEXT.line_px() * lines.len() as i32
            + TEXT.line_px() / 2;
        for line in &lines {
            canvas.text(line, (x, i32::midpoint(top, top + height_px)), TEXT, Anchor::UpwardMiddle)?;
            x += TEXT.line_px();
        }
        Ok(())
    }
}

fn draw_colours(
    canvas: &Canvas<'_>,
    area: Area,
    colour_of: impl Fn(u8) -> RGBColor,
) -> Result<(), PlotError> {
    for level in 0..HEAT_LEVELS {
        let y = |level: u8| area.y(f64::from(level) / f64::from(HEAT_LEVELS));
        canvas.rectangle(Area { top: y(level + 1), bottom: y(level), ..area }, colour_of(level))?;
    }
    Ok(())
}
