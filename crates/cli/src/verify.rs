//! `atta verify`: sets up a comparison, runs it and reports the differences.

mod arguments;
mod report;
mod rows;

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;

use atta_ops::verify::{self, Options, Outcome, Progress};
use atta_ops::walk;
use atta_runtime::{Rate, Stop};

pub(crate) use arguments::VerifyArguments;
use rows::Rows;

use crate::run::display::Display;
use crate::run::file::print;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::refused::Refused;
use crate::run::settings::compile;
use crate::run::settings::spill_directory;
use crate::run::signals::Signals;
use crate::size::{binary, grouped};

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &VerifyArguments, signals: &Signals) -> u8 {
    match Run::new(arguments, signals.stop()) {
        Ok(run) => run.compare(signals),
        Err(refused) => refused.tell(),
    }
}

/// State of one run, set up before the comparison starts.
struct Run<'a> {
    arguments: &'a VerifyArguments,
    rows: Rows,
    rate: Option<Rate>,
    rules: Option<walk::Rules>,
    stop: Stop,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a VerifyArguments, stop: Stop) -> Result<Self, Refused> {
        if arguments.source.is_empty() || arguments.target.is_empty() {
            let hint = "the working directory is '.'";
            return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
        }
        let rules = compile(&arguments.visit.rules)?;
        let rows = Rows::new(arguments, stop.clone())?;
        Ok(Self { arguments, rows, rate: arguments.effort.iops.map(Rate::new), rules, stop })
    }

    fn compare(self, signals: &Signals) -> u8 {
        let Self { arguments, rows, rate, rules, stop } = self;
        let walk = walk::Options {
            one_file_system: arguments.visit.one_file_system,
            birth_time: false,
            rules,
            rate: rate.as_ref(),
            threads: arguments.effort.threads,
            memory_bytes: arguments.effort.memory / 2,
            spill_directory: spill_directory(),
            stop,
            ..walk::Options::default()
        };
        let (fields, window) = (arguments.fields(), arguments.modify_window);
        let options = Options { walk, fields, window, chunk: arguments.chunk.bytes() };
        let (source, target) = (arguments.source.as_bytes(), arguments.target.as_bytes());
        let mut display = Display::new(&arguments.tell, false);
        let outcome = verify::run(source, target, &options, &rows, |progress| {
            display.tick(progress.walk.elapsed, || line(progress));
        });
        display.clear();
        match outcome {
            Ok(outcome) => conclude(arguments, rows, &outcome, signals.code()),
            Err(verify::Refused { what, hint, is_usage }) => {
                // A partial table is discarded.
                let _ = rows.finish(false);
                complain(&what, Some(hint.as_ref()));
                if is_usage { exit::USAGE } else { exit::FATAL }
            }
        }
    }
}

/// Reports the result and returns the exit code.
fn conclude(arguments: &VerifyArguments, rows: Rows, outcome: &Outcome, interrupted: Option<u8>) -> u8 {
    let mut fatal = rows.finish(interrupted.is_none());
    if interrupted.is_some() && arguments.output.is_some() {
        complain("interrupted: no table was written", None);
    }
    let text = if arguments.tell.json {
        format!("{:#}\n", report::summary(outcome, interrupted.is_some()))
    } else if arguments.tell.quiet {
        String::new()
    } else {
        report::words(outcome, interrupted.is_some())
    };
    if arguments.row_format().is_some() {
        // An error of standard error cannot be reported.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        fatal = fatal.or_else(|| print(&text).err());
    }
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    interrupted.unwrap_or(if outcome.totals.is_same() { exit::DONE } else { exit::DIFFERENT })
}

fn line(progress: &Progress) -> String {
    let found = &progress.walk.profile;
    format!(
        "{} entries so far, {} compared, {} differences; {} threads",
        grouped(found.entries),
        binary(progress.bytes),
        grouped(progress.differences),
        progress.walk.threads
    )
}
