//! Shapes and texts at positions in pixels: the only module that calls plotters. It knows no axes and measures no text.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{Circle, Drawable, PathElement, PointCollection, Polygon, Rectangle, Text};
use plotters::prelude::{Color, DrawingArea, IntoDrawingArea, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, FontTransform, IntoFont, IntoTextStyle, ShapeStyle};

use crate::PlotError;
use crate::colour::{INK, PAPER};
use crate::text::Font;

/// Plotters divides a font's size by this when it writes the size.
const PLOTTERS_FONT_FACTOR: f64 = 1.24;

/// A position in pixels from the left and from the top.
pub(crate) type Place = (i32, i32);

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) right: i32,
    pub(crate) bottom: i32,
}

impl Area {
    pub(crate) fn width(self) -> i32 {
        self.right - self.left
    }

    pub(crate) fn height(self) -> i32 {
        self.bottom - self.top
    }

    /// The column at a fraction of the width, from the left.
    pub(crate) fn x(self, fraction: f64) -> i32 {
        self.left + (fraction * f64::from(self.width())).round() as i32
    }

    /// The line at a fraction of the height, from the bottom.
    pub(crate) fn y(self, fraction: f64) -> i32 {
        self.bottom - (fraction * f64::from(self.height())).round() as i32
    }
}

/// The point of a text that is at its position.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Anchor {
    /// The middle of the left end.
    Left,
    /// The middle.
    Middle,
    /// The middle of the right end.
    Right,
    /// The middle; the text reads upwards.
    UpwardMiddle,
    /// The end of the text; it reads upwards.
    UpwardEnd,
}

/// A picture that is being drawn.
pub(crate) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Draws on white paper of the given size and returns the text of the SVG file.
pub(crate) fn picture(
    width_px: i32,
    height_px: i32,
    draw: impl FnOnce(&Canvas<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    let size = (width_px.unsigned_abs(), height_px.unsigned_abs());
    let canvas = Canvas { area: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
    canvas.area.fill(&PAPER).map_err(|error| backend(&error))?;
    draw(&canvas)?;
    canvas.area.present().map_err(|error| backend(&error))?;
    drop(canvas);
    Ok(svg)
}

impl<'a> Canvas<'a> {
    pub(crate) fn rectangle(&self, area: Area, colour: RGBColor) -> Result<(), PlotError> {
        let corners = [(area.left, area.top), (area.right, area.bottom)];
        self.draw(&Rectangle::new(corners, colour.filled()))
    }

    pub(crate) fn outline(&self, area: Area, colour: RGBColor) -> Result<(), PlotError> {
        let corners = [(area.left, area.top), (area.right, area.bottom)];
        self.draw(&Rectangle::new(corners, colour.stroke_width(1)))
    }

    pub(crate) fn path(&self, places: &[Place], colour: RGBColor, width_px: u32) -> Result<(), PlotError> {
        self.draw(&PathElement::new(places.to_vec(), colour.stroke_width(width_px)))
    }

    pub(crate) fn polygon(&self, places: &[Place], colour: RGBColor) -> Result<(), PlotError> {
        self.draw(&Polygon::new(places.to_vec(), colour.filled()))
    }

    pub(crate) fn disc(&self, centre: Place, radius_px: i32, colour: RGBColor) -> Result<(), PlotError> {
        let style: ShapeStyle = colour.filled();
        self.draw(&Circle::new(centre, radius_px, style))
    }

    pub(crate) fn text(&self, text: &str, place: Place, font: Font, anchor: Anchor) -> Result<(), PlotError> {
        if text.is_empty() {
            return Ok(());
        }
        let (h_pos, transform) = match anchor {
            Anchor::Left => (HPos::Left, FontTransform::None),
            Anchor::Middle => (HPos::Center, FontTransform::None),
            Anchor::Right => (HPos::Right, FontTransform::None),
            Anchor::UpwardMiddle => (HPos::Center, FontTransform::Rotate270),
            Anchor::UpwardEnd => (HPos::Right, FontTransform::Rotate270),
        };
        let weight = if font.bold { FontStyle::Bold } else { FontStyle::Normal };
        let style = ("sans-serif", f64::from(font.size_px) * PLOTTERS_FONT_FACTOR)
            .into_font()
            .style(weight)
            .transform(transform)
            .into_text_style(&self.area)
            .color(&INK)
            .pos(Pos::new(h_pos, VPos::Center));
        self.draw(&Text::new(text.to_owned(), place, style))
    }

    fn draw<E>(&self, element: &E) -> Result<(), PlotError>
    where
        for<'b> &'b E: PointCollection<'b, Place>,
        E: Drawable<SVGBackend<'a>>,
    {
        self.area.draw(element).map_err(|error| backend(&error))
    }
}

fn backend(error: &DrawingAreaErrorKind<std::io::Error>) -> PlotError {
    PlotError::Backend { text: error.to_string() }
}
