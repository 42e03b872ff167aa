//! Reads one record of a list: the bytes up to a separator, at most a given number. It interprets no path and no JSON.

use std::io::{BufRead, ErrorKind};

use crate::{Error, Result};

/// How a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// At a separator.
    Finished,
    /// At the end of the input, with at least one byte.
    Unfinished,
    /// The input had already ended.
    End,
    /// It exceeded the limit; `buffer` holds its beginning.
    TooLong,
}

/// Reads the bytes up to `separator` into `buffer`, without the separator. Reads at most `bytes_max` and one input buffer, for any input:
/// `read_until` has no limit.
pub(crate) fn read_record(
    input: &mut impl BufRead,
    separator: u8,
    bytes_max: usize,
    buffer: &mut Vec<u8>,
) -> Result<Record> {
    buffer.clear();
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(source) if source.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::ListRead { source }),
        };
        if available.is_empty() {
            return Ok(if buffer.is_empty() { Record::End } else { Record::Unfinished });
        }
        let at = available.iter().position(|&byte| byte == separator);
        let taken = at.unwrap_or(available.len());
        let room = bytes_max - buffer.len();
        buffer.extend_from_slice(&available[..taken.min(room)]);
        if taken > room {
            return Ok(Record::TooLong);
        }
        input.consume(taken + usize::from(at.is_some()));
        if at.is_some() {
            return Ok(Record::Finished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_their_ends() {
        let mut input = &b"ab\0\0c"[..];
        let mut buffer = Vec::new();
        let mut next = || {
            let record = read_record(&mut input, 0, 2, &mut buffer).unwrap();
            (record, buffer.clone())
        };
        assert_eq!(next(), (Record::Finished, b"ab".to_vec()));
        assert_eq!(next(), (Record::Finished, b"".to_vec()));
        assert_eq!(next(), (Record::Unfinished, b"c".to_vec()));
        assert_eq!(next(), (Record::End, b"".to_vec()));
    }

    #[test]
    fn the_bound_holds() {
        let mut buffer = Vec::new();
        assert_eq!(read_record(&mut &b"abc\0"[..], 0, 2, &mut buffer).unwrap(), Record::TooLong);
        assert_eq!(buffer, b"ab");
    }
}
