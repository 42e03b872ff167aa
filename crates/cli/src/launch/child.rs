//! A process of COMMAND: started, and waited for while signals are passed on to it. Its output is not read.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Pid;

use super::signals::{LOOK, Signals};
use crate::run::file::{describe, printable};
use crate::run::refused::Refused;

/// Runs a command to its end.
pub(super) fn run(words: &[OsString], stdin: Stdio, signals: &Signals) -> Result<ExitStatus, Refused> {
    let mut child = command(words).stdin(stdin).spawn().map_err(|error| not_started(words, &error))?;
    wait(&mut child, signals).map_err(|error| Refused::fatal(format!("cannot wait for COMMAND: {error}")))
}

/// A command of these words.
pub(super) fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(words.first().cloned().unwrap_or_default());
    command.args(words.get(1..).unwrap_or_default());
    command
}

/// Why a command was not started.
pub(super) fn not_started(words: &[OsString], error: &io::Error) -> Refused {
    let name = printable(words.first().map_or(Path::new(""), Path::new));
    let what = format!("cannot start COMMAND: {name}: {}", describe(error));
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::AGAIN | rustix::io::Errno::NOMEM | rustix::io::Errno::TOOBIG) => {
            Refused::fatal(what)
        }
        _ => Refused::usage(what, "COMMAND begins with a launcher, such as mpirun or srun, or with atta"),
    }
}

fn wait(child: &mut Child, signals: &Signals) -> io::Result<ExitStatus> {
    let process = Pid::from_child(child);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        signals.pass_on(process);
        std::thread::sleep(LOOK);
    }
}
