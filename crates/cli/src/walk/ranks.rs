//! `atta walk` as one of several ranks under an MPI launcher. Rank 0 has the command's files, standard output and standard
//! error; the others walk, and send it what it is to write.
//!
//! ```text
//!   meet:   every rank sees the same PATHs?  ──▶  rank 0 opens lists, catalog, files  ──▶  all are told to go
//!   walk:   engine and pool on every rank; rows, failures and names of hard links ──▶ rank 0
//!   close:  totals of all ranks ──▶ rank 0, which settles, commits the catalog and prints the summary
//! ```
//!
//! How tasks find their ranks is not decided here: see `atta-engine`.

use std::cell::RefCell;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use atta_catalog::ShardRecord;
use atta_engine::{Reason, Reduce};
use atta_entry::Code;
use atta_fabric::Endpoint;
use atta_mpi_loader::Launcher;
use atta_ops::walk::{self, Outcome, Profile, Progress, Start, Summary, Totals};
use atta_runtime::{Meeting, Member, RankError, Rate, SpillReport, Stop, Stream, processor_time};

use super::arguments::WalkArguments;
use super::report::Whole;
use super::run::{Ended, PATIENCE, Run, conclude, give_up, options};
use super::sink::{ROWS, RootSide, Sink, SinkWorker};
use super::threads::{RankReport, grouped};
use crate::ranks::{self, FAILURES, View, cores_of_this_rank, facts};
use crate::run::fatal::Fatal;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::settings::compile;
use crate::run::settings::take;
use crate::run::signals::Signals;
use crate::run::starts::root_paths;

/// Names of files with several.
const LINKS: Stream = Stream(2);

/// Runs this rank's part of the command; returns its exit code. Rank 0's is the command's.
pub(super) fn run(arguments: &WalkArguments, signals: &Signals, launcher: &Launcher) -> u8 {
    ranks::run(launcher, |endpoint| on_ranks(arguments, signals, endpoint))
}

/// The processor time of this process when the ranks had met: what launching them takes is not the walk's.
#[derive(Clone, Copy, Debug)]
struct Met(Duration);

/// What rank 0 tells the others before the walk.
#[derive(Debug)]
struct Verdict {
    go: bool,
    partial: Option<Vec<u8>>,
    terminal: bool,
}

atta_entry::record!(Verdict { go, partial, terminal });

fn on_ranks(
    arguments: &WalkArguments,
    signals: &Signals,
    endpoint: &mut dyn Endpoint,
) -> Result<u8, RankError> {
    let mut meeting = match ranks::meet(endpoint)? {
        Ok(meeting) => meeting,
        Err(code) => return Ok(code),
    };
    let cores = cores_of_this_rank(&mut meeting)?;
    let (facts, devices) = facts(root_paths(&arguments.paths));
    let views = View::gather(facts, &mut meeting)?;
    let size = meeting.size() as usize;
    let root = views.map(|views| begin(arguments, &views, size, signals.stop()));
    let verdict = root.as_ref().map(|root| match root {
        Ok(run) => Verdict {
            go: true,
            partial: run.sink.partial().map(|partial| partial.into_os_string().into_vec()),
            terminal: run.sink.is_on_terminal(),
        },
        Err(_) => Verdict { go: false, partial: None, terminal: false },
    });
    let verdict = meeting.tell(verdict)?;
    let place = Here { arguments, signals, cores, devices, met: Met(processor_time()) };
    match root {
        Some(Ok(run)) => place.root(run, meeting),
        Some(Err(code)) => Ok(code),
        None if verdict.go => place.other(verdict, meeting),
        None => Ok(exit::DONE),
    }
}

/// Opens on rank 0 what the command needs; says what is wrong, if something is.
fn begin<'a>(arguments: &'a WalkArguments, views: &[View], size: usize, stop: Stop) -> Result<Run<'a>, u8> {
    if let Some(what) = View::differ(views) {
        let hint = "PATH must be the same file system, at the same place, on all ranks";
        complain(&what, Some(hint));
        return Err(exit::FATAL);
    }
    Run::new(arguments, size, stop).map_err(crate::run::refused::Refused::tell)
}

/// What a rank knows of itself.
struct Here<'a> {
    arguments: &'a WalkArguments,
    signals: &'a Signals,
    cores: usize,
    devices: Vec<u64>,
    met: Met,
}

