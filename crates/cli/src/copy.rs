//! `atta copy`: sets a copy up, lets it run, and says what was copied and what was not.

mod arguments;
mod ranks;

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use atta_entry::Failure;
use atta_mpi_loader::Launcher;
use atta_ops::copy::{self, NotKept, Options, Outcome, Progress, Totals, Watch};
use atta_ops::digest::Signature;
use atta_ops::walk;
use atta_runtime::{Rate, Stop};
use serde_json::{Value, json};

pub(crate) use arguments::CopyArguments;
use arguments::DigestKind;

use crate::display::Display;
use crate::file::print;
use crate::signals::Signals;
use crate::size::{binary, counted, grouped, listed, per_second};
use crate::walk::{Failures, Refused, compile, spill_directory};
use crate::{complain, exit};

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &CopyArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    if let Some(launcher) = launcher {
        return ranks::run(arguments, signals, launcher);
    }
    match Run::new(arguments) {
        Ok(run) => run.copy(signals),
        Err(refused) => refused.tell(),
    }
}

/// What one run needs, made before anything is copied.
struct Run<'a> {
    arguments: &'a CopyArguments,
    failures: Failures,
}

/// Tells of what was not copied.
struct Told<'a>(&'a Failures);

impl Watch for Told<'_> {
    fn failure(&self, failure: &Failure<'_>) {
        self.0.add(failure);
    }
}

/// What the arguments say, as one of so many ranks sees it.
struct Setting<'a> {
    arguments: &'a CopyArguments,
    rate: Option<Rate>,
    sources: Vec<Vec<u8>>,
    target: Vec<u8>,
}

impl<'a> Setting<'a> {
    fn new(arguments: &'a CopyArguments, ranks: u32) -> Self {
        let mut sources: Vec<_> = arguments.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let target = sources.pop().unwrap_or_default();
        let rate = arguments.effort.iops.map(|iops| Rate::new((iops / ranks).max(1)));
        Self { arguments, rate, sources, target }
    }

    fn options(&self, stop: &Stop, cores: Option<usize>) -> Options<'_> {
        let arguments = self.arguments;
        let defaults = walk::Options::default();
        let walk = walk::Options {
            one_file_system: arguments.visit.one_file_system,
            birth_time: false,
            // What is wrong with them was told before.
            rules: compile(&arguments.visit.rules).ok().flatten(),
            rate: self.rate.as_ref(),
            threads: arguments.effort.threads,
            memory_bytes: arguments.effort.memory / 2,
            spill_directory: spill_directory(),
            stop: stop.clone(),
            cores: cores.unwrap_or(defaults.cores),
            ..defaults
        };
        let digest = arguments.digest == DigestKind::Blake3;
        Options {
            walk,
            fsync: arguments.fsync.into(),
            digest,
            verify: arguments.verify,
            chunk: arguments.chunk.bytes(),
        }
    }
}

impl<'a> Run<'a> {
    fn new(arguments: &'a CopyArguments) -> Result<Self, Refused> {
        if arguments.paths.iter().any(|path| path.is_empty()) {
            let hint = "the working directory is '.'";
            return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
        }
        if arguments.verify && arguments.digest == DigestKind::None {
            let what = "--verify compares digests, and there are none".to_owned();
            return Err(Refused::usage(what, "leave --digest none out"));
        }
        compile(&arguments.visit.rules)?;
        let failures = Failures::new(arguments.tell.verbose, arguments.tell.errors.as_deref(), None)?;
        Ok(Self { arguments, failures })
    }

    fn copy(self, signals: &Signals) -> u8 {
        let Self { arguments, failures } = self;
        let (stop, setting) = (Stop::new(), Setting::new(arguments, 1));
        let options = setting.options(&stop, None);
        let mut display = Display::new(&arguments.tell, false);
        let told = Told(&failures);
        let outcome = copy::run(&setting.sources, &setting.target, &options, &told, |progress| {
            if signals.code().is_some() {
                stop.set();
            }
            display.tick(progress.walk.elapsed, || line(progress));
        });
        display.clear();
        match outcome {
            Ok(outcome) => conclude(arguments, &failures, &outcome.into(), signals.code()),
            Err(refused) => tell(&refused),
        }
    }
}

