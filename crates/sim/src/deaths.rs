//! A large job of which ranks die, one after the other, while the others go on: how much longer it takes. They die at any time, or at kill points
//! (`points.rs`). The protocol, the logs, the agreement on who lives and the reading of logs together are the program's own code, with the sizes that they
//! have; times are those of a model. A rank that dies loses what it has not written; the others lose the tasks that they were at, although the program ends
//! them.

use atta_engine::{Random, Rank, Regroup, Stand, Tree as Shape, Way};

use crate::logged::{Journals, LogRule, Paths, Together};
use crate::points::{Passing, Passings, Point, Progress};
use crate::setup::{Habits, Setup};
use crate::world::{Ended, World};

/// Children of a rank in the tree of a meeting: as in the program.
const WIDTH: u32 = 8;

/// A job, and how ranks of it die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mortal {
    /// The job.
    pub setup: Setup,
    /// So many ranks die.
    pub deaths: u32,
    /// Where they die: at equal parts of all passings of this point in the undisturbed job. None: at equal parts of its time, in whatever they are at.
    pub point: Option<KillPoint>,
    /// A rank writes its log so often, and before tasks leave it.
    pub write_ns: u64,
    /// The logs name each file, so that the verdict finds one that is lost beside one that counts twice. For small jobs.
    pub names_files: bool,
    /// A rule of logs that is switched off.
    pub without: Option<LogRule>,
    /// What a death costs.
    pub costs: DeathCosts,
}

/// Where ranks die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillPoint {
    /// The point.
    pub point: Point,
    /// The rank has just written what it has noted. Otherwise its last write was up to `write_ns` ago.
    pub is_written: bool,
}

/// What a death costs beside messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeathCosts {
    /// From the death until all ranks know of it and have ended their part, and what a new view takes on few ranks with empty logs.
    pub fixed_ns: u64,
    /// Meetings of all ranks in a new view, beside those that read the logs.
    pub meetings: u64,
    /// What a rank waits in a meeting before it looks for messages again.
    pub poll_ns: u64,
    /// A thousand bytes of a log, read once.
    pub read_ns: u64,
    /// A directory that is merged on the way to the first rank.
    pub merge_ns: u64,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MortalOutcome {
    /// Without deaths.
    pub undisturbed_ns: u64,
    /// The whole job.
    pub run_ns: u64,
    /// What the same work takes if each dead rank only takes no more part.
    pub ideal_ns: u64,
    /// Files that were handled, and handled again.
    pub files: u64,
    /// Each death.
    pub deaths: Vec<Death>,
}

/// The death of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Its number in its view.
    pub rank: u32,
    /// The ranks have worked so long since the death before.
    pub worked_ns: u64,
    /// How far the task was in which it has died, if it died at a point.
    pub progress: Option<Progress>,
    /// What the others wait.
    pub pause: Pause,
}

/// From the death of a rank until the others are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// The whole time.
    pub ns: u64,
    /// Of which the agreement.
    pub agreement_ns: u64,
    /// Of which the reading of logs.
    pub reading_ns: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Directories that were open for any rank.
    pub open: u64,
    /// Bytes that the first rank got and read.
    pub selected_bytes: u64,
}

/// Runs a job without deaths, and with.
///
/// # Errors
/// Says what is wrong.
pub fn run_mortal(mortal: &Mortal) -> Result<MortalOutcome, String> {
    let Mortal { setup, deaths, .. } = *mortal;
    let mut undisturbed = Running::new(mortal);
    let passed = undisturbed.end(journals_of(mortal)?, setup.ranks)?;
    let part = |whole: u64| (whole / u64::from(deaths + 1)).max(1);
    let next = match mortal.point {
        None => Next::At(part(undisturbed.run_ns)),
        Some(_) => Next::Passing(part(passed)),
    };
    let (mut running, mut journals) = (Running::new(mortal), journals_of(mortal)?);
    for death in 0..deaths {
        journals = running.until_death(journals, setup.ranks - death, next)?;
    }
    running.end(journals, setup.ranks - deaths)?;
    let Running { run_ns, files, deaths, .. } = running;
    let ideal_ns = ideal(undisturbed.run_ns, setup.ranks, &deaths);
    Ok(MortalOutcome { undisturbed_ns: undisturbed.run_ns, run_ns, ideal_ns, files, deaths })
}

/// When the next rank dies: so long after the view began, or at the so many-th passing of the point.
#[derive(Clone, Copy, Debug)]
enum Next {
    At(u64),
    Passing(u64),
}

fn journals_of(mortal: &Mortal) -> Result<Journals, String> {
    let Mortal { setup, without, write_ns, .. } = *mortal;
    let journals = Journals::new(Paths::of(&setup.tree), without, setup.engine.seed).writing(write_ns);
    let mut journals = if mortal.names_files { journals } else { journals.counting() };
    journals.look_together(1)?;
    Ok(journals)
}

