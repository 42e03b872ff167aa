//! How a command goes on when ranks have died: from the log of its job, on the ranks that are left. It finds out whether that job is still there; the
//! command itself resumes it, as `atta resume` does.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atta_entry::Code as _;
use atta_ops::resume::{JobPlace, LoggedJob, NotBegun, hex};
use atta_runtime::{Group, Limits, RankError, Regrouped, Session, Way, named};

use super::deaths::Deaths;
use super::file::print_rows;
use super::history::{self, End};
use super::logged::RunOfJob;
use super::messages::{complain, exit};
use super::read_before::ReadBefore;
use super::session::Given;

/// How long to wait for the locks of a rank that has died: its process may not have gone yet.
const LOCKS_WITHIN: Duration = Duration::from_secs(60);
const LOCKS_EACH: Duration = Duration::from_millis(5);

/// The arguments of a command that has a job.
pub(crate) trait Resumes: Clone {
    /// Makes them those of a later run of the job in this directory.
    fn resume(&mut self, directory: PathBuf, deaths: Deaths);
}

/// A command without a job.
impl Resumes for () {
    fn resume(&mut self, _directory: PathBuf, _deaths: Deaths) {}
}

/// The job from which a command goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Going {
    directory: Vec<u8>,
    number: [u8; 16],
    /// The first run of this launch. If that has begun the job, nobody else knows of it.
    since: u32,
}

atta_entry::record!(Going { directory, number, since });

impl Going {
    /// The arguments of the command that goes on with it. What it has done is not looked at again, since that was moments ago, unless an
    /// earlier launch has left the job.
    /// `read`: what earlier views have read of its logs.
    pub(crate) fn resumed<A: Resumes>(&self, arguments: &A, read: &ReadBefore) -> A {
        let mut arguments = arguments.clone();
        let deaths = Deaths::since(self.since, read.clone());
        arguments.resume(PathBuf::from(OsString::from_vec(self.directory.clone())), deaths);
        arguments
    }

    /// The way that goes on from it.
    pub(crate) fn way(&self) -> Way {
        Way::From(self.encoded())
    }

    /// Waits until no process has the job. False: there is no such job any more.
    fn is_there(&self) -> bool {
        // Each rank has it.
        if self.directory.is_empty() {
            return true;
        }
        let place = JobPlace::from(Path::new(OsStr::from_bytes(&self.directory)));
        let began = Instant::now();
        loop {
            match place.number() {
                Ok(number) if number != Some(self.number) => return false,
                // What is wrong with it, the command reports.
                Err(_) => return true,
                Ok(_) => {}
            }
            match LoggedJob::resume(&place) {
                Err(NotBegun::Runs(_) | NotBegun::Writes(_)) if began.elapsed() < LOCKS_WITHIN => {
                    std::thread::sleep(LOCKS_EACH);
                }
                _ => return true,
            }
        }
    }

    /// How the job ended, which is not there any more: prints its summary, and returns the exit code.
    fn report_end(&self, given: &Given<'_>) -> u8 {
        match history::of(&hex(&self.number)).and_then(|known| known.ended) {
            Some(End { code, json, text }) => {
                let printed = if given.printing.is_json() {
                    format!("{json:#}\n")
                } else if given.printing.is_quiet() {
                    String::new()
                } else {
                    text
                };
                print_rows(printed.as_bytes()).map_or_else(super::fatal::Fatal::report, |()| code)
            }
            None => {
                let what = "the run has come to its end, but the rank that had its report has died";
                complain(what, Some("atta verify compares a copy with its source"));
                exit::FATAL
            }
        }
    }
}

/// From now on the command goes on from this job, whose directory and run all ranks know. Where ranks survive others, the first one says so,
/// once.
pub(crate) fn has_job(session: &mut Session<'_>, (path, of_job): (&Path, RunOfJob), is_quiet: bool) {
    let directory = path.as_os_str().as_bytes().to_vec();
    let before = match session.way() {
        Way::From(bytes) => Going::decode_all(bytes),
        _ => None,
    };
    if before.is_none() && session.is_first() && session.goes_on() && !is_quiet {
        complain("note: this run goes on when ranks die", None);
    }
    let since = before.map_or(of_job.run(), |before| before.since);
    session.set_way(Going { directory, number: of_job.number(), since }.way());
}

