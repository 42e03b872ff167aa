//! Values that can be drawn, and numbers as short texts. It has no axes.

use crate::PlotError;

/// The largest value that is drawn. Far from the end of `f64`, so that sums and ranges of values stay finite.
pub const VALUE_MAX: f64 = 1e30;

/// Values below this count as zero, so that steps between values never vanish.
pub const VALUE_MIN: f64 = 1e-30;

/// Names of the powers of a thousand, from the first.
const PREFIXES: [&str; 6] = ["k", "M", "G", "T", "P", "E"];

/// Numbers from here on have a prefix: four digits are easier to read than a prefix.
const PREFIX_MIN: f64 = 1e4;

/// A value that can be drawn; zero if it is too small to differ from it.
pub(crate) fn checked(value: f64, whose: impl Fn() -> String) -> Result<f64, PlotError> {
    if !value.is_finite() {
        return Err(PlotError::NotFinite { whose: whose() });
    }
    if value < 0.0 {
        return Err(PlotError::Negative { whose: whose(), value });
    }
    if value > VALUE_MAX {
        return Err(PlotError::TooLarge { whose: whose(), value });
    }
    Ok(if value < VALUE_MIN { 0.0 } else { value })
}

/// A number by itself, with three digits: `0`, `12.5`, `4096`, `1.05 M`, `2.5e-7`.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (divisor, prefix) = unit(value);
    let scaled = value / divisor;
    if !(1e-3..PREFIX_MIN).contains(&scaled) {
        return scientific(value);
    }
    let digits = (2 - power_of_ten(scaled)).clamp(0, 6);
    format!("{}{prefix}", trimmed(&decimal(scaled, digits)))
}

/// A number of an axis up to `high` in steps: all numbers have one unit and the same number of decimals.
pub(crate) fn tick(value: f64, step: f64, high: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (divisor, prefix) = unit(high);
    let scaled = high / divisor;
    if !(1e-3..PREFIX_MIN).contains(&scaled) {
        return scientific(value);
    }
    let digits = (-power_of_ten(step / divisor * (1.0 + 1e-9))).clamp(0, 6);
    format!("{}{prefix}", decimal(value / divisor, digits))
}

/// The exponent of the largest power of ten that is not above a value above zero.
pub(crate) fn power_of_ten(value: f64) -> i32 {
    // Values that can be drawn have exponents of two digits; the cast saturates for anything else.
    value.log10().floor() as i32
}

fn unit(value: f64) -> (f64, String) {
    if value < PREFIX_MIN {
        return (1.0, String::new());
    }
    let power = (power_of_ten(value) / 3).clamp(1, 6);
    let prefix = PREFIXES.get(power as usize - 1).copied().unwrap_or_default();
    (1000_f64.powi(power), format!(" {prefix}"))
}

fn decimal(value: f64, digits: i32) -> String {
    let digits = digits.unsigned_abs() as usize;
    format!("{value:.digits$}")
}

fn trimmed(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}

fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa)),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [
            (0.0, "0"),
            (1.0, "1"),
            (12.5, "12.5"),
            (0.05, "0.05"),
            (4096.0, "4096"),
            (10_000.0, "10 k"),
            (1_048_576.0, "1.05 M"),
            (1.6e9, "1.6 G"),
            (2.5e-7, "2.5e-7"),
            (1e24, "1e24"),
        ];
        for (value, text) in texts {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn ticks_of_one_axis_have_one_unit() {
        assert_eq!(tick(500_000.0, 500_000.0, 2e6), "0.5 M");
        assert_eq!(tick(1e6, 500_000.0, 2e6), "1.0 M");
        assert_eq!(tick(0.2, 0.2, 1.0), "0.2");
        assert_eq!(tick(40.0, 20.0, 100.0), "40");
        assert_eq!(tick(0.0, 1.0, 5.0), "0");
    }
}