/// A job in progress.
struct Running<'m> {
    mortal: &'m Mortal,
    views: u32,
    run_ns: u64,
    files: u64,
    deaths: Vec<Death>,
    random: Random,
}

impl<'m> Running<'m> {
    fn new(mortal: &'m Mortal) -> Self {
        let random = Random::stream(mortal.setup.engine.seed, 11);
        Self { mortal, views: 0, run_ns: 0, files: 0, deaths: Vec::new(), random }
    }

    /// So many ranks work for so long, or until one of them dies at its point.
    fn view(&mut self, mut journals: Journals, ranks: u32, next: Option<Next>) -> Result<Ended, String> {
        let setup = self.mortal.setup;
        self.views += 1;
        let tasks = journals.begin_next(&setup.tree, self.views, (ranks, setup.habits.batch_files));
        // A slice is never split, also one that an earlier run has cut.
        let habits = Habits { batch_files: u64::MAX, ..setup.habits };
        let mut world = World::new(Setup { ranks, habits, ..setup }).with_journals(journals);
        let (until_ns, dies_at) = match next {
            None => (u64::MAX, None),
            Some(Next::At(at_ns)) => (at_ns, None),
            Some(Next::Passing(count)) => (u64::MAX, Some(count)),
        };
        if let Some(KillPoint { point, .. }) = self.mortal.point {
            world = world.with_point(Passings::new(point, dies_at));
        }
        world.run_for(until_ns, tasks).map_err(|violation| violation.to_string())
    }

    /// The ranks work until one of them dies. Returns what is in the logs when the others go on.
    fn until_death(&mut self, journals: Journals, ranks: u32, next: Next) -> Result<Journals, String> {
        let ended = self.view(journals, ranks, Some(next))?;
        let drawn = self.random.below(u64::from(ranks)) as u32;
        let died = match next {
            Next::At(at_ns) => Some((drawn, at_ns)),
            Next::Passing(_) => ended.died.map(|passing| (passing.rank, passing.at_ns)),
        };
        let died = died.filter(|_| ended.outcome.is_none());
        let (rank, worked_ns) = died.ok_or_else(|| format!("view {} ended before a death", self.views))?;
        let mut journals = ended.journals.ok_or("the logs are lost")?;
        self.die(&mut journals, rank, ended.died.as_ref());
        let pause = pause(self.mortal, (ranks, rank), &mut journals)?;
        let progress = ended.died.map(|passing| passing.progress(&self.mortal.setup.costs));
        self.deaths.push(Death { rank, worked_ns, progress, pause });
        self.run_ns += worked_ns + pause.ns;
        self.files += ended.files;
        Ok(journals)
    }

    /// What a rank has noted in the task in which it dies is lost, unless it has just written it.
    fn die(&self, journals: &mut Journals, dead: u32, passing: Option<&Passing>) {
        let setup = &self.mortal.setup;
        if let Some(passing) = passing.filter(|passing| passing.has_read(&setup.costs)) {
            drop(journals.note_names(setup, dead, &passing.running));
        }
        if self.mortal.point.is_some_and(|point| point.is_written) {
            journals.write(dead);
        }
        journals.one_dies(dead);
    }

    /// All is done by so many ranks. Returns how often they passed the point.
    fn end(&mut self, journals: Journals, ranks: u32) -> Result<u64, String> {
        let ended = self.view(journals, ranks, None)?;
        let outcome = ended.outcome.ok_or("the job has no end")?;
        self.run_ns += outcome.run_ns;
        self.files += ended.files;
        let mut journals = ended.journals.ok_or("the logs are lost")?;
        journals.end_run();
        journals.verdict().map_or(Ok(ended.passed), Err)
    }
}

/// The time of the same work: each view has one rank less.
fn ideal(whole_ns: u64, ranks: u32, deaths: &[Death]) -> u64 {
    let (mut left, mut time, mut living) = (whole_ns as f64, 0.0, f64::from(ranks));
    for death in deaths {
        left -= death.worked_ns as f64 * living / f64::from(ranks);
        time += death.worked_ns as f64;
        living -= 1.0;
    }
    (time + left.max(0.0) * f64::from(ranks) / living) as u64
}

fn pause(mortal: &Mortal, (ranks, dead): (u32, u32), journals: &mut Journals) -> Result<Pause, String> {
    let DeathCosts { fixed_ns, meetings, .. } = mortal.costs;
    let agreement_ns = agreement(&mortal.setup, ranks, dead)?;
    let meeting = Meeting { mortal, ranks: ranks - 1 };
    let found = journals.look_together((ranks - 1) as usize)?;
    let reading_ns = meeting.reading(&found);
    let ns = fixed_ns
        + agreement_ns
        + reading_ns
        + meetings * (meeting.reduce(&[], (0, 0)) + meeting.broadcast(0));
    let (log_bytes, open) = (found.read.iter().sum(), found.open_of_all as u64);
    Ok(Pause { ns, agreement_ns, reading_ns, log_bytes, open, selected_bytes: found.selected_of_all as u64 })
}