/// Says why nothing is copied.
fn tell(copy::Refused { what, hint, is_usage }: &copy::Refused) -> u8 {
    complain(what, Some(hint));
    if *is_usage { exit::USAGE } else { exit::FATAL }
}

/// What was copied, by all ranks.
struct Whole {
    totals: Totals,
    signature: Option<Signature>,
    elapsed: Duration,
    threads: usize,
    ranks: u32,
}

impl From<Outcome> for Whole {
    fn from(outcome: Outcome) -> Self {
        let Outcome { totals, signature, threads, elapsed, .. } = outcome;
        Self { totals, signature, elapsed, threads: threads.len(), ranks: 1 }
    }
}

/// Says what was done, and with which code to exit.
fn conclude(arguments: &CopyArguments, failures: &Failures, outcome: &Whole, interrupted: Option<u8>) -> u8 {
    let mut fatal = failures.flush().err();
    let text = if arguments.tell.json {
        format!("{:#}\n", summary(outcome, interrupted.is_some()))
    } else if arguments.tell.quiet {
        String::new()
    } else {
        words(outcome, interrupted.is_some())
    };
    fatal = fatal.or_else(|| print(&text).err());
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    interrupted.unwrap_or(if outcome.totals.failed() > 0 { exit::PARTIAL } else { exit::DONE })
}

fn words(outcome: &Whole, was_interrupted: bool) -> String {
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
    let kinds = listed(&kinds);
    let (bytes, rate) = (binary(totals.bytes), binary(per_second(totals.bytes, outcome.elapsed)));
    let _ = writeln!(text, "{kinds} copied, {bytes} in {seconds:.2} s ({rate}/s)");
    if let Some(signature) = &outcome.signature {
        let _ = writeln!(text, "signature {}", signature.digest());
    }
    if totals.verified_bytes > 0 || totals.mended > 0 {
        let mended = counted(totals.mended, "part", "parts");
        let _ = writeln!(
            text,
            "{} read back and found right, {mended} written once more",
            binary(totals.verified_bytes)
        );
    }
    for (count, what) in not_kept(&totals.not_kept) {
        let _ = writeln!(text, "not kept: {} {what}", grouped(count));
    }
    if totals.failed() > 0 {
        let _ = writeln!(text, "not copied: {}", counted(totals.failed(), "entry", "entries"));
    }
    text
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
fn summary(outcome: &Whole, was_interrupted: bool) -> Value {
    let totals = &outcome.totals;
    let errors: std::collections::BTreeMap<_, _> =
        totals.failures.iter().map(|(errno, count)| (errno.label(), count)).collect();
    json!({
        "schema_version": 1,
        "interrupted": was_interrupted,
        "elapsed_seconds": outcome.elapsed.as_secs_f64(),
        "files": totals.files,
        "bytes": totals.bytes,
        "directories": totals.directories,
        "symlinks": totals.symlinks,
        "hard_links": totals.hard_links,
        "special_files": totals.specials,
        "skipped": totals.skipped,
        "failed": totals.failed(),
        "changed": totals.changed,
        "verified_bytes": totals.verified_bytes,
        "mended": totals.mended,
        "errors": errors,
        "not_kept": {
            "owners": totals.not_kept.owners,
            "set_id_bits": totals.not_kept.set_id_bits,
            "extended_attributes": totals.not_kept.extended,
            "hard_links": totals.not_kept.hard_links,
        },
        "signature": outcome.signature.as_ref().map(|signature| signature.digest().to_string()),
        "threads": outcome.threads,
        "ranks": outcome.ranks,
    })
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
