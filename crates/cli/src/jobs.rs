//! `atta jobs`: which jobs there are, how far they are, and what they came to. It runs none, and changes nothing but the list of jobs that this user
//! has begun.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use atta_entry::{escape, shell_quote};
use atta_ops::resume::{JobPlace, JobSeen, LoggedJob, hex, host};
use atta_ops::verify::Findings;
use atta_ops::walk::{FromLog, Journal};
use atta_ops::{copy, walk};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::run::fatal::Fatal;
use crate::run::file::print;
use crate::run::history::{self, End, Known, now};
use crate::run::job;
use crate::run::messages::exit;
use crate::run::parts::Gathered;
use crate::run::refused::Refused;
use crate::run::share::Share;
use crate::size::{binary, counted};

/// What a slice of `atta sum` comes to.
type SumShare = atta_ops::sum::Sums<Gathered>;

/// Bytes of memory to read logs with.
const MEMORY: usize = 256 << 20;
/// Digits of a number that are shown.
const DIGITS: usize = 12;

/// List jobs, or show one
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A job is a copy, a walk, sum or verify with --output, or a walk or verify with --job, that goes on after a kill ('atta resume'). Without DIR, the jobs that this user has begun \
    are listed, as the files below $XDG_STATE_HOME/atta/jobs say ($HOME/.local/state); those that ended are kept there. Copies that took less than a second \
    are no jobs.\n\n\
    States: running; interrupted (it was killed, or had failures, and can be resumed); complete; gone (its directory was removed: listed once); \
    unreachable (its directory cannot be opened here).\n\n\
    Exit codes: 0 success; 2 invalid usage; 4 fatal error.\n\n\
    Examples:\n  \
    atta jobs                   all jobs of this user\n  \
    atta jobs /backup           those of copies to /backup, also of other hosts\n  \
    atta jobs show 3f2a         what a job has done so far, or what it came to"
)]
pub(crate) struct JobsArguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// The directory of a job, the TARGET of copies, or a catalog
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show one job: its command, what it has done so far, or its summary
    Show {
        /// The directory of the job, the TARGET of the copy, the catalog, or the first digits of the number
        #[arg(value_name = "DIR|NUMBER")]
        which: OsString,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

/// A job, and what is known of it.
struct Job {
    known: Known,
    state: State,
    /// The process that runs it, or ran it last.
    holder: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Interrupted,
    Complete,
    Gone,
    /// Its directory is on another host, or cannot be opened now.
    Unreachable,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Complete => "complete",
            Self::Gone => "gone",
            Self::Unreachable => "unreachable",
        }
    }
}

impl Job {
    /// A job in its directory.
    fn at(place: &JobPlace) -> Option<Self> {
        let JobSeen { number, began, request, holder, is_running, end, .. } = JobSeen::at(place).ok()?;
        let state = match (is_running, &end) {
            (_, Some(_)) => State::Complete,
            (true, None) => State::Running,
            (false, None) => State::Interrupted,
        };
        let ended = end.as_deref().map(|kept| {
            let (code, json, text) = job::parts_of(kept);
            End { code, json, text }
        });
        let place = std::env::current_dir().unwrap_or_default().join(place.path());
        let arguments = request.arguments.into_iter().map(OsString::from_vec).collect();
        let known = Known { number: hex(&number), host: host(), place, began, arguments, ended };
        Some(Self { known, state, holder: holder.map(|holder| holder.to_string()) })
    }

    /// A job that this user has begun. One of which the directory has another job, or none, and which has not ended, is gone.
    fn of(known: Known) -> Self {
        if known.ended.is_some() {
            return Self { known, state: State::Complete, holder: None };
        }
        let place = JobPlace::from(known.place.as_path());
        match Self::at(&place) {
            Some(job) if job.known.number == known.number => return job,
            _ => {}
        }
        let is_other = |number: Option<[u8; 16]>| number.is_none_or(|number| hex(&number) != known.number);
        let is_gone = known.host == host() && place.is_reachable() && place.number().is_ok_and(is_other);
        let state = if is_gone { State::Gone } else { State::Unreachable };
        Self { known, state, holder: None }
    }

