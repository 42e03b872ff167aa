//! `atta copy`: sets a copy up, lets it run, and says what was copied and what was not.

mod arguments;
mod keep;
mod owners;
mod plans;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use atta_entry::Failure;
use atta_ops::copy::{self, Keep, NotKept, Options, Outcome, Planned, Progress, Watch};
use atta_ops::walk;
use atta_runtime::{Rate, Stop};
use indicatif::ProgressBar;
use serde_json::{Value, json};

pub(crate) use arguments::CopyArguments;
use arguments::{DigestKind, ReflinkWhen};
use plans::Plans;

use crate::fatal::Fatal;
use crate::file::print;
use crate::signals::Signals;
use crate::size::{binary, grouped};
use crate::walk::{Failures, ProgressWhen, Refused, Starts, bar, compile, spill_directory, take};
use crate::{complain, exit};

/// Between two lines where there is no terminal.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &CopyArguments, signals: &Signals) -> u8 {
    match Run::new(arguments) {
        Ok(run) => run.copy(signals),
        Err(refused) => refused.tell(),
    }
}

/// What one run needs, made before anything is copied.
struct Run<'a> {
    arguments: &'a CopyArguments,
    failures: Failures,
    rate: Option<Rate>,
    rules: Option<walk::Rules>,
    keep: Keep,
}

/// Tells of what was not copied, and of what would be.
struct Told<'a> {
    failures: &'a Failures,
    /// What would be made, if that is to be told.
    plans: Option<Plans>,
}

impl Watch for Told<'_> {
    fn failure(&self, failure: &Failure<'_>) {
        self.failures.add(failure);
    }

    fn planned(&self, planned: Planned, path: &[u8]) {
        if let Some(plans) = &self.plans {
            plans.add(planned, path);
        }
    }
}

impl<'a> Run<'a> {
    fn new(arguments: &'a CopyArguments) -> Result<Self, Refused> {
        if arguments.paths.iter().any(|path| path.is_empty()) {
            let hint = "the working directory is '.'";
            return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
        }
        if arguments.reflink == ReflinkWhen::Always && arguments.digest == DigestKind::Blake3 {
            let what = "--reflink always, and a digest of bytes that nobody reads".to_owned();
            return Err(Refused::usage(what, "add --digest none"));
        }
        let (rules, keep) = (compile(&arguments.rules)?, arguments.keep.keep()?);
        let list = arguments.from_list.as_deref();
        let failures = Failures::new(arguments.verbose, arguments.errors.as_deref(), list)?;
        Ok(Self { arguments, failures, rate: arguments.iops.map(Rate::new), rules, keep })
    }

    fn copy(self, signals: &Signals) -> u8 {
        let Self { arguments, failures, rate, rules, keep } = self;
        let stop = Stop::new();
        let options = options(arguments, rate.as_ref(), rules, keep, &stop);
        let paths: Vec<_> = arguments.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let Some((target, sources)) = paths.split_last() else { return exit::USAGE };
        let mut display = Display::new(arguments);
        let plans = (arguments.dry_run && arguments.verbose).then(Plans::default);
        let told = Told { failures: &failures, plans };
        let observe = |progress: &Progress| {
            if signals.code().is_some() {
                stop.set();
            }
            display.tick(progress);
        };
        let mut list_error = None;
        let outcome = match &arguments.from_list {
            None => copy::run(sources, target, &options, &told, observe),
            Some(list) => match Starts::listed(list, sources.to_vec(), stop.clone()) {
                Ok(starts) => {
                    let error = starts.error();
                    let outcome = copy::run_listed(sources, starts, target, &options, &told, observe);
                    list_error = take(&error);
                    outcome
                }
                Err(refused) => return refused.tell(),
            },
        };
        display.clear();
        let fatal = list_error.or_else(|| told.plans.as_ref().and_then(|plans| plans.finish().err()));
        match outcome {
            Ok(outcome) => conclude(arguments, &failures, &outcome, signals.code(), fatal),
            Err(copy::Refused { what, hint, is_usage }) => {
                complain(&what, Some(hint));
                if is_usage { exit::USAGE } else { exit::FATAL }
            }
        }
    }
}

/// The copy's part of the arguments.
fn options<'a>(
    arguments: &CopyArguments,
    rate: Option<&'a Rate>,
    rules: Option<walk::Rules>,
    keep: Keep,
    stop: &Stop,
) -> Options<'a> {
    let walk = walk::Options {
        one_file_system: arguments.one_file_system,
        birth_time: false,
        rules,
        rate,
        threads: arguments.threads,
        memory_bytes: arguments.memory / 2,
        spill_directory: spill_directory(),
        stop: stop.clone(),
        ..walk::Options::default()
    };
    Options {
        walk,
        fsync: arguments.fsync.into(),
        digest: arguments.digest == DigestKind::Blake3,
        chunk: arguments.chunk.bytes(),
        keep,
        existing: arguments.existing(),
        in_place: arguments.in_place,
        is_rehearsal: arguments.dry_run,
        direct: arguments.direct,
        reflink: arguments.reflink.into(),
        bandwidth: arguments.bandwidth.map(|bytes| Arc::new(Rate::per_second(bytes))),
    }
}

