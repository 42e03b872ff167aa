//! Why a command does not start.

use super::messages::{complain, exit};

/// Why a command does not start.
pub(crate) struct Refused {
    code: u8,
    what: String,
    hint: Option<String>,
}

impl Refused {
    pub(crate) fn usage(what: String, hint: &str) -> Self {
        Self { code: exit::USAGE, what, hint: Some(hint.to_owned()) }
    }

    /// There is nothing to do. With an empty `what`, nothing is said.
    pub(crate) fn done(code: u8, what: String, hint: &str) -> Self {
        Self { code, what, hint: Some(hint.to_owned()) }
    }

    pub(crate) fn fatal(what: String) -> Self {
        Self::fatal_with(what, None)
    }

    pub(crate) fn fatal_with(what: String, hint: Option<String>) -> Self {
        Self { code: exit::FATAL, what, hint }
    }

    /// The reason.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Reports the reason; returns the exit code.
    pub(crate) fn report(self) -> u8 {
        if !self.what.is_empty() {
            complain(&self.what, self.hint.as_deref());
        }
        self.code
    }
}
