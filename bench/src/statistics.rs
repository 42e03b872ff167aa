//! Medians and ratios of runs; no I/O, no text.
//!
//! Medians, not means: on a shared machine a few runs are far too slow, and none is too fast.

/// The median; the mean of the two in the middle for an even number of values.
///
/// # Panics
///
/// Without any value.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(!values.is_empty(), "a median needs a value");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The median of `values[i] / base[i]`: what happened in the same round is compared, so a slow minute that hits both
/// cancels out. The ratio of the medians does not have that.
///
/// # Panics
///
/// Without any value, or if the two do not have the same number of rounds.
pub(crate) fn median_ratio(values: &[f64], base: &[f64]) -> f64 {
    assert_eq!(values.len(), base.len(), "every round has a value of both");
    median(values.iter().zip(base).map(|(value, base)| value / base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([3.0]), 3.0);
        assert_eq!(median([9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 100.0]), 3.0);
    }

    #[test]
    #[should_panic(expected = "a median needs a value")]
    fn no_median_of_nothing() {
        median([]);
    }

    #[test]
    fn ratios_compare_within_a_round() {
        // The machine was ten times slower in the second round; the contender always takes twice the time.
        assert_eq!(median_ratio(&[2.0, 20.0, 2.2], &[1.0, 10.0, 1.1]), 2.0);
        assert_eq!(median_ratio(&[1.0, 4.0, 3.0], &[1.0, 1.0, 1.0]), 3.0);
    }
}
