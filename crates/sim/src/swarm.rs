//! Small jobs drawn from a seed: each has its own schedule, tree, network and disturbances, so that many seeds cover many
//! orders of events. This module draws the jobs; the checkers judge them.

use std::fmt;
use std::time::Duration;

use atta_engine::{Config, Random, Rules, ScheduleKind, Split, Termination};

use crate::check::Violation;
use crate::cost::Costs;
use crate::network::{Network, Topology};
use crate::outcome::Outcome;
use crate::setup::{Disturbance, Habits, Setup};
use crate::tree::{Shape, Tree};
use crate::world::simulate;

/// Far more events than any job of this size needs: a job that exceeds this does not terminate.
const EVENTS_MOST: u64 = 20_000_000;

/// A job drawn from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The setup drawn. It may be changed, for example to switch a rule off.
    pub setup: Setup,
}

impl Scenario {
    /// Draws a job.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let ranks = 1 + draw(random, 12);
        let habits = draw_habits(random);
        let ranks_per_host = 1 + draw(random, 4);
        let mut setup = Setup {
            tree: draw_tree(random),
            costs: draw_costs(random),
            network: draw_network(random, ranks, ranks_per_host),
            ranks,
            engine: draw_config(random, seed),
            habits,
            disturbance: draw_disturbance(random, ranks),
            count_pairs: false,
            events_most: EVENTS_MOST,
        };
        // Drawn last because it was added last: older seeds keep all their other values.
        setup.habits.breadth_units = pick(random, &[0, 0, 4, 64]);
        setup.disturbance.addressed_one_in = pick(random, &[0, 0, 1, 2, 9]);
        Self { seed, setup }
    }

    /// Runs it.
    ///
    /// # Errors
    /// A checker found a violation.
    pub fn run(&self) -> Result<Outcome, Violation> {
        simulate(&self.setup)
    }

    /// The same job with other rules.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.setup.engine.rules = rules;
        self
    }
}

/// The whole setup, in one line.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {:?}", self.seed, self.setup)
    }
}

fn draw(random: &mut Random, bound: u32) -> u32 {
    random.below(u64::from(bound)) as u32
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[draw(random, from.len() as u32) as usize]
}

/// A random time below 2^`bits`. All magnitudes are equally likely.
fn draw_ns(random: &mut Random, bits: u32) -> u64 {
    let bits = draw(random, bits + 1);
    random.below(1 << bits)
}

fn draw_habits(random: &mut Random) -> Habits {
    let threads = 1 + draw(random, 3);
    let habits = if draw(random, 2) == 0 {
        Habits::atta(threads, &Costs::FILE_SERVER)
    } else {
        Habits::paper(threads)
    };
    Habits {
        lock_step: !habits.communication_thread && draw(random, 4) == 0,
        inline_files: pick(random, &[0, 1, 8, habits.inline_files]),
        batch_files: pick(random, &[1, 3, 16, habits.batch_files]),
        slice_units: pick(random, &[1, 1, 4]),
        chunk_entries: pick(random, &[1, 5, 64, u64::MAX]),
        gives_evenly: draw(random, 2) == 0,
        aggregate_files: pick(random, &[0, 0, 0, 10]),
        ..habits
    }
}

fn draw_tree(random: &mut Random) -> Tree {
    let fan_out = 1 + draw(random, 8);
    let shapes =
        [Shape::Balanced { fan_out }, Shape::Zipf { fan_out_most: 2 + fan_out }, Shape::Flat, Shape::Chain];
    let bits = draw(random, 10);
    let files = random.below(1 << bits);
    let per_directory = 1 + random.below(6);
    Tree::new(pick(random, &shapes), files, random.next_u64()).with_files_per_directory(per_directory)
}

fn draw_costs(random: &mut Random) -> Costs {
    Costs {
        directory_ns: draw_ns(random, 18),
        entry_ns: draw_ns(random, 10),
        stat_ns: draw_ns(random, 17),
        send_ns: draw_ns(random, 12),
        receive_ns: draw_ns(random, 12),
        master_ns: draw_ns(random, 12),
    }
}

fn draw_network(random: &mut Random, ranks: u32, ranks_per_host: u32) -> Network {
    let hosts = ranks.div_ceil(ranks_per_host);
    let topologies = [
        Topology::Flat,
        Topology::FatTree { arity: 2 },
        Topology::torus(hosts),
        Topology::Dragonfly { hosts: 1, routers: 2 },
    ];
    Network {
        topology: pick(random, &topologies),
        ranks_per_host,
        base_ns: draw_ns(random, 16),
        hop_ns: draw_ns(random, 12),
        bytes_per_us: 1 + draw_ns(random, 14),
        shared_ns: draw_ns(random, 12),
        shared_bytes_per_us: 1 + draw_ns(random, 14),
    }
}

fn draw_config(random: &mut Random, seed: u64) -> Config {
    // Longer than reading the totals of all children takes.
    let progress = Duration::from_nanos(100_000 + draw_ns(random, 22));
    // Long enough that a job of a second does not consist of requests alone.
    let pause_first = Duration::from_nanos(4_000 + draw_ns(random, 16));
    Config {
        schedule: pick(random, &ScheduleKind::ALL),
        split: pick(random, &Split::ALL),
        termination: pick(random, &Termination::ALL),
        tree_width: 1 + draw(random, 5),
        progress_interval: pick(random, &[None, None, Some(progress)]),
        low_water: pick(random, &[0, 1, 1, 3]),
        pause_first,
        pause_most: pause_first * (16 + draw(random, 64)),
        quiet_interval: Duration::from_nanos(1 + draw_ns(random, 20)),
        seed,
        rules: Rules::default(),
    }
}

fn draw_disturbance(random: &mut Random, ranks: u32) -> Disturbance {
    let stop = (draw_ns(random, 24), draw(random, ranks));
    let jitter_ns = draw_ns(random, 20);
    Disturbance {
        jitter_ns: pick(random, &[0, jitter_ns, jitter_ns]),
        slow_one_in: pick(random, &[0, 0, 2, 5]),
        slow_factor: 1 + draw(random, 10),
        random_costs: draw(random, 2) == 0,
        duplicate_one_in: 0,
        addressed_one_in: 0,
        stop: (draw(random, 12) == 0).then_some(stop),
    }
}
