//! `atta bcast`: sends one file to every node, and reports where it is and where it is not. Which ranks read and write is the library's part.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use atta_entry::escape;
use atta_mpi_loader::Launcher;
use atta_ops::bcast::{self, Failed, Options, Outcome};
use atta_runtime::{RankError, Session, named};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::run::deaths::Deaths;
use crate::run::file::print;
use crate::run::going::Resumes;
use crate::run::messages::{complain, exit};
use crate::run::printing::Printing;
use crate::run::session;
use crate::run::signals::Signals;
use crate::schedule::RankArguments;
use crate::size::{binary, counted, per_second};

/// Time to wait for other ranks after a signal.
const GIVE_UP: Duration = Duration::from_secs(10);

/// The exit code if another rank was interrupted.
const INTERRUPTED: u8 = 143;

/// When a copy is on storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fsync {
    /// Before it gets its name
    File,
    /// When the system writes it
    None,
}

/// Send a file to the same path on every node
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Run it under mpirun or srun, with at least one rank on each node; without, it copies the file. FILE is read once on each file \
    system that ranks have it on: once in all if that is shared, or if only one node has FILE. The nodes pass it on to each other. One rank \
    of each node writes TARGET, or one of all if TARGET is on a shared file system. If TARGET is a directory, the copy has the name of FILE \
    in it.\n\n\
    The copy has the permissions and times of FILE. It has a temporary name (.atta.*) beside TARGET until it is complete and its digest \
    (BLAKE3) is checked. A killed run may leave such a file: atta clean removes it.\n\n\
    Exit codes: 0 success; 2 invalid usage; 3 some nodes have no copy; 4 fatal error, or TARGET exists: no node has a copy; 130 or 143 \
    interrupted (SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    mpirun --map-by ppr:1:node atta bcast /home/me/app.sqsh /tmp/app.sqsh\n  \
    srun --ntasks-per-node 1 atta bcast --force input.dat /dev/shm/"
)]
pub(crate) struct BcastArguments {
    /// File to send: regular, and at least one node has it
    #[arg(value_name = "FILE")]
    file: OsString,

    /// Path of the copy on each node, or an existing directory
    #[arg(value_name = "TARGET")]
    target: OsString,

    /// Replace an existing TARGET
    #[arg(short, long)]
    force: bool,

    /// When a copy is on storage; file systems in memory have none
    #[arg(long, value_enum, value_name = "WHEN", default_value = "file")]
    fsync: Fsync,

    /// Print to a file instead of standard output; an existing file is overwritten
    #[arg(long, value_name = "FILE")]
    print_to: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

impl Resumes for BcastArguments {
    /// It has no job.
    fn resume(&mut self, _directory: PathBuf, _deaths: Deaths) {}
}

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &BcastArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    let schedule = RankArguments::default();
    let printing = Printing::of_summary(arguments.print_to.as_deref(), (arguments.quiet, arguments.json));
    let given = session::Given {
        launcher,
        schedule: &schedule,
        signals,
        give_up: GIVE_UP,
        printing,
        reads_once: false,
    };
    session::run(&given, arguments, |arguments, session| send(arguments, signals, session))
}

fn send(arguments: &BcastArguments, signals: &Signals, session: &mut Session<'_>) -> Result<u8, RankError> {
    let began = Instant::now();
    let options = Options { force: arguments.force, syncs: arguments.fsync == Fsync::File };
    let paths = (arguments.file.as_bytes(), arguments.target.as_bytes());
    let is_first = session.is_first();
    match bcast::run(session, paths, options)? {
        Err(refused) => {
            if is_first {
                let hint = Some(refused.hint.as_ref()).filter(|hint| !hint.is_empty());
                complain(&refused.what, hint);
            }
            Ok(if refused.is_usage { exit::USAGE } else { exit::FATAL })
        }
        Ok(outcome) if is_first => Ok(report(arguments, signals, &outcome, began.elapsed())),
        Ok(outcome) => Ok(code_of(&outcome, signals)),
    }
}

/// A signal after the copies have got their names changes nothing.
fn code_of(outcome: &Outcome, signals: &Signals) -> u8 {
    match (outcome.stopped, outcome.failed.is_empty()) {
        (true, _) => signals.code().unwrap_or(INTERRUPTED),
        (false, true) => exit::DONE,
        (false, false) => exit::PARTIAL,
    }
}

/// Reports the result, on the first rank; returns the exit code.
fn report(arguments: &BcastArguments, signals: &Signals, outcome: &Outcome, elapsed: Duration) -> u8 {
    for Failed { rank, host, reason } in &outcome.failed {
        complain(&format!("{} (rank {rank}): {reason}", escape(host.as_bytes())), None);
    }
    if outcome.stopped {
        complain("interrupted: no node has a copy", None);
    }
    let text = match (arguments.json, arguments.quiet) {
        (true, _) => format!("{:#}\n", summary(arguments, outcome, elapsed)),
        (false, false) => words(outcome, elapsed),
        (false, true) => String::new(),
    };
    match print(&text) {
        Ok(()) => code_of(outcome, signals),
        Err(fatal) => fatal.report(),
    }
}

/// The result as text for people.
fn words(outcome: &Outcome, elapsed: Duration) -> String {
    let Outcome { size, readers, written, unchanged, shared, failed, .. } = outcome;
    let mut text = match written {
        0 => "nothing written\n".to_owned(),
        written => {
            let rate = binary(per_second(size.saturating_mul(*written), elapsed));
            format!(
                "{} to {}, read on {}: {:.1} s, {rate}/s written\n",
                binary(*size),
                counted(*written, "node", "nodes"),
                named(readers),
                elapsed.as_secs_f64(),
            )
        }
    };
    if *unchanged > 0 {
        text += &format!("{}: TARGET is FILE itself\n", counted(*unchanged, "node", "nodes"));
    }
    if *shared > 0 {
        text += &format!(
            "{}: TARGET is on a shared file system, written by another node\n",
            counted(*shared, "node", "nodes")
        );
    }
    if !failed.is_empty() {
        text += &format!("{} without a copy\n", counted(failed.len() as u64, "node", "nodes"));
    }
    text
}

/// The result as JSON for programs.
fn summary(arguments: &BcastArguments, outcome: &Outcome, elapsed: Duration) -> Value {
    let failed = |failed: &Failed| {
        let Failed { rank, host, reason } = failed;
        json!({"rank": rank, "host": host, "reason": reason})
    };
    json!({
        "schema_version": 1,
        "file": arguments.file.to_string_lossy(),
        "target": arguments.target.to_string_lossy(),
        "interrupted": outcome.stopped,
        "bytes": outcome.size,
        "digest": outcome.digest.map(|digest| atta_ops::resume::hex(&digest)),
        "readers": outcome.readers,
        "written": outcome.written,
        "unchanged": outcome.unchanged,
        "shared": outcome.shared,
        "failed": outcome.failed.iter().map(failed).collect::<Vec<_>>(),
        "elapsed_seconds": elapsed.as_secs_f64(),
    })
}
