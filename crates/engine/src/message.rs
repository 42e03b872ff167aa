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
//! Bytes from another rank are validated (`atta_code`): a wrong tag, a wrong length or an impossible value is an error, never a panic.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use atta_code::Code;

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
        /// The totals, encoded.
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
    /// There are no bytes, or more than the message has.
    Length,
    /// No message has this tag.
    Tag(u8),
    /// A field is cut short or has an invalid value.
    Value,
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length => f.write_str("a message is empty or too long"),
            Self::Tag(tag) => write!(f, "no message begins with byte {tag}"),
            Self::Value => f.write_str("a message is cut short or holds an impossible value"),
        }
    }
}

impl core::error::Error for WireError {}

atta_code::record!(Tasks { count, bytes });
atta_code::record!(Census { idle, sent, received });

atta_code::choice!(Message {
    1 => Request { idle, wait },
    2 => Nothing,
    3 => Parcel { sequence, answer, tasks },
    4 => Accepted { sequence },
    5 => Quiet(census),
    6 => Probe { wave },
    7 => Census { wave, census },
    8 => Token { black },
    9 => Totals { last, value },
    10 => Stop(reason),
    11 => Finish(reason),
    12 => Farewell,
    13 => TotalsTaken,
});

/// The first bytes of messages.
const TAGS: RangeInclusive<u8> = 1..=13;

impl Message {
    /// The message as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.encoded()
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// The bytes are not the output of [`encode`](Self::encode).
    pub fn decode(mut bytes: &[u8]) -> Result<Self, WireError> {
        let tag = *bytes.first().ok_or(WireError::Length)?;
        if !TAGS.contains(&tag) {
            return Err(WireError::Tag(tag));
        }
        let message = Code::decode(&mut bytes).ok_or(WireError::Value)?;
        if bytes.is_empty() { Ok(message) } else { Err(WireError::Length) }
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
