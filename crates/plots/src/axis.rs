//! Ranges with round ends and ticks, and the position of a value in one. It uses no pixels.

use crate::number::{number, power_of_ten, tick};
use crate::{Scale, VALUE_MIN};

/// Most decades for which the twos and fives between them have ticks.
const FINE_DECADES_MAX: i32 = 2;

/// Most decades that have ticks; if there are more, some have none.
const DECADE_TICKS_MAX: i32 = 8;

/// A range of values and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero to at least `high`.
    pub(crate) fn from_zero(high: f64, steps: u8) -> Self {
        Self::stepped(0.0, if high < VALUE_MIN { 1.0 } else { high }, steps, 0.0)
    }

    /// From zero to at least `high`, with ticks at whole numbers.
    pub(crate) fn whole(high: f64, steps: u8) -> Self {
        Self::stepped(0.0, high.max(1.0), steps, 1.0)
    }

    /// Around values from `low` to `high`: from zero unless they are far from it, and never so narrow that small differences look large.
    pub(crate) fn around(low: f64, high: f64, steps: u8) -> Self {
        if low <= high / 2.0 {
            return Self::from_zero(high, steps);
        }
        let missing = (high * 0.1 - (high - low)).max(0.0);
        Self::stepped(low - missing / 2.0, high + missing / 2.0, steps, 0.0)
    }

    /// Whole decades around values above zero. With `clear`, the lowest value keeps a distance from the lower end.
    pub(crate) fn decades(low: f64, high: f64, clear: bool) -> Self {
        let mut first = power_of_ten(low);
        if clear && low.log10() - f64::from(first) < 0.1 {
            first -= 1;
        }
        let last = (high.log10().ceil() as i32).max(first + 1);
        let factors: &[f64] = if last - first <= FINE_DECADES_MAX { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let step = (last - first).div_euclid(DECADE_TICKS_MAX + 1) + 1;
        let (low, high) = (10_f64.powi(first), 10_f64.powi(last));
        let ticks = (first..=last)
            .step_by(step.unsigned_abs() as usize)
            .flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)))
            .filter(|value| *value <= high * 1.001)
            .map(|value| (value, number(value)))
            .collect();
        Self { scale: Scale::Logarithmic, low, high, ticks }
    }

    /// The axis for bars or points: from zero, or decades around the values above zero.
    pub(crate) fn of_values(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let (low, high) = bounds(values.filter(|value| *value > 0.0)).unwrap_or((1.0, 1.0));
        match scale {
            Scale::Linear => Self::from_zero(high, 6),
            Scale::Logarithmic => Self::decades(low, high, true),
        }
    }

    fn stepped(low: f64, high: f64, steps: u8, step_min: f64) -> Self {
        let step = round_step((high - low) / f64::from(steps)).max(step_min);
        // A value meant as a multiple of the step may be slightly off.
        let first = (low / step + 1e-9).floor();
        let last = (high / step - 1e-9).ceil().max(first + 1.0);
        let high = last * step;
        // Rounding the step gives at most twice the requested number of steps.
        let ticks = (0..=2 * u32::from(steps) + 2)
            .map(|i| (first + f64::from(i)) * step)
            .take_while(|value| *value <= high + step / 2.0)
            .map(|value| (value, tick(value, step, high)))
            .collect();
        Self { scale: Scale::Linear, low: first * step, high, ticks }
    }

    /// Positions of ticks and their texts, from low to high.
    pub(crate) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// Position of a value: 0 at the low end, 1 at the high end, never outside.
    pub(crate) fn fraction(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        fraction.clamp(0.0, 1.0)
    }
}

/// The smallest and the largest of some values.
pub(crate) fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |bounds, value| match bounds {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// The smallest of 1, 2, 5 and 10 times a power of ten that is not below a step.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powi(power_of_ten(step));
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks().iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ends_and_ticks_are_round() {
        assert_eq!(texts(&Axis::from_zero(97.0, 6)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(&Axis::from_zero(0.0, 4)), ["0", "0.5", "1.0"]);
        assert_eq!(texts(&Axis::whole(2.0, 3)), ["0", "1", "2"]);
        assert_eq!(texts(&Axis::decades(30.0, 2e4, false)), ["10", "100", "1000", "10 k", "100 k"]);
        assert_eq!(texts(&Axis::decades(1.0, 7.0, false)), ["1", "2", "5", "10"]);
    }

    #[test]
    fn ranges_hold_their_values() {
        for (low, high) in [(0.0, 5.0), (4.9, 5.1), (5.0, 5.0), (0.0, 0.0), (1e29, 1e30), (1e-30, 2e-30)] {
            let axis = Axis::around(low, high, 8);
            assert!(axis.low <= low && high <= axis.high * (1.0 + 1e-8) && axis.low < axis.high, "{axis:?}");
            assert!((2..20).contains(&axis.ticks().len()), "{axis:?}");
        }
        let axis = Axis::decades(10.0, 1e6, true);
        assert!(axis.low < 10.0 && axis.fraction(0.0) == 0.0 && axis.fraction(1e6) == 1.0, "{axis:?}");
    }
}
