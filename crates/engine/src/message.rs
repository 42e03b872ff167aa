//! The messages between ranks and their wire format. `engine.rs` handles them.
//!
//! ```text
//!   thief  --- Request --------------------> victim       giver --- Parcel(sequence) ---> taker
//!          <-- Parcel or Nothing -----------                    <-- Accepted(sequence) -- (not always: `engine.rs`)
//!
//!   child  --- Quiet, Census, Totals, Stop -> parent      parent --- Probe, TotalsTaken, Finish, Farewell -> children
//!   rank   --- Token -> next rank
//! ```
//!
//! Bytes from another rank are validated: a wrong tag, a wrong length or an impossible value is an error, never a panic.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Reason;

/// A batch of tasks as bytes. Only the driver can read them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tasks {
    /// How many tasks there are.
    pub count: u32,
    /// The tasks themselves.
    pub bytes: Arc<[u8]>,
}

/// The census of a subtree: two of the four counters, and whether every rank in it is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Census {
    /// Whether every rank of the subtree was idle when it was asked.
    pub idle: bool,
    /// Parcels sent so far.
    pub sent: u64,
    /// Parcels accepted so far.
    pub received: u64,
}

impl Census {
    /// Combines the censuses of two subtrees.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            idle: self.idle && other.idle,
            sent: self.sent + other.sent,
            received: self.received + other.received,
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The sender asks for work.
    Request {
        /// Whether the sender has no work at all. A sender that only runs low receives surplus tasks only.
        idle: bool,
        /// Whether to send work later if there is none now.
        wait: bool,
    },
    /// Refuses a request: the sender has no tasks to give.
    Nothing,
    /// Tasks that now belong to the receiver.
    Parcel {
        /// Number of the parcel among those from this giver to this taker, from 1 up.
        sequence: u64,
        /// Whether the parcel answers a request. False: it is sent without a current request.
        answer: bool,
        /// The tasks.
        tasks: Tasks,
    },
    /// Acknowledges all parcels up to this number.
    Accepted {
        /// The number.
        sequence: u64,
    },
    /// Reports that a subtree was idle recently. Sent to the parent without a request.
    Quiet(Census),
    /// Asks a subtree for its census.
    Probe {
        /// Number of the wave, from 1 up.
        wave: u32,
    },
    /// Answers a probe.
    Census {
        /// The wave that it answers.
        wave: u32,
        /// The census of the whole subtree.
        census: Census,
    },
    /// The coloured token of the papers.
    Token {
        /// Whether a rank that gave work to a lower rank has held the token.
        black: bool,
    },
    /// The totals of a subtree.
    Totals {
        /// Whether these totals are final.
        last: bool,
        /// The totals, encoded by [`Reduce::encode`](crate::Reduce::encode).
        value: Vec<u8>,
    },
    /// The sender wants the job to end early. Forwarded up to the root.
    Stop(Reason),
    /// The job is over: no rank starts another task.
    Finish(Reason),
    /// All totals have arrived: no more messages follow.
    Farewell,
    /// The receiver has taken in totals that were not final. The next ones may follow.
    TotalsTaken,
}

/// Why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The length does not fit the kind of message.
    Length,
    /// No message has this tag.
    Tag(u8),
    /// A field has an invalid value.
    Value,
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length => f.write_str("a message is cut short or too long"),
            Self::Tag(tag) => write!(f, "no message begins with byte {tag}"),
            Self::Value => f.write_str("a message holds an impossible value"),
        }
    }
}

impl core::error::Error for WireError {}

