//! The session of a command: alone, or with the ranks that an MPI launcher started. It joins the ranks, reports why it cannot, and leaves
//! or aborts MPI at the end. The command supplies its part.

use std::time::Duration;

use atta_engine::{Config, ScheduleKind};
use atta_fabric::Endpoint;
use atta_mpi_loader::{Launcher, Mpi};
use atta_runtime::{Group, Limits, RankError, Session, Way, named};

use super::going::{self, Going, Next, Resumes};
use super::messages::{complain, exit, once, wait_until_read};
use super::outcome;
use super::printing::Printing;
use super::read_before::ReadBefore;
use super::refused::Refused;
use super::signals::Signals;
use super::stalls::Stalls;
use crate::output;
use crate::schedule::RankArguments;

/// Parameters of a session.
pub(crate) struct Given<'a> {
    pub(crate) launcher: Option<&'a Launcher>,
    pub(crate) schedule: &'a RankArguments,
    pub(crate) signals: &'a Signals,
    /// How long the first rank waits for others after a signal.
    pub(crate) give_up: Duration,
    pub(crate) printing: Printing<'a>,
    /// It reads a list or standard input, which cannot be read again if a rank dies.
    pub(crate) reads_once: bool,
}

/// A rank's part of a command; it returns the exit code. It goes on with this job, if there is one.
trait Part: Fn(&mut Session<'_>, Option<&Going>) -> Result<u8, RankError> {}

impl<F: Fn(&mut Session<'_>, Option<&Going>) -> Result<u8, RankError>> Part for F {}

/// Runs this rank's part of a command; returns its exit code. The command's exit code is that of the first rank. Where ranks go on when others
/// have died, the part is done again, with the arguments of a later run of the job.
pub(crate) fn run<A: Resumes>(
    given: &Given<'_>,
    arguments: &A,
    part: impl Fn(&A, &mut Session<'_>) -> Result<u8, RankError>,
) -> u8 {
    let read = ReadBefore::default();
    let part = |session: &mut Session<'_>, job: Option<&Going>| match job {
        None => part(arguments, session),
        Some(job) => part(&job.resumed(arguments, &read), session),
    };
    let Some(launcher) = given.launcher else {
        if let Err(refused) = outcome::check().and_then(|()| given.printing.open()) {
            return refused.report();
        }
        let _stalls = Stalls::watch(given.printing.stall_limit(), None);
        let mut session = Session::alone(given.signals.stop());
        let code = part(&mut session, None).map_or_else(|error| cannot_go_on(0, &error), ended);
        outcome::ended(code);
        return code;
    };
    match atta_mpi_loader::open().and_then(|plugin| plugin.begin(launcher)) {
        Ok(mpi) => on_mpi(mpi, given, part),
        Err(error) => {
            once(Some(launcher), || complain(&error.to_string(), Some(&error.hint())));
            exit::FATAL
        }
    }
}

/// A run has ended with this code. What it has not printed is not in the file that it prints to, unless it was refused.
fn ended(code: u8) -> u8 {
    if ![exit::USAGE, exit::FATAL].contains(&code) {
        output::end();
    }
    code
}

fn on_mpi(mut mpi: Mpi, given: &Given<'_>, part: impl Part) -> u8 {
    let rank = mpi.rank();
    #[cfg(debug_assertions)]
    if let Some(path) = &given.schedule.inject
        && let Err(refused) = super::inject::arm(path, rank)
    {
        return refused.report();
    }
    match in_views(&mut mpi, given, part).map(ended) {
        Ok(code) => match Box::new(mpi).leave() {
            Ok(()) => code,
            Err(error) => cannot_go_on(rank, &error.into()),
        },
        Err(RankError::Leaves) => {
            if !given.printing.is_quiet() {
                complain(&format!("rank {rank} leaves"), None);
            }
            // Its exit looks like a death to the others.
            exit::DONE
        }
        Err(error @ RankError::Excluded) => cannot_go_on(rank, &error),
        Err(error) => {
            let code = cannot_go_on(rank, &error);
            wait_until_read();
            // Leaving MPI would wait for ranks that do not respond.
            mpi.abort(code.into());
            code
        }
    }
}

/// Runs the part with all ranks. When some have died and the others go on, runs it again with those that are left.
fn in_views(endpoint: &mut dyn Endpoint, given: &Given<'_>, part: impl Part) -> Result<u8, RankError> {
    let mut group = Group::new(endpoint);
    let may_go_on = !given.schedule.no_survive && !given.reads_once;
    let mut going = None;
    loop {
        // How the next view goes on if a rank dies in this one.
        let mut way = going.as_ref().map_or(Way::Anew, Going::way);
        let ended = joined(&mut group.view(), (given, may_go_on), (&going, &mut way), &part);
        if !ended.as_ref().is_err_and(RankError::is_lost) {
            return ended;
        }
        if !may_go_on && !matches!(way, Way::Over(_)) {
            way = Way::Ends;
        }
        match going::regroup(&mut group, way, given)? {
            Next::Again(next) => going = next,
            Next::Ended(code) => {
                if group.is_lowest() {
                    outcome::ended(code);
                }
                return Ok(code);
            }
        }
    }
}

/// Runs the part in one view, and leaves the other ranks.
fn joined(
    endpoint: &mut dyn Endpoint,
    (given, may_go_on): (&Given<'_>, bool),
    (going, way): (&Option<Going>, &mut Way),
    part: &impl Part,
) -> Result<u8, RankError> {
    let survives = endpoint.survives();
    let waiting = if given.printing.is_quiet() { |_: &[u32]| {} } else { report_waiting };
    let limits = Limits { give_up: given.give_up, waiting, ..Limits::default() };
    let rank = endpoint.rank();
    let _stalls = Stalls::watch(given.printing.stall_limit(), (endpoint.size() > 1).then_some(rank));
    let has_hosts = endpoint.neighbours().len() < endpoint.size() as usize;
    let program = format!("atta {} (messages {})", env!("CARGO_PKG_VERSION"), atta_entry::VERSION);
    let mut session = match Session::join(endpoint, &program, given.signals.stop(), limits)? {
        Ok(session) => session.with_schedule(given.schedule.config()),
        Err(differs) => {
            if rank == 0 {
                let what = format!("ranks run different programs: {differs}");
                complain(&what, Some("start the same atta on all ranks"));
            }
            return Ok(exit::FATAL);
        }
    };
    session.let_go_on(may_go_on);
    session.set_way(way.clone());
    let ended = with_all(&mut session, given, (going, has_hosts), part).and_then(|code| {
        if session.is_first() {
            // A rank that dies from now on takes nothing back. If this one dies, the next first rank reports an end of its own.
            outcome::ended(ended(code));
        }
        // A rank that leaves early would look dead.
        if survives { session.finish(vec![code]).map(|()| code) } else { Ok(code) }
    });
    *way = session.way().clone();
    match &ended {
        Ok(_) => {}
        Err(error) if error.goes_on_elsewhere() => {}
        // The first rank writes its results so far, and ends all ranks.
        Err(error) => session.fail(&error.to_string()),
    }
    ended
}

/// Runs the part, if all ranks have the same options and the first one can print.
fn with_all(
    session: &mut Session<'_>,
    given: &Given<'_>,
    (going, has_hosts): (&Option<Going>, bool),
    part: &impl Part,
) -> Result<u8, RankError> {
    let schedule = given.schedule.config();
    if let Some(differ) = session.agree(vec![described(&schedule)])? {
        if session.is_first() {
            let what = format!("ranks have different options of their schedule: {differ}");
            complain(&what, Some("start all ranks with the same options"));
        }
        return Ok(exit::USAGE);
    }
    if let Err(code) = opened(given, session, (has_hosts, going.is_some()))? {
        return Ok(code);
    }
    if schedule.schedule == ScheduleKind::Proximity {
        let switches = given.launcher.and_then(|launcher| launcher.switches.as_deref());
        session.add_network(switches)?;
    }
    if let Some(going) = going
        && let Err(code) = going::check(going, given, session)?
    {
        return Ok(code);
    }
    if going.is_none() {
        // What a command can do again it says itself.
        session.set_way(Way::Ends);
    }
    part(session, going.as_ref())
}

/// Opens the first rank's output, and before anything is done looks whether `atta launch` can be answered; all ranks learn whether the command
/// goes on.
fn opened(
    given: &Given<'_>,
    session: &mut Session<'_>,
    (has_hosts, goes_on): (bool, bool),
) -> Result<Result<(), u8>, RankError> {
    let is_first = session.is_first();
    if is_first {
        let version = given.launcher.and_then(|launcher| launcher.version.as_deref());
        given.printing.warn_of_launcher(version.is_some_and(|version| version.starts_with("5.")), has_hosts);
    }
    if !given.printing.has_file() && !outcome::is_wanted() {
        return Ok(Ok(()));
    }
    let check = || if goes_on { Ok(()) } else { outcome::check() };
    let open = || check().and_then(|()| given.printing.open());
    let code = is_first.then(|| open().map_or_else(Refused::report, |()| exit::DONE));
    let code = session.broadcast(code.map(u32::from))?;
    Ok(if code == u32::from(exit::DONE) { Ok(()) } else { Err(u8::try_from(code).unwrap_or(exit::FATAL)) })
}

/// Reports the ranks that the first rank waits for.
fn report_waiting(ranks: &[u32]) {
    complain(&format!("still waiting for {}", named(ranks)), None);
}

/// The options of a schedule, which must be the same on all ranks.
fn described(schedule: &Config) -> String {
    let Config { schedule, split, termination, tree_width, .. } = schedule;
    format!("--schedule {schedule} --split {split} --termination {termination} --tree-width {tree_width}")
}

/// Reports why a rank cannot continue; returns the exit code.
fn cannot_go_on(rank: u32, error: &RankError) -> u8 {
    match error {
        RankError::Failed { .. } | RankError::Silent { .. } => complain(&error.to_string(), None),
        error => complain(&format!("rank {rank} cannot continue: {error}"), None),
    }
    exit::FATAL
}