    fn command(&self) -> String {
        let words = self.known.arguments.iter().map(|word| shell_quote(word.as_bytes()));
        std::iter::once("atta".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// What it has done so far, as its logs say: entries, and bytes of a copy.
    fn done(&self) -> Option<(u64, u64)> {
        let job = LoggedJob::peek(&JobPlace::from(self.known.place.as_path())).ok()?;
        match self.known.arguments.first()?.as_bytes() {
            b"copy" => {
                let done: copy::Results = sum(&job, |sum: &mut copy::Results, more| {
                    atta_runtime::Results::add(sum, more);
                })?;
                Some((done.entries(), done.bytes()))
            }
            b"walk" => {
                let done: Share = sum(&job, |sum: &mut Share, more| sum.totals += &more.totals)?;
                Some((done.totals.entries(), 0))
            }
            b"sum" => {
                let done: SumShare = sum(&job, |sum: &mut SumShare, more| sum.totals += &more.totals)?;
                Some((done.totals.entries(), done.totals.bytes))
            }
            b"verify" => {
                let done: Findings = sum(&job, |sum: &mut Findings, more| sum.totals += &more.totals)?;
                Some((done.totals.compared, done.totals.bytes))
            }
            _ => None,
        }
    }

    fn to_json(&self) -> Value {
        let Known { number, host, place, began, arguments, ended } = &self.known;
        let words = arguments.iter().map(|word| word.to_string_lossy());
        json!({
            "number": number,
            "state": self.state.name(),
            "host": host,
            "directory": place.to_string_lossy(),
            "began": began,
            "holder": self.holder,
            "arguments": words.collect::<Vec<_>>(),
            "exit_code": ended.as_ref().map(|ended| ended.code),
        })
    }
}

/// The sum of all results in the logs of a job. None: they cannot be read now.
fn sum<R: walk::SliceResults>(job: &LoggedJob, mut add: impl FnMut(&mut R, &R)) -> Option<R> {
    let mut logs = job.earlier().ok()?;
    let mut sum = R::default();
    let mut journal = Journal::<R>::new(job.key(), job.run(), 0);
    let read = journal.resume(&mut logs, MEMORY, &mut |found| {
        if let FromLog::Results(more) = found {
            add(&mut sum, &more);
        }
    });
    read.is_ok().then_some(sum)
}

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &JobsArguments) -> u8 {
    let printed = match &arguments.action {
        Some(Action::Show { which, json }) => match find(which) {
            Ok(job) => print(&if *json { shown_as_json(&job) } else { shown(&job) }),
            Err(refused) => return refused.report(),
        },
        None => {
            let jobs = match &arguments.directory {
                Some(directory) => match jobs_in(directory) {
                    Ok(jobs) => jobs,
                    Err(refused) => return refused.report(),
                },
                None => history::all().into_iter().map(Job::of).collect(),
            };
            let rows: Vec<_> = jobs.iter().map(Job::to_json).collect();
            let text = match arguments.json {
                true => format!("{:#}\n", json!({"schema_version": 1, "jobs": rows})),
                false => listed(&jobs),
            };
            // They are said once.
            let gone = jobs.iter().filter(|job| job.state == State::Gone);
            gone.for_each(|job| history::forget(&job.known.number));
            print(&text)
        }
    };
    printed.map_or_else(Fatal::report, |()| exit::DONE)
}

/// The job in a directory, or those of copies to it.
fn jobs_in(directory: &Path) -> Result<Vec<Job>, Refused> {
    Ok(match Job::at(&JobPlace::from(directory)) {
        Some(job) => vec![job],
        None => job::places_for(directory)?.iter().filter_map(Job::at).collect(),
    })
}

/// The only job that is meant.
fn find(which: &OsString) -> Result<Job, Refused> {
    let mut found = jobs_in(Path::new(which))?;
    if found.is_empty() {
        let begins =
            |known: &Known| !which.is_empty() && known.number.as_bytes().starts_with(which.as_bytes());
        found = history::all().into_iter().filter(begins).map(Job::of).collect();
    }
    let name = escape(which.as_bytes());
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let what = format!("there is no job of that directory or number: {name}");
            Err(Refused::usage(what, "atta jobs lists them"))
        }
        more => {
            let numbers: Vec<_> = found.iter().map(|job| short(&job.known.number)).collect();
            let what = format!("{more} jobs are meant by {name}: {}", numbers.join(" "));
            Err(Refused::usage(what, "name one by its number"))
        }
    }
}

fn short(number: &str) -> &str {
    number.get(..DIGITS).unwrap_or(number)
}

/// The list as text for people.
fn listed(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let mut text = format!("{:DIGITS$}  {:11}  {:>8}  COMMAND\n", "NUMBER", "STATE", "AGE");
    for job in jobs {
        let age = age(now().saturating_sub(job.known.began));
        let number = short(&job.known.number);
        let _ = writeln!(text, "{number}  {:11}  {age:>8}  {}", job.state.name(), job.command());
    }
    text
}

/// A time in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn shown(job: &Job) -> String {
    let Known { number, place, began, ended, .. } = &job.known;
    let age = age(now().saturating_sub(*began));
    let mut text =
        format!("job {number}\n  state      {}\n  command    {}\n", job.state.name(), job.command());
    let _ = writeln!(text, "  directory  {}\n  began      {age} ago", escape(place.as_os_str().as_bytes()));
    if let Some(holder) = &job.holder {
        let word = if job.state == State::Running { "run by" } else { "last run" };
        let _ = writeln!(text, "  {word:10} {holder}");
    }
    match (ended, job.state) {
        (Some(ended), _) => {
            let _ = write!(text, "  exit code  {}\n\n{}", ended.code, ended.text);
        }
        (None, State::Gone | State::Unreachable) => {}
        (None, _) => {
            if let Some((entries, bytes)) = job.done() {
                let entries = counted(entries, "entry", "entries");
                let bytes = if bytes > 0 { format!(", {}", binary(bytes)) } else { String::new() };
                let _ = writeln!(text, "  in its log {entries}{bytes}");
            }
            if job.state == State::Interrupted {
                let place = shell_quote(place.as_os_str().as_bytes());
                let _ = writeln!(text, "  go on with atta resume {place}");
            }
        }
    }
    text
}

fn shown_as_json(job: &Job) -> String {
    let mut row = job.to_json();
    let done = if job.known.ended.is_none() { job.done() } else { None };
    row["schema_version"] = json!(1);
    row["logged"] = done.map_or(Value::Null, |(entries, bytes)| json!({"entries": entries, "bytes": bytes}));
    row["summary"] = job.known.ended.as_ref().map_or(Value::Null, |ended| ended.json.clone());
    format!("{row:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_their_largest_unit() {
        let said = [0, 119, 120, 7_200, 172_800].map(age);
        assert_eq!(said, ["0 s", "119 s", "2 min", "2 h", "2 d"]);
    }
}
