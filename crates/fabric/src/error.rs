//! Errors between ranks. No I/O; the caller decides about the job.

use std::error::Error;
use std::fmt;

/// Why a message could not be sent or received, or the fabric could not be left.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FabricError {
    /// A message was for a rank that the job does not have.
    NoSuchRank {
        /// The rank given.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// A message is longer than the fabric can carry.
    TooLarge {
        /// Length of the message.
        bytes: usize,
        /// The longest message that the fabric can carry.
        bytes_max: usize,
    },
    /// A message was for a rank that has left.
    Gone {
        /// The rank that has left.
        rank: u32,
    },
    /// A rank sent bytes that mean nothing.
    Invalid {
        /// The rank.
        from: u32,
    },
    /// The other ranks go on without this one.
    Excluded,
    /// The job was aborted by a rank.
    Aborted {
        /// The code given to [`Endpoint::abort`](crate::Endpoint::abort).
        exit_code: i32,
    },
    /// The endpoint was asked to leave before all its messages had gone.
    Unsent {
        /// The number of messages that had not gone.
        messages: usize,
    },
    /// The library that carries the messages failed.
    Transport {
        /// The call that failed, as its library names it.
        operation: &'static str,
        /// The library's error code.
        code: i32,
        /// The library's error text.
        text: String,
    },
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRank { rank, size } => {
                write!(f, "cannot send: rank {rank}: the job has {size} ranks")
            }
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "cannot send: a message of {bytes} bytes: {bytes_max} are the most")
            }
            Self::Gone { rank } => write!(f, "cannot send: rank {rank}: it has left"),
            Self::Invalid { from } => write!(f, "rank {from} sent a message that means nothing"),
            Self::Excluded => f.write_str("the other ranks go on without this one"),
            Self::Aborted { exit_code } => write!(f, "the job was aborted with exit code {exit_code}"),
            Self::Unsent { messages } => {
                write!(f, "cannot leave the other ranks: {messages} messages have not gone yet")
            }
            Self::Transport { operation, code, text } => write!(f, "{operation} failed: {text} ({code})"),
        }
    }
}

impl Error for FabricError {}
