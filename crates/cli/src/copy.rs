//! `atta copy`: sets a copy up, lets it run, and says what was copied and what was not.

mod advice;
mod arguments;
mod by_rank;
mod keep;
mod notices;
mod owners;
mod pace;
mod plans;
mod ranks;
mod stripes;
mod summary;
mod teller;

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atta_entry::{Failure, Kind};
use atta_mpi_loader::Launcher;
use atta_ops::copy::{self, Copy, DryRun, Existing, Keep, Notice, Options, Planned, Progress, Seat, Watch};
use atta_ops::walk;
use atta_runtime::{Rate, Stop};

pub(crate) use arguments::CopyArguments;
use arguments::{DigestKind, ReflinkWhen};
use plans::Plans;
use summary::{Whole, summary, words};
use teller::Teller;

use crate::run::events::Events;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::print;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::messages::hint;
use crate::run::refused::Refused;
use crate::run::settings::compile;
use crate::run::settings::spill_directory;
use crate::run::settings::take;
use crate::run::signals::Signals;
use crate::run::starts::Starts;

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &CopyArguments, signals: &Signals, launcher: Option<&Launcher>) -> u8 {
    match launcher {
        Some(launcher) => ranks::run(arguments, signals, launcher),
        None => run_alone(arguments, signals),
    }
}

/// The same without other ranks.
fn run_alone(arguments: &CopyArguments, signals: &Signals) -> u8 {
    let stop = signals.stop();
    match Run::new(arguments, &stop) {
        Ok(run) => run.copy(signals, &stop),
        Err(refused) => refused.tell(),
    }
}

/// What one run needs, made before anything is copied.
struct Run<'a> {
    arguments: &'a CopyArguments,
    failures: Failures,
    events: Events,
    keep: Keep,
    /// What a list names.
    starts: Option<Starts>,
}

/// Tells of what was not copied, and of what would be.
struct Told<'a> {
    failures: &'a Failures,
    /// What would be made, if that is to be told.
    plans: Option<Plans>,
    is_quiet: bool,
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

    fn notice(&self, notice: &Notice) {
        notices::report(notice, self.is_quiet);
    }
}

/// What the arguments say, as one of so many ranks sees it.
struct Setting<'a> {
    arguments: &'a CopyArguments,
    rate: Option<Rate>,
    bandwidth: Option<Arc<Rate>>,
    keep: Keep,
    sources: Vec<Vec<u8>>,
    target: Vec<u8>,
}

impl<'a> Setting<'a> {
    fn new(arguments: &'a CopyArguments, ranks: u32, keep: Keep) -> Self {
        let (sources, target) = sides(arguments);
        let rate = arguments.effort.iops.map(|iops| Rate::new((iops / ranks).max(1)));
        let bandwidth = arguments.bandwidth.map(|bytes| Arc::new(Rate::per_second(bytes / u64::from(ranks))));
        Self { arguments, rate, bandwidth, keep, sources, target }
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
        Options {
            walk,
            fsync: arguments.fsync.into(),
            digest: arguments.digest == DigestKind::Blake3,
            verify: arguments.verify,
            chunk: arguments.chunk.bytes(),
            hole_bytes_max: Some(arguments.max_holes),
            keep: self.keep.clone(),
            no_target_directory: arguments.no_target_directory,
            exclusive: arguments.exclusive,
            existing: arguments.existing(),
            in_place: arguments.in_place,
            direct: arguments.direct,
            reflink: arguments.reflink.into(),
            stripes: arguments.stripes(),
            bandwidth: self.bandwidth.clone(),
        }
    }
}

/// SOURCE... and TARGET. Those of a repair are two directories that were compared with each other.
fn sides(arguments: &CopyArguments) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut sources: Vec<_> = arguments.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let target = sources.pop().unwrap_or_default();
    if arguments.repair.is_some() {
        sources.iter_mut().for_each(|source| source.extend(b"/."));
    }
    (sources, target)
}

/// Refuses a repair of anything but one directory.
fn refuse_repair(arguments: &CopyArguments) -> Result<(), Refused> {
    let [source, target] = arguments.paths.as_slice() else {
        let hint = "name the two directories that were compared: SOURCE TARGET";
        return Err(Refused::usage("--repair with several SOURCEs".to_owned(), hint));
    };
    for path in [source, target] {
        let found = atta_ops::walk::look_at(path.as_bytes());
        if !found.is_ok_and(|found| found.kind() == Kind::Directory) {
            let what = format!("--repair: not a directory: {}", atta_entry::escape(path.as_bytes()));
            let hint =
                "SOURCE and TARGET are two directories that were compared; a single file is copied as it is";
            return Err(Refused::usage(what, hint));
        }
    }
    Ok(())
}

