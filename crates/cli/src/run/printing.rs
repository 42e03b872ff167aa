//! Where standard output goes: where the caller of the program said, or into a file (`--print-to`), which then takes its place for the
//! whole run. Writing to it is `output`'s part.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::failures::is_same_file;
use super::fatal::output_error;
use super::file::{describe, open_kept, printable};
use super::messages::hint;
use super::refused::Refused;
use crate::arguments::ReportArguments;
use crate::output;

/// What a command prints on standard output, and where.
pub(crate) struct Printing<'a> {
    /// The file that takes the place of standard output.
    to: Option<&'a Path>,
    /// Whether rows are printed, and not just a summary.
    has_rows: bool,
    /// A file that the command reads, and one that it writes. Neither can be `to`.
    others: [Option<&'a Path>; 2],
    is_quiet: bool,
    is_json: bool,
    /// When to warn of a thread that waits for a file system.
    stall_limit: Option<Duration>,
}

impl<'a> Printing<'a> {
    /// Of a command that reads or writes another file, if it does. `has_rows`: it prints rows, and not just a summary.
    pub(crate) fn of(report: &'a ReportArguments, has_rows: bool, input: Option<&'a Path>) -> Self {
        let others = [input, report.errors.as_deref()];
        let (is_quiet, stall_limit) = (report.quiet, report.stall_limit());
        let (to, is_json) = (report.print_to.as_deref(), report.json);
        Self { to, has_rows, others, is_quiet, is_json, stall_limit }
    }

    /// Of a command that prints one text on standard output.
    pub(crate) fn of_text(is_json: bool) -> Self {
        Self { to: None, has_rows: true, others: [None; 2], is_quiet: false, is_json, stall_limit: None }
    }

    /// Of a command that prints a summary only. The flags: whether it is quiet, and prints JSON.
    pub(crate) fn of_summary(to: Option<&'a Path>, (is_quiet, is_json): (bool, bool)) -> Self {
        Self { to, has_rows: false, others: [None, None], is_quiet, is_json, stall_limit: None }
    }

    /// Whether hints and reports of long waits are suppressed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether summaries are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// When to warn of a thread that waits for a file system.
    pub(crate) fn stall_limit(&self) -> Option<Duration> {
        self.stall_limit
    }

    /// Whether a file takes the place of standard output.
    pub(crate) fn has_file(&self) -> bool {
        self.to.is_some()
    }

    /// Puts the file in the place of standard output. An existing file is overwritten when something is printed, or at the end.
    pub(crate) fn open(&self) -> Result<(), Refused> {
        let Some(path) = self.to else {
            let is_lost = self.has_rows && output::was_closed();
            return if is_lost {
                Err(Refused::fatal(output_error(&Errno::BADF.into()).what()))
            } else {
                Ok(())
            };
        };
        let name = printable(path);
        if self.others.into_iter().flatten().any(|other| other == path || is_same_file(other, path)) {
            let what = format!("--print-to is a file that the command reads or writes otherwise: {name}");
            return Err(Refused::usage(what, "name a new file"));
        }
        let opened = open_kept(path).and_then(|file| output::replace(&file, name.clone()));
        opened.map_err(|error| Refused::fatal(format!("cannot print to {name}: {}", describe(&error))))
    }

    /// Warns that the launcher may lose rows. Open MPI 5 passes on the output of a rank on another host, and when the job ends it drops
    /// what its own reader has not taken by then. The exit code is still 0.
    pub(crate) fn warn_of_launcher(&self, is_open_mpi_5: bool, has_hosts: bool) {
        let goes_there = self.has_rows && self.to.is_none() && !output::is_file();
        if is_open_mpi_5 && has_hosts && goes_there && !self.is_quiet {
            hint(
                "with several hosts mpirun can lose rows if its output is a pipe; --print-to FILE avoids this",
            );
        }
    }
}
