//! Why an operation does not start.

use std::borrow::Cow;

use atta_entry::{Errno, escape};

/// Why an operation does not start.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// The problem.
    pub what: String,
    /// How to fix it.
    pub hint: Cow<'static, str>,
    /// Whether the arguments are invalid in any case; otherwise the state of the system is the cause.
    pub is_usage: bool,
}

impl Refused {
    pub(crate) fn usage(what: String, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { what, hint: hint.into(), is_usage: true }
    }

    pub(crate) fn failed(step: &str, path: &[u8], errno: Errno, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { what: format!("cannot {step}: {}: {errno}", escape(path)), hint: hint.into(), is_usage: false }
    }
}