impl<'a> Run<'a> {
    fn new(arguments: &'a CopyArguments, stop: &Stop) -> Result<Self, Refused> {
        if arguments.paths.iter().any(|path| path.is_empty()) {
            let hint = "the working directory is '.'";
            return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
        }
        if arguments.no_target_directory && arguments.paths.len() > 2 {
            let what = "-T, and several SOURCEs".to_owned();
            return Err(Refused::usage(
                what,
                "TARGET is the name of one copy; leave -T out to put several into it",
            ));
        }
        if arguments.verify && arguments.digest == DigestKind::None {
            let what = "--verify compares digests, and there are none".to_owned();
            return Err(Refused::usage(what, "leave --digest none out"));
        }
        if arguments.reflink == ReflinkWhen::Always && arguments.digest == DigestKind::Blake3 {
            let what = "--reflink always, and a digest of bytes that nobody reads".to_owned();
            return Err(Refused::usage(what, "add --digest none"));
        }
        compile(&arguments.visit.rules)?;
        let keep = arguments.keep.keep()?;
        if arguments.repair.is_some() {
            refuse_repair(arguments)?;
        }
        let (tell, list) = (&arguments.tell, arguments.list());
        let failures = Failures::new(tell.verbose, tell.errors.as_deref(), list.map(|(list, _)| list))?;
        let events = Events::new(arguments.events.as_deref())?;
        let starts = list.map(|list| Starts::listed_for_copy(list, sides(arguments).0, stop.clone()));
        let starts = starts.transpose()?;
        if arguments.existing() != Existing::Replace && starts.as_ref().is_some_and(Starts::are_differences) {
            let what = "a list of differences with --update or --ignore-existing".to_owned();
            return Err(Refused::usage(
                what,
                "what may stay is found out entry by entry; leave the option out",
            ));
        }
        Ok(Self { arguments, failures, events, keep, starts })
    }

    fn copy(self, signals: &Signals, stop: &Stop) -> u8 {
        let Self { arguments, failures, events, keep, starts } = self;
        let setting = Setting::new(arguments, 1, keep);
        let options = setting.options(stop, None);
        let plans = (arguments.dry_run && arguments.tell.verbose).then(Plans::default);
        let mut teller = Teller::new(&arguments.tell, plans.is_some(), events);
        let told = Told { failures: &failures, plans, is_quiet: arguments.tell.quiet };
        let observe = |progress: &Progress| teller.tick(progress);
        let (sources, target) = (&setting.sources, &setting.target);
        let list_error = starts.as_ref().map(Starts::error);
        let extra = starts.as_ref().map(Starts::extra);
        let outcome = match arguments.dry_run {
            true => DryRun::prepare(sources, target, &options, &told).and_then(|dry_run| {
                let dry_run = match starts {
                    None => dry_run,
                    Some(starts) if starts.are_differences() => dry_run.repairing(starts.rows()),
                    Some(starts) => dry_run.listed(starts),
                };
                dry_run.run(observe).map(Whole::from)
            }),
            false => Copy::prepare(sources, target, &options, &told, Seat::alone()).and_then(|copy| {
                let target_is_name = copy.target_is_name();
                let copy = match starts {
                    None => copy,
                    Some(starts) if starts.are_differences() => copy.repairing(starts.rows())?,
                    Some(starts) => copy.listed(starts),
                };
                Ok(Whole { target_is_name, ..copy.run(observe).into() })
            }),
        };
        teller.clear();
        let fatal = list_error.and_then(|error| take(&error));
        let fatal = fatal.or_else(|| told.plans.as_ref().and_then(|plans| plans.finish().err()));
        match outcome {
            Ok(mut whole) => {
                let interrupted = signals.code();
                whole.extra = extra.map(|extra| extra.load(Ordering::Relaxed));
                let told = || summary(arguments, &whole, interrupted.is_some());
                let fatal = fatal.or_else(|| teller.events.finish(told).err());
                conclude(arguments, &failures, &whole, interrupted, fatal)
            }
            Err(refused) => tell(&refused),
        }
    }
}

/// Says why nothing is copied.
fn tell(copy::Refused { what, hint, is_usage }: &copy::Refused) -> u8 {
    complain(what, Some(hint.as_ref()));
    if *is_usage { exit::USAGE } else { exit::FATAL }
}

/// Says what was done, and with which code to exit.
fn conclude(
    arguments: &CopyArguments,
    failures: &Failures,
    outcome: &Whole,
    interrupted: Option<u8>,
    fatal: Option<Fatal>,
) -> u8 {
    let mut fatal = fatal.or_else(|| failures.flush().err());
    let text = if arguments.tell.json {
        format!("{:#}\n", summary(arguments, outcome, interrupted.is_some()))
    } else if arguments.tell.quiet {
        String::new()
    } else {
        words(arguments, outcome, interrupted.is_some())
    };
    if arguments.dry_run && arguments.tell.verbose {
        // Standard output has the names.
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        fatal = fatal.or_else(|| print(&text).err());
    }
    if !arguments.tell.quiet {
        let advice = advice::advice(arguments, outcome, interrupted.is_some());
        advice.iter().for_each(|advice| hint(advice));
    }
    if let Some(fatal) = fatal {
        return fatal.tell();
    }
    // What was to be read back and was not is not done.
    let is_partial = outcome.totals.failed() > 0 || outcome.totals.not_verified > 0;
    interrupted.unwrap_or(if is_partial { exit::PARTIAL } else { exit::DONE })
}