/// What a meeting of all ranks takes.
struct Meeting<'m> {
    mortal: &'m Mortal,
    ranks: u32,
}

impl Meeting<'_> {
    /// As `together.rs` of the program does it.
    fn reading(&self, found: &Together) -> u64 {
        let DeathCosts { read_ns, .. } = self.mortal.costs;
        let read = |bytes: u64| bytes * read_ns / 1000;
        let once = found.read.iter().copied().max().map_or(0, read);
        let dealt = self.broadcast(32 * found.logs as u64);
        let opened = self.reduce(&found.open, (OPEN_BYTES, self.mortal.costs.merge_ns));
        let all_know = self.broadcast(found.open_of_all as u64 * OPEN_BYTES);
        let selected = self.reduce(&found.selected, (1, 0));
        // The first rank reads what it gets twice, as it would read logs.
        dealt + once + opened + all_know + once + selected + 2 * read(found.selected_of_all as u64)
    }

    /// Values of all ranks come to the first one. `each`: how many parts the value of each rank has; none: no rank has any. `bytes`: of one part; `merge_ns`:
    /// what it takes to merge one. What ranks have in common counts twice.
    fn reduce(&self, each: &[u64], (bytes, merge_ns): (u64, u64)) -> u64 {
        let (mut parts, mut ready) = (vec![0_u64; self.ranks as usize], vec![0_u64; self.ranks as usize]);
        parts.iter_mut().zip(each).for_each(|(parts, own)| *parts = *own);
        for rank in (0..self.ranks).rev() {
            for child in Shape::new(Rank(rank), self.ranks, WIDTH).children() {
                let from = child.0 as usize;
                let arrives = ready[from] + self.message(child.0, rank, parts[from] * bytes);
                let merged = merge_ns * parts[from];
                let at = rank as usize;
                ready[at] = ready[at].max(arrives) + self.mortal.setup.costs.receive_ns + merged;
                parts[at] += parts[from];
            }
        }
        ready[0]
    }

    fn broadcast(&self, bytes: u64) -> u64 {
        let mut has = vec![0_u64; self.ranks as usize];
        let mut last = 0;
        for rank in 0..self.ranks {
            let mut sends = has[rank as usize];
            for child in Shape::new(Rank(rank), self.ranks, WIDTH).children() {
                sends +=
                    self.mortal.setup.costs.send_ns + bytes * 1000 / self.mortal.setup.network.bytes_per_us;
                has[child.0 as usize] = sends + self.message(rank, child.0, 0);
                last = last.max(has[child.0 as usize]);
            }
        }
        last
    }

    /// The time of one message, with what its receiver waits before it looks.
    fn message(&self, from: u32, to: u32, bytes: u64) -> u64 {
        let Setup { network, costs, .. } = self.mortal.setup;
        costs.send_ns
            + network.latency_ns(from, to)
            + bytes * 1000 / network.bytes_per_us
            + self.mortal.costs.poll_ns
    }
}

/// Bytes of an open directory in a message: two identities and flags.
const OPEN_BYTES: u64 = 33;

/// The time of the messages with which all agree on who lives.
fn agreement(setup: &Setup, ranks: u32, dead: u32) -> Result<u64, String> {
    let mut all: Vec<_> = (0..ranks).map(|rank| Regroup::new(Rank(rank), ranks)).collect();
    let mut free = vec![0_u64; ranks as usize];
    let mut arriving = std::collections::BTreeMap::new();
    let mut number = 0_u64;
    let living: Vec<u32> = (0..ranks).filter(|rank| *rank != dead).collect();
    let mut turns: Vec<u32> = living.clone();
    for rank in &living {
        all[*rank as usize].handle_lost(Rank(dead));
        all[*rank as usize].ready(Way::Anew);
    }
    loop {
        for rank in turns.drain(..) {
            let at = rank as usize;
            while let Some((to, call)) = all[at].poll_message() {
                free[at] += setup.costs.send_ns;
                number += 1;
                let arrives = free[at] + setup.network.latency_ns(rank, to.0);
                arriving.insert((arrives, number), (rank, to, call));
            }
        }
        let Some(((time, _), (from, to, call))) = arriving.pop_first() else { break };
        let at = to.0 as usize;
        free[at] = free[at].max(time) + setup.costs.receive_ns;
        all[at].handle_call(Rank(from), &call);
        turns.push(to.0);
    }
    let are_formed = living.iter().all(|rank| all[*rank as usize].stand() == Stand::Formed);
    let last = free.iter().copied().max().unwrap_or_default();
    if are_formed { Ok(last) } else { Err("the living do not agree".to_owned()) }
}
