//! A point in time as a date: UTC, exact to the nanosecond, for every value that a file system can hold. It reads no clock.

use atta_entry::Timestamp;

const DAY_SECONDS: i64 = 86_400;

/// Appends a time as RFC 3339 in UTC: `2026-11-21T00:46:20.123456789Z`, always with nine digits.
///
/// Years before 0 and after 9999 have a sign and as many digits as they need, as ISO 8601 allows
/// (`-0001-12-31T...`, `+12026-01-01T...`).
pub fn timestamp_into(time: Timestamp, out: &mut Vec<u8>) {
    let (year, month, day) = civil(time.seconds.div_euclid(DAY_SECONDS));
    let second = time.seconds.rem_euclid(DAY_SECONDS).unsigned_abs();
    match year {
        0..=9999 => {}
        ..0 => out.push(b'-'),
        _ => out.push(b'+'),
    }
    digits::<4>(year.unsigned_abs(), out);
    out.push(b'-');
    digits::<2>(month, out);
    out.push(b'-');
    digits::<2>(day, out);
    out.push(b'T');
    digits::<2>(second / 3600, out);
    out.push(b':');
    digits::<2>(second / 60 % 60, out);
    out.push(b':');
    digits::<2>(second % 60, out);
    out.push(b'.');
    digits::<9>(u64::from(time.nanoseconds), out);
    out.push(b'Z');
}

/// Year, month and day of the day that is `days` after 1970-01-01, in the proleptic Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`: years begin in March,
/// so that the leap day is the last of a year, and 400 years are always 146,097 days.
const fn civil(days: i64) -> (i64, u64, u64) {
    // 719,468 days lie between 0000-03-01 and the epoch.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    (year, month.unsigned_abs(), day.unsigned_abs())
}

/// Appends a number with at least `WIDTH` digits.
fn digits<const WIDTH: usize>(mut number: u64, out: &mut Vec<u8>) {
    let mut buffer = [b'0'; 20];
    let mut at = buffer.len();
    while number > 0 || at > buffer.len() - WIDTH {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&buffer[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(seconds: i64, nanoseconds: u32) -> String {
        let mut out = Vec::new();
        timestamp_into(Timestamp { seconds, nanoseconds }, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Expected values: `date -u -d @SECONDS +%Y-%m-%dT%H:%M:%S`.
    #[test]
    fn dates_near_and_far() {
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(text(1_795_221_980, 123_456_789), "2026-11-21T00:46:20.123456789Z");
        assert_eq!(text(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(text(951_782_400, 0), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(text(-2_203_891_200, 1), "1900-03-01T00:00:00.000000001Z");
        assert_eq!(text(253_402_300_800, 0), "+10000-01-01T00:00:00.000000000Z");
        assert_eq!(text(-62_167_219_201, 0), "-0001-12-31T23:59:59.000000000Z");
        assert_eq!(text(i64::MAX, 0), "+292277026596-12-04T15:30:07.000000000Z");
        assert_eq!(text(i64::MIN, 0), "-292277022657-01-27T08:29:52.000000000Z");
    }

    proptest! {
        /// The oracle counts years and months one by one.
        #[test]
        fn it_agrees_with_counting(days in -800_000_i64..3_000_000) {
            prop_assert_eq!(civil(days), counted(days));
        }
    }

    fn counted(mut days: i64) -> (i64, u64, u64) {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut year = 1970;
        while days < 0 {
            year -= 1;
            days += if leap(year) { 366 } else { 365 };
        }
        while days >= if leap(year) { 366 } else { 365 } {
            days -= if leap(year) { 366 } else { 365 };
            year += 1;
        }
        let february = if leap(year) { 29 } else { 28 };
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        (year, month, days.unsigned_abs() + 1)
    }
}
