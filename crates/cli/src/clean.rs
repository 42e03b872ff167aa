//! `atta clean`: lists leftovers of interrupted copies in a directory, and removes them on request.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use atta_entry::escape;
use atta_ops::clean::{self, Leftover, Life, Options, Outcome, Run};
use atta_ops::copy::clean_command;
use atta_ops::walk;
use atta_runtime::Threads;
use clap::Args;
use serde_json::{Value, json};

use crate::run::file::print;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::messages::hint;
use crate::run::settings::spill_directory;
use crate::run::signals::Signals;
use crate::size::{binary, counted};
use crate::threads::parse_threads;

/// List or remove what interrupted copies and unfinished catalogs have left
#[derive(Debug, Args)]
#[command(
    after_help = "A killed copy leaves incomplete files and directories with temporary names (.atta.*) in its target directory and \
    below. This command lists them; with --yes it removes them. It considers only names that the record of an interrupted copy \
    confirms; other names that look alike are data. Temporary files of running copies are kept. Symbolic links are not followed, and \
    other file systems are not entered.\n\n\
    Exit codes: 0 success; 2 invalid usage; 3 completed, but some entries could not be read or removed; 4 fatal error; 130 or 143 \
    interrupted (SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    atta clean /backup            list temporary files and their size\n  \
    atta clean --yes /backup      remove them"
)]
pub(crate) struct CleanArguments {
    /// Target directory of the copy, or its parent directory if the copy was to create TARGET
    #[arg(value_name = "DIR")]
    pub(crate) directory: OsString,

    /// Remove the listed entries
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Number of threads, or auto
    #[arg(short = 'j', long, value_name = "N|auto", default_value = "auto", value_parser = parse_threads)]
    pub(crate) threads: Threads,
}

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &CleanArguments, signals: &Signals) -> u8 {
    let directory = arguments.directory.as_bytes();
    if directory.is_empty() {
        complain("DIR is empty", Some("the working directory is '.'"));
        return exit::USAGE;
    }
    let walk = walk::Options {
        threads: arguments.threads,
        spill_directory: spill_directory(),
        stop: signals.stop(),
        ..walk::Options::default()
    };
    let options = Options { walk, removes: arguments.yes };
    let outcome = match clean::run(directory, &options) {
        Ok(outcome) => outcome,
        Err(clean::Refused { what, hint, .. }) => {
            complain(&what, Some(hint.as_ref()));
            return exit::FATAL;
        }
    };
    outcome.failures.iter().for_each(|failure| complain(&failure.to_string(), None));
    let text = match arguments.json {
        true => format!("{:#}\n", summary(arguments, &outcome)),
        false => words(arguments, &outcome),
    };
    if let Err(fatal) = print(&text) {
        return fatal.report();
    }
    if outcome.names > 0 && !arguments.yes {
        hint(&format!("remove them with: {}", clean_command(directory)));
    }
    signals.code().unwrap_or(if outcome.failed > 0 { exit::PARTIAL } else { exit::DONE })
}

fn life(run: &Run) -> &'static str {
    match run.life {
        Life::Runs => "running",
        Life::Ended => "ended",
        Life::Unknown => "unknown",
    }
}

/// The result as text for people.
fn words(arguments: &CleanArguments, outcome: &Outcome) -> String {
    let mut text = String::new();
    if outcome.stopped {
        text.push_str("interrupted: results are incomplete\n");
    }
    for run in &outcome.runs {
        let note = match run.life {
            Life::Runs => ": left alone",
            Life::Ended => "",
            Life::Unknown => ": of another host or boot, and TARGET has no locks",
        };
        let _ = writeln!(text, "{:<8} {}{note}", life(run), run.holder);
    }
    for Leftover { path, entries, bytes } in &outcome.leftovers {
        let entries = counted(*entries, "entry", "entries");
        let _ = writeln!(text, "  {:>12} {entries:>15}  {}", binary(*bytes), escape(path));
    }
    let more = outcome.names.saturating_sub(outcome.leftovers.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {}", counted(more, "more name", "more names"));
    }
    let done = if arguments.yes { "removed" } else { "would be removed" };
    let entries = counted(outcome.entries, "entry", "entries");
    let _ = match outcome.entries {
        0 => writeln!(text, "nothing to remove"),
        _ => writeln!(text, "{entries}, {} {done}", binary(outcome.bytes)),
    };
    text
}

/// The result as JSON for programs.
fn summary(arguments: &CleanArguments, outcome: &Outcome) -> Value {
    let run = |run: &Run| {
        let holder = &run.holder;
        json!({"host": holder.host, "pid": holder.pid, "started": holder.started, "state": life(run)})
    };
    let leftover = |leftover: &Leftover| {
        let Leftover { path, entries, bytes } = leftover;
        json!({"path": String::from_utf8_lossy(path), "entries": entries, "bytes": bytes})
    };
    json!({
        "schema_version": 1,
        "interrupted": outcome.stopped,
        "removed": arguments.yes,
        "runs": outcome.runs.iter().map(run).collect::<Vec<_>>(),
        "leftovers": outcome.leftovers.iter().map(leftover).collect::<Vec<_>>(),
        "names": outcome.names,
        "entries": outcome.entries,
        "bytes": outcome.bytes,
        "failed": outcome.failed,
    })
}