impl Here<'_> {
    fn rate(&self, ranks: u32) -> Option<Rate> {
        self.arguments.effort.iops.map(|iops| Rate::new((iops / ranks).max(1)))
    }

    /// Rank 0's part.
    fn root(&self, run: Run<'_>, meeting: Meeting<'_>) -> Result<u8, RankError> {
        let Run { arguments, rules, starts, mut sink, mut display, stop, started, .. } = run;
        let rate = self.rate(meeting.size());
        let mut options = options(arguments, rules, rate.as_ref(), &stop);
        options.cores = self.cores;
        sink.summary = sink.summary.with_root_devices(self.devices.clone());
        let list_error = starts.error();
        // Totals of files whose names other ranks met.
        let linked = RefCell::new(Totals::default());
        let mut member = Member::after(meeting, arguments.ranks.config());
        member.on_stream(Box::new(|_, stream, bytes| receive(&sink, &linked, stream, bytes)));
        let mut whole = Profile::default();
        let outcome = walk::run_on_ranks(
            &sink,
            starts,
            &options,
            &mut member,
            |profile| RankTotals::so_far(*profile),
            |progress, sum: Option<RankTotals>| {
                if let Some(sum) = sum {
                    whole = sum.profile;
                }
                display.tick(&Progress { profile: whole, ..progress.clone() });
                if progress.stopping.is_some_and(|since| since > PATIENCE) {
                    give_up(&sink, take(&list_error), &mut display, progress, self.signals);
                }
            },
        )?;
        let fatal = sink.take_fatal().or_else(|| take(&list_error));
        let own = RankTotals::last(
            self.met,
            &member,
            &outcome,
            self.signals.code(),
            (None, Vec::new()),
            self.wants_traffic(),
        );
        let (reason, sum) = member.close(own)?;
        drop(member);
        display.clear();
        let ended = ended(sum.unwrap_or_default(), linked.into_inner(), reason, fatal, (&sink, self.signals));
        Ok(conclude(arguments, sink, ended, display, started))
    }

    /// The part of any other rank.
    fn other(&self, verdict: Verdict, meeting: Meeting<'_>) -> Result<u8, RankError> {
        let arguments = self.arguments;
        let (rank, ranks) = (meeting.rank(), meeting.size());
        let rate = self.rate(ranks);
        let stop = self.signals.stop();
        // What is wrong with them rank 0 has told, and then nobody goes.
        let rules = compile(&arguments.visit.rules).ok().flatten();
        let mut options = options(arguments, rules, rate.as_ref(), &stop);
        options.cores = self.cores;
        let mut member = Member::after(meeting, arguments.ranks.config());
        let outbox = member.outbox();
        let to_root = member.outbox();
        let summary = Summary::of_rank(move |bytes| to_root.push(LINKS, bytes), arguments.follow)
            .with_root_devices(self.devices.clone());
        let partial = verdict.partial.map(|partial| PathBuf::from(std::ffi::OsString::from_vec(partial)));
        let side = RootSide { partial, terminal: verdict.terminal };
        let numbers = (rank as usize, ranks as usize);
        let sink = Sink::of_rank(arguments, summary, outbox, stop.clone(), side, numbers);
        let outcome = walk::run_on_ranks(
            &sink,
            std::iter::empty::<Start>(),
            &options,
            &mut member,
            |profile| RankTotals::so_far(*profile),
            |progress, _| {
                if progress.stopping.is_some_and(|since| since > PATIENCE) {
                    hangs(rank, &sink, progress);
                }
            },
        )?;
        let mut fatal = sink.take_fatal();
        let shards = sink.hand_over().unwrap_or_else(|failed| {
            fatal.get_or_insert(failed);
            Vec::new()
        });
        let own = RankTotals::last(
            self.met,
            &member,
            &outcome,
            self.signals.code(),
            (fatal, shards),
            self.wants_traffic(),
        );
        member.close(own)?;
        Ok(exit::DONE)
    }

    /// Whether it is to be told who sent what to whom.
    fn wants_traffic(&self) -> bool {
        self.arguments.stats.is_some() || self.arguments.plots.is_some()
    }
}

/// Ends this rank, and so all, although threads still hang in the kernel.
fn hangs(rank: u32, sink: &Sink, progress: &Progress) -> ! {
    sink.abandon();
    let entries = progress.profile.entries;
    let what = format!(
        "rank {rank}: some threads hang in the file system and were not waited for; they had visited {entries} entries"
    );
    complain(&what, None);
    std::process::exit(exit::FATAL.into());
}

/// Puts where it belongs what another rank sent.
fn receive(sink: &Sink, linked: &RefCell<Totals>, stream: Stream, bytes: &[u8]) {
    let understood = match stream {
        ROWS => {
            sink.write_rows(&mut bytes.to_vec());
            true
        }
        FAILURES => sink.failures.receive(bytes),
        LINKS => sink.summary.receive(&mut linked.borrow_mut(), bytes),
        _ => false,
    };
    if !understood {
        let what = "another rank sent what this one does not understand".to_owned();
        sink.fail(Fatal::Failed { what, hint: Some("run the same atta on all ranks".to_owned()) });
    }
}

