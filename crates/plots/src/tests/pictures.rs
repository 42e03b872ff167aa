//! Contents of pictures: as many shapes as values, as high as the values are large, and every label. Inputs are ordinary, long and hostile
//! texts, and almost empty.

use super::xml::{Element, checked};
use crate::*;

fn labels() -> Labels {
    Labels::new("Title & <more>").subtitle("the subtitle").x("the x").y("the \"y\"").value("the value")
}

fn groups(ranks: usize, series: &[&str], value: impl Fn(usize, usize) -> f64) -> Vec<Group> {
    let values = |rank: usize| {
        series.iter().enumerate().map(|(i, name)| ((*name).to_owned(), value(rank, i))).collect()
    };
    (0..ranks).map(|rank| (format!("n{rank}"), values(rank))).collect()
}

fn texts(elements: &[Element]) -> Vec<&str> {
    elements.iter().filter(|element| element.name == "text").map(|element| element.text.as_str()).collect()
}

/// Rectangles except the paper and outlines, in drawing order.
fn rectangles(elements: &[Element]) -> Vec<[f64; 4]> {
    let filled =
        elements.iter().filter(|element| element.name == "rect" && element.get("fill") != Some("none"));
    filled.skip(1).map(Element::area).collect()
}

#[test]
fn bars_are_as_high_as_their_values() {
    let groups =
        groups(3, &["a", "b"], |rank, series| (rank + 1) as f64 * if series == 0 { 10.0 } else { 5.0 });
    let elements = checked(&bars(&labels(), &groups, Scale::Linear).unwrap());
    let all = rectangles(&elements);
    // Two of them are in the legend.
    let heights: Vec<f64> = all[2..].iter().map(|[_, top, _, bottom]| bottom - top).collect();
    assert_eq!(heights.len(), 6);
    assert!(
        (heights[4] / heights[0] - 3.0).abs() < 0.1 && (heights[0] / heights[1] - 2.0).abs() < 0.1,
        "{heights:?}"
    );
    let texts = texts(&elements);
    for text in ["Title & <more>", "the subtitle", "the x", "the \"y\"", "a", "b", "n0", "n2", "30", "15"] {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
}

#[test]
fn zero_has_no_bar_on_a_logarithmic_axis() {
    let values = [0.0, 1.0, 1000.0, 1e6];
    let groups = groups(4, &["a"], |rank, _| values[rank]);
    let elements = checked(&bars(&labels(), &groups, Scale::Logarithmic).unwrap());
    let heights: Vec<f64> = rectangles(&elements)[1..].iter().map(|area| area[3] - area[1]).collect();
    assert_eq!(heights.len(), 3);
    let steps = [heights[1] - heights[0], heights[2] - heights[1]];
    assert!(heights[0] > 0.0 && (steps[0] - steps[1]).abs() <= 1.0, "{heights:?}");
}

#[test]
fn stacks_have_their_parts_above_each_other() {
    let groups = groups(2, &["readdir", "lstat", "idle"], |rank, series| (rank + series) as f64);
    for (stack, height) in [(Stack::Sum, 340.0), (Stack::Percent, 340.0)] {
        let elements = checked(&stacked(&labels(), &groups, stack).unwrap());
        let parts = rectangles(&elements).split_off(3);
        assert_eq!(parts.len(), 5, "a zero has no part");
        assert!(parts[0][1] >= parts[1][3] && parts[2][1] >= parts[3][3], "{parts:?}");
        let total = parts[4][3].max(parts[2][3]) - parts[4][1];
        assert!(stack == Stack::Sum || (total - height).abs() <= 2.0, "{total}");
    }
}

#[test]
fn heat_maps_have_a_cell_for_each_value_above_zero() {
    let rows: Vec<Vec<f64>> =
        (0..4).map(|row| (0..5).map(|column| f64::from((row + column) % 3)).collect()).collect();
    let matrix = Matrix::from_rows(&rows).unwrap();
    let elements = checked(&heat_map(&labels(), &matrix, Scale::Linear).unwrap());
    let above_zero = rows.iter().flatten().filter(|value| **value > 0.0).count();
    assert_eq!(rectangles(&elements).len(), above_zero + 64);
    let texts = texts(&elements);
    assert!(texts.contains(&"the value") && texts.contains(&"4") && texts.contains(&"white: 0"), "{texts:?}");
}

#[test]
fn large_heat_maps_say_so_and_stay_small() {
    let mut matrix = Matrix::new(4096, 4096).unwrap();
    for i in 0..BINS_PER_SIDE * BINS_PER_SIDE {
        matrix.add(i / 64 * 64, i % 64 * 64, 10_f64.powi((i % 7) as i32)).unwrap();
    }
    let svg = heat_map(&labels(), &matrix, Scale::Logarithmic).unwrap();
    assert!(svg.len() < 500_000, "{}", svg.len());
    let elements = checked(&svg);
    assert!(texts(&elements).contains(&"Each cell is the mean over up to 64 rows and 64 columns."));
    assert!(texts(&elements).contains(&"2048"));
}

#[test]
fn histograms_have_one_plot_for_each_series() {
    let series = [("even".to_owned(), vec![5.0; 20]), ("odd".to_owned(), (0..20).map(f64::from).collect())];
    let elements = checked(&histogram(&labels(), &series, 10).unwrap());
    assert_eq!(rectangles(&elements).len(), 1 + 10);
    let texts = texts(&elements);
    assert!(texts.contains(&"20 values, 0 to 19, mean 9.5") && texts.contains(&"odd"), "{texts:?}");
}

#[test]
fn lines_have_a_mark_for_each_point() {
    let line = |name: &str, points: &[(f64, f64)]| (name.to_owned(), points.to_vec());
    let given = [line("a", &[(1e6, 0.5), (10.0, 1.0), (1e3, 0.0), (1e4, 0.2)])];
    let paths = |y: Scale| {
        let elements = checked(&lines(&labels(), &given, Scale::Logarithmic, y).unwrap());
        assert!(texts(&elements).contains(&"1 M"));
        let count = |name: &str| elements.iter().filter(|element| element.name == name).count();
        let thick = elements.iter().filter(|element| element.get("stroke-width") == Some("2")).count();
        (thick - 1, count("circle") - 1)
    };
    assert_eq!(paths(Scale::Linear), (1, 4));
    // The line is broken at zero: one point is isolated.
    assert_eq!(paths(Scale::Logarithmic), (1, 3));
}

#[test]
fn long_and_hostile_texts_stay_in_their_places() {
    let long = "a/very long <name> & more ".repeat(40);
    let word = "W".repeat(3000);
    let labels = Labels::new(&*long).subtitle(&*word).x(&*long).y(&*word).value(&*long);
    let names: Vec<String> = (0..SERIES_MAX).map(|i| format!("{i}\u{0}\u{202e}<&{long}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut many = groups(70, &names, |rank, series| (rank * series) as f64);
    many[3].0 = word.clone();
    checked(&bars(&labels, &many, Scale::Logarithmic).unwrap());
    checked(&stacked(&labels, &many, Stack::Percent).unwrap());
    let shares: Vec<Shares> = names.iter().map(|name| ((*name).to_owned(), vec![1.0, 2.0])).collect();
    checked(&histogram(&labels, &shares, BINS_MAX).unwrap());
    let series: Vec<Line> = names.iter().map(|name| ((*name).to_owned(), vec![(1.0, 2.0)])).collect();
    checked(&lines(&labels, &series, Scale::Linear, Scale::Logarithmic).unwrap());
    for (rows, columns) in [(1, 1), (1, 4096), (1_000_000, 1), (65, 65)] {
        let mut matrix = Matrix::new(rows, columns).unwrap();
        matrix.add(rows - 1, columns - 1, 1e29).unwrap();
        checked(&heat_map(&labels, &matrix, Scale::Logarithmic).unwrap());
    }
}

#[test]
fn the_most_that_is_taken_is_drawn() {
    let most = groups(GROUPED_BARS_MAX, &["a"], |rank, _| rank as f64);
    checked(&bars(&labels(), &most, Scale::Linear).unwrap());
    checked(&stacked(&labels(), &most, Stack::Sum).unwrap());
    let error =
        bars(&labels(), &groups(GROUPED_BARS_MAX + 1, &["a"], |_, _| 1.0), Scale::Linear).unwrap_err();
    assert_eq!(error.to_string(), "cannot draw: 1201 bars: 1200 are the most");
    let points = vec![("a".to_owned(), (0..POINTS_MAX).map(|i| (i as f64, 1.0)).collect())];
    checked(&lines(&labels(), &points, Scale::Linear, Scale::Linear).unwrap());
}

#[test]
fn hardly_any_input_is_drawn() {
    let zeros = groups(2, &["", "b"], |_, _| 0.0);
    let none = Labels::default();
    for scale in [Scale::Linear, Scale::Logarithmic] {
        checked(&bars(&none, &zeros, scale).unwrap());
        checked(&heat_map(&none, &Matrix::new(3, 3).unwrap(), scale).unwrap());
        checked(&lines(&none, &[(String::new(), vec![(1.0, 0.0)])], scale, scale).unwrap());
    }
    checked(&stacked(&none, &zeros, Stack::Sum).unwrap());
    checked(&stacked(&none, &zeros, Stack::Percent).unwrap());
    checked(&histogram(&none, &[(String::new(), vec![0.0])], 1).unwrap());
}

#[test]
fn says_what_cannot_be_drawn() {
    let share =
        |shares: &[f64], bins| histogram(&labels(), &[("a".to_owned(), shares.to_vec())], bins).unwrap_err();
    assert_eq!(share(&[], 3).to_string(), "cannot draw: no shares of a");
    assert_eq!(share(&[1.0], 0).to_string(), "cannot draw: no bins");
    assert_eq!(share(&[f64::INFINITY], 3).to_string(), "cannot draw: a: the value is no finite number");
    let line = |points: &[(f64, f64)]| {
        lines(&labels(), &[("a".to_owned(), points.to_vec())], Scale::Logarithmic, Scale::Linear).unwrap_err()
    };
    assert_eq!(line(&[]).to_string(), "cannot draw: no points of a");
    let zero = "cannot draw: a, a position: 0e0 is too small for a logarithmic axis";
    assert_eq!(line(&[(0.0, 1.0)]).to_string(), zero);
    assert_eq!(line(&[(1.0, 1e31)]).to_string(), "cannot draw: a at 1: 1e31 is above 1e30");
    let sum = stacked(&labels(), &groups(1, &["a", "b"], |_, _| VALUE_MAX), Stack::Sum).unwrap_err();
    assert_eq!(sum.to_string(), "cannot draw: sum of n0: 2e30 is above 1e30");
    let names: Vec<String> = (0..=SERIES_MAX).map(|i| i.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = stacked(&labels(), &groups(1, &names, |_, _| 1.0), Stack::Sum).unwrap_err();
    assert_eq!(many.to_string(), "cannot draw: 17 series: 16 are the most");
}

#[test]
fn wide_first_tick_overlaps_no_other_label() {
    let labels = Labels::new("").y("a label that is as long as its axis is high");
    let shares = [("a".to_owned(), vec![9.85e-10, 1e-9])];
    checked(&histogram(&labels, &shares, 3).unwrap());
}
