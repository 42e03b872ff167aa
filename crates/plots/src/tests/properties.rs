//! Any input gives a correct picture or an error, never a panic, and always the same result.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::xml::checked;
use crate::*;

/// Values of every size, and occasionally one that cannot be drawn.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        200 => 0.0..1e4,
        100 => (-35_i32..31).prop_map(|power| 10_f64.powi(power)),
        40 => Just(0.0),
        1 => any::<f64>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(any::<char>(), 0..60).prop_map(String::from_iter),
        vec("[a-z<&\" ]{0,30}", 0..9).prop_map(|w| w.concat())
    ]
}

fn labels() -> impl Strategy<Value = Labels> {
    (text(), text(), text(), text(), text()).prop_map(|(title, subtitle, x, y, value)| Labels {
        title,
        subtitle,
        x,
        y,
        value,
    })
}

/// Groups that may lack series; rarely two series have one name.
fn groups() -> impl Strategy<Value = Vec<Group>> {
    let group = (text(), vec(of(value()), 1..6));
    (vec(text(), 6), vec(group, 0..40)).prop_map(|(names, groups)| {
        let named = |(label, values): (String, Vec<Option<f64>>)| {
            let values = names.iter().cloned().zip(values);
            (label, values.filter_map(|(name, value)| Some((name, value?))).collect())
        };
        groups.into_iter().map(named).collect()
    })
}

fn scale() -> impl Strategy<Value = Scale> {
    prop_oneof![Just(Scale::Linear), Just(Scale::Logarithmic)]
}

/// Draws twice, checks the picture if there is one, and that an error has a message.
fn draw(draw: impl Fn() -> Result<String, PlotError>) {
    match draw() {
        Ok(svg) => {
            checked(&svg);
            assert_eq!(Ok(svg), draw());
        }
        Err(error) => assert!(error.to_string().starts_with("cannot draw: ")),
    }
}

proptest! {
    #[test]
    fn bars_and_stacks(labels in labels(), groups in groups(), scale in scale()) {
        draw(|| bars(&labels, &groups, scale));
        draw(|| stacked(&labels, &groups, Stack::Sum));
        draw(|| stacked(&labels, &groups, Stack::Percent));
    }

    #[test]
    fn heat_maps(
        labels in labels(),
        size in (1_usize..300, 1_usize..300),
        cells in vec((any::<usize>(), any::<usize>(), value()), 0..50),
        scale in scale(),
    ) {
        let mut matrix = Matrix::new(size.0, size.1).unwrap();
        for (row, column, value) in cells {
            // A refused value leaves the matrix unchanged.
            drop(matrix.add(row % size.0, column % size.1, value));
        }
        draw(|| heat_map(&labels, &matrix, scale));
    }

    #[test]
    fn histograms(labels in labels(), series in vec((text(), vec(value(), 0..40)), 0..8), bins in 0_usize..210) {
        draw(|| histogram(&labels, &series, bins));
    }

    #[test]
    fn lines_of_any_points(
        labels in labels(),
        series in vec((text(), vec((value(), value()), 0..70)), 0..8),
        x in scale(),
        y in scale(),
    ) {
        draw(|| lines(&labels, &series, x, y));
    }

    #[test]
    fn shares_close_to_each_other(low in 0.0_f64..1e6, spread in 0.0_f64..1.0, bins in 1_usize..50) {
        let series = [("a".to_owned(), vec![low, low + spread, low + spread / 3.0])];
        draw(|| histogram(&Labels::new("close"), &series, bins));
    }
}
