//! Several concurrent sites on one proactor, each with one pending operation, and invariants. Outcomes are compared with the
//! model; the driver's side is checked too.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use atta_aio::driver::{Close, Driver, Ended, Token, Wake};
use atta_aio::{Handle, Limits, Op, Proactor, Terms};
use atta_testkit::random::Random;

use crate::acts::{SLOTS, Site, draw, seen};
use crate::model::{Act, Model};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub sites: usize,
    /// The number of acts at each site.
    pub acts: usize,
    /// The numbers of operations, out of 100, that are cancelled, and that have a deadline.
    pub cancelled: u64,
    pub late: u64,
    pub limits: Limits,
    /// Errors that faults may inject.
    pub injected: Vec<i32>,
    pub may_be_short: bool,
    pub extended: bool,
}

/// A driver that checks the proactor's requests.
pub struct Watched<D> {
    pub driver: D,
    running: HashSet<Token>,
    most: usize,
}

impl<D: Driver> Watched<D> {
    pub fn new(driver: D, limits: &Limits) -> Self {
        let most = limits.running.unwrap_or_else(|| driver.depth());
        Self { driver, running: HashSet::new(), most }
    }
}

impl<D: Driver> Driver for Watched<D> {
    fn start(&mut self, token: Token, op: Box<Op>) {
        assert!(self.running.insert(token), "{op:?} has the number of one that runs");
        assert!(self.running.len() <= self.most, "more run than may");
        self.driver.start(token, op);
    }

    fn cancel(&mut self, token: Token) {
        assert!(self.running.contains(&token), "cancelled, but it does not run");
        self.driver.cancel(token);
    }

    fn wait(&mut self, at_most: Option<Duration>, ended: &mut Vec<Ended>) {
        let before = ended.len();
        self.driver.wait(at_most, ended);
        for Ended { token, .. } in &ended[before..] {
            assert!(self.running.remove(token), "ended twice");
        }
    }

    fn is_kernel(&self) -> bool {
        self.driver.is_kernel()
    }

    fn depth(&self) -> usize {
        self.driver.depth()
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.driver.waker()
    }

    fn now(&self) -> Duration {
        self.driver.now()
    }

    fn closer(&self) -> Option<Arc<dyn Close>> {
        self.driver.closer()
    }
}

/// A site, and the possible states of its files.
struct Actor {
    site: Site,
    worlds: Vec<Model>,
    random: Random,
    left: usize,
    /// The pending act and the number of its operation; `None`: it was refused so far.
    act: Option<(Act, Option<(u64, Handle)>)>,
    past: Vec<String>,
}

/// A trace: numbers of operations, their outcomes, and times.
pub type Trace = Vec<(u64, Result<u64, i32>, Duration)>;

/// A run in progress.
pub struct Run<D: Driver> {
    pub proactor: Proactor<Watched<D>, u64>,
    plan: Plan,
    actors: Vec<Actor>,
    /// The actor of each pending operation.
    pending: BTreeMap<u64, usize>,
    next: u64,
    random: Random,
    pub trace: Trace,
    may_be_given_up: bool,
}

impl<D: Driver> Run<D> {
    /// Creates a run at directories `site0`, `site1`... below `base`, which exist and are empty.
    pub fn new(driver: D, base: &str, plan: &Plan, may_be_given_up: bool) -> Self {
        let mut random = Random::new(plan.seed);
        let actor = |number| Actor {
            site: Site { base: format!("{base}/site{number}"), open: [None; SLOTS] },
            worlds: vec![Model::new()],
            random: Random::new(random.draw()),
            left: plan.acts,
            act: None,
            past: Vec::new(),
        };
        let actors = (0..plan.sites).map(actor).collect();
        let proactor = Proactor::new(Watched::new(driver, &plan.limits), plan.limits);
        let (pending, trace) = (BTreeMap::new(), Vec::new());
        Self { proactor, plan: plan.clone(), actors, pending, next: 0, random, trace, may_be_given_up }
    }

    /// Runs all acts, then closes open files, and compares the files with the model.
    pub fn finish(&mut self) {
        let mut idle = 0;
        while self.actors.iter().any(|actor| actor.left > 0 || actor.act.is_some()) {
            (0..self.actors.len()).for_each(|number| self.submit(number));
            self.interfere();
            if idle > 20 {
                // Only hanging operations are left.
                self.proactor.cancel_all();
            }
            idle = if self.advance() { 0 } else { idle + 1 };
        }
    }

