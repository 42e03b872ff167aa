//! Why a command cannot go on, said the same by all of them. Failed entries of a walk are no such reason.

use std::io;

use crate::run::file::describe;
use crate::run::messages::complain;
use crate::run::messages::exit;

/// Why a run cannot go on.
#[derive(Debug)]
pub(crate) enum Fatal {
    /// Whoever read standard output went away.
    Closed,
    /// Anything else.
    Failed { what: String, hint: Option<String> },
}

impl Fatal {
    /// Why, in words.
    pub(crate) fn what(self) -> String {
        match self {
            Self::Closed => "standard output was closed".to_owned(),
            Self::Failed { what, .. } => what,
        }
    }

    /// Says why, unless nobody is there to read it; returns the exit code.
    pub(crate) fn tell(self) -> u8 {
        match self {
            Self::Closed => exit::CLOSED,
            Self::Failed { what, hint } => {
                complain(&what, hint.as_deref());
                exit::FATAL
            }
        }
    }
}

/// What an error of standard output means.
pub(crate) fn output_error(error: &io::Error) -> Fatal {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Fatal::Closed;
    }
    Fatal::Failed { what: format!("cannot write to standard output: {}", describe(error)), hint: None }
}