impl Message {
    /// Writes the message: one byte for its kind, then its fields in little-endian order.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        match self {
            Self::Request { idle, wait } => out.extend([1, u8::from(*idle), u8::from(*wait)]),
            Self::Nothing => out.push(2),
            Self::Parcel { sequence, answer, tasks } => {
                out.extend([3, u8::from(*answer)]);
                out.extend(sequence.to_le_bytes());
                out.extend(tasks.count.to_le_bytes());
                out.extend_from_slice(&tasks.bytes);
            }
            Self::Accepted { sequence } => {
                out.push(4);
                out.extend(sequence.to_le_bytes());
            }
            Self::Quiet(census) => encode_census(&mut out, 5, 0, *census),
            Self::Probe { wave } => {
                out.push(6);
                out.extend(wave.to_le_bytes());
            }
            Self::Census { wave, census } => encode_census(&mut out, 7, *wave, *census),
            Self::Token { black } => out.extend([8, u8::from(*black)]),
            Self::Totals { last, value } => {
                out.extend([9, u8::from(*last)]);
                out.extend_from_slice(value);
            }
            Self::Stop(reason) => out.extend([10, reason.code()]),
            Self::Finish(reason) => out.extend([11, reason.code()]),
            Self::Farewell => out.push(12),
            Self::TotalsTaken => out.push(13),
        }
        out
    }

    /// Length in bytes of the output of [`encode`](Self::encode).
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        match self {
            Self::Nothing | Self::Farewell | Self::TotalsTaken => 1,
            Self::Token { .. } | Self::Stop(_) | Self::Finish(_) => 2,
            Self::Request { .. } => 3,
            Self::Probe { .. } => 5,
            Self::Accepted { .. } => 9,
            Self::Quiet(_) | Self::Census { .. } => 22,
            Self::Parcel { tasks, .. } => 14 + tasks.bytes.len(),
            Self::Totals { value, .. } => 2 + value.len(),
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// The bytes are not the output of [`encode`](Self::encode).
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields(bytes);
        let message = match fields.byte()? {
            1 => Self::Request { idle: fields.flag()?, wait: fields.flag()? },
            2 => Self::Nothing,
            3 => Self::Parcel {
                answer: fields.flag()?,
                sequence: fields.u64()?,
                tasks: Tasks { count: fields.u32()?, bytes: fields.rest().into() },
            },
            4 => Self::Accepted { sequence: fields.u64()? },
            5 => match fields.census()? {
                (0, census) => Self::Quiet(census),
                _ => return Err(WireError::Value),
            },
            6 => Self::Probe { wave: fields.u32()? },
            7 => fields.census().map(|(wave, census)| Self::Census { wave, census })?,
            8 => Self::Token { black: fields.flag()? },
            9 => Self::Totals { last: fields.flag()?, value: fields.rest().to_vec() },
            10 => Self::Stop(fields.reason()?),
            11 => Self::Finish(fields.reason()?),
            12 => Self::Farewell,
            13 => Self::TotalsTaken,
            tag => return Err(WireError::Tag(tag)),
        };
        if fields.0.is_empty() { Ok(message) } else { Err(WireError::Length) }
    }
}

fn encode_census(out: &mut Vec<u8>, tag: u8, wave: u32, census: Census) {
    out.push(tag);
    out.extend(wave.to_le_bytes());
    out.push(u8::from(census.idle));
    out.extend(census.sent.to_le_bytes());
    out.extend(census.received.to_le_bytes());
}

/// The unread bytes of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Length)?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, WireError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Value),
        }
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    fn census(&mut self) -> Result<(u32, Census), WireError> {
        let wave = self.u32()?;
        Ok((wave, Census { idle: self.flag()?, sent: self.u64()?, received: self.u64()? }))
    }

    fn reason(&mut self) -> Result<Reason, WireError> {
        Reason::from_code(self.byte()?).ok_or(WireError::Value)
    }

    fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn census() -> impl Strategy<Value = Census> {
        any::<(bool, u64, u64)>().prop_map(|(idle, sent, received)| Census { idle, sent, received })
    }

    fn message() -> impl Strategy<Value = Message> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let reason = || prop_oneof![Just(Reason::Done), Just(Reason::Stopped), Just(Reason::Failed)];
        prop_oneof![
            any::<(bool, bool)>().prop_map(|(idle, wait)| Message::Request { idle, wait }),
            Just(Message::Nothing),
            (any::<(u64, bool, u32)>(), bytes()).prop_map(|((sequence, answer, count), bytes)| {
                Message::Parcel { sequence, answer, tasks: Tasks { count, bytes: bytes.into() } }
            }),
            any::<u64>().prop_map(|sequence| Message::Accepted { sequence }),
            census().prop_map(Message::Quiet),
            any::<u32>().prop_map(|wave| Message::Probe { wave }),
            (any::<u32>(), census()).prop_map(|(wave, census)| Message::Census { wave, census }),
            any::<bool>().prop_map(|black| Message::Token { black }),
            (any::<bool>(), bytes()).prop_map(|(last, value)| Message::Totals { last, value }),
            reason().prop_map(Message::Stop),
            reason().prop_map(Message::Finish),
            Just(Message::Farewell),
            Just(Message::TotalsTaken),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(message in message()) {
            let bytes = message.encode();
            prop_assert_eq!(bytes.len(), message.encoded_bytes());
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
        }

        #[test]
        fn changed_bytes_never_panic_when_decoded(
            message in message(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = message.encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(read) = Message::decode(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }

        #[test]
        fn truncated_message_is_an_error_or_another(message in message()) {
            let bytes = message.encode();
            for length in 0..bytes.len() {
                if let Ok(read) = Message::decode(&bytes[..length]) {
                    prop_assert_eq!(read.encode(), &bytes[..length]);
                }
            }
        }
    }

    #[test]
    fn decoding_error_names_its_reason() {
        assert_eq!(Message::decode(&[]), Err(WireError::Length));
        assert_eq!(Message::decode(&[0]), Err(WireError::Tag(0)));
        assert_eq!(Message::decode(&[1, 2]), Err(WireError::Value));
        assert_eq!(Message::decode(&[2, 0]), Err(WireError::Length));
        assert_eq!(Message::decode(&[11, 9]), Err(WireError::Value));
    }
}
