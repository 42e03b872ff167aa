//! Parses counts such as `5000`, `6.5M`, `10^9` and `1e9`. No I/O. Sizes in bytes are in `size.rs`.

/// Unit letters and their powers of ten.
const UNITS: [(char, u32); 4] = [('k', 3), ('m', 6), ('g', 9), ('t', 12)];
/// Most decimals of a count.
const DECIMALS_MAX: usize = 18;

/// Parses a count. `K`, `M`, `G` and `T` are powers of 1,000, `10^N` and `eN` powers of ten; a fraction must leave a whole number.
///
/// # Errors
/// Returns what is wrong: not a number, not a whole number, or 2^64 or more.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let no_number = || format!("'{text}' is no number of things, as in 5000, 6.5M, 10^9 or 1e9");
    if let Some(power) = text.strip_prefix("10^") {
        return scaled("1", plain(power).ok_or_else(no_number)?, text);
    }
    let lower = text.to_ascii_lowercase();
    let unit = UNITS.into_iter().find(|(letter, _)| lower.ends_with(*letter));
    let (number, power) = match (unit, lower.split_once('e')) {
        (Some((_, power)), _) => (&lower[..lower.len() - 1], power),
        (None, Some((number, power))) => (number, plain(power).ok_or_else(no_number)?),
        (None, None) => (lower.as_str(), 0),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS_MAX {
        return Err(no_number());
    }
    scaled(number, power, text)
}

/// A power of ten: digits and nothing else.
fn plain(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `number`, digits with or without decimals, times 10 to the `power`.
fn scaled(number: &str, power: u32, text: &str) -> Result<u64, String> {
    let too_many = || format!("'{text}' is 2^64 or more");
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let decimals = decimals.trim_end_matches('0');
    let places = decimals.len() as u32;
    if places > power {
        return Err(format!("'{text}' is no whole number of things"));
    }
    let digits: u128 = format!("{whole}{decimals}").parse().map_err(|_| too_many())?;
    let count = 10_u128.checked_pow(power - places).and_then(|factor| digits.checked_mul(factor));
    // Zero times a power that overflows would still be zero; it is refused all the same.
    u64::try_from(count.ok_or_else(too_many)?).map_err(|_| too_many())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let counts = [
            ("0", 0),
            ("5000", 5000),
            ("10K", 10_000),
            ("6.5M", 6_500_000),
            ("6.50m", 6_500_000),
            ("110M", 110_000_000),
            ("1.5g", 1_500_000_000),
            ("10^9", 1_000_000_000),
            ("10^0", 1),
            ("1e9", 1_000_000_000),
            ("6.5E6", 6_500_000),
            ("2.0", 2),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, count) in counts {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for text in [
            "", "K", ".5M", "5.M", "1.2.3K", "-1", "+1", "1KB", "2^9", "10^", "10^-1", "1e", "1e+2", "٣",
            "1 000",
        ] {
            assert!(parse_count(text).unwrap_err().contains("no number"), "{text}");
        }
        for text in ["1.5", "0.0001K", "1.25e1"] {
            assert!(parse_count(text).unwrap_err().contains("whole"), "{text}");
        }
        for text in ["10^20", "10^99", "10^4000000000", "18446744073709551616", "99999999T", "1e20"] {
            assert!(parse_count(text).unwrap_err().contains("2^64"), "{text}");
        }
    }
}
