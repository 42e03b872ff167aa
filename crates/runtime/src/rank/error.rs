//! Why a rank of a session cannot continue.

use atta_engine::{ProtocolError, Rank, WireError};
use atta_fabric::FabricError;

/// Why a rank cannot continue. The other ranks must be ended, too: see [`Session::fail`](crate::Session::fail).
#[derive(Debug)]
pub enum RankError {
    /// The fabric failed.
    Fabric(FabricError),
    /// A rank sent bytes that are not a valid message.
    Wire {
        /// The rank.
        from: Rank,
        /// The decoding error.
        error: WireError,
    },
    /// A rank sent a message that is not valid in the current state.
    Protocol(ProtocolError),
    /// A rank sent invalid tasks.
    Tasks {
        /// The rank.
        from: Rank,
        /// The error.
        why: String,
    },
    /// A task must leave this rank but cannot.
    Stuck(&'static str),
    /// Another rank cannot continue. Only the first rank gets this.
    Failed {
        /// The rank.
        rank: u32,
        /// Its reason.
        why: String,
    },
    /// Ranks of the view have died: see [`Group`](crate::Group).
    Lost {
        /// Their numbers in the view.
        ranks: Vec<u32>,
    },
    /// This rank was asked to leave the others.
    Leaves,
    /// The other ranks believe that this one is dead: it must end at once.
    Excluded,
    /// The session was asked to end, and other ranks did not answer in time.
    Silent {
        /// The awaited ranks, at most 8.
        ranks: Vec<u32>,
    },
}

impl RankError {
    /// Whether ranks have died, and the others go on in another session.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the session is over here, and others go on: this rank keeps what it has done.
    #[must_use]
    pub fn goes_on_elsewhere(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Leaves | Self::Excluded)
    }
}

impl std::fmt::Display for RankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fabric(error) => write!(f, "{error}"),
            Self::Wire { from, error } => write!(f, "from rank {from}: {error}"),
            Self::Protocol(error) => write!(f, "{error}"),
            Self::Tasks { from, why } => write!(f, "rank {from} sent tasks that are none: {why}"),
            Self::Stuck(why) => f.write_str(why),
            Self::Failed { rank, why } => write!(f, "rank {rank} failed: {why}"),
            Self::Lost { ranks } if ranks.len() == 1 => write!(f, "{} has died", named(ranks)),
            Self::Lost { ranks } => write!(f, "{} have died", named(ranks)),
            Self::Leaves => f.write_str("it was asked to leave the other ranks"),
            Self::Excluded => f.write_str("the other ranks go on without this one, as if it had died"),
            Self::Silent { ranks } => {
                write!(f, "the run was asked to end, but there was no answer from {}", named(ranks))
            }
        }
    }
}

impl std::error::Error for RankError {}

impl From<FabricError> for RankError {
    fn from(error: FabricError) -> Self {
        match error {
            FabricError::Invalid { from } => Self::Wire { from: Rank(from), error: WireError::Value },
            FabricError::Excluded => Self::Excluded,
            error => Self::Fabric(error),
        }
    }
}

impl From<ProtocolError> for RankError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

/// Ranks as a message names them: `rank 3`, or `ranks 3, 5 and 8`.
#[must_use]
pub fn named(ranks: &[u32]) -> String {
    match ranks {
        [] => "other ranks".to_owned(),
        [rank] => format!("rank {rank}"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_in_words() {
        assert_eq!(
            [&[][..], &[3], &[3, 5], &[3, 5, 8]].map(named),
            ["other ranks", "rank 3", "ranks 3 and 5", "ranks 3, 5 and 8"]
        );
    }
}
