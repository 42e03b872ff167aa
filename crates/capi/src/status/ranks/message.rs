//! Messages between ranks: a header and an encoded value. A message travels in frames, so that both sides know how many bytes to pass before they
//! pass them: one of a fixed size, and the rest if there is any. It sends nothing.

use atta_code::{Code, VERSION, record};
use atta_entry::Errno;

/// Bytes of the first frame. Most messages fit in it.
pub(crate) const FRAME_BYTES: usize = 256;
/// What every header begins with, so that other data is noticed: "ATTA".
const MAGIC: u32 = 0x4154_5441;
/// Ranks do not take the same steps, or have different versions of the library.
pub(crate) const PROTOCOL: Errno = Errno(libc::EPROTO);

/// What a message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    magic: u32,
    /// That of the encodings.
    version: u32,
    /// What the ranks ask each other.
    question: u32,
    /// Why there is no value; 0: there is one.
    error: u32,
    /// Bytes of the value.
    bytes: u64,
}

record!(Header { magic, version, question, error, bytes } if is_valid);

impl Header {
    pub(crate) const fn new(question: u32, error: u32, bytes: u64) -> Self {
        Self { magic: MAGIC, version: VERSION, question, error, bytes }
    }

    fn is_valid(&self) -> bool {
        self.magic == MAGIC
    }
}

/// A message with a value, or with the reason why there is none.
pub(crate) fn message(question: u32, value: Result<&[u8], Errno>) -> Vec<u8> {
    // No callback can report an error that is not positive.
    let error = value.err().map_or(0, |Errno(error)| error.unsigned_abs());
    let value = value.unwrap_or_default();
    let mut out = Header::new(question, error, value.len() as u64).encoded();
    out.extend_from_slice(value);
    out
}

/// Bytes of the whole message that a frame begins.
///
/// # Errors
/// EPROTO: it begins none.
pub(crate) fn length(frame: &[u8]) -> Result<usize, Errno> {
    let mut rest = frame;
    let header = Header::decode(&mut rest).ok_or(PROTOCOL)?;
    let value = usize::try_from(header.bytes).map_err(|_| PROTOCOL)?;
    let length = (frame.len() - rest.len()).checked_add(value);
    length.filter(|length| isize::try_from(*length).is_ok()).ok_or(PROTOCOL)
}

/// The value of a whole message.
///
/// # Errors
/// The error that it reports; EPROTO: it is of another question, or of another version of the library.
pub(crate) fn value_of(question: u32, mut message: &[u8]) -> Result<&[u8], Errno> {
    let header = Header::decode(&mut message).ok_or(PROTOCOL)?;
    let is_known = header.version == VERSION && header.question == question;
    if !is_known || header.bytes != message.len() as u64 {
        return Err(PROTOCOL);
    }
    match i32::try_from(header.error) {
        Ok(0) => Ok(message),
        Ok(error) => Err(Errno(error)),
        Err(_) => Err(PROTOCOL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_value_or_an_error() {
        let long = [7; 1000];
        let sent = message(5, Ok(&long));
        assert_eq!(length(&sent[..FRAME_BYTES]), Ok(sent.len()));
        assert_eq!(value_of(5, &sent), Ok(&long[..]));
        assert_eq!(value_of(5, &message(5, Err(Errno(libc::EPIPE)))), Err(Errno(libc::EPIPE)));
        for wrong in
            [value_of(4, &sent), value_of(5, &sent[1..]), value_of(5, &sent[..999]), value_of(5, b"")]
        {
            assert_eq!(wrong, Err(PROTOCOL));
        }
        let other = Header { version: VERSION + 1, ..Header::new(5, 0, 0) }.encoded();
        assert_eq!(value_of(5, &other), Err(PROTOCOL));
        assert_eq!(length(&[0; FRAME_BYTES]), Err(PROTOCOL));
        assert_eq!(length(&Header::new(5, 0, u64::MAX).encoded()), Err(PROTOCOL));
    }
}