    fn submit(&mut self, number: usize) {
        let actor = &mut self.actors[number];
        if actor.act.is_none() && actor.left > 0 {
            actor.left -= 1;
            let mut act = draw(&mut actor.random, self.plan.extended);
            // The position of a directory is specific to the file system.
            if matches!(act, Act::Seek { slot, .. } if actor.worlds.iter().any(|world| world.has_directory(slot)))
            {
                act = Act::Nop;
            }
            // A slot is closed before it is used again.
            if let Act::Open { slot, .. } = act
                && actor.site.open[slot].is_some()
            {
                act = Act::Close { slot };
            }
            actor.act = Some((act, None));
        }
        let Some((act, place @ None)) = &mut actor.act else { return };
        let op = actor.site.op(act);
        let within = self.random.below(400);
        let is_late = self.random.below(100) < self.plan.late;
        let deadline = is_late.then(|| self.proactor.driver().now() + Duration::from_micros(within));
        let terms = Terms { deadline, position: None };
        match self.proactor.submit(op.into(), terms, self.next) {
            Ok(handle) => {
                *place = Some((self.next, handle));
                self.pending.insert(self.next, number);
                self.next += 1;
            }
            Err(_) => assert!(self.plan.limits.waiting.is_some(), "refused without a bound"),
        }
    }

    fn interfere(&mut self) {
        for actor in &self.actors {
            if let Some((_, Some((_, handle)))) = &actor.act
                && self.random.below(100) < self.plan.cancelled
            {
                assert!(self.proactor.cancel(*handle), "it has ended without a result");
            }
        }
    }

    /// Makes progress. Returns whether an operation ended.
    fn advance(&mut self) -> bool {
        let results = RefCell::new(Vec::new());
        self.proactor
            .advance(Some(Duration::from_millis(1)), |claim, done| results.borrow_mut().push((claim, done)));
        let results = results.into_inner();
        let has_ended = !results.is_empty();
        for (claim, done) in results {
            let number = self.pending.remove(&claim).expect("reported twice, or never submitted");
            let actor = &mut self.actors[number];
            let (act, known) = actor.act.take().unwrap();
            let (known, handle) = known.unwrap();
            assert_eq!(known, claim, "another one's result");
            assert!(!self.proactor.cancel(handle), "it continues after its end was reported");
            let (seen, fd) = seen(&act, done, self.may_be_given_up);
            self.trace.push((claim, seen.outcome, self.proactor.driver().now()));
            let mut line = format!("{:?} <- {act:?}", seen.outcome);
            line.truncate(200);
            actor.past.push(line);
            if let (Act::Open { slot, .. }, Some(fd)) = (&act, fd) {
                actor.site.open[*slot] = Some(fd);
            }
            let was_cut = matches!(seen.outcome, Err(libc::ECANCELED | libc::ETIMEDOUT));
            if let (Act::Close { slot }, false) = (&act, was_cut) {
                actor.site.open[*slot] = None;
            }
            let (short, injected) = (self.plan.may_be_short, &self.plan.injected);
            let mut worlds: Vec<Model> = Vec::new();
            for world in actor.worlds.iter().flat_map(|world| world.after(&act, &seen, short, injected)) {
                if !worlds.contains(&world) {
                    worlds.push(world);
                }
            }
            assert!(
                !worlds.is_empty(),
                "cannot be: {seen:?}\nafter {:#?}\nin {:?}",
                actor.past,
                actor.worlds
            );
            actor.worlds = worlds;
        }
        let (running, waiting) = (self.proactor.running(), self.plan.limits.waiting);
        let waits = self.pending.len().saturating_sub(running);
        assert!(waiting.is_none_or(|most| waits <= most), "{waits} wait");
        has_ended
    }

    /// Closes open files, and compares the files with the model. No more faults occur.
    pub fn check(&mut self, tree: impl Fn(&mut Proactor<Watched<D>, u64>, &str) -> Vec<(String, String)>) {
        assert_eq!(self.proactor.pending(), 0);
        for actor in &mut self.actors {
            for fd in actor.site.open.iter_mut().filter_map(Option::take) {
                assert_eq!(one(&mut self.proactor, Op::Close { fd }).outcome(), Ok(0));
            }
            let found = tree(&mut self.proactor, &actor.site.base);
            let is_known = actor.worlds.iter().any(|world| world.tree() == found);
            assert!(is_known, "found {found:#?}\nafter {:#?}\nin {:#?}", actor.past, actor.worlds);
        }
        assert_eq!(self.proactor.pending(), 0);
    }
}

/// Carries out one operation.
pub fn one<D: Driver>(proactor: &mut Proactor<D, u64>, op: Op) -> atta_aio::Done {
    proactor.submit(op.into(), Terms::default(), u64::MAX).unwrap();
    let found = Rc::new(RefCell::new(None));
    while found.borrow().is_none() {
        proactor.advance(None, |_, done| *found.borrow_mut() = Some(done));
    }
    found.take().unwrap()
}
