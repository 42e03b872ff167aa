//! All interleavings of the agreement on a new view, of two to four ranks of which any may die at any step, and any may be unable to go on.
//!
//! A step is: a message arrives (in order between two ranks; of a dead rank too, or never), a rank dies, a rank hears of a death, a rank ends its
//! part of the view.
//!
//! In every state: ranks in views of the same number have the same members, and a rank enters a view only when every member that lives had ended its
//! part of the views before. Where nothing can happen any more, all that live are in one view without the dead, or all have ended because one
//! cannot go on.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use atta_engine::{Call, Rank, Regroup, Stand, ViewRule, Way};

/// More states than any world here has.
const STATES_MOST: usize = 4_000_000;

#[derive(Clone, Hash)]
struct World {
    /// None: it is dead.
    ranks: Vec<Option<Regroup>>,
    channels: BTreeMap<(u32, u32), VecDeque<Call>>,
    /// Deaths that a rank has not heard of: (who, of whom).
    unheard: BTreeSet<(u32, u32)>,
    /// Whether each rank is at work in a view: it has entered it and not ended its part.
    at_work: Vec<Option<u32>>,
    /// The members of each view that a rank has entered.
    views: BTreeMap<u32, Vec<u32>>,
    deaths_left: u32,
    /// The rank that cannot go on.
    stuck: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(u32, u32),
    /// What a dead rank had sent never arrives.
    Lose(u32, u32),
    Die(u32),
    Hear(u32, u32),
    End(u32),
}

impl World {
    fn new(size: u32, deaths: u32, stuck: Option<u32>, broken: Option<ViewRule>) -> Self {
        let rank = |rank| {
            let new = Regroup::new(Rank(rank), size);
            Some(broken.map_or(new.clone(), |rule| new.without(rule)))
        };
        Self {
            ranks: (0..size).map(rank).collect(),
            channels: BTreeMap::new(),
            unheard: BTreeSet::new(),
            at_work: vec![Some(0); size as usize],
            views: BTreeMap::from([(0, (0..size).collect())]),
            deaths_left: deaths,
            stuck,
        }
    }

