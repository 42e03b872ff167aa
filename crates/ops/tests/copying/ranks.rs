//! A copy on ranks within this process, as the program runs it on real ones: each rank with its own options, engine and threads.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use atta_engine::{Config, ScheduleKind, Split, Termination};
use atta_fabric::{InProcess, in_process_on_hosts};
use atta_ops::copy::{Copy, Options, Outcome, RankReport, Totals};
use atta_ops::digest::Signature;
use atta_ops::walk::Start;
use atta_runtime::{Limits, Session};

use super::Reported;

/// Ranks by the host that each is on.
pub(crate) const HOSTS: [&[u32]; 4] = [&[0], &[0, 1], &[0, 0, 1, 1, 2], &[0, 1, 2, 3, 0, 1, 2, 3]];

/// Every schedule, with ranks and with the other rules of the protocol in turns.
pub(crate) fn all_schedules() -> impl Iterator<Item = (&'static [u32], Config)> {
    ScheduleKind::ALL.into_iter().zip(1..).map(|(schedule, number)| {
        let (split, termination) = (Split::ALL[number % 2], Termination::ALL[number / 2 % 2]);
        let config = Config { schedule, split, termination, seed: number as u64, ..Config::default() };
        (HOSTS[number % HOSTS.len()], config)
    })
}

/// What all ranks together came to.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) totals: Totals,
    /// None: some rank has none.
    pub(crate) signature: Option<Signature>,
    pub(crate) failures: Vec<String>,
    /// Tasks that another rank gave.
    pub(crate) accepted: u64,
    /// Each of them, and how long it took.
    pub(crate) ranks: Vec<RankReport>,
}

/// What one rank came to.
struct Part {
    outcome: Outcome,
    /// Names known and looked at, bytes of large files found and done, when no task was left.
    going: [u64; 4],
}

/// What all ranks are given.
struct Given<'a> {
    sources: &'a [Vec<u8>],
    target: &'a [u8],
    /// What a list names, if there is one: rank 0 has it.
    starts: Option<&'a [Start]>,
    reports: &'a Reported,
    config: Config,
}

/// One rank's part, as the program does it.
fn one_rank(endpoint: &mut InProcess, given: &Given<'_>, options: &Options<'_>) -> Part {
    let Given { sources, target, starts, reports, config } = *given;
    let joined = Session::join(endpoint, "test", options.walk.stop.clone(), Limits::default());
    let mut session = joined.unwrap().unwrap().with_schedule(config);
    let mut copy = Copy::prepare(sources, target, options, reports, session.seat()).unwrap();
    if let Some(starts) = starts {
        let own = if session.is_first() { starts } else { &[] };
        copy = copy.listed(own.iter().cloned());
    }
    // All are set up before one begins.
    session.all_reduce((), |(), ()| ()).unwrap();
    let mut going = [0; 4];
    let outcome = copy.run(&mut session, |progress| {
        let found = &progress.walk.profile;
        going = [found.known, found.looked, progress.large_found, progress.large_done];
    });
    session.close((), |(), ()| ()).unwrap();
    Part { outcome: outcome.unwrap(), going }
}

/// Copies on so many ranks, each with options of its own.
pub(crate) fn copied<'a>(
    source: &Path,
    target: &Path,
    hosts: &[u32],
    config: Config,
    options: impl Fn() -> Options<'a>,
) -> Whole {
    copied_listed(source, target, (hosts, config), None, options)
}

/// The same, of what a list names, if there is one: rank 0 has it.
pub(crate) fn copied_listed<'a>(
    source: &Path,
    target: &Path,
    (hosts, config): (&[u32], Config),
    starts: Option<&[Start]>,
    options: impl Fn() -> Options<'a>,
) -> Whole {
    let sources = [source.as_os_str().as_bytes().to_vec()];
    let reports = Reported::default();
    let all_options: Vec<_> = hosts.iter().map(|_| options()).collect();
    let target = target.as_os_str().as_bytes();
    let given = Given { sources: &sources, target, starts, reports: &reports, config };
    let ranks: Vec<_> = std::thread::scope(|scope| {
        let given = &given;
        let begin = |(mut endpoint, options): (InProcess, _)| {
            scope.spawn(move || one_rank(&mut endpoint, given, options))
        };
        let ranks: Vec<_> = in_process_on_hosts(hosts).into_iter().zip(&all_options).map(begin).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let mut whole = Whole {
        totals: Totals::default(),
        signature: Some(Signature::default()),
        failures: reports.0.into_inner().unwrap(),
        accepted: 0,
        ranks: Vec::new(),
    };
    let sum = |index: usize| ranks.iter().map(|part| part.going[index]).sum::<u64>();
    assert_eq!((sum(0), sum(2)), (sum(1), sum(3)), "nothing is left that is known of");
    for Part { outcome, .. } in ranks {
        assert_eq!(outcome.elapsed, outcome.rank.elapsed(), "all time belongs to a phase");
        whole.totals += &outcome.totals;
        whole.accepted += outcome.exchanged.counts.tasks_accepted;
        whole.ranks.push(outcome.rank);
        whole.signature = whole.signature.zip(outcome.signature).map(|(mut sum, more)| {
            sum.merge(&more);
            sum
        });
    }
    whole
}