/// Says what was done, and with which code to exit.
fn conclude(
    arguments: &CopyArguments,
    failures: &Failures,
    outcome: &Outcome,
    interrupted: Option<u8>,
    fatal: Option<Fatal>,
) -> u8 {
    let mut fatal = fatal.or_else(|| failures.flush().err());
    let text = if arguments.json {
        format!("{:#}\n", summary(arguments, outcome, interrupted.is_some()))
    } else if arguments.quiet {
        String::new()
    } else {
        words(arguments, outcome, interrupted.is_some())
    };
    if arguments.dry_run && arguments.verbose {
        // Standard output has the names.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        fatal = fatal.or_else(|| print(&text).err());
    }
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    interrupted.unwrap_or(if outcome.totals.failed() > 0 { exit::PARTIAL } else { exit::DONE })
}

fn words(arguments: &CopyArguments, outcome: &Outcome, was_interrupted: bool) -> String {
    let totals = &outcome.totals;
    let seconds = outcome.elapsed.as_secs_f64();
    let mut text = String::new();
    if was_interrupted {
        text.push_str("interrupted: this is not all\n");
    }
    let kinds = [
        (totals.files, "file", "files"),
        (totals.directories, "directory", "directories"),
        (totals.symlinks, "symlink", "symlinks"),
        (totals.hard_links, "hard link", "hard links"),
        (totals.specials, "special file", "special files"),
    ];
    let counted = kinds.iter().filter(|(count, ..)| *count > 0);
    let counted = counted.map(|(count, one, many)| counted_word(*count, one, many));
    let counted = counted.collect::<Vec<_>>().join(", ");
    let counted = if counted.is_empty() { "nothing".to_owned() } else { counted };
    let bytes = binary(totals.bytes);
    if arguments.dry_run {
        let _ = writeln!(text, "{counted} would be copied, {bytes}; nothing was written");
    } else {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and rounded"
        )]
        let rate = (totals.bytes as f64 / seconds.max(1e-9)) as u64;
        let _ = writeln!(text, "{counted} copied, {bytes} in {seconds:.2} s ({}/s)", binary(rate));
    }
    if let Some(signature) = &outcome.signature {
        let _ = writeln!(text, "signature {}", signature.digest());
    }
    if totals.skipped > 0 {
        let left = counted_word(totals.skipped, "entry", "entries");
        let why = if arguments.dry_run { "" } else { "; not read, so there is no signature" };
        let _ = writeln!(text, "skipped: {left} already there{why}");
    }
    let notes = [
        (totals.cloned, "share their bytes with their sources"),
        (totals.not_direct, "went through the page cache although --direct was asked for"),
    ];
    for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{} {what}", counted_word(count, "file", "files"));
    }
    for (count, what) in not_kept(&totals.not_kept) {
        let _ = writeln!(text, "not kept: {} {what}", grouped(count));
    }
    if totals.failed() > 0 {
        let _ = writeln!(text, "not copied: {}", counted_word(totals.failed(), "entry", "entries"));
    }
    text
}

fn counted_word(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// What the target does not have, and how often.
fn not_kept(not_kept: &NotKept) -> impl Iterator<Item = (u64, &'static str)> {
    let all = [
        (not_kept.owners, "owners or groups: only root may give files away"),
        (not_kept.set_id_bits, "set-id bits, of files whose owner was not kept"),
        (not_kept.extended, "extended attributes that the target does not take"),
        (not_kept.hard_links, "hard links: these names have files of their own"),
    ];
    all.into_iter().filter(|(count, _)| *count > 0)
}

/// The same for machines.
fn summary(arguments: &CopyArguments, outcome: &Outcome, was_interrupted: bool) -> Value {
    let totals = &outcome.totals;
    let errors: std::collections::BTreeMap<_, _> =
        totals.failures.iter().map(|(errno, count)| (errno.label(), count)).collect();
    json!({
        "schema_version": 1,
        "interrupted": was_interrupted,
        "dry_run": arguments.dry_run,
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "files": totals.files,
        "bytes": totals.bytes,
        "directories": totals.directories,
        "symlinks": totals.symlinks,
        "hard_links": totals.hard_links,
        "special_files": totals.specials,
        "skipped": totals.skipped,
        "cloned": totals.cloned,
        "not_direct": totals.not_direct,
        "failed": totals.failed(),
        "changed": totals.changed,
        "errors": errors,
        "not_kept": {
            "owners": totals.not_kept.owners,
            "set_id_bits": totals.not_kept.set_id_bits,
            "extended_attributes": totals.not_kept.extended,
            "hard_links": totals.not_kept.hard_links,
        },
        "signature": outcome.signature.as_ref().map(|signature| signature.digest().to_string()),
        "threads": outcome.threads.len(),
    })
}

/// Shows how it goes.
struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    next: Duration,
}

impl Display {
    fn new(arguments: &CopyArguments) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let (shown, lines) = match arguments.progress {
            ProgressWhen::Auto => (terminal && !arguments.quiet, false),
            ProgressWhen::Always => (terminal, !terminal),
            ProgressWhen::Never => (false, false),
        };
        Self { bar: shown.then(bar), lines, next: PERIOD }
    }

    fn tick(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_message(line(progress));
            bar.tick();
        }
        let elapsed = progress.walk.elapsed;
        if self.lines && elapsed >= self.next {
            self.next = elapsed + PERIOD;
            // Nothing can be said of an error of standard error.
            let _ = writeln!(std::io::stderr(), "{}", line(progress));
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(progress: &Progress) -> String {
    let found = &progress.walk.profile;
    format!(
        "{} files, {} copied of {} entries, {} found so far; {} threads",
        grouped(progress.files),
        binary(progress.bytes),
        grouped(found.entries),
        binary(found.bytes),
        progress.walk.threads
    )
}