    fn living(&self) -> impl Iterator<Item = (u32, &Regroup)> {
        (0..).zip(&self.ranks).filter_map(|(rank, engine)| Some((rank, engine.as_ref()?)))
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let arrives = self.channels.iter().filter(|(_, queue)| !queue.is_empty());
        steps.extend(arrives.map(|((from, to), _)| Step::Arrive(*from, *to)));
        let is_dead = |rank: u32| self.ranks[rank as usize].is_none();
        let lost = self.channels.keys().filter(|(from, _)| is_dead(*from));
        steps.extend(lost.map(|(from, to)| Step::Lose(*from, *to)));
        steps.extend(self.unheard.iter().map(|(who, of)| Step::Hear(*who, *of)));
        for (rank, engine) in self.living() {
            if engine.stand() == Stand::Broken {
                steps.push(Step::End(rank));
            }
            if self.deaths_left > 0 && self.living().count() > 1 {
                steps.push(Step::Die(rank));
            }
        }
        steps
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Die(rank) => {
                self.ranks[rank as usize] = None;
                self.at_work[rank as usize] = None;
                self.deaths_left -= 1;
                self.unheard.retain(|(who, _)| *who != rank);
                let living: Vec<u32> = self.living().map(|(rank, _)| rank).collect();
                self.unheard.extend(living.into_iter().map(|other| (other, rank)));
                self.channels.retain(|(_, to), _| *to != rank);
                Ok(())
            }
            Step::Lose(from, to) => {
                self.channels.remove(&(from, to));
                Ok(())
            }
            Step::Hear(who, of) => {
                self.unheard.remove(&(who, of));
                self.ranks[who as usize].as_mut().unwrap().handle_lost(Rank(of));
                self.settle(who)
            }
            Step::End(rank) => {
                self.at_work[rank as usize] = None;
                let way = if self.stuck == Some(rank) { Way::Ends } else { Way::Anew };
                self.ranks[rank as usize].as_mut().unwrap().ready(way);
                self.settle(rank)
            }
            Step::Arrive(from, to) => {
                let call = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap();
                let rank = self.ranks[to as usize].as_mut().unwrap();
                if !rank.handle_call(Rank(from), &call) {
                    return Err(format!("rank {to} refuses {call:?} of rank {from}"));
                }
                self.settle(to)
            }
        }
    }

    /// Sends what a rank has to send, and looks at its view.
    fn settle(&mut self, who: u32) -> Result<(), String> {
        let (before, rank) = (self.view_of_work(who), self.ranks[who as usize].as_mut().unwrap());
        while let Some((to, call)) = rank.poll_message() {
            if self.at_work.len() > to.0 as usize {
                self.channels.entry((who, to.0)).or_default().push_back(call);
            }
        }
        let rank = self.ranks[who as usize].as_ref().unwrap();
        let (view, stand) = (rank.view(), rank.stand());
        let members: Vec<u32> = rank.members().map(|rank| rank.0).collect();
        if stand == Stand::Excluded {
            return Err(format!("rank {who} lives, and others believe that it is dead"));
        }
        if before.is_none_or(|before| view > before)
            && matches!(stand, Stand::Formed | Stand::Broken)
            && view > 0
        {
            let entered = self.at_work[who as usize] != Some(view);
            if entered {
                let at_work =
                    members.iter().find(|rank| self.at_work[**rank as usize].is_some_and(|at| at < view));
                if let Some(other) = at_work {
                    return Err(format!("rank {who} enters view {view} while rank {other} is at work"));
                }
                self.at_work[who as usize] = Some(view);
            }
        }
        let known = self.views.entry(view).or_insert_with(|| members.clone());
        if *known != members {
            return Err(format!("view {view} has ranks {known:?} and {members:?}"));
        }
        self.channels.retain(|_, queue| !queue.is_empty());
        let living: Vec<u32> = self.living().map(|(rank, _)| rank).collect();
        self.channels.retain(|(_, to), _| living.contains(to));
        Ok(())
    }

    fn view_of_work(&self, rank: u32) -> Option<u32> {
        self.at_work[rank as usize]
    }

    /// Nothing can happen any more.
    fn check_end(&self) -> Result<(), String> {
        let living: Vec<u32> = self.living().map(|(rank, _)| rank).collect();
        let stands: Vec<Stand> = self.living().map(|(_, rank)| rank.stand()).collect();
        if stands.iter().all(|stand| *stand == Stand::Ended) && self.stuck.is_some() {
            return Ok(());
        }
        let views: BTreeSet<u32> = self.living().map(|(_, rank)| rank.view()).collect();
        let are_in = |rank: &Regroup| rank.members().map(|rank| rank.0).eq(living.iter().copied());
        let is_formed = stands.iter().all(|stand| *stand == Stand::Formed);
        if is_formed && views.len() == 1 && self.living().all(|(_, rank)| are_in(rank)) {
            return Ok(());
        }
        Err(format!("the end: {stands:?} in views {views:?} of {living:?}"))
    }
}

/// Explores all states. Returns how many there are, or the violation.
fn explore(world: World) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        assert!(seen.len() < STATES_MOST, "too many states");
        let steps = world.steps();
        if steps.iter().all(|step| matches!(step, Step::Die(_))) {
            world.check_end()?;
        }
        for step in steps {
            let mut next = world.clone();
            next.take(step)?;
            open.push(next);
        }
    }
    Ok(seen.len())
}

#[test]
fn living_ranks_agree_whoever_dies() {
    for (size, deaths) in [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 2)] {
        let states = explore(World::new(size, deaths, None, None)).unwrap();
        println!("{size} ranks, {deaths} deaths: {states} states");
    }
}

#[test]
fn all_end_if_one_cannot_go_on() {
    for (size, deaths, stuck) in [(3, 1, 0), (3, 2, 1), (3, 2, 2)] {
        let states = explore(World::new(size, deaths, Some(stuck), None)).unwrap();
        println!("{size} ranks, {deaths} deaths, rank {stuck} stuck: {states} states");
    }
}

#[test]
fn view_rule_that_is_switched_off_is_noticed() {
    for rule in ViewRule::ALL {
        let found = [(3, 2), (4, 2)]
            .into_iter()
            .find_map(|(size, deaths)| explore(World::new(size, deaths, None, Some(rule))).err());
        println!("{rule:?}: {}", found.as_deref().unwrap_or("nobody notices"));
        assert!(found.is_some(), "{rule:?}");
    }
}
