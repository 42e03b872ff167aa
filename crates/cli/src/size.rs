//! Parses sizes such as `4K`, `256KiB`, `100MB` and `1.5G`, and formats numbers for people. No I/O.

/// Units in lower case, and their number of bytes.
const UNITS: [(&str, u64); 20] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
    ("e", 1 << 60),
    ("eib", 1 << 60),
    ("eb", 1_000_000_000_000_000_000),
];
/// Most decimals that are read; further ones are ignored.
const DIGITS_MAX: usize = 18;

/// A size in bytes. `K`, `M`, `G`, `T`, `P`, `E` and `KiB`, `MiB`, ... are powers of 1,024, `KB`, `MB`, ... powers of 1,000, in upper or
/// lower case. The number may have a fraction; the result is rounded down to a byte.
///
/// # Errors
/// Returns what is wrong: not a number, an unknown unit, a fraction of a number of bytes, or 2^64 bytes or more.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && decimals.is_empty()) || decimals.contains('.') {
        return Err(format!("'{text}' is no size, as in 512, 4K, 100MB or 1.5GiB"));
    }
    let name = unit.trim_start().to_ascii_lowercase();
    let unit_bytes = UNITS.iter().find(|(each, _)| *each == name).map(|(_, bytes)| u128::from(*bytes));
    let unit_bytes = unit_bytes.ok_or_else(|| format!("'{unit}' is no unit, as in K, MB or GiB"))?;
    if !decimals.is_empty() && unit_bytes == 1 {
        return Err(format!("'{text}' is no whole number of bytes"));
    }
    let too_large = || format!("'{text}' is 2^64 bytes or more");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let decimals = &decimals[..decimals.len().min(DIGITS_MAX)];
    let fraction: u64 = if decimals.is_empty() { 0 } else { decimals.parse().map_err(|_| too_large())? };
    let scale = 10_u128.pow(u32::try_from(decimals.len()).unwrap_or(0));
    let bytes = u128::from(whole) * unit_bytes + u128::from(fraction) * unit_bytes / scale;
    u64::try_from(bytes).map_err(|_| too_large())
}

/// Least memory that may be requested; with less, every few names would cost a system call.
const MEMORY_MIN: u64 = 1 << 20;

/// A size of memory.
///
/// # Errors
/// As [`parse_size`], and if the size is too small.
pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < MEMORY_MIN {
        return Err("less than 1M".to_owned());
    }
    Ok(bytes)
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 file`, `1,234 files`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// `1,234 files, 1 directory`: the counts that are not 0, or `nothing`.
pub(crate) fn listed(counts: &[(u64, &str, &str)]) -> String {
    let some = counts.iter().filter(|(count, ..)| *count > 0);
    let some: Vec<_> = some.map(|(count, one, many)| counted(*count, one, many)).collect();
    if some.is_empty() { "nothing".to_owned() } else { some.join(", ") }
}

/// A rate per second, of bytes or of entries.
pub(crate) fn per_second(bytes: u64, elapsed: std::time::Duration) -> u64 {
    (bytes as f64 / elapsed.as_secs_f64().max(1e-9)).round() as u64
}

/// Bytes as `1.2 GiB`.
pub(crate) fn binary(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = bytes as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit < UNITS.len() - 1 {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024_or_of_1000() {
        let sizes = [
            ("0", 0),
            ("512", 512),
            ("7B", 7),
            ("4K", 4096),
            ("4k", 4096),
            ("256KiB", 262_144),
            ("100MB", 100_000_000),
            ("1.5G", 3 << 29),
            ("1.5 GiB", 3 << 29),
            ("0.1K", 102),
            ("2T", 2 << 40),
            ("1PB", 1_000_000_000_000_000),
            ("15.999999999999999999E", u64::MAX - 1),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let wrong = [
            "", "K", ".5K", "5.K", "1.2.3K", "-1", "+1", "1X", "1KBs", "1.5", "1.5B", "1 000", "1e3", "0x10",
            "٣",
        ];
        for text in wrong {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_overflows_is_refused() {
        for text in ["16E", "18446744073709551616", "18446744073709551615K", "99999999999999999999999E"] {
            assert!(parse_size(text).unwrap_err().contains("2^64"), "{text}");
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1024, 1 << 40].map(binary), ["0 B", "1023 B", "1.0 KiB", "1.0 TiB"]);
        assert_eq!(binary(u64::MAX), "16.0 EiB");
    }
}
