//! One way to say that a test could not run here: a line on standard error that a reader of the run can search for.
//! Does not decide what is worth skipping beyond "not permitted" and "not available".

use std::io::{self, Write};

/// Says `skipped: TEST: REASON` on standard error, past the test harness's capture.
pub fn skipped(test: &str, reason: &str) {
    // If the skip cannot be reported, the result of the test still stands.
    let _unheard = writeln!(io::stderr().lock(), "skipped: {test}: {reason}");
}

/// Says something that a destructor cannot return.
pub(crate) fn note(message: &str) {
    let _unheard = writeln!(io::stderr().lock(), "testkit: {message}");
}

/// Whether an error means that this machine cannot do it (no privilege, no device, no such program), rather than that
/// it went wrong.
#[must_use]
pub fn is_lack(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
}

/// What a test needs, or none after saying why it is skipped.
///
/// # Panics
/// On an error that is no lack of the machine: then the test must fail.
pub fn unless_available<T>(test: &str, outcome: io::Result<T>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) if is_lack(&error) => {
            skipped(test, &error.to_string());
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    // No lack is passed to unless_available here: its line would count as a skipped test.
    #[test]
    fn lack_is_no_failure_and_value_is_kept() {
        assert_eq!(unless_available("t", Ok(3)), Some(3));
        assert!(is_lack(&io::Error::new(io::ErrorKind::Unsupported, "no FUSE")));
        assert!(is_lack(&io::ErrorKind::PermissionDenied.into()));
        assert!(!is_lack(&io::ErrorKind::NotFound.into()));
    }

    #[test]
    #[should_panic(expected = "t: other")]
    fn failure_is_no_lack() {
        let _none = unless_available::<()>("t", Err(io::Error::other("other")));
    }
}
