//! A copy on ranks within this process, as the program runs it on real ones: each rank with its own options, engine and threads.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use atta_engine::{Config, Reason, Reduce, ScheduleKind, Split, Termination};
use atta_entry::Failure;
use atta_fabric::{InProcess, in_process_on_hosts};
use atta_ops::copy::{Copy, Options, Outcome, Progress, RankReport, Seat, Totals, Watch};
use atta_ops::digest::Signature;
use atta_ops::walk::Start;
use atta_runtime::{Meeting, Member};

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

#[derive(Clone)]
struct Nothing;

impl Reduce for Nothing {
    fn merge(&mut self, _other: &Self) {}

    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(Self)
    }
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Watch for Told {
    fn failure(&self, failure: &Failure<'_>) {
        self.0.lock().unwrap().push(failure.to_string());
    }
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
    accepted: u64,
    /// Names known and looked at, bytes of large files found and done, when no task was left.
    going: [u64; 4],
}

/// One rank's part, as the program does it.
fn one_rank(endpoint: &mut InProcess, copy: Copy<'_>, config: Config) -> Part {
    let mut meeting = Meeting::new(endpoint);
    let there = meeting.gather((), |(), ()| ()).unwrap();
    meeting.tell(there).unwrap();
    let mut member = Member::after(meeting, config);
    let mut going = [0; 4];
    let observe = |progress: &Progress, _| {
        let found = &progress.walk.profile;
        going = [found.known, found.looked, progress.large_found, progress.large_done];
    };
    let mut ending = copy.run_on_ranks(&mut member, |_| Nothing, observe).unwrap();
    let accepted = member.counts().tasks_accepted;
    assert_eq!(member.close(Nothing).unwrap().0, Reason::Done);
    ending.settle(&mut member.into_meeting()).unwrap();
    Part { outcome: ending.end(), accepted, going }
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
    let told = Told::default();
    // All are set up before one begins.
    let all_options: Vec<_> = hosts.iter().map(|_| options()).collect();
    let ranks: Vec<_> = std::thread::scope(|scope| {
        let begin = |(rank, (mut endpoint, options)): (usize, (InProcess, _))| {
            let seat = Seat { rank: rank as u32, ranks: hosts.len() as u32, job: config.seed };
            let target = target.as_os_str().as_bytes();
            let mut copy = Copy::prepare(&sources, target, options, &told, seat).unwrap();
            if let Some(starts) = starts {
                let own = if rank == 0 { starts } else { &[] };
                copy = copy.listed(own.iter().cloned());
            }
            scope.spawn(move || one_rank(&mut endpoint, copy, config))
        };
        let ranks = in_process_on_hosts(hosts).into_iter().zip(&all_options).enumerate();
        let ranks: Vec<_> = ranks.map(begin).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let mut whole = Whole {
        totals: Totals::default(),
        signature: Some(Signature::default()),
        failures: told.0.into_inner().unwrap(),
        accepted: 0,
        ranks: Vec::new(),
    };
    let sum = |index: usize| ranks.iter().map(|part| part.going[index]).sum::<u64>();
    assert_eq!((sum(0), sum(2)), (sum(1), sum(3)), "nothing is left that is known of");
    for Part { outcome, accepted, .. } in ranks {
        assert_eq!(outcome.elapsed, outcome.rank.elapsed(), "all time belongs to a phase");
        whole.totals += &outcome.totals;
        whole.accepted += accepted;
        whole.ranks.push(outcome.rank);
        whole.signature = whole.signature.zip(outcome.signature).map(|(mut sum, more)| {
            sum.merge(&more);
            sum
        });
    }
    whole
}
