//! rsync as a second opinion on a copy: it shares no code with this project and not its idea of what a copy is. It compares what
//! `lstat`, `getxattr` and the access lists say, and no bytes of files whose size and time are the same.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use atta_testkit::skip;

/// What rsync would do to make a directory what another one is, a line each; none, after saying so, where there is no rsync.
pub(crate) fn changes_by_rsync(test: &str, source: &Path, target: &Path) -> Option<Vec<String>> {
    let inside = |path: &Path| {
        let mut path: OsString = path.into();
        path.push("/");
        path
    };
    let mut command = Command::new("rsync");
    command.args(["-aHAXn", "--delete", "--itemize-changes", "--"]).arg(inside(source)).arg(inside(target));
    let output = match command.env("LC_ALL", "C").stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip::skipped(test, "the comparison by rsync: it is not installed");
            return None;
        }
        output => output.expect("run rsync"),
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "rsync: {}: {complaint}", output.status);
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// rsync finds nothing to do.
pub(crate) fn assert_same_by_rsync(test: &str, source: &Path, target: &Path) {
    if let Some(changes) = changes_by_rsync(test, source, target) {
        assert_eq!(changes, [] as [String; 0], "{test}: {}", target.display());
    }
}
