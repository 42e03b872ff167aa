//! Reasons why a command cannot continue, reported in the same way by all commands. Failed entries of a walk are no such reason.

use std::io;

use crate::output;
use crate::run::file::describe;
use crate::run::messages::complain;
use crate::run::messages::exit;

/// Why a run cannot continue.
#[derive(Debug)]
pub(crate) enum Fatal {
    /// The reader of standard output closed it.
    Closed,
    /// Anything else.
    Failed { what: String, hint: Option<String> },
}

impl Fatal {
    /// Another rank sent data that cannot be decoded.
    pub(crate) fn protocol(rank: u32) -> Self {
        let what = format!("protocol error: cannot decode data from rank {rank}");
        Self::Failed { what, hint: Some("run the same atta on all ranks".to_owned()) }
    }

    /// Without its advice, where that does not hold.
    pub(crate) fn without_hint(self) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Failed { what, .. } => Self::Failed { what, hint: None },
        }
    }

    /// The reason, as text.
    pub(crate) fn what(self) -> String {
        match self {
            Self::Closed => "standard output was closed".to_owned(),
            Self::Failed { what, .. } => what,
        }
    }

    /// Reports the reason, unless standard output was closed; returns the exit code.
    pub(crate) fn report(self) -> u8 {
        match self {
            Self::Closed => exit::CLOSED,
            Self::Failed { what, hint } => {
                complain(&what, hint.as_deref());
                exit::FATAL
            }
        }
    }
}

/// The reason for an error of standard output.
pub(crate) fn output_error(error: &io::Error) -> Fatal {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Fatal::Closed;
    }
    Fatal::Failed { what: format!("cannot write to {}: {}", output::name(), describe(error)), hint: None }
}
