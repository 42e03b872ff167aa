//! A copy with a log of its job (`--job`): what earlier runs have copied is not copied again. `run/logged.rs` has the log.

use std::path::Path;

use atta_entry::escape;
use atta_ops::copy::{Copy, Found, Results, is_there};
use atta_ops::resume::{LoggedJob, place_of};
use atta_ops::walk::{self, FromLog, Journal};
use atta_runtime::{LogFile, RankError, Results as _, Session, Stop};

use super::arguments::CopyArguments;
use crate::run::fatal::Fatal;
use crate::run::job::{self, Asked, Job, TargetIs};
use crate::run::logged::{RunOfJob, prepare, short, write_first, write_while};
use crate::run::refused::Refused;
use crate::size::grouped;

/// The rank that reads the logs of earlier runs.
const FIRST: u32 = 0;

/// What earlier runs of a job have done, as the summary says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// When the job began, as RFC 3339 has it.
    pub(super) since: String,
    /// Directories of the sources that have changed since they were copied, and one of them.
    pub(super) changed: u64,
    pub(super) changed_one: Option<Vec<u8>>,
}

/// The job of a copy, as the first rank has begun it.
pub(super) struct OfCopy {
    pub(super) job: Job,
    pub(super) target: TargetIs,
    /// The number of the job that was there, if it is forgotten.
    pub(super) given_up: Option<u64>,
}

/// Begins the job of a copy, or goes on with it.
pub(super) fn begun(
    arguments: &CopyArguments,
    (sources, target): (Vec<Vec<u8>>, &[u8]),
    session: &Session<'_>,
) -> Result<Option<OfCopy>, Refused> {
    let Some(directory) = &arguments.job else { return Ok(None) };
    if !sources.iter().all(|source| is_there(source)) {
        // The copy is refused, and there is no job.
        return Ok(None);
    }
    if !session.runs_tasks() {
        let what = "--job with --schedule centralized, where the first rank copies nothing".to_owned();
        return Err(Refused::usage(what, "take another schedule; the first rank does what is left first"));
    }
    if !arguments.keep.keeps_modes() {
        let what = "--job needs the modes of directories, and --preserve keeps none".to_owned();
        return Err(Refused::usage(what, "add mode to --preserve"));
    }
    let is_directory = walk::look_at(target).is_ok_and(|found| found.kind() == atta_entry::Kind::Directory);
    let now = match is_directory && !arguments.no_target_directory {
        true => TargetIs::Directory,
        false => TargetIs::Name,
    };
    // After the first run there may be a directory where TARGET is the name of the copy.
    let is = job::target_of(directory, target).unwrap_or(now);
    let given_up = if arguments.restart { LoggedJob::number_of(directory).map(short) } else { None };
    let mut agrees = arguments.agrees();
    agrees.push(job::describe_target(target, is)?);
    let asked = Asked { restarts: arguments.restart, agrees, roots: sources };
    let job = job::begin(directory, asked, arguments.report.kept())?;
    Ok(Some(OfCopy { job, target: is, given_up }))
}

/// The log of a rank, and what goes into it.
pub(super) struct Log {
    file: LogFile,
    pub(super) journal: Journal<Results>,
    /// What earlier runs have come to. Only on the first rank.
    pub(super) earlier: Results,
}

/// Reads what earlier runs have done, on the first rank, and makes the log of this run.
pub(super) fn first(job: &Job, copy: &Copy<'_>, memory_bytes: u64) -> Result<(Log, Earlier), Fatal> {
    let (mut earlier, mut finished) = (Results::default(), copy.finished());
    let journal = RunOfJob::of(job).journal(FIRST).with_closing();
    let prepared = prepare(job, journal, memory_bytes, &mut |found| match found {
        FromLog::Results(share) => earlier.add(&share),
        FromLog::Seen(at, seen) => finished.add(at, seen),
    });
    let found = finished.end();
    let (journal, file) = prepared?;
    if let Some(fatal) = lost(&found) {
        return Err(fatal);
    }
    let (entries, bytes, since) = (earlier.entries(), earlier.bytes(), job.logged.began());
    let Found { changed, changed_one, .. } = found;
    if job.logged.run() > 1 {
        job.report_earlier(entries);
    }
    Ok((Log { file, journal, earlier }, Earlier { entries, bytes, since, changed, changed_one }))
}

/// Why the job cannot go on: what earlier runs have copied is gone, or cannot be looked at.
fn lost(found: &Found) -> Option<Fatal> {
    if let Some((path, errno)) = &found.failed {
        let what = format!(
            "cannot look at a directory in TARGET that the job has copied: {}: {errno}",
            escape(path)
        );
        let hint = "when it can be reached, give the same command again";
        return Some(Fatal::Failed { what, hint: Some(hint.to_owned()) });
    }
    let one = escape(found.lost_one.as_deref()?);
    let one = if one.is_empty() { "that of SOURCE".to_owned() } else { one };
    let what = match found.lost {
        1 => format!(
            "a directory that the job has copied is gone from TARGET, or another is in its place: {one}"
        ),
        lost => format!(
            "{} directories that the job has copied are gone from TARGET, or others are in their place; one is {one}",
            grouped(lost)
        ),
    };
    let hint = "--restart --update begins the job anew and keeps what is there";
    Some(Fatal::Failed { what, hint: Some(hint.to_owned()) })
}

/// The log of any other rank. `path`: the directory of the job. Also returns device and inode of that directory.
pub(super) fn other(path: &Path, of_job: RunOfJob, rank: u32) -> Result<(Log, Option<(u64, u64)>), Fatal> {
    let (directory, file) = of_job.join(path, rank)?;
    let journal = of_job.journal(rank).with_closing();
    Ok((Log { file, journal, earlier: Results::default() }, place_of(&directory).ok()))
}

/// Copies while the log is written, on the first rank. Returns `None` if the copy has not begun, on all ranks, and what of the log failed.
pub(super) fn copy_first<T>(
    Log { file, journal, earlier }: Log,
    copy: Copy<'_>,
    (stop, session): (&Stop, &mut Session<'_>),
    act: impl FnOnce(Copy<'_>, &mut Session<'_>) -> Result<T, RankError>,
) -> Result<(Option<T>, Option<Fatal>), RankError> {
    let (journal, mut fatal) = (&journal, None);
    let (done, written) = write_while((file, journal), stop, |log| {
        let begun = write_first(log, session.is_alone());
        let is_begun = session.broadcast(Some(begun.is_ok()))?;
        fatal = begun.err();
        // What fails is reported at the end.
        let write = || drop(log.write_now());
        if is_begun { act(copy.logged(journal, &write, earlier), session).map(Some) } else { Ok(None) }
    });
    Ok((done?, fatal.or(written.err())))
}

/// The same on any other rank. Also returns what of the log failed.
pub(super) fn copy_other<T>(
    Log { file, journal, earlier }: Log,
    copy: Copy<'_>,
    stop: &Stop,
    act: impl FnOnce(Copy<'_>) -> Result<T, RankError>,
) -> (Result<T, RankError>, Result<(), Fatal>) {
    let journal = &journal;
    write_while((file, journal), stop, |log| {
        let write = || drop(log.write_now());
        act(copy.logged(journal, &write, earlier))
    })
}

/// Device and inode of the directory of the job.
pub(super) fn place(job: &Job) -> Option<(u64, u64)> {
    place_of(job.logged.directory()).ok()
}
