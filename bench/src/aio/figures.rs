//! The figures of the thesis's chapter 4, from our numbers. It measures nothing.

use atta_plots::{Labels, Line, Scale, lines};

use super::port::Direction;

/// Name and SVG of a figure.
pub(crate) type Figure = (String, String);

/// Figures 4.10 and 4.11: the blocking time over the block size.
pub(crate) fn blocking(kind: &str, curves: &[(Direction, &'static str, f64, f64)]) -> Vec<Figure> {
    let figure = |direction: Direction| {
        let mut series: Vec<Line> = Vec::new();
        for (_, who, kib, ns) in curves.iter().filter(|curve| curve.0 == direction) {
            add(&mut series, who, (*kib, *ns));
        }
        let title = format!("Blocking time of a {}, one thread, {kind}", direction.name());
        let labels = Labels::new(title).x("block size, KiB").y("ns");
        let svg = lines(&labels, &series, Scale::Logarithmic, Scale::Logarithmic).ok()?;
        Some((format!("{kind}-blocking-{}", direction.name()), svg))
    };
    Direction::BOTH.into_iter().filter_map(figure).collect()
}

/// Values over something, one line for each contender.
pub(crate) fn over(name: &str, labels: &Labels, points: &[(String, f64, f64)]) -> Option<Figure> {
    let mut series: Vec<Line> = Vec::new();
    for (who, x, y) in points {
        add(&mut series, who, (*x, *y));
    }
    Some((name.to_owned(), lines(labels, &series, Scale::Linear, Scale::Linear).ok()?))
}

fn add(series: &mut Vec<Line>, who: &str, point: (f64, f64)) {
    match series.iter_mut().find(|(name, _)| name == who) {
        Some((_, points)) => points.push(point),
        None => series.push((who.to_owned(), vec![point])),
    }
}
