//! End of a walk: closes and removes files, prints the summary and picks the exit code. Nothing is walked here.

use std::time::{Duration, SystemTime};

use atta_entry::Errno;
use atta_ops::walk::{Progress, Totals};

use super::arguments::WalkArguments;
use super::figures;
use super::progress::Display;
use super::report::{Report, Whole};
use super::sink::Sink;
use crate::run::catalog::Recorded;
use crate::run::earlier::{Again, Earlier};
use crate::run::fatal::Fatal;
use crate::run::job::Job;
use crate::run::messages::{complain, exit};
use crate::run::outcome;
use crate::run::report::by_errno;
use crate::run::settings::spill_directory;
use crate::run::signals::Signals;
use crate::run::starts::root_paths;

/// Time to wait after a signal for threads that hang in a system call.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether threads still hang in the file system after the walk was asked to end.
pub(super) fn hangs(progress: &Progress, signals: &Signals) -> bool {
    // After the death of a rank the walk goes on elsewhere, and waits for its threads.
    signals.stop().is_asked() && progress.stopping.is_some_and(|since| since > PATIENCE)
}

/// How a walk ended.
pub(super) struct Ended<'a> {
    pub(super) totals: Totals,
    pub(super) whole: Whole,
    pub(super) fatal: Option<Fatal>,
    /// Exit code of the signal that ended the walk.
    pub(super) interrupted: Option<u8>,
    /// A signal may still arrive.
    pub(super) signals: &'a Signals,
    pub(super) started: SystemTime,
    pub(super) job: Option<Job>,
    /// Some rank got a signal.
    pub(super) was_stopped: bool,
}

/// Exits the program although threads still hang in the kernel: no more results will come from them.
pub(super) fn give_up(
    sink: &Sink,
    fatal: Option<Fatal>,
    display: &mut Display,
    progress: &Progress,
    signals: &Signals,
) -> ! {
    display.clear();
    sink.abandon();
    let mut fatal = sink.take_fatal().or(fatal);
    fatal = fatal.or_else(|| sink.failures.flush().err());
    let entries = progress.profile.entries;
    let state = if signals.code().is_some() { "interrupted; " } else { "" };
    let what = format!(
        "{state}some threads hang in the file system and were not waited for; {entries} entries were visited"
    );
    let hint = sink.resume.as_ref().map(|command| format!("to do what is left: {command}"));
    complain(&what, hint.as_deref());
    let code = fatal.map_or_else(|| signals.code().unwrap_or(exit::FATAL), Fatal::report);
    outcome::ended(code);
    std::process::exit(code.into());
}

/// The same on a rank other than the first; this ends all ranks.
pub(super) fn give_up_on_rank(rank: u32, sink: &Sink, progress: &Progress) -> ! {
    sink.abandon();
    let entries = progress.profile.entries;
    let what = format!(
        "rank {rank}: some threads hang in the file system and were not waited for; they had visited {entries} entries"
    );
    complain(&what, None);
    std::process::exit(exit::FATAL.into());
}

/// Flushes failures when another rank cannot continue. There is no summary: the totals of the other ranks are missing.
pub(super) fn give_up_on_others(sink: &Sink, fatal: Option<Fatal>, display: &mut Display, entries: u64) {
    display.clear();
    sink.abandon();
    let fatal = sink.take_fatal().or(fatal).or_else(|| sink.failures.flush().err());
    if let Some(fatal) = fatal {
        fatal.report();
    }
    complain(&format!("the walk is not complete; {entries} entries were visited"), None);
}

/// Closes all output, prints the summary and returns the exit code.
pub(super) fn conclude(arguments: &WalkArguments, sink: Sink, ended: Ended<'_>, display: Display) -> u8 {
    let Sink { summary, failures, catalog, .. } = sink;
    let Ended { totals, whole, mut fatal, interrupted, signals, started, job, was_stopped } = ended;
    let (totals, settled) = summary.finish(totals, &signals.stop());
    let interrupted = interrupted.or(signals.code());
    if let Err(error) = settled {
        let what = format!("cannot count hard links: {}: {error}", spill_directory().display());
        fatal = fatal.or(Some(Fatal::Failed { what, hint: None }));
    }
    // Another run of the job does again what failed, but looks for nothing that has vanished. A rank that got a signal may have left names out.
    let is_whole = !was_stopped
        && signals.code().is_none()
        && totals.failures.keys().copied().all(Errno::is_of_vanished)
        && job.as_ref().is_none_or(Job::has_all_roots);
    let report = Report { arguments, totals: &totals, outcome: &whole, interrupted: interrupted.is_some() };
    // The errors of a catalog must be in their file before the catalog gets its name.
    fatal = fatal.or_else(|| failures.flush().err());
    let has_changed = whole.earlier.as_ref().is_some_and(Earlier::has_changed);
    let is_partial = totals.failed() > 0 || has_changed;
    let code = interrupted.unwrap_or(if is_partial { exit::PARTIAL } else { exit::DONE });
    let (mut job, mut left) = (job, None);
    if let Some(catalog) = catalog {
        if fatal.is_none() && interrupted.is_none() {
            let recorded = Recorded {
                roots: root_paths(&arguments.paths),
                totals: report.totals_json(),
                errors: by_errno(&totals.failures),
                started,
                job: job.as_ref().map(Job::recorded),
            };
            fatal = catalog.commit(recorded).err();
            // Before anything is printed: the catalog is complete.
            if fatal.is_none() {
                left = job.take().and_then(|job| job.remove(&report.kept(code), false));
            }
        } else {
            catalog.abandon();
            if interrupted.is_some() {
                complain(&format!("interrupted: {}", catalog.why_not_written()), None);
            }
        }
    }
    if let Some(path) = &arguments.stats {
        fatal = fatal.or_else(|| report.write_stats(path).err());
    }
    if let Some(directory) = &arguments.plots {
        fatal = fatal.or_else(|| figures::draw(directory, &whole).err());
    }
    fatal = fatal.or_else(|| report.print().and_then(|()| display.finish(&report, &signals.stop())).err());
    if let Some(fatal) = fatal {
        return fatal.report();
    }
    if interrupted.is_none()
        && let Some(earlier) = &whole.earlier
    {
        earlier.advise(if arguments.output.is_some() { Again::ToAnotherOutput } else { Again::Restarted });
    }
    match job {
        Some(job) if job.is_in_target() => {
            job.advise_for("to do what is left, give the same command again, or", code)
        }
        Some(job) if is_whole => job.complete(&report.kept(code)).unwrap_or(code),
        Some(job) => job.advise(code),
        None => left.unwrap_or(code),
    }
}
