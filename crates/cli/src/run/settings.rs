//! Small helpers for commands on trees.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use atta_entry::Timestamp;
use atta_ops::walk::{BadRule, Rule, Rules};

use super::refused::Refused;

/// Bytes of rows that a thread buffers before a write: few system calls, and a short wait for a reader.
pub(crate) const ROWS_BYTES: usize = 32 << 10;
/// The same on a terminal.
pub(crate) const ROWS_BYTES_TERMINAL: usize = 512;

/// Compiles the rules of `--include` and `--exclude`; `None` if there are none.
pub(crate) fn compile(rules: &[Rule]) -> Result<Option<Rules>, Refused> {
    if rules.is_empty() {
        return Ok(None);
    }
    let refuse = |bad: BadRule| {
        let hint = "patterns have gitignore syntax, as in '*.o', '/top', 'cache/' or 'a/**/z'";
        Refused::usage(bad.to_string(), hint)
    };
    Rules::new(rules).map(Some).map_err(refuse)
}

/// Directory for unnamed files when memory runs out.
pub(crate) fn spill_directory() -> PathBuf {
    atta_runtime::Options::default().spill_directory
}

/// A wall-clock time as RFC 3339 in UTC.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let mut text = Vec::new();
    atta_catalog::timestamp_into(Timestamp { seconds, nanoseconds: since.subsec_nanos() }, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Takes the value that another thread left, if any.
pub(crate) fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}
