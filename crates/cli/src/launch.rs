//! `atta launch`: runs a launcher command, and starts it again while its job has begun and has not come to its end. The ranks report that in
//! a file (`run/outcome.rs`), since the exit code of a launcher does not. What is done is not known here: the job has a log.
//!
//! ```text
//!   start COMMAND ──▶ wait, pass on signals ──▶ read the file ──▶ verdict ─┬─▶ exit code
//!        ▲                                                                 │
//!        └──────────────── leave out hosts that do not answer ◀────────────┘
//! ```

mod answers;
mod child;
pub(crate) mod host_file;
pub(crate) mod host_list;
mod options;
mod private;
mod signals;
mod verdict;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;

use self::private::{Place, PrivateFile};
use self::signals::Signals;
use self::verdict::{Verdict, how_ended};
use self::words::Words;
use crate::run::messages::{complain, exit, hint};
use crate::run::outcome::Outcome;
use crate::run::refused::Refused;

/// The first pause before a new start: processes of the last one may still be ending. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Run a launcher command, and start it again until its job has come to its end
#[derive(Debug, Args)]
#[command(
    after_help = "COMMAND is a launcher with atta walk, copy, sum, verify or resume, or one of these alone. If the job has begun and \
    COMMAND ends before the job does, because a rank or host died, COMMAND is started again: the job goes on where it was. Hosts that \
    COMMAND names (--host, -hosts, --hostfile, -f and others) and that do not answer are left out. Commands without a job are not \
    started again. Standard input is passed on to the first start only.\n\n\
    Exit codes: that of the command, whatever the launcher's exit code is; 2 invalid usage; 4 the job has not come to its end; 129, 130 or \
    143 interrupted (SIGHUP, SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    atta launch -- mpirun -np 64 atta copy /data /backup\n  \
    atta launch --retries 10 -- mpirun --host a:4,b:4,c:4 -np 12 atta walk --output scan.catalog /data\n  \
    atta launch --shared /scratch/me -- srun -n 64 --mpi=pmix atta resume /backup"
)]
pub(crate) struct LaunchArguments {
    /// Start COMMAND again at most N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=1000))]
    retries: u32,

    /// Directory that all hosts share, for a small file [default: in the user's state directory]
    #[arg(long, value_name = "DIR")]
    shared: Option<PathBuf>,

    /// The launcher, its options, atta and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// Runs the command; returns its exit code.
pub(crate) fn run(arguments: &LaunchArguments) -> u8 {
    launch(arguments).unwrap_or_else(Refused::report)
}

fn launch(arguments: &LaunchArguments) -> Result<u8, Refused> {
    let words = Words::new(&arguments.command)?;
    let place = Place::new(arguments.shared.as_deref())?;
    let signals =
        Signals::catch().map_err(|error| Refused::fatal(format!("cannot catch signals: {error}")))?;
    let mut starts = Starts { words, place, signals, has_begun: false };
    for start in 0..=arguments.retries {
        let why = match starts.start(start)? {
            Verdict::Exit(code) => return Ok(code),
            Verdict::Again(why) => why,
        };
        if start == arguments.retries {
            let tries = if start == 1 { "1 new start".to_owned() } else { format!("{start} new starts") };
            complain(&format!("{why}; given up after {tries}"), None);
            break;
        }
        let number = start + 1;
        complain(&format!("{why}; starting it again ({number} of {})", arguments.retries), None);
        if let Some(code) = starts.signals.wait(PAUSE_MAX.min(PAUSE * 2_u32.saturating_pow(start))) {
            return Ok(code);
        }
    }
    hint("to do what is left, give the same command again");
    Ok(exit::FATAL)
}

/// The words before `atta`, and files that they name.
type Before = (Vec<OsString>, Vec<PrivateFile>);

/// The starts of one command.
struct Starts {
    words: Words,
    place: Place,
    signals: Signals,
    /// The job has begun, in this start or before.
    has_begun: bool,
}

impl Starts {
    /// Runs the command once.
    fn start(&mut self, number: u32) -> Result<Verdict, Refused> {
        // A rank of an earlier start that still runs finds no file.
        let file = self.place.file(&[])?;
        let (before, _copies) = if number == 0 {
            (self.words.before().to_vec(), Vec::new())
        } else {
            match self.left()? {
                Ok(left) => left,
                Err(code) => return Ok(Verdict::Exit(code)),
            }
        };
        let command = self.words.with(before, file.path(), self.has_begun);
        let stdin = if number == 0 { Stdio::inherit() } else { Stdio::null() };
        let status = child::run(&command, stdin, &self.signals)?;
        let outcome = Outcome::from_text(&file.read()?);
        self.has_begun |= outcome.has_begun;
        Ok(self.judge(status, outcome))
    }

    fn judge(&self, status: ExitStatus, outcome: Outcome) -> Verdict {
        if let Some(code) = self.signals.code() {
            if self.has_begun && outcome.ended.or(outcome.complete).is_none() {
                hint("to do what is left, give the same command again");
            }
            return Verdict::Exit(code);
        }
        let what = how_ended(&self.words.launcher(), status);
        verdict::of((outcome, self.has_begun), &what, verdict::code_of(status))
    }

    /// The launcher's part of the command without hosts that do not answer, and files that it needs. An exit code if there is nothing left to
    /// start, or after a signal.
    fn left(&self) -> Result<Result<Before, u8>, Refused> {
        let as_it_is = || Ok(Ok((self.words.before().to_vec(), Vec::new())));
        let Some(hosts) = self.words.hosts() else { return as_it_is() };
        let answers = answers::of(&hosts, &self.place, &self.signals)?;
        if let Some(code) = self.signals.code() {
            return Ok(Err(code));
        }
        let names = hosts.names();
        let dead: Vec<_> =
            names.iter().zip(answers).filter_map(|(name, answers)| (!answers).then_some(name)).collect();
        if dead.is_empty() {
            return as_it_is();
        }
        if dead.len() == names.len() {
            complain(
                "no host answers",
                Some(&format!("each was asked with: {}", hosts.example(&self.place))),
            );
            return Ok(Err(exit::FATAL));
        }
        for name in &dead {
            complain(&format!("host {} does not answer and is left out", atta_entry::escape(name)), None);
        }
        let left = hosts.without(|name| dead.iter().any(|dead| dead.as_slice() == name), &self.place)?;
        if let Some((ranks, all)) = left.ranks {
            complain(&format!("{ranks} ranks are started instead of {all}"), None);
        }
        Ok(Ok((left.words, left.files)))
    }
}