/// As [`has_job`], or [`keeps_no_log`] if there is none.
pub(crate) fn settle(
    session: &mut Session<'_>,
    job: Option<(&Path, RunOfJob)>,
    is_quiet: bool,
) -> Result<(), RankError> {
    match job {
        Some(job) => {
            has_job(session, job, is_quiet);
            all_know(session)
        }
        None => keeps_no_log(session),
    }
}

/// If a rank dies from now on, the command begins from the start, until it knows its job: it has done nothing.
pub(crate) fn may_begin_again(session: &mut Session<'_>) {
    if *session.way() == Way::Ends {
        session.set_way(Way::Anew);
    }
}

/// The command does not go on if a rank dies. All ranks know it before one of them does something that must not be done twice.
pub(crate) fn keeps_no_log(session: &mut Session<'_>) -> Result<(), RankError> {
    session.set_way(Way::Ends);
    all_know(session)
}

/// Waits until all ranks know how the command goes on: none of them does anything before.
pub(crate) fn all_know(session: &mut Session<'_>) -> Result<(), RankError> {
    if session.survives() { session.all_reduce((), |(), ()| ()) } else { Ok(()) }
}

/// What a command does in a new view.
pub(crate) enum Next {
    /// It begins again: from a job, or from the start, since it had done nothing.
    Again(Option<Going>),
    /// It has ended with this code.
    Ended(u8),
}

/// Agrees with the ranks that are left on how the command goes on. `way`: as far as this rank knows.
pub(crate) fn regroup(group: &mut Group<'_>, way: Way, given: &Given<'_>) -> Result<Next, RankError> {
    let waiting = if given.printing.is_quiet() { |_: &[u32]| {} } else { report_waiting };
    let limits = Limits { give_up: given.give_up, waiting, report: Duration::from_secs(10) };
    let stop = given.signals.stop();
    let regrouped = group.regroup(way, &stop, limits)?;
    let is_first = group.is_lowest();
    let dead: Vec<u32> = group.dead();
    let (has, them) = if dead.len() == 1 { ("has", "it") } else { ("have", "them") };
    let died = format!("{} {has} died", named(&dead));
    match regrouped {
        // The command's exit code is that of the first rank, which leaves last.
        Regrouped::Ended(_) if !is_first => Ok(Next::Ended(exit::DONE)),
        Regrouped::Ended(way) => {
            let code = match way {
                Way::Over(code) => code.first().copied().unwrap_or(exit::FATAL),
                _ => {
                    let hint = match given.reads_once {
                        true => "give the same command again",
                        false => "a run with a job goes on when the same command is given again",
                    };
                    complain(&format!("{died}, and this run does not go on without {them}"), Some(hint));
                    exit::FATAL
                }
            };
            group.leave_last()?;
            Ok(Next::Ended(code))
        }
        Regrouped::View(way) => {
            given.signals.begin_again();
            let ranks = group.ranks_left();
            if is_first && !given.printing.is_quiet() {
                let left = if ranks == 1 { "1 rank goes".to_owned() } else { format!("{ranks} ranks go") };
                complain(&format!("{died}: {left} on"), None);
            }
            let Way::From(bytes) = way else { return Ok(Next::Again(None)) };
            let going = Going::decode_all(&bytes).ok_or(RankError::Stuck("a rank knows no job"))?;
            Ok(Next::Again(Some(going)))
        }
    }
}

/// Whether the command goes on, in a new view; if not, its exit code. All ranks get the same.
pub(crate) fn check(
    going: &Going,
    given: &Given<'_>,
    session: &mut Session<'_>,
) -> Result<Result<(), u8>, RankError> {
    let is_there = session.is_first().then(|| session.beside(|| going.is_there())).transpose()?;
    if session.broadcast(is_there)? {
        return Ok(Ok(()));
    }
    Ok(Err(if session.is_first() { going.report_end(given) } else { exit::DONE }))
}

/// Reports the ranks that this one waits for.
fn report_waiting(ranks: &[u32]) {
    complain(&format!("still waiting for {} to go on without those that have died", named(ranks)), None);
}
