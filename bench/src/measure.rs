//! One run of one program: wall time, processor time, peak memory.
//!
//! ```text
//!   atta-bench walk ---> atta-bench measure PROGRAM ... ---> PROGRAM ...
//!        ^                    |  (one child in its life)
//!        +---- one line ------+
//! ```
//!
//! The kernel adds up processor time and peak memory of the children a process has waited for, and the only safe
//! call for it is getrusage of *all* children. So each run gets a launcher of its own that has one child: what
//! getrusage says is that child's. Wall time runs from before the launcher starts the child until it has waited for
//! it, and until a file system has written everything back if that is asked for; the launcher's own start is not in it.
//!
//! The peak counts the launcher's memory too, since the child is the launcher until it has exec'ed: it is never below
//! some 3 MiB. Nothing here repeats, compares or prints.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::fs::syncfs;
use serde::{Deserialize, Serialize};

/// The hidden sub-command that makes the program its own launcher.
pub(crate) const SUB_COMMAND: &str = "measure";

/// Before a directory whose file system is synced when the program has ended; that time counts.
const SYNC: &str = "--sync";

/// What a run took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Wall time.
    pub(crate) seconds: f64,
    /// Processor time in user and kernel mode.
    pub(crate) cpu_seconds: f64,
    /// The largest resident set.
    pub(crate) peak_rss_kib: i64,
}

/// What the launcher reports to the benchmark: the run, and how the program ended (`None`: by a signal).
#[derive(Serialize, Deserialize)]
struct Ending {
    run: Run,
    code: Option<i32>,
}

/// Runs `command` under a launcher. Its output is thrown away; its errors are kept for the case that it fails. Until the file
/// system of `synced` has written back everything the run is not over.
///
/// # Errors
///
/// Why there is no run to count: the program could not be started or did not end with 0, with the last line of what
/// it wrote to its standard error.
pub(crate) fn measure(launcher: &Path, command: &[OsString], synced: Option<&Path>) -> Result<Run, String> {
    let output = Command::new(launcher)
        .arg(SUB_COMMAND)
        .args(synced.iter().flat_map(|directory| [SYNC.as_ref(), directory.as_os_str()]))
        .args(command)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("starting the launcher: {error}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = reason(&complaint).unwrap_or("(no message)");
    let Ok(Ending { run, code }) = serde_json::from_slice(&output.stdout) else {
        return Err(complaint.to_owned());
    };
    match code {
        Some(0) => Ok(run),
        Some(code) => Err(format!("exit code {code}: {complaint}")),
        None => Err(format!("ended by a signal: {complaint}")),
    }
}

/// The last line of what a program wrote that is neither empty nor advice.
fn reason(complaint: &str) -> Option<&str> {
    let advice = ["hint:", "tip:", "Usage:", "For more information"];
    let is_advice = |line: &&str| line.is_empty() || advice.iter().any(|start| line.starts_with(start));
    complaint.lines().map(str::trim).rfind(|line| !is_advice(line))
}

/// The launcher's whole life: runs `command` and writes one line about it to the standard output.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark reads the launcher's output")]
pub(crate) fn launch(command: &[OsString]) -> ExitCode {
    match launched(command) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("starting the program: {error}");
            ExitCode::FAILURE
        }
    }
}

fn launched(command: &[OsString]) -> io::Result<String> {
    let (synced, command) = match command {
        [first, directory, rest @ ..] if first == SYNC => (Some(File::open(directory)?), rest),
        command => (None, command),
    };
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.spawn()?.wait()?;
    if let Some(directory) = &synced {
        syncfs(directory)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu_seconds = in_seconds(usage.user_time()) + in_seconds(usage.system_time());
    let run = Run { seconds, cpu_seconds, peak_rss_kib: usage.max_rss() };
    Ok(serde_json::to_string(&Ending { run, code: status.code() })?)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run is far shorter than the 285 years of microseconds in an f64"
)]
fn in_seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_launcher_tells_what_its_child_took() {
        let line = launched(&words(&["sh", "-c", "sleep 0.05; exit 3"])).unwrap();
        let ending: Ending = serde_json::from_str(&line).unwrap();
        assert_eq!(ending.code, Some(3));
        assert!(ending.run.seconds >= 0.05 && ending.run.peak_rss_kib > 100, "{:?}", ending.run);
        assert!(launched(&words(&["/nowhere/no-program"])).is_err());
        let synced = launched(&words(&[SYNC, "/proc", "true"])).unwrap();
        assert_eq!(serde_json::from_str::<Ending>(&synced).unwrap().code, Some(0));
        assert!(launched(&words(&[SYNC, "/nowhere/directory", "true"])).is_err());
    }

    #[test]
    fn a_reason_is_no_advice() {
        let clap = "error: unexpected argument '--x' found\n\n  tip: '--y'\n\nUsage: a [B]\n\nFor more information, try '--help'.\n";
        assert_eq!(reason(clap), Some("error: unexpected argument '--x' found"));
        assert_eq!(reason("first\nlast\n\nhint: do without\n"), Some("last"));
        assert_eq!(reason("\n"), None);
    }

    #[test]
    fn last_complaint_of_a_silent_launcher_is_reported() {
        // A shell in the launcher's place looks for a script named like the sub-command.
        let complaint = measure(Path::new("sh"), &words(&["x"]), None).unwrap_err();
        assert!(complaint.contains(SUB_COMMAND), "{complaint}");
        let missing = measure(Path::new("/nowhere/no-launcher"), &words(&["x"]), None).unwrap_err();
        assert!(missing.starts_with("starting the launcher"), "{missing}");
    }
}