/// What all ranks together say of the end.
fn ended<'a>(
    sum: RankTotals,
    linked: Totals,
    reason: Reason,
    fatal: Option<Fatal>,
    (sink, signals): (&Sink, &'a Signals),
) -> Ended<'a> {
    sink.take_over(sum.shards.clone());
    let fatal = fatal.or_else(|| sink.take_fatal()).or_else(|| {
        let (rank, what) = sum.fatal.clone()?;
        Some(Fatal::Failed { what: format!("rank {rank}: {what}"), hint: None })
    });
    let code = (sum.interrupted > 0).then_some(sum.interrupted);
    let totals = vec![sum.totals, linked];
    let whole = Whole {
        elapsed: sum.elapsed,
        profile: sum.profile,
        threads: sum.ranks.iter().flat_map(|rank| rank.threads.iter().copied()).collect(),
        spill: SpillReport {
            tasks: sum.spilled[0],
            bytes: sum.spilled[1],
            error: sum.spill_error.map(|(rank, what)| format!("rank {rank}: {what}")),
        },
        ranks: sum.ranks,
    };
    Ended { totals, whole, fatal, interrupted: code.filter(|_| reason != Reason::Done), signals }
}

/// What ranks add up, while they walk and at the end.
#[derive(Clone, Debug, Default)]
struct RankTotals {
    profile: Profile,
    totals: Totals,
    elapsed: Duration,
    /// Tasks and bytes.
    spilled: [u64; 2],
    /// Why some rank could not spill.
    spill_error: Option<(u32, String)>,
    /// The exit code of a signal, if one was caught.
    interrupted: u8,
    /// Why some rank cannot go on.
    fatal: Option<(u32, String)>,
    shards: Vec<ShardRecord>,
    ranks: Vec<RankReport>,
}

atta_entry::record!(RankTotals {
    profile,
    totals,
    elapsed,
    spilled,
    spill_error,
    interrupted,
    fatal,
    shards,
    ranks
});

impl RankTotals {
    fn so_far(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    fn last(
        met: Met,
        member: &Member<'_, '_, Self>,
        outcome: &Outcome<SinkWorker>,
        interrupted: Option<u8>,
        (fatal, shards): (Option<Fatal>, Vec<ShardRecord>),
        traffic: bool,
    ) -> Self {
        let mut totals = Totals::default();
        outcome.workers.iter().for_each(|worker| totals += &worker.totals);
        let counts = member.counts();
        let report = RankReport {
            rank: member.rank(),
            entries: outcome.profile.entries,
            communication_seconds: member.communication().as_secs_f64(),
            cpu_seconds: processor_time().saturating_sub(met.0).as_secs_f64(),
            requests: counts.requests,
            refused: counts.refused,
            parcels_given: counts.parcels_given,
            tasks_given: counts.tasks_given,
            parcels_accepted: counts.parcels_accepted,
            tasks_accepted: counts.tasks_accepted,
            rests: counts.rests,
            traffic: if traffic { grouped(member.traffic(), member.size()) } else { Vec::new() },
            threads: outcome.threads.clone(),
        };
        Self {
            profile: outcome.profile,
            totals,
            elapsed: outcome.elapsed,
            spilled: [outcome.spill.tasks, outcome.spill.bytes],
            spill_error: outcome.spill.error.clone().map(|what| (member.rank(), what)),
            interrupted: interrupted.unwrap_or(0),
            fatal: fatal.map(|fatal| (member.rank(), fatal.what())),
            shards,
            ranks: vec![report],
        }
    }
}

impl Reduce for RankTotals {
    fn merge(&mut self, other: &Self) {
        self.profile += other.profile;
        self.spilled.iter_mut().zip(other.spilled).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.totals += &other.totals;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.interrupted = self.interrupted.max(other.interrupted);
        self.fatal = self.fatal.take().or_else(|| other.fatal.clone());
        self.spill_error = self.spill_error.take().or_else(|| other.spill_error.clone());
        self.shards.extend(other.shards.iter().cloned());
        self.ranks.extend(other.ranks.iter().cloned());
        self.ranks.sort_by_key(|rank| rank.rank);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Code::encode(self, out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Code::decode_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_being_bytes() {
        let mut totals = Totals::default();
        (totals.apparent_bytes, totals.depth_max) = (u64::MAX, atta_runtime::Maximum(3));
        let (nine, five) = (Duration::from_secs(9), Duration::from_secs(5));
        let mut sum = RankTotals { totals: totals.clone(), elapsed: five, ..RankTotals::default() };
        let other =
            RankTotals { totals: totals.clone(), elapsed: nine, interrupted: 130, ..RankTotals::default() };
        Reduce::merge(&mut sum, &other);
        let mut bytes = Vec::new();
        Reduce::encode(&sum, &mut bytes);
        let back = <RankTotals as Reduce>::decode(&bytes).unwrap();
        assert_eq!((back.elapsed, back.interrupted, back.totals), (nine, 130, totals));
        for length in 0..bytes.len() {
            assert!(<RankTotals as Reduce>::decode(&bytes[..length]).is_none(), "{length}");
        }
    }
}
